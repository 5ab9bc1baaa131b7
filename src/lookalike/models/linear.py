"""Best linear unbiased estimates of sums of cells, from all noisy counts of a release that bear on them.

A weighted sum w of the cells of a marginal splits into parts, one per subset r of its columns (the part of r depends on
the columns of r only and sums to zero along each). Every measurement without groups on a superset C of r estimates
that part with variance |w_r|^2 * stddev^2 * cells(C) / cells(r), and errors of different parts are uncorrelated; so the
best linear unbiased estimate takes, part by part, the inverse-variance mean over all measurements that contain r. (The
same decomposition underlies ResidualPlanner and GReM.) Its error is Gaussian with a known standard deviation for every
table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

import numpy as np

from lookalike.measurements import Contrasts, NoisyMarginal, averaged
from lookalike.schema.domain import ColumnSet, Domain

_ROUNDING_VARIANCE = 1.0 / 12.0
"""Noisy counts are rounded to integers, which adds the variance of a uniform number between -1/2 and 1/2."""
_ZERO = 1e-12


class LinearEstimates:
    """Estimates of sums of cells and their standard deviations.

    Args:
        domain: names and sizes of the columns.
        measurements: the noisy marginals of a release.
    """

    def __init__(self, domain: Domain, measurements: Iterable[NoisyMarginal]) -> None:
        self.domain = domain
        self.measurements = list(measurements)
        self._plain = [m for m in self.measurements if m.groups is None]
        self._grouped = [m for m in averaged(self.measurements) if m.groups is not None]

    def linear(self, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Return the best linear unbiased estimate of a weighted sum and its stddev, None where not measured.

        Measurements of groups of cells are used where the weights are constant on every group; they are combined by
        inverse variance with the estimate from measurements without groups.
        """
        # Estimates that use the same counts of single columns are not independent, so the best of them is taken.
        dependent = [self._from_plain(attrs, weights)]
        dependent += [self._from_groups(m, attrs, weights) for m in self._grouped if m.contrasts is not None]
        best = min((one for one in dependent if one is not None), key=lambda one: one[1], default=None)
        independent = [self._from_groups(m, attrs, weights) for m in self._grouped if m.contrasts is None]
        found = [estimate for estimate in (best, *independent) if estimate is not None]
        if not found:
            return None
        precisions = [1.0 / max(variance, 1e-300) for _, variance in found]
        value = sum(p * estimate for p, (estimate, _) in zip(precisions, found, strict=True)) / sum(precisions)
        return value, math.sqrt(1.0 / sum(precisions))

    def _from_plain(self, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Estimate and variance from the measurements without groups, part by part."""
        estimate = variance = 0.0
        negligible = _ZERO * max(1.0, float((weights**2).sum()))
        for axes, values in _parts(weights):
            squared = float((values**2).sum())
            if squared <= negligible:
                continue
            found = self._mean_of(tuple(attrs[axis] for axis in axes))
            if found is None:
                return None
            counts, unit_variance = found
            estimate += float((values * counts).sum())
            variance += squared * unit_variance
        return estimate, variance

    def linear_marginal(self, attrs: ColumnSet) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimates of all cells of a marginal and their stddevs, both nan where a cell was not measured."""
        shape = self.domain.shape(attrs)
        plain = self._plain_marginal(attrs)
        best, variances = plain or (np.full(shape, np.nan), np.full(shape, np.inf))
        best, variances = best.ravel(), np.asarray(variances).ravel()
        precision, weighted = np.zeros(best.size), np.zeros(best.size)
        for m in (m for m in self._grouped if set(attrs) <= set(m.attrs)):
            cells, found, spread = self._cells_of_groups(m, attrs)
            if m.contrasts is None:
                precision[cells] += 1.0 / spread
                weighted[cells] += found / spread
                continue
            better = spread < variances[cells]
            best[cells[better]], variances[cells[better]] = found[better], spread[better]
        known = np.isfinite(variances)
        precision[known] += 1.0 / np.maximum(variances[known], 1e-300)
        weighted[known] += best[known] / np.maximum(variances[known], 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            estimates, stddevs = weighted / precision, np.sqrt(1.0 / precision)
        stddevs[precision == 0] = np.nan
        return estimates.reshape(shape), stddevs.reshape(shape)

    def _cells_of_groups(self, m: NoisyMarginal, attrs: ColumnSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cells of a marginal that are sums of whole groups of a measurement, with their estimates and variances."""
        size = self.domain.cells(attrs)
        owners = spread_over(m, attrs, np.arange(size).reshape(self.domain.shape(attrs)), self.domain)
        if owners is None or m.groups is None:
            return np.zeros(0, dtype=int), np.zeros(0), np.zeros(0)
        owner, group = owners.ravel(), m.groups.ravel()
        first, last = np.full(m.cells, size), np.full(m.cells, -1)
        np.minimum.at(first, group, owner)
        np.maximum.at(last, group, owner)
        mixed = np.zeros(size, dtype=bool)
        mixed[owner[(first != last)[group]]] = True
        cells = np.flatnonzero(~mixed)
        if m.contrasts is not None:
            sums = [(cell, self._sum_of_groups(m, (first == cell).astype(float))) for cell in cells]
            known = [(cell, *found) for cell, found in sums if found is not None]
            whole, values, spread = zip(*known, strict=True) if known else ((), (), ())
            return np.array(whole, dtype=int), np.array(values), np.array(spread)
        pure = first == last
        values = np.bincount(first[pure], m.values[pure], minlength=size)
        groups = np.bincount(first[pure], minlength=size)
        return cells, values[cells], groups[cells] * (m.stddev**2 + _ROUNDING_VARIANCE)

    def _plain_marginal(self, attrs: ColumnSet) -> tuple[np.ndarray, np.ndarray] | None:
        """Estimates and variances of all cells of a marginal from the measurements without groups."""
        shape = self.domain.shape(attrs)
        estimates, variance = np.zeros(shape), 0.0
        for kept in product((False, True), repeat=len(attrs)):
            found = self._mean_of(tuple(name for name, keep in zip(attrs, kept, strict=True) if keep))
            if found is None:
                return None
            counts, unit_variance = found
            part = counts.reshape([size if keep else 1 for size, keep in zip(shape, kept, strict=True)])
            for axis, (size, keep) in enumerate(zip(shape, kept, strict=True)):
                # A single cell's weights: the mean 1/size where the axis is averaged away, else 1 less that mean.
                part = part - part.mean(axis=axis, keepdims=True) if keep else part / size
                unit_variance *= 1.0 - 1.0 / size if keep else 1.0 / size**2
            estimates = estimates + part
            variance += unit_variance
        return estimates, np.full(shape, variance)

    def _mean_of(self, names: ColumnSet) -> tuple[np.ndarray, float] | None:
        """Inverse-variance mean of the measured marginals on `names`, and the variance of each of its cells."""
        # Contrasts have no information on the total, nor on single columns where they have several axes.
        usable = [
            m
            for m in self._plain
            if set(names) <= set(m.attrs) and (m.contrasts is None or len(names) >= min(2, len(m.contrasts)))
        ]
        if not usable:
            return None
        cells = self.domain.cells(names)
        precisions = [cells / ((m.stddev**2 + _ROUNDING_VARIANCE) * m.cells) for m in usable]
        counts = sum(
            p * m.values.sum(axis=axes_outside(m.attrs, names)) for p, m in zip(precisions, usable, strict=True)
        )
        return np.asarray(counts / sum(precisions)), 1.0 / sum(precisions)

    def _from_groups(self, m: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Estimate and variance from a measurement of groups, None where the weights differ within a group."""
        spread = spread_over(m, attrs, weights, self.domain)
        if spread is None or m.groups is None:
            return None
        groups = m.groups.ravel()
        by_group = np.zeros(m.cells)
        by_group[groups] = spread.ravel()
        if not np.allclose(by_group[groups], spread.ravel(), rtol=0, atol=_ZERO):
            return None
        return self._sum_of_groups(m, by_group)

    def _sum_of_groups(self, measurement: NoisyMarginal, by_group: np.ndarray) -> tuple[float, float] | None:
        """Estimate and variance of a weighted sum of groups.

        Contrasts give a part of it; the rest is the total and sums of single columns, which were measured separately.
        """
        noise = measurement.stddev**2 + _ROUNDING_VARIANCE
        if measurement.contrasts is None or measurement.groups is None:
            return float(by_group @ measurement.values), noise * float((by_group**2).sum())
        part = Contrasts(measurement.contrasts).of(by_group)
        rest = self._from_plain(measurement.attrs, (by_group - part)[measurement.groups])
        if rest is None:
            return None
        return rest[0] + float(part @ measurement.values), rest[1] + noise * float((part**2).sum())


def axes_outside(attrs: ColumnSet, kept: ColumnSet) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(attrs) if name not in kept)


def _parts(weights: np.ndarray) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """The part of the weights that belongs to each set of axes, as an array over those axes alone.

    >>> [(axes, part.tolist()) for axes, part in _parts(np.array([1.0, 0.0]))]
    [((), 0.5), ((0,), [0.5, -0.5])]
    """
    parts: list[tuple[tuple[int, ...], np.ndarray]] = [((), weights)]
    for axis in range(weights.ndim):
        split = []
        for axes, values in parts:
            # Axes that were averaged away are gone, so this axis comes after those that were kept.
            at = len(axes)
            mean = values.mean(axis=at)
            split += [(axes, mean), ((*axes, axis), values - np.expand_dims(mean, at))]
        parts = split
    return parts


def spread_over(measurement: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray, domain: Domain) -> np.ndarray | None:
    """The weights over the cells of a measurement of groups, None where it lacks one of the columns."""
    if not set(attrs) <= set(measurement.attrs):
        return None
    shape = [domain.size(name) if name in attrs else 1 for name in measurement.attrs]
    return np.broadcast_to(weights.reshape(shape), domain.shape(measurement.attrs))
