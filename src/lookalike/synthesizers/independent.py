"""Every column on its own: the baseline that any method must beat, and all that a tiny budget affords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.model_size import model_zeros
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress


@dataclass(frozen=True, slots=True)
class Independent:
    """All one-way marginals and nothing else; columns come out independent of each other.

    The budget is shared by cells^(2/3), which minimises the total expected L1 error of the noisy counts.
    """

    name: ClassVar[str] = "independent"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="Independent columns",
        paper="baseline ('marginals' in the plausible-deniability paper)",
        good_for="tiny budgets, and as the floor that every other method must beat",
        corrected="nothing to correct; the row count is noisy, not copied",
    )

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        note = "counts of every column"
        return [PlannedStep("one-way marginals", "gaussian", len(domain), float(budget.rho), note)]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.0)
        cliques = [(name,) for name in door.domain.names]
        stddevs = [door.stddev_for(rho) for rho in allocate(door.domain.sizes, door.remaining)]
        oneways = door.measure(cliques, stddevs, step="one-way marginals")
        progress("fitting", 0.5)
        return fit(door.domain, oneways, zeros=model_zeros(door.schema))
