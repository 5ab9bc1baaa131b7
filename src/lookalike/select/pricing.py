"""One price for budget decides which marginals are measured and how precisely.

Measuring a marginal of c effective cells at a cost of b = 1/stddev^2, twice its rho, leaves an expected L1 error of
a / sqrt(b), where a = sqrt(2/pi) * caution * c. At a price eta per unit of cost the best b is (a / (2 eta))^(2/3);
noise and price together come to y = 3 (a/2)^(2/3) eta^(1/3). A set is worth measuring when the error it removes exceeds
y. The price is the one at which the whole budget is spent. Works on released numbers only.

If only its f c contrasts are measured (`tables/contrasts.py`), b = f / stddev^2 and the error is sqrt(2/pi) c sqrt(f)
stddev: the same formulas, with f c in place of c.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.select.grouping import seen_values
from lookalike.tables.contrasts import Contrasts

Item = TypeVar("Item")
Number = TypeVar("Number", float, np.ndarray)

_SEEDS = 12
_BISECTIONS = 18


@dataclass(frozen=True, slots=True)
class PricedSets:
    """Marginals to measure, most worthwhile first, and the share of rho that each gets; the shares add up to 1."""

    cliques: list[Clique]
    shares: np.ndarray


@dataclass(frozen=True, slots=True)
class SetLimits:
    """How large a measured set may become.

    Attributes:
        order: most attributes in a set.
        cells: most cells of a set of three or more attributes; pairs are always candidates up to `pair_cells`.
        effective: most effective cells of a set of three or more attributes; see `useful.useful_cells`.
        pair_cells: most cells of a pair.
    """

    order: int = 4
    cells: int = 256
    effective: float = math.inf
    pair_cells: int = 1_000_000

    def __post_init__(self) -> None:
        if self.order < 2 or self.cells < 4 or self.pair_cells < 4:
            raise ValueError(f"limits {self} must allow sets of 2 attributes and 4 cells")


class EffectiveCells:
    """How many cells of a marginal cost accuracy: sum over cells of min(1, expected count / stddev).

    A cell that is expected to be empty is pulled to zero by the estimate whatever its noise, so it costs next to
    nothing. Expected counts come from the product of noisy one-way marginals; `stddev` is a typical noise. Values of
    less than `value_mass` of it share a place, as in `partition.counted_table`.
    """

    def __init__(
        self,
        domain: Domain,
        oneways: Mapping[str, np.ndarray],
        total: float,
        stddev: float,
        value_mass: float = 0.0,
    ) -> None:
        self.domain = domain
        self._probability = {
            name: np.maximum(values, 0.0) / max(np.maximum(values, 0.0).sum(), 1e-12)
            for name, values in oneways.items()
        }
        self.stddev = stddev
        self._scale = max(total, 1.0) / stddev
        self._places = {
            name: int(seen_values(total * share, value_mass * stddev).max()) + 1
            for name, share in self._probability.items()
        }
        self._known: dict[Clique, float] = {}

    def contrasts(self, clique: Clique) -> float:
        """How many contrasts of a marginal cost accuracy, at least 1: of its cells or of its merged values."""
        merged = Contrasts(tuple(self._places[name] for name in clique)).dimensions
        return max(1.0, min(self(clique) - 1, merged if merged > 0 else math.inf))

    def __call__(self, clique: Clique) -> float:
        known = self._known.get(clique)
        if known is None:
            table = np.array(self._scale)
            for name in clique:
                table = np.multiply.outer(table, self._probability[name])
            known = max(float(np.minimum(table, 1.0).sum()), 1e-3)
            self._known[clique] = known
        return known

    def of_counts(self, expected: np.ndarray) -> float:
        """Effective cells of a marginal whose counts are expected from something better than independence."""
        return max(float(np.minimum(expected / self.stddev, 1.0).sum()), 1e-3)


def half_noise(cells: Number, caution: float) -> Number:
    """a/2 of the module's formula: half the expected L1 noise of so many cells at unit precision, times `caution`."""
    return math.sqrt(0.5 / math.pi) * caution * cells


def price_at_budget(
    at_price: Callable[[float], list[Item]], precision: Callable[[list[Item], float], float], rho: float
) -> list[Item]:
    """What is chosen at the lowest price at which it does not ask for more precision than 2 rho, by bisection.

    Where even the dearest price at which anything is chosen asks for too much, what is chosen there.
    """
    low, high = -60.0, 60.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        eta = math.exp(middle)
        if precision(at_price(eta), eta) > 2.0 * rho:
            low = middle
        else:
            high = middle
    return at_price(math.exp(high)) or at_price(math.exp(low))


