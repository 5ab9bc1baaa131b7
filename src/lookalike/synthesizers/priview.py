"""PriView: noisy views that hold every pair of columns, whatever the data (Qardaji, Yang and Li 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.generate.model import Model
from lookalike.generate.rows_model import gum_model
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.covering_design import covering_design
from lookalike.select.pricing import useful_cells
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares

COUNT, VIEWS = "number of rows", "views"

_VIEW_CELLS = tuple(2**bits for bits in range(3, 13))


@dataclass(frozen=True, slots=True)
class PriView:
    """Sets of columns that together hold every pair (or triple), measured and made consistent.

    What is measured depends on the sizes of the columns and the noisy number of rows alone.

    Attributes:
        strength: 2 holds every pair of columns in some view, 3 every triple.
        view_cells: most cells of a view, 256 for the paper's 8 binary columns; 0 takes the most that theta allows.
        theta: an average cell of a view holds at least this many times the average noise (where view_cells is 0).
        count_share: part of the budget for the number of rows (where view_cells is 0).
    """

    strength: int = 2
    view_cells: int = 0
    theta: float = 16.0
    count_share: float = 0.01

    name: ClassVar[str] = "priview"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PriView",
        paper="Qardaji, Yang, Li: PriView: Practical Differentially Private Release of Marginal Contingency Tables "
        "(SIGMOD 2014)",
        good_for="up to about 30 binary columns of which all pairs matter alike; what is measured is known beforehand",
        corrected="Gaussian noise by the exact curve; the size of views by a noisy number of rows; views by cells, for "
        "columns of any size; one projection instead of alternating consistency and ripples; rows made from the views",
    )

    def __post_init__(self) -> None:
        check_positive(theta=self.theta)
        check_shares(self.count_share)
        if self.strength not in (2, 3):
            raise SchemaError(f"strength is {self.strength}; it must be 2 (pairs) or 3 (triples).")
        if self.view_cells < 0:
            raise SchemaError(f"view_cells is {self.view_cells}; it must be positive, or 0 for the method's own rule.")

    def _counts(self, columns: int) -> bool:
        """Whether the number of rows is asked for."""
        return columns > self.strength and not self.view_cells

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho = float(budget.rho)
        count = rho * self.count_share if self._counts(len(domain)) else 0.0
        views = PlannedStep(VIEWS, "gaussian", -1, rho - count, "counts of sets that hold every pair of columns")
        return [PlannedStep(COUNT, "gaussian", 1, count, "number of rows"), views] if count else [views]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        progress("choosing views", 0.0)
        measured = []
        if self._counts(len(domain)):
            measured = door.measure([()], door.stddev_for(door.remaining * self.count_share), step=COUNT)
            views = self._useful_views(door, float(measured[0].values), rng)
        else:
            views = covering_design(domain, self.strength, self.view_cells or 1, rng)
        progress("measuring views", 0.1)
        shares = allocate([domain.cells(view) for view in views], door.remaining)
        measured += door.measure(views, [door.stddev_for(share) for share in shares], step=VIEWS)
        progress("making views consistent, and rows of them", 0.3)
        return gum_model(domain, measured, rng=rng, reconstructed=True)

    def _useful_views(self, door: GuardedTable, total: float, rng: np.random.Generator) -> list[Clique]:
        """The design of the largest views that are theta-useful, the noise depending on how many there are."""
        best: list[Clique] = []
        for cells in _VIEW_CELLS:
            views = covering_design(door.domain, self.strength, cells, rng)
            if best and useful_cells(total, door.stddev_for(door.remaining, len(views)), self.theta) < cells:
                break
            best = views
        return best
