"""A fixed set of released rows as a model: all there is to sample, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.errors import BudgetError
from lookalike.generate.bayes_net import BayesNet, counted
from lookalike.generate.model import Parts
from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedRows:
    """Rows that were paid for one by one, such as those grown from seeds. `total` is their number.

    Attributes:
        network: the model that the rows were grown with; itself private, so that it may be given away with them.
        codes: the rows, int32, columns in domain order.
    """

    kind: ClassVar[str] = "released-rows"

    network: BayesNet
    codes: np.ndarray

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return float(len(self.codes))

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return counted(self.domain, self.codes, attrs)

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
        meta, arrays = self.network.to_parts()
        return {"network": meta}, {**arrays, "codes": self.codes}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        network = BayesNet.from_parts(stored.value("network", dict), arrays)
        return cls(network, stored.codes("codes", network.domain.sizes))
