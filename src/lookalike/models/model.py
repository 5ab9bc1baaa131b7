"""The interface of all fitted models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol, Self

import numpy as np

from lookalike.models.stored import Stored
from lookalike.schema.domain import Domain


class Model(Protocol):
    """A distribution over the rows of a domain, made from noisy numbers only: using it costs no budget."""

    kind: ClassVar[str]

    @property
    def domain(self) -> Domain: ...

    @property
    def total(self) -> float:
        """Estimated number of rows of the private table."""
        ...

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the expected counts of the marginal, axes in domain order, adding up to `total`."""
        ...

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        """Return several marginals, which may be much faster than one by one."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return the codes of `rows` synthetic rows: int32, columns in domain order."""
        ...

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """Return the model that `stored.taken_apart` took apart; a ModelFileError if the parts do not make a model."""
        ...
