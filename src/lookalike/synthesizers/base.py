"""What a synthesizer is: settings, a plan that lists its charges without data, and a fit through the door."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from lookalike.errors import BudgetError, SchemaError
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Domain

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction of the whole that is behind us."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What a user needs to choose a method, and what a reviewer needs to trust it."""

    title: str
    paper: str
    good_for: str
    corrected: str


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a run and the most it will spend. Charges at the door carry the same step name.

    Attributes:
        step: name of the step.
        mechanism: "gaussian", "exponential" or "geometric".
        releases: how many numbers or tables are released, -1 where the method decides as it goes.
        rho: most that the step spends.
        note: what is released, for people.
    """

    step: str
    mechanism: str
    releases: int
    rho: float
    note: str


class Synthesizer(Protocol):
    """A method. Implementations are frozen dataclasses whose fields are the method's public settings."""

    name: ClassVar[str]
    accounting: ClassVar[Accounting]
    info: ClassVar[MethodInfo]

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        """The steps of a run on such a domain with such a budget, without any data."""
        ...

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        """A model of the table behind the door. Spends at most what `plan` lists."""
        ...


def check_shares(*shares: float) -> None:
    """Shares of a budget are positive and leave something for the last step."""
    if any(not share > 0 for share in shares) or sum(shares) >= 1:
        listed = ", ".join(f"{share:g}" for share in shares)
        raise BudgetError(f"The shares of the budget are {listed}; each must be positive and their sum below 1.")


def check_rounds(rounds: int) -> None:
    """A number of rounds is not negative; 0 leaves it to the method."""
    if rounds < 0:
        raise BudgetError(f"rounds is {rounds}; it must be at least 1, or 0 for the method's own rule.")


def check_positive(**settings: float | None) -> None:
    """Settings that must be above 0, by name; None leaves a setting to the method."""
    for name, value in settings.items():
        if value is not None and not 0 < value < math.inf:
            raise BudgetError(f"{name} is {value}; it must be a positive number.")


def check_choice(setting: str, value: str, choices: tuple[str, ...]) -> None:
    """A setting that names one of a few ways."""
    if value not in choices:
        raise SchemaError(f"{setting} is {value!r}; it must be one of {', '.join(choices)}.")
