"""A Bayesian network whose first columns come from one noisy histogram: what seeds give, for any number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.generate.bayes_net import SAMPLE_ROWS, BayesNet, counted
from lookalike.generate.model import Parts
from lookalike.generate.stored import LARGEST_COUNT, Stored
from lookalike.schema.domain import Domain
from lookalike.tables.prefixes import PrefixCounts

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

    network: BayesNet
    cells: np.ndarray
    counts: np.ndarray

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return self.network.total

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Expected counts, counted in a sample of a million rows with a fixed seed."""
        sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
        return [counted(self.domain, sampled, clique) * (self.total / SAMPLE_ROWS) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        codes = np.zeros((rows, len(self.domain)), dtype=np.int32, order="F")
        level = self.cells.shape[1]
        places = [self.domain.position(name) for name in self.network.order[:level]]
        mass = float(self.counts.sum())
        frequent = rng.random(rows) < mass / max(mass, self.total)
        kept = np.where(frequent, level, 0)
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
        known = PrefixCounts(self.cells, [self.domain.sizes[place] for place in places])
        for _ in range(_TRIES):
            rows = rows[known.of_codes(codes[rows][:, places])[:, -1] > 0]
            if rows.size == 0:
                return
            again = np.asfortranarray(codes[rows])
            self.network.resample(again, np.zeros(len(rows), dtype=np.int64), rng)
            codes[rows] = again

    def to_parts(self) -> Parts:
        meta, arrays = self.network.to_parts()
        return {"network": meta}, {**arrays, "cells": self.cells, "counts": self.counts}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        network = BayesNet.from_parts(stored.value("network", dict), arrays)
        counts = stored.weights("counts", 1, LARGEST_COUNT) if arrays.get("counts", np.empty(0)).size else np.empty(0)
        if not counts.size:
            return cls(network, np.empty((0, arrays["cells"].shape[1]), dtype=np.int32), counts)
        sizes = [network.domain.size(name) for name in network.order[: arrays["cells"].shape[-1]]]
        cells = stored.codes("cells", sizes)
        stored.require(bool((counts >= 0).all()) and len(cells) == len(counts), "has counts that do not fit its cells")
        return cls(network, cells, counts)
