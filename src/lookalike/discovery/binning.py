"""Chooses bins from noisy counts of cells of the number line: post-processing of released numbers.

A grid cuts a range of the number line into cells, given by their lower edges and the last value. Whole numbers of ticks
are the values of integers, times and decimals with a fixed number of places; `unit` is then 1, and 0 for floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

# Chosen on the development tables of benchmarks/real_tables; docs/real_tables.md shows the results.
SURE, LIKELY, POSSIBLE, LEFT_OVER = 5.0, 3.5, 2.0, 3.0
"""Standard deviations by which a block of cells must stand out: anywhere, beside cells that do, or where rows are known
to be left over; and by which rows are known to be left over."""
SIGNIFICANT = 4.0
"""Noisy counts above this many standard deviations count as rows where few cells are compared."""
_NEAR = 2
"""Blocks are beside each other with at most this many cells between them."""
_FAR = 10.0
"""Further away than this many times its own numbers, a range takes in no cells that do not stand out clearly."""
_PER_MAGNITUDE = 0.4
"""Standard deviations by which a cell must stand out more for each order of magnitude beyond that."""
_REACH, _SMALL = 5.0, 10.0
"""A range is extended to numbers of at most the first constant times its own, or times the second."""
_LITTLE = 2.3
"""Standard deviations by which two independent counts must stand out to show one more value."""
_HIDDEN, _LONGEST_HIDDEN, _FURTHEST_HIDDEN = 5.5, 30, 1e4
"""Least logarithm of the likelihood of a range of hidden amounts, and its most cells and largest number."""
_VACANT, _FULL = 1.0, 2.5
"""Outer cells are dropped if their sum is below the first constant in standard deviations of that sum, where an even
spread of the cell that they were cut from would put it above the second."""
_NEIGHBOURS, _SPIKE = 3, 0.5
"""Cells on either side that a spike is compared with, and what is added to SIGNIFICANT, because many are compared."""
_SOME_ROWS = 1.5
"""Standard deviations below which a piece is taken to be empty."""
_MUCH_WIDER, _WIDEST = 4.0, 5.0
"""A piece ends before a cell that is wider by the first factor, and where its end is the second times its start."""
_WIDE, _PARTS, _TAIL = 2.0, 6, 1.5
"""Pieces wider than this factor are cut into so many parts; the power by which a heavy tail's density falls."""
_HEAVY, _RARE, _FURTHER = 10.0, 0.0005, 3.0
"""A tail is heavy if numbers reach beyond this many times the median; the share of rows beyond; how far it may go."""
_MIN_SHARE = 0.004
"""Smallest share of the rows for which a bin is made."""
_HOLDS_SPIKE = 6.0
"""A cell of fewer standard deviations of rows is not cut further: no spike within it could be distinguished."""
_MOSTLY_VALUES = 0.8
"""Share of the rows in single values that stand out from which the others are taken to be single values, too."""
_ALL_BUT, _MANY = (0.01, 0.06), 10
"""Largest share of rows beside the values of a column of few values; and where there are this many, with gaps."""
_PLAIN_ROUNDING, _MIN_ROUNDING = 0.02, 0.002
"""Shares of multiples this near to those of unrounded numbers are not rounding; smaller shares of a step become 0."""


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
    """

    edges: np.ndarray
    high: int | float
    counts: np.ndarray
    variances: np.ndarray
    unit: int
    parents: np.ndarray
    parent_variances: np.ndarray
    has_zero: bool = True

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


def occupied(grid: Grid, rows: Rows) -> Grid:
    """The cells from the first to the last that hold rows.

    Blocks that stand out clearly are taken wherever they are, weaker ones only beside them, because cells grow with
    their distance from zero, so that one empty cell too many makes a range useless. If rows are left over, weaker
    blocks are taken as well. Rows beyond a range of several values are counted later.
    """
    likely, clear = (visible(grid.counts, grid.stddevs, limit) for limit in (LIKELY, SIGNIFICANT))
    found = visible(grid.counts, grid.stddevs, SURE)
    if not found.any():
        # Nothing can be seen: a small number is the least implausible.
        small = np.abs(grid.edges) <= (_SMALL * _SMALL if grid.unit else _SMALL)
        scores = np.where(small | ~small.any(), grid.counts / np.maximum(grid.stddevs, 1e-300), -np.inf)
        found = np.arange(len(grid.counts)) == np.argmax(scores)
    found &= _believable(grid, found)
    core = np.flatnonzero(found)
    near = np.abs(grid.edges) <= _FAR * _extent(grid.part(int(core[0]), int(core[-1])))
    likely, clear = likely & near, clear & near
    for _ in range(2):
        first, last = _range(grid, likely, clear, found)
        left, noise = rows.left(grid, _held(grid, first, last))
        if left < LEFT_OVER * noise:
            return grid.part(*_with_neighbour(grid, first, last, left, noise))
        found = found | clear
    part = grid.part(first, last)
    return part if divisible(part).any() else _with_hidden(part, grid, left, noise)


def _with_neighbour(grid: Grid, first: int, last: int, left: float, noise: float) -> tuple[int, int]:
    """The range with one more single value after its last, if that and the rows left over both say so a little."""
    more = last + 1
    single = more < len(grid.counts) and not divisible(grid)[last : more + 1].any()
    seen = single and left > _LITTLE * noise and grid.counts[more] > _LITTLE * grid.stddevs[more]
    return (first, more) if seen and not _crosses(grid, last, more) else (first, last)


def _believable(grid: Grid, found: np.ndarray) -> np.ndarray:
    """Which cells are near the one with most rows, or stand out by more, the more orders of magnitude they are away.

    A table of many columns has some cells that stand out by chance, and nearly all cells are far away.
    """
    most = int(np.argmax(np.where(found, grid.counts, -np.inf)))
    own = grid.part(most, most)
    reach = _FAR * _extent(own, has_zero=grid.has_zero)
    far = np.ceil(np.log10(np.maximum(_gaps(grid, own) / reach, 1.0)))
    near = far == 0
    for magnitudes in np.unique(far[found & ~near]).tolist():
        limit = SURE + _PER_MAGNITUDE * magnitudes
        near |= (far == magnitudes) & visible(grid.counts, grid.stddevs, limit)
    return near


def _gaps(cells: Grid, part: Grid) -> np.ndarray:
    """How far cells are from a range; 0 within it."""
    low, high = float(part.edges[0]), float(part.ends[-1])
    return np.maximum(np.maximum(low - cells.ends.astype(float), cells.edges.astype(float) - high), 0.0)


def _range(grid: Grid, likely: np.ndarray, clear: np.ndarray, found: np.ndarray) -> tuple[int, int]:
    """First and last of the cells that were found, or can be reached from these."""
    first, last = (int(place) for place in np.flatnonzero(found)[[0, -1]])
    return _reached(grid, likely, clear, first, -1), _reached(grid, likely, clear, last, 1)


def _held(grid: Grid, first: int, last: int) -> np.ndarray:
    """The cells of a range that seem to hold rows: empty ones would only add their noise."""
    inside = (np.arange(len(grid.counts)) >= first) & (np.arange(len(grid.counts)) <= last)
    return inside & visible(np.where(inside, grid.counts, 0.0), grid.stddevs, POSSIBLE)


def _reached(grid: Grid, likely: np.ndarray, clear: np.ndarray, place: int, way: int) -> int:
    """The furthest cell that can be reached from a cell over likely ones; a change of sign needs a clear one.

    Steps lead over a few cells, or over cells that are narrow beside the two that they join.
    """
    at = place
    while True:
        further = np.flatnonzero(likely[:at] if way < 0 else likely[at + 1 :]) + (0 if way < 0 else at + 1)
        near = [k for k in further.tolist() if _beside(grid, at, k) and (clear[k] or not _crosses(grid, at, k))]
        if not near:
            return at
        at = min(near) if way < 0 else max(near)


def _beside(grid: Grid, one: int, other: int) -> bool:
    """Whether few or narrow cells lie between two."""
    low, high = min(one, other), max(one, other)
    gap = grid.edges[high] - grid.ends[low]
    return high - low <= _NEAR + 1 or bool(gap <= max(grid.widths[low], grid.widths[high]))


def extended(grid: Grid, classes: Grid, below: tuple[float, float], above: tuple[float, float]) -> Grid:
    """The grid with one more cell at each end beyond which there are rows: their number and its standard deviation.

    The cell reaches to where the classes beyond the end hold about as many rows, within limits.
    """
    for way, (rows, noise) in ((-1, below), (1, above)):
        if not rows > LEFT_OVER * noise:
            continue
        outside = classes.edges < grid.edges[0] if way < 0 else classes.edges >= grid.ends[-1]
        outside &= _same_side(grid, classes)
        near = np.abs(classes.edges) <= _REACH * _extent(grid)
        if not classes.has_zero:
            near = _gaps(classes, grid) <= _extent(grid, has_zero=False)
        cells = np.flatnonzero(outside & near)[::way]
        if not cells.size:
            continue
        sums = np.cumsum(classes.counts[cells])
        enough = np.flatnonzero(sums >= rows - np.sqrt(np.cumsum(classes.variances[cells]) + noise**2))
        furthest = int(cells[enough[0] if enough.size else np.argmax(sums)])
        grid = _with_end(grid, classes.part(furthest, furthest), way, rows, noise)
    return grid


def _same_side(grid: Grid, classes: Grid) -> np.ndarray:
    """Which classes have the sign of a grid that has one; all of them where numbers of the other sign stand out."""
    negative = classes.edges < 0
    clear = visible(classes.counts, classes.stddevs, SIGNIFICANT)
    if not classes.has_zero:
        return np.ones(len(negative), dtype=bool)
    if grid.edges[0] >= 0 and not clear[negative].any():
        return ~negative
    return negative if grid.ends[-1] <= 0 and not clear[~negative].any() else np.ones(len(negative), dtype=bool)


def _with_hidden(part: Grid, classes: Grid, rows: float, noise: float) -> Grid:
    """Single values with a range of larger ones in which the rows that are left seem to be, as amounts beside zeros.

    Of all runs of cells above, the one is taken in which an even spread of the rows is most likely: with k cells of
    variance v that hold s rows, the logarithm of its likelihood is rows (s - rows / 2) / (k v).
    """
    above = np.flatnonzero((classes.edges >= part.ends[-1]) & (classes.edges <= _FURTHEST_HIDDEN))
    best, where = _HIDDEN, None
    for size in range(1, min(len(above), _LONGEST_HIDDEN) + 1):
        sums = np.convolve(classes.counts[above], np.ones(size), "valid")
        likely = rows * (sums - rows / 2) / (size * float(classes.variances[above].mean()))
        place = int(np.argmax(likely))
        if likely[place] > best:
            best, where = float(likely[place]), (int(above[place]), int(above[place + size - 1]))
    if where is None:
        return extended(part, classes, (0.0, 0.0), (rows, noise))
    found = classes.part(*where)
    gap = found.edges[0] > part.ends[-1]
    edges = [*part.edges, *([part.ends[-1]] if gap else []), found.edges[0]]
    counts = [*part.counts, *([0.0] if gap else []), rows]
    variances = [*part.variances, *([noise**2 / 100] if gap else []), noise**2]
    return Grid.of(np.array(edges, part.edges.dtype), found.high, np.array(counts), np.array(variances), part.unit)


def _extent(grid: Grid, *, has_zero: bool = True) -> float:
    """The largest number of the range, or its width, or what counts as small; for times the width alone."""
    width = float(grid.ends[-1]) - float(grid.edges[0])
    return max(abs(float(grid.edges[0])), abs(float(grid.ends[-1])), width, _SMALL) if has_zero else width


def _with_end(grid: Grid, end: Grid, way: int, rows: float, noise: float) -> Grid:
    """The grid with a cell before its first or after its last, up to the cell `end`."""
    if way < 0:
        edges, counts, variances = ([end.edges[0], *grid.edges], [rows, *grid.counts], [noise**2, *grid.variances])
        high = grid.high
    else:
        edges, counts, variances = ([*grid.edges, grid.ends[-1]], [*grid.counts, rows], [*grid.variances, noise**2])
        high = end.high
    return Grid.of(np.array(edges, grid.edges.dtype), high, np.array(counts), np.array(variances), grid.unit)


def _crosses(grid: Grid, one: int, other: int) -> bool:
    """Whether only one of two cells has negative numbers. Zero and positive numbers are on the same side."""
    return bool((grid.edges[one] < 0) != (grid.edges[other] < 0))


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
    unknown = np.full(len(cells), np.inf)
    return Grid(cells, grid.high, np.zeros(len(cells)), unknown, grid.unit, parents, grid.variances)


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


def trimmed(grid: Grid, *, low: bool = True, high: bool = True) -> Grid:
    """The grid without the outer parts of its first (if low) and last (if high) cut-up cell that seem to be empty.

    Outer cells are dropped where their sum could be noise, and would not be if the rows of the cell that they were cut
    from were spread evenly. Rows in them are clamped to the range that is kept.
    """
    first, last = _vacant(grid, 1) if low else 0, len(grid.counts) - 1 - (_vacant(grid, -1) if high else 0)
    if first > last:
        first = last = int(np.argmax(grid.counts))
    return grid.part(first, last)


def _vacant(grid: Grid, direction: int) -> int:
    """How many cells to drop at the low end (1) or the high end (-1)."""
    parents, counts = grid.parents[::direction], grid.counts[::direction]
    size = int(np.argmin(np.append(parents, -1) == parents[0]))
    number = np.arange(1, size)
    noise = np.sqrt(np.cumsum(grid.variances[::direction][: size - 1]))
    empty = np.cumsum(counts[: size - 1]) <= _VACANT * noise
    vacant = np.flatnonzero(empty & (counts[:size].sum() * number / size >= _FULL * noise))
    return int(vacant[-1]) + 1 if vacant.size else 0


def listed_values(grid: Grid, rows: Rows) -> np.ndarray | None:
    """Which cells are the values of a column of few values; None where rows hold other values.

    A value is a cell of a single tick that stands out.
    """
    values = ~divisible(grid) & (grid.counts > _LITTLE * grid.stddevs)
    left, noise = rows.left(grid, values)
    others = ~values & visible(np.where(values, 0.0, grid.counts), np.where(values, 0.0, grid.stddevs), LIKELY)
    share = _ALL_BUT[1] if _sparse(grid, values) else _ALL_BUT[0]
    hidden = float(grid.counts[others].sum()) > share * rows.number
    few = left < max(LEFT_OVER * noise, share * rows.number)
    return values if values.any() and few and not hidden else None


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
    starts, weights = list[int](), list[float]()
    start, total, variance = 0, 0.0, 0.0
    for i, (count, own) in enumerate(zip(grid.counts.tolist(), grid.variances.tolist(), strict=True)):
        total, variance = total + count, variance + own
        wide = grid.ends[i] > _WIDEST * grid.edges[start] > 0
        if alone[i] or closes[i] or wide or total > SIGNIFICANT * np.sqrt(variance):
            starts.append(start)
            # A run that was closed before it stood out may be empty: no value is made where there may be no row.
            weights.append(total if total > _SOME_ROWS * np.sqrt(variance) else 0.0)
            start, total, variance = i + 1, 0.0, 0.0
    return grid.edges[starts], np.array(weights)


def smoothed(edges: np.ndarray, weights: np.ndarray, high: float, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """The pieces with wide ones cut up, so that the density falls within them as it does around them.

    Within a piece from a to b > 2 a the density is taken as x^-s, where s follows from the densities of the pieces
    beside it, and is that of a heavy tail (1.5) at the end. Pieces of negative numbers likewise, mirrored.
    """
    ends = np.append(edges[1:], high + unit).astype(float)
    density = weights / np.maximum(ends - edges, 1e-300)
    parts_edges, parts_weights = list[Any](), list[float]()
    for i, (low, end, weight) in enumerate(zip(edges.tolist(), ends.tolist(), weights.tolist(), strict=True)):
        near, far = (low, end) if low > 0 else (-end, -low)
        if weight <= 0 or near <= 0 or far < _WIDE * near or (unit and end - low < _PARTS):
            parts_edges.append(low)
            parts_weights.append(weight)
            continue
        slope = _slope(edges, ends, density, i, outward=1 if low > 0 else -1)
        cuts = np.geomspace(near, far, _PARTS + 1)
        cuts = np.unique(np.round(cuts)) if unit else cuts
        mass = np.diff(cuts ** (1.0 - slope + 1e-9)) / (1.0 - slope + 1e-9)
        if low <= 0:
            cuts, mass = -cuts[::-1], mass[::-1]
        parts_edges += [type(low)(cut) for cut in [low, *cuts[1:-1].tolist()]]
        parts_weights += (weight * mass / mass.sum()).tolist()
    return np.array(parts_edges, dtype=edges.dtype), np.array(parts_weights)


def with_tail(
    edges: np.ndarray, weights: np.ndarray, high: float, unit: int, beyond: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, float]:
    """The pieces of a heavy-tailed column with one more for the largest values, too few to be seen, and its end.

    If the numbers reach far beyond their median, a tail with the last piece's own slope goes on to where one row in two
    thousand is beyond it, unless fewer rows were counted beyond the range (`beyond`: their number and its stddev).
    """
    total, ends = float(weights.sum()), np.append(edges[1:], high + unit).astype(float)
    middle = float(ends[int(np.searchsorted(np.cumsum(weights), total / 2))])
    low, end = float(edges[-1]), float(ends[-1])
    if low <= 0 or end < _HEAVY * max(middle, float(unit)) or len(edges) < 2:
        return edges, weights, high
    power = max(_slope(edges, ends, weights / np.maximum(ends - edges, 1e-300), len(edges) - 1, outward=1) - 1, 0.5)
    outside = float(weights[-1]) * end**-power / (low**-power - end**-power)
    outside = min(outside, beyond[0] + beyond[1])
    if outside < 2 * _RARE * total:
        return edges, weights, high
    far = end * min((outside / (_RARE * total)) ** (1 / power), _FURTHER)
    last = type(edges[0].item())(far)
    return np.append(edges, type(edges[0].item())(end)).astype(edges.dtype), np.append(weights, outside), last


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
