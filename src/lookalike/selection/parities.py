"""Parities: what holds together although no two of its columns show it.

A column that is the xor of two others depends on neither, and the parity of four columns on no three of them. Scores of
pairs, and sets that are grown along these, pass such columns by. Here each column is cut into two halves of about equal
mass; with x_i = 1 or -1 for the half of a row in column i, the *parity* of a set S of columns is

    c_S = sum over rows of the product of x_i over i in S = (rows in an even number of upper halves) - (the others).

It is the contrast of a table of two cells, to which a row adds 1 or -1: a marginal of a coarsened table in two groups,
measured as all contrasts are. K parities for rho in all have noise sqrt(K / (2 rho)), and a column that follows from
two others makes one as large as the number of rows. Sets whose parity differs from that of the model so far by more
than noise explains are those that hold together in a way that the model does not know.

Parities of up to how many columns are measured, and whether any are, follows from released numbers: none where a
correlation of `LEAST` would not show. They are compared anew with every model, which costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations
from typing import Self

import numpy as np
from scipy.special import ndtri  # pyright: ignore[reportMissingTypeStubs]

from lookalike.measurements import CellTable, merged_columns
from lookalike.models.graphical import GraphicalModel
from lookalike.models.weighted_rows import ReweightedModel
from lookalike.privacy.journal import Recording
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.grouping import halved_boxes
from lookalike.selection.steps import active_columns

LEAST, ENOUGH = 0.4, 0.1
"""Parities are measured where one of LEAST times the rows shows, with no less noise than shows one of ENOUGH times."""
ORDERS, MAX_SETS = (3, 4, 5, 6), 4000
"""Columns of a set, up to as many as leave LEAST visible, and number of all sets, a bound on the time."""
CHANCE = 0.05
"""Probability with which noise alone makes the parity of any set stand out."""
MAX_FOUND, MAX_CELLS = 20, 200_000
"""Sets that are named at a time, and the cells of the marginal of each, which a fit holds in memory."""
_EFFECTIVE = 0.4
"""Weighted rows that count of those drawn, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Parities:
    """Noisy parities of sets of three and more columns.

    Attributes:
        domain: the columns, with all their values.
        halves: 0 or 1 for every code of the columns of two and more values.
        order: maximum number of columns of a set.
        values: parity of every set, triples first, in the order of `combinations`.
        stddevs: their noise.
    """

    domain: Domain
    halves: Mapping[str, np.ndarray]
    order: int
    values: np.ndarray
    stddevs: np.ndarray

    @classmethod
    def of(cls, door: GuardedTable, independent: GraphicalModel, rho: float, *, step: str) -> Self | None:
        """Measure parities for at most rho; None, and nothing is spent, where they would not show a correlation."""
        names = active_columns(door.domain)
        for order in sorted(ORDERS, reverse=True):
            sets = _sets(names, order, MAX_SETS)
            if not sets or order > len(names):
                continue
            stddevs = _noise(door, sets, rho)
            shown = smallest_shown(stddevs, independent.total)
            if shown.max() <= LEAST:
                stddevs = stddevs * np.maximum(1.0, ENOUGH / shown)
                halves = {name: halved_boxes(independent.marginal((name,)), 2) for name in names}
                # Error bars have no use for parities: the recording of the run does not keep them.
                tables, view = [_table(attrs) for attrs in sets], door.coarsened(halves).recorded_by(Recording())
                answers = view.measure_contrasts(tables, (stddevs / math.sqrt(2)).tolist(), step=step)
                values = np.array([answer.values[0] - answer.values[1] for answer in answers])
                return cls(door.domain, halves, order, values, stddevs)
        return None

    def unexplained(self, model: ReweightedModel) -> list[ColumnSet]:
        """Return the sets that hold together otherwise than in the model, strongest first.

        None holds another one: what a set shows, its supersets may show with it.
        """
        sets, ratios = _sets(list(self.halves), self.order), np.abs(self.ratios(model))
        found, limit = list[ColumnSet](), least_ratio(len(ratios))
        for number in np.argsort(-ratios, kind="stable")[: int((ratios > limit).sum())].tolist():
            attrs = sets[number]
            if self.domain.cells(attrs) <= MAX_CELLS and not any(set(other) <= set(attrs) for other in found):
                found.append(attrs)
        return found[:MAX_FOUND]

    def ratios(self, model: ReweightedModel) -> np.ndarray:
        """Return by how many stddevs each parity differs from the model's.

        These are stddevs of the noise, of the table's rows, since two tables of one distribution differ as much, and of
        the model's finitely many rows.
        """
        rows, total = model.rows, model.total
        columns = [self.halves[name][rows.codes[:, self.domain.position(name)]] for name in self.halves]
        signs, weights = (1.0 - 2.0 * np.stack(columns).T).astype(np.float32), rows.weights.astype(np.float32)
        expected = [mean_products(signs, weights / weights.sum(), k) for k in ORDERS if k <= self.order]
        sampled = 0.0 if rows.theta is None else total**2 / (_EFFECTIVE * rows.drawn)
        return (self.values - total * np.concatenate(expected)) / np.sqrt(self.stddevs**2 + total + sampled)

    def table(self, attrs: ColumnSet) -> CellTable:
        """Return the table of the halves of these columns."""
        return merged_columns(attrs, [self.halves[name] for name in attrs])


