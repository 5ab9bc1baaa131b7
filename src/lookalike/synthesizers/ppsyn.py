"""PPSyn, made private: adaptive rounds that measure groups of cells (partition-based private data synthesis)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.errors import BudgetError
from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.group_price import Look, Market, effective_cells, looked_at, partition_for
from lookalike.select.model_size import SizeGate, model_zeros
from lookalike.select.network_sets import FittingSets
from lookalike.select.partition import PartitionPath, partition_path
from lookalike.select.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import (
    Method,
    Progress,
    check_positive,
    check_rounds,
    check_shares,
    choice,
    method,
    tuned,
)
from lookalike.synthesizers.split import Split, Step
from lookalike.tables.measurement import NoisyMarginal

ONEWAYS, ERRORS, GROUPS = "one-way marginals", "errors of the model", "groups of chosen marginals"
LOOKED_AT = 12
"""Candidates whose partitions are computed in a round of the paper's way: those with the largest contributions."""
MOVED = 0.02
"""A partition of the paper's way is kept until its marginal has moved by this part of the rows."""
MIN_LEFT = 1e-6
"""Part of the budget below which another round would be noise alone."""
TYPICAL_SETS = 25
"""About so many sets are measured; with the whole budget shared by them comes the noise of a typical one."""
SCORED_GROUPS = 64
"""Errors are released as distances of at most so many groups."""


