"""Chooses bins from noisy counts on a public grid: post-processing of released numbers.

A grid cuts a range of the number line into cells, given by their lower edges and the last value. Whole numbers of ticks
are the values of integers, times and decimals with a fixed number of places; `unit` is then 1, and 0 for floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from lookalike.schema import times
from lookalike.schema.binned import Binned, Datetime, Integer
from lookalike.schema.storage import whole_range

# Where no other place is named, the constants were chosen on Adult as published: see `discover.py`.
SIGNIFICANT = 4.0
"""Noisy counts above this many standard deviations count as rows: one in 30,000 empty cells passes."""
_POWERS, _EXACT_POWERS = 61, 52
"""Grids of numbers end at 2^61, those of decimals at 2^52, up to which whole numbers of ticks are exact as floats."""
_FIRST_YEAR, _LAST_YEAR = 1800, 2200
"""Grids of times cover these years."""
_NEARLY_ALL, _DOUBT = 0.95, 2.0
"""An occupied range must hold this share of the rows, within this many standard deviations."""
_FALSE, _FALSE_ALONE = 0.01, 1e-4
"""Expected numbers of empty blocks of one size that pass as occupied: in all, and far away from the others."""
_NEAR = 2
"""Occupied blocks are near each other with at most this many blocks between them."""
_VACANT_NOISE, _VACANT_SLACK, _VACANT_SHARE = 2.0, 1.5, 0.01
"""Outer cells are dropped while their sum is below the first constant in standard deviations of that sum, and below the
share of the cell that they were cut from plus the second constant in standard deviations of one cell."""
_NEIGHBOURS, _SPIKE = 3, 0.5
"""Cells on either side that a spike is compared with, and what is added to SIGNIFICANT, because many are compared."""
_MIN_SHARE = 0.004
"""Smallest share of the rows for which a bin is made."""
_PLAIN_ROUNDING, _MIN_ROUNDING = 0.02, 0.002
"""Shares of multiples this near to those of unrounded numbers are not rounding; smaller shares of a step become 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of the number line with noisy counts.

    Attributes:
        edges: lower edges of the cells, rising.
        high: the last value of the last cell.
        counts: noisy counts of the cells; empty before they are measured.
        stddev: noise on each.
        unit: 1 on an axis of ticks, 0 on one of floats.
        groups: for each cell the number of the cell that it was cut from, 0 where it was not cut. The sum of a group
            has the noise of a single cell.
    """

    edges: np.ndarray
    high: int | float
    counts: np.ndarray
    stddev: float
    unit: int
    groups: np.ndarray | None = None

    @property
    def widths(self) -> np.ndarray:
        return np.append(self.edges[1:], self.high + self.unit) - self.edges


def coarse_grid(base: Binned) -> Grid:
    """Cells that cover all values a storage type can hold: powers of two on both sides of zero, years for times."""
    if isinstance(base, Datetime):
        tick = times.TICKS[base.resolution]
        years = np.arange(f"{_FIRST_YEAR}", f"{_LAST_YEAR + 1}", dtype="datetime64[Y]")
        edges = years.astype("datetime64[us]").astype(np.int64) // tick
        return Grid(edges[:-1], int(edges[-1]) - 1, np.empty(0), 0.0, 1)
    unit = 0 if base.tick is None else 1
    top = _POWERS if isinstance(base, Integer) or not unit else _EXACT_POWERS
    powers = 2.0 ** np.arange(0 if unit else -_POWERS, top)
    edges = np.concatenate((-powers[::-1], [0.0], powers))
    if not unit:
        return Grid(edges, 2.0**top, np.empty(0), 0.0, 0)
    # Values outside of the storage type could not be written, so noise must not put rows there.
    low, high = whole_range(base) if isinstance(base, Integer) else (-(2**63), 2**63)
    whole = edges.astype(np.int64)
    return Grid(whole[(whole >= low) & (whole <= high)], min(2**top - 1, high), np.empty(0), 0.0, 1)


def one_cell(base: Binned) -> Grid:
    """The range between declared bounds as a single cell that was not measured."""
    low, high = (base.internal(bound) for bound in (base.minimum, base.maximum))
    if base.tick is None:
        return Grid(np.array([float(low)]), float(high), np.zeros(1), np.inf, 0)
    return Grid(np.array([base.nearest_tick(low)], dtype=np.int64), base.nearest_tick(high), np.zeros(1), np.inf, 1)


def measured(grid: Grid, counts: np.ndarray, stddev: float) -> Grid:
    """The grid with noisy counts of its cells."""
    return replace(grid, counts=np.asarray(counts, dtype=float), stddev=stddev)


def occupied(grid: Grid, total: float, doubt: float = 0.0) -> Grid:
    """The cells from the first to the last that stand out from the noise, if nearly all of `total` rows are there.

    Else blocks of 2, 4, 8, ... cells are tried. Where no range holds nearly all rows, the one with most rows is taken,
    and where nothing stands out, the middle of the grid. Ranges without isolated blocks that stand out only a little
    are tried first: cells are powers of two wide, so that one empty cell too many makes a range useless.

    Args:
        grid: noisy counts of all cells.
        total: about how many rows there are.
        doubt: standard deviation of `total`.
    """
    size, cells, largest = 1, len(grid.counts), -np.inf
    best = (cells // 2, cells // 2)
    while size <= cells:
        starts = np.arange(0, cells, size)
        for low, high in _standing_out(np.add.reduceat(grid.counts, starts) / (grid.stddev * np.sqrt(size))):
            first, last = int(starts[low]), min(int(starts[high]) + size, cells) - 1
            held, noise = float(grid.counts[first : last + 1].sum()), grid.stddev * np.sqrt(last + 1 - first)
            if held + _DOUBT * np.hypot(noise, doubt) >= _NEARLY_ALL * total:
                return _part(grid, first, last)
            if held > largest:
                largest, best = held, (first, last)
        size *= 2
    return _part(grid, *best)


def _standing_out(scores: np.ndarray) -> list[tuple[int, int]]:
    """First and last of the blocks that stand out: without isolated blocks of doubt first, then with them."""
    some, sure = (NormalDist().inv_cdf(1 - false / len(scores)) for false in (_FALSE, _FALSE_ALONE))
    found = np.flatnonzero(scores > some)
    if not found.size:
        return []
    groups = np.split(found, np.flatnonzero(np.diff(found) > _NEAR + 1) + 1)
    certain = [group for group in groups if scores[group].max() > sure]
    tries = [(int(certain[0][0]), int(certain[-1][-1]))] if certain else []
    return [*tries, (int(found[0]), int(found[-1]))]


def trimmed(grid: Grid) -> Grid:
    """The grid without the outer parts of its first and last cut-up cell that seem to hold no rows.

    Outer cells are dropped while their sum could be noise and is small beside the cell that they were cut from. Rows
    in them are clamped to the range that is kept.
    """
    first, last = _vacant(grid, 1), len(grid.counts) - 1 - _vacant(grid, -1)
    if first > last:
        first = last = int(np.argmax(grid.counts))
    return _part(grid, first, last)


def _vacant(grid: Grid, direction: int) -> int:
    """How many cells to drop at the low end (1) or the high end (-1)."""
    if grid.groups is None or not grid.groups[::direction][0]:
        return 0
    groups, counts = grid.groups[::direction], grid.counts[::direction]
    size = int(np.argmin(np.append(groups, -1) == groups[0]))
    outer = np.cumsum(counts[: size - 1])
    noise = _VACANT_NOISE * grid.stddev * np.sqrt(np.arange(1, size))
    small = max(_VACANT_SHARE * float(counts[:size].sum()), 0.0) + _VACANT_SLACK * grid.stddev
    vacant = np.flatnonzero(outer <= np.minimum(noise, small))
    return int(vacant[-1]) + 1 if vacant.size else 0


def _part(grid: Grid, first: int, last: int) -> Grid:
    ends = np.append(grid.edges[1:] - grid.unit, grid.high)
    keep = slice(first, last + 1)
    groups = None if grid.groups is None else grid.groups[keep]
    return replace(grid, edges=grid.edges[keep], high=ends[last].item(), counts=grid.counts[keep], groups=groups)


def even_grid(low: int | float, high: int | float, cells: int, unit: int) -> Grid:
    """At most `cells` equally wide cells from low to high; single ticks where that is enough."""
    if unit:
        width = -(-(int(high) - int(low) + 1) // cells)
        return Grid(np.arange(int(low), int(high) + 1, width, dtype=np.int64), int(high), np.empty(0), 0.0, 1)
    edges = np.linspace(low, high, cells + 1)[:-1] if high > low else np.array([low])
    return Grid(np.unique(edges), high, np.empty(0), 0.0, 0)


def split(grid: Grid, pieces: int, *, every: bool = False) -> tuple[Grid, np.ndarray]:
    """The grid with significant cells (or all) cut into at most `pieces` parts, and the old cell of each new one."""
    widths = grid.widths
    heavy = (every | (grid.counts > SIGNIFICANT * grid.stddev)) & (widths > grid.unit)
    edges: list[np.ndarray] = []
    for edge, width, cut in zip(grid.edges, widths, heavy, strict=True):
        last = (edge + width - grid.unit).item()
        edges.append(even_grid(edge.item(), last, pieces, grid.unit).edges if cut else np.array([edge]))
    parents = np.repeat(np.arange(len(edges)), [len(part) for part in edges])
    old = np.zeros(len(edges), dtype=np.int64) if grid.groups is None else grid.groups
    new = int(old.max(initial=0)) + 1 + np.arange(len(edges))
    groups = np.where(heavy, new, old)[parents]
    return replace(grid, edges=np.concatenate(edges), counts=np.empty(0), groups=groups), parents


def combined(old: Grid, new: Grid, parents: np.ndarray) -> Grid:
    """The new counts, made consistent with the old ones.

    With the same noise on both, the best estimate of a cell's total, from its own count c and the sum s of its m parts,
    is (m c + s) / (m + 1); the parts share the difference equally.
    """
    parts = np.bincount(parents)
    sums = np.bincount(parents, weights=new.counts)
    ratio = (new.stddev / old.stddev) ** 2
    totals = (parts * ratio * old.counts + sums) / (parts * ratio + 1)
    return replace(new, counts=new.counts + ((totals - sums) / parts)[parents])


def pieces_of(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Lower edges and weights of pieces: runs of cells just long enough to stand out from the noise, spikes alone.

    No piece extends beyond a cell that was cut up, whose total stands out by itself.
    """
    spikes = _spikes(grid)
    groups = np.zeros(len(grid.counts), dtype=np.int64) if grid.groups is None else grid.groups
    closes = np.append(groups[1:] != groups[:-1], True) | spikes | np.append(spikes[1:], False)
    starts: list[int] = []
    weights: list[float] = []
    start, total = 0, 0.0
    for i, count in enumerate(grid.counts.tolist()):
        total += count
        if closes[i] or total > SIGNIFICANT * grid.stddev * np.sqrt(i + 1 - start):
            starts.append(start)
            weights.append(max(total, 0.0))
            start, total = i + 1, 0.0
    return grid.edges[starts], np.array(weights)


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
    noise = (SIGNIFICANT + _SPIKE) * grid.stddev * np.sqrt(1 + widths / np.maximum(lengths, widths))
    return grid.counts - expected > noise


def bins_of(edges: np.ndarray, weights: np.ndarray, count: int, min_weight: float) -> np.ndarray:
    """Lower edges of about `count` bins: a heavy piece is one bin, the others are joined into bins of equal weight.

    `min_weight` is the smallest weight that a bin should have, since its count will be noisy too.
    """
    target = _target(weights, count, max(min_weight, _MIN_SHARE * float(weights.sum())))
    starts, total = [0], 0.0
    for i, weight in enumerate(weights.tolist()):
        if weight >= target and total >= target / 2 and starts[-1] != i:
            starts.append(i)
            total = 0.0
        total += weight
        if total >= target and i + 1 < len(weights):
            starts.append(i + 1)
            total = 0.0
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
