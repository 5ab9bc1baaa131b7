"""The scores: numbers that are computed from exact counts to steer a method, each with a proof of its sensitivity.

`sensitivity` is the largest change by adding or removing ONE row; the door scales it for other neighbours. Scores are
integers in units of 1/resolution, so that exact integer noise can be added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lookalike.schema.domain import ColumnSet

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ResidualL1:
    """L1 distance in counts between each marginal and a fixed public reference, such as a noisy model's answer.

    score_i = || M_i(D) - round(reference_i) ||_1

    Sensitivity 1: the reference does not depend on the data, and one row changes one cell of M_i by one, so by the
    triangle inequality the norm moves by at most one. Rounding happens to the reference, before the distance.
    """

    resolution: ClassVar[int] = 1
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    references: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        _check_lengths(marginals=self.cliques, references=self.references)

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
    group's sum by one, and the norm by at most one. With groups of a few hundred rows, the sampling error of thousands
    of almost empty cells is not mistaken for an error that measuring could remove.

    Attributes:
        cliques: the marginals.
        references: one number per group and marginal.
        groups: for each marginal the group of every cell, 0..len(reference)-1, in the marginal's shape.
    """

    resolution: ClassVar[int] = 1
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    references: tuple[np.ndarray, ...]
    groups: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        _check_lengths(marginals=self.cliques, references=self.references, groups=self.groups)
        for clique, reference, groups in zip(self.cliques, self.references, self.groups, strict=True):
            if groups.size and not 0 <= groups.min() <= groups.max() < len(reference):
                raise ValueError(f"groups of {clique} must be numbered from 0 to {len(reference) - 1}")

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        distances: list[int] = []
        for count, reference, groups in zip(counts, self.references, self.groups, strict=True):
            sums = np.zeros(len(reference), dtype=np.int64)
            np.add.at(sums, groups.ravel(), count.ravel())
            distances.append(int(np.abs(sums - np.rint(reference).astype(np.int64)).sum()))
        return np.array(distances, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CellGaps:
    """For every cell of each marginal, by how many rows the data lie above, or below, a fixed public reference.

    score_ic = sign_i * (M_i(D)_c - round(reference_i)_c), one number per cell, marginals one after another

    The signed counting queries of DualQuery, FEM and RAP, as cells of k-way marginals. Sensitivity 1: a row changes one
    cell of M_i by one. It changes no other cell of that marginal, so that all numbers together move by at most one per
    marginal in squared L2 norm, which is what `GuardedTable.noisy_scores` charges. A marginal of which both signs
    are wanted is listed twice.

    Attributes:
        cliques: the marginals.
        references: counts to compare with, of each marginal's shape.
        signs: 1 for cells with more rows than the reference, -1 for cells with fewer, for each marginal.
    """

    resolution: ClassVar[int] = 1
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    references: tuple[np.ndarray, ...]
    signs: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_lengths(marginals=self.cliques, references=self.references, signs=self.signs)
        if any(abs(sign) != 1 for sign in self.signs):
            raise ValueError("signs are 1 or -1: others would change the sensitivity")

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        gaps = [
            sign * (count - np.rint(reference).astype(np.int64)).ravel()
            for count, reference, sign in zip(counts, self.references, self.signs, strict=True)
        ]
        return np.concatenate(gaps)


@dataclass(frozen=True, slots=True, eq=False)
class IndependenceGap:
    """L1 distance in counts between each marginal and the product of two parts of it: PrivSyn's InDif of a pair.

    score_ab = || M_ab - M_a x M_b / n ||_1, rounded down to a multiple of 1/resolution

    Here a is one column, by default the first, and b all others of the set taken as one: n R(a, b) of PrivBayes and
    PrivMRF is half of it.

    Sensitivity 4 + 1/resolution. With P the pair's frequencies, Q the product of their 1-ways, and a row added in cell
    (a, b), let lam = 1/(n + 1). Then P' - Q' = (1 - lam) [(P - Q) + lam (e_a - P_a)(e_b - P_b)^T], so in counts
    (n + 1)(P' - Q') - n (P - Q) = n lam (e_a - P_a)(e_b - P_b)^T, whose L1 norm is at most 4 n/(n + 1) < 4 (each factor
    has an L1 norm of at most 2). Rounding both scores down adds less than 1/resolution. The reference depends on the
    data here, hence four times the noise of `ResidualL1`; use that one except to reproduce a paper.

    Attributes:
        cliques: the marginals.
        children: the column a of each set; empty for the first of every set.
    """

    resolution: ClassVar[int] = 1000
    sensitivity: ClassVar[Fraction] = 4 + Fraction(1, resolution)

    cliques: tuple[ColumnSet, ...]
    children: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.children and any(len(clique) != 2 for clique in self.cliques):
            raise ValueError("the independence gap is a score of pairs, or of families whose children are given")
        _check_children(self.cliques, self._children)

    @property
    def _children(self) -> tuple[str, ...]:
        return self.children or tuple(clique[0] for clique in self.cliques)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        gaps: list[int] = []
        for count in _children_first(self.cliques, self._children, counts):
            rows = int(count.sum())
            product = np.multiply.outer(count.sum(axis=1), count.sum(axis=0))
            # n times the score is a whole number below 2 n^2, so that the division below is the only rounding.
            scaled = int(np.abs(rows * count - product).sum())
            gaps.append(scaled * self.resolution // max(rows, 1))
        return np.array(gaps, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyGap:
    """Half the L1 distance in counts of each family from one whose child ignores its parents, by a known distribution.

    score = 1/2 || M_ab - p_a x M_b ||_1, with a the child, b its parents taken as one, and p_a a public distribution

    Half of `IndependenceGap` where p_a is the child's own distribution. Sensitivity 1: a row (a, b) moves M_ab - p_a x
    M_b by (e_a - p_a) x e_b, of L1 norm 2 (1 - p_a(a)) <= 2. It is n R of PrivBayes with half its sensitivity, because
    p_a is fixed (a released, noisy 1-way) and the parents' counts are not in a product with another count.

    The distributions are taken in units of 2^-20; from then on arithmetic is in whole numbers and nothing is rounded.

    Attributes:
        cliques: the families.
        children: the child of each.
        distributions: distribution of every child, non-negative, by name.
    """

    resolution: ClassVar[int] = 2 << 20
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    children: tuple[str, ...]
    distributions: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        _check_children(self.cliques, self.children)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        whole = {name: _whole_distribution(self.distributions[name]) for name in set(self.children)}
        gaps = [
            np.abs((count << 20) - whole[child][:, None] * count.sum(axis=0)).sum()
            for child, count in zip(self.children, _children_first(self.cliques, self.children, counts), strict=True)
        ]
        return np.array(gaps, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PerfectGap:
    """How close each family is to one whose parents determine its binary child, with both values equally frequent.

    score = - min over x of (n/2 - sum_b x_b M_0b)_+ + (n/2 - sum_b (1 - x_b) M_1b)_+, in multiples of 1/resolution

    n F of PrivBayes (section 4.3), where x_b, the value that configuration b of the parents stands for, is 0 or 1. Here
    x_b may lie between: at most one of them does at the minimum, so the score is F but for the split of one
    configuration, and sorting finds it where F needs a dynamic programme over all pairs of sums.

    Sensitivity 1 + 1/resolution. For any fixed x a row (a, b) adds 1/2 to both n/2 and between 0 and 1 to one of the
    sums, so that each bracket moves by at most 1/2; a minimum of such functions moves by no more than they do.
    Rounding both scores down adds less than 1/resolution.
    """

    resolution: ClassVar[int] = 1000
    sensitivity: ClassVar[Fraction] = 1 + Fraction(1, resolution)

    cliques: tuple[ColumnSet, ...]
    children: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_children(self.cliques, self.children)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        families = _children_first(self.cliques, self.children, counts)
        return np.array([math.floor(-_least_misfit(count) * self.resolution) for count in families], dtype=np.int64)


def _least_misfit(count: Counts) -> Fraction:
    """The minimum in `PerfectGap`: along the line of best assignments, at a corner or where a bracket becomes 0.

    Configurations given to value 0 in falling order of its share there are best. Twice the misfit is piecewise linear
    along that order, with corners at whole configurations and where either sum reaches n/2. Shares are compared in
    floating point, which distinguishes any two while counts are below 2^26 and loses a part in 2^52 of a row beyond.
    """
    if len(count) > 2:
        raise ValueError(f"the child of a perfect gap is binary, not of {len(count)} values")
    zeros, ones = count[0], count[1] if len(count) > 1 else np.zeros_like(count[0])
    rows = int(count.sum())
    order = np.argsort(-zeros / np.maximum(zeros + ones, 1), kind="stable")
    first = np.concatenate([[0], np.cumsum(zeros[order])])
    second = int(ones.sum()) - np.concatenate([[0], np.cumsum(ones[order])])
    best = Fraction(int((np.maximum(rows - 2 * first, 0) + np.maximum(rows - 2 * second, 0)).min()), 2)
    half = Fraction(rows, 2)
    for rising, other in ((first, second), (second[::-1], first[::-1])):
        place = int(np.searchsorted(2 * rising, rows))
        if 0 < place < len(rising) and rising[place] > rising[place - 1]:
            part = (half - int(rising[place - 1])) / int(rising[place] - rising[place - 1])
            reached = int(other[place - 1]) + part * int(other[place] - other[place - 1])
            best = min(best, max(half - reached, Fraction(0)))
    return best


@dataclass(frozen=True, slots=True, eq=False)
class GradeProducts:
    """For each pair of columns the sum over all rows of the product of their values' public grades in [-1, 1].

    score_ab = sum over cells of M_ab(i, j) * grade_a(i) * grade_b(j)

    Spearman's rank correlation, in counts, where grades are mean ranks under released 1-ways. Sensitivity 1: a row adds
    one product of two numbers of at most 1 in size. Grades are whole multiples of 1/STEPS, so nothing is rounded.
    """

    STEPS: ClassVar[int] = 64
    resolution: ClassVar[int] = STEPS * STEPS
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    grades: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if any(len(clique) != 2 for clique in self.cliques):
            raise ValueError("products of grades are scores of pairs")
        for name, grade in self.grades.items():
            if np.abs(grade).max() > 1:
                raise ValueError(f"grades of {name!r} reach {np.abs(grade).max():g}; they must lie in [-1, 1]")

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        whole = {name: np.rint(grade * self.STEPS).astype(np.int64) for name, grade in self.grades.items()}
        sums = [whole[a] @ count @ whole[b] for (a, b), count in zip(self.cliques, counts, strict=True)]
        return np.array(sums, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Undetermined:
    """How many rows of each family break the best rule by which its other columns, taken as one, determine the child.

    score = n - sum over b of max over a of M_ab, with a the child and b a configuration of the others

    The rule that gives every b its most frequent a is broken by these rows, and every other rule by at least as many.
    Sensitivity 1: a row added in cell (a, b) adds one to n, and 0 or 1 to the largest count of b, so that the score
    grows by 1 or stays. Whole numbers: nothing is rounded.
    """

    resolution: ClassVar[int] = 1
    sensitivity: ClassVar[Fraction] = Fraction(1)

    cliques: tuple[ColumnSet, ...]
    children: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_children(self.cliques, self.children)

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        families = _children_first(self.cliques, self.children, counts)
        return np.array([count.sum() - count.max(axis=0).sum() for count in families], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PaddedEntropy:
    """The entropy of each marginal of the table, filled up to N rows with an additional value, in units of h(1/N).

    score_i = (log2 m - 1/m sum_c c log2 c) / h(1/N), rounded down, over the counts c of M_i and m - n, m = max(n, N)

    Equation (8) of the plausible-deniability paper; h is the entropy of a coin. Its bound on the change, (9), needs the
    number of rows n, which is private, and with a noisy n above the true one the noise is too small. Here N is any
    public number, such as a noisy number of rows, and the bound holds whatever n is.

    Sensitivity 1 + 2/resolution. Up to N rows, a row takes the place of a filling one: N - 1 of N rows stay, and with
    any other row their entropy H becomes between (1 - 1/N) H and (1 - 1/N) H + h(1/N). From N rows on, it becomes
    between (1 - w) H and (1 - w) H + h(w), w = 1/(n + 1), where w H <= w log2 n < h(w) < h(1/N). Rounding down adds
    less than 1/resolution, floating point less than another.

    Attributes:
        cliques: the marginals.
        rows: N, from 2 to 2^30.
    """

    resolution: ClassVar[int] = 4096
    sensitivity: ClassVar[Fraction] = 1 + Fraction(2, resolution)

    cliques: tuple[ColumnSet, ...]
    rows: int

    def __post_init__(self) -> None:
        if not 2 <= self.rows <= 1 << 30:
            raise ValueError(f"entropies are filled up to {self.rows} rows; it must be 2 to 2^30")

    @property
    def unit(self) -> float:
        """h(1/N) in bits: what a score of 1 stands for."""
        return (math.log(self.rows) + (self.rows - 1) * math.log1p(1 / (self.rows - 1))) / math.log(2) / self.rows

    def evaluate(self, counts: Sequence[Counts]) -> NDArray[np.int64]:
        scale = self.resolution / self.unit
        return np.array([math.floor(self._entropy(count) * scale) for count in counts], dtype=np.int64)

    def _entropy(self, count: Counts) -> float:
        real = int(count.sum())
        rows = max(real, self.rows)
        filled = np.append(count[count > 0], rows - real or 1).astype(np.float64)
        return math.log2(rows) - math.fsum((filled * np.log2(filled)).tolist()) / rows


def _check_lengths(**lists: Sequence[object]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        counts = ", ".join(f"{len(values)} {name}" for name, values in lists.items())
        raise ValueError(f"A score has {counts}; give as many of each.")


def _check_children(cliques: Sequence[ColumnSet], children: Sequence[str]) -> None:
    _check_lengths(families=cliques, children=children)
    for clique, child in zip(cliques, children, strict=True):
        if child not in clique:
            raise ValueError(f"{child!r} is not in its family {clique}")


def _children_first(cliques: Sequence[ColumnSet], children: Sequence[str], counts: Sequence[Counts]) -> list[Counts]:
    """Counts as matrices: one row per value of the child, one column per configuration of its parents."""
    axes = [clique.index(child) for clique, child in zip(cliques, children, strict=True)]
    return [np.moveaxis(count, i, 0).reshape(count.shape[i], -1) for i, count in zip(axes, counts, strict=True)]


def _whole_distribution(distribution: np.ndarray) -> NDArray[np.int64]:
    """The distribution in units of 2^-20: non-negative whole numbers that add up to 2^20."""
    ends = np.rint(np.cumsum(distribution) / distribution.sum() * (1 << 20)).astype(np.int64)
    return np.diff(ends, prepend=0)
