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
from lookalike.select.price import CoverSearch, EffectiveCells, SetLimits
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress
from lookalike.tables.cliques import clique_mask, maximal_cliques, connected_components
from lookalike.tables.measurement import estimated_total
from lookalike.tables.cost import predict_cost

ONEWAYS, SCORES, SETS = "one-way marginals", "pair scores", "chosen sets"


def fitting_subset(domain, cliques, limit_ns):
    kept = []
    for c in cliques:
        if predict_cost(domain, [*kept, c]).seconds_per_call <= limit_ns * 1e-9:
            kept.append(c)
    return kept


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
        priced = search.at_budget(door.remaining)
        say("chosen", len(priced.cliques), sum(map(domain.cells, priced.cliques)))
        left = door.remaining
        measured = door.measure(priced.cliques, [door.stddev_for(left * s) for s in priced.shares], step=SETS)
        kept = set(fitting_subset(domain, priced.cliques, self.network_ms * 1e6))
        everything = [*oneways, *measured]
        say("network", len(kept), "sigma", min(m.stddev for m in measured), max(m.stddev for m in measured))
        total = estimated_total(everything)
        network = fit(domain, [m for m in everything if len(m.attrs) == 1 or m.attrs in kept], total=total, penalty=self.penalty)
        say("fitted")
        if self.mode == "network":
            return network
        return ReweightedModel(network, everything, {n: getattr(self, n) for n in ("penalty", "iterations", "support", "refresh", "sweeps", "passes", "candidates", "power", "features", "orders", "ess", "soft", "grain", "trust", "width")})
