"""The choice that adaptive methods share: which marginal the current model gets most wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique

if TYPE_CHECKING:
    from lookalike.privacy.kernel.door import GuardedTable

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
