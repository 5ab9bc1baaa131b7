"""A trained generator network as a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.generate.bayes_net import counted
from lookalike.generate.model import Parts
from lookalike.generate.network import Generator
from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain

SAMPLE_ROWS = 50_000
"""Rows in which marginals are counted. A cell of probability p is off by sqrt(p / 5e4)."""

_LARGEST_WEIGHT = 1e6
_WEIGHTS = ("first", "first_bias", "second", "second_bias")


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

    def to_parts(self) -> Parts:
        meta = {"domain": dict(zip(self.domain.names, self.domain.sizes, strict=True)), "total": self.total}
        return meta, dict(zip(_WEIGHTS, self.generator.weights, strict=True))

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        domain = stored.domain()
        axes = zip(_WEIGHTS, (2, 1, 2, 1), strict=True)
        first, bias, second, values = (stored.weights(name, count, _LARGEST_WEIGHT) for name, count in axes)
        return cls(domain, stored.total(), Generator(domain.sizes, (first, bias, second, values)))
