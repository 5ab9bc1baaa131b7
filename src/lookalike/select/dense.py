"""DenseMarg: which marginals to measure, from noisy dependency scores of all pairs (PrivSyn sections 4.1 and 4.2).

Works on released scores only; the door has been paid before anything here runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from lookalike.schema.domain import Clique, Domain


def all_pairs(domain: Domain) -> list[Clique]:
    """Every pair of attributes, in domain order."""
    return list(itertools.combinations(domain.names, 2))


def greedy_pairs(scores: np.ndarray, cells: np.ndarray, rho: float) -> list[int]:
    """Indices of the pairs worth measuring, in the order they were picked (Algorithm 1).

    Each step takes the pair that lowers noise error + dependency error of the pairs left out the most, and stops when
    none lowers it. With the best allocation the noise error of a selection is (sum c_i^(2/3))^(3/2) / sqrt(pi rho), so
    a candidate's objective is one subtraction: O(m) per pick. Scores below 0 are noise and count as 0.
    """
    gains = np.maximum(np.asarray(scores, dtype=float), 0.0)
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    scale = 1.0 / math.sqrt(math.pi * rho)
    picked: list[int] = []
    left = np.ones(gains.size, dtype=bool)
    used = 0.0
    while left.any():
        changes = np.where(left, scale * ((used + weights) ** 1.5 - used**1.5) - gains, np.inf)
        best = int(np.argmin(changes))
        if changes[best] >= 0:
            break
        picked.append(best)
        left[best] = False
        used += weights[best]
    return picked


def connect_isolated(domain: Domain, pairs: Sequence[Clique], scores: Mapping[Clique, float]) -> list[Clique]:
    """`pairs`, and for each attribute in none of them its pair of highest score with an attribute that is."""
    joined = {name for pair in pairs for name in pair}
    anchors = joined or set(domain.names[:1])
    added = []
    for name in domain.names:
        if name in joined or (not joined and name in anchors):
            continue
        options = [domain.canonical((name, other)) for other in anchors if other != name]
        added.append(max(options, key=lambda pair: (scores[pair], pair)))
    return [*pairs, *added]
