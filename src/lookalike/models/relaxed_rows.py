"""Relaxed rows, in which every column has a distribution instead of a value: a mixture of product distributions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lookalike.fitting.relaxed_projection import mixture
from lookalike.models.stored import Stored
from lookalike.sampling.draws import values_at
from lookalike.schema.cells import first_places
from lookalike.schema.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedRows:
    """Equally likely relaxed rows, each with independent columns of given distributions.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        distributions: a matrix with one row per value of every column, columns one after another, and one column per
            relaxed row; the probabilities of each column add up to 1.
    """

    kind: ClassVar[str] = "relaxed-rows"

    domain: Domain
    total: float
    distributions: np.ndarray

    def __post_init__(self) -> None:
        shape, values = self.distributions.shape, sum(self.domain.sizes)
        if len(shape) != 2 or shape[0] != values or not shape[1]:
            raise ValueError(f"distributions of shape {shape} for {values} values")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts: the mean over all relaxed rows of products of their distributions, times `total`."""
        clique = self.domain.canonical(attrs)
        blocks = [block.astype(np.float64) for block in self._blocks(clique)]
        counts = mixture(blocks).reshape(self.domain.shape(clique))
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows by randomised rounding: values drawn from relaxed rows that are used equally often, up to one.

        The values of a relaxed row's copies are drawn together, at even distances from a random start and in random
        order, so that the count of each value differs from its expectation by at most one.
        """
        count = self.distributions.shape[1]
        whole, rest = divmod(rows, count)
        copies = np.full(count, whole)
        copies[rng.permutation(count)[:rest]] += 1
        owner = np.repeat(np.arange(count), copies)
        first = np.cumsum(copies) - copies
        codes = np.empty((rows, len(self.domain)), dtype=np.int32, order="F")
        for i, block in enumerate(self._blocks(self.domain.names)):
            # Sorting random keys within each owner shuffles the places of its copies, for every column again.
            shuffled = np.lexsort((rng.random(rows), owner))
            place = np.empty(rows)
            place[shuffled] = np.arange(rows) - first[owner]
            points = (place + rng.random(count)[owner]) / np.maximum(copies, 1)[owner]
            codes[:, i] = values_at(block.T.astype(np.float64), owner, points)
        return np.asfortranarray(codes[rng.permutation(rows)])

    def _blocks(self, names: Iterable[str]) -> list[np.ndarray]:
        starts = np.cumsum([0, *self.domain.sizes])
        places = [self.domain.position(name) for name in names]
        return [self.distributions[starts[place] : starts[place + 1]] for place in places]

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain = stored.domain()
        found = stored.weights("distributions", 2, 1.0)
        fits = len(found) == sum(domain.sizes) and bool((found >= 0).all())
        stored.require(fits, "has distributions that do not fit its columns")
        sums = np.add.reduceat(found, first_places(domain.sizes), axis=0, dtype=np.float64)
        stored.require(bool((np.abs(sums - 1) < 1e-3).all()), "has distributions that do not add up to 1")
        return cls(domain, stored.total(), found)
