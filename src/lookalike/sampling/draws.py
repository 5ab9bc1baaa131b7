"""Draws by weight with as little variance as whole numbers of rows allow, and Gibbs sweeps of log-linear models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.schema.cells import cell_numbers, rows_by_cell
from lookalike.schema.domain import Domain


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
) -> None:
    """Redraw every column given the others, in random order and in place.

    Rows that follow p(x) proportional to exp(sum over m of tables[m][x on scopes[m]]) before the sweep follow it
    afterwards. Within a chunk the random points are stratified over the rows, so that counts vary less.
    """
    for column in rng.permutation(len(domain)):
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
