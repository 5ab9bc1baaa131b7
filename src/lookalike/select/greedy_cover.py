"""Few sets of attributes that hold most of the dependence, and how much noise each of them deserves.

Works on released scores only. The price of a marginal of c cells is c^(2/3): with a budget rho shared best between
marginals their noise has an expected L1 norm of (sum c_i^(2/3))^(3/2) / sqrt(pi rho) in all (`allocation.allocate`). A
set of k attributes is charged once and covers all k(k-1)/2 pairs in it, which is why four to six binary columns
together are the best buy. Cells that are expected to be empty cost next to nothing (`effective_cells`).


--- The state of PrivMRF's choices: which sets have been measured, how well, and which are worth measuring next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.select.candidate_sets import Candidates, useful_candidates
from lookalike.select.model_size import sets_that_fit
from lookalike.tables.cost import Limits

_REMEMBERED, _REMEMBERED_CELLS = 20_000, 2_000


def effective_cells(cliques: Sequence[Clique], oneways: Mapping[str, np.ndarray], stddev: float) -> np.ndarray:
    """sum over cells of min(1, expected count / stddev), at least 1, with counts expected under independence.

    A cell whose expected count is far below the noise is set to about 0 by any fit that knows counts are not
    negative; its noise does little harm, so it is not charged as a full cell.

    Args:
        cliques: the sets.
        oneways: non-negative counts of every attribute, with the same total.
        stddev: noise of a typical measurement.
    """
    total = max(float(next(iter(oneways.values())).sum()), 1e-12)
    known: dict[Clique, np.ndarray] = {(): np.array([total / stddev])}

    def expected(clique: Clique) -> np.ndarray:
        table = known.get(clique)
        if table is None:
            table = np.multiply.outer(expected(clique[:-1]), oneways[clique[-1]] / total).ravel()
            if len(known) < _REMEMBERED and table.size <= _REMEMBERED_CELLS:
                known[clique] = table
        return table

    return np.array([max(1.0, float(np.minimum(1.0, expected(clique)).sum())) for clique in cliques])


def cover_sets(candidates: Candidates, prices: np.ndarray, errors: np.ndarray, rho: float, caution: float) -> list[int]:
    """Candidates that cover most error per price, until the next one would add more noise than it covers error.

    Args:
        candidates: the sets.
        prices: c^(2/3) of each.
        errors: symmetric matrix of noisy L1 errors of all pairs of attributes; below 0 counts as 0.
        rho: what the chosen sets will be measured with.
        caution: weight of noise against error.
    """
    left = np.maximum(errors, 0.0).astype(np.float32)
    np.fill_diagonal(left, 0.0)
    members = candidates.members.astype(np.float32)
    scale = caution / math.sqrt(math.pi * rho)
    paid, picked = 0.0, []
    gains = 0.5 * ((members @ left) * members).sum(axis=1)
    while len(picked) < len(candidates):
        best = int(np.argmax(gains / prices))
        if gains[best] <= scale * ((paid + prices[best]) ** 1.5 - paid**1.5):
            break
        picked.append(best)
        paid += float(prices[best])
        inside = np.flatnonzero(candidates.members[best])
        # Only sets that share a pair with the chosen one lose anything.
        touched = np.flatnonzero(candidates.members[:, inside].sum(axis=1) > 1)
        left[np.ix_(inside, inside)] = 0.0
        gains[touched] = 0.5 * ((members[touched] @ left) * members[touched]).sum(axis=1)
    return picked


def further_sets(
    cliques: Sequence[Clique], errors: np.ndarray, prices: np.ndarray, paid: float, rho: float, caution: float
) -> list[int]:
    """Sets whose error against the present model is worth their noise, best error per price first.

    Sets overlap, and so do their errors: what a chosen set shares with another, as a part of the other's pairs, is
    taken off the other's error.

    Args:
        cliques: the sets.
        errors: their noisy L1 errors.
        prices: their prices.
        paid: sum of the prices of all sets measured so far, which share the budget.
        rho: the budget of the sets measured so far and of those to come.
        caution: weight of noise against error.
    """
    pairs = [frozenset(combinations(clique, 2)) for clique in cliques]
    covered: set[tuple[str, ...]] = set()
    scale = caution / math.sqrt(math.pi * rho)
    gains = np.maximum(np.asarray(errors, dtype=float), 0.0)
    left = np.ones(len(cliques), dtype=bool)
    picked: list[int] = []
    while left.any():
        new = np.array([1.0 - len(own & covered) / len(own) if own else 0.0 for own in pairs])
        worth = left & (gains * new > scale * ((paid + prices) ** 1.5 - paid**1.5))
        if not worth.any():
            break
        best = int(np.argmax(np.where(worth, gains * new / prices, -1.0)))
        picked.append(best)
        left[best] = False
        paid += float(prices[best])
        covered |= pairs[best]
    return picked


def top_up(prices: np.ndarray, spent: np.ndarray, rho: float) -> np.ndarray:
    """What to add to each measurement so that all together are as near to shares by price as possible.

    The sum of the additions is rho; a set that has more than its share already gets nothing. Shares are lam * price
    with the lam that solves sum max(0, lam * price - spent) = rho. Additions below a thousandth of the mean one are
    charges without use; their part goes to the others.

    >>> top_up(np.array([1.0, 1.0, 2.0]), np.array([3.0, 0.0, 0.0]), 3.0)
    array([0., 1., 2.])
    """
    order = np.argsort(spent / prices)
    price, had = np.cumsum(prices[order]), np.cumsum(spent[order])
    level = (rho + had) / price
    start = (spent / prices)[order]
    last = int(np.flatnonzero(start < level)[-1])
    additions = np.maximum(0.0, level[last] * prices - spent)
    additions[additions < 1e-3 * rho / len(additions)] = 0.0
    return additions * (rho / additions.sum())


@dataclass(slots=True)
class MeasuredSets:
    """Sets that share a budget: their prices, and what each has had so far. Released facts only.

    Attributes:
        cliques: the sets.
        prices: (effective cells)^(2/3) of each.
        spent: rho that each has had.
    """

    cliques: list[Clique]
    prices: np.ndarray
    spent: np.ndarray

    def worth_adding(
        self, cliques: Sequence[Clique], errors: np.ndarray, prices: np.ndarray, rho: float, caution: float
    ) -> list[int]:
        """Which further sets are worth their noise if they and the present ones are topped up with rho."""
        budget = rho + float(self.spent.sum())
        return further_sets(cliques, errors, prices, float(self.prices.sum()), budget, caution)

    def topped_up(self, cliques: Sequence[Clique], prices: np.ndarray, rho: float) -> tuple[list[Clique], np.ndarray]:
        """Takes further sets in and spends rho: what to measure now, and with how much each."""
        self.cliques = [*self.cliques, *cliques]
        self.prices = np.concatenate([self.prices, prices])
        had = np.concatenate([self.spent, np.zeros(len(cliques))])
        shares = top_up(self.prices, had, rho)
        self.spent = had + shares
        wanted = np.flatnonzero(shares)
        return [self.cliques[i] for i in wanted], shares[wanted]


_MOST_CELLS, _MOST_PAIR_CELLS = 1000, 100_000
_KEEP = 30_000


@dataclass(slots=True)
class Cover:
    """The sets measured so far, what each has had, and the prices by which sets are chosen. Released facts only.

    Attributes:
        domain: names and sizes of the attributes.
        oneways: non-negative counts of every attribute.
        stddev: noise of a typical measurement.
        caution: weight of noise against error.
        limits: predicted time and memory that the model of all measured sets may take.
        measured: sets measured so far.
        spent: rho that each has had.
    """

    domain: Domain
    oneways: Mapping[str, np.ndarray]
    stddev: float
    caution: float
    limits: Limits
    measured: list[Clique]
    spent: np.ndarray

    @classmethod
    def of(
        cls, domain: Domain, oneways: Mapping[str, np.ndarray], stddev: float, caution: float, limits: Limits
    ) -> Cover:
        """Nothing measured yet."""
        return cls(domain, oneways, stddev, caution, limits, [], np.zeros(0))

    def prices(self, cliques: Sequence[Clique]) -> np.ndarray:
        """(effective cells)^(2/3) of every set."""
        return effective_cells(cliques, self.oneways, self.stddev) ** (2 / 3)

    def first(
        self,
        cliques: Sequence[Clique],
        pairs: Sequence[Clique],
        errors: np.ndarray,
        rho: float,
        most: int,
        limit: float,
        rng: np.random.Generator,
    ) -> list[Clique]:
        """The sets inside the cliques that cover most pair error per price, as far as the model can take them."""
        candidates, prices = self._useful(cliques, 2, most, limit, rng)
        if not len(candidates):
            return []
        picked = cover_sets(candidates, prices, pair_matrix(self.domain, pairs, errors), rho, self.caution)
        return sets_that_fit(self.domain, [], candidates.cliques(picked), self.limits)

    def sample(
        self, cliques: Sequence[Clique], most: int, limit: float, size: int, rng: np.random.Generator
    ) -> list[Clique]:
        """Random sets inside the cliques, of three or more attributes, that are not measured yet."""
        candidates, _ = self._useful(cliques, 3, most, limit, rng)
        chosen = rng.choice(len(candidates), min(size, len(candidates)), replace=False)
        known = set(self.measured)
        return [clique for clique in candidates.cliques(chosen) if clique not in known]

    def further(
        self, sample: Sequence[Clique], references: Sequence[np.ndarray], errors: np.ndarray, rho: float
    ) -> list[Clique]:
        """The sets of the sample that are worth measuring, at prices by the present model's counts."""
        cells = [max(1.0, float(np.minimum(1.0, table / self.stddev).sum())) for table in references]
        prices = np.array(cells) ** (2 / 3)
        paid, budget = float(self.prices(self.measured).sum()), rho + float(self.spent.sum())
        chosen = [sample[i] for i in further_sets(sample, errors, prices, paid, budget, self.caution)]
        return sets_that_fit(self.domain, self.measured, chosen, self.limits)

    def top_up(self, chosen: Sequence[Clique], rho: float) -> np.ndarray:
        """Takes the chosen sets in; what each measured set is to get so that rho is spent and shares are by price."""
        self.measured = [*self.measured, *chosen]
        had = np.concatenate([self.spent, np.zeros(len(chosen))])
        shares = top_up(self.prices(self.measured), had, rho)
        self.spent = had + shares
        return shares

    def _useful(
        self, cliques: Sequence[Clique], fewest: int, most: int, limit: float, rng: np.random.Generator
    ) -> tuple[Candidates, np.ndarray]:
        """Candidates whose effective cells are within the limit, and their prices. Pairs are useful up to a size."""
        found = useful_candidates(self.domain, cliques, _MOST_PAIR_CELLS, rng, fewest=fewest, most=most, keep=_KEEP)
        found = found.where((found.cells <= _MOST_CELLS) | (found.members.sum(axis=1) == 2))
        prices = self.prices(found.cliques(range(len(found))))
        fits = (prices**1.5 <= limit) | (found.members.sum(axis=1) == 2)
        return found.where(fits), prices[fits]


def pair_matrix(domain: Domain, pairs: Sequence[Clique], scores: np.ndarray) -> np.ndarray:
    """Scores of pairs as a symmetric matrix."""
    matrix = np.zeros((len(domain), len(domain)))
    for (a, b), value in zip(pairs, scores, strict=True):
        i, j = domain.position(a), domain.position(b)
        matrix[i, j] = matrix[j, i] = value
    return matrix
