"""A model that holds a probability for every possible row: for small domains only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain


class DenseModel:
    """A table of probabilities over the whole domain.

    Attributes:
        domain: all attributes.
        probabilities: one number per cell of the domain, in domain order, adding up to 1.
        total: the number of rows the model stands for; marginals sum to it.
    """

    kind: ClassVar[str] = "dense"

    def __init__(self, domain: Domain, probabilities: np.ndarray, total: float) -> None:
        if probabilities.shape != domain.sizes:
            raise ValueError(f"probabilities have shape {probabilities.shape}, the domain {domain.sizes}")
        self.domain = domain
        self.probabilities = probabilities
        self.total = float(total)

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Expected counts of any attribute set, with axes in domain order; they sum to `total`."""
        kept = set(self.domain.canonical(attrs))
        dropped = tuple(axis for axis, name in enumerate(self.domain.names) if name not in kept)
        return self.total * self.probabilities.sum(axis=dropped)

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Expected counts of several attribute sets."""
        return [self.marginal(attrs) for attrs in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of codes in random order: evenly spaced points of the cumulative distribution from one random offset.

        Every row alone has the model's distribution, and no cell is off its expected count by more than one row.
        """
        ends = np.cumsum(self.probabilities.ravel())
        points = (np.arange(rows) + rng.random()) * (ends[-1] / max(rows, 1))
        cells = np.minimum(np.searchsorted(ends, points, side="right"), ends.size - 1)
        columns = np.unravel_index(rng.permutation(cells), self.domain.sizes)
        return np.asfortranarray(np.column_stack(columns).astype(np.int32))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and arrays from which `from_parts` makes the same model."""
        meta = {"names": list(self.domain.names), "sizes": list(self.domain.sizes), "total": self.total}
        return meta, {"probabilities": self.probabilities}

    @classmethod
    def from_parts(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> DenseModel:
        """The model that `to_parts` took apart."""
        stored = Stored(meta, arrays)
        domain = stored.domain()
        probabilities = stored.table("probabilities", domain.sizes, 0.0, 1.0)
        stored.require(abs(float(probabilities.sum()) - 1.0) < 1e-3, "has probabilities that do not add up to 1")
        return cls(domain, probabilities, stored.total())
