"""Rows from a network: walk the contraction tree from each root and draw the variables summed out at every node.

At an inner node the values of its scope are known already, and the variables that were summed out at the node are drawn
from the product of its two children's arrays. Variables of a single leaf are drawn last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from lookalike.engine.contraction import Network
from lookalike.engine.executor import threads_allowed
from lookalike.sampling.draws import values_at
from lookalike.schema.cells import cell_numbers, similar_rows_together

_CHUNK_CELLS = 1 << 22
_CHUNK_ROWS = 1_000_000
_SPREAD_ROWS = 250_000
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0

Tables = list[tuple[int, np.ndarray]]
"""Scopes as bit masks, and arrays over them in storage order."""


def tree_rows(
    network: Network,
    rows: int,
    rng: np.random.Generator,
    *,
    independent: bool = False,
    allowed: Mapping[int, np.ndarray] | None = None,
) -> np.ndarray:
    """Return rows of codes in domain order (int32, columns contiguous), drawn from the network's last forward sweep.

    By default draws have low variance: the rows that agree on a node's scope share one random offset and take evenly
    spaced quantiles of the conditional distribution. Each single row has the model's distribution; counts of measured
    marginals differ from their expectation by a few rows at most. Rows are assigned to quantiles again at every node,
    or variables that are never drawn together would become dependent. The assignment is random, and for at most
    `_SPREAD_ROWS` rows such that rows with equal values so far get quantiles far apart (see `_spread`).

    Args:
        network: after `sweep` at the wanted potentials.
        rows: number of rows. More than a million are drawn in chunks of a million, each with low variance.
        rng: source of randomness.
        independent: draw rows independently instead.
        allowed: allowed codes of columns that occur in no factor, by position; all codes by default.
    """
    codes = np.zeros((rows, len(network.plan.domain)), dtype=np.int32, order="F")
    if rows <= _CHUNK_ROWS:
        _fill(network, codes, rng, independent, allowed or {})
        return codes
    starts = range(0, rows, _CHUNK_ROWS)
    for root in network.plan.roots:
        # The values are computed on first use, which must not happen in two threads at once.
        network.value(root)
    # A generator per chunk, so that the rows do not depend on how many threads there are.
    with ThreadPoolExecutor(threads_allowed()) as threads:
        jobs = [
            threads.submit(_fill, network, codes[start : start + _CHUNK_ROWS], chunk_rng, independent, allowed or {})
            for start, chunk_rng in zip(starts, rng.spawn(len(starts)), strict=True)
        ]
        for job in jobs:
            job.result()
    return codes


def _fill(
    network: Network, codes: np.ndarray, rng: np.random.Generator, independent: bool, allowed: Mapping[int, np.ndarray]
) -> None:
    layout, count = network.layout, len(network.plan.leaves)
    roots = set(network.plan.roots)
    covered = 0
    for mask in layout.leaf_masks:
        covered |= mask
    before: list[int] = []
    for node in range(count + len(network.plan.children) - 1, -1, -1):
        known = 0 if node in roots else layout.values[node].mask
        if node < count:
            tables = [(layout.leaf_masks[node], network.factor(node))]
        else:
            pair = network.plan.children[node - count]
            tables = [(layout.values[child].mask, network.value(child)) for child in pair]
        scope = tables[0][0] | tables[-1][0]
        if scope != known:
            _draw(network, codes, rng, known, scope & ~known, tables, independent, before)
            before = layout.positions(scope & ~known) + before
    for position, size in enumerate(network.plan.domain.sizes):
        if not covered >> position & 1:
            values = allowed.get(position, np.arange(size))
            codes[:, position] = values[_uniform(len(codes), len(values), rng, independent)]


def _draw(
    network: Network,
    codes: np.ndarray,
    rng: np.random.Generator,
    known: int,
    drawn: int,
    tables: Tables,
    independent: bool,
    before: list[int],
) -> None:
    """Fill the columns of `drawn`, given those of `known`, from the product of the tables; `before` are filled."""
    layout, sizes, rows = network.layout, network.plan.domain.sizes, len(codes)
    given, new = layout.positions(known), layout.positions(drawn)
    key = cell_numbers(codes, given, sizes)
    given_shape = [sizes[position] for position in given]
    others = [position for position in before if position not in given]
    spread = bool(others) and not independent and rows <= _SPREAD_ROWS
    shuffled = similar_rows_together(codes, others, sizes, rng) if spread else rng.permutation(rows)
    order = _grouped(key, math.prod(given_shape), shuffled)
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if rows else np.zeros(0, np.intp)
    present, counts = ordered[starts], np.diff(np.append(starts, rows))
    if spread:
        order = _spread(order, starts, counts, rng)
    shape = [sizes[position] for position in new]
    outcomes = math.prod(shape)
    step = max(1, _CHUNK_CELLS // outcomes)
    for first in range(0, len(present), step):
        chosen = slice(first, min(first + step, len(present)))
        values = np.unravel_index(present[chosen], given_shape) if given else ()
        weights = _weights(network, dict(zip(given, values, strict=True)), new, tables, chosen.stop - first)
        pick = _pick_independent if independent else _pick_evenly
        picked = pick(weights.reshape(-1, outcomes), counts[chosen], rng)
        target = order[starts[first] : starts[first] + len(picked)]
        for position, column in zip(new, np.unravel_index(picked, shape), strict=True):
            codes[target, position] = column


def _grouped(key: np.ndarray, cells: int, shuffled: np.ndarray) -> np.ndarray:
    """Row numbers grouped by key, in the shuffled order within each group.

    Sorts by sixteen bits at a time, since NumPy has a fast counting sort for short integers.
    """
    order = shuffled
    for shift in range(0, max(1, (cells - 1).bit_length()), 16):
        digit = (key[order] >> shift & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


def _spread(order: np.ndarray, starts: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each group's rows reordered so that any run of neighbours becomes evenly spaced over the whole group.

    Rows of a group are sorted by r times the golden ratio modulo 1, with r the row's rank in the group: any run of such
    numbers is spread evenly. A random rotation then makes every place equally likely for every row.
    """
    group = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(order)) - starts[group]
    sorted_rows = order[np.argsort(group + rank * _GOLDEN % 1.0, kind="stable")]
    rotated = (rank + rng.integers(0, counts)[group]) % counts[group]
    result = np.empty_like(order)
    result[starts[group] + rotated] = sorted_rows
    return result


