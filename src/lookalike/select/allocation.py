"""How to share a budget between marginals that are measured with Gaussian noise.

--- The choice that adaptive methods share: which marginal the current model gets most wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique

if TYPE_CHECKING:
    from lookalike.privacy.door import GuardedTable


def allocate(cells: Sequence[int] | np.ndarray, rho: float) -> np.ndarray:
    """rho_i = rho * c_i^(2/3) / sum_j c_j^(2/3): the shares with the least total expected L1 error (PrivSyn eq. 1).

    A marginal of c cells measured with rho_i has noise of variance 1/(2 rho_i) per cell and so an expected L1 error
    of c / sqrt(pi rho_i); the shares solve the Lagrangian of their sum.

    >>> allocate([8, 64], 1.0)
    array([0.2, 0.8])
    """
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    return rho * weights / weights.sum()


def gaussian_stddev(rho: float) -> float:
    """Noise for one marginal of counts at a cost of rho: sqrt(1 / (2 rho)), the L2 sensitivity being 1.

    >>> gaussian_stddev(0.5)
    1.0
    """
    return math.sqrt(0.5 / rho)


def expected_noise_error(cells: Sequence[int] | np.ndarray, rho: float) -> float:
    """Expected L1 error of all marginals together when rho is allocated best: (sum c_i^(2/3))^(3/2) / sqrt(pi rho)."""
    return float((np.asarray(cells, dtype=float) ** (2 / 3)).sum()) ** 1.5 / math.sqrt(math.pi * rho)


EXPECTED_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal; noise on c cells has an expected L1 norm of this * stddev * c."""


def choose_worst(
    door: GuardedTable,
    cliques: Sequence[Clique],
    references: Sequence[np.ndarray],
    *,
    rho: float,
    penalties: np.ndarray,
    weights: np.ndarray | None = None,
    step: str,
) -> int:
    """Index drawn by the exponential mechanism on weight_i * (|| M_i(D) - reference_i ||_1 - penalty_i).

    Costs rho. Penalties and weights are public; the usual penalty is the expected noise of measuring the marginal.
    """
    score = ResidualL1(tuple(cliques), tuple(references))
    return door.choose(score, math.sqrt(8 * rho), step=step, weights=weights, offsets=penalties)
