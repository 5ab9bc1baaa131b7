"""PrivMRF: a Markov random field of many low-dimensional marginals (Cai, Lei, Wei and Xiao 2021), corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.generate.refine import RefinedModel
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.levels import averaged_oneways, coarse_maps, merged_oneways, spread_counts
from lookalike.select.markov_graph import best_graph
from lookalike.select.measured_cover import Cover
from lookalike.select.model_size import model_zeros
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.privmrf_paper import MARGINALS, SCORES, PaperSettings, column_levels, fit_paper
from lookalike.synthesizers.split import UNKNOWN, Split, Step
from lookalike.tables.cost import Limits
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, FIRST, FURTHER = "one-way marginals", "first marginals", "further marginals and their choice"

TYPICAL_SETS = 25
"""About so many sets are measured; with the whole budget shared by them comes the noise of a typical one."""

PAIR_CELLS = 250.0
"""Pairs of so many effective cells are small enough at any budget; columns with a hierarchy stay as fine as that."""

FINE_SHARE = 0.02
"""Part of the budget that the fine counts of a column get in addition if it is looked at through a coarser level."""

_GRAPHS, _GRAPH_WORK = 40, 6000
_MEMORY_MB = 800.0


@method(
    "privmrf",
    title="PrivMRF",
    paper="Cai, Lei, Wei, Xiao: Data Synthesis via Differentially Private Markov Random Fields (VLDB 2021)",
    good_for="tables of up to about 50 columns where higher-order marginals matter, above all with few values each",
    corrected="noise on the number of rows (the authors' program spends ten times the budget on it); scores in "
    "counts with constant sensitivity; domains from the schema. The default goes on: scores against the noisy "
    "independent model (sensitivity 1), rows counted by one-ways, sets that cover most error per noise, "
    "batches, penalised fits",
    page="docs/reproductions/privmrf.md",
    sets_per_column=3.8,
    rank=50,
)
class PrivMRF(Method):
    """A chordal graph of the dependent pairs, then marginals inside its cliques: first by pair scores, then by errors.

    The default differs from the paper in how marginals are chosen and fitted; `faithful` repeats the paper's
    Algorithms 1 to 6. A setting of 0 stands for the way's own value, given as (default / faithful).

    Attributes:
        faithful: the paper's steps, corrected only where privacy demands it.
        theta: a marginal is a candidate if its cells hold theta times the noise on average (the default counts cells
            that are expected to be empty as less than one; see `select.cover.effective_cells`).
        candidates: how many random candidates a choice looks at (150 / the paper's k = 400).
        batches: how many choices there are; each takes several sets in the default (2) and one set as in the paper
            (t = floor(0.8 d)).
        clique_cells: most cells of a clique of the graph, the paper's tau_c (1e6 / 1e7).
        total_cells: most cells of all cliques together (5e6 / 5e7, as in the authors' program).
        model_ms: predicted milliseconds of one evaluation of the model; sets that would exceed it are passed over
            (60 / 15). Cliques of the graph are never held in memory, so this is what bounds time and memory.
        max_attrs: most attributes of a marginal (6 / 10).
        graph_share: part of the budget for pair scores (0.04 / 0.1).
        choice_share: part of the budget for the errors of candidates (0.03 / 0.1).
        count_share: part of the budget for the number of rows (faithful only).
        oneway_share: part of the budget for one-way marginals (default only).
        first_share: part of what is then left for the sets that pair scores suggest (default only).
        caution: weight of noise against error when sets are chosen (default only).
    """

    faithful: bool = choice(False)
    theta: float = tuned(6.0)
    candidates: int = tuned(0)
    batches: int = tuned(0)
    clique_cells: float = tuned(0.0)
    total_cells: float = tuned(0.0)
    model_ms: float = tuned(0.0)
    max_attrs: int = tuned(0)
    graph_share: float = tuned(0.0)
    choice_share: float = tuned(0.0)
    count_share: float = tuned(0.01)
    oneway_share: float = tuned(0.06)
    first_share: float = tuned(0.6)
    caution: float = tuned(0.8)

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, caution=self.caution)
        given = {"candidates": self.candidates, "batches": self.batches, "max_attrs": self.max_attrs}
        given |= {"clique_cells": self.clique_cells, "total_cells": self.total_cells}
        given |= {"model_ms": self.model_ms}
        given |= {"graph_share": self.graph_share, "choice_share": self.choice_share}
        check_positive(**{name: value for name, value in given.items() if value != 0})
        check_shares(self.first_share)
        if self.faithful:
            check_shares(self._graph_share, self.count_share, self._choice_share)
        else:
            check_shares(self.oneway_share, self._graph_share)
            check_shares(self._choice_share / (1 - self.oneway_share - self._graph_share) + self.first_share)

    @property
    def _graph_share(self) -> float:
        return self.graph_share or (0.1 if self.faithful else 0.04)

    @property
    def _choice_share(self) -> float:
        return self.choice_share or (0.1 if self.faithful else 0.03)

    @property
    def _limits(self) -> dict[str, float]:
        ours, papers = (1e6, 5e6), (1e7, 5e7)
        clique, total = papers if self.faithful else ours
        return {"clique_cells": self.clique_cells or clique, "total_cells": self.total_cells or total}

    @property
    def _model_limits(self) -> Limits:
        return Limits(1e-3 * (self.model_ms or (15.0 if self.faithful else 60.0)), _MEMORY_MB)

    def rounds(self, columns: int) -> int:
        """Number of choices for a table of so many columns."""
        return self.batches or (math.floor(0.8 * columns) if self.faithful else 2)

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        scored = Step.pair_scores(domain, rho * self._graph_share)
        note = f"errors of candidates (at most {self._choice_share:.0%} of the budget), counts of the chosen"
        if self.faithful:
            count = Step.number_of_rows(rho * self.count_share)
            return Split.of(rho, scored, count, rest=Step.sets(MARGINALS, UNKNOWN, note))
        oneways = Step.columns(domain, rho * self.oneway_share)
        first = (rho - oneways.rho - scored.rho) * self.first_share
        return Split.of(
            rho,
            oneways,
            scored,
            Step.sets(FIRST, UNKNOWN, "counts of the sets that hold most of the dependence", first),
            rest=Step.sets(FURTHER, UNKNOWN, note),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        if len(door.domain) == 1:
            only = door.measure([door.domain.names], door.stddev_for(door.remaining), step=ONEWAYS)
            return fit(door.domain, only)
        if self.faithful:
            return fit_paper(self._paper(len(door.domain)), door, rng, progress)
        return self._fit(door, rng, progress)

    def _paper(self, columns: int) -> PaperSettings:
        return PaperSettings(
            theta=self.theta,
            rounds=self.rounds(columns),
            candidates=self.candidates or 400,
            max_attrs=self.max_attrs or 10,
            graph_share=self._graph_share,
            count_share=self.count_share,
            choice_share=self._choice_share,
            limits=self._model_limits,
            **self._limits,
        )

    def _fit(self, door: GuardedTable, rng: np.random.Generator, progress: Progress) -> Model:
        rho, zeros = door.remaining, model_zeros(door.schema)
        progress("measuring every column", 0.0)
        shares = allocate(door.domain.sizes, rho * self.oneway_share)
        oneways = door.measure(_singles(door.domain), [door.stddev_for(share) for share in shares], step=ONEWAYS)
        independent = fit(door.domain, oneways, zeros=zeros)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        limit = useful_cells(independent.total, stddev, self.theta)
        levels = column_levels(door, [name for clique in zeros for name in clique])
        maps = coarse_maps(levels, _columns(independent), stddev, max(limit, PAIR_CELLS))
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
        """Everything after the columns by themselves, at the level at which `door` shows them.

        `spent` is what the first marginals have had already.
        """
        domain = door.domain
        progress("scoring every pair", 0.05)
        pairs = list(combinations(domain.names, 2))
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self._graph_share), step=SCORES)
        progress("choosing the first sets", 0.1)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        cover = Cover.of(domain, _columns(independent), stddev, self.caution, self._model_limits)
        graph = best_graph(
            domain, pairs, errors, cover.prices(pairs), rng,
            tries=max(1, min(_GRAPHS, _GRAPH_WORK // len(pairs))), **self._limits,
        )  # fmt: skip
        limit = useful_cells(independent.total, stddev, self.theta)
        chosen = cover.first(graph.cliques, pairs, errors, door.remaining, self.max_attrs or 6, limit, rng)
        first = (door.remaining + spent) * self.first_share - spent
        cover.measured = chosen or _singles(domain)
        cover.spent = allocate(cover.prices(cover.measured) ** 1.5, first)
        measured = door.measure(cover.measured, [door.stddev_for(share) for share in cover.spent], step=FIRST)
        model = _refit(domain, [*oneways, *measured], independent, 60)
        for batch in range(self.rounds(len(domain))):
            progress("choosing and measuring further sets", 0.3 + 0.5 * batch / self.rounds(len(domain)))
            left = self.rounds(len(domain)) - batch
            measured += self._further(door, model, cover, graph.cliques, limit, rho, left, rng)
            model = _refit(domain, [*oneways, *measured], model, 60 if left > 1 else 200)
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
        """One batch: errors of random candidates, then counts of those worth it and more of the old ones."""
        domain, spend = door.domain, door.remaining / batches_left
        kept = door.remaining - spend
        sample = cover.sample(cliques, self.max_attrs or 6, limit, self.candidates or 150, rng)
        chosen: list[Clique] = []
        if sample:
            references = model.marginals(sample)
            score = ResidualL1(tuple(sample), tuple(references))
            stddev = door.score_stddev_for(score, rho * self._choice_share / self.rounds(len(domain)))
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
