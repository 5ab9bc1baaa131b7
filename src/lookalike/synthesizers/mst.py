"""MST: a maximum spanning tree of noisy pairs (McKenna, Miklau and Sheldon 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.generate.refine import refined
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain
from lookalike.select.allocation import shares_by_cells
from lookalike.select.rare import merge_rare
from lookalike.select.spanning_tree import maximum_spanning_tree
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress

ONEWAYS, SCORES, PAIRS = "one-way marginals", "pair scores", "pairs of the tree"


@dataclass(frozen=True, slots=True)
class MST:
    """One-way marginals, a noisy score for every pair, and the pairs of the heaviest tree.

    Attributes:
        oneway_share: part of the budget for one-way marginals.
        score_share: part of the budget for scoring all pairs; the tree's pairs get the rest.
        merge_below: values whose noisy count is under this many standard deviations are modelled as one; 0 merges none.
    """

    oneway_share: float = 1 / 3
    score_share: float = 1 / 3
    merge_below: float = 3.0

    name: ClassVar[str] = "mst"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="MST",
        paper="McKenna, Miklau, Sheldon: Winning the NIST Contest (J. Privacy and Confidentiality 2021)",
        good_for="a robust, fast baseline; wide tables; many values per column",
        corrected="the tree comes from one noisy scoring of all pairs (sensitivity 1) instead of exponential mechanisms, "
        "so that the run is all-Gaussian and the exact curve applies; the row count is noisy",
    )

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(ONEWAYS, "gaussian", 1, rho, "counts of the only column")]
        return [
            PlannedStep(ONEWAYS, "gaussian", d, rho * self.oneway_share, "counts of every column"),
            PlannedStep(SCORES, "gaussian", d * (d - 1) // 2, rho * self.score_share, "how far each pair is from independent"),
            PlannedStep(PAIRS, "gaussian", d - 1, rho * (1 - self.oneway_share - self.score_share), "counts of the tree's pairs"),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho = float(door.budget.rho)
        progress("measuring every column", 0.0)
        singles = [(name,) for name in door.domain.names]
        oneway_rho = door.remaining if len(singles) == 1 else rho * self.oneway_share
        sigma = door.stddev_for(oneway_rho, len(singles))
        oneways = door.measure(singles, sigma, step=ONEWAYS)
        if len(singles) == 1:
            return fit(door.domain, oneways)
        maps = merge_rare(oneways, self.merge_below * sigma)
        coarse = door.coarsened(maps)
        ...
