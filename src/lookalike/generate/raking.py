"""Raking: rows of a tree, reweighted until every target marginal fits as well as its noise deserves, then thinned.

This is not in the PrivSyn paper; it gives its row updates a better start. A spanning forest of the targets is easy to
draw from but knows only some of them. Weights on a large pool of its rows, one factor per target cell, make of them the
log-linear model of ALL targets relative to the forest, at any treewidth: importance sampling instead of a junction
tree. That works while enough rows keep weight; where they do not, the weights are flattened and GUM does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.generate.draws import systematic
from lookalike.generate.initial_rows import forest_rows, spanning_forest
from lookalike.schema.cells import cell_numbers, similar_rows_together

_LARGEST_LOG_FACTOR = 6.0
_SMALLEST_POOL = 10_000


@dataclass(frozen=True, slots=True)
class Raking:
    """Settings of `raked_rows`.

    Attributes:
        pool_factor: rows of the pool per row wanted.
        max_codes: limit of the pool's size, in codes (4 bytes each); never fewer rows than wanted.
        sweeps: how often every target is fitted.
        smoothing: strength of the pull towards factor 1, per stddev of the target's noise; 0 fits the noise too.
    """

    pool_factor: int = 10
    max_codes: int = 40_000_000
    sweeps: int = 10
    smoothing: float = 0.5

    def __post_init__(self) -> None:
        if self.pool_factor < 1 or self.sweeps < 1:
            raise ValueError(f"pool_factor {self.pool_factor} and sweeps {self.sweeps} must be at least 1")
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing is {self.smoothing}; it must be at least 0")


@dataclass(frozen=True, slots=True, eq=False)
class Raked:
    """A weighted pool's fit.

    Attributes:
        weights: one per row of the pool, of mean 1.
        smoothed: the targets less what smoothing gives up of them: what the weighted pool has where the fit converged.
        carried: whether the pool could carry the fit; if not, weights were flattened and targets are missed.
    """

    weights: np.ndarray
    smoothed: ConsistentMarginals
    carried: bool


def raked_rows(
    targets: ConsistentMarginals, rows: int, rng: np.random.Generator, settings: Raking | None = None
) -> tuple[np.ndarray, Raked]:
    """`rows` rows close to the targets, and the fit that they were taken from.

    Rows are taken from the weighted pool by systematic sampling in lexicographic order, so that rows near to each
    other stand in for one another and counts differ little from the weights.
    """
    settings = settings or Raking()
    largest = settings.max_codes // len(targets.domain)
    wanted = max(rows, min(max(settings.pool_factor * rows, _SMALLEST_POOL), largest), 1)
    pool = forest_rows(targets, wanted, rng)
    fit = rake(targets, pool, settings, min_effective=min(rows, wanted / 2) / 4)
    columns = [targets.domain.position(name) for name in spanning_forest(targets)]
    order = similar_rows_together(pool, columns, targets.domain.sizes, rng)
    return np.asfortranarray(pool[order[systematic(fit.weights[order], rows, rng)]]), fit


def rake(targets: ConsistentMarginals, pool: np.ndarray, settings: Raking, *, min_effective: float = 0.0) -> Raked:
    """Weights under which the pool fits the targets as well as their noise deserves.

    With counts S of the weighted pool, every step multiplies the rows of cell c by exp(f) where
    S exp(f) + k (theta_c + f) = T_c and theta_c is the sum of the cell's earlier f: coordinate ascent on
    the entropy-regularised least-squares fit to T, whose solution is S = T - k theta. k = smoothing * stddev, so noisy
    targets bend the rows less; k = 0 is classical raking (iterative proportional fitting). When fewer than
    `min_effective` rows would keep weight, (sum w)^2 / sum w^2, weights are flattened to a power of themselves and the
    fit stops.
    """
    weights, carried = np.ones(len(pool)), True
    columns = [[targets.domain.position(name) for name in clique] for clique in targets.cliques]
    factors = [np.zeros(table.size) for table in targets.tables]
    pulls = [settings.smoothing * stddev for stddev in targets.stddevs]
    for _ in range(settings.sweeps):
        for i, table in enumerate(targets.tables):
            cells = cell_numbers(pool, columns[i], targets.domain.sizes)
            counts = np.bincount(cells, weights=weights, minlength=table.size) * (targets.total / weights.sum())
            steps = soft_log_ratio(table.ravel() - pulls[i] * factors[i], counts, pulls[i])
            factors[i] += steps
            weights *= np.exp(steps)[cells]
        weights *= len(pool) / weights.sum()
        if _effective(weights) < min_effective:
            power = _flattening(weights, min_effective)
            weights **= power
            weights *= len(pool) / weights.sum()
            factors = [power * factor for factor in factors]
            carried = False
            break
    tables = tuple(
        np.maximum(table - pull * factor.reshape(table.shape), 0.0)
        for table, pull, factor in zip(targets.tables, pulls, factors, strict=True)
    )
    smoothed = ConsistentMarginals(targets.domain, targets.cliques, tables, targets.stddevs, targets.total)
    return Raked(weights, smoothed, carried)


def soft_log_ratio(wanted: np.ndarray, counts: np.ndarray, pull: float) -> np.ndarray:
    """The f with counts * exp(f) + pull * f = wanted, per cell, within +-6; 0 where there are no counts.

    The left side is convex and increasing in f, so Newton's method comes down to the root from any point above it: 0
    where the counts are too large already, the plain log ratio elsewhere.
    """
    held = counts > 0
    safe = np.where(held, counts, 1.0)
    f = np.minimum(np.log(np.maximum(wanted, safe) / safe), _LARGEST_LOG_FACTOR)
    for _ in range(40):
        grown = safe * np.exp(f)
        nearer = f - (grown + pull * f - wanted) / (grown + pull)
        nearer = np.clip(nearer, -_LARGEST_LOG_FACTOR, _LARGEST_LOG_FACTOR)
        moved = float(np.abs(f - nearer).max(initial=0.0))
        f = nearer
        if moved < 1e-9:
            break
    return np.where(held, f, 0.0)


def _effective(weights: np.ndarray) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


def _flattening(weights: np.ndarray, min_effective: float) -> float:
    """The largest power in [0, 1], to within 1 %, that leaves at least `min_effective` effective rows."""
    low, high = 0.0, 1.0
    while high - low > 0.01:
        middle = (low + high) / 2
        if _effective(weights**middle) >= min_effective:
            low = middle
        else:
            high = middle
    return low
