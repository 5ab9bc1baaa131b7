"""The one place where rows of codes become cell numbers, or rows of zeros and ones.

Cells are numbered in row-major order (mixed radix): on columns of sizes k_1, ..., k_d a row of codes c_1, ..., c_d
falls in cell (...(c_1 k_2 + c_2) k_3 + ...) k_d + c_d.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

from lookalike.schema.domain import Domain

_MAX_CELLS = 1 << 62


def mixed_radix(columns: Sequence[np.ndarray], sizes: Sequence[int], rows: int, dtype: Any = np.int64) -> np.ndarray:
    """Return the cell number of every row, given its code in each column and the columns' sizes."""
    if not columns:
        return np.zeros(rows, dtype)
    numbers = columns[0].astype(dtype)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        numbers *= size
        numbers += column
    return numbers


def cell_numbers(
    codes: np.ndarray, positions: Sequence[int], sizes: Sequence[int], dtype: Any = np.int64
) -> np.ndarray:
    """Return the cell number of every row in the marginal on the columns at `positions`; `sizes` are of all columns.

    >>> cell_numbers(np.array([[0, 2], [1, 0]]), [0, 1], (2, 3)).tolist()
    [2, 3]
    """
    return mixed_radix([codes[:, p] for p in positions], [sizes[p] for p in positions], len(codes), dtype)


def cell_keys(codes: np.ndarray, positions: Sequence[int], sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """Return a number per row that is equal for rows of the same cell and keeps the cells' order, and their bound.

    They are the cell numbers where those fit into 62 bits. Beyond, the columns so far are replaced by their ranks among
    the rows, so that the numbers are no longer positions in the marginal.
    """
    keys, cells = np.zeros(len(codes), np.int64), 1
    for position in positions:
        size = sizes[position]
        if cells * size >= _MAX_CELLS:
            distinct, keys = np.unique(keys, return_inverse=True)
            cells = len(distinct)
        keys *= size
        keys += codes[:, position]
        cells *= size
    return keys, cells


def counted(domain: Domain, codes: np.ndarray, attrs: Iterable[str], weights: np.ndarray | None = None) -> np.ndarray:
    """Return the counts, or sums of weights, of a marginal of rows: float64, axes in domain order."""
    clique = domain.canonical(attrs)
    cells = cell_numbers(codes, [domain.position(name) for name in clique], domain.sizes)
    counts = np.bincount(cells, weights, minlength=domain.cells(clique))
    return counts.reshape(domain.shape(clique)).astype(np.float64)


def rows_by_cell(cells: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers sorted by cell, ties in row order, and the n_cells + 1 places where each cell's rows start.

    >>> order, starts = rows_by_cell(np.array([2, 0, 2]), 3)
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1, 1, 3])
    """
    counts = np.bincount(cells, minlength=n_cells)
    # NumPy sorts 16-bit integers by radix, in linear time: a compiled counting sort is hardly faster.
    keys = cells.astype(np.uint16) if n_cells <= 1 << 16 else cells
    return np.argsort(keys, kind="stable"), np.concatenate(([0], np.cumsum(counts)))


def similar_rows_together(
    codes: np.ndarray, positions: Sequence[int], sizes: Sequence[int], rng: np.random.Generator
) -> np.ndarray:
    """Return row numbers sorted by these columns, the first being the most significant, in random order where equal.

    Only as many columns are used as have fewer than 2^62 cells.
    """
    shuffled = rng.permutation(len(codes))
    used, cells = 0, 1
    while used < len(positions) and cells * sizes[positions[used]] < _MAX_CELLS:
        cells *= sizes[positions[used]]
        used += 1
    key = cell_numbers(codes, positions[:used], sizes)
    return shuffled[np.argsort(key[shuffled], kind="stable")]


_sparse = cast(Any, sparse)


def first_places(sizes: Sequence[int]) -> np.ndarray:
    """Where the values of each column begin when those of all columns stand side by side.

    >>> first_places((2, 3, 4)).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)


def one_hot(codes: np.ndarray, sizes: Sequence[int]) -> Any:
    """A sparse matrix (rows, values of all columns) of float32 with a 1 at every value that a row has.

    >>> one_hot(np.array([[1, 0], [0, 2]]), (2, 3)).toarray().astype(int).tolist()
    [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    """
    rows, columns = codes.shape
    places = np.ascontiguousarray(codes.astype(np.int32) + first_places(sizes)).ravel()
    ends = np.arange(0, places.size + 1, columns, dtype=np.int32)
    return _sparse.csr_matrix((np.ones(places.size, np.float32), places, ends), shape=(rows, sum(sizes)))
