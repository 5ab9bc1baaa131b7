"""What every fitted model can do, whatever method made it, and how it is taken apart for storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from lookalike.schema.domain import Domain

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]
"""A model as JSON values and named arrays: all that the open file format holds."""


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
        """Expected counts of the marginal, axes in domain order, adding up to `total`."""
        ...

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        """Several marginals at once, which may be much cheaper than one by one."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of `rows` synthetic rows: int32, one column per attribute."""
        ...

    def to_parts(self) -> Parts: ...

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self: ...
