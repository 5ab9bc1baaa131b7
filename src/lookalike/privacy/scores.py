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


@dataclass(frozen=True, slots=True, eq=False)
class GroupedResidualL1:
    """L1 distance in counts between sums over groups of each marginal's cells and fixed public sums.

    score_i = || G_i M_i(D) - round(reference_i) ||_1, where G_i adds up the cells of each group

    Sensitivity 1: groups and references are public (a model's), every cell is in one group, so one row changes one
    group's sum by one, and the norm by at most one. What groups of a few hundred rows hide, the chance unevenness of
    thousands of almost empty cells, would otherwise pass for an error that measuring could remove.

    Attributes:
        cliques: the marginals.
        references: one number per group and marginal.
        groups: for each marginal the group of every cell, 0..len(reference)-1, in the marginal's shape.
    """

    cliques: tuple[Clique, ...]
    references: tuple[np.ndarray, ...]
    groups: tuple[np.ndarray, ...]

    resolution: int = 1

    def __post_init__(self) -> None:
        if not len(self.cliques) == len(self.references) == len(self.groups):
            raise ValueError(
                f"{len(self.cliques)} marginals, {len(self.references)} references and {len(self.groups)} partitions"
            )
        for clique, reference, groups in zip(self.cliques, self.references, self.groups, strict=True):
            if groups.size and not 0 <= groups.min() <= groups.max() < len(reference):
                raise ValueError(f"groups of {clique} must be numbered from 0 to {len(reference) - 1}")
        if self.resolution != 1:
            raise ValueError("counts have resolution 1")

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(1)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        distances = []
        for count, reference, groups in zip(counts, self.references, self.groups, strict=True):
            sums = np.zeros(len(reference), dtype=np.int64)
            np.add.at(sums, groups.ravel(), count.ravel())
            distances.append(np.abs(sums - np.rint(reference).astype(np.int64)).sum())
        return np.array(distances, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class IndependenceGap:
    """L1 distance in counts between each pair's marginal and the product of its own 1-ways: PrivSyn's InDif.

    score_ab = || M_ab - M_a x M_b / n ||_1, rounded down to a multiple of 1/resolution

    Sensitivity 4 + 1/resolution. With P the pair's frequencies, Q the product of their 1-ways, and a row added in cell
    (a, b), let lam = 1/(n + 1). Then P' - Q' = (1 - lam) [(P - Q) + lam (e_a - P_a)(e_b - P_b)^T], so in counts
    (n + 1)(P' - Q') - n (P - Q) = n lam (e_a - P_a)(e_b - P_b)^T, whose L1 norm is at most 4 n/(n + 1) < 4 (each factor
    has an L1 norm of at most 2). Rounding both scores down adds less than 1/resolution. The reference depends on the
    data here, hence four times the noise of `ResidualL1`; use that one unless you repeat the paper.
    """

    cliques: tuple[Clique, ...]

    resolution: int = 1000

    def __post_init__(self) -> None:
        if any(len(clique) != 2 for clique in self.cliques):
            raise ValueError("the independence gap is a score of pairs")
        if self.resolution < 1:
            raise ValueError(f"resolution is {self.resolution}; it must be at least 1")

    @property
    def sensitivity(self) -> Fraction:
        return 4 + Fraction(1, self.resolution)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        gaps: list[int] = []
        for count in counts:
            rows = int(count.sum())
            product = np.multiply.outer(count.sum(axis=1), count.sum(axis=0))
            # n times the score is a whole number below 2 n^2, so that the division below is the only rounding.
            scaled = int(np.abs(rows * count - product).sum())
            gaps.append(scaled * self.resolution // max(rows, 1))
        return np.array(gaps, dtype=np.int64)
