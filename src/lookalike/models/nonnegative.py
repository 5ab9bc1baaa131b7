"""Intervals and estimates for a count that cannot be negative, from an unbiased estimate with Gaussian error."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

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
