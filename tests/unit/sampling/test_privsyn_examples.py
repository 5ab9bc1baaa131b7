"""The worked examples of PrivSyn's paper: InDif (Figure 1), a min-cost flow (Figure 2), an update of GUM (Figure 3)."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.privacy.scores import IndependenceGap
from lookalike.sampling.row_update import _move_towards, _Target, flow_rows, removal_counts
from lookalike.schema.domain import Domain

GENDER, AGE = ("male", "female"), ("teenager", "adult", "elderly")


@pytest.mark.parametrize("rows", [100, 10_000])
def test_figure_1_independent_difference(rows: int) -> None:
    """The pair (d) is 0.08 n away from the product (c) of its columns, 0.4/0.6 and 0.2/0.3/0.5."""
    actual = np.array([[0.10, 0.10, 0.20], [0.10, 0.20, 0.30]])
    independent = np.outer([0.4, 0.6], [0.2, 0.3, 0.5])
    assert independent == pytest.approx(np.array([[0.08, 0.12, 0.20], [0.12, 0.18, 0.30]]))
    score = IndependenceGap((("gender", "age"),))
    counts = np.rint(actual * rows).astype(np.int64)
    assert score.evaluate([counts])[0] / score.resolution == pytest.approx(0.08 * rows)


@pytest.mark.parametrize("seed", range(3))
def test_figure_2_flow_moves_a_third_of_the_adults_and_a_fourth_of_the_elderly(seed: int) -> None:
    """From 0.3/0.3/0.4 to 0.5/0.2/0.3: 0.1 of the rows leave each, for the teenagers; other columns stay."""
    rng = np.random.default_rng(seed)
    age = np.repeat([0, 1, 2], [30, 30, 40])
    codes = np.asfortranarray(np.column_stack([age, np.arange(100)]).astype(np.int32))
    domain = Domain(("age", "row"), (3, 100))
    targets = ConsistentMarginals(domain, (("age",),), (np.array([50.0, 20.0, 30.0]),), (0.0,), 100.0)
    moved = flow_rows(codes, targets, rng, sweeps=1)
    moved = moved[np.argsort(moved[:, 1])]
    assert np.array_equal(moved[:, 1], codes[:, 1])
    changes = [(int(a), int(b)) for a, b in zip(age, moved[:, 0], strict=True) if a != b]
    assert sorted(changes) == [(1, 0)] * 10 + [(2, 0)] * 10


@pytest.mark.parametrize("seed", range(20))
def test_figure_3_one_update_copies_a_row_and_overwrites_another(seed: int) -> None:
    """With alpha 2 and beta 1/2 the shares of high earners become 0.4 and 0.6, not yet the wanted 0.2 and 0.8."""
    before = [("male", "teenager"), ("male", "adult"), ("male", "adult"), ("male", "teenager"), ("female", "elderly")]
    codes = np.array([(1, GENDER.index(g), AGE.index(a)) for g, a in before], dtype=np.int32, order="F")
    target = _Target((0, 1), (2, 2), np.array([0.0, 0.0, 1.0, 4.0]))
    assert removal_counts(np.array([0.0, 0.0, 4.0, 1.0]), target.counts, 2.0).tolist() == [0, 0, 2, 0]
    _move_towards(codes, target, 2.0, 0.5, np.random.default_rng(seed))
    assert np.bincount(target.cells(codes), minlength=4).tolist() == [0, 0, 2, 3]
    females = [row for row, (_, gender, _) in enumerate(codes.tolist()) if gender == 1]
    kept = [row for row in females if row < 4 and AGE[codes[row, 2]] == before[row][1]]
    copied = [row for row in females if row < 4 and AGE[codes[row, 2]] == "elderly"]
    assert (len(kept), len(copied), females[-1]) == (1, 1, 4)
