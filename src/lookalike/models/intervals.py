"""Error bars of counts from the recorded noise of a release. This is post-processing and costs no budget.

**Measured counts** have a best linear unbiased estimate whose error is Gaussian with a known standard deviation
(`linear.py`). The interval is that of Feldman and Cousins (1998) for a mean that cannot be negative: it covers the true
count with the stated probability, and is never empty. It rests on the noise alone, not on the model. The value to
show is the model's, as far as the noise allows (`best_estimate`), so that it lies inside the interval.

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
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from lookalike.errors import InputError
from lookalike.measurements import NoisyMarginal, NoisyResidual
from lookalike.models.linear import LinearEstimates, axes_outside, spread_over
from lookalike.schema.domain import ColumnSet, Domain

_MAX_BOUNDS = 8
Basis = Literal["measured", "binned", "bounded"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A count, mean, quantile or correlation with its error bars.

    Attributes:
        value: the best estimate; always inside the interval.
        low: lower end of the interval for the true number of the private table.
        high: upper end.
        level: probability, over the noise, that the interval contains the true number.
        basis: `measured` (the interval is exact), `binned` (measured, but values within bins are unknown; the interval
            allows every place of them), or `bounded` (no measurement contains the cells; the interval is the range that
            the measured sums allow for any dependence).
        noise_stddev: standard deviation of the best linear estimate from the noisy counts; None where bounded.
        sampling_stddev: standard deviation of the same number in a table of as many rows drawn from the model.
        model: the model's own answer, which rows drawn from it have but for the sampling error.
    """

    value: float
    low: float
    high: float
    level: float
    basis: Basis
    noise_stddev: float | None
    sampling_stddev: float
    model: float


