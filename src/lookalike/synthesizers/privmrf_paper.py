"""PrivMRF as its paper has it: Algorithms 1 to 6, corrected only where privacy demands it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.generate.refine import RefinedModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import IndependenceGap, ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.candidate_sets import Candidates, initial_sets, useful_candidates
from lookalike.select.levels import coarse_maps, spread_counts
from lookalike.select.markov_graph import grow_graph
from lookalike.select.model_size import model_zeros, sets_that_fit
from lookalike.select.pair_selection import pair_matrix
from lookalike.select.pricing import useful_cells
from lookalike.synthesizers.base import Progress
from lookalike.tables.cost import Limits
from lookalike.tables.measurement import NoisyMarginal

SCORES, COUNT, MARGINALS = "pair scores", "number of rows", "marginals and their choice"

STOP_AT = 0.75
"""Part of the noise floor at which Algorithm 5 counts as converged.

Overlapping marginals repeat each other, so a good fit lies well below the loss of the true counts. Stopping at 0.96 of
it, as suits a model of few overlaps, costs a tenth (Adult) to a third (NLTCS) of the accuracy; the authors' program
stops at 0.7, and little difference was seen between 0.7 and 0.85.
"""
_STEPS, _LAST_STEPS = 200, 1000
_TRIED = 20
# With so many rows in every value no cell is expected to be empty: all cells count, as in the paper.
_PLENTY = 1e12


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Parameters of section 3.6: theta, t, k, tau_c, and shares of the budget.

    Attributes:
        theta: see `useful_cells`.
        rounds: t, how many marginals are chosen one by one.
        candidates: k, how many random candidates a choice looks at.
        clique_cells: tau_c.
        total_cells: most cells of all cliques together.
        max_attrs: most attributes of a marginal.
        graph_share: part of the budget for pair scores.
        count_share: part of the budget for the number of rows.
        choice_share: part of the budget for the errors of candidates.
        limits: predicted time and memory of the model; sets beyond are passed over.
    """

    theta: float
    rounds: int
    candidates: int
    clique_cells: float
    total_cells: float
    max_attrs: int
    graph_share: float
    count_share: float
    choice_share: float
    limits: Limits