@dataclass(frozen=True, slots=True)
class CoverSearch:
    """Finds sets whose pairs' errors are worth the price of measuring them.

    Attributes:
        domain: the attributes.
        errors: symmetric matrix of the pairs' (noisy) L1 errors in counts; negative ones count as 0.
        cells: effective cells of a set.
        limits: how large sets may become.
        caution: factor on the expected noise error; below 1 because joint estimation removes part of the noise.
        by_contrasts: a set is priced by its contrasts instead of its cells. That is what it costs; but the price by
            cells prefers larger sets, whose joint counts are worth something beyond the pairs once they can be seen.
    """

    domain: Domain
    errors: np.ndarray
    cells: EffectiveCells
    limits: SetLimits = field(default_factory=SetLimits)
    caution: float = 0.8
    by_contrasts: bool = False
    _priced: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    def at_budget(self, rho: float) -> PricedSets:
        """The sets and shares at the price at which their costs add up to 2 rho.

        Empty only where no pair has a positive error.
        """

        def precision(chosen: list[Clique], eta: float) -> float:
            return sum((self._half_noise(clique) / eta) ** (2 / 3) for clique in chosen)

        chosen = price_at_budget(lambda eta: self.at_price(eta, 2 * rho), precision, rho)
        weights = np.array([self.size(clique) ** (2 / 3) for clique in chosen])
        return PricedSets(chosen, weights / weights.sum() if chosen else weights)

    def at_price(self, eta: float, most: float = math.inf) -> list[Clique]:
        """All sets worth measuring at a price of eta per unit of cost, most worthwhile first.

        The search ends with the set that brings the cost of all to more than `most`.
        """
        open_errors = np.maximum(self.errors, 0.0)
        np.fill_diagonal(open_errors, 0.0)
        chosen: list[Clique] = []
        cost, pair_prices = 0.0, self._pair_prices(eta)
        while cost <= most:
            ratios = np.where(open_errors > 0, open_errors / pair_prices, 0.0)
            seeds = np.argsort(np.triu(ratios), axis=None)[::-1][: _SEEDS if self.limits.order > 2 else 1]
            best: tuple[float, tuple[int, ...]] = (0.0, ())
            for flat in seeds:
                pair = divmod(int(flat), len(self.domain))
                if ratios[pair] <= 0:
                    break
                best = max(best, self._grown(pair, float(ratios[pair]), open_errors, eta))
            if best[0] <= 1.0:
                break
            chosen.append(self._names(best[1]))
            cost += (self._half_noise(chosen[-1]) / eta) ** (2 / 3)
            open_errors[np.ix_(best[1], best[1])] = 0.0
        return chosen

    def _grown(
        self, pair: tuple[int, int], ratio: float, open_errors: np.ndarray, eta: float
    ) -> tuple[float, tuple[int, ...]]:
        """The pair, extended by one attribute at a time while covered error per price rises."""
        members, worth = pair, float(open_errors[pair])
        sizes, root, limit = self.domain.sizes, eta ** (1 / 3), self.limits.effective
        while len(members) < self.limits.order:
            gains = open_errors[list(members)].sum(axis=0)
            count = math.prod(sizes[i] for i in members)
            best = (ratio, members, worth)
            for j in np.flatnonzero(gains > 0):
                if j in members or count * sizes[j] > self.limits.cells:
                    continue
                grown = tuple(sorted((*members, int(j))))
                cells, factor = self._priced.get(grown) or self._sized(grown)
                if cells <= limit:
                    value = worth + float(gains[j])
                    best = max(best, (value / (factor * root), grown, value))
            if best[1] == members:
                break
            ratio, members, worth = best
        return ratio, members

    def price(self, clique: Clique, eta: float) -> float:
        """Noise error and price together, in counts: y = 3 (a/2)^(2/3) eta^(1/3)."""
        return 3.0 * self._half_noise(clique) ** (2 / 3) * eta ** (1 / 3)

    def _sized(self, members: tuple[int, ...]) -> tuple[float, float]:
        """Effective cells of a set and its price at eta = 1, remembered: the search asks for the same sets often."""
        clique = self._names(members)
        self._priced[members] = self.cells(clique), self.price(clique, 1.0)
        return self._priced[members]

    def _half_noise(self, clique: Clique) -> float:
        return half_noise(self.size(clique), self.caution)

    def size(self, clique: Clique) -> float:
        """How many noisy numbers the set is priced for."""
        return self.cells.contrasts(clique) if self.by_contrasts else self.cells(clique)

    def _names(self, members: Sequence[int]) -> Clique:
        return tuple(self.domain.names[i] for i in members)

    def _pair_prices(self, eta: float) -> np.ndarray:
        d = len(self.domain)
        prices = np.full((d, d), np.inf)
        for i in range(d):
            for j in range(i + 1, d):
                if self.domain.sizes[i] * self.domain.sizes[j] <= self.limits.pair_cells:
                    prices[i, j] = prices[j, i] = self.price(self._names((i, j)), eta)
        return prices
