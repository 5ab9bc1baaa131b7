"""How columns go together, seen from halves: one noisy number for each pair, which a Gaussian copula explains.

Two numbers of 14 bins each have 196 cells together, and a table of a few thousand rows shows none of them through the
noise. That low values of one go with low values of the other is one number, though. Every ordered column is cut where
its released counts are halved, a column of categories into the most frequent one and the others, and of each pair of
columns the one contrast of the 2 x 2 table of halves is measured,

    s = n11 - n12 - n21 + n22,

to which one row adds at most 1. Under a Gaussian copula it tells the correlation r, and r tells the whole joint table:

    P(a > x, b > y) = P(a > x) P(b > y) + integral from 0 to r of phi2(x, y; u) du,

where phi2 is the density of two standard normal variables of correlation u, and x and y are the normal quantiles of the
cuts. Correlations are shrunk by their noise, with all of them as the prior (`shrunk`). Most pairs of a wide table
hardly depend on each other, so the budget is spent in rounds: after the first, each goes where most is uncertain. The
likely tables of pairs that no measured set tells better enter a fit like measured ones, and say which sets are worth
measuring where noise hides the scores of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
from scipy.special import ndtri  # pyright: ignore[reportMissingTypeStubs]

from lookalike.measurements import CellTable, NoisyMarginal, merged_columns
from lookalike.models.graphical import GraphicalModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.bins import Binned
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.selection.grouping import halved_boxes

ROUNDS = 3
SHARE, MAX_SHARE = 0.3, 0.8
"""Part of the budget for chosen sets, and what it grows to where a typical correlation has more noise than COARSE."""
NOISE, COARSE = 0.02, 0.06
"""A correlation of two columns cut into equal halves needs no less noise than NOISE; docs/laboratory/mosaic.md."""
MIN_STDDEV = 1.0
"""No likely table is trusted to less than a row. Where noise leaves hardly a row in one half of a column, all
correlations have the same table, of which nothing would be uncertain, and a fit to it would not converge."""
_MIN_PART = 0.01
"""Measurements for less than this part of an equal share of the budget are left out."""
MAX_TABLES = 1000
"""Number of likely tables that enter a fit, the most dependent ones: wide tables have thousands, which take long."""
_LARGEST = 0.97
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0]) / 4
_GRID = np.linspace(-_LARGEST, _LARGEST, 195)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_GROUPS = 6
"""Groups of bins of a column in the tables that enter a fit: they show 92 % of the variance of a normal variable."""
_SPREADS, _EM_STEPS = (0.0005, 0.003, 0.015, 0.06, 0.2), 50
"""Variances of correlations of which a table is taken to be mixed."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderedColumn:
    """A column as a normal variable that was cut into bins: of numbers or times, or of categories in two groups.

    Attributes:
        present: share of the rows that have a value.
        ends: the normal variable at the upper end of every bin but the last.
        cut: number of bins in the lower half.
        halves: 0 or 1 for every code, 0 for missing values.
        groups: the group of every code, with missing values in the middle one.
        within: of every code and bin, which part of the bin's rows has the code.
    """

    name: str
    present: float
    ends: np.ndarray
    cut: int
    halves: np.ndarray
    groups: np.ndarray
    within: np.ndarray


