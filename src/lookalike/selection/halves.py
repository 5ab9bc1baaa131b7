"""How ordered columns go together, seen from halves: one noisy number for each pair, which a Gaussian copula explains.

Two numbers of 14 bins each have 196 cells together, and a table of a few thousand rows shows none of them through the
noise. That low values of one go with low values of the other is one number, though. Every ordered column is cut where
its released counts are halved, and of each pair of columns the one contrast of the 2 x 2 table of halves is measured,

    s = n11 - n12 - n21 + n22,

to which one row adds at most 1. Under a Gaussian copula it tells the correlation r, and r tells the whole joint table:

    P(a > x, b > y) = P(a > x) P(b > y) + integral from 0 to r of phi2(x, y; u) du,

where phi2 is the density of two standard normal variables of correlation u, and x and y are the normal quantiles of the
cuts. Correlations are shrunk by their noise, with all of them as the prior (`kept_parts`). The tables of pairs that no
measured set holds enter a fit like measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri  # pyright: ignore[reportMissingTypeStubs]

from lookalike.measurements import CellTable, NoisyMarginal, merged_columns
from lookalike.models.graphical import GraphicalModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.binned import Integer
from lookalike.schema.bins import Binned
from lookalike.schema.domain import ColumnSet
from lookalike.schema.schema import Schema
from lookalike.selection.grouping import halved_boxes

SHARE, NOISE = 0.3, 0.02
"""Largest part of the budget for chosen sets, and the noise of a correlation of two columns cut into equal halves for
which less is enough; docs/laboratory/mosaic.md."""
MIN_STDDEV = 1.0
"""No likely table is trusted to less than a row. Where noise leaves hardly a row in one half of a column, all
correlations have the same table, of which nothing would be uncertain, and a fit to it would not converge."""
_LARGEST = 0.97
_GRID = np.linspace(-_LARGEST, _LARGEST, 195)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_GROUPS = 6
"""Groups of bins of a column in the tables that enter a fit: they show 92 % of the variance of a normal variable."""
_SPREADS, _EM_STEPS = (0.0005, 0.003, 0.015, 0.06, 0.2), 50
"""Variances of correlations of which a table is taken to be mixed."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderedColumn:
    """A column of numbers or times as a normal variable that was cut into bins.

    Attributes:
        present: share of the rows that have a value.
        ends: the normal variable at the upper end of every bin but the last.
        cut: number of bins in the lower half.
        halves: 0 or 1 for every code, 0 for missing values.
        groups: the group of every code, with missing values in the middle one.
    """

    name: str
    present: float
    ends: np.ndarray
    cut: int
    halves: np.ndarray
    groups: np.ndarray


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
    return OrderedColumn(column.name, float(own.sum() / counts.sum()), ends, cut, halves.astype(np.int64), groups)


def ordered_columns(schema: Schema, independent: GraphicalModel) -> list[OrderedColumn]:
    """Return all columns of numbers and times that a model of independent columns spreads over two or more bins.

    None where the schema declares numbers of codes alone, as `--domain` does: nobody says that codes have an order.
    """
    integers = [c for c in schema.columns if isinstance(c, Integer)]
    coded = [c for c in integers if (c.minimum, c.maximum, c.bins) == (0, c.size - 1, c.size)]
    if len(coded) == len(schema.columns):
        return []
    kept = [
        column for column in schema.columns if isinstance(column, Binned) and column.name in independent.domain.names
    ]
    found = (ordered_column(column, independent.marginal((column.name,))) for column in kept)
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
    """

    independent: GraphicalModel
    columns: dict[str, OrderedColumn]
    pairs: list[ColumnSet]
    correlations: np.ndarray
    stddevs: np.ndarray

    def excess(self, pair: ColumnSet, correlation: float) -> np.ndarray:
        """Return by how much the counts of a pair differ from those of independent columns."""
        one, two = (self.columns[name] for name in pair)
        above = np.zeros((len(one.ends) + 2, len(two.ends) + 2))
        above[1:-1, 1:-1] = joint_excess(one.ends[:, None], two.ends[None, :], correlation)
        cells = np.diff(np.diff(above, axis=0), axis=1)
        table = np.zeros((len(one.groups), len(two.groups)))
        table[: cells.shape[0], : cells.shape[1]] = cells
        return self.independent.total * one.present * two.present * table

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


def measure_halves(door: GuardedTable, independent: GraphicalModel, rho: float, *, step: str) -> Related | None:
    """Measure how the halves of all pairs of ordered columns go together, for a part of rho; None without pairs."""
    columns = {column.name: column for column in ordered_columns(door.schema, independent)}
    pairs: list[ColumnSet] = [door.domain.canonical(pair) for pair in combinations(columns, 2)]
    if not pairs:
        return None
    tables = [merged_columns(pair, [columns[name].halves for name in pair]) for pair in pairs]
    # Near independence the mean of the four contrasts is rows * r / (2 pi), with half of their noise.
    enough = NOISE * independent.total / np.pi
    noise = max(door.stddev_for(SHARE * rho / len(pairs), table=tables[0]), enough)
    measured = door.measure_contrasts(tables, [noise] * len(tables), step=step)
    return _related(independent, columns, tables, measured)


def _related(
    independent: GraphicalModel,
    columns: dict[str, OrderedColumn],
    tables: Sequence[CellTable],
    measured: Sequence[NoisyMarginal],
) -> Related:
    """Return the correlations that explain the contrasts of the tables of halves."""
    pairs = [table.attrs for table in tables]
    signs = np.array([1.0, -1.0, -1.0, 1.0]) / 4
    found, noise = np.zeros(len(pairs)), np.zeros(len(pairs))
    for i, (table, answer, counts) in enumerate(zip(tables, measured, independent.marginals(pairs), strict=True)):
        one, two = (columns[name] for name in table.attrs)
        scale = independent.total * one.present * two.present
        excess = float(signs @ (answer.values.ravel() - table.sums(counts).ravel())) / scale
        at = one.ends[one.cut - 1 : one.cut], two.ends[two.cut - 1 : two.cut]
        found[i] = np.interp(excess, joint_excess(*at, _GRID), _GRID)
        noise[i] = answer.stddev / 2 / scale / float(_density(*at, np.zeros(1))[0])
    kept = kept_parts(found, noise)
    return Related(independent, columns, pairs, kept * found, np.sqrt(kept) * noise)


def kept_parts(found: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the part of each noisy correlation that is believed.

    Correlations are taken to be normal with one of a few variances. How many have which follows from all of them
    (maximum likelihood by EM): most pairs of a wide table hardly depend on each other, and a few do very much.

    >>> kept_parts(np.append(np.tile([0.05, -0.04], 60), 0.9), np.full(121, 0.05)).round(1)[[0, 1, -1]].tolist()
    [0.2, 0.2, 1.0]
    """
    variances = np.array(_SPREADS) + noise[:, None] ** 2
    likely = np.exp(-0.5 * found[:, None] ** 2 / variances) / np.sqrt(variances) + 1e-300
    shares = np.full(len(_SPREADS), 1 / len(_SPREADS))
    for _ in range(_EM_STEPS):
        each = likely * shares / (likely @ shares)[:, None]
        shares = (each.sum(axis=0) + 1.0) / (len(found) + len(shares))
    return (each * (np.array(_SPREADS) / variances)).sum(axis=1)
