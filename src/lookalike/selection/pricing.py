"""What a marginal costs: its effective cells, and the price of the budget at which everything worthwhile is measured.

Measuring c effective cells at a precision of b = 1/stddev^2, twice its rho, leaves an expected L1 error of a / sqrt(b),
where a = sqrt(2/pi) * caution * c. Let eta be the shadow price of the budget, the Lagrange multiplier of sum b = 2 rho,
in counts per unit of precision. The best b is then (a / (2 eta))^(2/3); noise and price together come to
y = 3 (a/2)^(2/3) eta^(1/3) counts. A set is worth measuring when the error it removes exceeds y, and eta is the price
at which the whole budget is spent. For sets that are measured whole, y is the noise that the set adds to the others',
and this is the rule of `greedy_cover`; a method that may also measure fewer groups of cells searches for eta. All of
this works on released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from lookalike.guards import MAX_REMEMBERED_CELLS, MAX_REMEMBERED_TABLES
from lookalike.measurements.contrasts import Contrasts
from lookalike.schema.domain import ColumnSet
from lookalike.selection.allocation import effective_cells
from lookalike.selection.grouping import merged_values

Item = TypeVar("Item")
Number = TypeVar("Number", float, np.ndarray)

_LOG_PRICES = (-60.0, 60.0)
"""Logarithms between which the price lies for any table, budget and error that a double can hold in practice."""

_BISECTIONS = 18
"""Halvings of that range: they leave the price exact to 0.05 %."""


def useful_cells(total: float, stddev: float, theta: float) -> float:
    """Most cells of a theta-useful marginal (PrivMRF, section 4.1): total / cells >= theta * E|noise|.

    E|noise| = stddev sqrt(2/pi).
    """
    return max(total, 0.0) / (theta * stddev * math.sqrt(2.0 / math.pi))


class EffectiveCells:
    """Effective cells of column sets whose counts are expected from single columns, as if those were independent.

    Args:
        oneways: (noisy) counts of every column; negative ones count as 0.
        total: number of rows.
        stddev: noise of a typical measurement.
        value_mass: values of less than this many stddevs are merged where contrasts are measured
            (`grouping.counted_table`).
    """

    def __init__(self, oneways: Mapping[str, np.ndarray], total: float, stddev: float, value_mass: float = 0.0) -> None:
        self.stddev = stddev
        self._shares = {
            name: np.maximum(values, 0.0) / max(np.maximum(values, 0.0).sum(), 1e-12)
            for name, values in oneways.items()
        }
        self._values = {
            name: int(merged_values(total * share, value_mass * stddev).max()) + 1
            for name, share in self._shares.items()
        }
        self._tables: dict[ColumnSet, np.ndarray] = {(): np.array([max(total, 1.0) / stddev])}
        self._known: dict[ColumnSet, float] = {}

    def __call__(self, clique: ColumnSet) -> float:
        known = self._known.get(clique)
        if known is None:
            known = self._known[clique] = effective_cells(self._expected(clique), 1.0)
        return known

    def weights(self, cliques: Sequence[ColumnSet]) -> np.ndarray:
        """(effective cells)^(2/3) of every set, by which a budget is shared (`allocation.allocate`)."""
        return np.array([self(clique) ** (2 / 3) for clique in cliques])

    def contrasts(self, clique: ColumnSet) -> float:
        """How many contrasts of a marginal cost accuracy, at least 1: of its cells or of its merged values."""
        merged = Contrasts(tuple(self._values[name] for name in clique)).dimensions
        return max(1.0, min(self(clique) - 1, merged if merged > 0 else math.inf))

    def _expected(self, clique: ColumnSet) -> np.ndarray:
        """Expected counts in stddevs, flat. Small tables are kept: larger sets begin with the same columns."""
        table = self._tables.get(clique)
        if table is None:
            table = np.multiply.outer(self._expected(clique[:-1]), self._shares[clique[-1]]).ravel()
            if len(self._tables) < MAX_REMEMBERED_TABLES and table.size <= MAX_REMEMBERED_CELLS:
                self._tables[clique] = table
        return table


def half_noise(cells: Number, caution: float) -> Number:
    """a/2 of the module's formula: half the expected L1 noise of so many cells at unit precision, times `caution`."""
    return math.sqrt(0.5 / math.pi) * caution * cells


def price_at_budget(
    at_price: Callable[[float], list[Item]], precision: Callable[[list[Item], float], float], rho: float
) -> list[Item]:
    """Return what is chosen at the lowest price at which it asks for no more precision than 2 rho, by bisection.

    If nothing is chosen there, because the first items to be chosen at a falling price ask for more than 2 rho at once,
    these items are returned.
    """
    low, high = _LOG_PRICES
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        eta = math.exp(middle)
        if precision(at_price(eta), eta) > 2.0 * rho:
            low = middle
        else:
            high = middle
    return at_price(math.exp(high)) or at_price(math.exp(low))
