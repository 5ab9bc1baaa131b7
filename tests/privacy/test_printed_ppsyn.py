"""Why PPSyn's printed selection is not private, and ours is: sensitivities on two neighbouring tables.

The printed score of a marginal is contribution / required budget = pi C (eta C - RE)^2 / |P|^2 with C, RE and the
partition P from true counts: it grows with the cube of C. Ours is the L1 distance to a fixed model: sensitivity 1.
"""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.privacy.scores import ResidualL1
from lookalike.selection.grouping import partition_path

ETA = 0.7


def printed_score(counts: np.ndarray, model: np.ndarray) -> float:
    contribution = float(np.abs(counts - model).sum())
    _, price = partition_path(counts).cheapest(contribution, ETA)
    return contribution / price


def our_score(counts: np.ndarray, model: np.ndarray) -> float:
    score = ResidualL1((("a", "b"),), (model,))
    return float(score.evaluate([counts.astype(np.int64)])[0])


@pytest.mark.parametrize("rows", [300, 30_000, 3_000_000])
def test_one_row_moves_the_printed_score_without_bound_and_ours_by_one(rows: int) -> None:
    table = np.array([[rows, 0.0], [0.0, rows]])
    neighbour = table + np.array([[1.0, 0.0], [0.0, 0.0]])
    model = np.full((2, 2), rows / 2)
    assert abs(our_score(neighbour, model) - our_score(table, model)) == 1
    moved = abs(printed_score(neighbour, model) - printed_score(table, model))
    assert moved > rows**2 / 100  # far beyond any noise that one row should be hidden by
