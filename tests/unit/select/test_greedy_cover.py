"""Sets that cover most error per price, and what they get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.schema.domain import Domain
from lookalike.select.candidate_sets import useful_candidates
from lookalike.select.greedy_cover import MeasuredSets, cover_sets, effective_cells, further_sets, top_up

BINARY = Domain(tuple("abcdef"), (2,) * 6)


def test_expected_empty_cells_are_nearly_free() -> None:
    oneways = {"a": np.array([50.0, 50.0]), "b": np.array([99.0, 1.0, 0.0])}
    cells = effective_cells([("a",), ("b",), ("a", "b")], oneways, 10.0)
    assert cells == pytest.approx([2.0, 1.1, 2.1])
    assert effective_cells([("b",)], {"b": np.array([1.0, 0.0])}, 1e6)[0] == 1.0


def test_a_dense_block_is_covered_by_one_set_and_noise_is_not_bought() -> None:
    errors = np.zeros((6, 6))
    errors[:4, :4] = 100.0
    errors[4, 5] = errors[5, 4] = 1.0
    candidates = useful_candidates(BINARY, [BINARY.names], 64, np.random.default_rng(0), fewest=2)
    prices = candidates.cells ** (2 / 3)
    picked = candidates.cliques(cover_sets(candidates, prices, errors, 1.0, 0.8))
    assert picked == [("a", "b", "c", "d")]
    everything = candidates.cliques(cover_sets(candidates, prices, errors, 1e6, 0.8))
    assert {frozenset("ef")} == {frozenset(clique) & frozenset("ef") for clique in everything[1:]}
    assert cover_sets(candidates, prices, -errors, 1.0, 0.8) == []


def test_further_sets_count_what_they_share_only_once() -> None:
    cliques = [("a", "b", "c"), ("a", "b", "d"), ("d", "e", "f")]
    prices = np.full(3, 4.0)
    errors = np.array([100.0, 90.0, 80.0])
    assert further_sets(cliques, errors, prices, 0.0, 1.0, 0.8) == [0, 2, 1]
    assert further_sets(cliques, errors, prices, 0.0, 1e-4, 0.8) == []
    assert further_sets([("a",)], np.array([9.0]), np.ones(1), 0.0, 1.0, 0.8) == []


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(1e-4, 10.0))
def test_top_up_spends_all_and_comes_nearest_to_shares_by_price(count: int, seed: int, rho: float) -> None:
    rng = np.random.default_rng(seed)
    prices, spent = rng.uniform(0.1, 5.0, count), rng.uniform(0.0, 3.0, count) * rng.integers(0, 2, count)
    added = top_up(prices, spent, rho)
    assert added.sum() == pytest.approx(rho)
    assert (added >= 0).all()
    level = ((spent + added) / prices)[added > 0]
    # Additions that would have been tiny are left out, so shares by price hold to a thousandth of the mean addition.
    slack = 2e-3 * rho / prices.min()
    assert np.ptp(level) <= slack
    assert (spent / prices >= level.max() - slack)[added == 0].all()


def test_measured_sets_take_in_what_is_worth_it_and_spend_exactly() -> None:
    measured = MeasuredSets([("a", "b"), ("c", "d")], np.array([1.0, 1.0]), np.array([3.0, 1.0]))
    further = [("a", "c", "d"), ("b", "e", "f")]
    assert measured.worth_adding(further, np.array([100.0, -5.0]), np.array([2.0, 2.0]), 1.0, 0.8) == [0]
    cliques, shares = measured.topped_up(further[:1], np.array([2.0]), 2.0)
    assert cliques == [("c", "d"), ("a", "c", "d")] or cliques == [("a", "c", "d")]
    assert shares.sum() == pytest.approx(2.0)
    assert measured.spent.sum() == pytest.approx(6.0)
    assert measured.cliques == [("a", "b"), ("c", "d"), ("a", "c", "d")]
    np.testing.assert_allclose(measured.topped_up([], np.zeros(0), 1e9)[1].sum(), 1e9)
