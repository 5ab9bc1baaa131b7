"""The account of a release: what it was allowed to spend, and every charge."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from lookalike.models.model import Stored
from lookalike.notebook import card, table
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import (
    ACCOUNTINGS,
    LARGEST_EPSILON,
    NO_GUARANTEE,
    SMALLEST_EPSILON,
    Accounting,
    Budget,
    Charge,
)

_RHO = re.compile(r"\d{1,50}(?:/[1-9]\d{0,49})?")


@dataclass(frozen=True, slots=True, repr=False)
class Spent:
    """What a run was allowed to spend, and every charge it made. As public as the release.

    Attributes:
        threshold_delta: part of delta for noisy thresholds.
        private: False if the noise was reproducible (`insecure_rng`) or a step had none: then nothing is guaranteed.
        chosen: the method that ran, where `method` chooses among others; "" for a method that runs itself.
        public: name, number of rows and checksum of a public table that was used beside the private one; "" for none.
    """

    method: str
    settings: dict[str, Any]
    epsilon: float
    delta: float
    accounting: Accounting
    neighbours: str
    charges: tuple[Charge, ...]
    private: bool = True
    threshold_delta: float = 0.0
    chosen: str = ""
    public: str = ""

    @property
    def rho(self) -> Fraction:
        return sum((charge.rho for charge in self.charges), Fraction(0))

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of all charges: at most the configured one, or infinite if a step had no guarantee."""
        if not self.charges:
            return 0.0
        if any(charge.mechanism == NO_GUARANTEE for charge in self.charges):
            return float("inf")
        return min(self.epsilon, epsilon_spent(self.rho, self.delta - self.threshold_delta, self.accounting))

    def by_step(self) -> dict[str, Fraction]:
        """Return the total rho of each step, in the order of first use."""
        totals: dict[str, Fraction] = {}
        for charge in self.charges:
            totals[charge.step] = totals.get(charge.step, Fraction(0)) + charge.rho
        return totals

    def to_json(self) -> dict[str, Any]:
        charges = [{**asdict(charge), "rho": str(charge.rho)} for charge in self.charges]
        return {**{name: getattr(self, name) for name in self.__slots__}, "charges": charges}

    @classmethod
    def from_stored(cls, stored: Stored) -> Spent:
        """Return the account that `to_json` wrote; refuse charges beyond the budget and false claims of privacy."""
        spent = cls(
            method=stored.text("method"),
            settings=stored.value("settings", dict),
            epsilon=stored.number("epsilon", SMALLEST_EPSILON, LARGEST_EPSILON),
            delta=stored.number("delta", 0.0, 1.0),
            accounting=stored.choice("accounting", ACCOUNTINGS),
            neighbours=stored.text("neighbours"),
            charges=tuple(_stored_charge(charge) for charge in stored.parts("charges")),
            private=stored.value("private", bool),
            threshold_delta=stored.number("threshold_delta", 0.0, 1.0, 0.0),
            chosen=stored.text("chosen", ""),
            public=stored.text("public", ""),
        )
        budget = Budget(spent.epsilon, spent.delta, spent.accounting, spent.threshold_delta)
        guaranteed = all(charge.mechanism != NO_GUARANTEE for charge in spent.charges)
        stored.require(not guaranteed or spent.rho <= budget.rho, "charges more than its budget")
        stored.require(guaranteed or not spent.private, "claims to be private but has a charge that is not")
        return spent

    @property
    def method_text(self) -> str:
        """The method that ran, and what chose it."""
        return self.method if self.chosen in ("", self.method) else f"{self.chosen}, chosen by {self.method}"

    @property
    def price_text(self) -> str:
        """What the release costs and hides, in one sentence."""
        bill = f"epsilon {self.epsilon:g}, delta {self.delta:g}"
        if not self.private:
            return f"NOT PRIVATE: no differential privacy, although {bill} were asked for; counts as infinite epsilon."
        return f"{bill}, hiding {self.neighbours}."

    def __repr__(self) -> str:
        return f"Spent({self.price_text[:-1]}; {self.method_text}; {len(self.charges)} charges)"

    def _repr_html_(self) -> str:
        rho = float(self.rho) or 1.0
        rows = [(step, f"{float(price) / rho:.1%}", f"{float(price):.6g}") for step, price in self.by_step().items()]
        lines = [f"Method: {self.method_text}.", f"Spent: {self.price_text}"]
        return card("Spent", lines, table(("step", "share", "rho"), rows))


def _stored_charge(stored: Stored) -> Charge:
    rho = stored.text("rho")
    stored.require(_RHO.fullmatch(rho) is not None, f"has {rho[:50]!r} as 'rho', where a fraction belongs")
    return Charge(
        step=stored.text("step"),
        mechanism=stored.text("mechanism"),
        releases=stored.whole("releases", 0, 2**53),
        rho=Fraction(rho),
        detail=stored.text("detail", ""),
        delta=stored.number("delta", 0.0, 1.0, 0.0),
    )
