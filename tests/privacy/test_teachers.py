"""Teachers: slopes against differences, learning, and that none can touch another."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.privacy.row_level.teacher_votes import Teachers

SIZES = (2, 3)


def school(codes: np.ndarray, part: np.ndarray, number: int, rate: float = 0.05, seed: int = 0) -> Teachers:
    rng = np.random.default_rng(seed)
    return Teachers(SIZES, codes, part, number, rng.standard_normal((6, 4)), rng.standard_normal(4), rate)


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SIZES, (count, 2)).astype(np.int32)


def loss(inputs: np.ndarray, outputs: np.ndarray, constant: float, codes: np.ndarray, real: bool) -> float:
    """Mean over rows of the smoothed hinge: 0 above 1, (1 - s)^2 / 4 between -1 and 1, -s below."""
    places = np.column_stack([codes[:, 0], codes[:, 1] + 2, np.full(len(codes), 5)])
    score = np.maximum(inputs[places].sum(axis=1), 0) @ outputs + constant
    margin = score if real else -score
    return float(np.where(margin >= 1, 0, np.where(margin <= -1, -margin, (1 - margin) ** 2 / 4)).mean())


def test_slopes_are_those_of_differences() -> None:
    codes, shown = rows(7, 1), rows(5, 2)
    made = school(codes, np.array([1, 1, 0, 1, 0, 1, 0]), 2)
    made._constant[:] = [0.1, -0.2]
    own, seen = made._own_slopes(), made._shown_slopes(shown)
    for teacher, mine in ((0, codes[[2, 4, 6]]), (1, codes[[0, 1, 3, 5]])):
        weights = [made._inputs[:, teacher].astype(float), made._outputs[teacher].astype(float)]
        constant = float(made._constant[teacher])
        for which, weight in enumerate(weights):
            for place in np.ndindex(weight.shape):
                kept, ends = weight[place], []
                for shift in (1e-5, -1e-5):
                    weight[place] = kept + shift
                    ends.append(
                        (loss(*weights, constant, mine, True), loss(*weights, constant, shown, False))  # type: ignore[arg-type]
                    )
                weight[place] = kept
                index = (place[0], teacher, place[1]) if which == 0 else (teacher, *place)
                assert own[which][index] == pytest.approx((ends[0][0] - ends[1][0]) / 2e-5, abs=1e-4)
                assert seen[which][index] == pytest.approx((ends[0][1] - ends[1][1]) / 2e-5, abs=1e-4)
        above, below = (loss(*weights, constant + s, mine, True) for s in (1e-5, -1e-5))  # type: ignore[arg-type]
        assert own[2][teacher] == pytest.approx((above - below) / 2e-5, abs=1e-4)


def test_teachers_learn_what_their_rows_look_like() -> None:
    """Teachers 0 and 1 hold equal columns, teacher 2 different ones; shown are both alike."""
    equal, other = np.array([[0, 0], [1, 1]] * 10), np.array([[0, 1], [1, 0]] * 5)
    codes = np.concatenate([equal, equal, other]).astype(np.int32)
    made = school(codes, np.repeat([0, 1, 2], [20, 20, 10]), 3, seed=1)
    shown = np.array([[0, 0], [1, 1], [0, 1], [1, 0]] * 8, dtype=np.int32)
    for _ in range(200):
        made.train(shown)
    assert made.votes(np.array([[0, 0], [1, 1], [0, 1], [1, 0]], dtype=np.int32)).tolist() == [2, 2, 1, 1]


def test_a_teacher_without_rows_and_a_school_without_rows() -> None:
    made = school(rows(0, 0), np.zeros(0, dtype=np.int64), 3)
    for _ in range(60):
        made.train(rows(20, 3))
    assert set(made.votes(rows(20, 3)).tolist()) <= {0, 3}


def test_no_teacher_feels_a_row_of_another() -> None:
    """Rows come and go in the middle of other parts, and every other teacher's weights stay the same bit by bit."""
    rng = np.random.default_rng(4)
    codes, part = rows(3000, 5), rng.integers(0, 40, 3000)
    shown = [rows(64, 10 + i) for i in range(12)]
    before = school(codes, part, 40)
    for place in (0, 1234, 3000):
        extra, own = rows(1, place), int(rng.integers(40))
        after = school(np.insert(codes, place, extra[0], axis=0), np.insert(part, place, own), 40)
        fresh = school(codes, part, 40) if place else before
        for batch in shown:
            fresh.train(batch)
            after.train(batch)
        others = np.arange(40) != own
        assert np.array_equal(fresh._inputs[:, others], after._inputs[:, others])
        assert np.array_equal(fresh._outputs[others], after._outputs[others])
        assert np.array_equal(fresh._constant[others], after._constant[others])
        assert not np.array_equal(fresh._inputs[:, own], after._inputs[:, own])
        assert np.abs(fresh.votes(rows(200, 6)) - after.votes(rows(200, 6))).max() <= 1
