"""Cliques of the pair graph: the paper's rule against brute force, the cover's promises, and no explosion."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.select.combine import combine_cliques, cover_pairs
from lookalike.select.dense import candidate_pairs


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
