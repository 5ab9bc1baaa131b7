"""Error bars of counts from the recorded noise of a release. This is post-processing and costs no budget.

**Measured counts.** The error of a sum of measured counts is known exactly. A weighted sum w of the cells of a marginal
splits into parts, one per subset r of its columns (the part of r depends on the columns of r only and sums to zero
along each). Every measurement without groups on a superset C of r estimates that part with variance |w_r|^2 * stddev^2
* cells(C) / cells(r), and errors of different parts are uncorrelated; so the best linear unbiased estimate takes, part
by part, the inverse-variance mean over all measurements that contain r. (The same decomposition underlies
ResidualPlanner and GReM.) Its error is Gaussian with a known standard deviation for every table, and the interval is
that of Feldman and Cousins (1998) for a mean that cannot be negative: it covers the true count with the stated
probability, and is never empty.

**Other counts** follow from the model's assumption that columns which were not measured together are independent. The
release has no information on how wrong that is, so the interval is a bound that holds for every dependence: at most
each measured sum that contains the cells, at least their necessary overlap (Frechet's bounds), with the noise of those
sums added. It is wide.

Neither interval contains the *sampling error*: the random variation of a count in a table of rows drawn from the model
(or of people drawn from a population). Its standard deviation, sqrt(answer * (1 - answer / total)), is reported
separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from lookalike.errors import InputError
from lookalike.measurements import Contrasts, NoisyMarginal, NoisyResidual, averaged
from lookalike.schema.domain import ColumnSet, Domain

_ROUNDING_VARIANCE = 1.0 / 12.0
"""Noisy counts are rounded to integers, which adds the variance of a uniform number between -1/2 and 1/2."""
_MAX_BOUNDS = 8
_ZERO = 1e-12
Basis = Literal["measured", "bounded"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A count with its error bars.

    Attributes:
        value: the model's answer.
        low, high: ends of the interval for the true count in the private table.
        level: probability, over the noise, that the interval contains the true count.
        basis: `measured` (the interval is exact), or `bounded` (no measurement contains the cells; the interval is the
            range that the measured sums allow for any dependence).
        noise_stddev: standard deviation of the best linear estimate from the noisy counts; None where bounded.
        sampling_stddev: standard deviation of the same count in a table of as many rows drawn from the model.
    """

    value: float
    low: float
    high: float
    level: float
    basis: Basis
    noise_stddev: float | None
    sampling_stddev: float


