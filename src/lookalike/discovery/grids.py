"""Cells of the number line with noisy counts: which stand out, how they are cut up and combined. No data.

A grid cuts a range of the number line into cells, given by their lower edges and the last value. Whole numbers of ticks
are the values of integers, times and decimals with a fixed number of places; `unit` is then 1, and 0 for floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

# Chosen on the development tables of benchmarks/real_tables; docs/real_tables.md shows the results.
SURE, LIKELY, POSSIBLE, LEFT_OVER = 5.0, 3.5, 2.0, 3.0
"""Standard deviations by which a block of cells must stand out: anywhere, beside cells that do, or where rows are known
to be left over; and by which rows are known to be left over."""
SIGNIFICANT = 4.0
"""Noisy counts above this many standard deviations count as rows where few cells are compared."""
SMALL = 10.0
"""Numbers up to this size are small wherever they are looked for."""
PLAUSIBLE = (0.1, 1e5)
"""Sizes of numbers that are not surprising. Where hardly anything is seen, numbers are zero or one of these."""
_HOLDS_SPIKE = 6.0
"""A cell of fewer standard deviations of rows is not cut further: no spike within it could be distinguished."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of the number line with noisy counts.

    Attributes:
        edges: lower edges of the cells, rising.
        high: the last value of the last cell.
        counts: noisy counts of the cells; zero before they are measured.
        variances: variance of the noise on each; infinite before they are measured.
        unit: 1 on an axis of ticks, 0 on one of floats.
        parents: for each cell the number of the cell that it was cut from; cells that were not cut have their own.
        parent_variances: variance of the sum of the cells of each parent.
        has_zero: whether sizes of numbers mean something, as they do not for times. Of grids of classes only.
        tick: the number that one tick stands for. Of grids of classes only.
    """

    edges: np.ndarray
    high: int | float
    counts: np.ndarray
    variances: np.ndarray
    unit: int
    parents: np.ndarray
    parent_variances: np.ndarray
    has_zero: bool = True
    tick: float = 1.0

    @classmethod
    def of(cls, edges: np.ndarray, high: int | float, counts: np.ndarray, variances: np.ndarray, unit: int) -> Grid:
        return cls(edges, high, counts, variances, unit, np.arange(len(edges)), variances)

    @property
    def ends(self) -> np.ndarray:
        """Where each cell ends; the last value plus one tick for the last one."""
        return np.append(self.edges[1:], self.high + self.unit)

    @property
    def widths(self) -> np.ndarray:
        return self.ends - self.edges

    @property
    def stddevs(self) -> np.ndarray:
        return np.sqrt(self.variances)

    @property
    def typical_stddev(self) -> float:
        return float(np.median(self.stddevs))

    def part(self, first: int, last: int) -> Grid:
        """The cells from first to last."""
        keep = slice(first, last + 1)
        end = self.ends[last].item() - self.unit if last + 1 < len(self.edges) else self.high
        cut = {"edges": self.edges[keep], "counts": self.counts[keep], "variances": self.variances[keep]}
        return replace(self, **cut, high=end, parents=self.parents[keep])

    def variance_of(self, chosen: np.ndarray) -> float:
        """Variance of the sum of the chosen cells: that of their parent where all of its cells are chosen."""
        total = 0.0
        for parent in np.unique(self.parents[chosen]):
            own = self.parents == parent
            some = float(self.variances[own & chosen].sum())
            total += min(some, float(self.parent_variances[parent])) if np.all(chosen[own]) else some
        return total


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows of a column have a value, with the variance of that estimate."""

    number: float
    variance: float

    def left(self, grid: Grid, chosen: np.ndarray) -> tuple[float, float]:
        """Rows that are not in the chosen cells, and the standard deviation of that estimate."""
        left = self.number - float(grid.counts[chosen].sum())
        return left, math.sqrt(self.variance + float(grid.variances[chosen].sum()))


