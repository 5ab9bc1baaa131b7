"""Rows of codes by the cell of a marginal they fall in: the inner loop of every generator that updates rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cell_codes(codes: np.ndarray, columns: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The row-major cell number of every row in the marginal on `columns`, whose sizes are `shape`."""
    if not columns:
        return np.zeros(len(codes), np.int64)
    cells = codes[:, columns[0]].astype(np.int64)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        cells *= size
        cells += codes[:, column]
    return cells


def rows_by_cell(cells: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers sorted by cell, ties in row order, and the n_cells + 1 places where each cell's rows start.

    >>> order, starts = rows_by_cell(np.array([2, 0, 2]), 3)
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1, 1, 3])
    """
    counts = np.bincount(cells, minlength=n_cells)
    # NumPy sorts 16-bit integers by radix, in linear time: a compiled counting sort is hardly faster.
    keys = cells.astype(np.uint16) if n_cells <= 1 << 16 else cells
    return np.argsort(keys, kind="stable"), np.concatenate(([0], np.cumsum(counts)))
