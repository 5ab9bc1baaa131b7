"""Sets that cover most error per weight, and what they get."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.candidate_sets import Candidates, useful_candidates
from lookalike.selection.greedy_cover import GrownSets, ListedSets, MeasuredSets, ScoredSets, SetLimits, greedy_cover
from lookalike.selection.pair_selection import pair_matrix
from lookalike.selection.pricing import EffectiveCells, half_noise
from lookalike.selection.steps import noise_error

SIX = Domain(tuple("abcdef"), (2,) * 6)
FIVE = Domain(tuple("abcde"), (2,) * 5)


def matrix(domain: Domain, errors: dict[ColumnSet, float]) -> np.ndarray:
    return pair_matrix(domain, list(errors), np.array(list(errors.values())))


def listed(candidates: Candidates, errors: np.ndarray, rho: float) -> list[ColumnSet]:
    return candidates.cliques(greedy_cover(ListedSets(candidates, candidates.cells ** (2 / 3), errors), rho, 0.8)[0])


def grown(errors: np.ndarray, rho: float, order: int = 4) -> tuple[list[ColumnSet], np.ndarray]:
    oneways = {name: np.full(2, 500.0) for name in FIVE.names}
    offers = GrownSets(FIVE, errors, EffectiveCells(oneways, 1000.0, 10.0), SetLimits(order))
    chosen, weights = greedy_cover(offers, rho, 0.8, at_least_one=True)
    return [offers.names(key) for key in chosen], weights


def test_a_dense_block_is_covered_by_one_set_and_noise_is_not_bought() -> None:
    errors = np.zeros((6, 6))
    errors[:4, :4] = 100.0
    errors[4, 5] = errors[5, 4] = 1.0
    candidates = useful_candidates(SIX, [SIX.names], 64, np.random.default_rng(0), min_attrs=2)
    assert listed(candidates, errors, 1.0) == [("a", "b", "c", "d")]
    everything = listed(candidates, errors, 1e6)
    assert {frozenset("ef")} == {frozenset(clique) & frozenset("ef") for clique in everything[1:]}
    assert listed(candidates, -errors, 1.0) == []
    assert listed(candidates.where(candidates.cells < 0), errors, 1.0) == []


def test_the_noise_that_a_set_adds_is_its_price_at_the_price_that_spends_the_budget() -> None:
    # y = 3 (a/2)^(2/3) eta^(1/3) at the eta for which sum (a/(2 eta))^(2/3) = 2 rho, for many sets beside a small one.
    cells, own, rho, caution = np.array([40.0, 90.0, 700.0]), 2.0, 0.3, 0.8
    weight = float((cells ** (2 / 3)).sum())
    eta = float((half_noise(np.append(cells, own), caution) ** (2 / 3)).sum() / (2 * rho)) ** 1.5
    price = 3 * half_noise(own, caution) ** (2 / 3) * eta ** (1 / 3)
    added = caution * (noise_error(weight + own ** (2 / 3), rho) - noise_error(weight, rho))
    assert added == pytest.approx(price, rel=0.02)


def test_price_and_precision_are_the_best_compromise() -> None:
    half, eta = half_noise(3.0, 0.8), 7.0
    precisions = np.geomspace(1e-3, 1e3, 200_001)
    least = float((2 * half / np.sqrt(precisions) + eta * precisions).min())
    assert 3 * half ** (2 / 3) * eta ** (1 / 3) == pytest.approx(least, rel=1e-6)


def test_a_pair_is_taken_only_if_its_error_exceeds_the_noise_it_adds() -> None:
    errors = matrix(FIVE, {("a", "b"): 100.0, ("c", "d"): 1.0})
    both = noise_error(2 * 4 ** (2 / 3), 1.0) - noise_error(4 ** (2 / 3), 1.0)
    rho = (0.8 * both) ** 2
    assert grown(errors, rho * 0.99, 2)[0] == [("a", "b")]
    assert grown(errors, rho * 1.01, 2)[0] == [("a", "b"), ("c", "d")]


def test_the_first_set_is_taken_whatever_its_noise_where_one_is_wanted() -> None:
    errors = matrix(FIVE, {("a", "b"): 1.0})
    assert grown(errors, 1e-9)[0] == [("a", "b")]
    assert grown(np.full((5, 5), -3.0), 1.0)[0] == []


def test_related_pairs_are_covered_by_one_set() -> None:
    names = ("a", "b", "c", "d")
    errors = matrix(FIVE, {(x, y): 100.0 for i, x in enumerate(names) for y in names[i + 1 :]})
    assert grown(errors, 0.01)[0] == [names]
    assert len(grown(errors, 0.5, 2)[0]) == 6


def test_more_budget_buys_more_sets() -> None:
    rng = np.random.default_rng(0)
    noise = np.triu(rng.exponential(30.0, (5, 5)), 1)
    few, many = (grown(noise + noise.T, rho, 2) for rho in (1e-4, 1.0))
    assert 1 <= len(few[0]) <= len(many[0])
    assert len(many[0]) > 5
    assert len(many[1]) == len(many[0])


def test_further_sets_count_what_they_share_only_once() -> None:
    cliques = [("a", "b", "c"), ("a", "b", "d"), ("d", "e", "f")]
    errors, weights = np.array([100.0, 90.0, 80.0]), np.full(3, 4.0)

    def chosen(rho: float) -> list[int]:
        return greedy_cover(ScoredSets(cliques, errors, weights), rho, 0.8)[0]

    assert chosen(1.0) == [0, 2, 1]
    assert chosen(1e-4) == []
    assert greedy_cover(ScoredSets([("a",)], np.array([9.0]), np.ones(1)), 1.0, 0.8)[0] == []


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


def test_limits_must_allow_pairs() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        SetLimits(max_attrs=1)
    assert SetLimits().max_effective == math.inf
