"""PrivMRF: a Markov random field of many low-dimensional marginals (Cai, Lei, Wei and Xiao 2021), corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lookalike.engine.cost import Limits
from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal, averaged, estimated_total
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.models.refine import RefinedModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.greedy_cover import MeasuredSets
from lookalike.selection.grouping import coarse_maps, hierarchy_levels, merged_oneways, spread_counts
from lookalike.selection.markov_graph import best_graph
from lookalike.selection.priced_sets import CliqueSets
from lookalike.selection.pricing import EffectiveCells, useful_cells
from lookalike.selection.steps import TYPICAL_SETS, allocate, measure_columns, score_pairs, score_sets, singles
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, method, paper, tuned
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, UNKNOWN, Split, Step

FIRST, FURTHER = "first marginals", "further marginals and their choice"
NOTE = "errors of candidates (at most {:.0%} of the budget), counts of the chosen"

PAIR_CELLS = 250.0
"""Columns with a hierarchy stay fine while a pair of them has at most this number of effective cells, at any budget."""

FINE_SHARE = 0.02
"""Part of the budget for a second count of the values of a column that is otherwise measured at a coarser level."""

MEMORY_MB = 800.0
"""Maximum memory of the model, in megabytes."""
_STEPS, _LAST_STEPS = 60, 200
_STEEP_RHO, _MAX_MORE_STEPS = 0.3, 4.0
"""Above this rho fits take sqrt(rho / _STEEP_RHO) times the steps: the less noise, the worse their condition."""


@method(
    "privmrf",
    title="PrivMRF",
    paper="Cai, Lei, Wei, Xiao: Data Synthesis via Differentially Private Markov Random Fields (VLDB 2021)",
    good_for="tables of up to about 50 columns where higher-order marginals matter, above all with few values each",
    corrected="noise on the number of rows (the authors' program spends ten times the budget on it); scores in "
    "counts with constant sensitivity; domains from the schema. Beyond the paper: scores against the noisy "
    "independent model (sensitivity 1), rows counted by one-ways, sets that cover most error per noise, "
    "batches, penalised fits",
    page="docs/reproductions/privmrf.md",
    sets_per_column=3.8,
    rank=50,
)
class PrivMRF(Method):
    """Build a chordal graph of dependent pairs; measure sets inside its cliques, first by pair scores, then by errors.

    The paper's variant (`privmrf-paper`) chooses and fits marginals in another way.

    Attributes:
        theta: a marginal is a candidate if its effective cells hold theta times the noise on average.
        candidates: how many random candidates are scored for each batch.
        batches: how many batches of further sets are chosen, each by the errors of the model so far.
        clique_cells: maximum number of cells of a clique of the graph, the paper's tau_c.
        total_cells: maximum number of cells of all cliques together.
        model_ms: maximum size of the model, in predicted milliseconds per evaluation; sets that exceed it are left out.
        max_attrs: maximum number of columns of a marginal.
        graph_share: part of the budget for pair scores.
        choice_share: part of the budget for the errors of candidates.
        oneway_share: part of the budget for one-way marginals.
        first_share: part of what is left after these for the sets that pair scores suggest.
        caution: factor on the expected noise when sets are chosen.
    """

    theta: float = paper(6.0)
    candidates: int = tuned(150)
    batches: int = tuned(2)
    clique_cells: float = tuned(1e6)
    total_cells: float = tuned(5e6)
    model_ms: float = tuned(60.0)
    max_attrs: int = tuned(6)
    graph_share: float = tuned(0.04)
    choice_share: float = tuned(0.03)
    oneway_share: float = tuned(0.06)
    first_share: float = tuned(0.6)
    caution: float = tuned(0.8)

    def __post_init__(self) -> None:
        check_positive(
            theta=self.theta, caution=self.caution, candidates=self.candidates, batches=self.batches,
            max_attrs=self.max_attrs, clique_cells=self.clique_cells, total_cells=self.total_cells,
            model_ms=self.model_ms, choice_share=self.choice_share, first_share=self.first_share,
        )  # fmt: skip
        check_shares(self.oneway_share, self.graph_share)
        check_shares(self.choice_share / (1 - self.oneway_share - self.graph_share) + self.first_share)

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        columns = Step.columns(domain, rho * self.oneway_share)
        scores = Step.pair_scores(domain, rho * self.graph_share)
        first = (rho - columns.rho - scores.rho) * self.first_share
        return Split.of(
            rho,
            columns,
            scores,
            Step.sets(FIRST, UNKNOWN, "counts of the sets that hold most of the dependence", first),
            rest=Step.sets(FURTHER, UNKNOWN, NOTE.format(self.choice_share)),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho, zeros = door.remaining, model_zeros(door.schema)
        progress("measuring every column", 0.0)
        oneways = measure_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        independent = fit(door.domain, oneways, zeros=zeros)
        if len(door.domain) == 1:
            return independent
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        limit = useful_cells(independent.total, stddev, self.theta)
        maps = coarse_maps(hierarchy_levels(door.schema, zeros), _columns(independent), stddev, max(limit, PAIR_CELLS))
        if not maps:
            return self._fit_sets(door, split, oneways, independent, rho, 0.0, rng, progress)
        # Sets at a coarser level contain no single values, so these are counted once more.
        spent = min(FINE_SHARE * len(maps), 0.1, 0.3 * self.first_share) * rho
        finer = door.measure([(name,) for name in maps], door.stddev_for(spent, len(maps)), step=FIRST)
        oneways = averaged([*oneways, *finer])
        view, merged = door.coarsened(maps), merged_oneways(oneways, maps)
        independent = fit(view.domain, merged, zeros=zeros)
        model = self._fit_sets(view, split, merged, independent, rho, spent, rng, progress)
        return RefinedModel.of(door.domain, model, maps, spread_counts(oneways, maps))

    def _fit_sets(
        self,
        door: GuardedTable,
        split: Split,
        oneways: list[NoisyMarginal],
        independent: GraphicalModel,
        rho: float,
        spent: float,
        rng: np.random.Generator,
        progress: Progress,
    ) -> GraphicalModel:
        """Choose, measure and fit sets of several columns, at the level of their hierarchies that `door` has.

        `spent` is the part of the budget for the first marginals that is already spent.
        """
        domain = door.domain
        progress("scoring every pair", 0.05)
        pairs, errors = score_pairs(door, independent, split.rho(PAIR_SCORES), step=PAIR_SCORES)
        progress("choosing the first sets", 0.1)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        limit = useful_cells(independent.total, stddev, self.theta)
        cells = EffectiveCells(_columns(independent), independent.total, stddev)
        limits = Limits(1e-3 * self.model_ms, MEMORY_MB)
        cover = CliqueSets(domain, cells, self.caution, limits, self.max_attrs, limit)
        graph = best_graph(
            domain, pairs, errors, cells.weights(pairs), rng,
            clique_cells=self.clique_cells, total_cells=self.total_cells,
        )  # fmt: skip
        sets = cover.first(graph.cliques, pairs, errors, door.remaining, rng) or singles(domain)
        first = (door.remaining + spent) * self.first_share - spent
        shares = allocate([cells(clique) for clique in sets], first)
        cover.measured = MeasuredSets(sets, cells.weights(sets), shares)
        measured = door.measure(sets, [door.stddev_for(share) for share in shares], step=FIRST)
        model = _refit(door, [*oneways, *measured], independent, _STEPS)
        for left in range(self.batches, 0, -1):
            progress("choosing and measuring further sets", 0.8 - 0.5 * left / self.batches)
            sample = cover.sample(graph.cliques, self.candidates, rng)
            measured += self._further(door, model, cover, sample, rho, door.remaining / left)
            model = _refit(door, [*oneways, *measured], model, _STEPS if left > 1 else _LAST_STEPS)
        return model

    def _further(
        self,
        door: GuardedTable,
        model: GraphicalModel,
        cover: CliqueSets,
        sample: list[ColumnSet],
        rho: float,
        spend: float,
    ) -> list[NoisyMarginal]:
        """Score a sample of candidates, measure those worth it, and measure the old sets again, in one batch."""
        kept = door.remaining - spend
        chosen: list[ColumnSet] = []
        if sample:
            references = model.marginals(sample)
            errors = score_sets(door, sample, references, rho * self.choice_share / self.batches, step=FURTHER)
            chosen = cover.further(sample, references, errors, door.remaining - kept)
        now, shares = cover.measured.topped_up(chosen, cover.cells.weights(chosen), door.remaining - kept)
        return door.measure(now, [door.stddev_for(share) for share in shares], step=FURTHER)


def _columns(model: GraphicalModel) -> dict[str, np.ndarray]:
    return {name: model.marginal((name,)) for name in model.domain.names}


def _refit(door: GuardedTable, measured: Sequence[NoisyMarginal], warm: GraphicalModel, steps: int) -> GraphicalModel:
    more = min(max(1.0, math.sqrt(float(door.budget.rho) / _STEEP_RHO)), _MAX_MORE_STEPS)
    return fit(door.domain, measured, total=estimated_total(measured), warm=warm, iterations=int(more * steps))
