"""Candidates and merits of PrivMRF against brute force."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.candidate_sets import (
    initial_sets,
    merits,
    random_larger_sets,
    random_triples,
    useful_candidates,
)
from lookalike.selection.pair_selection import pair_matrix
from lookalike.selection.pricing import useful_cells

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 4, 2, 5))
BINARY = Domain(tuple("abcde"), (2,) * 5)
CLIQUES = [("a", "b", "c"), ("b", "c", "d"), ("d", "e")]


def brute_force(limit: float, min_attrs: int, max_attrs: int) -> set[tuple[str, ...]]:
    found = set()
    for clique in CLIQUES:
        for k in range(min_attrs, min(max_attrs, len(clique)) + 1):
            found |= {s for s in combinations(clique, k) if k == 1 or DOMAIN.cells(s) <= limit}
    return found


@pytest.mark.parametrize(
    ("limit", "min_attrs", "max_attrs"), [(24, 1, 10), (12, 1, 10), (24, 2, 2), (3, 1, 10), (3, 2, 10)]
)
def test_candidates_are_the_small_subsets_of_cliques_each_once(limit: float, min_attrs: int, max_attrs: int) -> None:
    found = useful_candidates(
        DOMAIN, CLIQUES, limit, np.random.default_rng(0), min_attrs=min_attrs, max_attrs=max_attrs
    )
    listed = found.cliques(range(len(found)))
    assert len(listed) == len(set(listed))
    assert set(listed) == brute_force(limit, min_attrs, max_attrs)
    assert np.allclose(found.cells, [DOMAIN.cells(clique) for clique in listed])


def test_too_many_candidates_are_thinned_at_random() -> None:
    wide = Domain(tuple(f"x{i}" for i in range(12)), (2,) * 12)
    found = useful_candidates(wide, [wide.names], 64, np.random.default_rng(0), max_sets=50)
    sizes = np.bincount(found.members.sum(axis=1))
    assert sizes[1] == 12
    assert sizes.max() == 50
    assert len(np.unique(found.members, axis=0)) == len(found)


def test_useful_cells_hold_theta_times_the_expected_noise() -> None:
    assert useful_cells(1000.0, 10.0, 5.0) == pytest.approx(1000 / (5 * 10 * math.sqrt(2 / math.pi)))
    assert useful_cells(-3.0, 10.0, 5.0) == 0.0


def test_merits_follow_equation_8() -> None:
    rng = np.random.default_rng(1)
    association = rng.uniform(0, 1, (5, 5))
    association = (association + association.T) / 2
    found = useful_candidates(DOMAIN, [DOMAIN.names], 1e9, rng)
    for attribute in range(5):
        got = merits(found, attribute, association)
        for index in range(len(found)):
            inside = np.flatnonzero(found.members[index])
            others = [i for i in inside if i != attribute]
            if attribute not in inside or not others:
                assert got[index] == -np.inf
                continue
            redundancy = sum(association[i, j] for i in others for j in others if i != j)
            wanted = sum(association[attribute, i] for i in others) / math.sqrt(len(inside) + redundancy)
            assert got[index] == pytest.approx(wanted, rel=1e-4)


def test_every_attribute_starts_with_a_set_of_its_own() -> None:
    association = np.full((5, 5), 0.1)
    association[0, 1] = association[1, 0] = 0.9
    found = useful_candidates(DOMAIN, CLIQUES, 24, np.random.default_rng(0))
    picked = initial_sets(found, association)
    assert len(picked) == len(set(picked)) == 5
    assert {"a", "b"} <= set(found.clique(picked[0]))
    for attribute, index in enumerate(picked):
        assert found.members[index, attribute]
    alone = useful_candidates(DOMAIN, CLIQUES, 1, np.random.default_rng(0))
    assert alone.cliques(initial_sets(alone, association)) == [(name,) for name in DOMAIN.names]


def test_candidates_grow_along_large_errors_and_avoid_known_sets() -> None:
    pairs = [("a", "b"), ("b", "c"), ("d", "e"), ("c", "d")]
    errors = pair_matrix(BINARY, pairs, np.array([10.0, 8.0, 1.0, 3.0]))

    def found(known: list[ColumnSet], max_cells: int, order: int) -> list[ColumnSet]:
        rng = np.random.default_rng(0)
        fits = lambda clique: BINARY.cells(clique) <= max_cells  # noqa: E731
        return random_larger_sets(BINARY, errors, known, fits, rng, max_attrs=order, max_sets=10)

    assert set(found([], 16, 4)) == {("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("a", "b", "c", "d"),
                                     ("b", "c", "d", "e")}  # fmt: skip
    assert set(found([("a", "b", "c", "d")], 16, 4)) == {("c", "d", "e"), ("b", "c", "d", "e")}
    assert {len(clique) for clique in found([], 8, 4)} == {3}
    assert found([], 4, 4) == []
    assert found([], 16, 2) == []


def test_candidates_need_a_positive_error() -> None:
    rng = np.random.default_rng(0)
    assert random_larger_sets(BINARY, -np.ones((5, 5)), [], lambda clique: True, rng, max_attrs=4, max_sets=5) == []


def test_triples_are_all_those_within_the_limits_that_no_known_set_holds() -> None:
    apart = np.ones((5, 5), dtype=bool)
    apart[0, 4] = apart[4, 0] = False

    def found(known: list[ColumnSet], **limits: int) -> set[ColumnSet]:
        within = {"min_cells": 12, "max_cells": 40, "max_sets": 100} | limits
        return set(
            random_triples(DOMAIN, apart, known, lambda clique: "d" in clique, np.random.default_rng(0), **within)
        )

    assert found([]) == {("a", "c", "d"), ("b", "c", "d"), ("b", "d", "e"), ("c", "d", "e")}
    assert found([("a", "b", "c", "d")]) == {("b", "d", "e"), ("c", "d", "e")}
    assert found([], min_cells=11) - found([]) == {("a", "b", "d")}
    assert len(found([], max_sets=2)) == 2
    assert found([], max_sets=0) == set()
