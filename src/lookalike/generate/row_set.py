"""A set of synthetic rows as a model: the rows are the distribution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.generate.bayes_net import counted
from lookalike.generate.model import Parts
from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class RowSet:
    """Rows that all count the same, made from released numbers only.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        codes: the rows, columns in domain order.
    """

    kind: ClassVar[str] = "row-set"

    domain: Domain
    total: float
    codes: np.ndarray

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.domain) or not len(self.codes):
            raise ValueError(f"rows of shape {self.codes.shape} for {len(self.domain)} columns")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """The rows' histogram, scaled to `total`."""
        return counted(self.domain, self.codes, attrs) * (self.total / len(self.codes))

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Every row of the set as often as any other, give or take one, in random order."""
        whole, rest = divmod(rows, len(self.codes))
        order = rng.permutation(len(self.codes))
        chosen = np.concatenate([np.tile(order, whole), order[:rest]])
        return np.asfortranarray(self.codes[rng.permutation(chosen)].astype(np.int32))

    def to_parts(self) -> Parts:
        meta = {"domain": dict(zip(self.domain.names, self.domain.sizes, strict=True)), "total": self.total}
        return meta, {"codes": self.codes.astype(np.min_scalar_type(max(self.domain.sizes) - 1))}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        domain = stored.domain()
        return cls(domain, stored.total(), stored.codes("codes", domain.sizes))
