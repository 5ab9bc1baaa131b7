"""Numerical safety: a result that underflow may have changed is noticed and never returned."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.engine.contraction import Network
from lookalike.engine.planner import make_plan
from lookalike.schema.domain import Domain

EXECUTORS = ["numpy", "numba"]
CHAIN = Domain(("a", "b", "c", "d", "e"), (3, 3, 3, 3, 3))
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


def brute_force(network: Network, potentials: np.ndarray) -> tuple[float, np.ndarray]:
    domain = network.plan.domain
    joint = np.zeros(domain.sizes)
    for leaf, names in enumerate(network.plan.leaves):
        shape = [domain.size(name) if name in names else 1 for name in domain.names]
        joint = joint + network.unpack(leaf, potentials).reshape(shape)
    log_z = joint.max() + np.log(np.exp(joint - joint.max()).sum())
    return log_z, np.exp(joint - log_z)


def check(network: Network, potentials: np.ndarray, impossible: np.ndarray | None = None) -> None:
    log_z = network.sweep(potentials)
    full = potentials if impossible is None else np.where(impossible, -np.inf, potentials)
    expected, joint = brute_force(network, full)
    assert log_z == pytest.approx(expected, rel=1e-10)
    for leaf, names in enumerate(network.plan.leaves):
        other = tuple(i for i, name in enumerate(network.plan.domain.names) if name not in names)
        found = network.unpack(leaf, network.marginals)
        np.testing.assert_allclose(found, joint.sum(axis=other), rtol=0, atol=1e-9)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seed", range(8))
def test_spikes_that_disagree_between_factors_fall_back_to_log_space(executor, seed):
    """Each factor puts its peak where its neighbours are tiny: plain exponentials lose the answer silently."""
    network = Network(make_plan(CHAIN, PAIRS), executor=executor)
    rng = np.random.default_rng(seed)
    potentials = np.where(rng.random(network.layout.leaf_cells) < 0.2, 0.0, -500.0 - rng.random())
    check(network, potentials)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_answer_far_below_the_largest_double_range_is_exact(executor):
    """The only combination without a penalty of 900 nats in some factor is ruled out by another factor."""
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    network = Network(make_plan(domain, [("a", "b"), ("b", "c"), ("a", "c")]), executor=executor)
    potentials = np.zeros(12)
    for leaf, names in enumerate(network.plan.leaves):
        table = np.array([[0.0, -900.0], [-900.0, 0.0]] if names != ("a", "c") else [[-900.0, 0.0], [0.0, -900.0]])
        potentials[4 * leaf : 4 * leaf + 4] = network.pack(leaf, table)
    check(network, potentials)
    assert network.used_log_space == 1


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("size", [1e12, 1e18, 1e300])
def test_marginals_of_huge_potentials_are_shares(executor, size):
    """A search may try a step far too long: sums of such potentials are rounded by more than an exponential holds."""
    network = Network(make_plan(CHAIN, PAIRS), executor=executor)
    for seed in range(20):
        network.sweep(np.random.default_rng(seed).uniform(-size, size, network.layout.leaf_cells))
        for leaf in range(len(network.plan.leaves)):
            assert network.marginals[network.layout.leaf_part(leaf)].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seed", range(6))
def test_structural_zeros_and_wide_spans_together(executor, seed):
    rng = np.random.default_rng(seed)
    plan = make_plan(CHAIN, PAIRS)
    impossible = rng.random(36) < 0.25
    network = Network(plan, impossible=impossible, executor=executor)
    potentials = rng.uniform(-400.0, 400.0, 36)
    expected, _ = brute_force(network, np.where(impossible, -np.inf, potentials))
    if np.isfinite(expected):
        check(network, potentials, impossible)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_moderate_spans_need_no_log_space(executor):
    network = Network(make_plan(CHAIN, PAIRS), executor=executor)
    potentials = np.random.default_rng(0).uniform(-60.0, 60.0, network.layout.leaf_cells)
    check(network, potentials)
    assert network.used_log_space == 0


def test_executors_agree_to_rounding():
    domain = Domain(tuple("abcdefg"), (4, 7, 2, 5, 3, 6, 2))
    cliques = [("a", "b", "c"), ("b", "d", "e"), ("a", "e", "f"), ("c", "f"), ("d", "g"), ("a", "g")]
    plan = make_plan(domain, cliques)
    one, two = Network(plan, executor="numpy"), Network(plan, executor="numba")
    potentials = np.random.default_rng(1).normal(size=one.layout.leaf_cells)
    assert one.sweep(potentials) == pytest.approx(two.sweep(potentials), rel=1e-13)
    np.testing.assert_allclose(one.marginals, two.marginals, rtol=1e-12)


def test_a_network_without_factors_is_trivial():
    assert Network(make_plan(CHAIN, [])).sweep(np.zeros(0)) == 0.0
