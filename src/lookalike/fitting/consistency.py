"""Marginals that agree, have the same total and no negative cell, from noisy ones that contradict each other.

The consistency step of PrivSyn, section 4.3, for measurements of different noise; and any other marginal from
consistent ones. This is post-processing of noisy numbers, so it costs no privacy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.schema.domain import ColumnSet, Domain

_SWEEPS, _TOLERANCE = 200, 1e-9
"""Of iterative proportional fitting in `reconstruct`."""


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentMarginals:
    """Marginals of the column sets `cliques` with the same total, equal shared sub-marginals and no negative cell.

    Attributes:
        domain: names and sizes.
        cliques: the column set of each table, in domain order.
        tables: expected counts.
        stddevs: standard deviation of the noise per cell of each table's measurement; 0 for exact or public counts.
        total: number of rows, the sum of every table.
    """

    domain: Domain
    cliques: tuple[ColumnSet, ...]
    tables: tuple[np.ndarray, ...]
    stddevs: tuple[float, ...]
    total: float

    def __post_init__(self) -> None:
        if not len(self.cliques) == len(self.tables) == len(self.stddevs):
            raise ValueError(f"{len(self.cliques)} column sets, {len(self.tables)} tables, {len(self.stddevs)} stddevs")
        for clique, table in zip(self.cliques, self.tables, strict=True):
            if table.shape != self.domain.shape(clique):
                raise ValueError(f"table of {clique} has shape {table.shape}, expected {self.domain.shape(clique)}")

    def only(self, names: Sequence[str], kept: Sequence[int]) -> ConsistentMarginals:
        """Return the tables numbered `kept`, over the domain of `names` alone."""
        return ConsistentMarginals(
            self.domain.project(names),
            tuple(self.cliques[i] for i in kept),
            tuple(self.tables[i] for i in kept),
            tuple(self.stddevs[i] for i in kept),
            self.total,
        )

    def maximal(self) -> ConsistentMarginals:
        """Return the marginals without those whose columns all lie in another one, from which they follow."""
        sets = [frozenset(clique) for clique in self.cliques]
        holders: dict[str, list[int]] = {}
        for i, held in enumerate(sets):
            for name in held:
                holders.setdefault(name, []).append(i)
        kept = []
        for i, held in enumerate(sets):
            others = (sets[j] for j in holders[next(iter(held))]) if held else sets
            if not any(held < other for other in others):
                kept.append(i)
        return self.only(self.domain.names, kept)

    def one_way(self, name: str) -> np.ndarray:
        """Return the counts of one column from the first table that contains it; even counts where none does."""
        for clique, table in zip(self.cliques, self.tables, strict=True):
            if name in clique:
                return table.sum(axis=tuple(i for i, other in enumerate(clique) if other != name))
        size = self.domain.size(name)
        return np.full(size, self.total / size)


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """All shared column sets of one size, which can be corrected at once, since their intersections agree already.

    A slot is the sum that one table has for one cell of a shared set.

    Attributes:
        cells: positions in the vector of all tables' cells, once per shared set that the cell's table contains.
        slots: the slot to which each of `cells` belongs.
        common: the cell of the shared set that each slot estimates, numbered over all shared sets.
        weights: weight of each slot in the mean of its common cell.
        spread: number of cells that each slot sums up.
    """

    cells: np.ndarray
    slots: np.ndarray
    common: np.ndarray
    weights: np.ndarray
    spread: np.ndarray


def shared_sets(domain: Domain, cliques: Sequence[ColumnSet]) -> list[ColumnSet]:
    """Return every intersection of two or more of the column sets, smallest first, the empty set included.

    The list is closed under intersection. Taken in this order, one pass of corrections makes all tables agree, since
    the correction of a set does not change the marginals of its intersections with other sets, which agree already.

    >>> shared_sets(Domain.of({"a": 2, "b": 2, "c": 2}), [("a", "b"), ("b", "c")])
    [(), ('b',)]
    """
    masks = sorted({sum(1 << domain.position(name) for name in clique) for clique in cliques})
    found: set[int] = set()
    fresh: set[int] = {one & other for i, one in enumerate(masks) for other in masks[:i]}
    while fresh:
        found |= fresh
        fresh = {one & other for one in fresh for other in masks} - found
    found.add(0)
    order = sorted(found, key=lambda mask: (mask.bit_count(), mask))
    return [tuple(name for i, name in enumerate(domain.names) if mask >> i & 1) for mask in order]


def merge_repeats(domain: Domain, measurements: Iterable[NoisyMarginal]) -> list[NoisyMarginal]:
    """Return one measurement per column set.

    Repeats are averaged by inverse variance; the count of a group is spread evenly over its cells.
    """
    weighted: dict[ColumnSet, np.ndarray] = {}
    precision: dict[ColumnSet, float] = {}
    for measurement in measurements:
        values, variance = measurement.values.astype(float), measurement.stddev**2
        if measurement.groups is not None:
            sizes = np.bincount(measurement.groups.ravel(), minlength=values.size)
            values = (values / np.maximum(sizes, 1))[measurement.groups]
        clique = domain.canonical(measurement.attrs)
        weighted[clique] = weighted.get(clique, 0.0) + values / variance
        precision[clique] = precision.get(clique, 0.0) + 1.0 / variance
    return [NoisyMarginal(c, weighted[c] / precision[c], precision[c] ** -0.5) for c in weighted]


def make_consistent(
    domain: Domain,
    measurements: Iterable[NoisyMarginal],
    *,
    total: float | None = None,
    rounds: int = 200,
    tolerance: float = 1e-4,
) -> ConsistentMarginals:
    """Return the marginals nearest to the measurements that agree with each other and have no negative cell.

    One pass over the shared sets is the least-squares projection onto tables that agree, with each table weighted by
    its inverse noise variance: for a set A, table i's projection has variance g_i * stddev_i^2 (g_i of its cells make
    one cell of A), so the best common value weighs it by 1 / (g_i stddev_i^2), and each table takes its correction in
    g_i equal parts. (The paper prints the variance of one cell as 1/rho_i; it is 1/(2 rho_i), the weights are the
    same.) Agreement and `norm_sub` are alternated with Dykstra's correction, so that the limit is the point of both
    sets nearest to the measurements. At the end the tables that agree are mixed with the uniform table, just enough to
    raise their last, tiny negative cells to 0, which keeps agreement exact.

    Args:
        domain: names and sizes.
        measurements: noisy marginals, at least one; repeats of a column set are averaged.
        total: number of rows; by default the inverse-variance mean of the noisy totals.
        rounds: maximum number of alternations.
        tolerance: stop when agreement and norm-sub move no cell by more than this part of its standard deviation. The
            result agrees and is non-negative in any case; with a larger tolerance it is only a little less near.
    """
    merged = merge_repeats(domain, measurements)
    total = estimated_total(merged) if total is None else max(float(total), 1.0)
    ends = np.cumsum([measurement.values.size for measurement in merged])
    stddevs = np.repeat([measurement.stddev for measurement in merged], np.diff(ends, prepend=0))
    levels = _levels(domain, merged)
    positive = np.concatenate([measurement.values.ravel() for measurement in merged])
    correction = np.zeros(positive.size)
    for _ in range(rounds):
        agreeing = _agree(positive, levels, total)
        lifted = agreeing + correction
        positive = np.concatenate([norm_sub(part, total) for part in np.split(lifted, ends[:-1])])
        correction = lifted - positive
        if (np.abs(agreeing - positive) <= tolerance * stddevs).all():
            break
    parts = _lift_negatives(np.split(_agree(positive, levels, total), ends[:-1]), total)
    tables = tuple(part.reshape(measurement.values.shape) for part, measurement in zip(parts, merged, strict=True))
    cliques = tuple(measurement.attrs for measurement in merged)
    return ConsistentMarginals(domain, cliques, tables, tuple(m.stddev for m in merged), total)


def norm_sub(values: np.ndarray, total: float) -> np.ndarray:
    """Return the point of {x >= 0, sum x = total} nearest to `values` in L2 (PrivSyn 4.3, "overall consistency").

    It is max(values - shift, 0) with the one shift that gives the sum `total`. With the cells sorted from large to
    small, the shift is the largest (sum of the first k - total) / k, so one sort finds it. For independent
    noise of one scale it is the maximum-likelihood estimate under the two constraints. A total of 0 or less gives
    zeros.

    >>> norm_sub(np.array([5.0, 2.0, -1.0]), 6.0)
    array([4.5, 1.5, 0. ])
    """
    if total <= 0:
        return np.zeros(values.shape)
    flat = np.asarray(values, dtype=float).ravel()
    falling = np.sort(flat)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    return np.maximum(flat - shifts.max(), 0.0).reshape(values.shape)


def _levels(domain: Domain, merged: Sequence[NoisyMarginal]) -> list[_Level]:
    starts = np.cumsum([0, *(measurement.values.size for measurement in merged)])
    holders: dict[str, set[int]] = {}
    for i, measurement in enumerate(merged):
        for name in measurement.attrs:
            holders.setdefault(name, set()).add(i)
    levels = []
    for _, sets in itertools.groupby(shared_sets(domain, [m.attrs for m in merged]), key=len):
        parts: list[tuple[np.ndarray, ...]] = []
        n_slots = n_common = 0
        for attrs in sets:
            size = domain.cells(attrs)
            members = sorted(set.intersection(*(holders[name] for name in attrs))) if attrs else range(len(merged))
            spread = np.array([merged[i].values.size // size for i in members])
            precision = 1.0 / (spread * np.array([merged[i].stddev ** 2 for i in members]))
            for i, g, weight in zip(members, spread, precision / precision.sum(), strict=True):
                cells, slots = starts[i] + np.arange(merged[i].values.size), _projection(merged[i], attrs)
                common = n_common + np.arange(size)
                parts.append((cells, n_slots + slots, common, np.full(size, weight), np.full(size, float(g))))
                n_slots += size
            n_common += size
        levels.append(_Level(*(np.concatenate(column) for column in zip(*parts, strict=True))))
    return levels


def _projection(measurement: NoisyMarginal, attrs: ColumnSet) -> np.ndarray:
    """For each cell of the marginal, the number of the cell of `attrs` to which it belongs."""
    shape = measurement.values.shape
    kept = [axis for axis, name in enumerate(measurement.attrs) if name in attrs]
    if not kept:
        return np.zeros(measurement.values.size, np.int64)
    codes = np.unravel_index(np.arange(measurement.values.size), shape)
    return np.ravel_multi_index([codes[axis] for axis in kept], [shape[axis] for axis in kept])


def _agree(x: np.ndarray, levels: Sequence[_Level], total: float) -> np.ndarray:
    """The cells of all tables nearest to x that agree on every shared set and have the sum `total`."""
    for number, level in enumerate(levels):
        sums = np.bincount(level.slots, weights=x[level.cells])
        # The first level is the empty set, whose only cell is the total.
        target = np.bincount(level.common, weights=level.weights * sums) if number else np.array([total])
        moves = (target[level.common] - sums) / level.spread
        x = x + np.bincount(level.cells, weights=moves[level.slots], minlength=x.size)
    return x


def _lift_negatives(tables: list[np.ndarray], total: float) -> list[np.ndarray]:
    """Agreeing tables mixed with just enough of the uniform table that none is negative; agreement is kept."""
    share = 0.0
    for table in tables:
        lowest = float(table.min())
        if lowest < 0:
            share = max(share, -lowest / (total / table.size - lowest))
    if not share:
        return tables
    return [np.maximum((1 - share) * table + share * total / table.size, 0.0) for table in tables]


def reconstruct(targets: ConsistentMarginals, attrs: Iterable[str]) -> np.ndarray:
    """Return the expected counts of the marginal on `attrs` by maximum entropy (PriView 4.4), adding up to the total.

    A marginal inside one of the tables is summed from it. Otherwise the tables' projections onto `attrs` are fitted in
    turn, from an even table (iterative proportional fitting). That converges to the table of greatest entropy with
    these projections, if there is one. Projections that agree with each other need not come from a common table; then
    the result lies between them, after a fixed number of sweeps.
    """
    clique = targets.domain.canonical(attrs)
    shape = targets.domain.shape(clique)
    projections = _projections(targets, clique)
    table = np.full(shape, targets.total / max(1, targets.domain.cells(clique)))
    for _ in range(_SWEEPS):
        moved = 0.0
        for axes, wanted in projections:
            # Axes that the projection lacks, kept with length 1.
            others = tuple(axis for axis in range(len(clique)) if axis not in axes)
            now = table.sum(axis=others, keepdims=True)
            wanted = wanted.reshape(now.shape)
            moved = max(moved, float(np.abs(now - wanted).max()))
            table = table * np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
        if moved <= _TOLERANCE * targets.total or len(projections) < 2:
            break
    return table * (targets.total / max(float(table.sum()), 1e-300))


def _projections(targets: ConsistentMarginals, clique: tuple[str, ...]) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Maximal projections of the tables onto the column set, each as its axes in the set and its counts."""
    found: dict[tuple[str, ...], np.ndarray] = {}
    for columns, table in zip(targets.cliques, targets.tables, strict=True):
        shared = tuple(name for name in columns if name in clique)
        if shared and shared not in found:
            found[shared] = table.sum(axis=tuple(i for i, name in enumerate(columns) if name not in clique))
    sets = [set(shared) for shared in found]
    return [
        (tuple(clique.index(name) for name in shared), counts)
        for shared, counts in found.items()
        if not any(set(shared) < other for other in sets)
    ]
