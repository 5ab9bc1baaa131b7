"""mosaic prototype."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
import random

from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.generate.reweighted import ReweightedModel
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.price import CoverSearch, worthwhile, EffectiveCells, SetLimits
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress
from lookalike.tables.cliques import clique_mask, maximal_cliques, connected_components
from lookalike.tables.measurement import estimated_total
from dataclasses import replace
from types import SimpleNamespace
from lookalike.select.model_size import SizeGate
from lookalike.select.higher import grown_candidates

ONEWAYS, SCORES, SETS = "one-way marginals", "pair scores", "chosen sets"
SECOND_SCORES, SECOND = "scores of larger sets", "larger sets"


@dataclass(frozen=True, slots=True)
class Mosaic:
    oneway_share: float = 0.08
    score_share: float = 0.04
    order: int = 4
    cells: int = 256
    caution: float = 0.8
    penalty: float = 0.5
    network_ms: float = 2.0
    support: int = 150_000
    refresh: int = 1
    sweeps: int = 1
    iterations: int = 60
    passes: int = 5
    candidates: int = 3
    power: float = 1.0
    features: int = 1_000_000
    orders: tuple = (2, 3)
    second_share: float = 0.3
    second_score: float = 0.03
    second_order: int = 5
    second_cells: int = 20000
    second_most: int = 100
    mode: str = "reweighted"
    ess: bool = False
    soft: float = 0.3
    grain: float = 1.0
    trust: float = 2.0
    width: float = 0.05

    name: ClassVar[str] = "mosaic"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(title="Mosaic", paper="", good_for="", corrected="")

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        oneways, scores = rho * self.oneway_share, rho * self.score_share
        return [
            PlannedStep(ONEWAYS, "gaussian", d, oneways, "counts of every column"),
            PlannedStep(SCORES, "gaussian", d * (d - 1) // 2, scores, "how far each pair is from independent"),
            PlannedStep(SETS, "gaussian", -1, rho - oneways - scores, "counts of chosen sets"),
            PlannedStep(SECOND_SCORES, "gaussian", -1, rho, ""),
            PlannedStep(SECOND, "gaussian", -1, rho, ""),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        import time
        t0 = time.process_time()
        def say(*a):
            if self.ess: print(f"[{time.process_time()-t0:.1f}]", *a)
        domain, rho = door.domain, door.remaining
        singles = [(name,) for name in domain.names]
        oneways = door.measure(singles, [door.stddev_for(r) for r in allocate(domain.sizes, rho * self.oneway_share)], step=ONEWAYS)
        total = estimated_total(oneways)
        independent = fit(domain, oneways)
        pairs = list(combinations(domain.names, 2))
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        found = door.noisy_scores(score, door.score_stddev_for(score, rho * self.score_share), step=SCORES)
        errors = np.zeros((len(domain), len(domain)))
        for (a, b), e in zip(pairs, found):
            i, j = domain.position(a), domain.position(b)
            errors[i, j] = errors[j, i] = e
        say("scored")
        cells = EffectiveCells(domain, {m.attrs[0]: independent.marginal(m.attrs) for m in oneways}, total, np.sqrt(25 / (2 * rho)))
        search = CoverSearch(domain, errors, cells, SetLimits(self.order, self.cells), self.caution)
        priced = search.at_budget(door.remaining * (1 - self.second_share))
        say("chosen", len(priced.cliques), sum(map(domain.cells, priced.cliques)))
        left = door.remaining * (1 - self.second_share)
        measured = door.measure(priced.cliques, [door.stddev_for(left * s) for s in priced.shares], step=SETS)
        first = replace(self, support=60_000, iterations=40) if self.second_share else self
        model = first.model(domain, [*oneways, *measured], priced.cliques, say)
        if self.second_share:
            known = [m.attrs for m in measured]
            sets = grown_candidates(domain, errors, known, order=self.second_order, cells=self.second_cells, most=self.second_most)
            references = model.marginals(sets)
            say("second candidates", len(sets))
            score = ResidualL1(tuple(sets), tuple(references))
            found = door.noisy_scores(score, door.score_stddev_for(score, rho * self.second_score), step=SECOND_SCORES)
            sref = np.sqrt(25 / (2 * rho))
            eff = np.array([np.minimum(1.0, r / sref).sum() for r in references])
            more = worthwhile(sets, found, eff, door.remaining, self.caution)
            say("second", len(more.cliques), more.cliques[:5], np.sort(found)[::-20].astype(int), door.score_stddev_for(score, rho * self.second_score))
            left = door.remaining
            added = door.measure(more.cliques, [door.stddev_for(left * s) for s in more.shares], step=SECOND)
            model = self.model(domain, [*oneways, *measured, *added], priced.cliques + more.cliques, say)
        return model

    def model(self, domain, everything, wanted, say):
        kept, gate = [], SizeGate(domain)
        for c in wanted:
            if gate.admitted(SimpleNamespace(cliques=kept), [c], self.network_ms):
                kept.append(c)
        say("network", len(kept), "of", len(everything) - len(domain))
        total = estimated_total(everything)
        network = fit(domain, [m for m in everything if len(m.attrs) == 1 or m.attrs in kept], total=total, penalty=self.penalty)
        say("fitted")
        if self.mode == "network":
            return network
        return ReweightedModel(network, everything, {n: getattr(self, n) for n in ("penalty", "iterations", "support", "refresh", "sweeps", "passes", "candidates", "power", "features", "orders", "ess", "soft", "grain", "trust", "width")})