def visible(counts: np.ndarray, stddevs: np.ndarray, limit: float) -> np.ndarray:
    """Which cells belong to blocks of neighbours whose sum stands out from its noise, in the smallest such blocks.

    Several rows of cells may be given at once, as arrays of two axes.

    >>> visible(np.array([0.0, 9.0, 0.0, 3.0, 3.0, 0.0]), np.ones(6), 4.0).tolist()
    [False, True, False, True, True, False]
    """
    if counts.ndim == 1:
        return visible(counts[None], stddevs[None], limit)[0]
    found, cells, size = np.zeros(counts.shape, dtype=bool), counts.shape[1], 1
    while size <= cells:
        left, noise = _running_sums(np.where(found, 0.0, counts)), _running_sums(np.where(found, 0.0, stddevs**2))
        starts = np.arange(0, cells - size + 1, max(size // 2, 1))
        variance = noise[:, starts + size] - noise[:, starts]
        sums = left[:, starts + size] - left[:, starts]
        stands = (variance > 0) & (sums > limit * np.sqrt(np.maximum(variance, 1e-300)))
        for row, place in np.argwhere(stands):
            block = slice(starts[place], starts[place] + size)
            found[row, block] |= _core(counts[row, block], stddevs[row, block])
        size *= 2
    return found


def _core(counts: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """The cells of a block from the first to the last that may hold rows: those at its ends need not be part of it."""
    some = np.flatnonzero(counts > POSSIBLE * stddevs)
    core = np.ones(len(counts), dtype=bool)
    if some.size:
        core[: some[0]] = core[some[-1] + 1 :] = False
    return core


def _running_sums(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def extent_of(grid: Grid, *, has_zero: bool = True) -> float:
    """The largest number of the range, or its width, or what counts as small; for times the width alone."""
    width = float(grid.ends[-1]) - float(grid.edges[0])
    return max(abs(float(grid.edges[0])), abs(float(grid.ends[-1])), width, SMALL) if has_zero else width


def gaps_between(cells: Grid, part: Grid) -> np.ndarray:
    """How far cells are from a range; 0 within it."""
    low, high = float(part.edges[0]), float(part.ends[-1])
    return np.maximum(np.maximum(low - cells.ends.astype(float), cells.edges.astype(float) - high), 0.0)


def cut_evenly(low: int | float, high: int | float, parts: int, unit: int) -> np.ndarray:
    """Lower edges of at most `parts` equally wide cells from low to high; single ticks where that is enough."""
    if unit:
        width = max(-(-(int(high) - int(low) + 1) // parts), 1)
        return np.arange(int(low), int(high) + 1, width, dtype=np.int64)
    return np.unique(np.linspace(low, high, parts + 1)[:-1]) if high > low else np.array([low])


def split(grid: Grid, parts: np.ndarray) -> Grid:
    """The grid with cell i cut into at most parts[i] equally wide cells, not measured yet."""
    edges: list[np.ndarray] = []
    for edge, end, count in zip(grid.edges.tolist(), grid.ends.tolist(), parts.tolist(), strict=True):
        edges.append(cut_evenly(edge, end - grid.unit, count, grid.unit) if count > 1 else np.array([edge]))
    parents = np.repeat(np.arange(len(edges)), [len(part) for part in edges])
    cells = np.concatenate(edges).astype(grid.edges.dtype)
    empty = {"edges": cells, "counts": np.zeros(len(cells)), "variances": np.full(len(cells), np.inf)}
    return replace(grid, **empty, parents=parents, parent_variances=grid.variances)


def parts_by_rows(grid: Grid, cells: int) -> np.ndarray:
    """Into how many parts to cut each cell so that there are about `cells`, in proportion to their rows."""
    weights = np.maximum(grid.counts, grid.stddevs)
    parts = np.maximum(np.round(cells * weights / weights.sum()), 1)
    return np.where(divisible(grid), np.minimum(parts, grid.widths) if grid.unit else parts, 1).astype(np.int64)


def parts_with_spikes(grid: Grid, most: int) -> np.ndarray:
    """Into how many parts to cut each cell in which a single value could stand out: single ticks, at most `most`."""
    heavy = (grid.counts > _HOLDS_SPIKE * grid.stddevs) & divisible(grid)
    return np.where(heavy, np.minimum(np.where(grid.unit, grid.widths, most), most), 1).astype(np.int64)


def divisible(grid: Grid) -> np.ndarray:
    """Which cells hold more than one value."""
    return grid.widths > 1 if grid.unit else np.nextafter(grid.edges, np.inf) < grid.ends


def with_spikes(grid: Grid, values: dict[float, float], stddev: float) -> Grid:
    """The grid with cells of their own for single numbers whose noisy counts are known.

    The other rows of the cell that held such a number are shared by width.
    """
    for value, count in sorted(values.items()):
        at = int(np.searchsorted(grid.edges, value, side="right")) - 1
        after = float(np.nextafter(value, np.inf))
        if at < 0 or value > grid.high or not divisible(grid)[at] or after >= grid.ends[at]:
            continue
        rest, variance = max(float(grid.counts[at]) - count, 0.0), grid.variances[at] + stddev**2
        below = float((value - grid.edges[at]) / (grid.ends[at] - grid.edges[at]))
        shares = [below, 1 - below] if value > grid.edges[at] else [1.0]
        edges = [*([grid.edges[at]] if value > grid.edges[at] else []), value, after]
        counts = [*(rest * share for share in shares[:-1]), count, rest * shares[-1]]
        variances = [*(variance * share**2 for share in shares[:-1]), stddev**2, variance * shares[-1] ** 2]
        cut = _inserted([(grid.edges, edges), (grid.counts, counts), (grid.variances, variances)], at)
        grid = Grid.of(cut[0], grid.high, cut[1], cut[2], grid.unit)
    return grid


def _inserted(arrays: list[tuple[np.ndarray, list[float]]], at: int) -> list[np.ndarray]:
    """Each array with its entry at a place replaced by a list."""
    return [np.concatenate([array[:at], new, array[at + 1 :]]) for array, new in arrays]


def refined(old: Grid, new: Grid, counts: np.ndarray, stddev: float) -> Grid:
    """The new cells with their counts, made consistent with the counts of the cells that they were cut from.

    The best estimate of a cell's total from its own count c of variance u and the sum s of its m parts of variance v
    each is (m v c + u s) / (m v + u); the parts share the difference equally.
    """
    parts = np.bincount(new.parents, minlength=len(old.edges))
    sums = np.bincount(new.parents, weights=counts, minlength=len(old.edges))
    within, before = parts * stddev**2, old.variances
    totals = np.where(np.isinf(before), sums, (within * old.counts + before * sums) / (within + before))
    variances = np.where(np.isinf(before), within, within * before / (within + before))
    consistent = counts + ((totals - sums) / parts)[new.parents]
    own = np.full(len(counts), stddev**2)
    single = parts[new.parents] == 1
    own[single] = variances[new.parents][single]
    return replace(new, counts=consistent, variances=own, parent_variances=variances)


def joined(grid: Grid) -> Grid:
    """The cells that those of a grid were cut from, with the sums of their counts."""
    numbers, starts = np.unique(grid.parents, return_index=True)
    counts = np.add.reduceat(grid.counts, starts)
    return replace(
        grid, edges=grid.edges[starts], counts=counts, variances=grid.parent_variances[numbers], parents=numbers
    )


def plausible(numbers: np.ndarray, least: float = PLAUSIBLE[0], most: float = PLAUSIBLE[1]) -> np.ndarray:
    """Which numbers are zero, or of a size that is not surprising."""
    return (numbers == 0) | ((numbers >= least) & (numbers <= most))
