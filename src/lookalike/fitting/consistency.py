"""Marginals that agree, sum alike and have no negative cell, from noisy ones that contradict each other.

PrivSyn section 4.3, with uneven noise; and any other marginal from consistent ones. Pure post-processing: it costs no
privacy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.measurements.marginals import NoisyMarginal, estimated_total
from lookalike.schema.domain import ColumnSet, Domain

_SWEEPS, _TOLERANCE = 200, 1e-9
"""Of iterative proportional fitting in `reconstruct`."""


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentMarginals:
    """Tables over `cliques` that have the same total, equal shared sub-marginals and no negative cell.

    Attributes:
        domain: names and sizes.
        cliques: columns of each table, in domain order.
        tables: expected counts.
        stddevs: noise per cell of the measurement behind each table; 0 for exact or public counts.
        total: number of rows, the sum of every table.
    """

    domain: Domain
    cliques: tuple[ColumnSet, ...]
    tables: tuple[np.ndarray, ...]
    stddevs: tuple[float, ...]
    total: float

    def __post_init__(self) -> None:
        if not len(self.cliques) == len(self.tables) == len(self.stddevs):
            raise ValueError(f"{len(self.cliques)} cliques, {len(self.tables)} tables, {len(self.stddevs)} stddevs")
        for clique, table in zip(self.cliques, self.tables, strict=True):
            if table.shape != self.domain.shape(clique):
                raise ValueError(f"table of {clique} has shape {table.shape}, expected {self.domain.shape(clique)}")

    def only(self, names: Sequence[str], kept: Sequence[int]) -> ConsistentMarginals:
        """The tables numbered `kept`, over the domain of `names` alone."""
        return ConsistentMarginals(
            self.domain.project(names),
            tuple(self.cliques[i] for i in kept),
            tuple(self.tables[i] for i in kept),
            tuple(self.stddevs[i] for i in kept),
            self.total,
        )

    def maximal(self) -> ConsistentMarginals:
        """Return the marginals without those whose columns all lie in another one: they say nothing new."""
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
        """Return the counts of one column from any table that holds it; even counts where none does."""
        for clique, table in zip(self.cliques, self.tables, strict=True):
            if name in clique:
                return table.sum(axis=tuple(i for i, other in enumerate(clique) if other != name))
        size = self.domain.size(name)
        return np.full(size, self.total / size)


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """All shared sets of one size at once: correcting one does not touch another, since what they share is fixed.

    A slot is one cell of a set as one of the tables that hold the set sums it up.

    Attributes:
        cells: positions in the vector of all tables' cells, once per shared set that the cell's table holds.
        slots: the slot that each of `cells` belongs to.
        common: the common cell, one per set and cell, that each slot estimates.
        weights: share of each slot in its common cell.
        spread: number of cells that each slot sums up.
    """

    cells: np.ndarray
    slots: np.ndarray
    common: np.ndarray
    weights: np.ndarray
    spread: np.ndarray


def shared_sets(domain: Domain, cliques: Sequence[ColumnSet]) -> list[ColumnSet]:
    """Every column set that is the intersection of two or more cliques, smallest first, the empty set included.

    The list is closed under intersection. Taken in this order, one pass of corrections makes all tables agree: a
    correction only moves mass within the cells of what two sets have in common, and that is fixed already.

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
    """One measurement per clique: repeats are averaged by inverse variance, grouped counts spread over their cells."""
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
    """The marginals nearest to the measurements that agree with each other and have no negative cell.

    One pass over the shared sets is the least-squares projection onto tables that agree, with each table weighted by
    its inverse noise variance: for a set A, table i's projection has variance g_i * stddev_i^2 (g_i of its cells make
    one cell of A), so the best common value weighs it by 1 / (g_i stddev_i^2), and each table takes its correction in
    g_i equal parts. (The paper prints the variance of one cell as 1/rho_i; it is 1/(2 rho_i), the weights are the
    same.) Agreement and `norm_sub` are alternated with Dykstra's correction, so the limit is the nearest point of both
    sets, not just some point of them. At the end the tables that agree are mixed with as little of the uniform table as
    lifts their last, tiny negative cells to 0, which keeps agreement exact.

    Args:
        domain: names and sizes.
        measurements: noisy marginals, at least one; repeated cliques are averaged.
        total: number of rows, if known better than from the measurements (their inverse-variance mean otherwise).
        rounds: limit of the alternation.
        tolerance: stop when agreement and norm-sub move no cell by more than this part of its standard deviation. The
            result agrees and is non-negative in any case; a larger tolerance only means that it is a little less near.
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
    """The point of {x >= 0, sum x = total} nearest to `values` in L2 (PrivSyn section 4.3, "overall consistency").

    The answer is max(values - shift, 0) with the one shift that keeps the sum: with the cells sorted from large to
    small it is the largest (prefix sum - total) / k, so one sort finds it and no bisection is needed. For independent
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
    attrs_of = [frozenset(measurement.attrs) for measurement in merged]
    holders: dict[str, set[int]] = {}
    for i, held in enumerate(attrs_of):
        for name in held:
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
    """For each cell of the marginal the number of the cell of `attrs` that it belongs to."""
    shape = measurement.values.shape
    kept = [axis for axis, name in enumerate(measurement.attrs) if name in attrs]
    if not kept:
        return np.zeros(measurement.values.size, np.int64)
    codes = np.unravel_index(np.arange(measurement.values.size), shape)
    return np.ravel_multi_index([codes[axis] for axis in kept], [shape[axis] for axis in kept])


def _agree(x: np.ndarray, levels: Sequence[_Level], total: float) -> np.ndarray:
    """The nearest cells of all tables that agree on every shared set; the first level, the empty set, gets `total`."""
    for number, level in enumerate(levels):
        sums = np.bincount(level.slots, weights=x[level.cells])
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
    turn, from an even table (iterative proportional fitting), which converges to the table of greatest entropy that has
    them all, if there is one. Projections that agree with each other need not have a common table: then the fit ends
    between them, after a fixed number of sweeps.
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
    """What the tables say about the clique: axes of it and counts, without what another one says too."""
    found: dict[tuple[str, ...], np.ndarray] = {}
    for view, table in zip(targets.cliques, targets.tables, strict=True):
        shared = tuple(name for name in view if name in clique)
        if shared and shared not in found:
            found[shared] = table.sum(axis=tuple(i for i, name in enumerate(view) if name not in clique))
    sets = [set(shared) for shared in found]
    return [
        (tuple(clique.index(name) for name in shared), counts)
        for shared, counts in found.items()
        if not any(set(shared) < other for other in sets)
    ]
