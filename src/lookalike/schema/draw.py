"""Draws the values behind codes: numbers within a bin, and made-up identifiers. No value is copied from a private row.

Numbers follow the column's shape, or are uniform where it has none, and are rounded as `rounding` says. Identifiers
follow a public pattern.
"""

from __future__ import annotations

import string
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lookalike.schema.binned import Binned, Continuous
from lookalike.schema.columns import Identifier


def draw_numbers(
    column: Binned, bins: np.ndarray, rng: np.random.Generator, places: np.ndarray | None = None
) -> np.ndarray:
    """One number per bin given: ticks, or floats where the column has no fixed number of decimals.

    `places` says where in its bin each number is, from 0 to 1, in parts of the bin's rows; random by default.
    """
    places = rng.random(len(bins)) if places is None else places
    edges, chosen = column.edges, bins
    if column.shape:
        edges = np.array([column.internal(edge) for edge, _ in column.shape])
        chosen, places = _pieces_at(column, edges, bins, places)
    if isinstance(column, Continuous) and column.decimals is None:
        return _floats_at(column, edges, chosen, places)
    first, last = (column.steps_of(ends)[chosen] for ends in column.tick_ranges(edges))
    steps = np.minimum(first + np.floor(places * (last - first + 1)).astype(np.int64), last)
    if column.rounding:
        steps = _rounded(column, steps, first, last, rng)
    return column.ticks_at(steps)


def _pieces_at(
    column: Binned, edges: np.ndarray, bins: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The piece of each bin at a place, by the weights (or widths where all are zero), and the place in the piece."""
    weights = np.array([weight for _, weight in column.shape])
    starts = np.searchsorted(edges, column.edges)
    ends = np.append(starts[1:], len(edges))
    widths = np.diff(np.append(edges, float(column.internal(column.maximum))).astype(float))
    empty = np.add.reduceat(weights, starts) <= 0
    piece_bin = np.repeat(np.arange(len(starts)), ends - starts)
    weights = np.where(empty[piece_bin], np.maximum(widths, 1e-300), weights)
    steps = np.concatenate(([0.0], np.cumsum(weights)))
    low, high = steps[starts][bins], steps[ends][bins]
    at = low + places * (high - low)
    pieces = np.clip(np.searchsorted(steps, at, side="right") - 1, starts[bins], ends[bins] - 1)
    within = (at - steps[pieces]) / np.maximum(weights[pieces], 1e-300)
    return pieces, within.clip(0.0, np.nextafter(1.0, 0.0))


def _floats_at(column: Continuous, edges: np.ndarray, chosen: np.ndarray, places: np.ndarray) -> np.ndarray:
    lows = edges[chosen]
    highs = np.append(edges[1:], column.internal(column.maximum))[chosen]
    ends = np.where(chosen + 1 < len(edges), np.nextafter(highs, -np.inf), highs)
    return np.clip(lows + places * (highs - lows), lows, ends)


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


def draw_identifiers(column: Identifier, count: int, kind: pa.DataType, rng: np.random.Generator) -> pa.Array:
    """Made-up identifiers, distinct while the pattern allows that many; those of persons repeat as `repeats` says.

    The places marked # and @ are the digits of a number that runs through all of its values in a shuffled order.
    Whole numbers begin with a zero only where too few others are as wide as the pattern.
    """
    if column.repeats:
        sizes = _sizes(column, count, rng)
        people = draw_identifiers(replace(column, repeats=(), max_rows=1), len(sizes), kind, rng)
        return people.take(pa.array(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[:count])))
    if pa.types.is_integer(kind):
        digits = max(1, column.pattern.count("#"))
        limit = min(10**digits, 2 ** (kind.bit_width - 1))
        least = 10 ** (digits - 1) if 10 ** (digits - 1) + count <= limit else 0
        return pa.array(least + _distinct(count, limit - least, rng)).cast(kind)
    alphabets = [_alphabet(mark) for mark in column.pattern]
    if set(column.pattern) == {"#"} and count <= 9 * 10 ** (len(alphabets) - 1):
        alphabets[0] = string.digits[1:]
    limit = 1
    for letters in alphabets:
        limit = min(limit * len(letters), 2**62)
    numbers = _distinct(count, limit, rng)
    places: list[np.ndarray] = []
    for letters in reversed(alphabets):
        numbers, digit = np.divmod(numbers, len(letters))
        places.append(np.array(list(letters))[digit])
    texts = ["".join(row) for row in zip(*reversed(places), strict=True)] if count else []
    return pa.array(texts, type=pa.string()).cast(kind)


def _sizes(column: Identifier, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows of made-up persons, until they have `count` rows together."""
    shares = np.array(column.repeats) / sum(column.repeats)
    sizes = 1 + rng.choice(len(shares), count, p=shares)
    return sizes[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]


def _alphabet(mark: str) -> str:
    return {"#": string.digits, "@": string.ascii_lowercase}.get(mark, mark)


def _distinct(count: int, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers below `limit`, distinct while `count` allows: a random start, and steps coprime to the limit."""
    step = int(rng.integers(limit // 3 + 1, limit // 2 + 2))
    while np.gcd(step, limit) != 1:
        step += 1
    start = int(rng.integers(limit))
    return np.array([(start + i * step) % limit for i in range(count)], dtype=np.int64)
