"""PPSyn, made private: adaptive rounds that measure groups of cells (partition-based private data synthesis)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.errors import BudgetError
from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.group_price import (
    PricedCandidates,
    ScoringRound,
    effective_cells,
    grouped_residuals,
    partition_for,
)
from lookalike.select.model_size import SizeGate, model_zeros
from lookalike.select.network_sets import FittingSets
from lookalike.select.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.tables.measurement import NoisyMarginal

ONEWAYS, ERRORS, GROUPS = "one-way marginals", "errors of the model", "groups of chosen marginals"
MIN_LEFT = 1e-6
"""Part of the budget below which another round would be noise alone."""
TYPICAL_SETS = 25
"""About so many sets are measured; dividing the whole budget by it gives the noise of a typical one."""
SCORED_GROUPS = 64
"""Errors are released as distances of at most so many groups."""


@dataclass(frozen=True, slots=True)
class PPSyn:
    """One-way marginals, then rounds of: the marginals that improve most per unit of budget, measured in groups.

    Noisy errors of candidates against the model are released in two scoring rounds: of all pairs against the
    independent model, and of what is left of them and of larger sets against the model of the first pairs. In between,
    a candidate's contribution is its noisy error less the distance that the model has moved on it: post-processing, so
    rounds cost nothing but what they measure. A round takes several marginals, with groups and budgets from one price
    (`select.group_price`); the paper (`ppsyn-paper`) takes one.

    Attributes:
        workload: the marginals that should be accurate; their parts are the candidates.
        eta: part of a marginal's improvement that noise, grouping and price may take, the paper's eta.
        rounds: how many rounds of measuring follow each scoring round. The last one takes what is left.
        oneway_share: part of the budget for one-way marginals.
        error_share: part of the budget for noisy errors of candidates, half of it for each scoring round.
        later_share: part of the budget for what the second scoring round finds.
        candidates: largest number of marginals in the second scoring round.
        caution: weight of noise against error.
        model_ms: largest model, in predicted milliseconds per evaluation.
        iterations: steps of the fit after each round; the last fit takes more.
    """

    workload: WorkloadSpec = "all-3way"
    eta: float = 0.7
    rounds: int = 2
    oneway_share: float = 0.2
    error_share: float = 0.09
    later_share: float = 0.4
    candidates: int = 200
    caution: float = 0.3
    model_ms: float = 3.0
    iterations: int = 60

    name: ClassVar[str] = "ppsyn"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PPSyn",
        paper="PPSyn: partition-based differentially private synthetic data generation",
        good_for="small budgets and columns with many values",
        corrected="partitions and required budgets come from the model and from noisy errors that were paid for, not "
        "from true counts; budgets are clipped to what is left; group sums enter the fit as such. Beyond the paper: "
        "groups of equal mass, one price for groups and budgets, several marginals a round, a second scoring round",
    )

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.error_share, self.later_share)
        check_positive(
            rounds=self.rounds, model_ms=self.model_ms, iterations=self.iterations, caution=self.caution,
            candidates=self.candidates,
        )  # fmt: skip
        check_eta(self.eta)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        candidates = candidate_sets(self.workload, domain)
        if not candidates:
            return [PlannedStep(ONEWAYS, "gaussian", d, rho, "counts of every column")]
        oneways, errors = rho * self.oneway_share, 0.5 * (rho * self.error_share)
        pairs = sum(len(clique) == 2 for clique in candidates)
        note = f"sums of groups of cells, and a second scoring round ({0.5 * self.error_share:.1%} of the budget)"
        return [
            PlannedStep(ONEWAYS, "gaussian", d, oneways, "counts of every column"),
            PlannedStep(ERRORS, "gaussian", pairs, errors, "how wrong the independent model is"),
            PlannedStep(GROUPS, "gaussian", -1, rho - oneways - errors, note),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho, candidates = door.remaining, candidate_sets(self.workload, door.domain)
        progress("measuring every column", 0.0)
        measured = measured_columns(door, rho * self.oneway_share if candidates else rho)
        model = fit(door.domain, measured, zeros=model_zeros(door.schema))
        if not candidates:
            return model
        state = _Rounds(self, door, model, measured, door.stddev_for(rho, TYPICAL_SETS))
        self._run(state, candidates, rho, progress)
        progress("fitting the last model", 0.9)
        return fit(door.domain, state.measured, warm=state.model)

    def _run(self, state: _Rounds, candidates: list[Clique], rho: float, progress: Progress) -> None:
        """Run both scoring rounds and the rounds of measuring after each; everything is spent."""
        door, scoring_rho = state.door, 0.5 * rho * self.error_share
        progress("scoring all pairs", 0.05)
        first = state.score([clique for clique in candidates if len(clique) == 2], scoring_rho, ERRORS)
        later = (self.later_share + 0.5 * self.error_share) * rho
        for left in range(self.rounds, 0, -1):
            progress("choosing and measuring pairs", 0.15)
            state.measure(first, (door.remaining - later) * (1.0 if left == 1 else 0.5))
        progress("scoring what is left and larger sets", 0.5)
        kept = state.promising(candidates, first)
        if kept:
            second = state.score(kept, scoring_rho, GROUPS)
            for left in range(self.rounds, 0, -1):
                progress("choosing and measuring larger sets", 0.6)
                state.measure(second, door.remaining * (1.0 if left == 1 else 0.5))
        state.spend_rest(MIN_LEFT * rho)


class _Rounds:
    """The state of a run: the model, all measurements, and the sets measured so far with their groups."""

    def __init__(
        self,
        settings: PPSyn,
        door: GuardedTable,
        model: GraphicalModel,
        measured: list[NoisyMarginal],
        typical: float,
    ) -> None:
        self.settings, self.door, self.model, self.measured, self.typical = settings, door, model, measured, typical
        self._gate, self._network = SizeGate(), FittingSets(door.domain, settings.model_ms)
        self._taken: dict[Clique, tuple[np.ndarray | None, float]] = {}

    def score(self, cliques: list[Clique], rho: float, step: str) -> ScoringRound:
        """Release noisy errors of the marginals against the present model, in groups, for so much budget."""
        score = grouped_residuals(cliques, self.model.marginals(cliques), SCORED_GROUPS)
        stddev = self.door.score_stddev_for(score, rho)
        return ScoringRound(score, self.door.noisy_scores(score, stddev, step=step))

    def measure(self, scored: ScoringRound, rho: float) -> None:
        """Measure the candidates worth their price at this budget, as far as the model can hold them, and refit."""
        settings, cliques = self.settings, scored.score.cliques
        tables = self.model.marginals(cliques)
        usable = set(self._gate.admitted(self.model, cliques, settings.model_ms)) - set(self._taken)
        is_usable = np.array([clique in usable for clique in cliques])
        contributions = np.where(is_usable, scored.contributions(tables), 0.0)
        cells = [effective_cells(table, self.typical) for table in tables]
        chosen = PricedCandidates(cliques, contributions, cells, settings.eta, settings.caution).at_budget(rho)
        self._network.offer([cliques[choice.number] for choice in chosen])
        chosen = [choice for choice in chosen if cliques[choice.number] in self._network.cliques]
        if not chosen:
            return
        sets = [cliques[choice.number] for choice in chosen]
        groups = [partition_for(choice, tables[choice.number]) for choice in chosen]
        stddevs = [self.door.stddev_for(0.5 * choice.precision) for choice in chosen]
        self.measured = self.measured + self.door.measure(sets, stddevs, step=GROUPS, groups=groups)
        for clique, choice, partition in zip(sets, chosen, groups, strict=True):
            self._taken[clique] = partition, choice.groups
        self.model = fit(self.door.domain, self.measured, warm=self.model, iterations=settings.iterations)

    def promising(self, candidates: Sequence[Clique], first: ScoringRound) -> list[Clique]:
        """Return the pairs not measured yet, and the larger candidates whose pairs have most error for their size."""
        names = self.door.domain.names
        singles = self.model.marginals([(name,) for name in names])
        size = {name: effective_cells(table, self.typical) for name, table in zip(names, singles, strict=True)}
        error = dict(zip(first.score.cliques, np.maximum(first.errors, 0.0), strict=True))

        def merit(clique: Clique) -> float:
            held = sum(error.get(pair, 0.0) for pair in combinations(clique, 2))
            return held / math.prod(size[name] for name in clique) ** (2 / 3)

        limit = self.settings.candidates
        pairs = [clique for clique in candidates if len(clique) == 2 and clique not in self._taken]
        larger = sorted((clique for clique in candidates if len(clique) > 2), key=merit, reverse=True)[: 3 * limit]
        pairs = sorted(pairs, key=lambda pair: error.get(pair, 0.0), reverse=True)[:limit]
        return self._gate.admitted(self.model, [*pairs, *larger], self.settings.model_ms)[:limit]

    def spend_rest(self, least: float) -> None:
        """Measure the sets (or the columns) once more with what is left, unless that is next to nothing."""
        if self.door.remaining <= least:
            return
        sets = list(self._taken) or [(name,) for name in self.door.domain.names]
        groups = [self._taken[clique][0] if self._taken else None for clique in sets]
        counts = [self._taken[clique][1] if self._taken else float(self.door.domain.cells(clique)) for clique in sets]
        shares = allocate(np.array(counts), self.door.remaining)
        stddevs = [self.door.stddev_for(share) for share in shares]
        self.measured = self.measured + self.door.measure(sets, stddevs, step=GROUPS, groups=groups)


def candidate_sets(workload: WorkloadSpec, domain: Domain) -> list[Clique]:
    """Return the marginals of a workload and their parts, of two or more columns each."""
    return [clique for clique in as_workload(workload, domain).closure(domain) if len(clique) > 1]


def measured_columns(door: GuardedTable, rho: float) -> list[NoisyMarginal]:
    """Measure every column."""
    shares = allocate(door.domain.sizes, rho)
    return door.measure([(n,) for n in door.domain.names], [door.stddev_for(r) for r in shares], step=ONEWAYS)


def check_eta(eta: float) -> None:
    """Refuse an eta that is not above 0 and at most 1."""
    if not 0 < eta <= 1:
        raise BudgetError(f"eta is {eta:g}; it must be above 0 and at most 1.")
