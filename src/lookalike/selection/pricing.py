"""What a marginal costs: its effective cells, and the price of the budget at which everything worthwhile is measured.

Measuring c effective cells at a precision of b = 1/stddev^2, twice its rho, leaves an expected L1 error of a / sqrt(b),
where a = sqrt(2/pi) * caution * c. Let p be the shadow price of the budget, the Lagrange multiplier of sum b = 2 rho,
in counts per unit of precision. The best b is then (a / (2 p))^(2/3); noise and price together come to
y = 3 (a/2)^(2/3) p^(1/3) counts. A set is worth measuring when the error it removes exceeds y, and p is the price
at which the whole budget is spent. For sets that are measured whole, y is the noise that the set adds to the others',
and this is the rule of `greedy_cover`.

PPSyn may also measure groups of cells, and searches for p. A marginal of order d whose error against the model is C,
measured in k groups, is expected to keep of its error

    C * lost(k)  +  caution * sqrt(2/pi) * k / sqrt(b),      lost(k) = (k^(-1/d) - c^(-1/d)) / (1 - c^(-1/d)):

the part that is lost inside groups, and noise. The paper (Theorem 3) has the reconstruction error of the true counts as
the first term, which would have to be paid for; `lost` is what a smooth error loses on a grid of k boxes. The best k is
found on a grid, and a marginal is worth measuring where what it keeps and what it costs are together below eta * C,
where eta is a setting of the paper. All of this works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np

from lookalike.guards import MAX_REMEMBERED_CELLS, MAX_REMEMBERED_TABLES
from lookalike.measurements import Contrasts
from lookalike.privacy.scores import GroupedResidualL1
from lookalike.schema.domain import ColumnSet
from lookalike.selection.grouping import effective_cells, halved_boxes, merged_values

Item = TypeVar("Item")
Number = TypeVar("Number", float, np.ndarray)

_LOG_PRICES = (-60.0, 60.0)
"""Logarithms between which the price lies for any table, budget and error that a double can hold in practice."""

_BISECTIONS = 18
"""Halvings of that range: they leave the price exact to 0.05 %."""

_COUNTS = np.unique(np.rint(2.0 ** np.arange(1.0, 12.01, 0.25)))
"""Numbers of groups that are tried."""


def useful_cells(total: float, stddev: float, theta: float) -> float:
    """Return the maximum number of cells of a theta-useful marginal: total / cells >= theta * E|noise|.

    E|noise| = stddev sqrt(2/pi); PrivMRF, section 4.1.
    """
    return max(total, 0.0) / (theta * stddev * math.sqrt(2.0 / math.pi))


class EffectiveCells:
    """The effective cells of column sets, with counts as expected if the columns were independent.

    Args:
        oneways: (noisy) counts of every column; negative ones count as 0.
        total: number of rows.
        stddev: noise of a typical measurement.
        value_mass: values of less than this many stddevs are merged where contrasts are measured
            (`grouping.counted_table`).
        ordered: number of bins of the columns that have some.
    """

    def __init__(
        self,
        oneways: Mapping[str, np.ndarray],
        total: float,
        stddev: float,
        value_mass: float = 0.0,
        ordered: Mapping[str, int] | None = None,
    ) -> None:
        self.stddev = stddev
        self._shares = {
            name: np.maximum(values, 0.0) / max(np.maximum(values, 0.0).sum(), 1e-12)
            for name, values in oneways.items()
        }
        self._values = {
            name: int(merged_values(total * share, value_mass * stddev, ordered=(ordered or {}).get(name, 0)).max()) + 1
            for name, share in self._shares.items()
        }
        self._tables: dict[ColumnSet, np.ndarray] = {(): np.array([max(total, 1.0) / stddev])}
        self._known: dict[ColumnSet, float] = {}

    def __call__(self, clique: ColumnSet) -> float:
        """Return the effective cells of a column set."""
        known = self._known.get(clique)
        if known is None:
            known = self._known[clique] = effective_cells(self._expected(clique), 1.0)
        return known

    def weights(self, cliques: Sequence[ColumnSet]) -> np.ndarray:
        """Return (effective cells)^(2/3) of every set, by which a budget is shared (`steps.allocate`)."""
        return np.array([self(clique) ** (2 / 3) for clique in cliques])

    def contrasts(self, clique: ColumnSet) -> float:
        """Return how many contrasts of a marginal cost accuracy, at least 1: of its cells or of its merged values."""
        merged = Contrasts(tuple(self._values[name] for name in clique)).dimensions
        return max(1.0, min(self(clique) - 1, merged if merged > 0 else math.inf))

    def _expected(self, clique: ColumnSet) -> np.ndarray:
        """Return expected counts in stddevs, flat. Small tables are kept: larger sets begin with the same columns."""
        table = self._tables.get(clique)
        if table is None:
            table = np.multiply.outer(self._expected(clique[:-1]), self._shares[clique[-1]]).ravel()
            if len(self._tables) < MAX_REMEMBERED_TABLES and table.size <= MAX_REMEMBERED_CELLS:
                self._tables[clique] = table
        return table


def half_noise(cells: Number, caution: float) -> Number:
    """Return a/2 of the formula above: half the expected L1 noise of the cells at unit precision, times `caution`."""
    return math.sqrt(0.5 / math.pi) * caution * cells


def price_at_budget(
    at_price: Callable[[float], list[Item]], precision: Callable[[list[Item], float], float], rho: float
) -> list[Item]:
    """Return what is chosen at the lowest price at which its precisions sum to at most 2 rho, found by bisection.

    If nothing is chosen at that price, because the first items that are chosen as the price falls exceed 2 rho
    together, these items are returned.
    """
    low, high = _LOG_PRICES
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        price = math.exp(middle)
        if precision(at_price(price), price) > 2.0 * rho:
            low = middle
        else:
            high = middle
    return at_price(math.exp(high)) or at_price(math.exp(low))


@dataclass(frozen=True, slots=True)
class ChosenSet:
    """A marginal that is worth its price, with the groups and the precision to measure it in.

    Attributes:
        number: index of the candidate.
        worth: its error divided by the sum of what remains of it and what it costs.
        groups: number of groups to measure; the effective cells where grouping gains nothing.
        whole: whether grouping gains nothing.
        precision: 1/stddev^2.
    """

    number: int
    worth: float
    groups: float
    whole: bool
    precision: float


@dataclass(frozen=True, slots=True, eq=False)
class ScoringRound:
    """Noisy errors of candidates against the model of the time at which they were released.

    Attributes:
        score: what was released: candidates, groups of their cells, and the model's sums of the groups.
        errors: noisy distances from those sums.
    """

    score: GroupedResidualL1
    errors: np.ndarray

    def contributions(self, present: Sequence[np.ndarray]) -> np.ndarray:
        """Return the noisy errors less the distance that the model has moved since, at least 0.

        By the triangle inequality the error against the present model is no less, but for the noise; so nothing need
        be released again after every refit.
        """
        moved = [
            np.abs(group_sums(table, groups, len(reference)) - reference).sum()
            for table, groups, reference in zip(present, self.score.groups, self.score.references, strict=True)
        ]
        return np.maximum(self.errors - np.array(moved), 0.0)


def grouped_residuals(cliques: Sequence[ColumnSet], tables: Sequence[np.ndarray], groups: int) -> GroupedResidualL1:
    """Return the score of the marginals' errors against a model's counts, in at most `groups` groups of equal mass."""
    partitions = [halved_boxes(table, groups) for table in tables]
    sums = [group_sums(table, part, int(part.max()) + 1) for table, part in zip(tables, partitions, strict=True)]
    return GroupedResidualL1(tuple(cliques), tuple(sums), tuple(partitions))


def group_sums(table: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """Return the sum of the table's cells in each of `count` groups."""
    return np.bincount(groups.ravel(), table.ravel(), minlength=count)


