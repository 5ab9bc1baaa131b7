"""PPSyn, made private: adaptive rounds that measure groups of cells (partition-based private data synthesis)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.errors import BudgetError
from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.grouping import effective_cells
from lookalike.selection.model_size import FittingSets, SizeGate
from lookalike.selection.pricing import PricedCandidates, ScoringRound, grouped_residuals, partition_for
from lookalike.selection.steps import TYPICAL_SETS, allocate, fit_columns, singles
from lookalike.selection.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.split import ONEWAYS, UNKNOWN, Split, Step

ERRORS, GROUPS = "errors of the model", "groups of chosen marginals"
MIN_LEFT = 1e-6
"""Part of the budget below which another round would be noise alone."""
SCORED_GROUPS = 64
"""Maximum number of groups of cells in which the error of a marginal is computed."""


@method(
    "ppsyn",
    title="PPSyn",
    paper="PPSyn: partition-based differentially private synthetic data generation",
    good_for="small budgets and columns with many values",
    corrected="partitions and required budgets come from the model and from noisy errors that were paid for, not "
    "from true counts; budgets are clipped to what is left; group sums enter the fit as such. Beyond the paper: "
    "groups of equal mass, one price for groups and budgets, several marginals a round, a second scoring round",
    page="docs/reproductions/ppsyn.md",
    rank=70,
)
class PPSyn(Method):
    """Measure the columns; then in rounds the marginals of largest improvement per unit of budget, in groups of cells.

    Noisy errors of candidates are released in two scoring rounds: of all pairs against the independent model, then of
    the remaining pairs and of larger sets against the model of the first pairs. In between, the error of a candidate is
    estimated as its noisy error less the distance that the model has moved on it. That is post-processing: rounds pay
    only for what they measure. A round takes several marginals, with groups and budgets from one price
    (`selection.pricing`); the paper's variant (`ppsyn-paper`) takes one.

    Attributes:
        workload: the marginals that should be accurate; their parts are the candidates.
        eta: maximum part of a marginal's error that noise, grouping and price may cost, the paper's eta.
        rounds: number of rounds of measuring after each scoring round; the last one takes what is left.
        oneway_share: part of the budget for one-way marginals.
        error_share: part of the budget for noisy errors of candidates, half of it for each scoring round.
        later_share: part of the budget for what the second scoring round finds.
        candidates: maximum number of marginals in the second scoring round.
        caution: factor on the expected noise when marginals are chosen.
        model_ms: maximum size of the model, in predicted milliseconds per evaluation.
        iterations: maximum steps of the fit after each round; the last fit takes more.
    """

    workload: WorkloadSpec = choice("all-3way")
    eta: float = paper(0.7)
    rounds: int = tuned(2)
    oneway_share: float = tuned(0.2)
    error_share: float = tuned(0.09)
    later_share: float = tuned(0.4)
    candidates: int = tuned(200)
    caution: float = tuned(0.3)
    model_ms: float = tuned(3.0)
    iterations: int = tuned(60)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.error_share, self.later_share)
        check_positive(
            rounds=self.rounds, model_ms=self.model_ms, iterations=self.iterations, caution=self.caution,
            candidates=self.candidates,
        )  # fmt: skip
        check_eta(self.eta)

    def split(self, domain: Domain, rho: float) -> Split:
        candidates = candidate_sets(self.workload, domain)
        if not candidates:
            return Split((Step.columns(domain, rho),))
        pairs, errors = sum(len(clique) == 2 for clique in candidates), 0.5 * (rho * self.error_share)
        note = f"sums of groups of cells, and a second scoring round ({0.5 * self.error_share:.1%} of the budget)"
        return Split.of(
            rho,
            Step.columns(domain, rho * self.oneway_share),
            Step.scores(ERRORS, pairs, "how wrong the independent model is", errors),
            rest=Step(GROUPS, "gaussian", UNKNOWN, 0.0, note),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho, candidates = door.remaining, candidate_sets(self.workload, door.domain)
        progress("measuring every column", 0.0)
        measured, model = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        if not candidates:
            return model
        state = _Rounds(self, door, model, measured, door.stddev_for(rho, TYPICAL_SETS))
        self._run(state, candidates, rho, split.rho(ERRORS), progress)
        progress("fitting the last model", 0.9)
        return fit(door.domain, state.measured, warm=state.model)

    def _run(
        self, state: _Rounds, candidates: list[ColumnSet], rho: float, scoring_rho: float, progress: Progress
    ) -> None:
        """Run both scoring rounds and the rounds of measuring after each; everything is spent."""
        door = state.door
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
        self, settings: PPSyn, door: GuardedTable, model: GraphicalModel, measured: list[NoisyMarginal], typical: float
    ) -> None:
        self.settings, self.door, self.model, self.measured, self.typical = settings, door, model, measured, typical
        self._gate, self._network = SizeGate(), FittingSets(door.domain, settings.model_ms)
        self._taken: dict[ColumnSet, tuple[np.ndarray | None, float]] = {}

    def score(self, cliques: list[ColumnSet], rho: float, step: str) -> ScoringRound:
        """Return noisy errors of the marginals against the present model, in groups, for rho in all."""
        score = grouped_residuals(cliques, self.model.marginals(cliques), SCORED_GROUPS)
        stddev = self.door.score_stddev_for(score, rho)
        return ScoringRound(score, self.door.noisy_scores(score, stddev, step=step))

    def measure(self, scored: ScoringRound, rho: float) -> None:
        """Measure the candidates worth their price at this budget that the model can hold, and fit again."""
        settings, cliques = self.settings, scored.score.cliques
        tables = self.model.marginals(cliques)
        usable = set(self._gate.admitted(self.model, cliques, settings.model_ms)) - set(self._taken)
        is_usable = np.array([clique in usable for clique in cliques])
        contributions = np.where(is_usable, scored.contributions(tables), 0.0)
        cells = [effective_cells(table, self.typical, at_least=2.0) for table in tables]
        chosen = PricedCandidates(cliques, contributions, cells, settings.eta, settings.caution).at_budget(rho)
        self._network.offer([cliques[one.number] for one in chosen])
        chosen = [one for one in chosen if cliques[one.number] in self._network.cliques]
        if not chosen:
            return
        sets = [cliques[one.number] for one in chosen]
        groups = [partition_for(one, tables[one.number]) for one in chosen]
        stddevs = [self.door.stddev_for(0.5 * one.precision) for one in chosen]
        self.measured = self.measured + self.door.measure(sets, stddevs, step=GROUPS, groups=groups)
        for clique, one, partition in zip(sets, chosen, groups, strict=True):
            self._taken[clique] = partition, one.groups
        self.model = fit(self.door.domain, self.measured, warm=self.model, iterations=settings.iterations)

    def promising(self, candidates: Sequence[ColumnSet], first: ScoringRound) -> list[ColumnSet]:
        """Return the pairs not measured yet, and the larger sets whose pairs have the most error for their size."""
        columns = singles(self.door.domain)
        tables = zip(columns, self.model.marginals(columns), strict=True)
        size = {name: effective_cells(table, self.typical, at_least=2.0) for (name,), table in tables}
        error = dict(zip(first.score.cliques, np.maximum(first.errors, 0.0), strict=True))

        def merit(clique: ColumnSet) -> float:
            held = sum(error.get(pair, 0.0) for pair in combinations(clique, 2))
            return held / math.prod(size[name] for name in clique) ** (2 / 3)

        limit = self.settings.candidates
        pairs = [clique for clique in candidates if len(clique) == 2 and clique not in self._taken]
        larger = sorted((clique for clique in candidates if len(clique) > 2), key=merit, reverse=True)[: 3 * limit]
        pairs = sorted(pairs, key=lambda pair: error.get(pair, 0.0), reverse=True)[:limit]
        return self._gate.admitted(self.model, [*pairs, *larger], self.settings.model_ms)[:limit]

    def spend_rest(self, min_rho: float) -> None:
        """Measure the sets (or the columns) once more with what is left, if that is more than `min_rho`."""
        if self.door.remaining <= min_rho:
            return
        sets = list(self._taken) or singles(self.door.domain)
        groups = [self._taken[clique][0] if self._taken else None for clique in sets]
        counts = [self._taken[clique][1] if self._taken else float(self.door.domain.cells(clique)) for clique in sets]
        shares = allocate(np.array(counts), self.door.remaining)
        stddevs = [self.door.stddev_for(share) for share in shares]
        self.measured = self.measured + self.door.measure(sets, stddevs, step=GROUPS, groups=groups)


def candidate_sets(workload: WorkloadSpec, domain: Domain) -> list[ColumnSet]:
    """Return the marginals of a workload and their parts, of two or more columns each."""
    return [clique for clique in as_workload(workload, domain).closure(domain) if len(clique) > 1]


def check_eta(eta: float) -> None:
    """Refuse an eta that is not above 0 and at most 1."""
    if not 0 < eta <= 1:
        raise BudgetError(f"eta is {eta:g}; it must be above 0 and at most 1.")
