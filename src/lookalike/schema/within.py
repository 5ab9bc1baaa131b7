"""Numbers within bins: by the column's private shape where there is one, uniform where not, rounded as people round."""

from __future__ import annotations

import numpy as np

from lookalike.schema.binned import Binned, Continuous


def draw_numbers(column: Binned, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One number per bin given: ticks, or floats where the column has no fixed number of decimals."""
    edges, chosen = column.edges, bins
    if column.shape:
        edges = np.array([column.internal(edge) for edge, _ in column.shape])
        chosen = _draw_pieces(column, edges, bins, rng)
    if isinstance(column, Continuous) and column.decimals is None:
        return _draw_floats(column, edges, chosen, rng)
    first, last = column.tick_ranges(edges)
    ticks = rng.integers(first[chosen], last[chosen], endpoint=True)
    if column.rounding:
        ticks = _rounded(column, ticks, first[chosen], last[chosen], rng)
    return ticks


def _draw_pieces(column: Binned, edges: np.ndarray, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A piece of each bin, in proportion to the weights; to the widths where a bin's weights are all zero."""
    weights = np.array([weight for _, weight in column.shape])
    starts = np.searchsorted(edges, column.edges)
    ends = np.append(starts[1:], len(edges))
    widths = np.diff(np.append(edges, float(column.internal(column.maximum))).astype(float))
    empty = np.add.reduceat(weights, starts) <= 0
    piece_bin = np.repeat(np.arange(len(starts)), ends - starts)
    weights = np.where(empty[piece_bin], np.maximum(widths, 1e-300), weights)
    steps = np.concatenate(([0.0], np.cumsum(weights)))
    low, high = steps[starts][bins], steps[ends][bins]
    found = np.searchsorted(steps, low + rng.random(len(bins)) * (high - low), side="right") - 1
    return np.clip(found, starts[bins], ends[bins] - 1)


def _draw_floats(column: Continuous, edges: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    lows = edges[chosen]
    highs = np.append(edges[1:], column.internal(column.maximum))[chosen]
    ends = np.where(chosen + 1 < len(edges), np.nextafter(highs, -np.inf), highs)
    return np.clip(lows + rng.random(len(chosen)) * (highs - lows), lows, ends)


def _rounded(
    column: Binned, ticks: np.ndarray, first: np.ndarray, last: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Ticks moved to the nearest multiple of a drawn step, where the bin or piece holds one."""
    shares = np.array([share for _, share in column.rounding])
    steps = np.array([step for step, _ in column.rounding])[
        rng.choice(len(shares), len(ticks), p=shares / shares.sum())
    ]
    near = (ticks + steps // 2) // steps * steps
    near = np.where(near < first, near + steps, near)
    near = np.where(near > last, near - steps, near)
    return np.where((near >= first) & (near <= last), near, ticks)
