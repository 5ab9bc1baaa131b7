"""`auto`: the method and its settings from public facts alone, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.generate.model import Model
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, Synthesizer
from lookalike.synthesizers.independent import Independent
from lookalike.synthesizers.mosaic import Mosaic, scored_pairs
from lookalike.synthesizers.mst import MST

_WIDE_COLUMNS = 150


@dataclass(frozen=True, slots=True)
class Auto:
    """Chooses between methods by what is public: the columns, their sizes and the budget. It reads no data to do so."""

    name: ClassVar[str] = "auto"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="Automatic choice",
        paper="our own; docs/mosaic.md",
        good_for="not having to choose: mosaic wherever it can run, simpler methods for tables where it cannot",
        corrected="nothing to correct; the choice looks at public facts only and costs no budget",
    )

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        return chosen_method(domain)[0].plan(domain, budget)

    def reason(self, domain: Domain) -> str:
        """Which method was chosen and why, in one sentence."""
        method, why = chosen_method(domain)
        return f"auto chose {method.name}: {why}."

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        return chosen_method(door.domain)[0].fit(door, rng=rng, progress=progress)


def chosen_method(domain: Domain) -> tuple[Synthesizer, str]:
    """The method for such a domain, and the reason.

    >>> method, why = chosen_method(Domain(("a", "b"), (2, 1)))
    >>> method.name, why
    ('independent', 'no two columns have two values or more, so there is nothing to associate')
    """
    active = [size for size in domain.sizes if size > 1]
    if len(active) < 2:
        return Independent(), "no two columns have two values or more, so there is nothing to associate"
    pairs = len(active) * (len(active) - 1) // 2
    if not scored_pairs(domain):
        return Independent(), "every pair of columns has more cells than can be counted; make the columns coarser"
    if len(active) > _WIDE_COLUMNS:
        return MST(), f"{len(active)} columns make {pairs:,} pairs, too many to price sets of them; a tree scales"
    return (
        Mosaic(),
        f"{len(active)} columns and {pairs:,} pairs are within its reach, and its error is the lowest or close to it",
    )
