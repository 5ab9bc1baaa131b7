"""Draws with as little variance as whole rows allow: by weight, by Gibbs sweeps, by a walk of a contraction tree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import special

from lookalike.engine.contraction import Network
from lookalike.engine.executor import threads_allowed
from lookalike.schema.domain import Domain, cell_numbers, rows_by_cell, similar_rows_together


def systematic(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return indices in proportion to the weights, each as often as expected to within one, in ascending order.

    They are the indices at evenly spaced points of the cumulative weights from one random offset (systematic sampling),
    so that each single draw has the distribution of the weights.

    >>> systematic(np.array([1.0, 2.0, 1.0]), 4, np.random.default_rng(0)).tolist()
    [0, 1, 1, 2]
    """
    ends = np.cumsum(weights)
    points = (np.arange(rows) + rng.random()) * (ends[-1] / max(rows, 1))
    return np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1)


def draw_by_weight(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return `systematic` indices over a random order of the weights, shuffled."""
    order = rng.permutation(len(weights))
    return rng.permutation(order[systematic(weights[order], rows, rng)])


def values_at(weights: np.ndarray, which: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return for each point in [0, 1) the value at that quantile of the distribution weights[which].

    The cumulative distribution of row r of `weights` is shifted to [r, r + 1), so that one search finds every value.

    >>> values_at(np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([0, 0, 1]), np.array([0.2, 0.7, 0.2])).tolist()
    [0, 1, 1]
    """
    size = weights.shape[1]
    ends = np.cumsum(weights, axis=1)
    ends /= ends[:, -1:]
    ends += np.arange(len(ends))[:, None]
    found = np.searchsorted(ends.ravel(), points + which, side="right")
    return np.clip(found - which * size, 0, size - 1)


def spread_evenly(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return `rows` values in random order, each as often as its share of `weights` to within one row.

    As `systematic`, for a few values and many rows: cumulative shares are rounded down after one common random shift,
    instead of a search per row. Weights below 0 count as 0; where none is above 0, all values are equally likely.
    """
    weights = np.maximum(weights, 0.0)
    largest = weights.max()
    # Divided by the largest, so that tiny weights cannot overflow the division below.
    weights = weights / largest if largest > 0 else np.ones(weights.size)
    upto = np.floor(np.cumsum(weights) * (rows / weights.sum()) + rng.random()).astype(np.int64)
    upto = np.minimum(upto, rows)
    upto[np.flatnonzero(weights)[-1] :] = rows
    return rng.permutation(np.repeat(np.arange(weights.size), np.diff(upto, prepend=0)))


def draw_given(anchor: np.ndarray, table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one value per row, spread evenly by `table[value of anchor]` over the rows of each anchor value."""
    order, starts = rows_by_cell(anchor.astype(np.int64), table.shape[0])
    values = np.empty(len(anchor), np.int32)
    for code in np.flatnonzero(np.diff(starts)):
        members = order[starts[code] : starts[code + 1]]
        values[members] = spread_evenly(table[code], len(members), rng)
    return values


_CHUNK = 4096


def gibbs_sweep(
    domain: Domain,
    codes: np.ndarray,
    scopes: Sequence[Sequence[int]],
    tables: Sequence[np.ndarray],
    rng: np.random.Generator,
    columns: Sequence[int] | None = None,
) -> None:
    """Redraw every column, or those at some positions, given the others, in random order and in place.

    Rows that follow p(x) proportional to exp(sum over m of tables[m][x on scopes[m]]) before the sweep follow it
    afterwards. Columns that occur with one other column only are drawn last, after a sweep of the others under the
    model without them: of two columns that determine each other neither could change while the other is held. Within a
    chunk the random points are stratified over the rows, so that counts vary less.
    """
    chosen = list(range(len(domain)) if columns is None else columns)
    last = [leaf for leaf, other in _leaves(scopes).items() if leaf in chosen and other in chosen]
    kept, summed = _summed_out(scopes, tables, last)
    _redraw(domain, codes, kept, summed, rng, [column for column in chosen if column not in last])
    _redraw(domain, codes, scopes, tables, rng, last)


def _leaves(scopes: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the columns that occur in one pair and no other joint factor, each with the other column of the pair."""
    joint = {tuple(scope): None for scope in scopes if len(scope) > 1}
    times = Counter(column for scope in joint for column in scope)
    leaves: dict[int, int] = {}
    for first, second in (scope for scope in joint if len(scope) == 2):
        if times[second] == 1:
            leaves[second] = first
        elif times[first] == 1:
            leaves[first] = second
    return leaves


def _summed_out(
    scopes: Sequence[Sequence[int]], tables: Sequence[np.ndarray], leaves: Sequence[int]
) -> tuple[list[Sequence[int]], list[np.ndarray]]:
    """Return the factors of the other columns, and of each leaf its sum over all of its values."""
    held = [next((leaf for leaf in leaves if leaf in scope), None) for scope in scopes]
    kept = [(scope, table) for scope, table, leaf in zip(scopes, tables, held, strict=True) if leaf is None]
    for leaf in leaves:
        own = [(list(scope), table) for scope, table, which in zip(scopes, tables, held, strict=True) if which == leaf]
        other = next(c for scope, _ in own for c in scope if c != leaf)
        joint = sum(np.moveaxis(table, scope.index(leaf), -1) for scope, table in own)
        kept.append(([other], special.logsumexp(joint, axis=-1)))
    return [scope for scope, _ in kept], [table for _, table in kept]


def _redraw(
    domain: Domain,
    codes: np.ndarray,
    scopes: Sequence[Sequence[int]],
    tables: Sequence[np.ndarray],
    rng: np.random.Generator,
    columns: Sequence[int],
) -> None:
    """Redraw the columns given the others, in random order and in place."""
    for column in rng.permutation(np.asarray(columns, dtype=np.int64)):
        size = domain.sizes[column]
        if size < 2:
            continue
        parts = [
            ([c for c in scope if c != column], _last_axis(table, list(scope).index(column)))
            for scope, table in zip(scopes, tables, strict=True)
            if column in scope
        ]
        for first in range(0, len(codes), _CHUNK):
            block = codes[first : first + _CHUNK]
            logits = np.zeros((len(block), size), np.float32)
            for others, table in parts:
                logits += table[cell_numbers(block, others, domain.sizes)]
            logits -= logits.max(axis=1, keepdims=True)
            ends = np.cumsum(np.exp(logits, out=logits), axis=1)
            points = (rng.permutation(len(block)) + rng.random(len(block))) / len(block)
            found = (ends < (points * ends[:, -1])[:, None]).sum(axis=1)
            block[:, column] = np.minimum(found, size - 1)


def _last_axis(table: np.ndarray, axis: int) -> np.ndarray:
    """The table as a matrix whose columns are the values along `axis`."""
    return np.ascontiguousarray(np.moveaxis(table, axis, -1).reshape(-1, table.shape[axis]), np.float32)


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
