"""What frequencies of one event under two neighbouring tables say about epsilon, with a stated chance of error."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv, ndtri

from lookalike.privacy.epsilon import gaussian_epsilon


def rate_bounds(hits: int | np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """A lower and an upper bound on a probability (Clopper and Pearson 1934), each wrong with at most `failure`.

    >>> low, high = rate_bounds(10, 10, 0.05)
    >>> round(float(low), 3), float(high)
    (0.741, 1.0)
    """
    hits = np.asarray(hits)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, failure), 0.0)
    high = np.where(hits < runs, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1.0 - failure), 1.0)
    return low, high


def epsilon_shown(hits: int, other_hits: int, runs: int, *, delta: float, failure: float) -> float:
    """The epsilon that an event contradicts which came in `hits` runs on one table and `other_hits` on a neighbour.

    A private release has P[event] <= e^epsilon P'[event] + delta, so epsilon is at least
    log((lower bound of P - delta) / upper bound of P'). Exceeds the true epsilon with probability at most `failure`.

    >>> round(epsilon_shown(100, 0, 100, delta=0.0, failure=1e-6), 2)
    1.86
    """
    low, _ = rate_bounds(hits, runs, failure / 2)
    _, high = rate_bounds(other_hits, runs, failure / 2)
    margin = float(low) - delta
    return max(0.0, math.log(margin / float(high))) if margin > 0 else 0.0


def gaussian_epsilon_shown(
    hits: int, other_hits: int, runs: int, *, delta: float, threshold_delta: float, failure: float
) -> float:
    """The same for a run that claims to be Gaussian DP, which says more: P <= Phi(Phi^-1(P') + mu) + threshold_delta.

    The event contradicts every smaller mu than Phi^-1(lower bound of P - threshold_delta) - Phi^-1(upper bound of P'),
    here turned into the epsilon at the part of delta that thresholds leave.
    """
    low, _ = rate_bounds(hits, runs, failure / 2)
    _, high = rate_bounds(other_hits, runs, failure / 2)
    margin = float(low) - threshold_delta
    if margin <= 0 or float(high) >= 1:
        return 0.0
    mu = float(ndtri(margin) - ndtri(float(high)))
    return gaussian_epsilon(mu, delta - threshold_delta) if mu > 0 else 0.0