def lost_part(groups: np.ndarray, cells: float, order: int) -> np.ndarray:
    """Return the part of a smooth error on a marginal that is lost inside groups, for each number of groups.

    >>> lost_part(np.array([1.0, 4.0, 16.0]), 16.0, 2).round(2).tolist()
    [1.0, 0.33, 0.0]
    """
    finest = cells ** (-1.0 / order)
    return np.maximum(groups ** (-1.0 / order) - finest, 0.0) / (1.0 - finest)


@dataclass(frozen=True, slots=True, eq=False)
class PricedCandidates:
    """Candidates with their errors and sizes, from which a price chooses.

    Attributes:
        cliques: the candidates.
        contributions: error of each against the present model; 0 where it is not a candidate any more.
        cells: effective cells of each, at least 2: with a single one, no part of the error is lost inside a group.
        eta: maximum part of the error that loss, noise and price may cost.
        caution: factor on expected noise; below 1 because a penalised joint fit removes most of it.
        apart: whether to leave out marginals that others of the same round may explain (see `spread_out`).
    """

    cliques: Sequence[ColumnSet]
    contributions: np.ndarray
    cells: Sequence[float]
    eta: float
    caution: float
    apart: bool = True

    def at_budget(self, rho: float) -> list[ChosenSet]:
        """Return the sets chosen at the lowest price at which their precisions sum to at most 2 rho, best worth first.

        Where even those chosen at the highest price exceed that, their precisions are scaled down to it.
        """
        chosen = price_at_budget(self.at_price, lambda found, _: sum(choice.precision for choice in found), rho)
        part = min(1.0, 2.0 * rho / max(sum(choice.precision for choice in chosen), 1e-300))
        return [replace(choice, precision=part * choice.precision) for choice in chosen]

    def at_price(self, price: float) -> list[ChosenSet]:
        """Return the sets chosen at a price per unit of precision, best worth first."""
        found = [self._best_groups(int(i), price) for i in np.flatnonzero(self.contributions > 0)]
        chosen = sorted((o for o in found if o.worth * self.eta > 1.0), key=lambda o: (-o.worth, o.number))
        return spread_out(chosen, self.cliques) if self.apart else chosen

    def _best_groups(self, number: int, price: float) -> ChosenSet:
        cells, error = self.cells[number], float(self.contributions[number])
        counts = np.append(_COUNTS[cells > _COUNTS], cells)
        half = half_noise(counts, self.caution)
        costs = 3.0 * half ** (2 / 3) * price ** (1 / 3) + error * lost_part(counts, cells, len(self.cliques[number]))
        best = int(np.argmin(costs))
        precision = float((half[best] / price) ** (2 / 3))
        return ChosenSet(number, error / float(costs[best]), float(counts[best]), best == len(counts) - 1, precision)


def spread_out(chosen: Sequence[ChosenSet], cliques: Sequence[ColumnSet]) -> list[ChosenSet]:
    """Return the chosen sets, in order, without those that earlier ones may explain.

    Pairs that would close a cycle are left out, and larger sets that share a pair. Where (a, b) and (b, c) are
    measured, the model may predict (a, c) well; the next fit shows whether it does.
    """
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.get(name, name) != name:
            name = root[name]
        return name

    kept: list[ChosenSet] = []
    covered: set[ColumnSet] = set()
    for choice in chosen:
        clique = cliques[choice.number]
        if len(clique) == 2:
            first, second = find(clique[0]), find(clique[1])
            if first == second:
                continue
            root[second] = first
        else:
            pairs = set(combinations(clique, 2))
            if pairs & covered:
                continue
            covered |= pairs
        kept.append(choice)
    return kept


def partition_for(choice: ChosenSet, table: np.ndarray) -> np.ndarray | None:
    """Return the groups in which a chosen set is measured, by the model's counts; None for single cells."""
    if choice.whole or choice.groups >= table.size:
        return None
    return halved_boxes(table, math.ceil(choice.groups))
