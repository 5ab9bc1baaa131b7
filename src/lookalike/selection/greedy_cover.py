"""Greedy choice of column sets: the most error per weight first, until the next set adds more noise than it removes.

A set of c effective cells has the weight c^(2/3). When a budget rho is shared by weight, the noise of all chosen sets
has an expected L1 norm of (sum of weights)^(3/2) / sqrt(pi rho) (`steps.noise_error`). A set of k columns is paid
for once and covers the errors of all k(k-1)/2 pairs in it: of binary columns, sets of four to six cost least per pair.
This is PrivSyn's rule (section 4.1, Algorithm 1) for sets of any size, with the best ratio taken first.

`greedy_cover` is the rule; three kinds of candidates offer the next set: sets that are listed, sets that grow from
pairs, and sets whose own errors were released. Everything works on released numbers and public facts only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol, TypeVar

import numpy as np

from lookalike.guards import MAX_PAIR_CELLS
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.candidate_sets import Candidates
from lookalike.selection.determined import OpenErrors
from lookalike.selection.pricing import EffectiveCells
from lookalike.selection.steps import noise_error, top_up

Key = TypeVar("Key")

_SEEDS = 12
"""Pairs from which a set is grown in each step, those of most error per weight: a bound on the time of a step, from the
first version of mosaic. No page compares other values."""


class Offers(Protocol[Key]):
    """Candidates for a greedy cover."""

    def best(self) -> tuple[Key, float, float] | None:
        """Return the candidate of most open error per weight, that error and the weight; None if none covers any."""
        ...

    def take(self, key: Key) -> None:
        """Mark the errors that the candidate covers as no longer open."""
        ...


def greedy_cover(
    offers: Offers[Key], rho: float, caution: float, *, weight: float = 0.0, at_least_one: bool = False
) -> tuple[list[Key], np.ndarray]:
    """Return the candidates worth measuring, most error per weight first, and their weights.

    Args:
        offers: the candidates.
        rho: budget that the chosen sets, and those measured before, share.
        caution: factor on the expected noise; below 1 because joint estimation removes part of the noise.
        weight: of the sets that were measured before.
        at_least_one: take the first candidate even if its noise exceeds its error.
    """
    chosen: list[Key] = []
    weights: list[float] = []
    while (found := offers.best()) is not None:
        key, error, own = found
        added = caution * (noise_error(weight + own, rho) - noise_error(weight, rho))
        if error <= added and not (at_least_one and not chosen):
            break
        chosen.append(key)
        weights.append(own)
        weight += own
        offers.take(key)
    return chosen, np.array(weights)


class ListedSets:
    """Offers the sets of a list, which cover the errors of the pairs in them.

    Args:
        candidates: the sets.
        weights: of each.
        errors: symmetric matrix of the pairs' (noisy) L1 errors in counts; negative ones count as 0.
    """

    def __init__(self, candidates: Candidates, weights: np.ndarray, errors: np.ndarray) -> None:
        self._inside, self._weights = candidates.members, weights
        self._members = candidates.members.astype(np.float32)
        self._open = np.maximum(errors, 0.0).astype(np.float32)
        np.fill_diagonal(self._open, 0.0)
        self._errors = self._covered(np.arange(len(candidates)))

    def best(self) -> tuple[int, float, float] | None:
        if not len(self._errors):
            return None
        best = int(np.argmax(self._errors / self._weights))
        return (best, float(self._errors[best]), float(self._weights[best])) if self._errors[best] > 0 else None

    def take(self, key: int) -> None:
        inside = np.flatnonzero(self._inside[key])
        self._open[np.ix_(inside, inside)] = 0.0
        # Only sets that share a pair with the chosen one lose anything.
        touched = np.flatnonzero(self._inside[:, inside].sum(axis=1) > 1)
        self._errors[touched] = self._covered(touched)

    def _covered(self, which: np.ndarray) -> np.ndarray:
        members = self._members[which]
        return 0.5 * ((members @ self._open) * members).sum(axis=1)


@dataclass(frozen=True, slots=True)
class SetLimits:
    """How large a measured set may become.

    Attributes:
        max_attrs: maximum number of columns of a set.
        max_cells: maximum cells of a set of three or more columns; pairs are candidates up to `max_pair_cells`.
        max_effective: maximum effective cells of a set of three or more columns; see `pricing.useful_cells`.
        max_pair_cells: maximum cells of a pair.
    """

    max_attrs: int = 4
    max_cells: int = 256
    max_effective: float = math.inf
    max_pair_cells: int = MAX_PAIR_CELLS

    def __post_init__(self) -> None:
        if self.max_attrs < 2 or self.max_cells < 4 or self.max_pair_cells < 4:
            raise ValueError(f"limits {self} must allow sets of 2 columns and 4 cells")


class GrownSets:
    """Offers sets that grow from pairs, one column at a time, while the covered error per weight rises.

    Args:
        domain: the columns.
        errors: symmetric matrix of the pairs' (noisy) L1 errors in counts; negative ones count as 0.
        cells: effective cells of a set.
        limits: how large sets may become.
        left: what pairs keep of their errors that follow from measured ones (`determined.left_open`); None: all.
        by_contrasts: weigh a set by its contrasts, which are what it costs, instead of its cells. The weight by cells
            prefers larger sets, whose joint counts are useful beyond the pairs once they exceed the noise.
    """

    def __init__(
        self,
        domain: Domain,
        errors: np.ndarray,
        cells: EffectiveCells,
        limits: SetLimits,
        left: np.ndarray | None = None,
        by_contrasts: bool = False,
    ) -> None:
        self.domain, self.cells, self.limits, self.by_contrasts = domain, cells, limits, by_contrasts
        self._errors = OpenErrors(errors, left)
        self._worth = self._errors.worth()
        self._weights: dict[tuple[int, ...], float] = {}
        self._pairs = self._pair_weights()

    def best(self) -> tuple[tuple[int, ...], float, float] | None:
        ratios = np.triu(np.where(self._worth > 0, self._worth / self._pairs, 0.0))
        seeds = np.argsort(ratios, axis=None)[::-1][: _SEEDS if self.limits.max_attrs > 2 else 1]
        best: tuple[float, tuple[int, ...], float] = (0.0, (), 0.0)
        for flat in seeds:
            pair = divmod(int(flat), len(self.domain))
            if ratios[pair] <= 0:
                break
            best = max(best, self._grown(pair, float(ratios[pair])))
        return (best[1], best[2], self._weight(best[1])) if best[1] else None

    def take(self, key: tuple[int, ...]) -> None:
        self._errors.take(key)
        self._worth = self._errors.worth()

    def names(self, key: tuple[int, ...]) -> ColumnSet:
        """Return the columns of an offered set."""
        return tuple(self.domain.names[i] for i in key)

    def _grown(self, members: tuple[int, ...], ratio: float) -> tuple[float, tuple[int, ...], float]:
        """Extend the pair by columns while error per weight rises; return that ratio, the columns and their error."""
        error, sizes = float(self._worth[members]), self.domain.sizes
        while len(members) < self.limits.max_attrs:
            gains = self._worth[list(members)].sum(axis=0)
            count = math.prod(sizes[i] for i in members)
            best = (ratio, members, error)
            for j in np.flatnonzero(gains > 0):
                if j in members or count * sizes[j] > self.limits.max_cells:
                    continue
                grown = tuple(sorted((*members, int(j))))
                if self.cells(self.names(grown)) <= self.limits.max_effective:
                    covered = error + float(gains[j])
                    best = max(best, (covered / self._weight(grown), grown, covered))
            if best[1] == members:
                break
            ratio, members, error = best
        return ratio, members, error

    def _weight(self, members: tuple[int, ...]) -> float:
        known = self._weights.get(members)
        if known is None:
            clique = self.names(members)
            size = self.cells.contrasts(clique) if self.by_contrasts else self.cells(clique)
            known = self._weights[members] = size ** (2 / 3)
        return known

    def _pair_weights(self) -> np.ndarray:
        """Return the weights of all pairs; infinite for those that are too large to be candidates."""
        sizes, width = self.domain.sizes, len(self.domain)
        weights = np.full((width, width), np.inf)
        for i, j in combinations(range(width), 2):
            if sizes[i] * sizes[j] <= self.limits.max_pair_cells:
                weights[i, j] = weights[j, i] = self._weight((i, j))
        return weights


class ScoredSets:
    """Offers sets whose own errors against the present model were released.

    Sets overlap, and so do their errors: the error of a set counts in proportion to those of its pairs that no chosen
    set holds.

    Args:
        cliques: the sets.
        errors: their noisy L1 errors.
        weights: of each.
    """

    def __init__(self, cliques: Sequence[ColumnSet], errors: np.ndarray, weights: np.ndarray) -> None:
        self._pairs = [frozenset(combinations(clique, 2)) for clique in cliques]
        self._errors, self._weights = np.maximum(np.asarray(errors, dtype=float), 0.0), weights
        self._covered: set[tuple[str, ...]] = set()

    def best(self) -> tuple[int, float, float] | None:
        new = np.array([1.0 - len(own & self._covered) / len(own) if own else 0.0 for own in self._pairs])
        errors = self._errors * new
        if not len(errors):
            return None
        best = int(np.argmax(errors / self._weights))
        return (best, float(errors[best]), float(self._weights[best])) if errors[best] > 0 else None

    def take(self, key: int) -> None:
        self._covered |= self._pairs[key]


@dataclass(slots=True)
class MeasuredSets:
    """The column sets measured so far, which share a budget. Released facts only.

    Attributes:
        cliques: the sets.
        weights: (effective cells)^(2/3) of each.
        spent: rho that each has had.
    """

    cliques: list[ColumnSet] = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    spent: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def worth_adding(
        self, cliques: Sequence[ColumnSet], errors: np.ndarray, weights: np.ndarray, rho: float, caution: float
    ) -> list[int]:
        """Return which further sets are worth their noise if they and the present ones are topped up with rho."""
        budget, weight = rho + float(self.spent.sum()), float(self.weights.sum())
        return greedy_cover(ScoredSets(cliques, errors, weights), budget, caution, weight=weight)[0]

    def topped_up(
        self, cliques: Sequence[ColumnSet], weights: np.ndarray, rho: float
    ) -> tuple[list[ColumnSet], np.ndarray]:
        """Add further sets and share rho among all; return the sets to measure now, and the rho of each."""
        self.cliques = [*self.cliques, *cliques]
        self.weights = np.concatenate([self.weights, weights])
        had = np.concatenate([self.spent, np.zeros(len(cliques))])
        shares = top_up(self.weights, had, rho)
        self.spent = had + shares
        wanted = np.flatnonzero(shares)
        return [self.cliques[i] for i in wanted], shares[wanted]
