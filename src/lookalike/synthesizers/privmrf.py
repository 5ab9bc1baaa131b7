"""PrivMRF: a Markov random field of many low-dimensional marginals (Cai, Lei, Wei and Xiao 2021), corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.generate.refine import RefinedModel
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.levels import averaged_oneways, coarse_maps, hierarchy_levels, merged_oneways, spread_counts
from lookalike.select.markov_graph import best_graph
from lookalike.select.measured_cover import Cover
from lookalike.select.model_size import model_zeros
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.tables.cost import Limits
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, SCORES = "one-way marginals", "pair scores"
FIRST, FURTHER = "first marginals", "further marginals and their choice"

TYPICAL_SETS = 25
"""About so many sets are measured; dividing the whole budget by it gives the noise of a typical one."""

PAIR_CELLS = 250.0
"""Pairs of so many effective cells are small enough at any budget; columns with a hierarchy stay as fine as that."""

FINE_SHARE = 0.02
"""Part of the budget for a second count of a column's single values, where other sets hold it at a coarser level."""

_GRAPHS, _GRAPH_WORK = 40, 6000
_MEMORY_MB = 800.0
_STEPS, _LAST_STEPS = 60, 200


@dataclass(frozen=True, slots=True)
class PrivMRF:
    """A chordal graph of the dependent pairs, then marginals inside its cliques: first by pair scores, then by errors.

    Differs from the paper (`privmrf-paper`) in how marginals are chosen and fitted.

    Attributes:
        theta: a marginal is a candidate if its cells hold theta times the noise on average, where cells that are
            expected to be empty count as less than one; see `select.cover.effective_cells`.
        candidates: how many random candidates are scored for each batch.
        batches: how many batches of further sets are chosen, each by the errors of the model so far.
        clique_cells: largest number of cells of a clique of the graph, the paper's tau_c.
        total_cells: largest number of cells of all cliques together.
        model_ms: predicted milliseconds of one evaluation of the model; sets that would exceed it are passed over.
            Cliques of the graph are never held in memory, so this is what bounds time and memory.
        max_attrs: largest number of columns of a marginal.
        graph_share: part of the budget for pair scores.
        choice_share: part of the budget for the errors of candidates.
        oneway_share: part of the budget for one-way marginals.
        first_share: part of what is then left for the sets that pair scores suggest.
        caution: weight of noise against error when sets are chosen.
    """

    theta: float = 6.0
    candidates: int = 150
    batches: int = 2
    clique_cells: float = 1e6
    total_cells: float = 5e6
    model_ms: float = 60.0
    max_attrs: int = 6
    graph_share: float = 0.04
    choice_share: float = 0.03
    oneway_share: float = 0.06
    first_share: float = 0.6
    caution: float = 0.8

    name: ClassVar[str] = "privmrf"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PrivMRF",
        paper="Cai, Lei, Wei, Xiao: Data Synthesis via Differentially Private Markov Random Fields (VLDB 2021)",
        good_for="tables of up to about 50 columns where higher-order marginals matter, above all with few values each",
        corrected="noise on the number of rows (the authors' program spends ten times the budget on it); scores in "
        "counts with constant sensitivity; domains from the schema. Beyond the paper: scores against the noisy "
        "independent model (sensitivity 1), rows counted by one-ways, sets that cover most error per noise, "
        "batches, penalised fits",
    )

    def __post_init__(self) -> None:
        check_positive(
            theta=self.theta, caution=self.caution, candidates=self.candidates, batches=self.batches,
            max_attrs=self.max_attrs, clique_cells=self.clique_cells, total_cells=self.total_cells,
            model_ms=self.model_ms,
        )  # fmt: skip
        check_shares(self.first_share)
        check_shares(self.choice_share)
        check_shares(self.oneway_share, self.graph_share)
        check_shares(self.choice_share / (1 - self.oneway_share - self.graph_share) + self.first_share)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(ONEWAYS, "gaussian", 1, rho, "counts of the only column")]
        scores = PlannedStep(
            SCORES, "gaussian", d * (d - 1) // 2, rho * self.graph_share, "how far each pair is from independent"
        )  # fmt: skip
        oneways = PlannedStep(ONEWAYS, "gaussian", d, rho * self.oneway_share, "counts of every column")
        left = rho - oneways.rho - scores.rho
        first = left * self.first_share
        note = f"errors of candidates (at most {self.choice_share:.0%} of the budget), counts of the chosen"
        return [
            oneways,
            scores,
            PlannedStep(FIRST, "gaussian", -1, first, "counts of the sets that hold most of the dependence"),
            PlannedStep(FURTHER, "gaussian", -1, left - first, note),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        if len(door.domain) == 1:
            only = door.measure([door.domain.names], door.stddev_for(door.remaining), step=ONEWAYS)
            return fit(door.domain, only)
        rho, zeros = door.remaining, model_zeros(door.schema)
        progress("measuring every column", 0.0)
        shares = allocate(door.domain.sizes, rho * self.oneway_share)
        oneways = door.measure(_singles(door.domain), [door.stddev_for(share) for share in shares], step=ONEWAYS)
        independent = fit(door.domain, oneways, zeros=zeros)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        limit = useful_cells(independent.total, stddev, self.theta)
        maps = coarse_maps(
            hierarchy_levels(door.schema, zeros), _columns(independent), stddev, max(limit, PAIR_CELLS)
        )  # fmt: skip
        if not maps:
            return self._fit_sets(door, oneways, independent, rho, 0.0, rng, progress)
        # Sets at a coarser level say nothing about single values, so these are counted once more.
        spent = min(FINE_SHARE * len(maps), 0.1, 0.3 * self.first_share) * rho
        finer = door.measure([(name,) for name in maps], door.stddev_for(spent, len(maps)), step=FIRST)
        oneways = averaged_oneways(oneways, finer)
        view, merged = door.coarsened(maps), merged_oneways(oneways, maps)
        independent = fit(view.domain, merged, zeros=zeros)
        model = self._fit_sets(view, merged, independent, rho, spent, rng, progress)
        return RefinedModel.of(door.domain, model, maps, spread_counts(oneways, maps))

    def _fit_sets(
        self,
        door: GuardedTable,
        oneways: list[NoisyMarginal],
        independent: GraphicalModel,
        rho: float,
        spent: float,
        rng: np.random.Generator,
        progress: Progress,
    ) -> GraphicalModel:
        """Choose, measure and fit sets of several columns, at the level at which `door` shows these.

        `spent` is the part of the budget for the first marginals that is spent already.
        """
        domain = door.domain
        progress("scoring every pair", 0.05)
        pairs = list(combinations(domain.names, 2))
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self.graph_share), step=SCORES)
        progress("choosing the first sets", 0.1)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        cover = Cover.of(domain, _columns(independent), stddev, self.caution, model_limits(self.model_ms))
        graph = best_graph(
            domain, pairs, errors, cover.prices(pairs), rng,
            tries=max(1, min(_GRAPHS, _GRAPH_WORK // len(pairs))), clique_cells=self.clique_cells,
            total_cells=self.total_cells,
        )  # fmt: skip
        limit = useful_cells(independent.total, stddev, self.theta)
        sets = cover.first(graph.cliques, pairs, errors, door.remaining, self.max_attrs, limit, rng)
        first = (door.remaining + spent) * self.first_share - spent
        cover.measured = sets or _singles(domain)
        cover.spent = allocate(cover.prices(cover.measured) ** 1.5, first)
        measured = door.measure(cover.measured, [door.stddev_for(share) for share in cover.spent], step=FIRST)
        model = _refit(domain, [*oneways, *measured], independent, _STEPS)
        for batch in range(self.batches):
            progress("choosing and measuring further sets", 0.3 + 0.5 * batch / self.batches)
            left = self.batches - batch
            measured += self._further(door, model, cover, graph.cliques, limit, rho, left, rng)
            model = _refit(domain, [*oneways, *measured], model, _STEPS if left > 1 else _LAST_STEPS)
        return model

    def _further(
        self,
        door: GuardedTable,
        model: GraphicalModel,
        cover: Cover,
        cliques: Sequence[Clique],
        limit: float,
        rho: float,
        batches_left: int,
        rng: np.random.Generator,
    ) -> list[NoisyMarginal]:
        """Score random candidates, measure those worth it, and measure the old sets again, in one batch."""
        kept = door.remaining - door.remaining / batches_left
        sample = cover.sample(cliques, self.max_attrs, limit, self.candidates, rng)
        chosen: list[Clique] = []
        if sample:
            references = model.marginals(sample)
            score = ResidualL1(tuple(sample), tuple(references))
            stddev = door.score_stddev_for(score, rho * self.choice_share / self.batches)
            errors = door.noisy_scores(score, stddev, step=FURTHER)
            chosen = cover.further(sample, references, errors, door.remaining - kept)
        shares = cover.top_up(chosen, door.remaining - kept)
        wanted = [i for i, share in enumerate(shares) if share > 0]
        stddevs = [door.stddev_for(shares[i]) for i in wanted]
        return door.measure([cover.measured[i] for i in wanted], stddevs, step=FURTHER)


def _singles(domain: Domain) -> list[Clique]:
    return [(name,) for name in domain.names]


def _columns(model: GraphicalModel) -> dict[str, np.ndarray]:
    return {name: model.marginal((name,)) for name in model.domain.names}


def _refit(domain: Domain, measured: Sequence[NoisyMarginal], warm: GraphicalModel, iterations: int) -> GraphicalModel:
    return fit(domain, measured, total=estimated_total(measured), warm=warm, iterations=iterations)


def model_limits(milliseconds: float) -> Limits:
    """Return the limits of a model: predicted time of one evaluation, and memory."""
    return Limits(1e-3 * milliseconds, _MEMORY_MB)
