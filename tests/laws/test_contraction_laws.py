"""Marginals of random networks equal those of the full joint table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.engine.contraction import Network
from lookalike.engine.planner import make_plan
from lookalike.schema.domain import Domain


@st.composite
def networks(draw):
    """A small domain, some cliques, and a seed for potentials."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    domain = Domain(tuple(f"v{i}" for i in range(len(sizes))), tuple(sizes))
    clique = st.lists(st.sampled_from(domain.names), min_size=1, max_size=4, unique=True)
    cliques = draw(st.lists(clique, min_size=1, max_size=7))
    return domain, cliques, draw(st.integers(0, 2**32 - 1))


def brute_force(network: Network, potentials: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-normaliser over all attributes and the joint table."""
    domain = network.plan.domain
    joint = np.zeros(domain.sizes)
    for leaf, names in enumerate(network.plan.leaves):
        table = network.unpack(leaf, potentials)
        joint = joint + table.reshape([domain.size(name) if name in names else 1 for name in domain.names])
    top = joint.max()
    if np.isneginf(top):
        return -np.inf, joint
    log_z = top + np.log(np.exp(joint - top).sum())
    return log_z, np.exp(joint - log_z)


@pytest.mark.parametrize("executor", ["numpy", "numba"])
@pytest.mark.parametrize("span", [1.0, 60.0, 400.0, 3000.0])
@pytest.mark.parametrize("share_impossible", [0.0, 0.2])
@settings(max_examples=25, deadline=None)
@given(case=networks())
def test_marginals_equal_brute_force(case, executor, span, share_impossible):
    domain, cliques, seed = case
    rng = np.random.default_rng(seed)
    plan = make_plan(domain, cliques, seed=seed)
    cells = sum(domain.cells(leaf) for leaf in plan.leaves)
    impossible = rng.random(cells) < share_impossible
    network = Network(plan, impossible=impossible, executor=executor)
    potentials = rng.uniform(-span, 0.0, cells)
    log_z, joint = brute_force(network, np.where(impossible, -np.inf, potentials))
    if np.isneginf(log_z):
        return
    covered = {name for leaf in plan.leaves for name in leaf}
    free = domain.cells([name for name in domain.names if name not in covered])
    assert network.sweep(potentials) + np.log(free) == pytest.approx(log_z, rel=1e-9, abs=1e-9)
    for leaf, names in enumerate(plan.leaves):
        other = tuple(axis for axis, name in enumerate(domain.names) if name not in names)
        np.testing.assert_allclose(network.unpack(leaf, network.marginals), joint.sum(axis=other), rtol=0, atol=1e-9)
