"""Every number that is computed from the data to steer a method, with its sensitivity and why.

The door evaluates these and nothing else. `sensitivity` is what adding or removing ONE row changes at most; the door
scales it for other neighbours. Scores are integers in units of 1/resolution, so that exact integer noise serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookalike.schema.domain import Clique

Counts = NDArray[np.int64]


class Score(Protocol):
    """One number per candidate, a function of exact marginals and of public settings."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that `evaluate` needs, in the order it needs them."""
        ...

    @property
    def resolution(self) -> int:
        """Scores are multiples of 1/resolution."""
        ...

    @property
    def sensitivity(self) -> Fraction:
        """Most that one added or removed row changes any single score."""
        ...

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        """The exact scores times `resolution`. Private: only the door calls this."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ResidualL1:
    """L1 distance in counts between each marginal and a fixed public reference, such as a noisy model's answer.

    score_i = || M_i(D) - round(reference_i) ||_1

    Sensitivity 1: the reference does not depend on the data, and one row changes one cell of M_i by one, so by the
    triangle inequality the norm moves by at most one. Rounding happens to the reference, before the distance.
    """

    cliques: tuple[Clique, ...]
    references: tuple[np.ndarray, ...]

    resolution: int = 1

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.references):
            raise ValueError(f"{len(self.cliques)} marginals but {len(self.references)} references")
        if self.resolution != 1:
            raise ValueError("counts have resolution 1")

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(1)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        distances = [
            np.abs(count - np.rint(reference).astype(np.int64)).sum()
            for count, reference in zip(counts, self.references, strict=True)
        ]
        return np.array(distances, dtype=np.int64)
