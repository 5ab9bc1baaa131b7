"""Initial rows for row updates, and raking: rows of a tree, reweighted until every target marginal fits, then sampled.

Initial rows are drawn column by column, each given at most one other. Raking is not in the PrivSyn paper; it gives its
row updates a better start. Rows of a spanning forest of the targets are easy to draw but match only some targets.
Weights on a large pool of such rows, with one factor per target cell, turn them into the log-linear model of all
targets relative to the forest, at any treewidth: importance sampling instead of a junction tree. That works while
enough rows have a noticeable weight; otherwise the weights are flattened and GUM updates the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.draws import draw_given, spread_evenly, systematic
from lookalike.schema.domain import ColumnSet, cell_numbers, similar_rows_together

Edge = tuple[str, np.ndarray]
"""An anchor and the counts of (anchor, column to draw), the anchor on the first axis."""


def independent_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows whose columns are independent and match the one-way marginals to within one row."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(targets.domain.names):
        codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
    return codes


def forest_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows that match the pairs of the spanning forest of the targets with most mutual information."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for name, edge in spanning_forest(targets).items():
        column = targets.domain.position(name)
        if edge is None:
            codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
        else:
            anchor, table = edge
            codes[:, column] = draw_given(codes[:, targets.domain.position(anchor)], table, rng)
    return codes


def spanning_forest(targets: ConsistentMarginals) -> dict[str, Edge | None]:
    """Return every column with the edge to its anchor, which comes before it; None for the first of each tree.

    Prim's algorithm on the mutual information of all pairs that some target contains.
    """
    pairs = _pair_tables(targets)
    weights = {pair: _mutual_information(table) for pair, table in pairs.items()}
    best: dict[str, tuple[float, str]] = {}
    waiting = list(targets.domain.names)
    forest: dict[str, Edge | None] = {}
    while waiting:
        name = max(waiting, key=lambda n: best.get(n, (-1.0, ""))[0])
        waiting.remove(name)
        forest[name] = None
        if name in best:
            anchor = best[name][1]
            pair = targets.domain.canonical((anchor, name))
            forest[name] = (anchor, pairs[pair] if pair[0] == anchor else pairs[pair].T)
        for other in waiting:
            weight = weights.get(targets.domain.canonical((name, other)), -1.0)
            if weight > best.get(other, (-1.0, ""))[0]:
                best[other] = (weight, name)
    return forest


def peel_leaves(targets: ConsistentMarginals) -> tuple[ConsistentMarginals, dict[str, Edge]]:
    """Return the targets without columns that occur in one pair only, and these columns in the order to append them.

    They are removed in layers: of a chain of pairs only one column is left. Such a column is best drawn last, given its
    anchor, so that no update of other marginals can disturb its pair. `targets` must be maximal.
    """
    holders: dict[str, set[int]] = {name: set() for name in targets.domain.names}
    for i, clique in enumerate(targets.cliques):
        for name in clique:
            holders[name].add(i)
    peeled: dict[str, Edge] = {}
    kept = set(range(len(targets.cliques)))
    queue = list(targets.domain.names)
    while queue:
        name = queue.pop()
        if name in peeled or len(holders[name]) != 1:
            continue
        (index,) = holders[name]
        clique = targets.cliques[index]
        if len(clique) != 2:
            continue
        anchor = clique[1] if clique[0] == name else clique[0]
        peeled[name] = (anchor, targets.tables[index] if clique[0] == anchor else targets.tables[index].T)
        kept.discard(index)
        holders[name].clear()
        holders[anchor].discard(index)
        if len(holders[anchor]) == 1:
            queue.append(anchor)
    names = [name for name in targets.domain.names if name not in peeled]
    core = targets.only(names, sorted(kept))
    return _with_bare_columns(core, targets), dict(reversed(peeled.items()))


def _with_bare_columns(core: ConsistentMarginals, full: ConsistentMarginals) -> ConsistentMarginals:
    """`core` with a one-way table for each column that lost its last pair, so that its counts are not lost."""
    held, kept = ({name for clique in targets.cliques for name in clique} for targets in (full, core))
    bare = [name for name in core.domain.names if name in held and name not in kept]
    return ConsistentMarginals(
        core.domain,
        (*core.cliques, *((name,) for name in bare)),
        (*core.tables, *(full.one_way(name) for name in bare)),
        (*core.stddevs, *(0.0 for _ in bare)),
        core.total,
    )


def _pair_tables(targets: ConsistentMarginals) -> dict[ColumnSet, np.ndarray]:
    pairs: dict[ColumnSet, np.ndarray] = {}
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        for i in range(len(clique)):
            for j in range(i + 1, len(clique)):
                if (clique[i], clique[j]) not in pairs:
                    others = tuple(k for k in range(len(clique)) if k not in (i, j))
                    pairs[clique[i], clique[j]] = table.sum(axis=others)
    return pairs


def _mutual_information(table: np.ndarray) -> float:
    """Mutual information in nats, times the number of rows."""
    outer = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    held = table > 0
    return float((table[held] * np.log(table[held] / outer[held])).sum())


_MAX_LOG_FACTOR = 6.0
_MIN_POOL_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Raking:
    """Settings of `raked_rows`.

    Attributes:
        pool_factor: rows of the pool per row wanted.
        max_codes: maximum size of the pool in codes (4 bytes each); it never has fewer rows than wanted.
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
    """The fit of a weighted pool.

    Attributes:
        weights: one per row of the pool, of mean 1.
        smoothed: the marginals that the weighted pool has where the fit converged, T - k theta (see `rake`).
        carried: whether enough rows kept weight; if not, weights were flattened and targets are missed.
    """

    weights: np.ndarray
    smoothed: ConsistentMarginals
    carried: bool


