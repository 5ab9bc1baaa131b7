"""Parent sets: exactly the maximal ones where they can be listed, some of them where not."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.selection import parent_sets as module
from lookalike.selection.parent_sets import Family, binary_degree, family_candidates, parent_sets


def as_sets(rows: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(row).tolist()) for row in rows}


def by_hand(sizes: list[int], limit: float, degree: int, maximal: bool) -> set[frozenset[int]]:
    every = [frozenset(s) for s in chain(*(combinations(range(len(sizes)), k) for k in range(degree + 1)))]
    allowed = {s for s in every if np.prod([sizes[i] for i in s]) <= limit or not s}
    return {s for s in allowed if not maximal or not any(s < other for other in allowed)}


@pytest.mark.parametrize("maximal", [True, False])
@pytest.mark.parametrize("degree", [0, 1, 2, 6])
@pytest.mark.parametrize("limit", [0.5, 1.0, 6.0, 24.0, 1e9])
def test_lists_the_sets_that_fit(limit: float, degree: int, maximal: bool) -> None:
    sizes = [2, 3, 4, 2, 7, 1]
    rng = np.random.default_rng(0)
    assert as_sets(parent_sets(sizes, limit, degree, 10_000, rng, maximal=maximal)) == by_hand(
        sizes, limit, degree, maximal
    )


def test_no_columns_leave_the_empty_set() -> None:
    assert parent_sets([], 10.0, 3, 10, np.random.default_rng(0)).shape == (1, 0)


@pytest.mark.parametrize("maximal", [True, False])
def test_draws_from_the_same_sets_where_they_are_many(monkeypatch: pytest.MonkeyPatch, maximal: bool) -> None:
    sizes, rng = [2, 3, 4, 2, 7, 1, 2], np.random.default_rng(0)
    monkeypatch.setattr(module, "MAX_LISTED", 5)
    drawn = as_sets(parent_sets(sizes, 24.0, 4, 400, rng, maximal=maximal))
    allowed = by_hand(sizes, 24.0, 4, maximal)
    assert drawn <= allowed
    assert len(drawn) > 0.8 * len(allowed)


def test_candidates_have_waiting_children_used_parents_and_at_most_the_cells() -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 4, "d": 5, "e": 50})
    rng = np.random.default_rng(0)
    found = family_candidates(domain, ["c", "a"], ["b", "d", "e"], 24.0, 5, 100, rng)
    assert set(found) == {Family("b", ("a", "c")), Family("d", ("a",)), Family("d", ("c",)), Family("e", ())}
    assert len(family_candidates(domain, ["c", "a"], ["b", "d", "e"], 24.0, 5, 2, rng)) == 2


def test_degree_of_binary_tables_is_the_largest_useful_one() -> None:
    assert binary_degree(10, lambda marginals: 16.0) == 3
    assert binary_degree(10, lambda marginals: 16.0 if marginals <= 7 else 15.0) == 3
    assert binary_degree(10, lambda marginals: 16.0 if marginals <= 6 else 15.0) == 2
    assert binary_degree(10, lambda marginals: 0.1) == 0
    assert binary_degree(3, lambda marginals: 1e9) == 2
