"""A trained generator network as a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from lookalike.generate.network import Generator
from lookalike.generate.stored import Stored
from lookalike.schema.cells import counted
from lookalike.schema.domain import Domain

SAMPLE_ROWS = 50_000
"""Rows in which marginals are counted. A cell of probability p is off by sqrt(p / 5e4)."""

_LARGEST_WEIGHT = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    """Rows made by a network from random numbers.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        generator: the network.
    """

    kind: ClassVar[str] = "network"

    domain: Domain
    total: float
    generator: Generator
    _counted: list[np.ndarray] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.generator.sizes != self.domain.sizes:
            raise ValueError(f"a network for columns of {self.generator.sizes} values, not {self.domain.sizes}")

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of `rows` independent rows."""
        return self.generator.sample(rows, rng)

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Expected counts, from a sample of a fixed seed that is made when first asked for."""
        if not self._counted:
            self._counted.append(self.sample(SAMPLE_ROWS, np.random.default_rng(0)))
        return counted(self.domain, self._counted[0], attrs) * (self.total / SAMPLE_ROWS)

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain, weights = stored.domain(), stored.part("generator").entries("weights")
        first, bias, second, values = (
            weights.weights(str(i), axes, _LARGEST_WEIGHT) for i, axes in enumerate((2, 1, 2, 1))
        )
        return cls(domain, stored.total(), Generator(domain.sizes, (first, bias, second, values)))
