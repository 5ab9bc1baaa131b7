"""Rows from a network: walk the contraction tree from each root and draw what was summed out at every node.

No table of a clique is ever made. At an inner node the values of its scope are known already, and the variables that
were summed out there are drawn from the product of its two children's arrays; a leaf's private variables are drawn
last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from lookalike.tables.contraction import Network

_CHUNK_CELLS = 1 << 22


def tree_rows(network: Network, rows: int, rng: np.random.Generator, *, independent: bool = False) -> np.ndarray:
    """Rows of codes in domain order (int32, columns contiguous), drawn from the network's last forward sweep.

    By default draws have low variance: the rows that agree on a node's scope share one random offset and take evenly
    spaced points of the conditional distribution, in a fresh random permutation. Every row alone has the model's
    distribution; counts of measured marginals differ from their expectation by a few rows at most. The permutation must
    be fresh at every node, or variables that meet nowhere in the tree would be drawn in step with each other.

    Args:
        network: after `sweep` at the wanted potentials.
        rows: how many.
        rng: source of randomness.
        independent: draw rows independently instead.
    """
    sizes = network.plan.domain.sizes
    codes = np.zeros((rows, len(sizes)), dtype=np.int32, order="F")
    layout, count = network.layout, len(network.plan.leaves)
    covered = 0
    for mask in layout.leaf_masks:
        covered |= mask
    for node in range(count + len(network.plan.children) - 1, -1, -1):
        array = layout.values[node]
        known = array.mask
        if node < count:
            scope = layout.leaf_masks[node]
            if node in set(network.plan.roots):
                known = 0
            tables = [(scope, network.factor(node))]
        else:
            tables = [
                (layout.values[child].mask, network.value(child)) for child in network.plan.children[node - count]
            ]
            scope = tables[0][0] | tables[1][0]
        if scope != known:
            _draw(network, codes, rng, known, scope & ~known, tables, independent)
    for position, size in enumerate(sizes):
        if not covered >> position & 1:
            codes[:, position] = _uniform(rows, size, rng, independent)
    return codes


def _draw(
    network: Network,
    codes: np.ndarray,
    rng: np.random.Generator,
    known: int,
    drawn: int,
    tables: list[tuple[int, np.ndarray]],
    independent: bool,
) -> None:
    """Fills the columns of `drawn`, given those of `known`, from the product of the tables."""
    layout, sizes, rows = network.layout, network.plan.domain.sizes, len(codes)
    given, new = layout.positions(known), layout.positions(drawn)
    key = _row_keys(codes, given, sizes)
    shuffled = rng.permutation(rows)
    order = shuffled[np.argsort(key[shuffled], kind="stable")]
    present, starts = np.unique(key[order], return_index=True)
    counts = np.diff(np.append(starts, rows))
    shape = [sizes[position] for position in new]
    outcomes = math.prod(shape)
    step = max(1, _CHUNK_CELLS // outcomes)
    given_shape = [sizes[position] for position in given]
    for first in range(0, len(present), step):
        chosen = slice(first, min(first + step, len(present)))
        values = np.unravel_index(present[chosen], given_shape) if given else ()
        weights = _weights(network, dict(zip(given, values, strict=True)), new, tables, chosen.stop - first)
        points = _points(counts[chosen], rng, independent)
        picked = _pick(weights.reshape(-1, outcomes), counts[chosen], points)
        target = order[starts[first] : starts[first] + len(picked)]
        for position, column in zip(new, np.unravel_index(picked, shape), strict=True):
            codes[target, position] = column


def _row_keys(codes: np.ndarray, positions: list[int], sizes: tuple[int, ...]) -> np.ndarray:
    key = np.zeros(len(codes), dtype=np.int64)
    for position in positions:
        key *= sizes[position]
        key += codes[:, position]
    return key


def _weights(
    network: Network,
    values: Mapping[int, np.ndarray],
    new: list[int],
    tables: list[tuple[int, np.ndarray]],
    groups: int,
) -> np.ndarray:
    """Unnormalised probabilities of the new variables, one row per group of known values."""
    result = np.ones([groups] + [1] * len(new))
    for mask, table in tables:
        stored = network.layout.positions(mask)
        fixed = [position for position in stored if position in values]
        free = [position for position in stored if position not in values]
        moved = table.transpose([stored.index(position) for position in fixed + free])
        part = moved[tuple(values[position] for position in fixed)] if fixed else moved[None]
        sizes = [network.plan.domain.sizes[position] if position in free else 1 for position in new]
        result = result * part.reshape([part.shape[0], *sizes])
    return np.broadcast_to(result, [groups, *result.shape[1:]])


def _points(counts: np.ndarray, rng: np.random.Generator, independent: bool) -> np.ndarray:
    """Points in [0, 1), `counts[g]` of them for group g: independent, or evenly spaced from one offset per group."""
    rows = int(counts.sum())
    if independent:
        return rng.random(rows)
    starts = np.cumsum(counts) - counts
    rank = np.arange(rows) - np.repeat(starts, counts)
    return (rank + np.repeat(rng.random(len(counts)), counts)) / np.repeat(counts, counts)


def _pick(weights: np.ndarray, counts: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each point, the outcome whose part of its group's cumulative distribution holds it."""
    outcomes = weights.shape[1]
    ends = np.cumsum(weights, axis=1)
    ends /= ends[:, -1:]
    group = np.repeat(np.arange(len(counts)), counts)
    # One sorted vector serves all groups: group g owns the interval [g, g + 1).
    ends += np.arange(len(counts))[:, None]
    found = np.searchsorted(ends.ravel(), points + group, side="right")
    return np.minimum(found - group * outcomes, outcomes - 1)


def _uniform(rows: int, size: int, rng: np.random.Generator, independent: bool) -> np.ndarray:
    if independent:
        return rng.integers(size, size=rows)
    return rng.permutation(((np.arange(rows) + rng.random()) * (size / max(rows, 1))).astype(np.int64) % size)
