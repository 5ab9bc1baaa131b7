"""Columns that another one determines are seen in released scores, and measured once."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.schema.domain import Domain
from lookalike.selection.determined import OpenErrors, determined, impossible_cells, left_open, owned_pairs

THREE = Domain(("a", "b", "c"), (4, 2, 2))


def distances(joint: np.ndarray) -> np.ndarray:
    """The exact L1 distances of all pairs of a joint table from independence."""
    width = joint.ndim
    errors = np.zeros((width, width))
    for i in range(width):
        for j in range(i + 1, width):
            pair = joint.sum(axis=tuple(k for k in range(width) if k not in (i, j)))
            expected = np.outer(pair.sum(axis=1), pair.sum(axis=0)) / pair.sum()
            errors[i, j] = errors[j, i] = np.abs(pair - expected).sum()
    return errors


def columns(joint: np.ndarray) -> list[np.ndarray]:
    return [joint.sum(axis=tuple(k for k in range(joint.ndim) if k != i)) for i in range(joint.ndim)]


def table(slips: float) -> np.ndarray:
    """Rows in which b is a // 2 but for a part `slips`, and c depends on a."""
    joint = np.zeros((4, 2, 2))
    for a in range(4):
        for b in range(2):
            for c in range(2):
                follows = (1 - slips / 2) if b == a // 2 else slips / 2
                joint[a, b, c] = 250 * follows * (0.2 + 0.2 * a if c else 0.8 - 0.2 * a)
    return joint


@pytest.mark.parametrize("slips", [0.0, 0.01, 0.03])
def test_what_is_left_open_bounds_what_a_model_of_the_two_pairs_misses(slips: float) -> None:
    joint = table(slips)
    left = left_open(distances(joint), columns(joint), 0.0)
    first, second = joint.sum(axis=2), joint.sum(axis=1)
    modelled = np.einsum("ab,ac,a->bc", first, second, 1.0 / joint.sum(axis=(1, 2)))
    missed = np.abs(modelled - joint.sum(axis=0)).sum()
    assert missed <= left[0, 1] + 1e-9
    assert determined(left)[0, 1]
    assert not determined(left)[1, 0], "b does not determine a"


def test_noise_makes_it_say_less() -> None:
    joint = table(0.0)
    errors = distances(joint)
    assert not determined(left_open(errors, columns(joint), 0.1 * errors[0, 1])).any()


def test_one_of_two_columns_that_determine_each_other_owns_the_other() -> None:
    joint = np.diag([500.0, 300.0, 200.0])
    left = left_open(distances(joint), columns(joint), 1.0)
    assert determined(left).sum() == 1
    assert owned_pairs(left, Domain(("x", "y"), (3, 3))) == {("x", "y"): 0}


def test_pairs_that_follow_from_measured_ones_are_worth_nothing_more() -> None:
    errors = np.array([[0.0, 1000.0, 300.0], [1000.0, 0.0, 200.0], [300.0, 200.0, 0.0]])
    left = np.full((3, 3), np.inf)
    left[0, 1] = 10.0
    found = OpenErrors(errors, left)
    assert found.worth()[0, 1] == 1000.0
    found.take((0, 1))
    assert found.worth()[0, 2] == 300.0 + 190.0, "(a, c) explains (b, c) but for 10"
    found.take((0, 2))
    assert found.open[1, 2] == found.open[2, 1] == 10.0
    other = OpenErrors(errors, left)
    other.take((0, 2))
    assert other.open[1, 2] == 200.0, "nothing follows before (a, b) is measured"
    assert other.worth()[0, 1] == 1000.0 + 190.0


def test_cells_are_impossible_where_the_counts_show_it() -> None:
    counts = np.array([[500.0, 4.0], [-8.0, 300.0], [12.0, 9.0]])
    pair = NoisyMarginal(("a", "b"), counts, 10.0)
    assert impossible_cells(pair, 0).tolist() == [[False, True], [True, False], [False, False]]
    turned = NoisyMarginal(("b", "a"), counts.T, 10.0)
    assert impossible_cells(turned, 1).T.tolist() == [[False, True], [True, False], [False, False]]
