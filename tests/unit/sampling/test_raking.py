"""Raking: starting rows, spanning forests, appended columns; targets are fitted and weights never collapse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.draws import draw_given, spread_evenly
from lookalike.sampling.raking import (
    Raking,
    forest_rows,
    peel_leaves,
    rake,
    raked_rows,
    soft_log_ratio,
    spanning_forest,
)
from lookalike.sampling.row_update import mean_l1
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 3, "b": 3, "c": 3})
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))


def pair_targets(full: np.ndarray, stddev: float = 0.0) -> ConsistentMarginals:
    tables = tuple(full.sum(axis=axis) for axis in (2, 1, 0))
    return ConsistentMarginals(DOMAIN, PAIRS, tables, (stddev,) * 3, float(full.sum()))


@settings(max_examples=200, deadline=None)
@given(st.floats(-50, 1e5), st.floats(0.01, 1e5), st.floats(0, 500))
def test_the_cell_equation_is_solved_within_its_limits(wanted: float, count: float, pull: float) -> None:
    (f,) = soft_log_ratio(np.array([wanted]), np.array([count]), pull)
    if abs(f) < 6:
        assert count * np.exp(f) + pull * f == pytest.approx(wanted, rel=1e-6, abs=1e-6 * (count + pull))
    else:
        assert np.sign(f) == np.sign(wanted - count * np.exp(f) - pull * f)


def test_empty_cells_keep_factor_one() -> None:
    np.testing.assert_array_equal(soft_log_ratio(np.array([5.0]), np.array([0.0]), 1.0), [0.0])


def test_exact_targets_that_no_tree_has_are_fitted() -> None:
    full = np.random.default_rng(0).gamma(0.5, 100, (3, 3, 3))
    targets = pair_targets(full)
    codes, fit = raked_rows(targets, 20_000, np.random.default_rng(1), Raking(sweeps=30))
    assert fit.carried
    assert mean_l1(codes, targets) < 0.01


def test_the_weighted_pool_has_the_smoothed_targets_and_more_noise_means_less_bending() -> None:
    full = np.random.default_rng(2).gamma(0.5, 100, (3, 3, 3))
    pool = np.random.default_rng(3).integers(0, 3, (30_000, 3)).astype(np.int32)
    spreads = []
    for stddev in (0.0, 30.0, 300.0):
        fit = rake(pair_targets(full, stddev), pool, Raking(sweeps=200))
        weighted = np.zeros((3, 3))
        np.add.at(weighted, (pool[:, 0], pool[:, 1]), fit.weights * full.sum() / len(pool))
        np.testing.assert_allclose(weighted, fit.smoothed.tables[0], atol=0.02 * full.sum())
        spreads.append(float(np.log(fit.weights).std()))
    assert spreads[0] > spreads[1] > spreads[2]


def test_weights_are_flattened_when_too_few_rows_would_carry_them() -> None:
    full = np.full((3, 3, 3), 0.01)
    full[0, 0, 0] = 1000.0
    pool = np.random.default_rng(4).integers(0, 3, (2700, 3)).astype(np.int32)
    fit = rake(pair_targets(full), pool, Raking(), min_effective=1000)
    assert not fit.carried
    assert fit.weights.sum() ** 2 / (fit.weights**2).sum() >= 1000


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="smoothing"):
        Raking(smoothing=-1.0)
    with pytest.raises(ValueError, match="pool_factor"):
        Raking(pool_factor=0)


FOUR = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})


def targets_of(cliques: list[tuple[str, ...]], seed: int = 0) -> ConsistentMarginals:
    full = np.random.default_rng(seed).dirichlet(np.full(FOUR.cells(), 0.2)).reshape(FOUR.sizes) * 1000
    tables = tuple(full.sum(axis=tuple(i for i, n in enumerate(FOUR.names) if n not in c)) for c in cliques)
    return ConsistentMarginals(FOUR, tuple(cliques), tables, (0.0,) * len(cliques), 1000.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.integers(0, 200), st.integers(0, 2**32))
def test_values_come_as_often_as_their_share_to_within_a_row(weights: list[float], rows: int, seed: int) -> None:
    values = spread_evenly(np.array(weights), rows, np.random.default_rng(seed))
    assert len(values) == rows
    total = sum(weights)
    if total > 0:
        exact = np.array(weights) * (rows / total)
        assert np.abs(np.bincount(values, minlength=len(weights)) - exact).max() <= 1 + 1e-6
        assert all(weights[value] > 0 for value in set(values.tolist()))


def test_drawn_columns_follow_their_table_in_every_group() -> None:
    anchor = np.repeat([0, 1], [300, 100])
    table = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    values = draw_given(anchor, table, np.random.default_rng(0))
    assert np.abs(np.bincount(values[:300], minlength=3) - [100, 200, 0]).max() <= 1
    assert set(values[300:].tolist()) == {2}


def test_a_forest_reaches_every_column_after_its_anchor() -> None:
    forest = spanning_forest(targets_of([("a", "b"), ("b", "c"), ("a", "c")]))
    assert set(forest) == set(FOUR.names)
    drawn: set[str] = set()
    for name, edge in forest.items():
        assert edge is None or edge[0] in drawn
        drawn.add(name)
    assert sum(edge is None for edge in forest.values()) == 2


def test_tree_structured_targets_are_met_by_the_forest_alone() -> None:
    targets = targets_of([("a", "b"), ("b", "c"), ("b", "d")])
    codes = forest_rows(targets, 5000, np.random.default_rng(0))
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        found = np.zeros(table.shape)
        np.add.at(found, tuple(codes[:, FOUR.position(name)] for name in clique), 1)
        assert np.abs(found - 5 * table).max() <= 3


def test_leaves_are_peeled_in_layers_and_the_core_is_left() -> None:
    cycle = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    core, leaves = peel_leaves(targets_of(cycle))
    assert core.cliques == (("a", "b"), ("b", "c"), ("a", "c"))
    assert {name: anchor for name, (anchor, _) in leaves.items()} == {"d": "c"}
    assert leaves["d"][1].shape == (2, 4)


def test_a_chain_peels_down_to_one_column_whose_counts_are_kept() -> None:
    targets = targets_of([("a", "b"), ("b", "c"), ("c", "d")])
    core, leaves = peel_leaves(targets)
    assert len(core.domain) == 1
    (last,) = core.domain.names
    assert core.cliques == ((last,),)
    np.testing.assert_allclose(core.one_way(last), targets.one_way(last))
    known = {last}
    for name, (anchor, _) in leaves.items():
        assert anchor in known
        known.add(name)
    assert known == set(FOUR.names)


def test_larger_column_sets_are_not_peeled() -> None:
    core, leaves = peel_leaves(targets_of([("a", "b", "c"), ("c", "d")]))
    assert core.cliques == (("a", "b", "c"),)
    assert list(leaves) == ["d"]


def test_a_column_without_marginal_has_even_counts() -> None:
    assert targets_of([("a", "b")]).one_way("d") == pytest.approx([250.0] * 4)
