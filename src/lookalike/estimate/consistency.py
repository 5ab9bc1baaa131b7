"""Noisy marginals that contradict each other -> marginals that agree, sum alike and have no negative cell.

PrivSyn section 4.3, with uneven noise. Pure post-processing: whatever is done here costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.estimate.norm_sub import norm_sub
from lookalike.schema.domain import Clique, Domain
from lookalike.tables.measurement import NoisyMarginal, estimated_total


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentMarginals:
    """Tables over `cliques` that have the same total, equal shared sub-marginals and no negative cell.

    Attributes:
        domain: names and sizes.
        cliques: attributes of each table, in domain order.
        tables: expected counts.
        stddevs: noise per cell of the measurement behind each table; 0 for exact or public counts.
        total: number of rows, the sum of every table.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
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
        """Without the tables whose attributes all lie in another one: they say nothing new."""
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
        """Counts of one attribute from any table that holds it; even counts where none does."""
        for clique, table in zip(self.cliques, self.tables, strict=True):
            if name in clique:
                return table.sum(axis=tuple(i for i, other in enumerate(clique) if other != name))
        size = self.domain.size(name)
        return np.full(size, self.total / size)


@dataclass(frozen=True, slots=True)
class _Shared:
    """One set of attributes held by several tables: which tables, the axes to sum out, and their weights."""

    members: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    spread: tuple[int, ...]
    weights: tuple[float, ...]


def shared_sets(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """Every attribute set that is the intersection of two or more cliques, smallest first, the empty set included.

    The list is closed under intersection. Taken in this order, one pass of `_agree` makes all tables agree: correcting
    a set only moves mass within cells of its intersections with the sets before it, and those are settled already.

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
    weighted: dict[Clique, np.ndarray] = {}
    precision: dict[Clique, float] = {}
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
    tolerance: float = 1e-3,
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
        tolerance: stop when agreement and norm-sub move no cell by more than this many rows. The result agrees and is
            non-negative in any case; a larger tolerance only means that it is a little less near.
    """
    merged = merge_repeats(domain, measurements)
    total = estimated_total(merged) if total is None else max(float(total), 1.0)
    cliques = [measurement.attrs for measurement in merged]
    shared = _shared_plans(domain, merged)
    tables = [measurement.values for measurement in merged]
    corrections = [np.zeros(table.shape) for table in tables]
    positive = tables
    for _ in range(rounds):
        agreeing = _agree([x.copy() for x in positive], shared, total)
        lifted = [x + c for x, c in zip(agreeing, corrections, strict=True)]
        positive = [norm_sub(x, total) for x in lifted]
        corrections = [x - y for x, y in zip(lifted, positive, strict=True)]
        if max(float(np.abs(x - y).max()) for x, y in zip(agreeing, positive, strict=True)) <= tolerance:
            break
    tables = _lift_negatives(_agree([x.copy() for x in positive], shared, total), total)
    stddevs = tuple(measurement.stddev for measurement in merged)
    return ConsistentMarginals(domain, tuple(cliques), tuple(tables), stddevs, total)


def _shared_plans(domain: Domain, merged: Sequence[NoisyMarginal]) -> list[_Shared]:
    plans = []
    attrs_of = [frozenset(measurement.attrs) for measurement in merged]
    for attrs in shared_sets(domain, [measurement.attrs for measurement in merged]):
        members = tuple(i for i, held in enumerate(attrs_of) if held.issuperset(attrs))
        if len(members) < 2 and attrs:
            continue
        spread = tuple(merged[i].values.size // domain.cells(attrs) for i in members)
        precisions = [1.0 / (g * merged[i].stddev ** 2) for g, i in zip(spread, members, strict=True)]
        axes = tuple(tuple(k for k, name in enumerate(merged[i].attrs) if name not in attrs) for i in members)
        plans.append(_Shared(members, axes, spread, tuple(p / sum(precisions) for p in precisions)))
    return plans


def _agree(tables: list[np.ndarray], shared: Sequence[_Shared], total: float) -> list[np.ndarray]:
    """The given tables, changed in place until they agree on every shared set; the empty set gets `total`."""
    for plan in shared:
        sums = [
            tables[i].sum(axis=axes, keepdims=True) if axes else tables[i]
            for i, axes in zip(plan.members, plan.axes, strict=True)
        ]
        flat = [part.ravel() for part in sums]
        if flat[0].size == 1:
            target = np.full(1, total)
        else:
            target = sum(w * part for w, part in zip(plan.weights, flat, strict=True))
        for i, part, g in zip(plan.members, sums, plan.spread, strict=True):
            tables[i] += (np.reshape(target, part.shape) - part) / g
    return tables


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
