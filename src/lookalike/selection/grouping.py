"""Groups of cells that are measured as one, and rare values that are merged: fewer noisy numbers for a marginal.

All groups are computed from *public* counts, a model's or noisy ones, never from the table: the printed PPSyn takes
them from true counts, which reveals them uncharged (its section 4.2.2, algorithms 3 and 4). The error of a partition,
sum over groups of |count - mean of its group|, is likewise that of the public counts. Marginals may have any number of
axes; on one axis `halved_boxes` makes bins of about equal mass and `merged_neighbours` bins of about equal density.

>>> halved_boxes(np.array([1.0, 1.0, 8.0, 1.0, 1.0, 4.0]), 3).tolist()
[0, 0, 1, 2, 2, 2]
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lookalike.measurements import CellTable, NoisyMarginal, merged_columns
from lookalike.schema.domain import ColumnSet
from lookalike.schema.schema import Schema

Box = tuple[slice, ...]
_Heavy = tuple[float, int, Box, int]
_MIN_BALANCE_GAIN = 0.15
"""How much larger the lighter half's share must be for an axis to be cut out of turn. Chosen with the first version of
ppsyn (docs/reproductions/ppsyn.md); no page compares other values."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionPath:
    """Partitions of one marginal from coarse to fine, each splitting one group of the one before.

    Computed once per model; every contribution then determines a place on the path.

    Attributes:
        shape: the marginal's shape.
        errors: error of the partition with 1, 2, ... groups.
        splits: the part of the marginal (a tuple of slices) that becomes a separate group in each step.
        orders: for every axis the order of codes to which those slices refer; None is the order of the codes.
    """

    shape: tuple[int, ...]
    errors: np.ndarray
    splits: tuple[tuple[slice, ...], ...]
    orders: tuple[np.ndarray, ...] | None = None

    def partition(self, count: int) -> np.ndarray:
        """Return the group of every cell, 0..count-1, in the marginal's shape."""
        groups = np.zeros(self.shape, dtype=np.int64)
        for number, part in enumerate(self.splits[: count - 1], start=1):
            groups[part] = number
        if self.orders is None:
            return groups
        original = np.empty_like(groups)
        original[np.ix_(*self.orders)] = groups
        return original

    def finest_worthwhile(self, stddev: float) -> int:
        """Return the number of groups that minimises error plus expected noise, sqrt(2/pi) * stddev per group."""
        counts = np.arange(1, len(self.errors) + 1)
        return 1 + int(np.argmin(self.errors + math.sqrt(2 / math.pi) * stddev * counts))

    def cheapest(self, contribution: float, eta: float) -> tuple[int, float]:
        """Return the number of groups that needs the least budget, and that budget; infinite if none suffices."""
        counts = np.arange(1, len(self.errors) + 1)
        room = eta * contribution - self.errors
        prices = np.full(len(room), math.inf)
        prices[room > 0] = counts[room > 0] ** 2 / (math.pi * room[room > 0] ** 2)
        best = int(np.argmin(prices))
        return best + 1, float(prices[best])


def partition_path(counts: np.ndarray, max_groups: int = 1024) -> PartitionPath:
    """Return the path of a model's counts: merged neighbours in one dimension (algorithm 3), split boxes in more (4).

    Codes are sorted by their mass first, so that neighbours are similar even if the values have no order.
    """
    orders = by_mass(counts)
    sorted_counts = counts[np.ix_(*orders)]
    path = merged_neighbours(sorted_counts) if counts.ndim == 1 else split_boxes(sorted_counts, max_groups)
    return replace(path, orders=tuple(orders))


def by_mass(counts: np.ndarray) -> list[np.ndarray]:
    """Return for every axis its codes from frequent to rare."""
    axes = range(counts.ndim)
    return [np.argsort(-counts.sum(axis=tuple(i for i in axes if i != axis)), kind="stable") for axis in axes]


