"""Chooses bins, and the shape of values within them, from noisy counts of cells: post-processing."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from lookalike.discovery.grids import LEFT_OVER, LIKELY, POSSIBLE, SIGNIFICANT, Grid, Rows, divisible, visible

_LITTLE = 2.3
"""Standard deviations by which a single value must stand out in a column of few values."""
_NEIGHBOURS, _SPIKE = 3, 0.5
"""Cells on either side that a spike is compared with, and what is added to SIGNIFICANT, because many are compared."""
_SOME_ROWS = 1.5
"""Standard deviations below which a piece is taken to be empty."""
_MUCH_WIDER, _WIDEST = 4.0, 5.0
"""A piece ends before a cell that is wider by the first factor, and where its end is the second times its start."""
_WIDE, _PARTS, _TAIL = 2.0, 6, 1.5
"""Pieces wider than this factor are cut into so many parts; the power by which a heavy tail's density falls."""
_STEEP, _STEEP_CUTS = 3.0, np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.6, 1.0])
"""The first and the last piece fall steeply if they are wider than this many times the scale on which they would; they
are cut at these parts of their width."""
_MIN_SHARE = 0.004
"""Smallest share of the rows for which a bin is made."""
_MOSTLY_VALUES = 0.8
"""Share of the rows in single values that stand out from which the others are taken to be single values, too."""
_ALL_BUT, _MANY = (0.01, 0.06), 10
"""Largest share of rows beside the values of a column of few values; and where there are this many, with gaps."""
_PLAIN_ROUNDING, _MIN_ROUNDING = 0.02, 0.002
"""Shares of multiples this near to those of unrounded numbers are not rounding; smaller shares of a step become 0."""


def with_values_apart(grid: Grid) -> Grid:
    """The grid with cells that were cut up joined again, unless single values or uneven parts stand out within them.

    The rows beside single values are known from the total of the cell that was cut up, and shared by width.
    """
    limit = _value_limit(grid)
    apart = ~divisible(grid) & (grid.counts > limit * grid.stddevs)
    if grid.counts[apart].sum() > _MOSTLY_VALUES * grid.counts.sum() and _sparse(grid, apart):
        apart |= _largest_values(grid, apart)
    kept = _uneven(grid, limit)[grid.parents] & divisible(grid)
    alone = apart | kept
    begins = np.append(True, grid.parents[1:] != grid.parents[:-1]) | alone | np.append(False, alone[:-1])
    starts = np.flatnonzero(begins)
    parents, values = grid.parents[starts], alone[starts]
    widths = np.append(grid.edges[starts][1:], grid.ends[-1]) - grid.edges[starts]
    counts, variances = grid.counts[starts].copy(), grid.variances[starts].copy()
    sums = np.bincount(grid.parents, grid.counts, len(grid.parent_variances))
    for parent in np.unique(parents):
        own, rest = (parents == parent) & values, (parents == parent) & ~values
        if rest.any():
            share = widths[rest] / widths[rest].sum()
            counts[rest] = share * (sums[parent] - counts[own].sum())
            variances[rest] = share**2 * (grid.parent_variances[parent] + variances[own].sum())
    return Grid.of(grid.edges[starts], grid.high, counts, variances, grid.unit)


def _largest_values(grid: Grid, apart: np.ndarray) -> np.ndarray:
    """The value with most rows of each cut-up cell in which none stands out: in a list of values it is one, too."""
    found, single = np.zeros(len(apart), dtype=bool), ~divisible(grid)
    for parent in np.setdiff1d(np.unique(grid.parents[single]), grid.parents[apart]):
        own = np.flatnonzero((grid.parents == parent) & single)
        best = own[np.argmax(grid.counts[own])]
        found[best] = len(own) > 1 and grid.counts[best] > POSSIBLE * grid.stddevs[best]
    return found


def _uneven(grid: Grid, limit: float) -> np.ndarray:
    """For each cell that was cut up, whether some part of several values has more rows than an even share."""
    size = len(grid.parent_variances)
    parts = np.maximum(np.bincount(grid.parents, minlength=size), 1)
    share = np.bincount(grid.parents, grid.counts, size) / parts
    more = divisible(grid) & (grid.counts - share[grid.parents] > limit * grid.stddevs)
    return (np.bincount(grid.parents, more, size) > 0) & (parts > 1)


