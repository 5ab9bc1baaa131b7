"""What a model can take, marginals and rules: predicted time of one evaluation, from public facts alone.

--- Which of many marginals one network can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.schema.enforce import structural_zeros
from lookalike.schema.schema import Schema
from lookalike.select.pair_selection import maximum_spanning_tree
from lookalike.tables.cost import Limits, candidate_costs, plan_cost, predict_cost
from lookalike.tables.extension import Extension, extend_plan
from lookalike.tables.plan import ContractionPlan
from lookalike.tables.planner import make_plan

_TRUSTED_ROUNDS = 8
_MARGIN = 4.0
_TRIED_BEYOND = 8


def model_zeros(schema: Schema, limit_ms: float = 0.7) -> dict[Clique, np.ndarray]:
    """The impossible cells of the schema's rules, as far as a model of them alone stays within this predicted time.

    Tables are taken in as long as they fit, small ones first. Rules that are left out, or that no table of cells can
    say, are kept in generation all the same.
    """
    kept: dict[Clique, np.ndarray] = {}
    for attrs, table in sorted(structural_zeros(schema).items(), key=lambda item: item[1].size):
        if predict_cost(schema.domain, [*kept, attrs]).seconds_per_call <= 1e-3 * limit_ms:
            kept[attrs] = table
    return kept


def sets_that_fit(domain: Domain, present: Sequence[Clique], sets: Sequence[Clique], limits: Limits) -> list[Clique]:
    """Those of the sets with which a model of `present` stays within the predicted limits; earlier ones go first.

    A prediction takes up to a second for hundreds of sets, so beyond the longest run that fits only a few are tried.
    """

    def fits(chosen: Sequence[Clique]) -> bool:
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
    """What is asked of a model here."""

    @property
    def plan(self) -> ContractionPlan: ...


@dataclass(frozen=True, slots=True)
class _Price:
    """What was predicted for a model with a marginal added.

    Attributes:
        seconds: of an evaluation.
        ratio: of these seconds to those of the model alone.
        fits_memory: whether its arrays were within the limit.
        round: when that was.
    """

    seconds: float
    ratio: float
    fits_memory: bool
    round: int


class SizeGate:
    """Compares the predicted time of a model that has one marginal more with a limit.

    Made for one model that grows from call to call, and for one limit of memory. Predictions cost milliseconds each, so
    old ones are used where they decide. A larger model takes no less time: a marginal that was found to cost more than
    the present limit stays out. And one that would keep the model below the limit by a factor of 4, if it still cost
    the same multiple of the model's own time, is let in for some rounds without a new look; the limit may thus be
    overstepped by a single marginal, after which nothing new is admitted.
    """

    def __init__(self, memory_mb: float = 500.0) -> None:
        self._memory_mb = memory_mb
        self._prices: dict[Clique, _Price] = {}
        self._round = 0

    def admitted(self, model: Planned, candidates: Sequence[Clique], limit_ms: float) -> list[Clique]:
        """The candidates that lie inside a factor of the model, or with which it stays within the limit."""
        limits = Limits(1e-3 * limit_ms, self._memory_mb)
        now = plan_cost(model.plan).seconds_per_call if model.plan.leaves else 0.0
        inside = Extension(model.plan).is_covered
        kept: set[Clique] = set()
        unsure: list[Clique] = []
        for clique in candidates:
            price = self._prices.get(clique)
            if inside(clique) or (price is not None and self._surely_fits(price, now, limits)):
                kept.add(clique)
            elif price is None or price.seconds <= limits.seconds_per_call:
                unsure.append(clique)
        for clique, cost in zip(unsure, candidate_costs(model.plan, unsure, limits=limits), strict=True):
            ratio = cost.seconds_per_call / now if now else float("inf")
            self._prices[clique] = _Price(cost.seconds_per_call, ratio, cost.memory_mb <= self._memory_mb, self._round)
            if limits.allow(cost):
                kept.add(clique)
        self._round += 1
        return [clique for clique in candidates if clique in kept]

    def _surely_fits(self, price: _Price, now: float, limits: Limits) -> bool:
        if self._round - price.round >= _TRUSTED_ROUNDS or not price.fits_memory:
            return False
        return max(price.seconds, _MARGIN * price.ratio * now) <= limits.seconds_per_call


_MEMORY_MB = 300.0


class FittingSets:
    """The sets, of all that were offered in turn, that one network holds within predicted milliseconds per evaluation.

    >>> fitting = FittingSets(Domain(("a", "b", "c"), (300, 300, 300)), 5.0)
    >>> fitting.offer([("a", "b"), ("b", "c"), ("a", "c")])
    >>> fitting.cliques
    [('a', 'b'), ('b', 'c')]
    """

    def __init__(self, domain: Domain, limit_ms: float) -> None:
        self.cliques: list[Clique] = []
        self._limits = Limits(1e-3 * limit_ms, _MEMORY_MB)
        self._plan = make_plan(domain, [])

    def offer(self, cliques: Sequence[Clique]) -> None:
        """Takes in, in order, the sets with which the limit is kept. A refused set may be offered again."""
        for clique in cliques:
            self.first([clique])

    def first(self, options: Sequence[Clique]) -> Clique | None:
        """Takes in the first of the options with which the limit is kept and says which; None where none does."""
        for clique in options:
            covered = Extension(self._plan).is_covered(clique)
            if covered or self._limits.allow(candidate_costs(self._plan, [clique], limits=self._limits)[0]):
                self.cliques.append(clique)
                self._plan = self._plan if covered else extend_plan(self._plan, [clique])
                return clique
        return None


def tree_first(cliques: Sequence[Clique], errors: np.ndarray, domain: Domain) -> list[Clique]:
    """The same sets, those first that hold the heaviest tree of pairs, each pair in the smallest set that has it.

    A tree is cheap whatever the numbers of values, and joins every column to the one that says most about it. Columns
    that determine each other are then right in every row that the network draws; a set that is left out for a dearer
    one is repaired by weights only if rows keep to it already.

    >>> errors = np.array([[0.0, 9.0, 5.0], [9.0, 0.0, 7.0], [5.0, 7.0, 0.0]])
    >>> tree_first([("a", "c"), ("a", "b"), ("b", "c")], errors, Domain(("a", "b", "c"), (2, 2, 2)))
    [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    smallest: dict[Clique, Clique] = {}
    for clique in sorted(cliques, key=domain.cells, reverse=True):
        smallest.update(dict.fromkeys(combinations(clique, 2), clique))
    pairs = list(smallest)
    weights = np.array([errors[domain.position(a), domain.position(b)] for a, b in pairs])
    tree = [smallest[pair] for pair in maximum_spanning_tree(pairs, weights)]
    return list(dict.fromkeys([*tree, *cliques]))


def fitting_parts(domain: Domain, choices: Sequence[Sequence[Clique]], limit_ms: float) -> list[Clique | None]:
    """Of each list the first clique with which one evaluation stays within the limit; None where none does."""
    fitting = FittingSets(domain, limit_ms)
    return [fitting.first(options) for options in choices]
