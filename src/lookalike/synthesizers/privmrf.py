"""PrivMRF: a Markov random field of many low-dimensional marginals (Cai, Lei, Wei and Xiao 2021), corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import IndependenceGap, ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.cover import cover_sets, effective_cells, further_sets, top_up
from lookalike.select.markov_graph import best_graph, grow_graph
from lookalike.select.model_size import model_zeros
from lookalike.select.useful import Candidates, initial_sets, useful_candidates, useful_cells
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, SCORES, COUNT = "one-way marginals", "pair scores", "number of rows"
FIRST, FURTHER, MARGINALS = "first marginals", "further marginals and their choice", "marginals and their choice"

TYPICAL_SETS = 25
"""About so many sets are measured; with the whole budget shared by them comes the noise of a typical one."""

_GRAPHS, _GRAPH_WORK = 40, 6000
_MOST_CELLS, _MOST_PAIR_CELLS = 1000, 100_000
_KEEP = 30_000


@dataclass(frozen=True, slots=True)
class PrivMRF:
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
        clique_cells: most cells of a clique of the graph, the paper's tau_c (1e6 / 2e5).
        total_cells: most cells of all cliques together (5e6 / 1e6, as the authors' program on a processor).
        max_attrs: most attributes of a marginal (6 / 10).
        graph_share: part of the budget for pair scores (0.04 / 0.1).
        choice_share: part of the budget for the errors of candidates (0.03 / 0.1).
        count_share: part of the budget for the number of rows (faithful only).
        oneway_share: part of the budget for one-way marginals (default only).
        first_share: part of what is then left for the sets that pair scores suggest (default only).
        caution: weight of noise against error when sets are chosen (default only).
    """

    faithful: bool = False
    theta: float = 6.0
    candidates: int = 0
    batches: int = 0
    clique_cells: float = 0.0
    total_cells: float = 0.0
    max_attrs: int = 0
    graph_share: float = 0.0
    choice_share: float = 0.0
    count_share: float = 0.01
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
        "counts with constant sensitivity; domains from the schema. The default goes on: scores against the noisy "
        "independent model (sensitivity 1), rows counted by one-ways, sets that cover most error per noise, "
        "batches, penalised fits",
    )

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, caution=self.caution)
        given = {"candidates": self.candidates, "batches": self.batches, "max_attrs": self.max_attrs}
        given |= {"clique_cells": self.clique_cells, "total_cells": self.total_cells}
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
        ours, papers = (1e6, 5e6), (2e5, 1e6)
        clique, total = papers if self.faithful else ours
        return {"clique_cells": self.clique_cells or clique, "total_cells": self.total_cells or total}

    def rounds(self, columns: int) -> int:
        """Number of choices for a table of so many columns."""
        return self.batches or (math.floor(0.8 * columns) if self.faithful else 2)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(ONEWAYS, "gaussian", 1, rho, "counts of the only column")]
        scores = PlannedStep(
            SCORES, "gaussian", d * (d - 1) // 2, rho * self._graph_share, "how far each pair is from independent"
        )  # fmt: skip
        if self.faithful:
            count = PlannedStep(COUNT, "gaussian", 1, rho * self.count_share, "number of rows")
            note = f"errors of candidates (at most {self._choice_share:.0%} of the budget), counts of the chosen"
            return [scores, count, PlannedStep(MARGINALS, "gaussian", -1, rho - scores.rho - count.rho, note)]
        oneways = PlannedStep(ONEWAYS, "gaussian", d, rho * self.oneway_share, "counts of every column")
        left = rho - oneways.rho - scores.rho
        first = left * self.first_share
        note = f"errors of candidates (at most {self._choice_share:.0%} of the budget), counts of the chosen"
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
        return self._fit_faithful(door, rng, progress) if self.faithful else self._fit(door, rng, progress)

    # The default.

    def _fit(self, door: GuardedTable, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.0)
        shares = allocate(domain.sizes, rho * self.oneway_share)
        oneways = door.measure(_singles(domain), [door.stddev_for(share) for share in shares], step=ONEWAYS)
        independent = fit(domain, oneways, zeros=model_zeros(door.schema))
        progress("scoring every pair", 0.05)
        pairs = list(combinations(domain.names, 2))
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self._graph_share), step=SCORES)
        progress("choosing the first sets", 0.1)
        stddev = door.stddev_for(rho, TYPICAL_SETS)
        cover = Cover.of(independent, stddev, self.caution)
        graph = best_graph(
            domain, pairs, errors, cover.prices(pairs), rng,
            tries=max(1, min(_GRAPHS, _GRAPH_WORK // len(pairs))), **self._limits,
        )  # fmt: skip
        limit = useful_cells(independent.total, stddev, self.theta)
        sets = cover.first(graph.cliques, pairs, errors, door.remaining, self.max_attrs or 6, limit, rng)
        first = door.remaining * self.first_share
        cover.measured = sets or _singles(domain)
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

    # The paper's steps.

    def _fit_faithful(self, door: GuardedTable, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho, d = door.domain, door.remaining, len(door.domain)
        rounds, k = self.rounds(d), self.candidates or 400
        progress("scoring every pair", 0.0)
        pairs = list(combinations(domain.names, 2))
        score = IndependenceGap(tuple(pairs))
        # R is half the gap, with half its sensitivity.
        gaps = door.noisy_scores(score, door.score_stddev_for(score, rho * self._graph_share), step=SCORES)
        graph = grow_graph(domain, pairs, gaps, **self._limits)
        count = door.measure([()], door.stddev_for(rho * self.count_share), step=COUNT)[0]
        total = max(1.0, float(count.values))
        choice_rho = rho * self._choice_share
        stddev = door.stddev_for(door.remaining - choice_rho, d + rounds)
        limit = useful_cells(total, stddev, self.theta)
        useful = useful_candidates(domain, graph.cliques, limit, rng, most=self.max_attrs or 10)
        picked = initial_sets(useful, _square(domain, pairs, gaps) / (2 * total))
        measured = door.measure(useful.cliques(picked), stddev, step=MARGINALS)
        unused = np.setdiff1d(np.arange(len(useful)), picked)
        model: GraphicalModel | None = None
        zeros = model_zeros(door.schema)
        for number in range(rounds):
            progress("choosing and measuring", 0.1 + 0.7 * number / rounds)
            if not len(unused):
                break
            model = fit(domain, measured, total=total, method="mirror", warm=model, iterations=200, zeros=zeros)
            sample = rng.choice(unused, min(k, len(unused)), replace=False)
            best = self._worst(door, model, useful.cliques(sample), choice_rho / rounds)
            unused = unused[unused != sample[best]]
            measured += door.measure([useful.clique(sample[best])], stddev, step=MARGINALS)
        measured += _spend_rest(door, [marginal.attrs for marginal in measured])
        progress("fitting the last model", 0.8)
        return fit(domain, measured, total=total, method="mirror", warm=model, zeros=zeros)

    def _worst(self, door: GuardedTable, model: GraphicalModel, cliques: list[Clique], rho: float) -> int:
        """Index of the set with the largest noisy L1 error (Algorithm 4, lines 5 to 10)."""
        score = ResidualL1(tuple(cliques), tuple(model.marginals(cliques)))
        return int(np.argmax(door.noisy_scores(score, door.score_stddev_for(score, rho), step=MARGINALS)))


@dataclass(slots=True)
class Cover:
    """The sets measured so far, what each has had, and the prices by which sets are chosen. Released facts only.

    Attributes:
        domain: names and sizes of the attributes.
        oneways: counts of every attribute under the independent model.
        stddev: noise of a typical measurement.
        caution: weight of noise against error.
        measured: sets measured so far.
        spent: rho that each has had.
    """

    domain: Domain
    oneways: dict[str, np.ndarray]
    stddev: float
    caution: float
    measured: list[Clique]
    spent: np.ndarray

    @classmethod
    def of(cls, independent: GraphicalModel, stddev: float, caution: float) -> Cover:
        domain = independent.domain
        oneways = {name: independent.marginal((name,)) for name in domain.names}
        return cls(domain, oneways, stddev, caution, [], np.zeros(0))

    def prices(self, cliques: Sequence[Clique]) -> np.ndarray:
        """(effective cells)^(2/3) of every set."""
        return effective_cells(cliques, self.oneways, self.stddev) ** (2 / 3)

    def first(
        self,
        cliques: Sequence[Clique],
        pairs: Sequence[Clique],
        errors: np.ndarray,
        rho: float,
        most: int,
        limit: float,
        rng: np.random.Generator,
    ) -> list[Clique]:
        """The sets inside the cliques that cover most pair error per price."""
        candidates, prices = self._useful(cliques, 2, most, limit, rng)
        if not len(candidates):
            return []
        picked = cover_sets(candidates, prices, _square(self.domain, pairs, errors), rho, self.caution)
        return candidates.cliques(picked)

    def sample(
        self, cliques: Sequence[Clique], most: int, limit: float, size: int, rng: np.random.Generator
    ) -> list[Clique]:
        """Random sets inside the cliques, of three or more attributes, that are not measured yet."""
        candidates, _ = self._useful(cliques, 3, most, limit, rng)
        chosen = rng.choice(len(candidates), min(size, len(candidates)), replace=False)
        known = set(self.measured)
        return [clique for clique in candidates.cliques(chosen) if clique not in known]

    def further(
        self, sample: Sequence[Clique], references: Sequence[np.ndarray], errors: np.ndarray, rho: float
    ) -> list[Clique]:
        """The sets of the sample that are worth measuring, at prices by the present model's counts."""
        cells = [max(1.0, float(np.minimum(1.0, table / self.stddev).sum())) for table in references]
        prices = np.array(cells) ** (2 / 3)
        paid, budget = float(self.prices(self.measured).sum()), rho + float(self.spent.sum())
        return [sample[i] for i in further_sets(sample, errors, prices, paid, budget, self.caution)]

    def top_up(self, chosen: Sequence[Clique], rho: float) -> np.ndarray:
        """Takes the chosen sets in; what each measured set is to get so that rho is spent and shares are by price."""
        self.measured = [*self.measured, *chosen]
        had = np.concatenate([self.spent, np.zeros(len(chosen))])
        shares = top_up(self.prices(self.measured), had, rho)
        # Tiny additions are charges without use; their part goes to the others.
        shares[shares < 1e-3 * rho / len(shares)] = 0.0
        shares *= rho / shares.sum()
        self.spent = had + shares
        return shares

    def _useful(
        self, cliques: Sequence[Clique], fewest: int, most: int, limit: float, rng: np.random.Generator
    ) -> tuple[Candidates, np.ndarray]:
        """Candidates whose effective cells are within the limit, and their prices. Pairs are useful up to a size."""
        found = useful_candidates(self.domain, cliques, _MOST_PAIR_CELLS, rng, fewest=fewest, most=most, keep=_KEEP)
        found = found.where((found.cells <= _MOST_CELLS) | (found.members.sum(axis=1) == 2))
        prices = self.prices(found.cliques(range(len(found))))
        fits = (prices**1.5 <= limit) | (found.members.sum(axis=1) == 2)
        return found.where(fits), prices[fits]


def _singles(domain: Domain) -> list[Clique]:
    return [(name,) for name in domain.names]


def _square(domain: Domain, pairs: Sequence[Clique], scores: np.ndarray) -> np.ndarray:
    """Scores of pairs as a symmetric matrix."""
    matrix = np.zeros((len(domain), len(domain)))
    for (a, b), value in zip(pairs, scores, strict=True):
        i, j = domain.position(a), domain.position(b)
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _refit(domain: Domain, measured: Sequence[NoisyMarginal], warm: GraphicalModel, iterations: int) -> GraphicalModel:
    return fit(domain, measured, total=estimated_total(measured), warm=warm, iterations=iterations)


def _spend_rest(door: GuardedTable, cliques: Sequence[Clique]) -> list[NoisyMarginal]:
    """All sets once more, with what is left where there were too few candidates to choose from."""
    if door.remaining < 1e-9 * float(door.budget.rho):
        return []
    return door.measure(cliques, door.stddev_for(door.remaining, len(cliques)), step=MARGINALS)
