"""How a method divides its budget, as typed steps.

A method declares its split once. The plan that users see, the limits that the ledger enforces before anything is read,
the amounts that `fit` spends and the forecast of errors all follow from it. Nothing here knows a method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from lookalike.errors import SchemaError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import DISJOINT_PARTS, NO_GUARANTEE
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.run import NO_NOISE, REPRODUCIBLE, SYSTEM_ENTROPY, NoiseSource
from lookalike.schema.domain import Domain

NUMBER_OF_ROWS = "number of rows"
ONEWAYS = "one-way marginals"
PAIR_SCORES = "pair scores"
CHOICES, CHOSEN = "choices", "chosen marginals"

UNKNOWN = -1
"""The number of releases of a step whose number the method decides as it goes."""


_ON_ROWS = (DISJOINT_PARTS, "thresholded histogram", "laplace")
"""Mechanisms that look at single rows, beside those of steps of the kind ROWS."""
_PRICED_BEFOREHAND = (DISJOINT_PARTS, "plausible deniability", "laplace")
"""Mechanisms whose price is not a rho: it is proved for an amount spent before that no noisy answer decides."""


class Kind(StrEnum):
    """What a step releases, in the categories that a forecast of errors distinguishes."""

    NUMBER_OF_ROWS = "number of rows"
    COLUMNS = "columns"
    """Counts of every column; columns of more values get more budget (`selection.steps.allocate`)."""
    COLUMNS_ALIKE = "columns alike"
    """Counts of every column, all with the same noise."""
    SETS = "sets"
    """Counts of sets of several columns. Choosing the sets may be a small part of the same step."""
    SCORES = "scores"
    CHOICES = "choices"
    ROWS = "rows"
    """Sums over rows, votes on rows, or rows themselves."""
    DISCOVERY = "discovery"
    """Public facts that the schema leaves open."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run and the maximum that it spends. Charges at the door carry the name of their step.

    Attributes:
        step: name of the step.
        mechanism: "gaussian", "exponential", "threshold" or what a row-level release calls itself.
        releases: how many numbers or tables are released, `UNKNOWN` where the method decides as it goes.
        rho: maximum that the step spends.
        note: what is released, for people.
        kind: what is released, for the forecast.
    """

    step: str
    mechanism: str
    releases: int
    rho: float
    note: str
    kind: Kind = Kind.OTHER

    @classmethod
    def number_of_rows(cls, rho: float) -> Step:
        """One noisy count: the number of rows."""
        return cls(NUMBER_OF_ROWS, "gaussian", 1, rho, "number of rows", Kind.NUMBER_OF_ROWS)

    @classmethod
    def columns(cls, domain: Domain, rho: float, *, alike: bool = False) -> Step:
        """Noisy counts of every column."""
        kind = Kind.COLUMNS_ALIKE if alike else Kind.COLUMNS
        return cls(ONEWAYS, "gaussian", len(domain), rho, "counts of every column", kind)

    @classmethod
    def pair_scores(cls, domain: Domain, rho: float) -> Step:
        """A noisy score for each pair of columns."""
        pairs = len(domain) * (len(domain) - 1) // 2
        return cls.scores(PAIR_SCORES, pairs, "how far each pair is from independent", rho)

    @classmethod
    def scores(cls, step: str, releases: int, note: str, rho: float = 0.0) -> Step:
        """Noisy scores that steer the method."""
        return cls(step, "gaussian", releases, rho, note, Kind.SCORES)

    @classmethod
    def choices(cls, step: str, releases: int, note: str, rho: float = 0.0) -> Step:
        """Choices by the exponential mechanism."""
        return cls(step, "exponential", releases, rho, note, Kind.CHOICES)

    @classmethod
    def sets(cls, step: str, releases: int, note: str, rho: float = 0.0) -> Step:
        """Noisy counts of sets of several columns."""
        return cls(step, "gaussian", releases, rho, note, Kind.SETS)


@dataclass(frozen=True, slots=True)
class Split:
    """The steps among which a method divides its budget, in the order in which users read them."""

    steps: tuple[Step, ...]

    @classmethod
    def of(cls, rho: float, *steps: Step, rest: Step) -> Split:
        """Return the split into these steps and a last one, `rest`, that gets what they leave of rho."""
        for step in steps:
            rho -= step.rho
        return cls((*steps, replace(rest, rho=rho)))

    @classmethod
    def only_column(cls, rho: float) -> Split:
        """Return the split for a table of one column: all of rho for its counts, as there are no pairs to measure."""
        return cls((Step(ONEWAYS, "gaussian", 1, rho, "counts of the only column", Kind.COLUMNS),))

    @classmethod
    def in_rounds(cls, rho: float, first: Step, rounds: int, choice_share: float) -> Split:
        """A first step, then rounds that choose a marginal for `choice_share` of what is left, and measure it."""
        note, share = "which marginal the model gets most wrong", (rho - first.rho) * choice_share
        chosen = Step.sets(CHOSEN, rounds, "counts of the chosen marginals")
        return cls.of(rho, first, Step.choices(CHOICES, rounds, note, share), rest=chosen)

    def __contains__(self, step: str) -> bool:
        return any(planned.step == step for planned in self.steps)

    def rho(self, step: str) -> float:
        """Return the maximum rho that the step of that name spends."""
        return next(planned.rho for planned in self.steps if planned.step == step)

    def releases(self, step: str) -> int:
        """Return how many numbers or tables the step of that name releases."""
        return next(planned.releases for planned in self.steps if planned.step == step)


def count_rows(door: GuardedTable, split: Split) -> list[NoisyMarginal]:
    """Measure the number of rows, as the step `Step.number_of_rows` plans it."""
    return door.measure([()], door.stddev_for(split.rho(NUMBER_OF_ROWS)), step=NUMBER_OF_ROWS)


def reads_rows(plan: Iterable[Step]) -> bool:
    """Return whether some step looks at single rows, which only tables in memory can give."""
    return any(step.kind == Kind.ROWS or step.mechanism in _ON_ROWS for step in plan)


def check_sets(plan: Iterable[Step], method: str) -> None:
    """Refuse a public table for a method that measures no column sets, with which its counts could be compared."""
    if not any(step.kind == Kind.SETS for step in plan):
        raise SchemaError(
            f"The method {method} measures no counts of column sets here, so a public table cannot be compared with "
            "them. Choose auto, mosaic, aim or privmrf, or leave the public table out."
        )


def noise_source(plan: Iterable[Step], *, reproducible: bool) -> NoiseSource:
    """Return where the noise of a run with this plan comes from."""
    if any(step.mechanism == NO_GUARANTEE for step in plan):
        return NO_NOISE
    return REPRODUCIBLE if reproducible else SYSTEM_ENTROPY


def limits_of(steps: Iterable[Step]) -> dict[str, float]:
    """Return the maximum rho that each step may spend, by name."""
    limits: dict[str, float] = {}
    for step in steps:
        limits[step.step] = limits.get(step.step, 0.0) + step.rho
    return limits


def with_discovery(found: tuple[Step, ...], split: Split, method: str) -> tuple[Step, ...]:
    """The steps of discovery and of a method; refuses a method whose price needs to know what is spent before it.

    How much discovery spends follows from its noisy answers. Sums of rho allow for that, other prices do not.
    """
    priced = [step.mechanism for step in split.steps if step.mechanism in _PRICED_BEFOREHAND]
    if found and priced:
        raise SchemaError(
            f"With these settings {method} uses {priced[0]}, whose price holds only if what is spent before it is "
            "fixed beforehand; but the schema leaves facts or rules open, and what discovery spends on them "
            f"({found[0].step} and others) follows from its noisy answers. Declare all facts in a schema and turn the "
            "search for rules off, or choose other settings."
        )
    return (*found, *split.steps)
