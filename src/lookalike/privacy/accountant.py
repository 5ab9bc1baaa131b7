"""Charge or refuse: the total is the sum of the charges made, and a charge is on disk before its noise exists."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import Charge, Run


class Accountant:
    """Spends one run's budget. Charges add up exactly (as fractions), whatever their order.

    Gaussian releases compose as rho = mu^2/2 under either accounting; the accounting only decides how much rho a given
    (epsilon, delta) allows. Adaptive choice of noise scales is covered: both are privacy filters (Feldman and Zrnic
    2021 for zCDP; Smith and Thakurta 2022 for Gaussian DP) as long as scales depend on earlier outputs only.

    The run behind it refuses what the method's plan does not allow, in the same way: before anything is read.
    """

    def __init__(self, budget: Budget, run: Run) -> None:
        self.budget = budget
        self._run = run
        self._spent = Fraction(0)
        self._spent_delta = Fraction(0)

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def remaining(self) -> Fraction:
        return self.budget.rho - self._spent

    def charge(self, charge: Charge) -> int:
        """Write the charge to the ledger and return its entry number; refuse what the budget does not allow."""
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
        entry = self._run.charge(charge)
        self._spent += charge.rho
        self._spent_delta = delta
        return entry

    def charge_rest(self, step: str, mechanism: str, releases: int, detail: str) -> int:
        """Charge all that is left, for a release that fits into (epsilon, delta) together with all charges before it.

        The caller has shown that it fits, in a way that rho cannot express. Nothing can follow, so how it composes with
        later releases does not matter.
        """
        if self.remaining <= 0:
            raise BudgetExceededError(f"Step {step!r}", 0.0, 0.0, "rho", "Nothing was read or released.")
        entry = self._run.charge(Charge(step, mechanism, releases, self.remaining, detail))
        self._spent = self.budget.rho
        return entry

    def split(self, each: Budget, count: int, step: str) -> list[Accountant]:
        """Accountants for `count` disjoint parts of the table, each with a budget of its own, paid for by all of this.

        The parts' charges are written to the same run with a price of 0: the price of all of them is this charge.
        """
        if self._spent:
            raise BudgetError("A table can only be split before anything is spent on it; give a complete schema.")
        detail = f"{count} parts, each with epsilon {each.epsilon:.6g} and delta {each.delta:.3g}"
        self.charge_rest(step, "disjoint parts", count, detail)
        return [Accountant(each, _PartRun(self._run, part + 1)) for part in range(count)]


class _PartRun(Run):
    """The pen of a part's accountant."""

    def __init__(self, whole: Run, part: int) -> None:
        super().__init__(whole.ledger, whole.number, whole.budget, whole.noise)
        self._whole = whole
        self._part = part

    def charge(self, charge: Charge) -> int:
        detail = f"{charge.detail}; rho {float(charge.rho):.6g} of part {self._part}, paid for by the split"
        return self._whole.charge(replace(charge, rho=Fraction(0), detail=detail))
