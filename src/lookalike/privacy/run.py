"""One open run of a ledger, which the accountant writes to; also one that was interrupted and goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from lookalike.errors import BudgetError, BudgetExceededError, DoubtfulError, LedgerError
from lookalike.privacy.journal import Journal
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Budget, Charge
from lookalike.privacy.stopping import STOPPED, stopped_epsilon

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
        """Keep answers in this journal, and take those that it holds.

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
                "charges: it is a copy of before the end, and no run goes on twice. Start a new run."
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
        """Have a noisy answer on disk before anything uses it; without one, the run cannot be resumed any more."""
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
        """From now on refuse steps that are not listed, and more rho for a step than is listed for the whole run.

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
        """The number of the charge that was made before the run was interrupted. It must be the same."""
        if not charge.releases:  # the resumed run has to stop: it is charged what the charges yet to be repeated leave
            paid = sum((made.rho for _, made in self._made), Fraction(0))
            self._made.clear()
            return self._written(replace(charge, rho=max(Fraction(0), charge.rho - paid)))
        number, made = self._made.popleft()
        if made != charge:
            raise LedgerError(
                f"Step {charge.step!r} asks for something else than it did before the run was interrupted, so the run "
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
        """Close a run that its noisy answers made stop, for good, and return the epsilon that it counts with."""
        epsilon = stopped_epsilon(self.budget, self.summary().rho, self.stop_delta)
        self.ledger.append_to_run(self, {"kind": "end", "status": STOPPED, "stopped": epsilon})
        if self.journal is not None:
            self.journal.discard()
        return self.summary().epsilon_counted

    def summary(self) -> RunSummary:
        return self.ledger.runs()[self.number - 1]


@contextmanager
def ended(account: Run) -> Generator[None]:
    """Close the account of a run when it has spent its budget, failed, or stopped for what its answers show."""
    try:
        yield
    except DoubtfulError as error:
        error.counted = account.stop()
        raise
    except BaseException:
        account.end("failed")
        raise
    account.end("done")