def _weights(
    network: Network, values: Mapping[int, np.ndarray], new: list[int], tables: Tables, groups: int
) -> np.ndarray:
    """Unnormalised probabilities of the new variables, one row per group of known values."""
    logs = network.in_logs
    result = np.full([groups] + [1] * len(new), 0.0 if logs else 1.0)
    for mask, table in tables:
        stored = network.layout.positions(mask)
        fixed = [position for position in stored if position in values]
        free = [position for position in stored if position not in values]
        moved = table.transpose([stored.index(position) for position in fixed + free])
        part = moved[tuple(values[position] for position in fixed)] if fixed else moved[None]
        sizes = [network.plan.domain.sizes[position] if position in free else 1 for position in new]
        part = part.reshape([part.shape[0], *sizes])
        result = result + part if logs else result * part
    if logs:
        result = np.exp(result - result.max(axis=tuple(range(1, result.ndim)), keepdims=True))
    return np.broadcast_to(result, [groups, *result.shape[1:]])


def _pick_evenly(weights: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Outcomes at the points (0 + u)/n, (1 + u)/n, ... of each group's cumulative distribution, u random per group."""
    ends = np.cumsum(weights, axis=1)
    ends *= (counts / ends[:, -1])[:, None]
    ends -= rng.random(len(counts))[:, None]
    # A point (j + u)/n lies below the end c of an outcome if j < c n - u.
    below = np.ceil(ends).astype(np.int64)
    below[:, -1] = counts
    np.clip(below, 0, counts[:, None], out=below)
    below[:, 1:] -= below[:, :-1].copy()
    outcomes = np.broadcast_to(np.arange(weights.shape[1]), weights.shape)
    return np.repeat(outcomes.ravel(), below.ravel())


def _pick_independent(weights: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Independent outcomes, as many per group as it has rows."""
    group = np.repeat(np.arange(len(counts)), counts)
    return values_at(weights, group, rng.random(len(group)))


def _uniform(rows: int, size: int, rng: np.random.Generator, independent: bool) -> np.ndarray:
    if independent:
        return rng.integers(size, size=rows)
    return rng.permutation(((np.arange(rows) + rng.random()) * (size / max(rows, 1))).astype(np.int64) % size)