@method(
    "ppsyn",
    title="PPSyn",
    paper="PPSyn: partition-based differentially private synthetic data generation",
    good_for="small budgets and columns with many values",
    corrected="partitions and required budgets come from the model and from noisy errors that were paid for, not "
    "from true counts; budgets are clipped to what is left; group sums enter the fit as such. The default goes on: "
    "groups of equal mass, one price for groups and budgets, several marginals a round, a second look",
    page="docs/reproductions/ppsyn.md",
    rank=70,
)
class PPSyn(Method):
    """One-way marginals, then rounds of: the marginals that improve most per unit of budget, measured in groups.

    Noisy errors of candidates against the model are released twice (`faithful`: once): of all pairs against the
    independent model, and of what is left of them and of larger sets against the model of the first pairs. In between,
    a candidate's contribution is its noisy error less the distance that the model has moved on it: post-processing, so
    rounds cost nothing but what they measure. By default a round takes several marginals, with groups and budgets from
    one price (`select.group_price`); `faithful` is the paper's Algorithm 1, repaired: one marginal a round, with the
    budget that the paper's formula requires, at least an even share of what is left. A setting of 0 stands for the
    way's own value, given as (default / faithful).

    Attributes:
        workload: the marginals that should be accurate; their parts are the candidates.
        faithful: the paper's steps, changed only where privacy demands it.
        eta: part of a marginal's improvement that noise, grouping (and price) may spoil, the paper's eta.
        rounds: how many rounds after each look (2), how many in all (4 per column). The last one takes what is left.
        oneway_share: part of the budget for one-way marginals (0.2 / the paper's 0.1).
        error_share: part of the budget for noisy errors of candidates (0.09, half of it for each look / 0.2).
        later_share: part of the budget kept for what the second look finds (default only).
        candidates: most marginals of the second look (default only).
        caution: weight of noise against error (default only).
        model_ms: largest model, in predicted milliseconds per evaluation.
        iterations: steps of the fit after each round; the last fit takes more.
    """

    workload: WorkloadSpec = choice("all-3way")
    faithful: bool = choice(False)
    eta: float = tuned(0.7)
    rounds: int | None = tuned(None)
    oneway_share: float = tuned(0.0)
    error_share: float = tuned(0.0)
    later_share: float = tuned(0.4)
    candidates: int = tuned(200)
    caution: float = tuned(0.3)
    model_ms: float = tuned(3.0)
    iterations: int = tuned(60)

    def __post_init__(self) -> None:
        if self.oneway_share < 0 or self.error_share < 0:
            raise BudgetError(f"A share of the budget is {min(self.oneway_share, self.error_share):g}; give 0 or more.")
        check_shares(self._oneway_share, self._error_share, *(() if self.faithful else (self.later_share,)))
        check_rounds(self.rounds)
        check_positive(
            model_ms=self.model_ms, iterations=self.iterations, caution=self.caution, candidates=self.candidates
        )
        if not 0 < self.eta <= 1:
            raise BudgetError(f"eta is {self.eta:g}; it must be above 0 and at most 1.")

    @property
    def _oneway_share(self) -> float:
        return self.oneway_share or (0.1 if self.faithful else 0.2)

    @property
    def _error_share(self) -> float:
        return self.error_share or (0.2 if self.faithful else 0.09)

    def split(self, domain: Domain, rho: float) -> Split:
        candidates = self._candidates(domain)
        if not candidates:
            return Split((Step.columns(domain, rho),))
        errors = rho * self._error_share
        looked, rounds, note = len(candidates), self._rounds(domain), "sums of groups of cells"
        if not self.faithful:
            errors, looked, rounds = 0.5 * errors, sum(len(clique) == 2 for clique in candidates), -1
            note += f", and a second look at errors ({0.5 * self._error_share:.1%} of the budget)"
        return Split.of(
            rho,
            Step.columns(domain, rho * self._oneway_share),
            Step.scores(ERRORS, looked, "how wrong the independent model is", errors),
            rest=Step(GROUPS, "gaussian", rounds, 0.0, note),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.0)
        candidates = self._candidates(domain)
        shares = allocate(domain.sizes, rho * self._oneway_share if candidates else rho)
        measured = door.measure([(n,) for n in domain.names], [door.stddev_for(r) for r in shares], step=ONEWAYS)
        model = fit(domain, measured, zeros=model_zeros(door.schema))
        if not candidates:
            return model
        rounds = self._faithful_rounds if self.faithful else self._priced_rounds
        model, measured = rounds(door, model, measured, candidates, rho, progress)
        progress("fitting the last model", 0.9)
        return fit(domain, measured, warm=model)

    # The default.

    def _priced_rounds(
        self,
        door: GuardedTable,
        model: GraphicalModel,
        measured: list[NoisyMarginal],
        candidates: list[Clique],
        rho: float,
        progress: Progress,
    ) -> tuple[GraphicalModel, list[NoisyMarginal]]:
        """The model and all measurements after both looks; everything is spent."""
        state = _Rounds(self, door, model, measured, door.stddev_for(rho, TYPICAL_SETS))
        pairs = [clique for clique in candidates if len(clique) == 2]
        look_rho = 0.5 * rho * self._error_share
        progress("looking at all pairs", 0.05)
        first = state.look(pairs, look_rho, ERRORS)
        later = (self.later_share + 0.5 * self._error_share) * rho
        for left in range(self.rounds or 2, 0, -1):
            progress("choosing and measuring pairs", 0.15)
            state.round(first, (door.remaining - later) * (1.0 if left == 1 else 0.5))
        progress("looking at what is left and at larger sets", 0.5)
        kept = state.promising(candidates, first)
        if kept:
            second = state.look(kept, look_rho, GROUPS)
            for left in range(self.rounds or 2, 0, -1):
                progress("choosing and measuring larger sets", 0.6)
                state.round(second, door.remaining * (1.0 if left == 1 else 0.5))
        state.spend_rest(MIN_LEFT * rho)
        return state.model, state.measured

    # The paper's steps.

    def _faithful_rounds(
        self,
        door: GuardedTable,
        model: GraphicalModel,
        measured: list[NoisyMarginal],
        candidates: list[Clique],
        rho: float,
        progress: Progress,
    ) -> tuple[GraphicalModel, list[NoisyMarginal]]:
        """The model and all measurements after Algorithm 1."""
        domain = door.domain
        progress("measuring the errors of the independent model", 0.05)
        score = ResidualL1(tuple(candidates), tuple(model.marginals(candidates)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self._error_share), step=ERRORS)
        gate, rounds, paths = SizeGate(), self._rounds(domain), _Paths(MOVED * model.total)
        for number in range(rounds):
            progress("choosing and measuring", 0.1 + 0.8 * number / rounds)
            usable = set(gate.admitted(model, candidates, self.model_ms))
            places = [i for i, clique in enumerate(candidates) if clique in usable]
            if not places:  # every pair is too large for the model: what is left makes the columns better
                singles = [(name,) for name in domain.names]
                measured += door.measure(singles, door.stddev_for(door.remaining, len(singles)), step=GROUPS)
                break
            left = door.remaining
            least = left / (rounds - number)
            present = model.marginals([candidates[i] for i in places])
            moved = [np.abs(now - score.references[i]).sum() for now, i in zip(present, places, strict=True)]
            contributions = np.maximum(errors[places] - np.array(moved), 0.0)
            choice, path, price = self._choose([candidates[i] for i in places], present, contributions, least, paths)
            stddev = door.stddev_for(min(price, left) if number < rounds - 1 else left)
            groups = path.partition(path.finest_worthwhile(stddev))
            measured += door.measure([candidates[places[choice]]], stddev, step=GROUPS, groups=[groups])
            if door.remaining <= MIN_LEFT * rho:
                break
            model = fit(domain, measured, warm=model, iterations=self.iterations)
        return model, measured

    def _choose(
        self,
        cliques: Sequence[Clique],
        present: Sequence[np.ndarray],
        contributions: np.ndarray,
        least: float,
        paths: _Paths,
    ) -> tuple[int, PartitionPath, float]:
        """Index, partitions and price of the marginal with the best contribution per unit of budget.

        A price is at least `least`, and just that where no partition pays for itself.
        """
        found = []
        for i in np.argsort(-contributions, kind="stable")[:LOOKED_AT]:
            path = paths.of(cliques[i], present[i])
            _, price = path.cheapest(float(contributions[i]), self.eta)
            price = least if math.isinf(price) else max(price, least)
            found.append((contributions[i] / price, -len(found), int(i), path, price))
        _, _, choice, path, price = max(found, key=lambda entry: entry[:2])
        return choice, path, price

    def _candidates(self, domain: Domain) -> list[Clique]:
        return [clique for clique in as_workload(self.workload, domain).closure(domain) if len(clique) > 1]

    def _rounds(self, domain: Domain) -> int:
        return self.rounds or 4 * len(domain)