class ErrorBars:
    """Intervals for all counts of a release.

    Args:
        domain: names and sizes of the columns.
        measurements: the noisy marginals from which the release is made.
        residuals: noisy distances of marginals from public references; of several for a column set the last is used.
    """

    def __init__(
        self, domain: Domain, measurements: Iterable[NoisyMarginal], residuals: Iterable[NoisyResidual] = ()
    ) -> None:
        self.domain = domain
        self.measurements = list(measurements)
        self.residuals = {residual.attrs: residual for residual in residuals}
        self._plain = [m for m in self.measurements if m.groups is None]
        self._grouped = [m for m in averaged(self.measurements) if m.groups is not None]

    def answer(self, attrs: ColumnSet, weights: np.ndarray, value: float, total: float, level: float = 0.9) -> Answer:
        """Return the interval for the sum of `weights` times the counts of the marginal on `attrs`.

        Args:
            attrs: columns in domain order.
            weights: one weight between 0 and 1 per cell of the marginal.
            value: the model's answer.
            total: the model's number of rows.
            level: probability with which the interval is to contain the true count.
        """
        if not 0 < level < 1:
            raise InputError(f"The level of an interval is {level}; it must lie between 0 and 1, for instance 0.9.")
        share = min(1.0, max(0.0, value / total)) if total > 0 else 0.0
        sampling = math.sqrt(max(0.0, total) * share * (1.0 - share))
        found = self.linear(attrs, weights)
        if found is not None:
            low, high = map(float, _measured_interval(*found, float(weights.max(initial=0.0)), level))
            return Answer(value, min(low, value), max(high, value), level, "measured", found[1], sampling)
        low, high = self._bounds(attrs, weights, level)
        return Answer(value, min(low, value), max(high, value), level, "bounded", None, sampling)

    def marginal(
        self, attrs: ColumnSet, values: np.ndarray, total: float, level: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray, Basis]:
        """Return lower and upper ends for every cell of a marginal whose model counts are `values`, and their basis.

        Each single interval holds with probability `level`; all of them together hold with less. The basis is `bounded`
        if that of any cell is.
        """
        found = self._linear_marginal(attrs)
        if found is not None:
            low, high = _measured_interval(*found, 1.0, level)
            return np.fmin(low, values), np.fmax(high, values), "measured"
        answers = []
        for cell in range(values.size):
            weights = np.zeros(values.size)
            weights[cell] = 1.0
            answers.append(self.answer(attrs, weights.reshape(values.shape), float(values.flat[cell]), total, level))
        low, high = (np.reshape([getattr(a, end) for a in answers], values.shape) for end in ("low", "high"))
        return low, high, "bounded" if any(a.basis == "bounded" for a in answers) else "measured"

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

    def _linear_marginal(self, attrs: ColumnSet) -> tuple[np.ndarray, float] | None:
        """Estimates of all cells of a marginal at once and their common stddev; None where groups are needed."""
        if any(set(attrs) <= set(m.attrs) for m in self._grouped):
            return None
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
        return estimates, math.sqrt(variance)

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
            p * m.values.sum(axis=_axes_outside(m.attrs, names)) for p, m in zip(precisions, usable, strict=True)
        )
        return np.asarray(counts / sum(precisions)), 1.0 / sum(precisions)

    def _bounds(self, attrs: ColumnSet, weights: np.ndarray, level: float) -> tuple[float, float]:
        """Bounds from measured sums over fewer columns, with their noise, which hold with probability `level`.

        Counts are at most the measured count of any larger set of cells, and at least the total less the measured
        counts of sets that together contain all other cells; and they lie near a reference whose noisy distance was
        released. Each side may fail with probability (1 - level) / 2, divided among the noisy numbers that it uses.
        """
        subsets = self._measured_subsets(attrs)
        near = [r for r in self.residuals.values() if r.attrs and set(r.attrs) <= set(attrs)][:_MAX_BOUNDS]
        above = [found for subset in subsets if (found := self._larger_sum(attrs, weights, subset)) is not None]
        total = self.linear((), np.array(1.0))
        z = _quantile(level, len(above) + 1 + len(near))
        highs = [estimate + z * stddev + 1.0 for estimate, stddev in above]
        lows = [0.0]
        if total is not None:
            highs.append(total[0] + z * total[1] + 1.0)
            highs += [_near_reference(r, attrs, weights, total, z)[1] for r in near]
            outside = [[found] for subset in subsets if (found := self._larger_sum(attrs, 1.0 - weights, subset))]
            outside = list(filter(None, [*outside, self._cover(attrs, weights, subsets)]))
            z = _quantile(level, len(outside) + 1 + len(near))
            # Deviations are added, not squared: sums from the same measurement may err in the same direction.
            for sums in outside:
                spread = total[1] + sum(stddev for _, stddev in sums)
                lows.append(total[0] - sum(estimate for estimate, _ in sums) - z * spread - 1.0)
            lows += [_near_reference(r, attrs, weights, total, z)[0] for r in near]
        return max(lows), max(0.0, min(highs, default=math.inf))

    def _measured_subsets(self, attrs: ColumnSet) -> list[ColumnSet]:
        """At most `_MAX_BOUNDS` maximal subsets of `attrs`, possibly `attrs` itself, that lie in one measurement."""
        found: list[ColumnSet] = []
        for size in range(len(attrs), 0, -1):
            for subset in combinations(attrs, size):
                inside = any(set(subset) <= set(larger) for larger in found)
                if not inside and any(set(subset) <= set(m.attrs) for m in self.measurements):
                    found.append(subset)
        return found[:_MAX_BOUNDS]

    def _larger_sum(self, attrs: ColumnSet, weights: np.ndarray, subset: ColumnSet) -> tuple[float, float] | None:
        """Estimate and stddev of a larger sum: cells of `subset`, or groups of them, with their largest weight."""
        largest = weights.max(axis=_axes_outside(attrs, subset))
        found = self.linear(subset, largest)
        if found is not None:
            return found
        sums = [self._largest_groups(m, subset, largest) for m in self._grouped]
        # Chosen by stddev alone, which does not depend on the noise; the smallest estimates would be biased.
        return min((one for one in sums if one is not None), key=lambda one: one[1], default=None)

    def _from_groups(self, m: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Estimate and variance from a measurement of groups, None where the weights differ within a group."""
        spread = _spread_over(m, attrs, weights, self.domain)
        if spread is None or m.groups is None:
            return None
        groups, by_group = m.groups.ravel(), np.zeros(m.cells)
        by_group[groups] = spread.ravel()
        if not np.allclose(by_group[groups], spread.ravel(), rtol=0, atol=_ZERO):
            return None
        return self._sum_of_groups(m, by_group)

    def _largest_groups(self, m: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Estimate and stddev of a sum at least as large, in which every group has the largest weight of its cells."""
        spread = _spread_over(m, attrs, weights, self.domain)
        if spread is None or m.groups is None:
            return None
        by_group = np.zeros(m.cells)
        np.maximum.at(by_group, m.groups.ravel(), spread.ravel())
        found = self._sum_of_groups(m, by_group)
        return None if found is None else (found[0], math.sqrt(found[1]))

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

    def _cover(self, attrs: ColumnSet, weights: np.ndarray, subsets: Sequence[ColumnSet]) -> list[tuple[float, float]]:
        """Sums whose cells together contain every cell outside the box of weights; empty if weights are not a box."""
        box, covered = np.ones(weights.shape), set[str]()
        sums: list[tuple[float, float]] = []
        for subset in subsets:
            if set(subset) <= covered:
                continue
            covered |= set(subset)
            axes = _axes_outside(attrs, subset)
            inside = weights.max(axis=axes)
            box = box * np.expand_dims(inside, axes)
            found = self._larger_sum(subset, 1.0 - inside, subset)
            if found is None:
                return []
            sums.append(found)
        return sums if np.allclose(box, weights) else []


def _near_reference(
    residual: NoisyResidual, attrs: ColumnSet, weights: np.ndarray, total: tuple[float, float], z: float
) -> tuple[float, float]:
    """Bounds from a marginal's noisy distance to a reference R: with d = M - R and weights between 0 and 1,

    sum(w d) <= sum of the positive d = (|d| + sum d) / 2, and likewise below; sum d is the total less that of R.
    """
    away = _axes_outside(attrs, residual.attrs)
    distance = max(0.0, residual.value + z * residual.stddev + 0.5)
    shift, doubt = total[0] - float(residual.reference.sum()), z * total[1] + 0.5
    low = float((weights.min(axis=away) * residual.reference).sum()) - (distance - shift + doubt) / 2
    high = float((weights.max(axis=away) * residual.reference).sum()) + (distance + shift + doubt) / 2
    return low, high


def _axes_outside(attrs: ColumnSet, kept: ColumnSet) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(attrs) if name not in kept)


