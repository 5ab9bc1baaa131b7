"""Which marginals and rules a model can take: predicted time and memory of one evaluation, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from lookalike.engine.cost import Extension, Limits, candidate_costs, extend_plan, plan_cost, predict_cost
from lookalike.engine.plan import ContractionPlan
from lookalike.engine.planner import make_plan
from lookalike.guards import MODEL_MEMORY_MB, NETWORK_MEMORY_MB
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.pair_selection import maximum_spanning_tree

_TRUSTED_ROUNDS = 8
"""Rounds for which an old prediction may admit a marginal."""
_MARGIN = 4.0
"""Factor by which such a marginal must keep the model below the limit."""
_TRIED_BEYOND = 8
"""Number of sets tried one by one after the longest run of sets that fits: a prediction takes up to a second."""


def sets_that_fit(
    domain: Domain, present: Sequence[ColumnSet], sets: Sequence[ColumnSet], limits: Limits
) -> list[ColumnSet]:
    """Return the sets with which a model of `present` stays within the predicted limits; earlier ones go first.

    Beyond the longest run of sets that fits, only a few are tried.
    """

    def fits(chosen: Sequence[ColumnSet]) -> bool:
        return limits.allow(predict_cost(domain, [*present, *chosen]))

    if not sets or fits(sets):
        return list(sets)
    low, high = 0, len(sets)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(sets[:middle]) else (low, middle)
    kept = list(sets[:low])
    for clique in sets[high : high + _TRIED_BEYOND]:
        if fits([*kept, clique]):
            kept.append(clique)
    return kept


class Planned(Protocol):
    """A model that has a contraction plan."""

    @property
    def plan(self) -> ContractionPlan: ...


@dataclass(frozen=True, slots=True)
class _Prediction:
    """The predicted size of a model with one marginal added.

    Attributes:
        seconds: of one evaluation of the model.
        ratio: these seconds over those of the model without the marginal.
        fits_memory: whether its arrays were within the limit.
        round: number of the round in which this was predicted.
    """

    seconds: float
    ratio: float
    fits_memory: bool
    round: int


class SizeGate:
    """Compares the predicted time of a model that has one marginal more with a limit.

    For one model that grows from call to call, and one limit of memory. A prediction takes milliseconds, so old ones
    are reused where they decide. A larger model takes no less time: a marginal that was predicted to exceed the present
    limit stays out. A marginal that would keep the model below the limit by a factor of 4, if it still cost the same
    multiple of the model's time, is admitted for some rounds without a new prediction; a single marginal may thus
    exceed the limit, after which nothing new is admitted.
    """

    def __init__(self, memory_mb: float = MODEL_MEMORY_MB) -> None:
        self._memory_mb = memory_mb
        self._predictions: dict[ColumnSet, _Prediction] = {}
        self._round = 0

    def admitted(self, model: Planned, candidates: Sequence[ColumnSet], limit_ms: float) -> list[ColumnSet]:
        """Return the candidates that lie inside a factor of the model, or with which it stays within the limit."""
        limits = Limits(1e-3 * limit_ms, self._memory_mb)
        now = plan_cost(model.plan).seconds_per_call if model.plan.leaves else 0.0
        inside = Extension(model.plan).is_covered
        kept: set[ColumnSet] = set()
        unsure: list[ColumnSet] = []
        for clique in candidates:
            known = self._predictions.get(clique)
            if inside(clique) or (known is not None and self._surely_fits(known, now, limits)):
                kept.add(clique)
            elif known is None or known.seconds <= limits.seconds_per_call:
                unsure.append(clique)
        for clique, cost in zip(unsure, candidate_costs(model.plan, unsure, limits=limits), strict=True):
            ratio = cost.seconds_per_call / now if now else float("inf")
            fits_memory = cost.memory_mb <= self._memory_mb
            self._predictions[clique] = _Prediction(cost.seconds_per_call, ratio, fits_memory, self._round)
            if limits.allow(cost):
                kept.add(clique)
        self._round += 1
        return [clique for clique in candidates if clique in kept]

    def _surely_fits(self, known: _Prediction, now: float, limits: Limits) -> bool:
        if self._round - known.round >= _TRUSTED_ROUNDS or not known.fits_memory:
            return False
        return max(known.seconds, _MARGIN * known.ratio * now) <= limits.seconds_per_call


class FittingSets:
    """The sets, of all that were offered one by one, that one model holds within predicted milliseconds per evaluation.

    >>> fitting = FittingSets(Domain(("a", "b", "c"), (300, 300, 300)), 5.0)
    >>> fitting.offer([("a", "b"), ("b", "c"), ("a", "c")])
    >>> fitting.cliques
    [('a', 'b'), ('b', 'c')]
    """

    def __init__(self, domain: Domain, limit_ms: float) -> None:
        self.cliques: list[ColumnSet] = []
        self._limits = Limits(1e-3 * limit_ms, NETWORK_MEMORY_MB)
        self._plan = make_plan(domain, [])

    def offer(self, cliques: Sequence[ColumnSet]) -> None:
        """Add, in order, the sets with which the model stays within the limit. A refused set may be offered again."""
        for clique in cliques:
            self.first([clique])

    def first(self, options: Sequence[ColumnSet]) -> ColumnSet | None:
        """Add and return the first of the options with which the model stays within the limit; None if none does."""
        for clique in options:
            covered = Extension(self._plan).is_covered(clique)
            if covered or self._limits.allow(candidate_costs(self._plan, [clique], limits=self._limits)[0]):
                self.cliques.append(clique)
                self._plan = self._plan if covered else extend_plan(self._plan, [clique])
                return clique
        return None


def tree_first(cliques: Sequence[ColumnSet], errors: np.ndarray, domain: Domain) -> list[ColumnSet]:
    """Return the same sets, those first that hold the maximum spanning tree, each of its pairs in the smallest set.

    A tree is cheap for any numbers of values, and joins every column to the one that it depends on most. Columns that
    determine each other are then right in every row that the network draws; weights of rows cannot repair a set that
    was left out if no row agrees with it.

    >>> errors = np.array([[0.0, 9.0, 5.0], [9.0, 0.0, 7.0], [5.0, 7.0, 0.0]])
    >>> tree_first([("a", "c"), ("a", "b"), ("b", "c")], errors, Domain(("a", "b", "c"), (2, 2, 2)))
    [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    smallest: dict[ColumnSet, ColumnSet] = {}
    for clique in sorted(cliques, key=domain.cells, reverse=True):
        smallest.update(dict.fromkeys(combinations(clique, 2), clique))
    pairs = list(smallest)
    weights = np.array([errors[domain.position(a), domain.position(b)] for a, b in pairs])
    tree = [smallest[pair] for pair in maximum_spanning_tree(pairs, weights)]
    return list(dict.fromkeys([*tree, *cliques]))


def fitting_parts(domain: Domain, choices: Sequence[Sequence[ColumnSet]], limit_ms: float) -> list[ColumnSet | None]:
    """Return of each list the first set with which one evaluation stays within the limit; None where none does."""
    fitting = FittingSets(domain, limit_ms)
    return [fitting.first(options) for options in choices]
