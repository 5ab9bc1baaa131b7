"""Names and sizes of the columns of an integer-coded table, and the one place where rows of codes become cell numbers.

Cells are numbered in row-major order (mixed radix): on columns of sizes k_1, ..., k_d a row of codes c_1, ..., c_d
falls in cell (...(c_1 k_2 + c_2) k_3 + ...) k_d + c_d. That is all that arithmetic on marginals needs of a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import SchemaError

ColumnSet = tuple[str, ...]
"""Names of columns in the order of their domain: the key under which a marginal is stored."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Ordered names of columns and their numbers of codes.

    >>> domain = Domain(("age", "sex", "income"), (16, 2, 5))
    >>> domain.cells(("income", "sex"))
    10
    >>> domain.canonical(["income", "age"])
    ('age', 'income')
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    _position: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes):
            raise SchemaError(f"{len(self.names)} names but {len(self.sizes)} sizes; give one size per column.")
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise SchemaError(f"Column {twice!r} occurs twice; rename one of the two.")
        for name, size in zip(self.names, self.sizes, strict=True):
            if size < 1:
                raise SchemaError(f"Column {name!r} has {size} values; a column needs at least 1.")
        object.__setattr__(self, "_position", {name: i for i, name in enumerate(self.names)})

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """The domain of a plain mapping from name to size."""
        return cls(tuple(sizes), tuple(sizes.values()))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def position(self, name: str) -> int:
        """Index of a column; a SchemaError that lists the columns where it is unknown."""
        try:
            return self._position[name]
        except KeyError:
            raise SchemaError(f"No column {name!r}; the columns are {', '.join(self.names)}.") from None

    def size(self, name: str) -> int:
        return self.sizes[self.position(name)]

    def shape(self, attrs: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.size(name) for name in attrs)

    def cells(self, attrs: Iterable[str] | None = None) -> int:
        """Number of cells of the marginal on `attrs` (of the whole domain when not given), as an exact integer."""
        return math.prod(self.sizes if attrs is None else self.shape(attrs))

    def canonical(self, attrs: Iterable[str]) -> ColumnSet:
        """`attrs` without repeats, in domain order: the key under which a marginal is stored."""
        return tuple(sorted(set(attrs), key=self.position))

    def project(self, attrs: Iterable[str]) -> Domain:
        attrs = tuple(attrs)
        return Domain(attrs, self.shape(attrs))


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
