"""A Bayesian network whose first columns come from one noisy histogram: what seeds give, for any number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lookalike.generate.bayes_net import SAMPLE_ROWS, BayesNet
from lookalike.generate.stored import LARGEST_COUNT, Stored
from lookalike.schema.cells import cell_keys, counted
from lookalike.schema.domain import Domain

_TRIES = 20


@dataclass(frozen=True, slots=True, eq=False)
class PrefixHistogram:
    """Frequent prefixes with their noisy counts; all other prefixes, and all that follows a prefix, from the network.

    Attributes:
        network: the network, whose first columns the prefixes give values to.
        cells: the prefixes kept, one row of codes each, columns in the network's order.
        counts: their noisy counts.
    """

    kind: ClassVar[str] = "prefix-histogram"
    stored_fields: ClassVar[tuple[str, ...]] = ("network", "columns", "cells", "counts")

    network: BayesNet
    cells: np.ndarray
    counts: np.ndarray

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return self.network.total

    @property
    def columns(self) -> int:
        """Number of columns that the prefixes give values to."""
        return self.cells.shape[1]

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Expected counts, counted in a sample of a million rows with a fixed seed."""
        sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
        return [counted(self.domain, sampled, clique) * (self.total / SAMPLE_ROWS) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        codes = np.zeros((rows, len(self.domain)), dtype=np.int32, order="F")
        places = [self.domain.position(name) for name in self.network.order[: self.columns]]
        mass = float(self.counts.sum())
        frequent = rng.random(rows) < mass / max(mass, self.total)
        kept = np.where(frequent, self.columns, 0)
        if mass > 0:
            chosen = rng.choice(len(self.cells), size=int(frequent.sum()), p=self.counts / mass)
            for column, place in enumerate(places):
                codes[frequent, place] = self.cells[chosen, column]
        self.network.resample(codes, kept, rng)
        self._redraw_frequent(codes, np.flatnonzero(~frequent), places, rng)
        return codes

    def _redraw_frequent(
        self, codes: np.ndarray, rows: np.ndarray, places: list[int], rng: np.random.Generator
    ) -> None:
        """Rows of the rare rest must not have a frequent prefix: those are drawn again, a few times at most."""
        sizes = [self.domain.sizes[place] for place in places]
        for _ in range(_TRIES):
            drawn = codes[rows][:, places]
            keys, _ = cell_keys(np.concatenate([self.cells, drawn]), range(len(places)), sizes)
            rows = rows[np.isin(keys[len(self.cells) :], keys[: len(self.cells)])]
            if rows.size == 0:
                return
            again = np.asfortranarray(codes[rows])
            self.network.resample(again, np.zeros(len(rows), dtype=np.int64), rng)
            codes[rows] = again

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        network = BayesNet.from_stored(stored.part("network"))
        sizes = [network.domain.size(name) for name in network.order]
        cells = stored.codes("cells", sizes[: stored.whole("columns", 0, len(sizes))], min_rows=0)
        return cls(network, cells, stored.table("counts", (len(cells),), 0.0, LARGEST_COUNT))
