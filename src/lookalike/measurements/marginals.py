"""Noisy counts as they leave the door, with everything that is public about their noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lookalike.measurements.contrasts import CellTable, Contrasts, Shape
from lookalike.schema.domain import ColumnSet, Domain


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
            (`contrasts.py`). `values` then has no information on the table's total, nor on its single axes where it has
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
    weights, totals = [], []
    for measurement in measurements:
        if measurement.contrasts is not None:
            continue
        weights.append(1.0 / (measurement.cells * measurement.stddev**2))
        totals.append(float(measurement.values.sum()))
    if not weights:
        raise ValueError("the number of rows cannot be estimated without a measurement of counts")
    return max(1.0, float(np.average(totals, weights=weights)))
