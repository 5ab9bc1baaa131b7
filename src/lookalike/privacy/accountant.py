"""Charge or refuse: the total is the sum of the charges made, and a charge is on disk before its noise exists."""

from __future__ import annotations

from fractions import Fraction

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import Charge, Run


class Accountant:
    """Spends one run's budget. Charges add up exactly (as fractions), whatever their order.

    Gaussian releases compose as rho = mu^2/2 under either accounting; the accounting only decides how much rho a given
    (epsilon, delta) allows. Adaptive choice of noise scales is covered: both are privacy filters (Feldman and Zrnic
    2021 for zCDP; Smith and Thakurta 2022 for Gaussian DP) as long as scales depend on earlier outputs only.
    """

    def __init__(self, budget: Budget, run: Run) -> None:
        self.budget = budget
        self._run = run
        self._spent = Fraction(0)

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def remaining(self) -> Fraction:
        return self.budget.rho - self._spent

    def charge(self, charge: Charge) -> int:
        """Write the charge to the ledger and return its entry number; refuse what the budget does not allow."""
        if self.budget.accounting == "gdp" and charge.mechanism != "gaussian":
            raise BudgetError(
                f"Step {charge.step!r} uses the {charge.mechanism} mechanism, which Gaussian-DP accounting cannot "
                "compose; run the method with zCDP accounting."
            )
        if charge.rho > self.remaining:
            raise BudgetExceededError(
                f"Step {charge.step!r}", float(charge.rho), float(self.remaining), "rho", "Nothing was read or released."
            )
        entry = self._run.charge(charge)
        self._spent += charge.rho
        return entry
