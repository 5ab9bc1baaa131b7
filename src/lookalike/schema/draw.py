"""Draws the values behind codes: numbers within a bin, and made-up identifiers. No value is copied from a private row.

Numbers follow the column's shape, or are uniform where it has none, and are rounded as `rounding` says. Identifiers
follow a public pattern.

A model knows which bins occur together, but not where within a bin a number lies. Numbers that are drawn one by one are
independent within their bins: delays of departure and arrival that rise together become a staircase of squares, and in
the last, widest bins of heavy tails nearly all of the correlation is lost. Here the rows are taken to have a Gaussian
copula: every number is a normal variable, its bin gives the interval that the variable lies in, and the correlations
are those that best explain which bins occur together. Places within bins are drawn from this copula, given all bins of
the row. How the numbers of each bin are spread does not change. All of it is computed from generated rows, so it is
post-processing and costs no budget.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, ndtri  # pyright: ignore[reportMissingTypeStubs]

from lookalike.schema.binned import Continuous
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Identifier
from lookalike.schema.schema import Schema


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


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows of a larger table are made, so that identifiers of all its parts are distinct.

    Attributes:
        first: number of rows made before.
        total: number of rows of the whole table.
        seed: of the order of identifiers, the same for all parts.
    """

    first: int
    total: int
    seed: tuple[int, ...]


def draw_identifiers(
    column: Identifier, count: int, kind: pa.DataType, rng: np.random.Generator, part: Part | None = None
) -> pa.Array:
    """Made-up identifiers, distinct as far as the pattern allows; those of persons repeat as `repeats` says.

    The places marked # and @ are the digits of a number that runs through all of its values in a shuffled order.
    Whole numbers begin with a zero only where too few others are as wide as the pattern.
    """
    if column.repeats:
        sizes = _sizes(column, count, rng)
        people = draw_identifiers(replace(column, repeats=(), max_rows=1), len(sizes), kind, rng, part)
        return people.take(pa.array(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[:count])))
    first, total = (part.first, part.total) if part else (0, count)
    rng = np.random.default_rng(part.seed) if part else rng
    if pa.types.is_integer(kind):
        digits = max(1, column.pattern.count("#"))
        limit = min(10**digits, 2 ** (kind.bit_width - 1))
        least = 10 ** (digits - 1) if 10 ** (digits - 1) + total <= limit else 0
        return pa.array(least + _distinct(count, limit - least, rng, first)).cast(kind)
    alphabets = [_alphabet(mark) for mark in column.pattern]
    if set(column.pattern) == {"#"} and total <= 9 * 10 ** (len(alphabets) - 1):
        alphabets[0] = string.digits[1:]
    limit = 1
    for letters in alphabets:
        limit = min(limit * len(letters), 2**62)
    numbers = _distinct(count, limit, rng, first)
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


