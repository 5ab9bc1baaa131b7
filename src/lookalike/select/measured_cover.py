"""The state of PrivMRF's choices: which sets have been measured, how well, and which are worth measuring next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.select.cover import cover_sets, effective_cells, further_sets, top_up
from lookalike.select.model_size import sets_that_fit
from lookalike.select.useful import Candidates, useful_candidates
from lookalike.tables.cost import Limits

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
