"""Rows that satisfy as many weighted queries as they can: the oracle of DualQuery and FEM, by coordinate ascent.

The papers solve an integer programme per row. Rows come from released numbers only, so that whatever search makes them
is post-processing, and a local search of all rows at once serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lookalike.schema.domain import ColumnSet, Domain

Noise = Literal["gumbel", "exponential"]

_LEAST_SHARE = 1e-6
_LEAST_RATIO = 1e-4
_MAX_SCORES = 20_000_000


class PerturbedLeader:
    """Weights of cells, and rows that each maximise the weights of their own cells plus noise of their own.

    A row x maximises sum_a (field_a(x_a) + noise_a(x_a)) + sum_q weight_q * [x is in the cell of q], with fresh noise
    for every value of every column. With Gumbel noise, fields log(distribution) and no weights, rows are exactly
    independent draws from the distributions; weights then tilt them, much as exp(weights) would (perturb and maximise).

    Attributes:
        domain: names and sizes of the columns.
        fields: for every column one number per value.
        weights: a table per column set that any query was about.
    """

    def __init__(self, domain: Domain, distributions: Sequence[np.ndarray]) -> None:
        self.domain = domain
        self.fields = [np.log(np.maximum(distribution, _LEAST_SHARE)) for distribution in distributions]
        self.weights: dict[ColumnSet, np.ndarray] = {}

    def prefer(self, clique: ColumnSet, cell: tuple[int, ...], weight: float) -> None:
        """Add to the weight of a cell; less than 0 to avoid it."""
        if clique not in self.weights:
            self.weights[clique] = np.zeros(self.domain.shape(clique), dtype=np.float32)
        self.weights[clique][cell] += weight

    def keep_columns(self, distributions: Sequence[np.ndarray], codes: np.ndarray, rate: float) -> None:
        """Move the fields so that columns of future rows are nearer to their distributions than those of these rows.

        One damped step of proportional fitting on known one-way marginals, which costs nothing.
        """
        for i, (field, distribution) in enumerate(zip(self.fields, distributions, strict=True)):
            found = (np.bincount(codes[:, i], minlength=len(distribution)) + 1.0) / (len(codes) + len(distribution))
            field += rate * np.log(np.maximum(distribution, _LEAST_RATIO) / np.maximum(found, _LEAST_RATIO))

    def rows(self, count: int, rng: np.random.Generator, *, noise: Noise = "gumbel", sweeps: int = 3) -> np.ndarray:
        """Codes of `count` rows, int32: from each row's best without weights, `sweeps` passes over its columns.

        In a pass each column takes its best value given the others, so that no step makes a row worse. The result is a
        local maximum, not always the largest.
        """
        block = max(1, _MAX_SCORES // sum(self.domain.sizes))
        if count > block:
            parts = [min(block, count - done) for done in range(0, count, block)]
            return np.asfortranarray(np.concatenate([self.rows(n, rng, noise=noise, sweeps=sweeps) for n in parts]))
        draw = rng.gumbel if noise == "gumbel" else rng.exponential
        alone = [(field + draw(size=(count, len(field)))).astype(np.float32) for field in self.fields]
        codes = np.column_stack([scores.argmax(axis=1) for scores in alone]).astype(np.int32, order="F")
        touched = [[clique for clique in self.weights if name in clique] for name in self.domain.names]
        for _ in range(sweeps if self.weights else 0):
            for column in rng.permutation(len(self.domain)):
                if touched[column]:
                    codes[:, column] = (alone[column] + self._tied(column, touched[column], codes)).argmax(axis=1)
        return codes

    def _tied(self, column: int, cliques: Sequence[ColumnSet], codes: np.ndarray) -> np.ndarray:
        """Weights that each value of the column would bring to each row, given the row's other columns."""
        scores = np.zeros((len(codes), self.domain.sizes[column]), dtype=np.float32)
        name = self.domain.names[column]
        for clique in cliques:
            others = tuple(codes[:, self.domain.position(other)] for other in clique if other != name)
            scores += np.moveaxis(self.weights[clique], clique.index(name), -1)[others]
        return scores
