"""Proportional allocation, spanning forests and appended attributes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.draws import draw_given, spread_evenly
from lookalike.sampling.raking import forest_rows, peel_leaves, spanning_forest
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})


def targets_of(cliques: list[tuple[str, ...]], seed: int = 0) -> ConsistentMarginals:
    full = np.random.default_rng(seed).dirichlet(np.full(DOMAIN.cells(), 0.2)).reshape(DOMAIN.sizes) * 1000
    tables = tuple(full.sum(axis=tuple(i for i, n in enumerate(DOMAIN.names) if n not in c)) for c in cliques)
    return ConsistentMarginals(DOMAIN, tuple(cliques), tables, (0.0,) * len(cliques), 1000.0)


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


def test_drawn_attributes_follow_their_table_in_every_group() -> None:
    anchor = np.repeat([0, 1], [300, 100])
    table = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    values = draw_given(anchor, table, np.random.default_rng(0))
    assert np.abs(np.bincount(values[:300], minlength=3) - [100, 200, 0]).max() <= 1
    assert set(values[300:].tolist()) == {2}


def test_a_forest_reaches_every_attribute_after_its_anchor() -> None:
    forest = spanning_forest(targets_of([("a", "b"), ("b", "c"), ("a", "c")]))
    assert set(forest) == set(DOMAIN.names)
    seen: set[str] = set()
    for name, edge in forest.items():
        assert edge is None or edge[0] in seen
        seen.add(name)
    assert sum(edge is None for edge in forest.values()) == 2


def test_tree_structured_targets_are_met_by_the_forest_alone() -> None:
    targets = targets_of([("a", "b"), ("b", "c"), ("b", "d")])
    codes = forest_rows(targets, 5000, np.random.default_rng(0))
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        found = np.zeros(table.shape)
        np.add.at(found, tuple(codes[:, DOMAIN.position(name)] for name in clique), 1)
        assert np.abs(found - 5 * table).max() <= 3


def test_leaves_are_peeled_in_layers_and_the_core_is_left() -> None:
    cycle = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    core, leaves = peel_leaves(targets_of(cycle))
    assert core.cliques == (("a", "b"), ("b", "c"), ("a", "c"))
    assert {name: anchor for name, (anchor, _) in leaves.items()} == {"d": "c"}
    assert leaves["d"][1].shape == (2, 4)


def test_a_chain_peels_down_to_one_attribute_whose_counts_are_kept() -> None:
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
    assert known == set(DOMAIN.names)


def test_larger_cliques_are_not_peeled() -> None:
    core, leaves = peel_leaves(targets_of([("a", "b", "c"), ("c", "d")]))
    assert core.cliques == (("a", "b", "c"),)
    assert list(leaves) == ["d"]


def test_an_attribute_without_marginal_has_even_counts() -> None:
    assert targets_of([("a", "b")]).one_way("d") == pytest.approx([250.0] * 4)
