"""Pairs against the objective computed the long way, and larger sets that hold them against brute force."""

from __future__ import annotations

import time
from itertools import chain, combinations

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.selection.pair_selection import (
    above_noise,
    candidate_pairs,
    combine_cliques,
    connect_isolated,
    cover_pairs,
    greedy_pairs,
    in_batches,
    independent_tables,
)
from lookalike.selection.steps import noise_error


def objective(chosen: tuple[int, ...], scores: np.ndarray, cells: np.ndarray, rho: float) -> float:
    left_out = sum(max(float(s), 0.0) for i, s in enumerate(scores) if i not in chosen)
    return left_out + (noise_error(float((cells[list(chosen)] ** (2 / 3)).sum()), rho) if chosen else 0.0)


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


def random_graph(seed: int) -> tuple[Domain, list[tuple[str, str]]]:
    rng = np.random.default_rng(seed)
    domain = Domain(tuple("abcdefgh"), tuple(int(s) for s in rng.integers(2, 7, 8)))
    return domain, [pair for pair in candidate_pairs(domain) if rng.random() < 0.65]


def admissible(domain: Domain, pairs: set[tuple[str, str]], used: set[str], max_cells: int) -> list[tuple[str, ...]]:
    every = (c for size in range(3, len(domain) + 1) for c in combinations(domain.names, size))
    return [
        c
        for c in every
        if domain.cells(c) <= max_cells and len(used & set(c)) <= 2 and all(p in pairs for p in combinations(c, 2))
    ]


@pytest.mark.parametrize("seed", range(15))
def test_algorithm_2_always_takes_a_largest_admissible_clique(seed: int) -> None:
    domain, pairs = random_graph(seed)
    used: set[str] = set()
    taken = combine_cliques(domain, pairs, max_cells=300)
    for clique in [c for c in taken if len(c) > 2]:
        options = admissible(domain, set(pairs), used, 300)
        assert clique in options
        assert len(clique) == max(len(c) for c in options)
        used |= set(clique)
    held = {pair for clique in taken for pair in combinations(clique, 2)}
    assert held == set(pairs)
    assert sum(1 for clique in taken if len(clique) == 2) == sum(
        not any(set(pair) <= set(c) for c in taken if len(c) > 2) for pair in pairs
    )


@pytest.mark.parametrize("seed", range(15))
def test_a_cover_holds_all_pairs_and_no_others_and_weighs_less(seed: int) -> None:
    domain, pairs = random_graph(seed)
    cover = cover_pairs(domain, pairs, max_cells=300)
    assert {pair for clique in cover for pair in combinations(clique, 2)} == set(pairs)
    assert all(domain.cells(clique) <= 300 for clique in cover)
    assert sum(domain.cells(c) ** (2 / 3) for c in cover) <= sum(domain.cells(p) ** (2 / 3) for p in pairs) + 1e-9


def test_wide_binary_tables_are_covered_by_few_sets_and_wide_columns_stay_in_pairs() -> None:
    binary = Domain(tuple(f"c{i}" for i in range(16)), (2,) * 16)
    assert len(cover_pairs(binary, candidate_pairs(binary))) < 30
    wide = Domain(tuple("abcd"), (16,) * 4)
    assert cover_pairs(wide, candidate_pairs(wide)) == candidate_pairs(wide)


@pytest.mark.parametrize("join", [combine_cliques, cover_pairs])
def test_a_complete_graph_of_sixty_attributes_does_not_explode(join: object) -> None:
    domain = Domain(tuple(f"c{i}" for i in range(60)), tuple(2 + i % 4 for i in range(60)))
    began = time.process_time()
    cliques = join(domain, candidate_pairs(domain))  # type: ignore[operator]
    assert time.process_time() - began < 10
    assert {p for c in cliques for p in combinations(c, 2)} == set(candidate_pairs(domain))