def merged_neighbours(counts: np.ndarray) -> PartitionPath:
    """Return the path that starts from single cells and merges the two neighbouring groups that add the least error."""
    starts = list(range(len(counts)))
    error, errors, removed = 0.0, [0.0], []
    while len(starts) > 1:
        ends = [*starts[1:], len(counts)]
        own = [_spread(counts[a:b]) for a, b in zip(starts, ends, strict=True)]
        added = [_spread(counts[starts[i] : ends[i + 1]]) - own[i] - own[i + 1] for i in range(len(starts) - 1)]
        best = int(np.argmin(added))
        error += added[best]
        errors.append(error)
        removed.append((starts.pop(best + 1), ends[best + 1]))
    splits = tuple((slice(start, stop),) for start, stop in reversed(removed))
    return PartitionPath(counts.shape, np.maximum(errors[::-1], 0.0), splits)


def split_boxes(counts: np.ndarray, max_groups: int) -> PartitionPath:
    """Return the path that starts from the whole marginal and splits the box of largest error, axes taken in turn.

    Where to cut is decided by squared error, whose best place prefix sums find in one pass; `errors` are L1.
    """
    whole = tuple(slice(0, size) for size in counts.shape)
    heap = [(-_spread(counts), 0, whole, 0)]
    total, errors, splits = -heap[0][0], [-heap[0][0]], []
    while heap and len(errors) < min(max_groups, counts.size):
        error, _, box, axis = heapq.heappop(heap)
        cut = _best_cut(counts, box, axis)
        if cut is None or -error <= 1e-9 * total:
            continue
        children = [_with(box, cut[0], cut[1]), _with(box, cut[0], cut[2])]
        spreads = [_spread(counts[child]) for child in children]
        errors.append(max(0.0, errors[-1] + error + sum(spreads)))
        splits.append(children[1])
        for child, spread in zip(children, spreads, strict=True):
            heapq.heappush(heap, (-spread, len(splits), child, cut[0] + 1))
    return PartitionPath(counts.shape, np.array(errors), tuple(splits))


def halved_boxes(counts: np.ndarray, groups: int) -> np.ndarray:
    """Return the group of every cell: at most `groups` boxes of about equal mass, codes in their own order.

    Always splits the box with the largest mass into the most equal halves, axes in turn unless another axis splits it
    much better. A heavy cell thus becomes a group alone, and neighbours of little mass share one. Unlike in
    `split_boxes`, counts within a box need not be similar: where groups enter a fit as sums, the model distributes the
    sum over the cells, and only the mass compared with the noise matters.
    """
    if groups >= counts.size:
        return np.arange(counts.size).reshape(counts.shape)
    heap: list[_Heavy] = [(-float(counts.sum()), 0, tuple(slice(0, size) for size in counts.shape), 0)]
    single: list[Box] = []
    while heap and len(heap) + len(single) < groups:
        _, number, box, axis = heapq.heappop(heap)
        halves = _halves(counts, box, axis)
        if halves is None:
            single.append(box)
            continue
        for side, (mass, half, turn) in enumerate(halves):
            heapq.heappush(heap, (-mass, 2 * number + side + 1, half, turn))
    labels = np.zeros(counts.shape, dtype=np.int64)
    boxes = sorted([*single, *(entry[2] for entry in heap)], key=lambda box: [part.start for part in box])
    for label, box in enumerate(boxes):
        labels[box] = label
    return labels


def visible_groups(counts: np.ndarray, min_count: float) -> np.ndarray | None:
    """Return boxes of cells that hold about `min_count` or more each; None where every cell does so alone.

    As many `halved_boxes` as there are cells of `min_count`, rarer cells counted in proportion. With `min_count` about
    the noise, cells that the noise would hide are counted together: noise is then added once per group, not per cell.

    >>> visible_groups(np.array([9.0, 1.0, 1.0, 8.0]), 2.0).tolist()
    [0, 1, 1, 2]
    """
    groups = math.ceil(effective_cells(counts, min_count, at_least=2.0))
    return halved_boxes(counts, groups) if groups < counts.size else None


