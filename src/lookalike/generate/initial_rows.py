"""Rows to start from: columns drawn one after the other by proportional allocation, each given at most one other."""

from __future__ import annotations

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.generate.cell_order import rows_by_cell
from lookalike.schema.domain import Clique

Edge = tuple[str, str, np.ndarray]
"""Anchor, attribute to draw, and their counts with the anchor on the first axis."""


def spread_evenly(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """`rows` values in random order, each as often as its share of `weights` to within one row."""
    weights = np.maximum(weights, 0.0)
    weights = weights if weights.sum() > 0 else np.ones(weights.size)
    bounds = np.cumsum(weights) * (rows / weights.sum())
    bounds[-1] = rows
    upto = np.floor(bounds + rng.random()).astype(np.int64)
    upto[-1] = rows
    values = np.repeat(np.arange(weights.size), np.diff(np.minimum(upto, rows), prepend=0))
    return rng.permutation(values)


def draw_given(anchor: np.ndarray, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value per row, allocated in proportion to `table[value of anchor]` among the rows of each anchor value."""
    order, starts = rows_by_cell(anchor.astype(np.int64), table.shape[0])
    values = np.empty(len(anchor), np.int32)
    for code in np.flatnonzero(np.diff(starts)):
        members = order[starts[code] : starts[code + 1]]
        values[members] = spread_evenly(table[code], len(members), rng)
    return values


def independent_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose columns follow the 1-way marginals to within one row, independently of each other."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(targets.domain.names):
        codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
    return codes


def tree_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that follow the pairs of a spanning forest of the targets, the one with most mutual information."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for name, edge in _forest(targets):
        column = targets.domain.position(name)
        if edge is None:
            codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
        else:
            anchor, table = edge
            codes[:, column] = draw_given(codes[:, targets.domain.position(anchor)], table, rng)
    return codes


def pair_tables(targets: ConsistentMarginals) -> dict[Clique, np.ndarray]:
    """The counts of every pair of attributes inside some target."""
    pairs: dict[Clique, np.ndarray] = {}
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        for i in range(len(clique)):
            for j in range(i + 1, len(clique)):
                pair = (clique[i], clique[j])
                if pair not in pairs:
                    pairs[pair] = table.sum(axis=tuple(k for k in range(len(clique)) if k not in (i, j)))
    return pairs


def mutual_information(table: np.ndarray) -> float:
    """Mutual information of a table of counts, in nats times rows."""
    outer = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.sum(), 1e-300)
    held = table > 0
    return float((table[held] * np.log(table[held] / outer[held])).sum())


def _forest(targets: ConsistentMarginals) -> list[tuple[str, tuple[str, np.ndarray] | None]]:
    """Attributes in an order in which each one's anchor comes first, with the anchor's table (Prim's algorithm)."""
    pairs = pair_tables(targets)
    weights = {pair: mutual_information(table) for pair, table in pairs.items()}
    best: dict[str, tuple[float, str]] = {}
    waiting = list(targets.domain.names)
    order: list[tuple[str, tuple[str, np.ndarray] | None]] = []
    while waiting:
        name = max(waiting, key=lambda n: best.get(n, (-1.0, ""))[0])
        waiting.remove(name)
        edge = None
        if name in best:
            anchor = best[name][1]
            pair = targets.domain.canonical((anchor, name))
            edge = (anchor, pairs[pair] if pair[0] == anchor else pairs[pair].T)
        order.append((name, edge))
        for other in waiting:
            weight = weights.get(targets.domain.canonical((name, other)))
            if weight is not None and weight > best.get(other, (-1.0, ""))[0]:
                best[other] = (weight, name)
    return order
