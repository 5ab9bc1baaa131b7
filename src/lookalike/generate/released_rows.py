"""A fixed set of released rows as a model: all there is to sample, and no more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.errors import BudgetError
from lookalike.generate.model import Parts
from lookalike.schema.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedRows:
    """Rows that were paid for one by one, such as those grown from seeds. `total` is their number.

    Attributes:
        domain: names and sizes of the columns.
        codes: the rows, int32, columns in domain order.
    """

    kind: ClassVar[str] = "released-rows"

    domain: Domain
    codes: np.ndarray

    @property
    def total(self) -> float:
        return float(len(self.codes))

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        clique = self.domain.canonical(attrs)
        shape = self.domain.shape(clique)
        columns = [self.codes[:, self.domain.position(name)] for name in clique]
        cells = np.ravel_multi_index(columns, shape) if clique else np.zeros(len(self.codes), dtype=np.int64)
        return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Different released rows in random order; refused where more are asked for than were paid for."""
        if rows > len(self.codes):
            raise BudgetError(
                f"{rows:,} rows were asked for, but {len(self.codes):,} were released from seeds, each at a price. "
                "Ask for fewer, raise seeded_rows, or set omega='all' for a model that makes any number."
            )
        return np.asfortranarray(self.codes[rng.permutation(len(self.codes))[:rows]])

    def to_parts(self) -> Parts:
        domain = dict(zip(self.domain.names, self.domain.sizes, strict=True))
        return {"domain": domain}, {"codes": self.codes}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        return cls(Domain.of(meta["domain"]), arrays["codes"])