class _Paths:
    """Partitions of marginals by the model's counts, computed anew only where the model has moved enough."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._known: dict[Clique, tuple[np.ndarray, PartitionPath]] = {}

    def of(self, clique: Clique, counts: np.ndarray) -> PartitionPath:
        known = self._known.get(clique)
        if known is None or np.abs(known[0] - counts).sum() > self._tolerance:
            known = self._known[clique] = counts, partition_path(counts)
        return known[1]


class _Rounds:
    """What the default's rounds work on: the model, all measurements, and the sets taken so far with their groups."""

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

    def look(self, cliques: list[Clique], rho: float, step: str) -> Look:
        """Noisy errors of the marginals against the present model, in groups, for so much budget."""
        score = looked_at(cliques, self.model.marginals(cliques), SCORED_GROUPS)
        stddev = self.door.score_stddev_for(score, rho)
        return Look(score, self.door.noisy_scores(score, stddev, step=step))

    def round(self, look: Look, rho: float) -> None:
        """Measures the candidates worth their price at this budget, as far as the model can hold them, and refits."""
        settings, cliques = self.settings, look.score.cliques
        tables = self.model.marginals(cliques)
        usable = set(self._gate.admitted(self.model, cliques, settings.model_ms)) - set(self._taken)
        open_ones = np.array([clique in usable for clique in cliques])
        contributions = np.where(open_ones, look.contributions(tables), 0.0)
        cells = [effective_cells(table, self.typical) for table in tables]
        offers = Market(cliques, contributions, cells, settings.eta, settings.caution).at_budget(rho)
        self._network.offer([cliques[offer.number] for offer in offers])
        offers = [offer for offer in offers if cliques[offer.number] in self._network.cliques]
        if not offers:
            return
        groups = [partition_for(offer, tables[offer.number]) for offer in offers]
        chosen = [cliques[offer.number] for offer in offers]
        stddevs = [self.door.stddev_for(0.5 * offer.precision) for offer in offers]
        self.measured = self.measured + self.door.measure(chosen, stddevs, step=GROUPS, groups=groups)
        for offer, partition in zip(offers, groups, strict=True):
            self._taken[cliques[offer.number]] = partition, offer.groups
        self.model = fit(self.door.domain, self.measured, warm=self.model, iterations=settings.iterations)

    def promising(self, candidates: Sequence[Clique], first: Look) -> list[Clique]:
        """Pairs not measured yet, and the larger candidates that hold most error of pairs for their size."""
        names = self.door.domain.names
        singles = self.model.marginals([(name,) for name in names])
        size = {name: effective_cells(table, self.typical) for name, table in zip(names, singles, strict=True)}
        error = dict(zip(first.score.cliques, np.maximum(first.errors, 0.0), strict=True))

        def merit(clique: Clique) -> float:
            held = sum(error.get(pair, 0.0) for pair in combinations(clique, 2))
            return held / math.prod(size[name] for name in clique) ** (2 / 3)

        most = self.settings.candidates
        pairs = [clique for clique in candidates if len(clique) == 2 and clique not in self._taken]
        larger = sorted((clique for clique in candidates if len(clique) > 2), key=merit, reverse=True)[: 3 * most]
        pairs = sorted(pairs, key=lambda pair: error.get(pair, 0.0), reverse=True)[:most]
        return self._gate.admitted(self.model, [*pairs, *larger], self.settings.model_ms)[:most]

    def spend_rest(self, least: float) -> None:
        """What is left, unless it is next to nothing, makes the measured sets (or the columns) more precise."""
        if self.door.remaining <= least:
            return
        sets = list(self._taken) or [(name,) for name in self.door.domain.names]
        groups = [self._taken[clique][0] if self._taken else None for clique in sets]
        counts = [self._taken[clique][1] if self._taken else float(self.door.domain.cells(clique)) for clique in sets]
        shares = allocate(np.array(counts), self.door.remaining)
        stddevs = [self.door.stddev_for(share) for share in shares]
        self.measured = self.measured + self.door.measure(sets, stddevs, step=GROUPS, groups=groups)
