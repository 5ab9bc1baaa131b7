"""PPSyn, made private: adaptive rounds that measure groups of cells (partition-based private data synthesis)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.errors import BudgetError
from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.schema.enforce import structural_zeros
from lookalike.select.allocation import allocate
from lookalike.select.model_size import SizeGate
from lookalike.select.partition import PartitionPath, partition_path
from lookalike.select.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_rounds, check_shares

ONEWAYS, ERRORS, GROUPS = "one-way marginals", "errors of the model", "groups of chosen marginals"
LOOKED_AT = 12
"""Candidates whose partitions are computed in a round: those with the largest contributions."""
MIN_LEFT = 1e-6
"""Part of the budget below which another round would be noise alone."""


@dataclass(frozen=True, slots=True)
class PPSyn:
    """One-way marginals, then rounds of: the marginal that improves most per unit of budget, measured in groups.

    All candidates' errors against the independent model are measured once. From then on a candidate's contribution is
    that noisy error less the distance the model has moved on it: post-processing, so rounds cost nothing but what they
    measure. A round takes the budget that its marginal requires, at least an even share of what is left.

    Attributes:
        workload: the marginals that should be accurate.
        eta: part of a marginal's improvement that noise and grouping may spoil (the paper's eta).
        rounds: how many marginals are chosen; 0 means 4 per column. The last one takes what is left.
        oneway_share: part of the budget for one-way marginals.
        error_share: part of the budget for the noisy errors of all candidates.
        model_ms: largest model, in predicted milliseconds per evaluation.
        iterations: steps of the fit after each round; the last fit takes more.
    """

    workload: WorkloadSpec = "all-2way"
    eta: float = 0.7
    rounds: int = 0
    oneway_share: float = 0.1
    error_share: float = 0.2
    model_ms: float = 3.0
    iterations: int = 30

    name: ClassVar[str] = "ppsyn"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PPSyn",
        paper="PPSyn: partition-based differentially private synthetic data generation",
        good_for="small budgets and columns with many values",
        corrected="partitions and required budgets come from the model and from noisy errors that were paid for, not "
        "from true counts; budgets are clipped to what is left; group sums enter the fit as such",
    )

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.error_share)
        check_rounds(self.rounds)
        check_positive(model_ms=self.model_ms, iterations=self.iterations)
        if not 0 < self.eta < 1:
            raise BudgetError(f"eta is {self.eta:g}; it must be between 0 and 1.")

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        candidates = self._candidates(domain)
        if not candidates:
            return [PlannedStep(ONEWAYS, "gaussian", d, rho, "counts of every column")]
        oneways, errors = rho * self.oneway_share, rho * self.error_share
        return [
            PlannedStep(ONEWAYS, "gaussian", d, oneways, "counts of every column"),
            PlannedStep(ERRORS, "gaussian", len(candidates), errors, "how wrong the independent model is"),
            PlannedStep(GROUPS, "gaussian", self._rounds(domain), rho - oneways - errors, "sums of groups of cells"),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.0)
        candidates = self._candidates(domain)
        shares = allocate(domain.sizes, rho * self.oneway_share if candidates else rho)
        measured = door.measure([(n,) for n in domain.names], [door.stddev_for(r) for r in shares], step=ONEWAYS)
        model = fit(domain, measured)
        if not candidates:
            return model
        progress("measuring the errors of the independent model", 0.05)
        score = ResidualL1(tuple(candidates), tuple(model.marginals(candidates)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, rho * self.error_share), step=ERRORS)
        gate, rounds = SizeGate(), self._rounds(domain)
        for number in range(rounds):
            progress("choosing and measuring", 0.1 + 0.8 * number / rounds)
            usable = set(gate.admitted(model, candidates, self.model_ms))
            places = [i for i, clique in enumerate(candidates) if clique in usable]
            if not places:  # every pair is too large for the model: what is left makes the columns better
                singles = [(name,) for name in domain.names]
                measured += door.measure(singles, door.stddev_for(door.remaining, len(singles)), step=GROUPS)
                break
            left = door.remaining
            least = left / (rounds - number)
            references = [score.references[i] for i in places]
            choice, path, price = self._choose(
                model.marginals([candidates[i] for i in places]), errors[places], references, least
            )
            stddev = door.stddev_for(min(price, left) if number < rounds - 1 else left)
            groups = path.partition(path.finest_worthwhile(stddev))
            measured += door.measure([candidates[places[choice]]], stddev, step=GROUPS, groups=[groups])
            if door.remaining <= MIN_LEFT * rho:
                break
            model = fit(domain, measured, warm=model, iterations=self.iterations)
        progress("fitting the last model", 0.9)
        return fit(domain, measured, warm=model, zeros=structural_zeros(door.schema))

    def _choose(
        self, present: list[np.ndarray], errors: np.ndarray, references: list[np.ndarray], least: float
    ) -> tuple[int, PartitionPath, float]:
        """Index, partitions and price of the marginal with the best contribution per unit of budget.

        A price is at least `least`, and just that where no partition pays for itself.
        """
        moved = np.array([np.abs(now - before).sum() for now, before in zip(present, references, strict=True)])
        contributions = np.maximum(errors - moved, 0.0)
        found = []
        for i in np.argsort(-contributions, kind="stable")[:LOOKED_AT]:
            path = partition_path(present[i])
            _, price = path.cheapest(float(contributions[i]), self.eta)
            price = least if math.isinf(price) else max(price, least)
            found.append((contributions[i] / price, -len(found), int(i), path, price))
        _, _, choice, path, price = max(found, key=lambda entry: entry[:2])
        return choice, path, price

    def _candidates(self, domain: Domain) -> list[Clique]:
        return [clique for clique in as_workload(self.workload, domain).closure(domain) if len(clique) > 1]

    def _rounds(self, domain: Domain) -> int:
        return self.rounds or 4 * len(domain)
