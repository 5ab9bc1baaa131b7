"""The greedy selection against its objective computed the long way, and what happens to attributes left alone."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.select.allocation import expected_noise_error
from lookalike.select.dense import (
    above_noise,
    candidate_pairs,
    connect_isolated,
    greedy_pairs,
    in_batches,
    independent_tables,
)


def objective(chosen: tuple[int, ...], scores: np.ndarray, cells: np.ndarray, rho: float) -> float:
    left_out = sum(max(float(s), 0.0) for i, s in enumerate(scores) if i not in chosen)
    return left_out + (expected_noise_error(cells[list(chosen)], rho) if chosen else 0.0)


def slow_greedy(scores: np.ndarray, cells: np.ndarray, rho: float) -> list[int]:
    chosen: list[int] = []
    while True:
        options = [i for i in range(len(scores)) if i not in chosen]
        if not options:
            return chosen
        best = min(options, key=lambda i: objective((*chosen, i), scores, cells, rho))
        if objective((*chosen, best), scores, cells, rho) >= objective(tuple(chosen), scores, cells, rho):
            return chosen
        chosen.append(best)


@pytest.mark.parametrize("seed", range(20))
def test_closed_form_picks_what_the_definition_picks_and_comes_near_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, cells = rng.gamma(1.0, 400, 9) - 50, rng.integers(4, 200, 9)
    picked = greedy_pairs(scores, cells, 0.02)
    assert picked == slow_greedy(scores, cells, 0.02)
    every = chain.from_iterable(combinations(range(9), k) for k in range(10))
    optimum = min(objective(chosen, scores, cells, 0.02) for chosen in every)
    assert objective(tuple(picked), scores, cells, 0.02) <= 1.05 * optimum


def test_more_budget_selects_more_and_negative_scores_are_never_selected() -> None:
    scores, cells = np.array([500.0, 300.0, 100.0, -200.0]), np.array([16, 16, 16, 16])
    sizes = [len(greedy_pairs(scores, cells, rho)) for rho in (1e-4, 0.01, 10.0)]
    assert sizes == [0, 2, 3]
    assert greedy_pairs(scores, cells, 0.01, noise_weight=0.1) == [0, 1, 2]


def test_isolated_attributes_join_the_partner_of_highest_score_that_is_selected() -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2, "d": 2})
    scores = dict.fromkeys(candidate_pairs(domain), 1.0)
    scores |= {("a", "c"): 5.0, ("c", "d"): 9.0, ("b", "d"): 3.0}
    assert connect_isolated(domain, [("a", "b")], scores) == [("a", "b"), ("a", "c"), ("b", "d")]


def test_without_any_pick_all_join_the_first_and_unscored_attributes_stay_alone() -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2000})
    assert connect_isolated(domain, [], {("a", "b"): 0.5}) == [("a", "b")]


def test_candidates_and_batches_respect_their_limits() -> None:
    domain = Domain.of({"a": 10, "b": 20, "c": 30})
    assert candidate_pairs(domain, 300) == [("a", "b"), ("a", "c")]
    assert in_batches(domain, candidate_pairs(domain), 500) == [[("a", "b"), ("a", "c")], [("b", "c")]]


def test_noise_alone_leaves_few_pairs_of_wide_tables_and_none_is_cut_in_narrow_ones() -> None:
    noise = np.random.default_rng(0).normal(0, 50.0, 19_900)
    left = int((above_noise(noise, 50.0, 200) > 0).sum())
    assert 600 < left < 1000
    assert above_noise(np.array([1.0, 99.0]), 50.0, 15).tolist() == [1.0, 99.0]


def test_independent_tables_have_the_given_one_ways() -> None:
    oneways = {"a": np.array([30.0, 70.0]), "b": np.array([50.0, 25.0, 25.0])}
    (table,) = independent_tables([("a", "b")], oneways, 100.0)
    np.testing.assert_allclose(table.sum(axis=1), oneways["a"])
    np.testing.assert_allclose(table[0], [15.0, 7.5, 7.5])
