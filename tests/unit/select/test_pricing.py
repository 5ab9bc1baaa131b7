"""The price rule and the cover search, on errors that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lookalike.schema.domain import Clique, Domain
from lookalike.select.candidate_sets import candidate_sets
from lookalike.select.pricing import CoverSearch, EffectiveCells, SetLimits, half_noise, price_at_budget

BINARY = Domain(("a", "b", "c", "d", "e"), (2, 2, 2, 2, 2))


def matrix(domain: Domain, errors: dict[tuple[str, str], float]) -> np.ndarray:
    result = np.zeros((len(domain), len(domain)))
    for (a, b), error in errors.items():
        i, j = domain.position(a), domain.position(b)
        result[i, j] = result[j, i] = error
    return result


def search(domain: Domain, errors: np.ndarray, order: int = 4) -> CoverSearch:
    oneways = {name: np.full(size, 1000.0 / size) for name, size in zip(domain.names, domain.sizes, strict=True)}
    return CoverSearch(domain, errors, EffectiveCells(domain, oneways, 1000.0, 10.0), SetLimits(order))


def test_effective_cells_count_only_cells_that_can_be_seen() -> None:
    oneways = {"a": np.array([990.0, 10.0]), "b": np.array([500.0, 500.0])}
    cells = EffectiveCells(Domain(("a", "b"), (2, 2)), oneways, 1000.0, 20.0)
    assert cells(("a",)) == pytest.approx(1 + 0.5)
    assert cells(("a", "b")) == pytest.approx(2 + 0.5)


def test_price_and_precision_are_the_best_compromise() -> None:
    finder = search(BINARY, np.zeros((5, 5)))
    a = 2 * half_noise(finder.cells(("a", "b")), finder.caution)
    eta = 7.0
    precisions = np.geomspace(1e-3, 1e3, 200_001)
    assert finder.price(("a", "b"), eta) == pytest.approx(
        float((a / np.sqrt(precisions) + eta * precisions).min()), rel=1e-6
    )


def test_a_pair_is_taken_only_if_its_error_exceeds_its_price() -> None:
    errors = matrix(BINARY, {("a", "b"): 100.0, ("c", "d"): 1.0})
    finder = search(BINARY, errors, order=2)
    eta = (50.0 / finder.price(("a", "b"), 1.0)) ** 3
    assert finder.at_price(eta) == [("a", "b")]
    assert finder.at_price(eta * 9) == []


def test_related_pairs_are_covered_by_one_set() -> None:
    names = ("a", "b", "c", "d")
    errors = matrix(BINARY, {(x, y): 100.0 for i, x in enumerate(names) for y in names[i + 1 :]})
    assert search(BINARY, errors).at_budget(0.01).cliques == [names]
    assert len(search(BINARY, errors, order=2).at_budget(0.5).cliques) == 6


def test_shares_add_up_and_more_budget_buys_more_sets() -> None:
    rng = np.random.default_rng(0)
    noise = np.triu(rng.exponential(30.0, (5, 5)), 1)
    finder = search(BINARY, noise + noise.T, order=2)
    few, many = finder.at_budget(1e-4), finder.at_budget(1.0)
    assert few.shares.sum() == pytest.approx(1.0)
    assert 1 <= len(few.cliques) <= len(many.cliques)
    assert len(many.cliques) > 5


def test_no_positive_error_means_no_set() -> None:
    assert search(BINARY, np.full((5, 5), -3.0)).at_budget(1.0).cliques == []


def test_bisection_finds_the_price_that_spends_the_budget() -> None:
    seen = []

    def precision(chosen: list[int], eta: float) -> float:
        seen.append(eta)
        return len(chosen) / eta

    assert price_at_budget(lambda eta: [1, 2, 3], precision, 1.5) == [1, 2, 3]
    assert math.isclose(seen[-1], 1.0, rel_tol=1e-3)


def test_candidates_grow_along_large_errors_and_avoid_known_sets() -> None:
    errors = matrix(BINARY, {("a", "b"): 10.0, ("b", "c"): 8.0, ("d", "e"): 1.0, ("c", "d"): 3.0})

    def found(known: list[Clique], most_cells: int, order: int) -> list[Clique]:
        rng = np.random.default_rng(0)
        fits = lambda clique: BINARY.cells(clique) <= most_cells  # noqa: E731
        return candidate_sets(BINARY, errors, known, fits, rng, order=order, most=10)

    assert set(found([], 16, 4)) == {("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("a", "b", "c", "d"),
                                     ("b", "c", "d", "e")}  # fmt: skip
    assert set(found([("a", "b", "c", "d")], 16, 4)) == {("c", "d", "e"), ("b", "c", "d", "e")}
    assert {len(clique) for clique in found([], 8, 4)} == {3}
    assert found([], 4, 4) == []
    assert found([], 16, 2) == []


def test_candidates_need_a_positive_error() -> None:
    rng = np.random.default_rng(0)
    assert candidate_sets(BINARY, -np.ones((5, 5)), [], lambda clique: True, rng, order=4, most=5) == []


def test_limits_must_allow_pairs() -> None:
    with pytest.raises(ValueError, match="2 attributes"):
        SetLimits(order=1)
