"""Every score's stated sensitivity, checked on all tables of up to three rows over a tiny domain and all neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.kernel.requests import Score
from lookalike.privacy.scores import (
    CellGaps,
    FamilyGap,
    GradeProducts,
    GroupedResidualL1,
    IndependenceGap,
    PaddedEntropy,
    PerfectGap,
    ResidualL1,
    Undetermined,
)
from lookalike.schema.domain import Domain
from lookalike.sources.open import MemorySource

DOMAIN = Domain(("a", "b"), (2, 3))
CELLS = list(product(range(2), range(3)))


def residual(seed: int) -> ResidualL1:
    rng = np.random.default_rng(seed)
    return ResidualL1((("a",), ("a", "b")), (rng.normal(1, 2, 2), rng.normal(1, 2, (2, 3))))


def grouped(seed: int) -> GroupedResidualL1:
    rng = np.random.default_rng(seed)
    groups = np.array([0, 1]), np.array([[0, 1, 1], [0, 2, 1]])
    return GroupedResidualL1((("a",), ("a", "b")), (rng.normal(1, 2, 2), rng.normal(1, 2, 3)), groups)


def cell_gaps(seed: int) -> CellGaps:
    rng = np.random.default_rng(seed)
    references = rng.normal(1, 2, 2), rng.normal(1, 2, (2, 3)), rng.normal(1, 2, (2, 3))
    return CellGaps((("a",), ("a", "b"), ("a", "b")), references, (-1, 1, -1))


def family_gap(seed: int) -> FamilyGap:
    laws = np.random.default_rng(seed).dirichlet([0.5] * 5)
    return FamilyGap((("a",), ("a", "b"), ("a", "b")), ("a", "a", "b"), {"a": laws[:2], "b": laws[2:]})


SCORES: list[Score] = [
    *(residual(seed) for seed in range(3)),
    *(grouped(seed) for seed in range(3)),
    *(cell_gaps(seed) for seed in range(3)),
    IndependenceGap((("a", "b"),)),
    IndependenceGap((("a", "b"),), ("b",)),
    *(family_gap(seed) for seed in range(3)),
    PerfectGap((("a", "b"), ("a",)), ("a", "a")),
    GradeProducts((("a", "b"),), {"a": np.array([-1.0, 0.25]), "b": np.array([-0.5, 0.0, 1.0])}),
    FamilyGap((("a", "b"),), ("b",), {"b": np.array([1.0, 0.0, 0.0])}),
    Undetermined((("a", "b"), ("a", "b"), ("a",)), ("a", "b", "a")),
    *(PaddedEntropy((("a",), ("a", "b")), rows) for rows in (2, 3, 4, 60)),
]


def tables(rows: int) -> Iterator[list[tuple[int, int]]]:
    for count in range(rows + 1):
        yield from (list(table) for table in combinations_with_replacement(CELLS, count))


def evaluate(score: Score, table: list[tuple[int, int]]) -> np.ndarray:
    source = MemorySource(DOMAIN, np.array(table, dtype=np.int32).reshape(-1, 2))
    return score.evaluate(source.counts(list(score.cliques)))


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_one_added_row_moves_no_score_by_more_than_its_sensitivity(score: Score) -> None:
    worst = Fraction(0)
    for table in tables(3):
        before = evaluate(score, table)
        for row in CELLS:
            change = np.abs(evaluate(score, [*table, row]) - before).max()
            worst = max(worst, Fraction(int(change), score.resolution))
    assert worst <= score.sensitivity
    assert worst >= score.sensitivity / 2, "a bound this loose wastes budget"


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_replaced_rows_move_no_score_by_more_than_the_neighbours_say(score: Score) -> None:
    limit = score.sensitivity * Neighbours("replace", 1).rows
    for table in tables(2):
        if not table:
            continue
        before = evaluate(score, table)
        for row in CELLS:
            change = np.abs(evaluate(score, [row, *table[1:]]) - before).max()
            assert Fraction(int(change), score.resolution) <= limit


@pytest.mark.parametrize(("relation", "rows"), [("add-remove", 1), ("add-remove", 2), ("replace", 1), ("replace", 2)])
def test_marginals_move_by_at_most_the_stated_l2_norm(relation: str, rows: int) -> None:
    neighbours = Neighbours(relation, rows)  # type: ignore[arg-type]
    base = np.array([(0, 0), (1, 2)], dtype=np.int32)
    worst = 0
    for mine in product(CELLS, repeat=rows):
        for theirs in product(CELLS, repeat=rows) if relation == "replace" else [()]:
            counts = []
            for table in (mine, theirs):
                codes = np.vstack([base, np.array(table, dtype=np.int32).reshape(-1, 2)])
                counts.append(MemorySource(DOMAIN, codes).counts([("a", "b")])[0])
            worst = max(worst, int(((counts[0] - counts[1]) ** 2).sum()))
    assert worst == neighbours.squared_l2


WIDE = Domain(("a", "b", "c"), (2, 2, 2))
FAMILY = ("a", "b", "c")


@pytest.mark.parametrize(
    "score",
    [
        IndependenceGap((FAMILY,), ("b",)),
        FamilyGap((FAMILY,), ("b",), {"b": np.array([0.3, 0.7])}),
        PerfectGap((FAMILY,), ("b",)),
    ],
    ids=lambda score: type(score).__name__,
)
def test_families_of_three_columns_move_by_no_more_either(score: Score) -> None:
    """All tables of up to three rows, and larger ones whose rows lie in few cells, where the change is largest."""
    rows = list(product(range(2), repeat=3))
    worst = Fraction(0)
    for table in [*(t for n in range(4) for t in combinations_with_replacement(rows, n)), (rows[0],) * 50]:
        before = score.evaluate(MemorySource(WIDE, np.array(table, dtype=np.int32).reshape(-1, 3)).counts([FAMILY]))
        for row in rows:
            grown = MemorySource(WIDE, np.array([*table, row], dtype=np.int32))
            worst = max(worst, Fraction(int(abs(score.evaluate(grown.counts([FAMILY])) - before)[0]), score.resolution))
    assert score.sensitivity / 2 <= worst <= score.sensitivity


@pytest.mark.parametrize("rows", [2, 7, 100, 10_000, 1 << 30])
def test_entropies_move_by_no_more_around_and_beyond_the_rows_that_they_are_filled_up_to(rows: int) -> None:
    """Tables below, at and above N rows: all rows alike, all different, and at random."""
    score, worst, rng = PaddedEntropy((("a",),), rows), 0, np.random.default_rng(rows)
    for real in sorted({0, 1, 2, rows // 2, rows - 1, rows, rows + 1, 3 * rows}):
        spread = np.full(20, real // 20)
        for counts in (
            np.array([real, 0]),
            np.append(spread, [real - spread.sum(), 0]),
            rng.multinomial(real, [0.1] * 10),
        ):
            before = score.evaluate([counts])[0]
            for cell in (0, len(counts) - 1):
                grown = counts.copy()
                grown[cell] += 1
                worst = max(worst, abs(score.evaluate([grown])[0] - before))
    assert worst <= score.sensitivity * score.resolution
    assert worst > 0.99 * score.resolution


def test_entropies_agree_with_their_formula() -> None:
    counts = np.random.default_rng(0).integers(1, 50, 30)
    shares = counts / counts.sum()
    for rows in (2, int(counts.sum())):
        score = PaddedEntropy((("a",),), rows)
        bits = score.evaluate([counts])[0] / score.resolution * score.unit
        assert bits == pytest.approx(-(shares * np.log2(shares)).sum(), abs=score.unit / score.resolution)
    for rows in (0, 1 << 31):
        with pytest.raises(ValueError, match="2 to 2\\^30"):
            PaddedEntropy((("a",),), rows)


def test_scores_of_families_agree_with_their_formulas() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (3, 2, 4))
    law = np.array([0.25, 0.75])
    matrix = np.moveaxis(counts, 1, 0).reshape(2, 12)
    product_ = matrix.sum(axis=1)[:, None] * matrix.sum(axis=0) / matrix.sum()
    gap = IndependenceGap((FAMILY,), ("b",))
    assert gap.evaluate([counts])[0] / gap.resolution == pytest.approx(np.abs(matrix - product_).sum(), abs=1e-3)
    known = FamilyGap((FAMILY,), ("b",), {"b": law})
    exact = 0.5 * np.abs(matrix - law[:, None] * matrix.sum(axis=0)).sum()
    assert known.evaluate([counts])[0] / known.resolution == pytest.approx(exact, rel=1e-12)


def test_the_perfect_gap_is_the_least_over_all_assignments() -> None:
    """Never above what any assignment of a grid reaches, and below by no more than the grid's step allows."""
    rng = np.random.default_rng(1)
    grid = np.array(list(product(np.linspace(0, 1, 25), repeat=3)))
    score = PerfectGap((("a", "b"),), ("a",))
    for _ in range(40):
        counts = rng.integers(0, 9, (2, 3)) * rng.integers(0, 2, (2, 3))
        misfits = [np.maximum(counts.sum() / 2 - sums, 0) for sums in (grid @ counts[0], (1 - grid) @ counts[1])]
        best = float(sum(misfits).min())
        exact = -score.evaluate([counts])[0] / score.resolution
        assert best - 9 / 24 <= exact <= best + 1e-3


