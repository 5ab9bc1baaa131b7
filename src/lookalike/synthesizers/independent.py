"""Independent columns: the baseline that any method must beat, and all that a tiny budget can pay for."""

from __future__ import annotations

import numpy as np

from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.steps import fit_columns
from lookalike.synthesizers.base import Method, Progress, method
from lookalike.synthesizers.split import ONEWAYS, Split, Step


@method(
    "independent",
    title="Independent columns",
    paper="baseline ('marginals' in the plausible-deniability paper)",
    good_for="tiny budgets, and as the floor that every other method must beat",
    corrected="nothing to correct; the number of rows is noisy, not copied",
    page="docs/choosing_a_method.md",
    rank=20,
    draws=True,
)
class Independent(Method):
    """Measure the one-way marginals and nothing else; the synthetic columns are independent of each other.

    The budget is shared by cells^(2/3), which minimises the total expected L1 error of the noisy counts.
    """

    def split(self, domain: Domain, rho: float) -> Split:
        return Split((Step.columns(domain, rho),))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.0)
        return fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)[1]
