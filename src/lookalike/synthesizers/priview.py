"""PriView: noisy views that together hold every pair of columns, independent of the data (Qardaji, Yang, Li 2014)."""

from __future__ import annotations

import numpy as np

from lookalike.errors import SchemaError
from lookalike.models.model import Model
from lookalike.models.rows import gum_model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.pair_selection import covering_design
from lookalike.selection.pricing import useful_cells
from lookalike.selection.steps import measure_sets
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import NUMBER_OF_ROWS, UNKNOWN, Split, Step, count_rows

VIEWS = "views"

_VIEW_CELLS = tuple(2**bits for bits in range(3, 13))
"""Maximum numbers of cells of a view that are tried, small ones first."""


@method(
    "priview",
    title="PriView",
    paper="Qardaji, Yang, Li: PriView: Practical Differentially Private Release of Marginal Contingency Tables "
    "(SIGMOD 2014)",
    good_for="up to about 30 binary columns of which all pairs matter alike; what is measured is known beforehand",
    corrected="Gaussian noise by the exact curve; the size of views by a noisy number of rows; views by cells, for "
    "columns of any size; one projection instead of alternating consistency and ripples; rows made from the views",
    page="docs/reproductions/privbayes.md",
    sets_per_column=2.0,
    rank=100,
)
class PriView(Method):
    """Measure column sets that together hold every pair (or triple) of columns, and make them consistent.

    Which sets are measured depends only on the sizes of the columns and the noisy number of rows.

    Attributes:
        strength: 2 holds every pair of columns in some view, 3 every triple.
        view_cells: maximum number of cells of a view, 256 for the paper's 8 binary columns; None takes as many as
            theta allows.
        theta: an average cell of a view holds at least this many times the average noise (where view_cells is None).
        count_share: part of the budget for the number of rows (where view_cells is None).
    """

    strength: int = choice(2)
    view_cells: int | None = tuned(None)
    theta: float = tuned(16.0)
    count_share: float = tuned(0.01)

    def __post_init__(self) -> None:
        check_positive(theta=self.theta)
        check_shares(self.count_share)
        if self.strength not in (2, 3):
            raise SchemaError(f"strength is {self.strength}; it must be 2 (pairs) or 3 (triples).")
        if self.view_cells is not None and self.view_cells < 1:
            raise SchemaError(f"view_cells is {self.view_cells}; it must be positive, or null to use theta.")

    def split(self, domain: Domain, rho: float) -> Split:
        views = Step.sets(VIEWS, UNKNOWN, "counts of sets that hold every pair of columns")
        if len(domain) <= self.strength or self.view_cells:
            return Split.of(rho, rest=views)
        return Split.of(rho, Step.number_of_rows(rho * self.count_share), rest=views)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        progress("choosing views", 0.0)
        measured = []
        if NUMBER_OF_ROWS in split:
            measured = count_rows(door, split)
            views = self._useful_views(door, float(measured[0].values), rng)
        else:
            views = covering_design(domain, self.strength, self.view_cells or 1, rng)
        progress("measuring views", 0.1)
        measured += measure_sets(door, views, door.remaining, step=VIEWS)
        progress("making views consistent, and rows of them", 0.3)
        return gum_model(domain, measured, rng=rng, reconstructed=True)

    def _useful_views(self, door: GuardedTable, total: float, rng: np.random.Generator) -> list[ColumnSet]:
        """Return the covering design of the largest theta-useful views; their noise depends on their number."""
        best: list[ColumnSet] = []
        for cells in _VIEW_CELLS:
            views = covering_design(door.domain, self.strength, cells, rng)
            if best and useful_cells(total, door.stddev_for(door.remaining, len(views)), self.theta) < cells:
                break
            best = views
        return best