def ordered_column(column: Binned, counts: np.ndarray) -> OrderedColumn | None:
    """Return a column with released counts of its codes; None where they show only one bin."""
    own = np.maximum(counts[: column.regular], 0.0)
    if np.count_nonzero(own) < 2:
        return None
    rising = np.cumsum(own)[:-1] / own.sum()
    cut = int(np.argmin(np.abs(rising - 0.5))) + 1
    groups = np.full(column.size, _GROUPS // 2, dtype=np.int64)
    groups[: column.regular] = halved_boxes(own, _GROUPS)
    groups[column.regular :] = groups[cut - 1]
    halves = (np.arange(column.size) >= cut) & (np.arange(column.size) < column.regular)
    ends = ndtri(rising.clip(1e-9, 1 - 1e-9))
    present, within = float(own.sum() / counts.sum()), np.eye(column.size, column.regular)
    return OrderedColumn(column.name, present, ends, cut, halves.astype(np.int64), groups, within)


def divided_column(name: str, counts: np.ndarray) -> OrderedColumn | None:
    """Return a column of categories as its most frequent value against all others; None where they show only one."""
    own = np.maximum(counts, 0.0)
    if np.count_nonzero(own) < 2:
        return None
    halves = (np.arange(len(own)) != own.argmax()).astype(np.int64)
    ends = ndtri(np.array([own.max() / own.sum()]).clip(1e-9, 1 - 1e-9))
    within = np.column_stack([own * (halves == half) for half in (0, 1)])
    return OrderedColumn(name, 1.0, ends, 1, halves, halves, within / within.sum(axis=0))


def ordered_columns(schema: Schema, independent: GraphicalModel) -> list[OrderedColumn]:
    """Return all columns that a model of independent columns spreads over two or more bins or values.

    None where the schema declares numbers of codes alone.
    """
    if schema.only_codes:
        return []
    found: list[OrderedColumn | None] = []
    for column in schema.columns:
        if column.name in independent.domain.names:
            counts = independent.marginal((column.name,))
            ordered = isinstance(column, Binned)
            found.append(ordered_column(column, counts) if ordered else divided_column(column.name, counts))
    return [column for column in found if column is not None]


def joint_excess(one: np.ndarray, two: np.ndarray, correlation: float | np.ndarray) -> np.ndarray:
    """Return P(a > x, b > y) - P(a > x) P(b > y) of normal variables a and b; shapes are broadcast.

    >>> round(float(joint_excess(np.zeros(1), np.zeros(1), 0.5)[0]), 6)  # arcsin(r) / (2 pi)
    0.083333
    """
    half = 0.5 * np.asarray(correlation, dtype=float)
    total = np.zeros(np.broadcast_shapes(one.shape, two.shape, half.shape))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total = total + weight * _density(one, two, half * (1 + node))
    return half * total


def _density(one: np.ndarray, two: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return the density of two standard normal variables."""
    rest = 1 - correlation**2
    return np.exp(-(one**2 - 2 * correlation * one * two + two**2) / (2 * rest)) / (2 * np.pi * np.sqrt(rest))


@dataclass(frozen=True, slots=True, eq=False)
class Related:
    """Correlations of pairs of ordered columns, and the joint tables that they make likely.

    Attributes:
        correlations: of each pair, shrunk.
        stddevs: what is uncertain about each.
        noise: of the mean contrast of each pair's table of halves, in rows.
    """

    independent: GraphicalModel
    columns: dict[str, OrderedColumn]
    pairs: list[ColumnSet]
    correlations: np.ndarray
    stddevs: np.ndarray
    noise: np.ndarray

    def excess(self, pair: ColumnSet, correlation: float) -> np.ndarray:
        """Return by how much the counts of a pair differ from those of independent columns."""
        one, two = (self.columns[name] for name in pair)
        above = np.zeros((len(one.ends) + 2, len(two.ends) + 2))
        above[1:-1, 1:-1] = joint_excess(one.ends[:, None], two.ends[None, :], correlation)
        cells = np.diff(np.diff(above, axis=0), axis=1)
        return self.independent.total * one.present * two.present * (one.within @ cells @ two.within.T)

    def tables(self) -> list[NoisyMarginal]:
        """Return the tables of groups of bins as if their contrasts had been measured with what is uncertain of r."""
        found: list[NoisyMarginal] = []
        known = zip(self.pairs, self.independent.marginals(self.pairs), self.correlations, self.stddevs, strict=True)
        for pair, alone, correlation, stddev in known:
            counts = np.maximum(alone + self.excess(pair, correlation), 0.0)
            table = merged_columns(pair, [self.columns[name].groups for name in pair])
            slope = np.linalg.norm(table.sums(self.excess(pair, 0.01))) / 0.01
            noise = max(MIN_STDDEV, float(stddev * slope))
            found.append(NoisyMarginal(pair, table.sums(counts), noise, table.groups, contrasts=table.shape))
        return found

    def strengths(self) -> dict[ColumnSet, float]:
        """Return the L1 distance of each pair's table from that of independent columns."""
        return {p: float(np.abs(self.excess(p, r)).sum()) for p, r in zip(self.pairs, self.correlations, strict=True)}

    def pair_errors(self, scores: np.ndarray, stddev: float, domain: Domain) -> np.ndarray:
        """Return noisy distances of pairs from independence as the distances that are likely, given all that is known.

        What a pair is further from independence than its likely table is taken to be normal, with the mean and variance
        that all pairs show: where noise hides the distances, the likely tables decide. Pairs without a score keep none.
        """
        known = {pair: strength for pair, strength in self.strengths().items() if scores[self._places(pair, domain)]}
        if not known:
            return scores
        first, second = np.array([self._places(pair, domain) for pair in known]).T
        strengths = np.array(list(known.values()))
        beyond = scores[first, second] - strengths
        mean, variance = max(0.0, float(beyond.mean())), max(0.0, float(beyond.var()) - stddev**2)
        believed = variance / (variance + stddev**2)
        likely = scores.copy()
        likely[first, second] = likely[second, first] = strengths + mean + believed * (beyond - mean)
        return likely

    @staticmethod
    def _places(pair: ColumnSet, domain: Domain) -> tuple[int, int]:
        return domain.position(pair[0]), domain.position(pair[1])

    def unseen_in(self, measured: Sequence[NoisyMarginal]) -> list[ColumnSet]:
        """Return the most dependent pairs whose contrast of halves no measured set tells better, these first."""
        own, held = dict(zip(self.pairs, self.noise, strict=True)), {m.attrs for m in measured}
        for m in measured:
            noise = m.stddev * math.sqrt(m.cells) / 4
            held.update(pair for pair in combinations(m.attrs, 2) if noise < own.get(pair, 0.0))
        strengths = self.strengths()
        found = sorted((pair for pair in self.pairs if pair not in held), key=lambda pair: -strengths[pair])
        return found[:MAX_TABLES]


def measure_halves(door: GuardedTable, independent: GraphicalModel, rho: float, *, step: str) -> Related | None:
    """Measure how the halves of all pairs of columns go together, for a part of rho; None without pairs.

    All pairs first, then those once more of which most is uncertain, until no correlation needs more.
    """
    columns = {column.name: column for column in ordered_columns(door.schema, independent)}
    pairs: list[ColumnSet] = [door.domain.canonical(pair) for pair in combinations(columns, 2)]
    if not pairs:
        return None
    halves = _Halves.of(door, independent, columns, pairs)
    rho *= halves.worth(rho)
    # Near independence the mean of the four contrasts is rows * r / (2 pi), with half of their noise.
    enough = halves.unit * (NOISE * independent.total / np.pi) ** -2.0
    spent, shares = np.zeros(len(pairs)), np.full(len(pairs), rho / ROUNDS / len(pairs))
    for left in range(ROUNDS, 0, -1):
        if left < ROUNDS:
            shares = least_uncertain(halves.correlations()[1] ** -2.0, halves.informative, (rho - spent.sum()) / left)
        shares = np.minimum(shares, enough - spent)
        shares[shares < _MIN_PART * min(rho / len(pairs), enough)] = 0.0
        if not shares.any():
            break
        halves.measure(door, shares, step=step)
        spent += shares
    return Related(independent, columns, pairs, *halves.correlations(), halves.precisions**-0.5)


def least_uncertain(known: np.ndarray, gain: np.ndarray, rho: float) -> np.ndarray:
    """Return the shares of rho after which the variances of all numbers have the least sum.

    The precision of number i is known_i, and known_i + gain_i * x_i once it has got the share x_i. The sum is least
    where gain_i over the square of the precision is alike for all that get something.

    >>> least_uncertain(np.array([1.0, 1.0, 9.0]), np.ones(3), 4.0).round(6).tolist()
    [2.0, 2.0, 0.0]
    """
    starts = known / np.sqrt(gain)
    order = np.argsort(starts)
    level = (rho + np.cumsum((known / gain)[order])) / np.cumsum((gain**-0.5)[order])
    last = max(0, int(np.count_nonzero(starts[order] < level)) - 1)
    shares = np.maximum(0.0, (level[last] - starts) / np.sqrt(gain))
    whole = float(shares.sum())
    return shares * (rho / whole) if whole > 0 else np.full(len(known), rho / len(known))


@dataclass(slots=True, eq=False)
class _Halves:
    """What is known of the contrasts of the tables of halves.

    Attributes:
        tables: the 2 x 2 table of each pair.
        expected: the mean contrast of each table if its columns were independent.
        scales: rows in which both columns of a pair have a value.
        cuts: the normal variables at which the two columns of each pair are cut.
        curves: the mean contrast of each pair, in parts of its rows, at every correlation of `_GRID`.
        unit: the rho that gives the mean contrast of a table a stddev of 1/2.
        precisions, means: what was measured of the mean contrasts.
    """

    tables: list[CellTable]
    expected: np.ndarray
    scales: np.ndarray
    cuts: np.ndarray
    curves: np.ndarray
    unit: float
    precisions: np.ndarray
    means: np.ndarray

    @classmethod
    def of(
        cls,
        door: GuardedTable,
        independent: GraphicalModel,
        columns: dict[str, OrderedColumn],
        pairs: list[ColumnSet],
    ) -> Self:
        """Nothing is measured yet."""
        tables = [merged_columns(pair, [columns[name].halves for name in pair]) for pair in pairs]
        expected = [
            _SIGNS @ table.sums(counts).ravel()
            for table, counts in zip(tables, independent.marginals(pairs), strict=True)
        ]
        both = [(columns[one], columns[two]) for one, two in pairs]
        scales = np.array([independent.total * one.present * two.present for one, two in both])
        cuts = np.array([[column.ends[column.cut - 1] for column in pair] for pair in both])
        unit = door.stddev_for(1.0, table=tables[0]) ** 2
        curves, nothing = joint_excess(cuts[:, :1], cuts[:, 1:], _GRID[None, :]), np.zeros(len(pairs))
        return cls(tables, np.array(expected), scales, cuts, curves, unit, nothing, nothing.copy())

    @property
    def informative(self) -> np.ndarray:
        """The precision of each correlation for a rho of 1, near independence."""
        slopes = _density(self.cuts[:, 0], self.cuts[:, 1], np.zeros(1))
        return (2 * self.scales * slopes) ** 2 / self.unit

    def worth(self, rho: float) -> float:
        """Return which part of rho the halves are worth: more where noise leaves the correlations uncertain."""
        noise = float(np.median(self.informative * rho / len(self.tables))) ** -0.5
        return min(max((noise / COARSE) ** 2, SHARE), MAX_SHARE)

    def measure(self, door: GuardedTable, shares: np.ndarray, *, step: str) -> None:
        """Measure the tables with a share once more, for their shares."""
        chosen = np.flatnonzero(shares)
        tables = [self.tables[i] for i in chosen]
        noise = [door.stddev_for(float(shares[i]), table=self.tables[i]) for i in chosen]
        for i, answer in zip(chosen, door.measure_contrasts(tables, noise, step=step), strict=True):
            known, new = self.precisions[i], 4 / answer.stddev**2
            value = float(_SIGNS @ answer.values.ravel())
            self.precisions[i] = known + new
            self.means[i] = (known * self.means[i] + new * value) / (known + new)

    def correlations(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the correlations that explain the contrasts, shrunk, and what is uncertain about each."""
        excess = (self.means - self.expected) / self.scales
        found = np.array([np.interp(at, curve, _GRID) for at, curve in zip(excess, self.curves, strict=True)])
        return shrunk(found, (self.informative * self.unit / 4 * self.precisions) ** -0.5)


def shrunk(found: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what is believed of noisy correlations, and what stays uncertain about each.

    Correlations are taken to be normal with one of a few variances. How many have which follows from all of them
    (maximum likelihood by EM): most pairs of a wide table hardly depend on each other, and a few do very much.

    >>> means, stddevs = shrunk(np.append(np.tile([0.05, -0.04], 60), 0.9), np.full(121, 0.05))
    >>> means[[0, 1, -1]].round(2).tolist()
    [0.01, -0.01, 0.89]
    """
    variances = np.array(_SPREADS) + noise[:, None] ** 2
    likely = np.exp(-0.5 * found[:, None] ** 2 / variances) / np.sqrt(variances) + 1e-300
    shares = np.full(len(_SPREADS), 1 / len(_SPREADS))
    for _ in range(_EM_STEPS):
        each = likely * shares / (likely @ shares)[:, None]
        shares = (each.sum(axis=0) + 1.0) / (len(found) + len(shares))
    kept = np.array(_SPREADS) / variances
    means = found * (each * kept).sum(axis=1)
    squares = (each * (kept * noise[:, None] ** 2 + (kept * found[:, None]) ** 2)).sum(axis=1)
    return means, np.sqrt(np.maximum(squares - means**2, 1e-12))
