"""Noisy thresholds: which values of an open list may be released, and what that costs in delta.

Let D' have one person more than D, with up to k rows, and let U be the values that only this person holds. Were values
of U never released, the release on D and D' would be the Gaussian mechanism on the counts of the others. They are
released with probability at most p = P[some value of U passes], so with M' for the release that leaves out U,

    P[M(D') in S] <= P[M'(D') in S] + p <= e^eps P[M(D) in S] + delta + p,
    P[M(D) in S] <= e^eps P[M'(D') in S] + delta <= e^eps P[M(D') in S] + delta + e^eps p,

where (eps, delta) is what all Gaussian releases of the run cost together. The same holds when D' replaces the rows of a
person, with the two steps one after the other. Hence a threshold costs at most (1 + e^eps) p in delta.

A database may return only values that at least c rows hold, so that no statement lists rare ones. Then let U be the
values that fewer than c rows of D hold: on D none of them is released, and on D' each has at most c - 1 rows and those
of the person. With a threshold that is higher by c - 1 they pass with the same p, and the argument is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import Neighbours

_MAX_EPSILON = 600.0
"""Above it the probability of a threshold is too small for a float."""
_MARGIN = 1e-6
"""Relative safety of the normal quantile, far above the rounding of the function that computes it."""


def threshold(stddev: float, probability: float, neighbours: Neighbours, least: int = 1) -> float:
    """Return the smallest noisy count to release: values of one person alone pass with at most this probability.

    Only values of at least `least` rows are known: others that a person adds to pass no more often either.

    k rows may hold k values once each or one value k times: with k + z stddev + 1/2, where z is the normal quantile of
    probability / k, no split of them passes more often. The half covers the rounding of the noise.
    """
    if not 0 < probability < 0.5:
        raise BudgetError(f"The probability of a threshold is {probability:g}; it must lie between 0 and 0.5.")
    rows = neighbours.max_rows_per_person
    quantile = -float(cast(Any, special).ndtri(probability / rows)) * (1 + _MARGIN)
    return rows + (least - 1) + quantile * stddev + 0.5


def threshold_price(probability: float, epsilon: float) -> float:
    """Return the delta of a threshold that one person's values pass with this probability: (1 + e^epsilon) * it."""
    return (1.0 + math.exp(epsilon)) * probability * (1 + _MARGIN)


def threshold_probability(delta: float, epsilon: float) -> float:
    """Return the probability that a delta pays for: the inverse of `threshold_price`, rounded down."""
    if epsilon > _MAX_EPSILON:
        raise BudgetError(
            f"Epsilon is {epsilon:g}; values can be discovered up to {_MAX_EPSILON:g}. Declare them all in a schema."
        )
    return delta / (1.0 + math.exp(epsilon)) * (1 - 3 * _MARGIN)


def passing(texts: Sequence[str], noisy: NDArray[np.int64], limit: float) -> dict[str, float]:
    """Return the texts whose noisy counts reach the limit, most frequent first: the table's order does not show."""
    kept = sorted((-int(count), text) for text, count in zip(texts, noisy, strict=True) if count >= limit)
    return {text: float(-count) for count, text in kept}