def halved_axis(counts: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts with two halves of the codes of one axis in place of them, and the half of each code.

    >>> counts, halves = halved_axis(np.array([[4.0, 1.0, 3.0], [2.0, 6.0, 9.0]]), 1)
    >>> counts.tolist(), halves.tolist()
    ([[5.0, 3.0], [8.0, 9.0]], [0, 0, 1])
    """
    halves = halved_boxes(counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis)), 2)
    sums = [counts.compress(halves == half, axis=axis).sum(axis=axis) for half in (0, 1)]
    return np.stack(sums, axis=axis), halves


def merged_values(counts: np.ndarray, min_count: float, *, keep_largest: bool = False, ordered: int = 0) -> np.ndarray:
    """Return a map from old to new codes in which all values of a count below `min_count` become one, the last.

    The first `ordered` codes are bins: each that is rare joins a neighbour instead, so that low and high stay apart.
    Kept values keep their order, and fewer than two rare values stay as they are. Where all values are rare, one value
    is left, or two with `keep_largest`: PrivSyn models every column through this map and needs two. Mosaic (False) then
    counts boxes of cells instead; with True its pairs would separate only the most frequent value, which cost 2 %
    of accuracy at epsilon 0.01 (BR2000: mean 3-way distance 0.1879 against 0.1913, two seeds). From noisy counts, free.

    >>> merged_values(np.array([5.0, 1.0, 9.0, 0.0]), 2.0).tolist()
    [0, 2, 1, 2]
    >>> merged_values(np.array([1.0, 0.5, 0.0]), 2.0, keep_largest=True).tolist()
    [0, 1, 1]
    >>> merged_values(np.array([2.0, 2.0, 2.0, 2.0, 1.0]), 4.0, ordered=4).tolist()
    [0, 0, 1, 1, 2]
    """
    if ordered:
        bins = joined_neighbours(counts[:ordered], min_count)
        return np.append(bins, bins[-1] + 1 + merged_values(counts[ordered:], min_count))
    rare = counts < min_count
    if keep_largest and rare.all():
        rare[np.argmax(counts)] = False
    if rare.sum() < 2:
        return np.arange(len(counts))
    return np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1)


def joined_neighbours(counts: np.ndarray, min_count: float) -> np.ndarray:
    """Return a map from bins to joined bins of `min_count` or more: the lightest joins its lighter neighbour, in turn.

    >>> joined_neighbours(np.array([1.0, 9.0, 1.0, 2.0, 3.0, 9.0]), 4.0).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    masses, starts = [float(count) for count in counts], list(range(len(counts)))
    while len(masses) > 1 and min(masses) < min_count:
        place = masses.index(min(masses))
        sides = [side for side in (place - 1, place + 1) if 0 <= side < len(masses)]
        other = min(sides, key=masses.__getitem__)
        masses[other] += masses[place]
        del masses[place], starts[max(place, other)]
    return np.searchsorted(starts, np.arange(len(counts)), side="right") - 1


def counted_table(
    attrs: ColumnSet,
    expected: np.ndarray,
    columns: Sequence[np.ndarray],
    min_in_group: float,
    min_of_value: float,
    ordered: Mapping[str, int],
) -> CellTable:
    """Return the table in which the cells of a marginal are counted, so that its contrasts are few and large.

    Either rare values of each column are merged, and single columns need not be paid for again, or cells are grouped in
    boxes of any form (`visible_groups`), which follow the counts more closely: whichever has fewer contrasts.

    Args:
        attrs: the columns, in domain order.
        expected: public counts of the marginal's cells, a model's or noisy ones.
        columns: the same of every single column.
        min_in_group: about the minimum count of a box; with 0 every cell is counted.
        min_of_value: values of a smaller count are merged.
        ordered: number of bins of the columns that have some; see `merged_values`.
    """
    whole = CellTable(attrs, expected.shape)
    if not min_in_group:
        return whole
    boxes = visible_groups(expected, min_in_group)
    maps = [merged_values(own, min_of_value, ordered=ordered.get(a, 0)) for a, own in zip(attrs, columns, strict=True)]
    merged = merged_columns(attrs, maps)
    boxed = whole if boxes is None else CellTable(attrs, (int(boxes.max()) + 1,), boxes)
    usable = [table for table in (merged, boxed) if table.contrasts.dimensions > 0]
    return min(usable, key=lambda table: table.contrasts.dimensions)


def _halves(counts: np.ndarray, box: Box, axis: int) -> list[tuple[float, Box, int]] | None:
    """Return mass, box and next axis in turn of the two halves; None for a single cell."""
    part = counts[box]
    best: tuple[float, int, int, float, float] | None = None
    for offset in range(counts.ndim):
        place = (axis + offset) % counts.ndim
        if part.shape[place] < 2:
            continue
        sums = np.cumsum(part.sum(axis=tuple(i for i in range(counts.ndim) if i != place)))
        total = float(sums[-1])
        cut = int(np.argmin(np.abs(sums[:-1] - total / 2)))
        left, right = float(sums[cut]), total - float(sums[cut])
        balance = min(left, right) / max(total, 1e-300)
        if best is None or balance > best[0] + _MIN_BALANCE_GAIN:
            best = balance, place, box[place].start + cut + 1, left, right
    if best is None:
        return None
    _, place, middle, left, right = best
    low, high = slice(box[place].start, middle), slice(middle, box[place].stop)
    return [(left, _with(box, place, low), place + 1), (right, _with(box, place, high), place + 1)]


def _spread(counts: np.ndarray) -> float:
    """Return the L1 distance of the cells to their mean."""
    return float(np.abs(counts - counts.sum() / counts.size).sum())


def _best_cut(counts: np.ndarray, box: tuple[slice, ...], axis: int) -> tuple[int, slice, slice] | None:
    """Return axis and halves of the best cut on the first axis in turn that is longer than one cell."""
    for offset in range(counts.ndim):
        place = (axis + offset) % counts.ndim
        start, stop = box[place].start, box[place].stop
        if stop - start > 1:
            others = tuple(i for i in range(counts.ndim) if i != place)
            sums = np.cumsum(counts[box].sum(axis=others))
            size = counts[box].size // (stop - start)
            cells = size * np.arange(1, stop - start)
            # Squared error falls by the between-part sum of squares: S_left^2 / n_left + S_right^2 / n_right.
            gain = sums[:-1] ** 2 / cells + (sums[-1] - sums[:-1]) ** 2 / (size * (stop - start) - cells)
            middle = start + 1 + int(np.argmax(gain))
            return place, slice(start, middle), slice(middle, stop)
    return None


def _with(box: tuple[slice, ...], axis: int, part: slice) -> tuple[slice, ...]:
    return (*box[:axis], part, *box[axis + 1 :])


def hierarchy_levels(schema: Schema, kept: Iterable[ColumnSet]) -> dict[str, tuple[np.ndarray, ...]]:
    """Return the levels of the columns that have a hierarchy, except for columns in `kept`, which stay as they are."""
    fine = {name for columns in kept for name in columns}
    return {column.name: column.levels for column in schema.columns if column.levels and column.name not in fine}


def coarse_maps(
    levels: Mapping[str, Sequence[np.ndarray]], oneways: Mapping[str, np.ndarray], stddev: float, limit: float
) -> dict[str, np.ndarray]:
    """Return maps from code to group for the columns whose pairs would be too large otherwise.

    A column is measured at the finest level at which its table with another column like it has at most `limit`
    effective cells; if no level is coarse enough, at the coarsest. The level thus depends on the column alone, and is
    the same in every column set.

    Args:
        levels: for each column that has some, maps from code to group, from fine to coarse.
        oneways: non-negative (noisy) counts of those columns.
        stddev: noise of a typical measurement.
        limit: maximum number of effective cells of a pair; see `pricing.useful_cells`.

    >>> age = np.full(100, 50.0)
    >>> coarse_maps({"age": [np.arange(100) // 5, np.arange(100) // 20]}, {"age": age}, 1.0, 500.0)["age"].max()
    np.int64(19)
    """
    maps: dict[str, np.ndarray] = {}
    for name, groupings in levels.items():
        counts = oneways[name]
        for groups in groupings:
            if _pair_cells(counts, stddev) <= limit:
                break
            maps[name] = groups
            counts = np.bincount(groups, weights=oneways[name])
    return maps


def _pair_cells(counts: np.ndarray, stddev: float) -> float:
    """Return the effective cells of a column and an independent copy of it, without computing their joint table."""
    rising = np.sort(counts)
    total = max(float(rising.sum()), 1e-12)
    # Of the cells of value i those with values above total * stddev / count_i count fully.
    partial = np.searchsorted(rising, total * stddev / np.maximum(rising, 1e-100))
    sums = np.concatenate([[0.0], np.cumsum(rising)])
    return max(1.0, float((len(rising) - partial).sum() + (rising * sums[partial]).sum() / (total * stddev)))


def merged_oneways(oneways: Sequence[NoisyMarginal], maps: Mapping[str, np.ndarray]) -> list[NoisyMarginal]:
    """Return the noisy counts of groups of values; their stddev is the root mean square over the groups.

    Columns without a map stay as they are.
    """
    merged = []
    for oneway in oneways:
        groups = maps.get(oneway.attrs[0])
        if groups is None:
            merged.append(oneway)
            continue
        values = np.bincount(groups, weights=oneway.values)
        merged.append(NoisyMarginal(oneway.attrs, values, oneway.stddev * (groups.size / values.size) ** 0.5))
    return merged


def spread_counts(oneways: Sequence[NoisyMarginal], maps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return counts of the values of every mapped column, in proportion to which groups are divided into values."""
    return {o.attrs[0]: within_groups(o, maps[o.attrs[0]]) for o in oneways if o.attrs[0] in maps}


def within_groups(oneway: NoisyMarginal, groups: np.ndarray) -> np.ndarray:
    """Return counts in proportion to which groups are divided into values: noisy counts, shrunk towards their mean.

    With v the noisy counts of a group and s^2 the noise, the values' own spread is estimated as t, the variance of v
    less s^2, not below 0; deviations from the mean are multiplied by t / (t + s^2), the best linear rule for known t.

    >>> within_groups(NoisyMarginal(("x",), np.array([11.0, 9.0, 50.0, 10.0]), 5.0), np.array([0, 0, 1, 1])).round(1)
    array([10. , 10. , 49.4, 10.6])
    """
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=oneway.values) / sizes
    apart = oneway.values - means[groups]
    # One degree of freedom goes into the mean.
    spread = np.bincount(groups, weights=apart**2) / np.maximum(sizes - 1, 1)
    own = np.maximum(spread - oneway.stddev**2, 0.0)
    shrunk = means[groups] + (own / (own + oneway.stddev**2))[groups] * apart
    return np.maximum(shrunk, 0.0)


def effective_cells(counts: np.ndarray, stddev: float, *, at_least: float = 1.0) -> float:
    """Return how many cells of a marginal cost accuracy: the sum over cells of min(1, count / stddev).

    A cell whose expected count is far below the noise is set to about 0 by any fit that knows counts are not
    negative; its noise does little harm, so it is not charged as a full cell. A marginal of as many rows as one stddev
    or more has one effective cell or more by itself; the bound is for tables smaller than the noise.

    >>> effective_cells(np.array([90.0, 5.0, 0.0]), 10.0)
    1.5
    """
    return max(at_least, float(np.minimum(counts / stddev, 1.0).sum()))