def _quantile(level: float, sums: int) -> float:
    """Number of standard deviations that one side must allow so that all its sums hold together."""
    return float(ndtri(1.0 - (1.0 - level) / 2.0 / max(1, sums)))


def nonnegative_interval(observed: np.ndarray | float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Feldman-Cousins intervals for the mean of a unit Gaussian that cannot be negative, one per observation.

    >>> low, high = nonnegative_interval([-0.5, 5.0], 0.9)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 3.355], [1.184, 6.645])
    """
    observed = np.asarray(observed, dtype=np.float64)
    half = float(ndtri(0.5 + level / 2.0))
    means, lows, highs = _acceptance(level)
    far = observed >= 2 * half
    low = np.where(far, observed - half, np.interp(observed, highs, means, left=0.0))
    high = np.where(far, observed + half, np.interp(observed, lows, means))
    return low, high


@cache
def _acceptance(level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For a grid of means, the ends of the accepted observations, those of the largest likelihood ratio.

    The likelihood ratio of an observation x to its best mean max(x, 0) is exp(-(x - mean)^2 / 2) for x >= 0 and
    exp(x mean - mean^2 / 2) below; both ends have the same ratio, and `level` of the probability lies between.
    """
    half = float(ndtri(0.5 + level / 2.0))
    means = np.concatenate([np.geomspace(1e-4, half, 200), np.linspace(half, 4 * half, 100)[1:]])
    lows, highs = means - half, means + half

    def lower_end(mean: float, high: float) -> float:
        return (mean**2 - (high - mean) ** 2) / (2.0 * mean)

    for i, mean in enumerate(means):
        if mean < half:
            excess = lambda high, mean=mean: ndtr(high - mean) - ndtr(lower_end(mean, high) - mean) - level  # noqa: E731
            start, end = mean + float(ndtri(level)) - 1e-9, mean + half + 1e-9
            highs[i] = float(brentq(excess, start, end))  # pyright: ignore[reportArgumentType]
            lows[i] = lower_end(mean, highs[i])
    # At a mean of 0 all negative observations have the same likelihood ratio, so all are accepted.
    return np.append(0.0, means), np.append(10 * lows[0], lows), np.append(ndtri(level), highs)


def _measured_interval(
    estimate: np.ndarray | float, stddev: float, largest_weight: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    stddev = max(stddev, _ZERO)
    low, high = nonnegative_interval(np.asarray(estimate) / stddev, level)
    # Half a count more on either side, since the noise is rounded, which matters where its stddev is below 2 or 3.
    slack = 0.5 * largest_weight
    return np.maximum(0.0, low * stddev - slack), high * stddev + slack


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


def _spread_over(
    measurement: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray, domain: Domain
) -> np.ndarray | None:
    """The weights over the cells of a measurement of groups, None where it lacks one of the columns."""
    if not set(attrs) <= set(measurement.attrs):
        return None
    shape = [domain.size(name) if name in attrs else 1 for name in measurement.attrs]
    return np.broadcast_to(weights.reshape(shape), domain.shape(measurement.attrs))
