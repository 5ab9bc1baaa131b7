"""Columns that another column determines, as far as released scores show it: they need not be measured twice.

Where education determines years of schooling, counts of (education, income) say all about (years, income), too.

Let p be the shares of the values of column j, and q_a those among the rows with value a of column i. The L1 distance
of (i, j) from independence, N sum_a p_a |q_a - p|_1, is at most 2 N (1 - sum_b p_b^2), which it reaches where i
determines j. A model that holds (i, j) and (i, k) misses (j, k) by at most 2 N sum_a p_a (1 - sum_b q_a(b)^2); where i
determines j but for a small part of the rows, that is at most twice what the distance falls short of its largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.schema.domain import ColumnSet, Domain

SMALL = 0.1
"""A column determines another where it leaves less than this part of their error open; docs/laboratory/mosaic.md."""
VISIBLE = 3.0
"""Counts of more than so many standard deviations are not those of empty cells."""


def left_open(errors: np.ndarray, columns: Sequence[np.ndarray], stddev: float) -> np.ndarray:
    """Return how much error of pairs (j, k) stays open at [i, j] once (i, j) and (i, k) are measured, at most.

    Infinite where i does not determine j; of two columns that determine each other, the one of more even counts does.
    Works on released numbers only.

    Args:
        errors: symmetric matrix of the noisy L1 distances of pairs from independence, in counts.
        columns: noisy counts of every column.
        stddev: noise of the distances.
    """
    counts = [np.maximum(values, 0.0) for values in columns]
    largest = np.array([2.0 * (c.sum() - (c @ c) / max(c.sum(), 1e-12)) for c in counts])
    left = 2.0 * (np.maximum(largest[None, :] - errors, 0.0) + stddev)
    order = np.argsort(np.argsort(-largest, kind="stable"))
    left[(left >= SMALL * errors) | (order[:, None] >= order[None, :])] = np.inf
    return left


def determined(left: np.ndarray) -> np.ndarray:
    """Return at [i, j] whether j follows from i."""
    return np.isfinite(left)


def owned_pairs(left: np.ndarray, domain: Domain) -> dict[ColumnSet, int]:
    """Return every column that others determine, paired with the one that leaves the least open, and the latter's axis.

    A column is determined by those of more even counts only, so the pairs form a forest.
    """
    found = np.where(determined(left), left, np.inf)
    pairs = {int(j): int(np.argmin(found[:, j])) for j in np.flatnonzero(np.isfinite(found).any(axis=0))}
    return {(domain.names[min(i, j)], domain.names[max(i, j)]): int(i > j) for j, i in pairs.items()}


def impossible_cells(pair: NoisyMarginal, determining: int) -> np.ndarray:
    """Return the cells of a pair, one of whose columns determines the other, that its noisy counts show to be empty.

    Nothing is said about values of the determining column too rare to show with which value they occur.

    Args:
        pair: noisy counts of the pair.
        determining: axis of the column that determines the other.
    """
    counts = pair.values if pair.groups is None else pair.values[pair.groups]
    seen = counts > VISIBLE * pair.stddev
    return ~seen & seen.any(axis=1 - determining, keepdims=True)


class OpenErrors:
    """The errors of pairs that no measured set explains.

    Attributes:
        open: symmetric matrix; 0 for pairs that a measured set holds, and at most `left` for those that follow.
    """

    def __init__(self, errors: np.ndarray, left: np.ndarray | None = None) -> None:
        self.open = np.maximum(errors, 0.0)
        np.fill_diagonal(self.open, 0.0)
        self._left = np.full(errors.shape, np.inf) if left is None else left
        self._arcs = np.argwhere(determined(self._left)).tolist()
        self._known = np.eye(len(errors), dtype=bool)

    def worth(self) -> np.ndarray:
        """Return how much error measuring each pair explains: its own, and that of pairs which follow from it."""
        worth = self.open.copy()
        for i, j in self._arcs:
            gains = np.maximum(self.open[j] - self._left[i, j], 0.0)
            gains[[i, j]] = 0.0
            if self._known[i, j]:
                worth[i] += gains
                worth[:, i] += gains
            else:
                follow = float(gains[self._known[i]].sum())
                worth[i, j] += follow
                worth[j, i] += follow
        return worth

    def take(self, members: Sequence[int]) -> None:
        """Mark the pairs of a measured set as known, and those that follow from known ones."""
        inside = np.ix_(members, members)
        self.open[inside], self._known[inside] = 0.0, True
        for i, j in self._arcs:
            if self._known[i, j]:
                follows = self._known[i] & ~self._known[j]
                self.open[j, follows] = self.open[follows, j] = np.minimum(self.open[j, follows], self._left[i, j])
                self._known[j, follows] = self._known[follows, j] = True
