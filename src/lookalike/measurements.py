"""What leaves the door: noisy counts of cells, of groups of cells, or of *contrasts*, and arithmetic on them.

Noise is independent in each number, with one stddev. All of it is public once released. The counts x of a table with
k_1, ..., k_d values on its axes split into orthogonal parts, one per set of axes (the decomposition behind
ResidualPlanner, Xiao et al. 2023). With one axis, the contrasts P x are what the counts say beyond their total. With
more axes, they are what the counts say beyond the total and the single axes: how the axes depend on each other.

    P x = x - mean                                                   one axis,
    P x = x - sum_i (mean over all other axes) + (d - 1) * mean      two and more.

One row in cell e adds P e, whose norm is the same for every cell, |P e|^2 = (dimensions of the contrasts) / (cells):
1/4 for two binary columns, compared with 1 for the counts. Where single columns are measured separately, a column set
that contains them need not pay for them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import sparse

from lookalike.schema.domain import ColumnSet, Domain

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


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginal:
    """Noisy counts of one marginal, or of groups of its cells.

    Attributes:
        attrs: the columns, in domain order.
        values: noisy counts. Without `groups`, an array of the marginal's shape; with `groups`, one number per group.
        stddev: standard deviation of the independent noise on each entry of `values`.
        groups: None, or an integer array of the marginal's shape that gives each cell's group, 0..len(values)-1.
        ledger_entry: number of the ledger line that paid for it, -1 where there is none (public or simulated counts).
        contrasts: None, or the shape of the table of counts whose contrasts alone were measured
            (`Contrasts`). `values` then has no information on the table's total, nor on its single axes where it has
            several; `completed` adds these.
    """

    attrs: ColumnSet
    values: np.ndarray
    stddev: float
    groups: np.ndarray | None = None
    ledger_entry: int = -1
    contrasts: Shape | None = None

    def __post_init__(self) -> None:
        # The marginal of the empty column set may be a NumPy scalar.
        object.__setattr__(self, "values", np.asarray(self.values))
        if not self.stddev > 0:
            raise ValueError(f"stddev of {self.attrs} is {self.stddev}; it must be positive")
        if self.contrasts is not None and math.prod(self.contrasts) != self.values.size:
            raise ValueError(f"contrasts of {self.attrs}: {self.values.size} values of a table {self.contrasts}")
        if self.groups is None and self.values.ndim != len(self.attrs):
            raise ValueError(f"values of {self.attrs} have {self.values.ndim} axes, expected {len(self.attrs)}")
        if self.groups is not None and (self.groups.ndim != len(self.attrs) or self.values.ndim != 1):
            raise ValueError(f"groups of {self.attrs} need one axis per column, and values one entry per group")

    @property
    def cells(self) -> int:
        """Number of noisy numbers."""
        return int(self.values.size)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyResidual:
    """Noisy L1 distance, in counts, of a marginal from a fixed public table of counts.

    Attributes:
        attrs: the columns, in domain order.
        reference: the table of counts, whole numbers, of the marginal's shape.
        value: the distance with its noise.
        stddev: standard deviation of that noise.
    """

    attrs: ColumnSet
    reference: np.ndarray
    value: float
    stddev: float

    def __post_init__(self) -> None:
        if not self.stddev > 0:
            raise ValueError(f"stddev of {self.attrs} is {self.stddev}; it must be positive")
        if self.reference.ndim != len(self.attrs):
            raise ValueError(f"reference of {self.attrs} has {self.reference.ndim} axes, expected {len(self.attrs)}")


def on_finer_domain(measurement: NoisyMarginal, maps: Mapping[str, np.ndarray], domain: Domain) -> NoisyMarginal:
    """Return the same noisy numbers as counts of groups of cells of `domain`; `maps` gives the measured code of a code.

    Columns without a map have the same codes in both domains.

    >>> coarse = NoisyMarginal(("a",), np.array([5.0, 7.0]), 1.0)
    >>> on_finer_domain(coarse, {"a": np.array([0, 1, 1])}, Domain(("a",), (3,))).groups.tolist()
    [0, 1, 1]
    """
    if not any(name in maps for name in measurement.attrs):
        return measurement
    codes = [np.asarray(maps.get(name, np.arange(domain.size(name)))) for name in measurement.attrs]
    if measurement.groups is None:
        groups = np.arange(measurement.values.size).reshape(measurement.values.shape)
    else:
        groups = measurement.groups
    return replace(measurement, values=measurement.values.ravel(), groups=groups[np.ix_(*codes)].astype(np.int32))


def completed(measurement: NoisyMarginal, expected: np.ndarray) -> NoisyMarginal:
    """Return contrasts as counts, with the parts that were not measured from `expected`, a model's counts.

    The result is still marked as contrasts, so that a fit does not treat the other parts as measured.

    >>> noisy = NoisyMarginal(("a",), np.array([-2.0, 2.0]), 1.0, contrasts=(2,))
    >>> completed(noisy, np.array([6.0, 4.0])).values.tolist()
    [3.0, 7.0]
    """
    if measurement.contrasts is None:
        return measurement
    sums = CellTable(measurement.attrs, measurement.contrasts, measurement.groups).sums(expected)
    rest = sums - Contrasts(measurement.contrasts).of(sums)
    return replace(measurement, values=measurement.values + rest)


def spread_over_cells(measurement: NoisyMarginal, expected: np.ndarray) -> NoisyMarginal:
    """Return group sums as counts of single cells, each group divided in proportion to `expected`, a model's counts.

    For methods that cannot use groups. A cell's noise is that of its group times its share, so the unchanged stddev is
    an upper bound; errors of the model within a group remain.

    >>> sums = NoisyMarginal(("a",), np.array([6.0, 8.0]), 1.0, np.array([0, 0, 1]))
    >>> spread_over_cells(sums, np.array([1.0, 2.0, 5.0])).values.tolist()
    [2.0, 4.0, 8.0]
    """
    if measurement.groups is None:
        return measurement
    labels, weights = measurement.groups.ravel(), np.maximum(expected, 0.0).ravel()
    empty = np.bincount(labels, weights, minlength=measurement.cells) <= 0
    weights = np.where(empty[labels], 1.0, weights)
    sums = np.bincount(labels, weights, minlength=measurement.cells)
    return replace(
        measurement,
        values=(weights * (measurement.values / sums)[labels]).reshape(expected.shape),
        groups=None,
        contrasts=None,
    )


def group_means(measurement: NoisyMarginal, table: np.ndarray) -> np.ndarray:
    """Return the means of a table of the marginal over the measured groups; the table itself without groups."""
    if measurement.groups is None:
        return table
    labels = measurement.groups.ravel()
    sizes = np.maximum(np.bincount(labels, minlength=measurement.cells), 1)
    return np.bincount(labels, table.ravel(), minlength=measurement.cells) / sizes


def averaged(measurements: Iterable[NoisyMarginal]) -> list[NoisyMarginal]:
    """Return repeats of a measurement as one of smaller noise: their mean by inverse variance loses no information.

    >>> first, second = NoisyMarginal(("x",), np.array([4.0]), 2.0), NoisyMarginal(("x",), np.array([9.0]), 1.0)
    >>> mean, = averaged([first, second])
    >>> mean.values.tolist(), round(mean.stddev, 3)
    ([8.0], 0.894)
    """
    repeats: dict[tuple[ColumnSet, Shape | None, bytes | None], list[NoisyMarginal]] = {}
    for m in measurements:
        groups = None if m.groups is None else np.asarray(m.groups, dtype=np.int64).tobytes()
        repeats.setdefault((m.attrs, m.contrasts, groups), []).append(m)
    results: list[NoisyMarginal] = []
    for first, *others in repeats.values():
        if others:
            precision = np.array([m.stddev**-2.0 for m in (first, *others)])
            mean = np.average([m.values for m in (first, *others)], axis=0, weights=precision)
            first = replace(first, values=mean, stddev=float(precision.sum()) ** -0.5)
        results.append(first)
    return results


def estimated_total(measurements: Iterable[NoisyMarginal]) -> float:
    """Return the number of rows by the inverse-variance mean of the noisy totals, at least 1.

    A marginal of c noisy cells has a total of variance c * stddev^2; contrasts have none. This is post-processing: the
    true number is never used.
    """
    counted = [measurement for measurement in measurements if measurement.contrasts is None]
    if not counted:
        raise ValueError("the number of rows cannot be estimated without a measurement of counts")
    totals = [float(measurement.values.sum()) for measurement in counted]
    return max(1.0, float(np.average(totals, weights=[_total_precision(measurement) for measurement in counted])))


def total_stddev(measurements: Iterable[NoisyMarginal]) -> float:
    """Return the noise of `estimated_total`; 0 where no counts were measured."""
    precision = sum(_total_precision(measured) for measured in measurements if measured.contrasts is None)
    return precision**-0.5 if precision else 0.0


def _total_precision(measured: NoisyMarginal) -> float:
    return 1.0 / (measured.cells * measured.stddev**2)
