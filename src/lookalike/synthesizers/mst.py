"""MST: a maximum spanning tree of noisy pairs (McKenna, Miklau and Sheldon 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.model_size import model_zeros
from lookalike.select.pair_selection import maximum_spanning_tree
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_shares

ONEWAYS, SCORES, PAIRS = "one-way marginals", "pair scores", "pairs of the tree"


@dataclass(frozen=True, slots=True)
class MST:
    """One-way marginals, a noisy score for every pair, and the pairs of the heaviest tree.

    Attributes:
        oneway_share: part of the budget for one-way marginals.
        score_share: part of the budget for scoring all pairs; the tree's pairs get the rest.
    """

    oneway_share: float = 0.15
    score_share: float = 0.05

    name: ClassVar[str] = "mst"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="MST",
        paper="McKenna, Miklau, Sheldon: Winning the NIST Contest (J. Privacy and Confidentiality 2021)",
        good_for="a robust, fast baseline; wide tables; many values per column",
        corrected="the tree comes from one noisy scoring of all pairs (sensitivity 1) instead of exponential "
        "mechanisms, so that the run is all-Gaussian and the exact curve applies; the row count is noisy",
    )

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(ONEWAYS, "gaussian", 1, rho, "counts of the only column")]
        oneways, scores = rho * self.oneway_share, rho * self.score_share
        return [
            PlannedStep(ONEWAYS, "gaussian", d, oneways, "counts of every column"),
            PlannedStep(SCORES, "gaussian", d * (d - 1) // 2, scores, "how far each pair is from independent"),
            PlannedStep(PAIRS, "gaussian", d - 1, rho - oneways - scores, "counts of the tree's pairs"),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.05)
        singles = [(name,) for name in domain.names]
        oneway_rho = rho * self.oneway_share if len(domain) > 1 else rho
        oneways = door.measure(singles, [door.stddev_for(r) for r in allocate(domain.sizes, oneway_rho)], step=ONEWAYS)
        independent = fit(domain, oneways, zeros=model_zeros(door.schema))
        if len(domain) == 1:
            return independent
        progress("scoring every pair", 0.2)
        pairs = list(combinations(domain.names, 2))
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self.score_share), step=SCORES)
        tree = maximum_spanning_tree(pairs, errors)
        progress("measuring the tree", 0.4)
        shares = allocate([domain.cells(pair) for pair in tree], door.remaining)
        measured = door.measure(tree, [door.stddev_for(r) for r in shares], step=PAIRS)
        progress("fitting the tree", 0.6)
        return fit(domain, [*oneways, *measured], warm=independent)