class Cells(NamedTuple):
    """Best estimates and intervals of all cells of a marginal, and the basis of the least certain of them."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    basis: Basis


class ErrorBars(LinearEstimates):
    """Intervals for all counts of a release.

    Args:
        domain: names and sizes of the columns.
        measurements: the noisy marginals from which the release is made.
        residuals: noisy distances of marginals from public references; of several for a column set the last is used.
    """

    def __init__(
        self, domain: Domain, measurements: Iterable[NoisyMarginal], residuals: Iterable[NoisyResidual] = ()
    ) -> None:
        super().__init__(domain, measurements)
        self.residuals = {residual.attrs: residual for residual in residuals}

    def answer(self, attrs: ColumnSet, weights: np.ndarray, value: float, total: float, level: float = 0.9) -> Answer:
        """Return estimate and interval for the sum of `weights` times the counts of the marginal on `attrs`.

        Args:
            attrs: columns in domain order.
            weights: one weight between 0 and 1 per cell of the marginal.
            value: the model's answer.
            total: the model's number of rows.
            level: probability with which the interval is to contain the true count.
        """
        check_level(level)
        share = min(1.0, max(0.0, value / total)) if total > 0 else 0.0
        sampling = math.sqrt(max(0.0, total) * share * (1.0 - share))
        found = self.linear(attrs, weights)
        if found is None:
            low, high = self._bounds(attrs, weights, level)
            return Answer(min(max(value, low), high), low, high, level, "bounded", None, sampling, value)
        low, high = map(float, measured_interval(*found, float(weights.max(initial=0.0)), level))
        best = min(max(float(best_estimate(value, *found)), low), high)
        return Answer(best, low, high, level, "measured", found[1], sampling, value)

    def marginal(self, attrs: ColumnSet, values: np.ndarray, total: float, level: float = 0.9) -> Cells:
        """Return best estimates and intervals for every cell of a marginal whose model counts are `values`.

        Each single interval holds with probability `level`; all of them together hold with less.
        """
        estimates, stddevs = self.linear_marginal(attrs)
        low, high = measured_interval(estimates, stddevs, 1.0, level)
        best = np.clip(best_estimate(values, estimates, stddevs), low, high)
        unknown = np.flatnonzero(np.isnan(estimates))
        for cell in unknown:
            weights = np.zeros(values.size)
            weights[cell] = 1.0
            answer = self.answer(attrs, weights.reshape(values.shape), float(values.flat[cell]), total, level)
            best.flat[cell], low.flat[cell], high.flat[cell] = answer.value, answer.low, answer.high
        return Cells(best, low, high, "bounded" if unknown.size else "measured")

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
        low, high = max(lows), max(0.0, min(highs, default=math.inf))
        # Noise may put the ends in the wrong order; both hold with their probability only if the interval has both.
        return min(low, high), max(low, high)

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
        largest = weights.max(axis=axes_outside(attrs, subset))
        found = self.linear(subset, largest)
        if found is not None:
            return found
        sums = [self._largest_groups(m, subset, largest) for m in self._grouped]
        # Chosen by stddev alone, which does not depend on the noise; the smallest estimates would be biased.
        return min((one for one in sums if one is not None), key=lambda one: one[1], default=None)

    def _largest_groups(self, m: NoisyMarginal, attrs: ColumnSet, weights: np.ndarray) -> tuple[float, float] | None:
        """Estimate and stddev of a sum at least as large, in which every group has the largest weight of its cells."""
        spread = spread_over(m, attrs, weights, self.domain)
        if spread is None or m.groups is None:
            return None
        by_group = np.zeros(m.cells)
        np.maximum.at(by_group, m.groups.ravel(), spread.ravel())
        found = self._sum_of_groups(m, by_group)
        return None if found is None else (found[0], math.sqrt(found[1]))

    def _cover(self, attrs: ColumnSet, weights: np.ndarray, subsets: Sequence[ColumnSet]) -> list[tuple[float, float]]:
        """Sums whose cells together contain every cell outside the box of weights; empty if weights are not a box."""
        box, covered = np.ones(weights.shape), set[str]()
        sums: list[tuple[float, float]] = []
        for subset in subsets:
            if set(subset) <= covered:
                continue
            covered |= set(subset)
            axes = axes_outside(attrs, subset)
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
    away = axes_outside(attrs, residual.attrs)
    distance = max(0.0, residual.value + z * residual.stddev + 0.5)
    shift, doubt = total[0] - float(residual.reference.sum()), z * total[1] + 0.5
    low = float((weights.min(axis=away) * residual.reference).sum()) - (distance - shift + doubt) / 2
    high = float((weights.max(axis=away) * residual.reference).sum()) + (distance + shift + doubt) / 2
    return low, high


def check_level(level: float) -> None:
    """Refuse a level that is not a probability."""
    if not 0 < level < 1:
        raise InputError(f"The level of an interval is {level}; it must lie between 0 and 1, for instance 0.9.")


def _quantile(level: float, sums: int) -> float:
    """Number of standard deviations that one side must allow so that all its sums hold together."""
    return float(ndtri(1.0 - (1.0 - level) / 2.0 / max(1, sums)))


SMALLEST = 1e-12
"""Smallest standard deviation: estimates from exact numbers have none."""


def measured_interval(
    estimate: np.ndarray | float, stddev: np.ndarray | float, largest_weight: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the interval for a count whose estimate has this standard deviation, one per estimate."""
    stddev = np.maximum(stddev, SMALLEST)
    low, high = nonnegative_interval(np.asarray(estimate) / stddev, level)
    # Half a count more on either side, since the noise is rounded, which matters where its stddev is below 2 or 3.
    slack = 0.5 * largest_weight
    return np.maximum(0.0, low * stddev - slack), high * stddev + slack


def best_estimate(model: np.ndarray | float, estimate: np.ndarray | float, stddev: np.ndarray | float) -> np.ndarray:
    """Return the estimate to show, from a model's count and the unbiased one: the model's as far as noise allows.

    A model averages noise away where its assumptions hold and is wrong where they do not, and only its difference d
    from the unbiased estimate tells. Noise explains a share min(1, stddev^2 / d^2) of that difference (the empirical
    Bayes weight of one observation). So a model within one stddev is kept, one far outside is ignored, and the result
    never lies more than one stddev from the unbiased estimate: inside every interval of 70 % and above.

    >>> best_estimate(np.array([101.0, 150.0]), 100.0, 2.0).round(2).tolist()
    [101.0, 100.08]
    """
    stddev = np.maximum(stddev, SMALLEST)
    difference = np.asarray(model, dtype=float) - estimate
    kept = np.minimum(1.0, (stddev / np.maximum(np.abs(difference), stddev)) ** 2)
    return np.maximum(0.0, estimate + kept * difference)


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
