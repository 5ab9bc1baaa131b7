"""How a budget is shared between marginals, what their noise costs, and the choice that adaptive methods share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import ColumnSet

if TYPE_CHECKING:
    from lookalike.privacy.kernel.door import GuardedTable

EXPECTED_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal; noise on c cells has an expected L1 norm of this * stddev * c."""

TYPICAL_SETS = 25
"""Typical number of sets that share a budget. An equal share of rho gives the stddev of a typical measurement, by which
sets are judged before their number is known. Chosen with the first version of privmrf and kept by ppsyn and mosaic; no
page compares other values."""

_MIN_ADDITION = 1e-3
"""Additions below this part of the mean one are left out: they would be charged without being of use."""


def allocate(cells: Sequence[float] | np.ndarray, rho: float) -> np.ndarray:
    """Return the shares of rho with the least total expected L1 error, rho * c_i^(2/3) / sum_j c_j^(2/3).

    A marginal of c cells measured with rho_i has noise of variance 1/(2 rho_i) per cell and so an expected L1 error
    of c / sqrt(pi rho_i); the shares solve the Lagrangian of their sum (PrivSyn eq. 1). c^(2/3) is called the weight of
    a marginal.

    >>> allocate([8, 64], 1.0)
    array([0.2, 0.8])
    """
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    return rho * weights / weights.sum()


def noise_error(weight: Any, rho: float) -> Any:
    """Return the expected L1 error of marginals that share rho by weight: (sum of weights)^(3/2) / sqrt(pi rho).

    Args:
        weight: sum of the marginals' weights, cells^(2/3) each; a number or an array of them.
        rho: the budget that they share.
    """
    return weight**1.5 / math.sqrt(math.pi * rho)


def effective_cells(counts: np.ndarray, stddev: float, *, at_least: float = 1.0) -> float:
    """Return how many cells of a marginal cost accuracy: the sum over cells of min(1, count / stddev).

    A cell whose expected count is far below the noise is set to about 0 by any fit that knows counts are not
    negative; its noise does little harm, so it is not charged as a full cell. A marginal of as many rows as one stddev
    or more has one effective cell or more by itself; the bound is for tables smaller than the noise.

    >>> effective_cells(np.array([90.0, 5.0, 0.0]), 10.0)
    1.5
    """
    return max(at_least, float(np.minimum(counts / stddev, 1.0).sum()))


def top_up(weights: np.ndarray, spent: np.ndarray, rho: float) -> np.ndarray:
    """Return what to add to each measurement so that all together come as near to shares by weight as possible.

    The sum of the additions is rho; a set that has more than its share already gets nothing. Shares are lam * weight
    with the lam that solves sum max(0, lam * weight - spent) = rho. Tiny additions go to the other sets.

    >>> top_up(np.array([1.0, 1.0, 2.0]), np.array([3.0, 0.0, 0.0]), 3.0)
    array([0., 1., 2.])
    """
    order = np.argsort(spent / weights)
    weight, had = np.cumsum(weights[order]), np.cumsum(spent[order])
    level = (rho + had) / weight
    start = (spent / weights)[order]
    last = int(np.flatnonzero(start < level)[-1])
    additions = np.maximum(0.0, level[last] * weights - spent)
    additions[additions < _MIN_ADDITION * rho / len(additions)] = 0.0
    return additions * (rho / additions.sum())


def choose_worst(
    door: GuardedTable,
    cliques: Sequence[ColumnSet],
    references: Sequence[np.ndarray],
    *,
    rho: float,
    penalties: np.ndarray,
    weights: np.ndarray | None = None,
    step: str,
) -> int:
    """Return an index drawn by the exponential mechanism on weight_i * (|| M_i(D) - reference_i ||_1 - penalty_i).

    Costs rho. Penalties and weights are public; the usual penalty is the expected noise of measuring the marginal.
    """
    score = ResidualL1(tuple(cliques), tuple(references))
    return door.choose(score, math.sqrt(8 * rho), step=step, weights=weights, offsets=penalties)