def mean_products(signs: np.ndarray, weights: np.ndarray, order: int) -> np.ndarray:
    """Return the weighted means of the products of every `order` columns, in the order of `combinations`.

    >>> mean_products(np.array([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]), np.array([0.75, 0.25]), 2)
    array([ 0.5, -1. , -0.5])
    """
    if order == 2:
        return ((weights[:, None] * signs).T @ signs)[np.triu_indices(signs.shape[1], 1)]
    firsts = range(signs.shape[1] - order + 1)
    return np.concatenate([mean_products(signs[:, i + 1 :], weights * signs[:, i], order - 1) for i in firsts])


def least_ratio(sets: int) -> float:
    """Return how many stddevs noise makes any of so many sets exceed with a probability of CHANCE.

    >>> round(least_ratio(1000), 2)
    4.06
    """
    return float(-ndtri(CHANCE / (2 * sets)))


def smallest_shown(stddevs: np.ndarray, total: float) -> np.ndarray:
    """Return the correlation that stands out of so many parities with this noise five times out of six.

    >>> smallest_shown(np.full(1000, 500.0), 20_000.0)[0].round(3)
    np.float64(0.126)
    """
    return (least_ratio(len(stddevs)) + 1) * stddevs / total


def _noise(door: GuardedTable, sets: Sequence[ColumnSet], rho: float) -> np.ndarray:
    """Return the noise of each parity for rho in all: less for sets of few columns, of which there are fewer.

    With K_k sets of k columns these have sqrt(K_k) parts, which has the least sum of the noise of all orders.
    """
    orders = np.array([len(attrs) for attrs in sets])
    counts = np.bincount(orders)
    shares = rho * np.sqrt(counts) / np.sqrt(counts).sum() / np.maximum(counts, 1)
    noise = {k: math.sqrt(2) * door.stddev_for(shares[k], table=_table(("",) * k)) for k in set(orders.tolist())}
    return np.array([noise[k] for k in orders.tolist()])


def _sets(names: Sequence[str], order: int, at_most: float = math.inf) -> list[ColumnSet]:
    """Return all sets of three to `order` columns, as `mean_products` orders them; none if they are too many."""
    orders = [k for k in ORDERS if k <= order]
    if sum(math.comb(len(names), k) for k in orders) > at_most:
        return []
    return list(chain.from_iterable(combinations(names, k) for k in orders))


def _table(attrs: ColumnSet) -> CellTable:
    """Return the table of two cells: an even number of upper halves, and an odd one."""
    return CellTable(attrs, (2,), _odd(len(attrs)))


@cache
def _odd(order: int) -> np.ndarray:
    """Return 1 for the cells of a table of halves with an odd number of upper ones, and 0 for the others."""
    return np.indices((2,) * order).sum(axis=0) % 2
