"""Intervals for a mean that cannot be negative, from one Gaussian observation (Feldman and Cousins 1998).

They cover with the stated probability whatever the mean is, are never empty, and go over smoothly from an upper limit
to a two-sided interval, where clipping the usual interval at zero would do none of the three.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri


def nonnegative_interval(observed: np.ndarray | float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Feldman-Cousins intervals for the mean of a unit Gaussian that cannot be negative, one per observation.

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
    """For a grid of means, the ends of the observations that are accepted: the likeliest against the best other mean.

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
    # At a mean of zero every negative observation is equally likely against its best mean, so all are accepted.
    return np.append(0.0, means), np.append(10 * lows[0], lows), np.append(ndtri(level), highs)
