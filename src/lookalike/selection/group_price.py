"""One price for budget decides which marginals are measured, in how many groups of cells, and how precisely.

A marginal of c effective cells and order d, whose error against the model is C, is measured in k groups with precision
b = 1/stddev^2. What is left of its error is then expected to be

    C * lost(k)  +  caution * sqrt(2/pi) * k / sqrt(b),      lost(k) = (k^(-1/d) - c^(-1/d)) / (1 - c^(-1/d)):

the part of the error that is lost inside groups, and noise. PPSyn (Theorem 3) has the same sum with the reconstruction
error of the true counts in place of the first term, which cannot be had without paying for it; `lost` is what a smooth
error loses on a grid of k boxes. At a price per unit of precision the best b for each k is known (`pricing`), the best
k is found on a grid, and a marginal is worth measuring where what is left and what it costs are together below
eta * C. The price is the one at which the budget is spent. Works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from lookalike.privacy.scores import GroupedResidualL1
from lookalike.schema.domain import ColumnSet
from lookalike.selection import allocation
from lookalike.selection.grouping import halved_boxes
from lookalike.selection.pricing import half_noise, price_at_budget

_COUNTS = np.unique(np.rint(2.0 ** np.arange(1.0, 12.01, 0.25)))
"""Numbers of groups that are tried."""


@dataclass(frozen=True, slots=True)
class ChosenSet:
    """A marginal that is worth its price, with the groups and the precision to measure it in.

    Attributes:
        number: which of the candidates.
        worth: its error over what stays of it and what it costs.
        groups: number of groups to measure; the effective cells where no grouping pays.
        whole: whether no grouping pays.
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
    """Return the score of the marginals' errors against a model's counts, in at most so many groups of equal mass."""
    partitions = [halved_boxes(table, groups) for table in tables]
    sums = [group_sums(table, part, int(part.max()) + 1) for table, part in zip(tables, partitions, strict=True)]
    return GroupedResidualL1(tuple(cliques), tuple(sums), tuple(partitions))


def group_sums(table: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(groups.ravel(), table.ravel(), minlength=count)


def effective_cells(table: np.ndarray, stddev: float) -> float:
    """Effective cells, at least 2: of a single one no part of the error could hide in a group (`lost_part`)."""
    return allocation.effective_cells(table, stddev, at_least=2.0)


def lost_part(groups: np.ndarray, cells: float, order: int) -> np.ndarray:
    """Return the part of a smooth error on a marginal of that many cells that is lost inside so many groups.

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
        cells: effective cells of each, at least 2.
        eta: part of the error that loss, noise and price may take.
        caution: factor on expected noise; below 1 because a penalised joint fit removes most of it.
        apart: whether marginals that are taken together must not explain each other (see `spread_out`).
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
    """Return the chosen sets that do not explain each other, in order.

    These are pairs without a cycle, and larger sets without a pair in common. Where (a, b) and (b, c)
    are measured, the model may already know (a, c); the next fit shows whether it does.
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