def fit_paper(settings: PaperSettings, door: GuardedTable, rng: np.random.Generator, progress: Progress) -> Model:
    """Algorithm 6. Columns with a hierarchy are looked at through a level at which a pair of them is theta-useful."""
    rho, d = door.remaining, len(door.domain)
    count = door.measure([()], door.stddev_for(rho * settings.count_share), step=COUNT)[0]
    total = max(1.0, float(count.values))
    marginal_rho = rho * (1 - settings.graph_share - settings.count_share - settings.choice_share) * (1 - 1e-12)
    zeros = model_zeros(door.schema)
    levels = column_levels(door, [name for clique in zeros for name in clique])
    limit = useful_cells(total, door.stddev_for(marginal_rho, d + settings.rounds), settings.theta)
    maps = coarse_maps(levels, {name: np.full(door.domain.size(name), _PLENTY) for name in levels}, 1.0, limit)
    # The fine counts of a coarsened column are one more marginal each.
    stddev = door.stddev_for(marginal_rho, d + settings.rounds + len(maps))
    fine = door.measure([(name,) for name in maps], stddev, step=MARGINALS) if maps else []
    view = door.coarsened(maps) if maps else door
    model = _Run(settings, view, rng, progress, rho, total, stddev).fit(zeros)
    return RefinedModel.of(door.domain, model, maps, spread_counts(fine, maps))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run at the level at which `door` shows the columns: Algorithms 1 to 5.

    Attributes:
        settings: parameters.
        door: the columns, at the level chosen.
        rng: chooses candidates.
        progress: told what is being done.
        rho: the whole budget.
        total: the noisy number of rows.
        stddev: noise of every marginal.
    """

    settings: PaperSettings
    door: GuardedTable
    rng: np.random.Generator
    progress: Progress
    rho: float
    total: float
    stddev: float

    def fit(self, zeros: dict[Clique, np.ndarray]) -> GraphicalModel:
        settings, domain = self.settings, self.door.domain
        self.progress("scoring every pair", 0.0)
        useful, picked = self._initial(domain)
        measured = self.door.measure(useful.cliques(picked), self.stddev, step=MARGINALS)
        unused = np.setdiff1d(np.arange(len(useful)), picked)
        model: GraphicalModel | None = None
        for number in range(settings.rounds):
            self.progress("choosing and measuring", 0.1 + 0.7 * number / settings.rounds)
            if not len(unused):
                break
            model = self._fitted(measured, model, zeros, _STEPS)
            sample = self.rng.choice(unused, min(settings.candidates, len(unused)), replace=False)
            best = self._worst(model, useful.cliques(sample), [marginal.attrs for marginal in measured])
            if best is None:
                unused = np.setdiff1d(unused, sample)
                continue
            unused = unused[unused != sample[best]]
            measured += self.door.measure([useful.clique(sample[best])], self.stddev, step=MARGINALS)
        measured += _spend_rest(self.door, [marginal.attrs for marginal in measured])
        self.progress("fitting the last model", 0.8)
        return self._fitted(measured, model, zeros, _LAST_STEPS)

    def _initial(self, domain: Domain) -> tuple[Candidates, list[int]]:
        """Algorithms 1 to 3: the candidates, and those of them that are measured first."""
        settings = self.settings
        pairs = list(combinations(domain.names, 2))
        score = IndependenceGap(tuple(pairs))
        # R is half the gap, with half its sensitivity.
        stddev = self.door.score_stddev_for(score, self.rho * settings.graph_share)
        gaps = self.door.noisy_scores(score, stddev, step=SCORES)
        graph = grow_graph(
            domain, pairs, gaps, clique_cells=settings.clique_cells, total_cells=settings.total_cells
        )  # fmt: skip
        limit = useful_cells(self.total, self.stddev, settings.theta)
        useful = useful_candidates(domain, graph.cliques, limit, self.rng, max_attrs=settings.max_attrs)
        picked = initial_sets(useful, pair_matrix(domain, pairs, gaps) / (2 * self.total))
        fitting = set(sets_that_fit(domain, [], useful.cliques(picked), settings.limits))
        return useful, [index for index in picked if useful.clique(index) in fitting]

    def _worst(self, model: GraphicalModel, cliques: list[Clique], measured: list[Clique]) -> int | None:
        """Index of the set with the largest noisy L1 error that the model can take (Algorithm 4, lines 5 to 10)."""
        score = ResidualL1(tuple(cliques), tuple(model.marginals(cliques)))
        stddev = self.door.score_stddev_for(score, self.rho * self.settings.choice_share / self.settings.rounds)
        errors = self.door.noisy_scores(score, stddev, step=MARGINALS)
        for best in np.argsort(-errors, kind="stable")[:_TRIED]:
            if sets_that_fit(self.door.domain, measured, [cliques[best]], self.settings.limits):
                return int(best)
        return None

    def _fitted(
        self,
        measured: list[NoisyMarginal],
        warm: GraphicalModel | None,
        zeros: dict[Clique, np.ndarray],
        steps: int,
    ) -> GraphicalModel:
        return fit(
            self.door.domain, measured, total=self.total, method="mirror", warm=warm, iterations=steps,
            stop_at=STOP_AT, zeros=zeros,
        )  # fmt: skip


def column_levels(door: GuardedTable, kept: Sequence[str]) -> dict[str, tuple[np.ndarray, ...]]:
    """The levels of the columns that have a hierarchy; those in `kept` must stay as they are."""
    return {column.name: column.levels for column in door.schema.columns if column.levels and column.name not in kept}


def _spend_rest(door: GuardedTable, cliques: list[Clique]) -> list[NoisyMarginal]:
    """All sets once more, with what is left where there were too few candidates to choose from."""
    if door.remaining < 1e-9 * float(door.budget.rho):
        return []
    return door.measure(cliques, door.stddev_for(door.remaining, len(cliques)), step=MARGINALS)
