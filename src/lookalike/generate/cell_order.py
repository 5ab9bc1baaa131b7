"""Rows of codes sorted by the cell of a marginal they fall in: the inner loop of every row-updating generator.

Compiled with numba where it is installed; the NumPy versions give the same answers, several times slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

try:
    from numba import njit
except ImportError:  # numba is optional at run time
    njit = None


def cell_codes(codes: np.ndarray, columns: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The row-major cell number of every row in the marginal on `columns`, whose sizes are `shape`."""
    cells = codes[:, columns[0]].astype(np.int64)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        cells *= size
        cells += codes[:, column]
    return cells


def _order_numpy(cells: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    counts = np.bincount(cells, minlength=n_cells)
    # NumPy sorts 16-bit integers by radix, in linear time.
    keys = cells.astype(np.uint16) if n_cells <= 1 << 16 else cells
    return np.argsort(keys, kind="stable"), np.concatenate(([0], np.cumsum(counts)))


def _order_loops(cells: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(n_cells + 1, np.int64)
    for row in range(cells.size):
        starts[cells[row] + 1] += 1
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    place = starts[:-1].copy()
    order = np.empty(cells.size, np.int64)
    for row in range(cells.size):
        cell = cells[row]
        order[place[cell]] = row
        place[cell] += 1
    return order, starts


_order = _order_numpy if njit is None else njit(cache=True)(_order_loops)


def rows_by_cell(cells: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers sorted by cell, ties in row order, and the n_cells + 1 places where each cell's rows start.

    >>> order, starts = rows_by_cell(np.array([2, 0, 2]), 3)
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1, 1, 3])
    """
    return _order(cells, n_cells)