def _value_limit(grid: Grid) -> float:
    """Standard deviations that one in a hundred grids of empty cells has somewhere."""
    return max(SIGNIFICANT + _SPIKE, NormalDist().inv_cdf(1 - 0.01 / len(grid.edges)))


def listed_values(grid: Grid, rows: Rows) -> np.ndarray | None:
    """Which cells are the values of a column of few values; None where rows hold other values.

    A value is a cell of a single tick that stands out.
    """
    values = ~divisible(grid) & (grid.counts > _LITTLE * grid.stddevs)
    left, noise = rows.left(grid, values)
    others = ~values & visible(np.where(values, 0.0, grid.counts), np.where(values, 0.0, grid.stddevs), LIKELY)
    share = _ALL_BUT[1] if _sparse(grid, values) else _ALL_BUT[0]
    apart, rarer = float(grid.counts[others].sum()), _rarer(grid.counts[values])
    # The smallest of many rare values are no list: more rows hold others than hold them.
    hidden = apart > share * rows.number or apart > rarer > 0
    few = left < max(LEFT_OVER * noise, share * rows.number)
    return values if values.any() and few and not hidden else None


def _rarer(counts: np.ndarray) -> float:
    """The rows of all values but the most frequent one."""
    return float(counts.sum() - counts.max(initial=0.0))


def _sparse(grid: Grid, values: np.ndarray) -> bool:
    """Whether there are many values with gaps between them, as prices or codes have, so that others are like them."""
    places = grid.edges[values]
    return bool(len(places) >= _MANY and grid.unit and (places[-1] - places[0] + 1) > 2 * len(places))


