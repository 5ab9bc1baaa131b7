"""Rows to start from: columns drawn one after the other by proportional allocation, each given at most one other."""

from __future__ import annotations

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.generate.draws import draw_given, spread_evenly
from lookalike.schema.domain import Clique

Edge = tuple[str, np.ndarray]
"""An anchor and the counts of (anchor, column to draw), the anchor on the first axis."""


def independent_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose columns follow the 1-way marginals to within one row, independently of each other."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(targets.domain.names):
        codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
    return codes


def forest_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that follow the pairs of a spanning forest of the targets, the one with most mutual information."""
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
    """Every column with the edge to its anchor, which comes before it; None for the first of each tree.

    Prim's algorithm on the mutual information of all pairs that some target holds.
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
    """The targets without columns that occur in one pair only, and those columns in the order to append them.

    Peeled in layers: a chain of pairs peels down to one column. Such a column is best drawn last, given its
    anchor: no update of other marginals can then disturb its pair. `targets` must be maximal.
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
    """`core` with a 1-way table for each column that lost its last pair, so that its counts are not forgotten."""
    bare = [name for name in core.domain.names if not any(name in clique for clique in core.cliques)]
    held = {name for clique in full.cliques for name in clique}
    bare = [name for name in bare if name in held]
    return ConsistentMarginals(
        core.domain,
        (*core.cliques, *((name,) for name in bare)),
        (*core.tables, *(full.one_way(name) for name in bare)),
        (*core.stddevs, *(0.0 for _ in bare)),
        core.total,
    )


def _pair_tables(targets: ConsistentMarginals) -> dict[Clique, np.ndarray]:
    pairs: dict[Clique, np.ndarray] = {}
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
