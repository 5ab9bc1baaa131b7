"""Means, quantiles and correlations of columns of numbers or times, with intervals for those of the private table.

All are functions of the counts of cells, so they cost nothing and their error is known where the cells were measured:

* a mean m solves sum(n (x - m)) = 0, which is a linear sum of counts for every m; the interval holds all m for which
  that sum may be zero (Fieller's construction, exact also for noisy denominators);
* a quantile lies in the first bin below whose upper end there are enough rows; the interval holds all bins that a test
  of these sums does not exclude;
* a correlation is linearised at the model's counts, and its interval made on Fisher's scale.

A bin tells where a value lies only up to its ends. Intervals of means and quantiles allow every place within the bins,
those of correlations every deviation from the bins' means (Cauchy-Schwarz). Values outside the schema count as it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from lookalike.models.intervals import Answer, Basis, ErrorBars
from lookalike.schema.bins import Binned
from lookalike.schema.domain import ColumnSet

_NEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the values of a column's bins lie: smallest, mean and largest value of every regular code.

    The mean is that of the column's shape, or the middle where it has none.
    """

    low: np.ndarray
    mean: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, column: Binned) -> Places:
        low, high = (np.asarray(column.numbers_at(ends), dtype=float) for ends in column.bin_ends())
        if not column.shape:
            return cls(low, (low + high) / 2, high)
        edges = np.array([column.internal(edge) for edge, _ in column.shape])
        weights = np.array([weight for _, weight in column.shape])
        ends = np.append(edges[1:], column.internal(column.maximum))
        bins = np.searchsorted(column.edges, edges, side="right") - 1
        mass = np.bincount(bins, weights, minlength=len(low))
        sums = np.bincount(bins, weights * (edges + ends) / 2, minlength=len(low))
        means = np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), (low + high) / 2)
        return cls(low, np.clip(means, low, high), high)

    @property
    def exact(self) -> bool:
        """Whether every bin holds a single value."""
        return bool(np.all(self.low == self.high))


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The rows that a statistic is about, as cells of a marginal.

    Attributes:
        attrs: the marginal's columns.
        counts: the model's counts.
        weights: share of each cell that is meant; 0 in cells without a regular value of the statistic's columns.
        bars: the recorded noise.
        level: level of the intervals.
    """

    attrs: ColumnSet
    counts: np.ndarray
    weights: np.ndarray
    bars: ErrorBars
    level: float

    @property
    def rows(self) -> float:
        """The model's number of these rows."""
        return float((self.weights * self.counts).sum())

    @property
    def cut(self) -> np.ndarray:
        """Cells of which an unknown part is meant."""
        return (self.weights > _NEAR) & (self.weights < 1 - _NEAR)

    @property
    def z(self) -> float:
        return float(ndtri(0.5 + self.level / 2))

    def along(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return numbers of a column's regular codes as an array that broadcasts over the cells; 0 for other codes."""
        axis = self.attrs.index(name)
        padded = np.zeros(self.counts.shape[axis])
        padded[: len(values)] = values
        return padded.reshape([-1 if i == axis else 1 for i in range(len(self.attrs))])

    def least(self, values: np.ndarray) -> np.ndarray:
        """Return weights of a sum at most as large as that of `values` over the meant rows, whatever part is meant."""
        return np.where(self.cut, np.minimum(values, 0.0), np.where(self.weights > 0.5, values, 0.0))

    def most(self, values: np.ndarray) -> np.ndarray:
        """Return weights of a sum at least as large as that of `values` over the meant rows."""
        return -self.least(-values)

    def estimate(self, weights: np.ndarray) -> tuple[float, float] | None:
        return self.bars.linear(self.attrs, np.ascontiguousarray(np.broadcast_to(weights, self.counts.shape)))


def mean_answer(chosen: Selection, name: str, places: Places) -> Answer:
    """Return the mean of a column over the chosen rows."""
    low, mean, high = (chosen.along(name, values) for values in (places.low, places.mean, places.high))
    first, last = float(places.low.min()), float(places.high.max())
    inside = chosen.weights * chosen.counts
    model = float((inside * mean).sum()) / chosen.rows
    spread = math.sqrt(max(0.0, float((inside * (mean - model) ** 2).sum()) / chosen.rows))
    sampling = spread / math.sqrt(max(chosen.rows, 1.0))
    found = chosen.estimate(chosen.weights * (mean - model))
    if found is None or chosen.estimate(chosen.least(low - first)) is None:
        bottom, top = _trimmed_means(chosen, name, places)
        return Answer(_within(model, bottom, top), bottom, top, chosen.level, "bounded", None, sampling, model)

    def beyond(end: np.ndarray, sign: float) -> Callable[[float], float]:
        """How far the sum of (x - m) is beyond its noise, for one end of the bins; falls as m moves outwards."""

        def excess(m: float) -> float:
            estimate, stddev = chosen.estimate(chosen.least(sign * (end - m))) or (0.0, 0.0)
            return estimate - chosen.z * stddev

        return excess

    bottom = _lowest(beyond(low, 1.0), first, last)
    top = -_lowest(lambda m: beyond(high, -1.0)(-m), -last, -first)
    # One step from the model towards the unbiased estimate, as far as the noise does not explain the difference.
    estimate, stddev = found[0] / max(chosen.rows, 1.0), found[1] / max(chosen.rows, 1.0)
    value = model + estimate * (1.0 - min(1.0, (stddev / max(abs(estimate), stddev, 1e-300)) ** 2))
    basis: Basis = "measured" if places.exact and not chosen.cut.any() else "binned"
    bottom, top = min(bottom, top), max(bottom, top)
    return Answer(_within(value, bottom, top), bottom, top, chosen.level, basis, stddev, sampling, model)


def quantile_answer(chosen: Selection, name: str, places: Places, share: float) -> Answer:
    """Return the value of a column at or below which a share of the chosen rows lies."""
    bins, axis = len(places.low), chosen.attrs.index(name)
    others = tuple(i for i in range(len(chosen.attrs)) if i != axis)
    mass = (chosen.weights * chosen.counts).sum(axis=others)[:bins]
    model, density = _interpolated(mass / mass.sum(), places, share)
    sampling = math.sqrt(share * (1 - share) / max(chosen.rows, 1.0)) / density if density > 0 else 0.0
    sums: list[tuple[float, float, float, float]] = []
    for edge in range(1, bins):
        values = chosen.along(name, (np.arange(bins) < edge) - share)
        most, least = chosen.estimate(chosen.most(values)), chosen.estimate(chosen.least(values))
        if most is None or least is None:
            ends = float(places.low[0]), float(places.high[-1])
            return Answer(_within(model, *ends), *ends, chosen.level, "bounded", None, sampling, model)
        sums.append((*least, *most))
    possible = np.flatnonzero(_not_excluded(np.array(sums).reshape(-1, 4), mass, chosen.level))
    basis: Basis = "measured" if places.exact and not chosen.cut.any() else "binned"
    ends = float(places.low[possible[0]]), float(places.high[possible[-1]])
    return Answer(_within(model, *ends), *ends, chosen.level, basis, None, sampling, model)


def _not_excluded(sums: np.ndarray, mass: np.ndarray, level: float) -> np.ndarray:
    """Return which bins may hold a quantile, by tests of the rows below every inner edge, less the share of all rows.

    A bin is excluded if the sum at its lower edge is surely above zero, or that at its upper edge surely below. Both
    cannot be near zero, since they differ by the rows of the bin, d standard deviations: so the true bin is excluded
    with probability at most P(Z > z) + P(Z > z + d), and z makes that 1 - level. With two tests of z alone, medians of
    few values would hold in 95 to 100 % of all cases. The rows of the bin are the model's.

    Args:
        sums: for every edge between two bins, the least sum and the largest with their standard deviations.
        mass: the model's rows in every bin.
        level: probability with which the true bin is to be kept.
    """
    low, low_stddev, high, high_stddev = np.vstack([[-np.inf, 0, 0, 0], sums]).T
    upper, upper_stddev = np.append(high[1:], np.inf), np.append(high_stddev[1:], 0.0)
    stddev = np.maximum(np.maximum(low_stddev, upper_stddev), 1e-12)
    z = _two_sided(np.maximum(mass, 0.0) / stddev, level)
    kept = (low - z * low_stddev <= 0) & (upper + z * upper_stddev >= 0)
    if not kept.any():
        kept[int(np.argmin(np.maximum(low, -upper)))] = True
    return kept


def _two_sided(apart: np.ndarray, level: float) -> np.ndarray:
    """Return z with P(Z > z) + P(Z > z + apart) = 1 - level, from the quantile of one side to that of two.

    >>> _two_sided(np.array([0.0, 1.0, 50.0]), 0.9).round(3).tolist()
    [1.645, 1.339, 1.282]
    """
    low, high = np.full(apart.shape, ndtri(level)), np.full(apart.shape, ndtri(0.5 + level / 2))
    for _ in range(40):
        middle = (low + high) / 2
        often = ndtr(-middle) + ndtr(-middle - apart) > 1 - level
        low, high = np.where(often, middle, low), np.where(often, high, middle)
    return (low + high) / 2


def correlation_answer(chosen: Selection, names: tuple[str, str], places: tuple[Places, Places]) -> Answer:
    """Return Pearson's correlation of two columns over the chosen rows."""
    share = chosen.weights * chosen.counts / chosen.rows
    centred, stddevs, doubts = [], [], []
    for name, place in zip(names, places, strict=True):
        values = chosen.along(name, place.mean)
        values = values - float((share * values).sum())
        centred.append(values)
        stddevs.append(math.sqrt(float((share * values**2).sum())))
        away = chosen.along(name, np.maximum(place.mean - place.low, place.high - place.mean))
        doubts.append(math.sqrt(float((share * away**2).sum())))
    if min(stddevs) <= 0:
        return Answer(0.0, -1.0, 1.0, chosen.level, "bounded", None, 0.0, 0.0)
    one, two = (values / stddev for values, stddev in zip(centred, stddevs, strict=True))
    model = _within(float((share * one * two).sum()), -1.0, 1.0)
    sampling = (1 - model**2) / math.sqrt(max(chosen.rows, 1.0))
    # Derivative of r by the count of a cell, with standardised values: (ab - r (a^2 + b^2) / 2) / rows.
    found = chosen.estimate(chosen.weights * (one * two - model * (one**2 + two**2) / 2) / chosen.rows)
    if found is None or chosen.cut.any():
        return Answer(model, -1.0, 1.0, chosen.level, "bounded", None, sampling, model)
    step, stddev = found
    kept = 1.0 - min(1.0, (stddev / max(abs(step), stddev, 1e-300)) ** 2)
    centre = math.atanh(_within(model + step, -0.9999, 0.9999))
    reach = chosen.z * stddev / max(1 - math.tanh(centre) ** 2, 1e-9)
    low, high = math.tanh(centre - reach), math.tanh(centre + reach)
    ratios = [doubt / spread for doubt, spread in zip(doubts, stddevs, strict=True)]
    ends = -_raised(-low, ratios), _raised(high, ratios)
    basis: Basis = "measured" if max(doubts) <= 0 else "binned"
    return Answer(_within(model + kept * step, *ends), *ends, chosen.level, basis, stddev, sampling, model)


def _raised(correlation: float, ratios: list[float]) -> float:
    """Return how large a correlation may be if values deviate from their bins' means by these shares of the stddev.

    With a = m + u and |u| <= U in quadratic mean, |cov(a, b) - cov(m_a, m_b)| <= s_a U_b + s_b U_a + U_a U_b, and the
    stddev of a lies between s_a - U_a and s_a + U_a.
    """
    one, two = ratios
    covariance = correlation + one + two + one * two
    scale = (1 - min(one, 1.0)) * (1 - min(two, 1.0)) if covariance > 0 else (1 + one) * (1 + two)
    return 1.0 if covariance >= scale else max(-1.0, covariance / scale)


def _trimmed_means(chosen: Selection, name: str, places: Places) -> tuple[float, float]:
    """Return bounds on a mean for every dependence: of as many rows of the column, the smallest and the largest.

    The number of rows and the column's cumulative counts have noise; all of them hold together with the level.
    """
    bins = len(places.low)
    level = 1 - (1 - chosen.level) / bins / 2
    surely = chosen.least(np.ones(chosen.counts.shape))
    rows = chosen.bars.answer(chosen.attrs, surely, chosen.rows, chosen.rows, level).low
    size = chosen.counts.shape[chosen.attrs.index(name)]
    z, codes = float(ndtri(0.5 + level / 2)), np.arange(size)

    def filled(inside: list[np.ndarray]) -> np.ndarray:
        """Largest share of the rows that may lie in each of these growing sets of bins."""
        sums = [chosen.bars.linear((name,), part * 1.0) for part in inside]
        shares = [1.0 if one is None else (one[0] + z * one[1]) / rows for one in sums]
        return np.append(np.maximum.accumulate(np.clip(shares[:-1], 0.0, 1.0)), 1.0)

    if rows <= 0:
        return float(places.low[0]), float(places.high[-1])
    below = filled([codes < edge for edge in range(1, bins + 1)])
    above = filled([(codes >= edge) & (codes < bins) for edge in range(bins - 1, -1, -1)])
    return float(places.low @ np.diff(below, prepend=0.0)), float(places.high[::-1] @ np.diff(above, prepend=0.0))


def _lowest(excess: Callable[[float], float], first: float, last: float) -> float:
    """Return the smallest number whose excess is not above zero; excess falls between `first` and `last`."""
    if excess(first) <= 0 or first == last:
        return first
    return last if excess(last) > 0 else float(brentq(excess, first, last, xtol=1e-9 * max(1.0, last - first)))  # pyright: ignore[reportArgumentType]


def _interpolated(shares: np.ndarray, places: Places, share: float) -> tuple[float, float]:
    """Return the quantile with values evenly spread within bins, and the density there."""
    sums = np.cumsum(shares)
    at = min(int(np.searchsorted(sums, share)), len(shares) - 1)
    width = float(places.high[at] - places.low[at])
    part = (share - (sums[at] - shares[at])) / shares[at] if shares[at] > 0 else 0.0
    return float(places.low[at] + min(1.0, max(0.0, part)) * width), float(shares[at]) / width if width > 0 else 0.0


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
