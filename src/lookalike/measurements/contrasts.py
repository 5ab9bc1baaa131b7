"""Contrasts: the information in a table of counts beyond its total and its single axes.

The counts x of a table with k_1, ..., k_d values on its axes split into orthogonal parts, one per set of axes (the
decomposition behind ResidualPlanner, Xiao et al. 2023). The *contrasts* P x of a table of one axis are all but the
total; those of two and more axes are all but the total and the single axes, that is, how the axes depend on each other.

    P x = x - mean                                                   one axis,
    P x = x - sum_i (mean over all other axes) + (d - 1) * mean      two and more.

One row in cell e adds P e, whose norm is the same for every cell, |P e|^2 = (dimensions of the contrasts) / (cells):
1/4 for two binary columns, compared with 1 for the counts. Where single columns are measured separately, a column set
that contains them need not pay for them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from lookalike.schema.domain import ColumnSet

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contrasts:
    """The contrasts of tables of one shape."""

    shape: Shape

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def dimensions(self) -> int:
        """Number of independent contrasts.

        >>> [Contrasts(shape).dimensions for shape in [(5,), (2, 2), (3, 4)]]
        [4, 1, 6]
        """
        mains = sum(size - 1 for size in self.shape) if len(self.shape) > 1 else 0
        return self.cells - 1 - mains

    @property
    def added(self) -> Fraction:
        """Squared norm of the contrasts of one row: |P e|^2 = P_ee, the same for every cell, so trace / cells."""
        return Fraction(self.dimensions, self.cells)

    @property
    def replaced(self) -> Fraction:
        """Largest squared norm of the change when a row moves to another cell: |P(e - f)|^2 = 2 (P_ee - P_ef).

        On one axis P_ef = -1/cells, so 2. On more axes P_ef = (d - 1 - sum of k_i over the axes on which e and f agree)
        / cells, least where they differ on the shortest axis alone: 2 (1 - k_min / cells).
        """
        shortest = min((size for size in self.shape if size > 1), default=1)
        return Fraction(2) if len(self.shape) == 1 else 2 * (1 - Fraction(shortest, self.cells))

    def scaled(self, counts: np.ndarray) -> np.ndarray:
        """Return cells * P counts, which are whole numbers for whole counts, in the shape of `counts`."""
        table = np.asarray(counts, dtype=np.int64).reshape(self.shape)
        total = table.sum()
        if table.ndim == 1:
            return (self.cells * table - total).reshape(counts.shape)
        result = self.cells * table + (table.ndim - 1) * total
        for axis, size in enumerate(self.shape):
            result -= size * table.sum(axis=_others(axis, table.ndim), keepdims=True)
        return result.reshape(counts.shape)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return P values: the values without their total, and without their single axes where there are several."""
        table = np.asarray(values, dtype=float).reshape(self.shape)
        if table.ndim == 1:
            return (table - table.mean()).reshape(values.shape)
        result = table + (table.ndim - 1) * table.mean()
        for axis in range(table.ndim):
            result = result - table.mean(axis=_others(axis, table.ndim), keepdims=True)
        return result.reshape(values.shape)


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """A marginal, or a table of groups of its cells, whose contrasts are measured.

    Attributes:
        attrs: the columns, in domain order.
        shape: shape of the table of counts: that of the marginal without groups; one axis per column where values were
            merged column by column; (number of groups,) for any other groups.
        groups: None, or for every cell of the marginal its flat position in the table.
    """

    attrs: ColumnSet
    shape: Shape
    groups: np.ndarray | None = None

    @property
    def contrasts(self) -> Contrasts:
        return Contrasts(self.shape)

    def sums(self, counts: np.ndarray) -> np.ndarray:
        """Return counts of the marginal as counts of the table, flat where there are groups."""
        if self.groups is None:
            return counts
        return np.bincount(self.groups.ravel(), weights=counts.ravel(), minlength=math.prod(self.shape))


def merged_columns(attrs: ColumnSet, columns: Sequence[np.ndarray]) -> CellTable:
    """Return the table of a marginal whose values are merged column by column, each by a map from code to position.

    >>> table = merged_columns(("a", "b"), [np.array([0, 1, 1]), np.array([0, 1])])
    >>> table.shape, table.groups.tolist()
    ((2, 2), [[0, 1], [2, 3], [2, 3]])
    """
    shape = tuple(int(column.max()) + 1 for column in columns)
    if all(size == len(column) for size, column in zip(shape, columns, strict=True)):
        return CellTable(attrs, shape)
    places = np.ix_(*columns)
    return CellTable(attrs, shape, np.ravel_multi_index(np.broadcast_arrays(*places), shape))


def _others(axis: int, count: int) -> tuple[int, ...]:
    return tuple(other for other in range(count) if other != axis)


class ContrastSpace:
    """The projection P for all measurements of contrasts, within one flat vector of all measured cells.

    Contrasts of one axis need no projection, since every model has the right total anyway.

    Args:
        length: length of the flat vector.
        parts: for every measurement of contrasts of several axes, where its cells lie in the vector, its shape, and for
            each axis the position of every cell on it.
    """

    def __init__(self, length: int, parts: Iterable[tuple[slice, Shape, np.ndarray]]) -> None:
        rows: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        columns: list[np.ndarray] = []
        slots = 0
        for where, shape, positions in parts:
            cells = math.prod(shape)
            for size, position in zip((*shape, 1), (*positions, np.zeros(cells, dtype=np.int64)), strict=True):
                rows.append(slots + position)
                columns.append(np.arange(where.start, where.stop))
                slots += size
            weights += [np.full(size, size / cells) for size in shape]
            weights.append(np.full(1, (1 - len(shape)) / cells))
        self._sums: sparse.csr_array | None = None
        if slots:
            row, column = np.concatenate(rows), np.concatenate(columns)
            self._sums = sparse.csr_array((np.ones(row.size), (row, column)), shape=(slots, length))
            self._back = sparse.csr_array(self._sums.T)
            self._weights = np.concatenate(weights)

    def __call__(self, flat: np.ndarray) -> np.ndarray:
        """Return the vector without the parts that were not measured. The map is symmetric and idempotent."""
        if self._sums is None:
            return flat
        return flat - self._back @ (self._weights * (self._sums @ flat))
