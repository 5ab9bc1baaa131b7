"""One run: `Run` writes its charges to the ledger while it is open or resumed, `Spent` is its account afterwards."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

from lookalike.errors import BudgetError, BudgetExceededError, DoubtfulError, LedgerError
from lookalike.notebook import card, table
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.journal import Journal
from lookalike.privacy.kernel.accounting import (
    ACCOUNTINGS,
    LARGEST_EPSILON,
    NO_GUARANTEE,
    SMALLEST_EPSILON,
    Accounting,
    Budget,
    Charge,
)
from lookalike.privacy.stopping import STOPPED, stopped_epsilon
from lookalike.stored import Stored

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger, RunSummary

NoiseSource = Literal["system entropy", "reproducible", "none"]
"""Where a run's noise comes from: only the first makes a release private."""
SYSTEM_ENTROPY: NoiseSource = "system entropy"
REPRODUCIBLE: NoiseSource = "reproducible"
NO_NOISE: NoiseSource = "none"

RESUMABLE = ("gaussian", "exponential", "threshold")
"""Mechanisms whose whole answer is kept at once; others release while they read rows, or split rows at random."""


class Run:
    """An open run of a ledger, which the accountant writes to. It refuses what the run's plan does not allow."""

    def __init__(
        self,
        ledger: Ledger,
        number: int,
        budget: Budget,
        noise: NoiseSource = SYSTEM_ENTROPY,
        *,
        begun: str = "",
        made: Sequence[tuple[int, Charge]] = (),
        stop_delta: float = 0.0,
    ) -> None:
        self.ledger = ledger
        self.number = number
        self.budget = budget
        self.noise: NoiseSource = noise
        self.begun = begun
        self.stop_delta = stop_delta
        self.journal: Journal | None = None
        self._made = deque(made)
        self._answers = 0
        self._left: dict[str, Fraction] | None = None

    def record(self, journal: Journal) -> None:
        """Keep the answers of the run in this journal, and use those that it already holds.

        At most one charge may have no answer, and none once the run has ended: its answers were all seen.
        """
        for _, made in self._made:
            if made.mechanism not in RESUMABLE:
                raise LedgerError(
                    f"Run {self.number} went through step {made.step!r} ({made.mechanism}), after which no run can be "
                    "resumed: it reads single rows, splits them at random, or stopped the run. Start a new run."
                )
        answers = len(journal.answers)
        if answers < len(self._made) and self.summary().status == "done":
            raise LedgerError(
                f"Run {self.number} has ended, and {journal.path} holds {answers} answers to its {len(self._made)} "
                "charges: it is a copy from before the end, and no run is continued twice. Start a new run."
            )
        if len(self._made) - answers not in (0, 1):
            raise LedgerError(
                f"{journal.path} holds {answers} answers to {len(self._made)} charges, so run {self.number} cannot be "
                "resumed. Start a new run."
            )
        self.journal = journal

    def kept(self, entry: int, /, *request: Any) -> Any:
        """The answer that the journal holds for a charge, or None; see `journal.py`."""
        if self.journal is None:
            return None
        self._answers += 1
        return self.journal.kept(self._answers - 1, self.ledger.hash_of(entry), request)

    def keep(self, answer: Any, entry: int, /, *request: Any) -> None:
        """Write a noisy answer to disk before anything uses it; after an answer of None the run cannot be resumed."""
        if self.journal is not None and answer is None:
            self.journal.discard()
        elif self.journal is not None:
            self.journal.keep(self.ledger.hash_of(entry), request, answer)

    def check_noise(self, *, secret: bool) -> None:
        """Refuse noise that can be repeated in a run that did not begin as one with such noise."""
        if not secret and self.noise == SYSTEM_ENTROPY:
            raise BudgetError(
                "The noise of this run is reproducible (insecure_rng), but its ledger records secret noise. Begin the "
                "run with noise='reproducible'. Nothing was read."
            )

    def keep_to(self, limits: Mapping[str, float]) -> None:
        """From now on refuse steps that are not listed, and charges of a step beyond the rho that is listed for it.

        Limits are computed in floating point, so one part in 1e9 more is allowed. The budget itself is exact.
        """
        self._left = {step: Fraction(rho) * (1 + Fraction(1, 10**9)) for step, rho in limits.items()}
        charges = self.summary().charges
        for charge in charges[: len(charges) - len(self._made)]:
            self._left[charge.step] = self._left.get(charge.step, Fraction(0)) - charge.rho

    def charge(self, charge: Charge, /) -> int:
        """Write a charge and return its number. What the plan does not allow is refused, before anything is read."""
        self._check_plan(charge)
        number = self._repeated(charge) if self._made else self._written(charge)
        if self._left is not None:
            self._left[charge.step] = self._left.get(charge.step, Fraction(0)) - charge.rho
        return number

    def _written(self, charge: Charge) -> int:
        return self.ledger.append_to_run(self, {"kind": "charge", **asdict(charge), "rho": str(charge.rho)})

    def _repeated(self, charge: Charge) -> int:
        """Return the number of the charge that was made before the run was interrupted; refuse a different one."""
        if not charge.releases:  # the run must stop: it is charged what charges still to be repeated leave
            paid = sum((made.rho for _, made in self._made), Fraction(0))
            self._made.clear()
            return self._written(replace(charge, rho=max(Fraction(0), charge.rho - paid)))
        number, made = self._made.popleft()
        if made != charge:
            raise LedgerError(
                f"Step {charge.step!r} asks for something other than it did before the run was interrupted, so the run "
                "cannot be resumed: settings, version or machine changed. Nothing was read for it. Start a new run."
            )
        return number

    def _check_plan(self, charge: Charge) -> None:
        if not charge.releases:  # the charge of a run that had to stop, which is not a step of a plan
            return
        bug = "Nothing was read for it. This is a bug in the method, not a mistake of yours: please report it."
        if charge.mechanism == NO_GUARANTEE and self.noise != NO_NOISE:
            raise BudgetError(
                f"Step {charge.step!r} would release rows without noise in a run that began as one with noise. {bug}"
            )
        if self._left is None:
            return
        if charge.step not in self._left:
            raise BudgetError(f"Step {charge.step!r} is not in the plan of the method, so it may spend nothing. {bug}")
        left = self._left[charge.step]
        if charge.rho > left:
            what = f"Step {charge.step!r} of the plan of the method"
            raise BudgetExceededError(what, float(charge.rho), max(0.0, float(left)), "rho", bug)

    def end(self, status: str) -> None:
        """Close the run as 'done' or 'failed'."""
        self.ledger.append_to_run(self, {"kind": "end", "status": status})

    def stop(self) -> float:
        """Close a run that stops because of its noisy answers, and return the epsilon that it counts with."""
        epsilon = stopped_epsilon(self.budget, self.summary().rho, self.stop_delta)
        self.ledger.append_to_run(self, {"kind": "end", "status": STOPPED, "stopped": epsilon})
        if self.journal is not None:
            self.journal.discard()
        return self.summary().epsilon_counted

    def summary(self) -> RunSummary:
        return self.ledger.runs()[self.number - 1]


@contextmanager
def ended(account: Run) -> Generator[None]:
    """Close the account of a run when it has spent its budget, failed, or stopped because of its answers."""
    try:
        yield
    except DoubtfulError as error:
        error.counted = account.stop()
        raise
    except BaseException:
        account.end("failed")
        raise
    account.end("done")


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
            settings=cast(dict[str, Any], stored.value("settings", dict)),
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
        """The method that ran, and whether `auto` chose it."""
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
