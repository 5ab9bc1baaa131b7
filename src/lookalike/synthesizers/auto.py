"""`auto`: chooses the method from public facts alone, and says why."""

from __future__ import annotations

import numpy as np

from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.steps import scored_pairs
from lookalike.synthesizers.base import METHODS, Method, Progress, choice, create, method
from lookalike.synthesizers.split import Split

MAX_PRICED_COLUMNS = 150
"""Tables of more columns have too many pairs to price sets of them in memory and minutes."""


@method(
    "auto",
    title="Automatic choice",
    paper="our own; docs/mosaic.md",
    good_for="not having to choose: mosaic wherever it can run, simpler methods for tables where it cannot",
    corrected="nothing to correct; the choice uses public facts only and costs no budget",
    page="docs/choosing_a_method.md",
    rank=0,
    draws=True,
)
class Auto(Method):
    """Choose a method by the number of columns and of their values, which are public, and run it.

    Attributes:
        target: a column that will be predicted from the others; see `Mosaic`. The simpler methods do without it.
    """

    target: str | None = choice(None)

    def split(self, domain: Domain, rho: float) -> Split:
        return self.chosen(domain).split(domain, rho)

    def chosen(self, domain: Domain) -> Method:
        found = chosen_method(domain)[0]
        return create(found.name, {"target": self.target}) if found.name == "mosaic" else found

    def reason(self, domain: Domain) -> str:
        """Return which method was chosen and why, in one sentence."""
        found, why = chosen_method(domain)
        return f"auto chose {found.name}: {why}."

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        return self.chosen(door.domain).fit(door, split, rng=rng, progress=progress)


def chosen_method(domain: Domain) -> tuple[Method, str]:
    """Return the method for a domain, and the reason for it.

    >>> method, why = chosen_method(Domain(("a", "b"), (2, 1)))
    >>> method.name, why
    ('independent', 'no two columns have two values or more, so there is nothing to associate')
    """
    active = [size for size in domain.sizes if size > 1]
    if len(active) < 2:
        return METHODS["independent"](), "no two columns have two values or more, so there is nothing to associate"
    pairs = len(active) * (len(active) - 1) // 2
    if not scored_pairs(domain):
        reason = "every pair of columns has more cells than can be counted; make the columns coarser"
        return METHODS["independent"](), reason
    if len(active) > MAX_PRICED_COLUMNS:
        reason = f"{len(active)} columns make {pairs:,} pairs, too many to price sets of them; a tree scales"
        return METHODS["mst"](), reason
    reason = "are within its reach, and its error is the lowest or close to it"
    return METHODS["mosaic"](), f"{len(active)} columns and {pairs:,} pairs {reason}"
