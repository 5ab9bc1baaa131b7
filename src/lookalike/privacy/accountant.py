"""Charge or refuse: the total is the sum of the charges made, and a charge is on disk before its noise exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import NO_GUARANTEE, NO_NOISE, Charge, Run


class Accountant:
    """Spends one run's budget. Charges add up exactly (as fractions), whatever their order.

    Gaussian releases compose as rho = mu^2/2 under either accounting; the accounting only decides how much rho a given
    (epsilon, delta) allows. Adaptive choice of noise scales is covered: both are privacy filters (Feldman and Zrnic
    2021 for zCDP; Smith and Thakurta 2022 for Gaussian DP) as long as scales depend on earlier outputs only.

    Once a plan is given (`keep_to`), a step that it does not list, or more than it allows, is refused as well.
    """

    def __init__(self, budget: Budget, run: Run) -> None:
        self.budget = budget
        self._run = run
        self._spent = Fraction(0)
        self._spent_delta = Fraction(0)
        self._limits: dict[str, Fraction] | None = None
        self._spent_by_step: dict[str, Fraction] = {}

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def remaining(self) -> Fraction:
        return self.budget.rho - self._spent

    def keep_to(self, limits: Mapping[str, float]) -> None:
        """From now on hold every step to the most rho that its plan allows for it, what it spent before included.

        Limits were computed in floating point, so one part in 1e9 more is forgiven. The budget itself is exact.
        """
        self._limits = {step: Fraction(rho) * (1 + Fraction(1, 10**9)) for step, rho in limits.items()}

    def charge(self, charge: Charge) -> int:
        """Write the charge to the ledger and return its entry number; refuse what budget or plan do not allow."""
        if self.budget.accounting == "gdp" and charge.mechanism not in ("gaussian", "threshold"):
            raise BudgetError(
                f"Step {charge.step!r} uses the {charge.mechanism} mechanism, which Gaussian-DP accounting cannot "
                "compose; run the method with zCDP accounting."
            )
        if charge.rho > self.remaining:
            raise BudgetExceededError(
                f"Step {charge.step!r}",
                float(charge.rho),
                float(self.remaining),
                "rho",
                "Nothing was read or released.",
            )
        delta = self._spent_delta + Fraction(charge.delta)
        if delta > Fraction(self.budget.threshold_delta):
            raise BudgetExceededError(
                f"Step {charge.step!r}",
                float(delta),
                self.budget.threshold_delta,
                "threshold delta",
                "Nothing was read.",
            )
        entry = self._write(charge)
        self._spent_delta = delta
        return entry

    def charge_rest(self, step: str, mechanism: str, releases: int, detail: str) -> int:
        """Charge all that is left, for a release that fits into (epsilon, delta) together with all charges before it.

        The caller has shown that it fits, in a way that rho cannot express. Nothing can follow, so how it composes with
        later releases does not matter.
        """
        if self.remaining <= 0:
            raise BudgetExceededError(f"Step {step!r}", 0.0, 0.0, "rho", "Nothing was read or released.")
        return self._write(Charge(step, mechanism, releases, self.remaining, detail))

    def split(self, each: Budget, count: int, step: str) -> list[Accountant]:
        """Accountants for `count` disjoint parts of the table, each with a budget of its own, paid for by all of this.

        The parts' charges are written to the same run with a price of 0: the price of all of them is this charge.
        """
        if self._spent:
            raise BudgetError("A table can only be split before anything is spent on it; give a complete schema.")
        detail = f"{count} parts, each with epsilon {each.epsilon:.6g} and delta {each.delta:.3g}"
        self.charge_rest(step, "disjoint parts", count, detail)
        parts = [Accountant(each, _PartRun(self._run, part + 1)) for part in range(count)]
        for part in parts:
            # The plan prices the parts' steps at 0, as the ledger does; each part's own budget is their limit.
            part._limits = None if self._limits is None else dict.fromkeys(self._limits, each.rho)
        return parts

    def _write(self, charge: Charge) -> int:
        """The one way into the ledger: what the plan does not allow is refused here, before anything is read."""
        self._check_plan(charge)
        entry = self._run.charge(charge)
        self._spent += charge.rho
        self._spent_by_step[charge.step] = self._spent_by_step.get(charge.step, Fraction(0)) + charge.rho
        return entry

    def _check_plan(self, charge: Charge) -> None:
        if charge.mechanism == NO_GUARANTEE and self._run.noise != NO_NOISE:
            raise BudgetError(
                f"Step {charge.step!r} would release something without noise, and the run began as one with noise. "
                f"{_BUG}"
            )
        if self._limits is None:
            return
        if charge.step not in self._limits:
            raise BudgetError(f"Step {charge.step!r} is not in the method's plan, so it may spend nothing. {_BUG}")
        left = self._limits[charge.step] - self._spent_by_step.get(charge.step, Fraction(0))
        if charge.rho > left:
            raise BudgetExceededError(
                f"Step {charge.step!r} of the method's plan", float(charge.rho), float(left), "rho", _BUG
            )


_BUG = "Nothing was read for it. This is a bug in the method, not a mistake of yours: please report it."


class _PartRun(Run):
    """The pen of a part's accountant."""

    def __init__(self, whole: Run, part: int) -> None:
        super().__init__(whole.ledger, whole.number, whole.budget, whole.noise)
        self._whole = whole
        self._part = part

    def charge(self, charge: Charge) -> int:
        detail = f"{charge.detail}; rho {float(charge.rho):.6g} of part {self._part}, paid for by the split"
        return self._whole.charge(replace(charge, rho=Fraction(0), detail=detail))
