"""Mosaic: the pieces worth their price, whether or not they fit one network, laid into one table. Our own method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.exchange import ExchangeSettings
from lookalike.generate.model import Model
from lookalike.generate.reweighted import ReweightedModel, SupportSettings
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.larger_sets import candidate_sets, worthwhile_sets
from lookalike.select.model_size import model_zeros
from lookalike.select.network_sets import fitting_sets
from lookalike.select.price import CoverSearch, EffectiveCells, SetLimits
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, SCORES, SETS = "one-way marginals", "pair scores", "chosen sets"
LARGER_SCORES, LARGER = "scores of larger sets", "larger sets"

_SCORED_CELLS = 20_000_000
_TYPICAL_SETS = 25
_FIRST_LOOK = SupportSettings(most_rows=60_000, iterations=40)


@dataclass(frozen=True, slots=True)
class Mosaic:
    """Counts of every column, one noisy look at all pairs, and one price that decides what is measured how precisely.

    Nothing that is worth measuring is left out because it does not fit a graphical model: the sets that fit draw rows,
    weights make the rows match all sets, and rows are chosen so that small marginals come out right; docs/mosaic.md.

    Attributes:
        oneway_share: part of the budget for the one-way marginals.
        small_oneway_share: the same for small budgets, where single columns are uncertain too.
        small_rho: budgets below this (about epsilon 0.5) are small; they also skip the larger sets.
        score_share: part for the errors of all pairs against independence.
        larger_share: part of the rest for sets of three and more attributes that the first model gets wrong.
        larger_score_share: part of the whole for scoring those.
        order: most attributes of a set that covers pairs.
        cells: most cells of such a set of three and more.
        larger_order: most attributes of a set of the second look.
        larger_cells: most cells of such a set.
        larger_candidates: how many of them are scored.
        caution: factor on the noise that the price rule expects.
        penalty: strength of the fit's penalty, in units of the noise.
        line: strength of the absolute penalty; see `WeightPenalty`.
        network_ms: size of the network that draws the rows, in predicted milliseconds per evaluation.
        support: most weighted rows at a time.
        renewals: Gibbs renewals of the weighted rows.
        passes: passes over the rows that exchange them for better ones.
    """

    oneway_share: float = 0.08
    small_oneway_share: float = 0.2
    small_rho: float = 0.01
    score_share: float = 0.04
    larger_share: float = 0.4
    larger_score_share: float = 0.03
    order: int = 4
    cells: int = 256
    larger_order: int = 5
    larger_cells: int = 20_000
    larger_candidates: int = 100
    caution: float = 0.8
    penalty: float = 0.5
    line: float = 0.3
    network_ms: float = 2.0
    support: int = 150_000
    renewals: int = 1
    passes: int = 3

    name: ClassVar[str] = "mosaic"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="Mosaic",
        paper="our own; docs/mosaic.md",
        good_for="almost everything: the lowest error on our benchmark tables or close to it, in seconds",
        corrected="nothing to correct; all noise is Gaussian, so the exact curve applies",
    )

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share, self.larger_score_share)
        check_shares(self.small_oneway_share, self.score_share)
        check_shares(self.larger_share)
        check_positive(
            caution=self.caution, penalty=self.penalty, network_ms=self.network_ms, support=self.support,
            larger_candidates=self.larger_candidates,
        )  # fmt: skip

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, pairs = float(budget.rho), len(scored_pairs(domain))
        if not pairs:
            return [PlannedStep(ONEWAYS, "gaussian", len(domain), rho, "counts of every column")]
        oneways, scores = rho * self._oneway_share(rho), rho * self.score_share
        steps = [
            PlannedStep(ONEWAYS, "gaussian", len(domain), oneways, "counts of every column"),
            PlannedStep(SCORES, "gaussian", pairs, scores, "how far each pair is from independent"),
        ]
        rest = rho - oneways - scores
        if not self._looks_twice(domain, rho):
            return [*steps, PlannedStep(SETS, "gaussian", -1, rest, "counts of the sets worth their price")]
        sets, larger_scores = rest * (1 - self.larger_share), rho * self.larger_score_share
        note = "how far larger sets are from the first model"
        return [
            *steps,
            PlannedStep(SETS, "gaussian", -1, sets, "counts of the sets worth their price"),
            PlannedStep(LARGER_SCORES, "gaussian", -1, larger_scores, note),
            PlannedStep(LARGER, "gaussian", -1, rest - sets - larger_scores, "counts of the larger sets worth it"),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho, pairs = door.domain, door.remaining, scored_pairs(door.domain)
        progress("measuring every column", 0.02)
        shares = allocate(domain.sizes, rho * self._oneway_share(float(door.budget.rho)) if pairs else rho)
        oneways = door.measure([(name,) for name in domain.names], [door.stddev_for(r) for r in shares], step=ONEWAYS)
        independent = fit(domain, oneways, zeros=model_zeros(door.schema))
        if not pairs:
            return independent
        progress("scoring every pair", 0.05)
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        found = door.noisy_scores(score, door.score_stddev_for(score, rho * self.score_share), step=SCORES)
        errors = _matrix(domain, pairs, found)
        progress("pricing and measuring sets", 0.1)
        twice = self._looks_twice(domain, float(door.budget.rho))
        first_rho = door.remaining * (1 - self.larger_share) if twice else door.remaining
        stddev = math.sqrt(_TYPICAL_SETS / (2 * rho))
        chosen = self._measure_sets(door, independent, errors, first_rho, stddev)
        if twice:
            progress("looking for larger sets", 0.2)
            first = self._model(independent, oneways, chosen, _FIRST_LOOK)
            larger = self._measure_larger(door, first, errors, [m.attrs for m in chosen], rho, stddev)
            chosen = _combined([*chosen, *larger])
        progress("fitting", 0.5)
        exchange = ExchangeSettings(passes=self.passes)
        settings = SupportSettings(
            most_rows=self.support, renewals=self.renewals, ridge=self.penalty, line=self.line, exchange=exchange
        )
        return self._model(independent, oneways, chosen, settings)

    def _oneway_share(self, rho: float) -> float:
        return self.small_oneway_share if rho < self.small_rho else self.oneway_share

    def _looks_twice(self, domain: Domain, rho: float) -> bool:
        """Whether the budget affords a second look and some set of three attributes is small enough; public facts."""
        if rho < self.small_rho:
            return False
        sizes = sorted(size for size in domain.sizes if size > 1)[:3]
        return len(sizes) == 3 and math.prod(sizes) <= self.larger_cells

    def _measure_sets(
        self, door: GuardedTable, independent: GraphicalModel, errors: np.ndarray, rho: float, stddev: float
    ) -> list[NoisyMarginal]:
        """The sets that cover large errors of pairs at less than their price; where no error is positive, all pairs."""
        domain = door.domain
        oneways = {name: independent.marginal((name,)) for name in domain.names}
        cells = EffectiveCells(domain, oneways, independent.total, stddev)
        priced = CoverSearch(domain, errors, cells, SetLimits(self.order, self.cells), self.caution).at_budget(rho)
        cliques = priced.cliques or scored_pairs(domain)
        shares = priced.shares if priced.cliques else allocate([domain.cells(c) for c in cliques], 1.0)
        return door.measure(cliques, [door.stddev_for(rho * share) for share in shares], step=SETS)

    def _measure_larger(
        self, door: GuardedTable, model: Model, errors: np.ndarray, known: list[Clique], rho: float, stddev: float
    ) -> list[NoisyMarginal]:
        """The larger sets worth their price given the model; known sets again where there are no others."""
        domain = door.domain
        limits = {"order": self.larger_order, "cells": self.larger_cells, "most": self.larger_candidates}
        sets = candidate_sets(domain, errors, known, **limits) or known[: self.larger_candidates]
        references = model.marginals(sets)
        score = ResidualL1(tuple(sets), tuple(references))
        noise = door.score_stddev_for(score, rho * self.larger_score_share)
        found = door.noisy_scores(score, noise, step=LARGER_SCORES)
        cells = np.array([max(float(np.minimum(1.0, table / stddev).sum()), 1e-3) for table in references])
        left = door.remaining
        priced = worthwhile_sets(sets, found, cells, left, self.caution)
        return door.measure(priced.cliques, [door.stddev_for(left * s) for s in priced.shares], step=LARGER)

    def _model(
        self,
        independent: GraphicalModel,
        oneways: Sequence[NoisyMarginal],
        chosen: Sequence[NoisyMarginal],
        settings: SupportSettings,
    ) -> ReweightedModel:
        """The network of the sets that fit together, and weighted rows for all of them."""
        domain, zeros = independent.domain, independent.zeros
        inside = set(fitting_sets(domain, [m.attrs for m in chosen], self.network_ms))
        total = estimated_total([*oneways, *chosen])
        kept = [*oneways, *(m for m in chosen if m.attrs in inside)]
        network = fit(domain, kept, total=total, penalty=self.penalty, zeros=zeros)
        return ReweightedModel(network, [*oneways, *chosen], settings)


def scored_pairs(domain: Domain) -> list[Clique]:
    """All pairs of columns with two or more values, fewest cells first, as far as they can be counted in memory."""
    active = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]
    pairs = sorted(combinations(active, 2), key=domain.cells)
    within = int(np.searchsorted(np.cumsum([domain.cells(pair) for pair in pairs]), _SCORED_CELLS, side="right"))
    return pairs[:within]


def _matrix(domain: Domain, pairs: Sequence[Clique], values: np.ndarray) -> np.ndarray:
    """Values of pairs as a symmetric matrix; 0 where there is none."""
    matrix = np.zeros((len(domain), len(domain)))
    for (a, b), value in zip(pairs, values, strict=True):
        i, j = domain.position(a), domain.position(b)
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _combined(measurements: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """Repeats of a set as one measurement, their mean by precision."""
    repeats: dict[Clique, list[NoisyMarginal]] = {}
    for measurement in measurements:
        repeats.setdefault(measurement.attrs, []).append(measurement)
    combined: list[NoisyMarginal] = []
    for attrs, same in repeats.items():
        precision = np.array([m.stddev**-2.0 for m in same])
        mean = np.average([m.values for m in same], axis=0, weights=precision)
        combined.append(same[0] if len(same) == 1 else NoisyMarginal(attrs, mean, float(precision.sum()) ** -0.5))
    return combined
