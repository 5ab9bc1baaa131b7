"""The epsilon that charges amount to: of one run, and of all runs on a table, which may be less than their sum.

A run of budget (epsilon, delta) keeps the rho of its charges below `Budget.rho`, whatever happens in it. So runs of
Gaussian releases compose as Gaussian mechanisms and all others that have a rho by zero-concentrated DP, at one delta
for all of them, instead of one delta each. `docs/proofs/ledger_composition.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import (
    DIGITS,
    SLACK,
    Accounting,
    Budget,
    Number,
    check_delta,
    gaussian_delta,
    log_gaussian_delta,
    positive,
    root,
    zcdp_rest,
)
from lookalike.privacy.kernel.mechanisms import context, float_up

Composition = Literal["sum", "zcdp", "gdp"]
"""How runs are added up: their epsilons; their rho by zero-concentrated DP; their rho by Gaussian DP."""
NAMES: dict[str, str] = {"sum": "sum", "zcdp": "zero-concentrated DP", "gdp": "Gaussian DP"}

GAUSSIAN = frozenset(("gaussian", "threshold", "stopped"))
HAVE_RHO = GAUSSIAN | {"exponential"}
"""Mechanisms whose charge is a true rho; others prove only that they fit epsilon and delta."""
_SMALLEST_MU = 1e-9
_STEP = 1e-12


def epsilon_spent(charges: Fraction, delta: float, accounting: Accounting) -> float:
    """Return the epsilon, at `delta`, of charges with that sum of rho, rounded up."""
    if charges < 0:
        raise BudgetError(f"Charges of {float(charges):g} are negative; pass the sum of what was released.")
    if charges == 0:
        return 0.0
    if accounting == "zcdp":
        return zcdp_epsilon(charges, delta)
    mu = math.sqrt(2 * charges)
    while Fraction(mu) ** 2 < 2 * charges:
        mu = math.nextafter(mu, math.inf)
    return gaussian_epsilon(mu, delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    positive("mu", mu)
    check_delta(delta)
    # Below this, floats give no first guess; a larger mu is on the safe side.
    mu = max(mu, _SMALLEST_MU)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    target, top = math.log(delta), mu * mu
    while log_gaussian_delta(mu, top) > target:
        top *= 2
    found = log_gaussian_delta(mu, 0.0) > target
    epsilon = root(lambda e: log_gaussian_delta(mu, e) - target, 0.0, top) if found else 0.0
    step = _STEP
    while gaussian_delta(mu, epsilon) > delta:
        epsilon, step = epsilon + step * max(epsilon, mu * _STEP), 2 * step
    return epsilon


def zcdp_epsilon(rho: Number, delta: float) -> float:
    """Return the smallest epsilon for which rho-zCDP is converted to (epsilon, delta)-DP, rounded up.

    The conversion's derivative in t vanishes where rho * t^2 + log(1 + t) = log(1/delta), which has one root.
    """
    exact, log_delta = positive("rho", rho), -math.log(check_delta(delta))
    size = float(exact)
    t = root(lambda t: size * t * t + math.log1p(t) - log_delta, 0.0, 2 * math.sqrt(log_delta / size))
    with localcontext(context(DIGITS)):
        epsilon = Fraction(zcdp_rest(t, delta)) + exact * (1 + Fraction(t))
    return float_up(max(Fraction(0), epsilon + SLACK))


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run may have spent.

    Attributes:
        epsilon, delta: its budget.
        accounting: how its budget becomes rho.
        threshold_delta: the part of delta that is kept for noisy thresholds.
        mechanisms: of its charges.
        counted: the epsilon and delta that it counts with in a sum.
    """

    epsilon: float
    delta: float
    accounting: Accounting
    threshold_delta: float
    mechanisms: frozenset[str]
    counted: tuple[float, float]

    @property
    def rho(self) -> Fraction:
        """The largest sum that its charges may have."""
        return _rho(self.epsilon, self.delta, self.accounting, self.threshold_delta)

    @property
    def lone(self) -> float:
        """An upper bound on the probability that a value of one person passes some threshold of the run."""
        return self.threshold_delta / (1 + math.exp(self.epsilon)) if self.threshold_delta else 0.0

    def allows(self, composition: Composition) -> bool:
        """Whether the run can be added up by this composition."""
        if composition == "sum" or math.isinf(self.counted[0]):
            return composition == "sum"
        gaussian = self.accounting == "gdp" and self.mechanisms <= GAUSSIAN
        return gaussian if composition == "gdp" else self.mechanisms <= HAVE_RHO


@lru_cache(maxsize=1024)
def _rho(epsilon: float, delta: float, accounting: Accounting, threshold_delta: float) -> Fraction:
    return Budget(epsilon, delta, accounting, threshold_delta).rho