def raked_rows(
    targets: ConsistentMarginals, rows: int, rng: np.random.Generator, settings: Raking | None = None
) -> tuple[np.ndarray, Raked]:
    """Return `rows` rows close to the targets, and the fit of the pool from which they were taken.

    Rows are taken by systematic sampling from the weighted pool in an order in which similar rows are neighbours, so
    that counts differ little from the weights.
    """
    settings = settings or Raking()
    largest = settings.max_codes // len(targets.domain)
    wanted = max(rows, min(max(settings.pool_factor * rows, _MIN_POOL_ROWS), largest), 1)
    pool = forest_rows(targets, wanted, rng)
    fit = rake(targets, pool, settings, min_effective=min(rows, wanted / 2) / 4)
    columns = [targets.domain.position(name) for name in spanning_forest(targets)]
    order = similar_rows_together(pool, columns, targets.domain.sizes, rng)
    return np.asfortranarray(pool[order[systematic(fit.weights[order], rows, rng)]]), fit


def rake(targets: ConsistentMarginals, pool: np.ndarray, settings: Raking, *, min_effective: float = 0.0) -> Raked:
    """Return weights under which the pool fits the targets, the less closely the more noise they have.

    With counts S of the weighted pool, every step multiplies the rows of cell c by exp(f) where
    S exp(f) + k (theta_c + f) = T_c and theta_c is the sum of the cell's earlier f: coordinate ascent on
    the entropy-regularised least-squares fit to T, whose solution is S = T - k theta. k = smoothing * stddev, so noisy
    targets change the weights less; k = 0 is classical raking (iterative proportional fitting). When fewer than
    `min_effective` rows would keep weight, by (sum w)^2 / sum w^2, weights are raised to a power below 1 and the fit
    stops.
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
    """Return the f with counts * exp(f) + pull * f = wanted, per cell, within +-6; 0 where the count is 0.

    The left side is convex and increasing in f, so Newton's method descends to the root from any point above it. It
    starts from 0 where the counts are too large already, and from the log ratio elsewhere.
    """
    held = counts > 0
    safe = np.where(held, counts, 1.0)
    f = np.minimum(np.log(np.maximum(wanted, safe) / safe), _MAX_LOG_FACTOR)
    for _ in range(40):
        grown = safe * np.exp(f)
        nearer = f - (grown + pull * f - wanted) / (grown + pull)
        nearer = np.clip(nearer, -_MAX_LOG_FACTOR, _MAX_LOG_FACTOR)
        moved = float(np.abs(f - nearer).max(initial=0.0))
        f = nearer
        if moved < 1e-9:
            break
    return np.where(held, f, 0.0)


def _effective(weights: np.ndarray) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


def _flattening(weights: np.ndarray, min_effective: float) -> float:
    """The largest power in [0, 1], to within 0.01, that leaves at least `min_effective` effective rows."""
    low, high = 0.0, 1.0
    while high - low > 0.01:
        middle = (low + high) / 2
        if _effective(weights**middle) >= min_effective:
            low = middle
        else:
            high = middle
    return low