def _distinct(count: int, limit: int, rng: np.random.Generator, first: int = 0) -> np.ndarray:
    """Numbers below `limit`, distinct while their number allows: a random start, and steps coprime to the limit."""
    step = int(rng.integers(limit // 3 + 1, limit // 2 + 2))
    while np.gcd(step, limit) != 1:
        step += 1
    start = int(rng.integers(limit))
    if start + (first + count) * step < 1 << 62:
        return (start + (first + np.arange(count, dtype=np.int64)) * step) % limit
    return np.array([(start + i * step) % limit for i in range(first, first + count)], dtype=np.int64)


_SAMPLE, _ROUNDS, _SWEEPS = 4_000, 12, 2
"""Rows from which correlations are estimated, and in how many rounds; how often places are drawn anew in the end."""
_SHRINK = 0.01
"""Part of the correlations that is given up, so that their matrix can be inverted."""
_MAX_COLUMNS = 120
_TINY = 1e-12


def places_within_bins(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A place from 0 to 1 within the bin of each row, for all columns of numbers that have wide bins."""
    columns = [i for i, column in enumerate(schema.columns) if _is_modelled(column)][:_MAX_COLUMNS]
    wide = [place for place, i in enumerate(columns) if _has_wide_bins(schema.columns[i])]
    if len(columns) < 2 or not wide or len(codes) < 2:
        return {}
    low, high = _intervals(codes[:, columns], [schema.columns[i].regular for i in columns])
    sample = slice(None, None, max(1, len(codes) // _SAMPLE))
    inverse = np.linalg.inv(_correlations(low[sample], high[sample], rng))
    normal = _start(low, high, rng)
    for _ in range(_SWEEPS):
        _redraw(normal, low, high, inverse, rng)
    return {schema.columns[columns[k]].name: _spread(codes[:, columns[k]], normal[:, k]) for k in wide}


def _is_modelled(column: object) -> bool:
    return isinstance(column, Binned) and column.regular > 1 and not column.derived


def _has_wide_bins(column: object) -> bool:
    """Whether some bins of a column hold more than one value."""
    first, last = column.bin_ends() if isinstance(column, Binned) else (np.zeros(1), np.zeros(1))
    return bool(np.any(first < last))


def _intervals(codes: np.ndarray, sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval that the bin of each row is of a normal variable; missing values show nothing."""
    low, high = np.empty(codes.shape), np.empty(codes.shape)
    for k, size in enumerate(sizes):
        counts = np.bincount(codes[:, k], minlength=size)[:size]
        ends = ndtri(np.concatenate([[0.0], np.cumsum(counts)]) / max(counts.sum(), 1))
        bins = np.minimum(codes[:, k], size - 1)
        missing = codes[:, k] >= size
        low[:, k] = np.where(missing, -np.inf, ends[bins])
        high[:, k] = np.where(missing, np.inf, ends[bins + 1])
    return low, high


def _start(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal variables within their intervals, drawn independently."""
    return ndtri(_between(ndtr(low), ndtr(high), rng))


def _between(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(low + rng.random(low.shape) * (high - low), _TINY, 1 - _TINY)


def _correlations(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The correlations that explain the bins of the rows: they and the variables are drawn and estimated in turns."""
    normal = _start(low, high, rng)
    found = np.eye(low.shape[1])
    for number in range(_ROUNDS):
        scale = np.maximum(normal.std(axis=0), 1e-6)
        centred = (normal - normal.mean(axis=0)) / scale
        found = (1 - _SHRINK) * (centred.T @ centred) / len(normal) + _SHRINK * np.eye(low.shape[1])
        if number + 1 < _ROUNDS:
            _redraw(normal, low, high, np.linalg.inv(found), rng)
    return found


def _redraw(
    normal: np.ndarray, low: np.ndarray, high: np.ndarray, inverse: np.ndarray, rng: np.random.Generator
) -> None:
    """Draw each variable anew within its interval, given the others of the row (Gibbs sampling)."""
    for k in range(normal.shape[1]):
        own, spread = inverse[:, k], float(inverse[k, k]) ** -0.5
        mean = normal[:, k] - (normal @ own) * spread**2
        start, end = (low[:, k] - mean) / spread, (high[:, k] - mean) / spread
        # In the upper half probabilities are near 1 and lose digits, so this half is mirrored.
        mirrored = start > 0
        start, end = np.where(mirrored, -end, start), np.where(mirrored, -start, end)
        drawn = ndtri(np.maximum(_between(ndtr(start), ndtr(end), rng), 1e-300))
        drawn = np.clip(drawn, start, end)
        normal[:, k] = np.clip(mean + spread * np.where(mirrored, -drawn, drawn), low[:, k], high[:, k])


def _spread(bins: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Evenly spread places in the order of the variable, within each bin."""
    order = np.lexsort((normal, bins))
    counts = np.bincount(bins)
    ranks = np.arange(len(bins)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(bins))
    places[order] = (ranks + 0.5) / np.repeat(counts, counts)
    return places