def pieces_of(grid: Grid, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Lower edges and weights of pieces: runs of cells just long enough to stand out from the noise, spikes alone.

    In a column of few values the cells between them have weight 0.
    """
    values = listed_values(grid, rows)
    if values is not None:
        starts = np.unique(np.concatenate([[0], np.flatnonzero(values), np.flatnonzero(values) + 1]))
        starts = starts[starts < len(values)]
        return grid.edges[starts], np.where(values[starts], np.maximum(grid.counts[starts], 0.0), 0.0)
    # A run ends before a cell that stands out by itself, or is much wider, so that no piece reaches into empty cells.
    alone = _spikes(grid) | (grid.counts > SIGNIFICANT * grid.stddevs)
    closes = np.append(alone[1:] | (grid.widths[1:] > _MUCH_WIDER * grid.widths[:-1]), True)
    starts, totals = list[int](), list[float]()
    start, total, variance = 0, 0.0, 0.0
    for i, (count, own) in enumerate(zip(grid.counts.tolist(), grid.variances.tolist(), strict=True)):
        total, variance = total + count, variance + own
        wide = grid.ends[i] > _WIDEST * grid.edges[start] > 0
        if alone[i] or closes[i] or wide or total > SIGNIFICANT * np.sqrt(variance):
            starts.append(start)
            # A run that was closed before it stood out may be empty: no value is made where there may be no row.
            totals.append(total if total > _SOME_ROWS * np.sqrt(variance) else 0.0)
            start, total, variance = i + 1, 0.0, 0.0
    weights = [
        _shrunk(grid, slice(*ends), total) for *ends, total in zip(starts, [*starts[1:], None], totals, strict=True)
    ]
    return grid.edges, np.concatenate(weights)


def _shrunk(grid: Grid, cells: slice, total: float) -> np.ndarray:
    """The rows of a run by cells: their counts, moved towards an even spread the more, the less they tell from noise.

    The factor is that of James and Stein: 1 - (number of cells - 1) / (sum of squared differences by their variances).
    """
    widths, counts = grid.widths[cells].astype(float), grid.counts[cells]
    even = total * widths / widths.sum()
    apart = float(((counts - even) ** 2 / np.maximum(grid.variances[cells], 1e-12)).sum())
    if total <= 0 or apart <= len(counts) - 1:
        return even
    rows = np.maximum(even + (1 - (len(counts) - 1) / apart) * (counts - even), 0.0)
    return rows * (total / rows.sum())


def smoothed(edges: np.ndarray, weights: np.ndarray, high: float, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """The pieces with wide ones cut up, so that the density falls within them as it does around them.

    Within a piece from a to b > 2 a the density is taken as x^-s, where s follows from the densities of the pieces
    beside it, and is that of a heavy tail (1.5) at the end. Pieces of negative numbers likewise, mirrored.
    """
    ends = np.append(edges[1:], high + unit).astype(float)
    density = weights / np.maximum(ends - edges, 1e-300)
    parts_edges, parts_weights = list[Any](), list[float]()
    for i, (low, weight) in enumerate(zip(edges.tolist(), weights.tolist(), strict=True)):
        with np.errstate(all="ignore"):
            cuts, mass = _parts(edges, ends, density, i, unit) if weight > 0 else _WHOLE
            shares = mass / mass.sum()
        # Between neighbouring floats there is no room for parts, and masses of the smallest ones are no numbers.
        if len(cuts) < 3 or not (np.diff(cuts) > 0).all() or not (shares >= 0).all():
            cuts, shares = _WHOLE
        parts_edges += [low, *(type(low)(cut) for cut in cuts[1:-1].tolist())]
        parts_weights += (weight * shares).tolist()
    return np.array(parts_edges, dtype=edges.dtype), np.array(parts_weights)


_WHOLE = (np.zeros(0), np.ones(1))
"""No ends of parts, and their masses: a piece that is not cut."""


def _parts(
    edges: np.ndarray, ends: np.ndarray, density: np.ndarray, place: int, unit: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the parts of a piece, from its own low end to its high one, and their masses."""
    low, end = float(edges[place]), float(ends[place])
    scale = _steep(ends - edges, density, place, unit)
    near, far = (low, end) if low > 0 else (-end, -low)
    if scale:
        outward = 1 if place else -1
        cuts = low + (end - low) * (_STEEP_CUTS if place else 1 - _STEEP_CUTS[::-1])
        cuts = np.unique(np.round(cuts)) if unit else cuts
        mass = np.abs(np.diff(np.exp(-outward * (cuts - (low if place else end)) / scale)))
    elif near <= 0 or far < _WIDE * near or (unit and end - low < _PARTS):
        return _WHOLE
    else:
        slope = _slope(edges, ends, density, place, outward=1 if low > 0 else -1)
        cuts = np.geomspace(near, far, _PARTS + 1)
        cuts = np.unique(np.round(cuts)) if unit else cuts
        mass = np.diff(cuts ** (1.0 - slope + 1e-9)) / (1.0 - slope + 1e-9)
        cuts, mass = (-cuts[::-1], mass[::-1]) if low <= 0 else (cuts, mass)
    cuts[[0, -1]] = low, end
    return cuts, mass


def _steep(widths: np.ndarray, density: np.ndarray, place: int, unit: int) -> float:
    """The scale on which the first or last piece falls from the density of the piece beside it; 0 where it need not.

    A density that goes on beside a piece of density d and falls exponentially holds W rows on a scale of W / d. Where
    that is much less than the width of the piece, an even spread would reach far beyond the numbers that there are.
    """
    if len(widths) < 2 or place not in (0, len(widths) - 1) or density[place] <= 0 or (unit and widths[place] < _PARTS):
        return 0.0
    beside = 1 if place == 0 else place - 1
    scale = float(density[place] * widths[place] / density[beside]) if density[beside] > 0 else 0.0
    wide = widths[beside] > unit
    return max(scale, float(unit)) if wide and widths[place] > _STEEP * scale > 0 else 0.0


def _slope(edges: np.ndarray, ends: np.ndarray, density: np.ndarray, place: int, *, outward: int) -> float:
    """The power by which the density falls away from zero at a piece, between even and a heavy tail's."""
    inner, outer = place - outward, place + outward
    if not 0 <= outer < len(density) or density[outer] <= 0:
        return _TAIL
    inner = inner if 0 <= inner < len(density) and density[inner] > 0 and edges[inner] * outward > 0 else place
    near, far = (abs(float(edges[k]) + float(ends[k])) / 2 for k in (inner, outer))
    if not far > near > 0:
        return _TAIL
    return float(np.clip(math.log(density[inner] / density[outer]) / math.log(far / near), 0.0, 3.0))


def without_empty_ends(grid: Grid, edges: np.ndarray, weights: np.ndarray) -> tuple[Grid, np.ndarray, np.ndarray]:
    """The grid and its pieces without those at both ends that hold no rows."""
    if not weights.any():
        return grid, edges, weights
    first, last = (int(place) for place in np.flatnonzero(weights)[[0, -1]])
    start = int(np.searchsorted(grid.edges, edges[first]))
    stop = len(grid.edges) if last + 1 == len(edges) else int(np.searchsorted(grid.edges, edges[last + 1]))
    return grid.part(start, stop - 1), edges[first : last + 1], weights[first : last + 1]


def _spikes(grid: Grid) -> np.ndarray:
    """Cells with significantly more rows than the density of their neighbours predicts."""
    widths = grid.widths.astype(float)
    counts, lengths = np.zeros(len(widths)), np.zeros(len(widths))
    for shift in (*range(-_NEIGHBOURS, 0), *range(1, _NEIGHBOURS + 1)):
        inside = np.arange(len(widths)) + shift
        valid = (inside >= 0) & (inside < len(widths))
        counts[valid] += grid.counts[inside[valid]]
        lengths[valid] += widths[inside[valid]]
    expected = np.maximum(counts, 0) / np.maximum(lengths, 1e-300) * widths
    noise = (SIGNIFICANT + _SPIKE) * grid.stddevs * np.sqrt(1 + widths / np.maximum(lengths, widths))
    return grid.counts - expected > noise


def bins_of(edges: np.ndarray, weights: np.ndarray, count: int, min_weight: float) -> np.ndarray:
    """Lower edges of about `count` bins: a heavy piece is one bin, the others are joined into bins of equal weight.

    `min_weight` is the smallest weight that a bin should have, since its count will be noisy too. A piece without rows
    begins no bin: it belongs to the one before it.
    """
    target = _target(weights, count, max(min_weight, _MIN_SHARE * float(weights.sum())))
    starts, total = [0], 0.0
    for i, weight in enumerate(weights.tolist()):
        full = total >= target or (weight >= target and total >= target / 2)
        if weight > 0 and full and starts[-1] != i:
            starts.append(i)
            total = 0.0
        total += weight
    if len(starts) > 1 and float(weights[starts[-1] :].sum()) < target / 2:
        starts.pop()
    return edges[starts]


def _target(weights: np.ndarray, count: int, min_weight: float) -> float:
    """Weight of a bin of light pieces, when every heavier piece is a separate bin."""
    heavy = np.zeros(len(weights), dtype=bool)
    while True:
        light = float(weights[~heavy].sum())
        target = max(light / max(count - int(heavy.sum()), 1), min_weight)
        more = (weights >= target) & ~heavy
        if not more.any():
            return target
        heavy |= more


def rounding_of(steps: tuple[int, ...], counts: np.ndarray, stddev: float) -> tuple[tuple[int, float], ...]:
    """Shares with which numbers are rounded to each step, from noisy counts by the largest step that divides them.

    Rounding to a step m makes a multiple of the larger step M with chance m / M, so the shares q solve the triangular
    system  P[M divides] = sum over m >= M of q_m + sum over m < M of q_m m / M.  Empty where numbers are not rounded.
    """
    total = float(np.maximum(counts, 0).sum())
    if total <= 0:
        return ()
    divides = np.cumsum(counts[::-1])[::-1] / total
    matrix = np.array([[1.0 if m >= big else m / big for m in steps] for big in steps])
    noise = SIGNIFICANT * stddev / total * np.sqrt(len(steps))
    plain = np.array([1.0 / step for step in steps])
    if np.all(np.abs(divides - plain)[1:] < noise + _PLAIN_ROUNDING):
        return ()
    shares = np.maximum(np.linalg.solve(matrix, divides), 0.0)
    shares[shares < max(noise, _MIN_ROUNDING)] = 0.0
    if shares.sum() in (0.0, shares[0]):
        return ()
    return tuple(
        (step, round(float(share / shares.sum()), 6)) for step, share in zip(steps, shares, strict=True) if share
    )
