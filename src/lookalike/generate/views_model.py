"""Rows made from views, with marginals reconstructed from the views themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.estimate.reconstruct import reconstruct
from lookalike.generate.model import Parts
from lookalike.generate.rows_model import RowsModel
from lookalike.schema.domain import Domain

MAX_CELLS = 100_000
"""Largest marginal that is reconstructed; larger ones are counted in the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewsModel:
    """Consistent marginals and rows that follow them. Marginals come from the former, samples from the latter.

    Attributes:
        rows: the rows with the consistent marginals they were made from.
    """

    kind: ClassVar[str] = "views"

    rows: RowsModel

    @property
    def domain(self) -> Domain:
        return self.rows.domain

    @property
    def total(self) -> float:
        return self.rows.total

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """The table of greatest entropy that has all projections of the views; the rows' histogram if large."""
        clique = self.domain.canonical(attrs)
        if self.domain.cells(clique) > MAX_CELLS:
            return self.rows.marginal(clique)
        return reconstruct(self.rows.targets, clique)

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        return self.rows.sample(rows, rng)

    def to_parts(self) -> Parts:
        return self.rows.to_parts()

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        return cls(RowsModel.from_parts(meta, arrays))