def test_grades_beyond_one_are_refused_since_the_sensitivity_would_be_wrong() -> None:
    with pytest.raises(ValueError, match="must lie in"):
        GradeProducts((("a", "b"),), {"a": np.array([0.0, 1.5]), "b": np.zeros(3)})


def test_grouped_residuals_are_distances_of_sums() -> None:
    score = GroupedResidualL1((("a", "b"),), (np.array([1.0, 5.0]),), (np.array([[0, 0, 1], [1, 1, 1]]),))
    assert score.evaluate([np.array([[2, 2, 0], [0, 1, 0]])]).tolist() == [abs(4 - 1) + abs(1 - 5)]


def test_one_row_moves_one_cell_gap_of_each_marginal() -> None:
    """So that Gaussian noise on all of them is paid for by one sensitivity per marginal, as the door charges it."""
    score = cell_gaps(3)
    for table in tables(2):
        before = evaluate(score, table)
        for row in CELLS:
            change = evaluate(score, [*table, row]) - before
            assert (change**2).sum() == len(score.cliques)


def test_cell_gaps_list_marginals_one_after_another() -> None:
    score = CellGaps((("a",), ("b",)), (np.array([0.6, 0.0]), np.array([2.0, 2.0, 2.0])), (1, -1))
    assert score.evaluate([np.array([5, 1]), np.array([0, 2, 4])]).tolist() == [4, 1, 2, 0, -2]


def test_cell_gaps_refuse_other_signs_since_the_sensitivity_would_be_wrong() -> None:
    with pytest.raises(ValueError, match="1 or -1"):
        CellGaps((("a",),), (np.zeros(2),), (2,))
    with pytest.raises(ValueError, match="1 references"):
        CellGaps((("a",), ("b",)), (np.zeros(2),), (1, 1))


def test_groups_beyond_the_references_are_refused() -> None:
    with pytest.raises(ValueError, match="numbered from 0 to 1"):
        GroupedResidualL1((("a",),), (np.zeros(2),), (np.array([0, 2]),))
