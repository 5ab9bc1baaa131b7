"""PrivMRF as in its paper: Algorithms 1 to 6 (Cai, Lei, Wei and Xiao 2021), corrected only where privacy demands it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.engine.cost import Limits
from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.models.refine import RefinedModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import IndependenceGap
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.candidate_sets import Candidates, initial_sets, useful_candidates
from lookalike.selection.grouping import coarse_maps, hierarchy_levels, spread_counts
from lookalike.selection.markov_graph import grow_graph
from lookalike.selection.model_size import sets_that_fit
from lookalike.selection.pair_selection import pair_matrix
from lookalike.selection.pricing import useful_cells
from lookalike.selection.steps import measure_columns, score_sets
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, method, paper, tuned
from lookalike.synthesizers.privmrf import MEMORY_MB, NOTE, PrivMRF
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, UNKNOWN, Split, Step, count_rows

MARGINALS = "marginals and their choice"

STOP_AT = 0.75
"""Part of the noise floor at which Algorithm 5 counts as converged.

Overlapping marginals repeat each other, so a good fit has a much smaller loss than the true counts. Stopping at 0.96
of that, which suits a model of few overlaps, costs a tenth (Adult) to a third (NLTCS) of the accuracy. The authors'
program stops at 0.7; between 0.7 and 0.85 there was little difference.
"""
_STEPS, _LAST_STEPS, _TRIED = 200, 1000, 20
_MANY_ROWS = 1e12
"""With this count in every value no cell is expected to be empty, so that all cells count, as in the paper."""


@method(
    "privmrf-paper",
    title="PrivMRF, the paper's variant",
    paper=PrivMRF.info.paper,
    good_for="repeating the paper's experiments; privmrf is more accurate",
    corrected="noise on the number of rows (the authors' program spends ten times the budget on it); scores in "
    "counts with constant sensitivity; domains from the schema",
    page="docs/reproductions/privmrf.md",
    rank=50,
    is_paper_variant=True,
)
class PrivMRFPaper(Method):
    """Follow Algorithm 6, with the parameters of section 3.6.

    Columns with a hierarchy are measured at a level at which a pair of them is theta-useful.

    Attributes:
        theta: a marginal is a candidate if its cells hold theta times the noise on average.
        rounds: t, how many marginals are chosen one by one; None means floor(0.8 d) for d columns, as in the paper.
        candidates: k, how many random candidates are scored for each choice.
        clique_cells: tau_c, maximum number of cells of a clique of the graph.
        total_cells: maximum number of cells of all cliques together.
        model_ms: maximum size of the model, in predicted milliseconds per evaluation; sets that exceed it are left out.
        max_attrs: maximum number of columns of a marginal.
        graph_share: part of the budget for pair scores.
        choice_share: part of the budget for the errors of candidates.
        count_share: part of the budget for the number of rows.
    """

    theta: float = paper(6.0)
    rounds: int | None = paper(None)
    candidates: int = paper(400)
    clique_cells: float = paper(1e7, "the authors' program")
    total_cells: float = paper(5e7, "the authors' program")
    model_ms: float = tuned(15.0)
    max_attrs: int = paper(10, "the authors' program, for NLTCS and ACS")
    graph_share: float = paper(0.1)
    choice_share: float = paper(0.1)
    count_share: float = paper(0.01)

    def __post_init__(self) -> None:
        check_positive(
            theta=self.theta, rounds=self.rounds, candidates=self.candidates, clique_cells=self.clique_cells,
            total_cells=self.total_cells, model_ms=self.model_ms, max_attrs=self.max_attrs,
        )  # fmt: skip
        check_shares(self.graph_share, self.count_share, self.choice_share)

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        return Split.of(
            rho,
            Step.pair_scores(domain, rho * self.graph_share),
            Step.number_of_rows(rho * self.count_share),
            rest=Step.sets(MARGINALS, UNKNOWN, NOTE.format(self.choice_share)),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho, d = door.remaining, len(door.domain)
        if d == 1:
            return fit(door.domain, measure_columns(door, rho, step=ONEWAYS))
        count = count_rows(door, split)[0]
        total, rounds = max(1.0, float(count.values)), self.rounds or math.floor(0.8 * d)
        marginal_rho = rho * (1 - self.graph_share - self.count_share - self.choice_share) * (1 - 1e-12)
        zeros = model_zeros(door.schema)
        levels = hierarchy_levels(door.schema, zeros)
        limit = useful_cells(total, door.stddev_for(marginal_rho, d + rounds), self.theta)
        maps = coarse_maps(levels, {name: np.full(door.domain.size(name), _MANY_ROWS) for name in levels}, 1.0, limit)
        # The fine counts of a coarsened column are one more marginal each.
        stddev = door.stddev_for(marginal_rho, d + rounds + len(maps))
        fine = door.measure([(name,) for name in maps], stddev, step=MARGINALS) if maps else []
        view = door.coarsened(maps) if maps else door
        limits = Limits(1e-3 * self.model_ms, MEMORY_MB)
        model = _Run(self, view, split, rng, progress, rho, total, stddev, rounds, zeros, limits).fit()
        return RefinedModel.of(door.domain, model, maps, spread_counts(fine, maps))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of Algorithms 1 to 5, at the level of the columns' hierarchies that `door` has.

    `rho` is the whole budget, `total` the noisy number of rows, `stddev` the noise of every marginal, `rounds` the
    number of marginals that are chosen one by one, and `zeros` are the cells that the schema's rules forbid.
    """

    settings: PrivMRFPaper
    door: GuardedTable
    split: Split
    rng: np.random.Generator
    progress: Progress
    rho: float
    total: float
    stddev: float
    rounds: int
    zeros: dict[ColumnSet, np.ndarray]
    limits: Limits

    def fit(self) -> GraphicalModel:
        """Measure the first marginals, then in each round the one of the largest noisy error, and fit them all."""
        self.progress("scoring every pair", 0.0)
        useful, picked = self._initial()
        measured = self.door.measure(useful.cliques(picked), self.stddev, step=MARGINALS)
        unused = np.setdiff1d(np.arange(len(useful)), picked)
        model: GraphicalModel | None = None
        for number in range(self.rounds):
            self.progress("choosing and measuring", 0.1 + 0.7 * number / self.rounds)
            if not len(unused):
                break
            model = self._fitted(measured, model, _STEPS)
            sample = self.rng.choice(unused, min(self.settings.candidates, len(unused)), replace=False)
            worst = self._worst(model, useful.cliques(sample), [marginal.attrs for marginal in measured])
            if worst is None:
                unused = np.setdiff1d(unused, sample)
                continue
            unused = unused[unused != sample[worst]]
            measured += self.door.measure([useful.clique(sample[worst])], self.stddev, step=MARGINALS)
        measured += _spend_rest(self.door, [marginal.attrs for marginal in measured])
        self.progress("fitting the last model", 0.8)
        return self._fitted(measured, model, _LAST_STEPS)

    def _initial(self) -> tuple[Candidates, list[int]]:
        """Return the candidates, and those of them that are measured first (Algorithms 1 to 3)."""
        settings, domain = self.settings, self.door.domain
        pairs = list(combinations(domain.names, 2))
        score = IndependenceGap(tuple(pairs))
        # R is half the gap, with half its sensitivity.
        stddev = self.door.score_stddev_for(score, self.split.rho(PAIR_SCORES))
        gaps = self.door.noisy_scores(score, stddev, step=PAIR_SCORES)
        graph = grow_graph(domain, pairs, gaps, clique_cells=settings.clique_cells, total_cells=settings.total_cells)
        limit = useful_cells(self.total, self.stddev, settings.theta)
        useful = useful_candidates(domain, graph.cliques, limit, self.rng, max_attrs=settings.max_attrs)
        picked = initial_sets(useful, pair_matrix(domain, pairs, gaps) / (2 * self.total))
        fitting = set(sets_that_fit(domain, [], useful.cliques(picked), self.limits))
        return useful, [index for index in picked if useful.clique(index) in fitting]

    def _worst(self, model: GraphicalModel, cliques: list[ColumnSet], measured: list[ColumnSet]) -> int | None:
        """Return the index of the set of largest noisy L1 error among those that fit the model (Algorithm 4)."""
        rho = self.rho * self.settings.choice_share / self.rounds
        errors = score_sets(self.door, cliques, model.marginals(cliques), rho, step=MARGINALS)
        for worst in np.argsort(-errors, kind="stable")[:_TRIED]:
            if sets_that_fit(self.door.domain, measured, [cliques[worst]], self.limits):
                return int(worst)
        return None

    def _fitted(self, measured: list[NoisyMarginal], warm: GraphicalModel | None, steps: int) -> GraphicalModel:
        return fit(
            self.door.domain, measured, total=self.total, method="mirror", warm=warm, iterations=steps,
            stop_at=STOP_AT, zeros=self.zeros,
        )  # fmt: skip


def _spend_rest(door: GuardedTable, cliques: list[ColumnSet]) -> list[NoisyMarginal]:
    """Measure all sets once more with what is left where there were too few candidates to choose from."""
    if door.remaining < 1e-9 * float(door.budget.rho):
        return []
    return door.measure(cliques, door.stddev_for(door.remaining, len(cliques)), step=MARGINALS)
