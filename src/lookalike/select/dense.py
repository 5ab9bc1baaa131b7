"""DenseMarg: which marginals to measure, from noisy dependency scores of all pairs (PrivSyn sections 4.1 and 4.2).

Works on released scores only; the door has been paid before anything here runs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from lookalike.schema.domain import Clique, Domain


def candidate_pairs(domain: Domain, max_cells: int = 1_000_000) -> list[Clique]:
    """Every pair of attributes with at most `max_cells` cells, in domain order."""
    return [pair for pair in itertools.combinations(domain.names, 2) if domain.cells(pair) <= max_cells]


def in_batches(domain: Domain, cliques: Sequence[Clique], max_cells: int = 10_000_000) -> list[list[Clique]]:
    """The cliques in their order, cut so that no part has more than `max_cells` cells in all, or else one clique."""
    batches: list[list[Clique]] = []
    room = 0
    for clique in cliques:
        cells = domain.cells(clique)
        if not batches or cells > room:
            batches.append([])
            room = max_cells
        batches[-1].append(clique)
        room -= cells
    return batches


def independent_tables(cliques: Sequence[Clique], oneways: Mapping[str, np.ndarray], total: float) -> list[np.ndarray]:
    """The counts that independent columns with these 1-way counts would have, for each clique."""
    shares = {name: counts / total for name, counts in oneways.items()}
    return [total * functools.reduce(np.multiply.outer, (shares[name] for name in clique)) for clique in cliques]


def above_noise(scores: np.ndarray, stddev: float, columns: int, false_pairs: float = 4.0) -> np.ndarray:
    """The scores, with 0 for those that noise alone may explain: at most `false_pairs` of these remain per column.

    Half of all scores of independent pairs are positive by noise. Up to about 20 columns that is harmless; with 200 the
    budget would go to thousands of them, so the limit is the quantile of the noise that leaves so few.
    """
    share = 2 * false_pairs / max(columns - 1, 1)
    limit = stddev * float(special.ndtri(1 - share)) if share < 0.5 else 0.0
    return np.where(scores > limit, scores, 0.0)


def greedy_pairs(scores: np.ndarray, cells: np.ndarray, rho: float, *, noise_weight: float = 1.0) -> list[int]:
    """Indices of the pairs worth measuring, in the order they were picked (Algorithm 1).

    Each step takes the pair that lowers noise error + dependency error of the pairs left out the most, and stops when
    none lowers it. With the best allocation the noise error of a selection is (sum c_i^(2/3))^(3/2) / sqrt(pi rho), so
    a candidate's objective is one subtraction: O(m) per pick. Scores below 0 are noise and count as 0.

    Args:
        scores: noisy dependency error of each pair, in rows.
        cells: number of cells of each pair.
        rho: budget for measuring all picked pairs.
        noise_weight: factor of the noise error. The paper has 1; consistency and smoothing remove part of the noise, so
            that a smaller factor is nearer to the error that remains.
    """
    gains = np.maximum(np.asarray(scores, dtype=float), 0.0)
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    scale = noise_weight / math.sqrt(math.pi * rho)
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
    """`pairs`, and for each attribute in none of them its scored pair of highest score with an attribute that is.

    Where nothing was picked at all, attributes are joined to the first one. An attribute without a scored pair stays
    alone.
    """
    joined = {name for pair in pairs for name in pair} or set(domain.names[:1])
    added = []
    for name in domain.names:
        if name in joined:
            continue
        options = [domain.canonical((name, other)) for other in joined]
        options = [pair for pair in options if pair in scores]
        if options:
            added.append(max(options, key=lambda pair: (scores[pair], pair)))
    return [*pairs, *added]
