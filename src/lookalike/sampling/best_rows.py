"""Rows that satisfy many weighted queries: the oracle of DualQuery and FEM, by coordinate ascent.

The papers solve an integer programme per row. Rows are made from released numbers only, so any search for them is
post-processing, and a local search for all rows at once is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lookalike.schema.domain import ColumnSet, Domain

Noise = Literal["gumbel", "exponential"]

_MIN_SHARE = 1e-6
_MIN_RATIO = 1e-4
_MAX_SCORES = 20_000_000


class PerturbedLeader:
    """Weights of cells, and rows that each maximise the weights of their cells plus independent noise.

    A row x maximises sum_a (field_a(x_a) + noise_a(x_a)) + sum_q weight_q * [x is in the cell of q], with new noise
    for every row, column and value. With Gumbel noise, fields log(distribution) and no weights, rows are exactly
    independent draws from the distributions; weights then change them much as factors exp(weight) would (perturb and
    maximise).

    Attributes:
        domain: names and sizes of the columns.
        fields: for every column one number per value.
        weights: one table per column set of any query.
    """

    def __init__(self, domain: Domain, distributions: Sequence[np.ndarray]) -> None:
        self.domain = domain
        self.fields = [np.log(np.maximum(distribution, _MIN_SHARE)) for distribution in distributions]
        self.weights: dict[ColumnSet, np.ndarray] = {}

    def prefer(self, clique: ColumnSet, cell: tuple[int, ...], weight: float) -> None:
        """Add to the weight of a cell; a negative weight makes rows avoid it."""
        if clique not in self.weights:
            self.weights[clique] = np.zeros(self.domain.shape(clique), dtype=np.float32)
        self.weights[clique][cell] += weight

    def keep_columns(self, distributions: Sequence[np.ndarray], codes: np.ndarray, rate: float) -> None:
        """Move the fields so that columns of the next rows are nearer to their distributions than those of `codes`.

        This is one damped step of proportional fitting to the known distributions, which costs no budget.
        """
        for i, (field, distribution) in enumerate(zip(self.fields, distributions, strict=True)):
            found = (np.bincount(codes[:, i], minlength=len(distribution)) + 1.0) / (len(codes) + len(distribution))
            field += rate * np.log(np.maximum(distribution, _MIN_RATIO) / np.maximum(found, _MIN_RATIO))

    def rows(self, count: int, rng: np.random.Generator, *, noise: Noise = "gumbel", sweeps: int = 3) -> np.ndarray:
        """Return codes of `count` rows, int32: the best rows without weights, then `sweeps` passes over all columns.

        In a pass each column takes its best value given the others, so that no step makes a row worse. The result need
        not be the global maximum.
        """
        block = max(1, _MAX_SCORES // sum(self.domain.sizes))
        if count > block:
            parts = [min(block, count - done) for done in range(0, count, block)]
            return np.asfortranarray(np.concatenate([self.rows(n, rng, noise=noise, sweeps=sweeps) for n in parts]))
        draw = rng.gumbel if noise == "gumbel" else rng.exponential
        alone = [(field + draw(size=(count, len(field)))).astype(np.float32) for field in self.fields]
        codes = np.column_stack([scores.argmax(axis=1) for scores in alone]).astype(np.int32, order="F")
        weighted = [[clique for clique in self.weights if name in clique] for name in self.domain.names]
        for _ in range(sweeps if self.weights else 0):
            for column in rng.permutation(len(self.domain)):
                if weighted[column]:
                    tied = self._weights_of_values(column, weighted[column], codes)
                    codes[:, column] = (alone[column] + tied).argmax(axis=1)
        return codes

    def _weights_of_values(self, column: int, cliques: Sequence[ColumnSet], codes: np.ndarray) -> np.ndarray:
        """Sum of the weights of each row for each value of the column, given the row's other columns."""
        scores = np.zeros((len(codes), self.domain.sizes[column]), dtype=np.float32)
        name = self.domain.names[column]
        for clique in cliques:
            others = tuple(codes[:, self.domain.position(other)] for other in clique if other != name)
            scores += np.moveaxis(self.weights[clique], clique.index(name), -1)[others]
        return scores