def composed(runs: Sequence[RunCost]) -> tuple[float, Composition]:
    """Return the smallest proven epsilon of all runs at the sum of their deltas, and how it was found.

    >>> run = RunCost(1.0, 1e-5, "gdp", 0.0, frozenset(["gaussian"]), (1.0, 1e-5))
    >>> epsilon, how = composed([run] * 4)
    >>> round(epsilon, 2), how
    (1.97, 'gdp')
    """
    delta = math.fsum(run.counted[1] for run in runs)
    bounds: dict[Composition, float] = {"sum": sum(run.counted[0] for run in runs)}
    if len(runs) > 1:
        bounds |= {"gdp": epsilon_at(runs, delta, "gdp"), "zcdp": epsilon_at(runs, delta, "zcdp")}
    how = min(bounds, key=lambda name: bounds[name])
    return bounds[how], how


def epsilon_at(runs: Sequence[RunCost], delta: float, how: Accounting) -> float:
    """Return an epsilon of all runs at `delta`; infinite where this composition proves none.

    Runs that do not compose in this way are added by their epsilons and deltas.
    """
    inside = [run for run in runs if run.allows(how)]
    outside = [run.counted for run in runs if not run.allows(how)]
    rest = delta - math.fsum(counted[1] for counted in outside)
    rho, lone = sum((run.rho for run in inside), Fraction(0)), math.fsum(run.lone for run in inside)
    return _with_thresholds(rho, lone, rest, how) + sum(counted[0] for counted in outside)


def _with_thresholds(rho: Fraction, lone: float, delta: float, how: Accounting) -> float:
    """Return an epsilon with delta(epsilon) of the rho and (1 + e^epsilon) lone of the thresholds within `delta`.

    From any epsilon that is right, a smaller one follows, as thresholds then cost less of delta.
    """
    if rho == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    if lone == 0:
        return epsilon_spent(rho, delta, how)
    epsilon = epsilon_spent(rho, delta / 2, how)
    if _threshold_delta(epsilon, lone) > delta / 2:
        return math.inf
    for _ in range(8):
        epsilon = min(epsilon, epsilon_spent(rho, delta - _threshold_delta(epsilon, lone), how))
    return epsilon


def _threshold_delta(epsilon: float, lone: float) -> float:
    return (1 + math.exp(min(epsilon, 700.0))) * lone * (1 + 1e-9)


def mixed_neighbours(hidden: Iterable[str]) -> str:
    """Say what runs hide if they do not all hide the same, since their total then guarantees less; else an empty text.

    >>> mixed_neighbours(["adding or removing one row"] * 2)
    ''
    """
    kinds = list(dict.fromkeys(hidden))
    if len(kinds) < 2:
        return ""
    return (
        f"These runs hide different things ({'; '.join(kinds)}). Their total bounds only what every one of them hides: "
        "for a person with more rows than the least of them, and between adding and replacing, it is more."
    )


@dataclass(frozen=True, slots=True)
class Cap:
    """The maximum that all runs on a table may spend. It is fixed beforehand, so what is left may decide on later runs.

    Attributes:
        epsilon: the maximum.
        composition: how runs are added up; all runs then have to compose in this way.
        delta: of all runs together, where rho is added up; one half is for rho, the other for thresholds.
    """

    epsilon: float
    composition: Composition = "sum"
    delta: float = 0.0

    def left(self, runs: Sequence[RunCost]) -> float:
        """Return the part of the cap that is left; negative beyond the cap, or where runs do not compose."""
        if not all(run.allows(self.composition) for run in runs) or math.inf in (run.counted[0] for run in runs):
            return -math.inf
        if self.composition == "sum":
            # One part in 1e12 allows for the rounding of decimal inputs (three runs at 0.1 under a cap of 0.3).
            return 1 + 1e-12 - sum(run.counted[0] for run in runs) / self.epsilon
        allowed = _rho(self.epsilon, self.delta / 2, self.composition, 0.0)
        lone = _threshold_delta(self.epsilon, math.fsum(run.lone for run in runs)) / (self.delta / 2)
        return min(1 - float(sum((run.rho for run in runs), Fraction(0)) / allowed), 1 - lone)

    def left_in_words(self, runs: Sequence[RunCost]) -> str:
        """Say what the cap leaves after these runs."""
        if self.composition == "sum":
            left = max(0.0, self.epsilon - sum(run.counted[0] for run in runs))
            return f"{left:.6g} of the cap of {self.describe()} is left"
        return f"{max(0.0, self.left(runs)):.1%} of the cap of {self.describe()} is left"

    def check(self, budget: Budget, step: str, mechanism: str) -> None:
        """Refuse a release that has no rho under a cap that adds rho up, before anything is read for it."""
        amounts = (budget.epsilon, budget.delta)
        cost = RunCost(*amounts, budget.accounting, budget.threshold_delta, frozenset([mechanism]), amounts)
        if self.composition != "sum" and not cost.allows(self.composition):
            raise BudgetError(
                f"Step {step!r} ({mechanism}) does not compose by {NAMES[self.composition]}, as the cap of this table "
                f"demands. Nothing was read for it. Use another method, or a cap of the sum of epsilons."
            )

    def describe(self) -> str:
        """Say what the cap is."""
        if self.composition == "sum":
            return f"{self.epsilon:g}"
        return f"{self.epsilon:g} at delta {self.delta:g} by {NAMES[self.composition]}"
