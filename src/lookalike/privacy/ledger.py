"""The ledger: all that was ever spent on a table, on disk before any noise is drawn.

One text file per table, one JSON object per line; `chain.py` says what is found when a file was changed or cut off.

Lines: `table` (the table's identity), `cap` (what may ever be spent), `begin` (a run, its budget, the origin of its
noise), `charge`, `end`.

A run counts with its whole configured epsilon once anything was charged, and with nothing before, since nothing was
released. Its charges may add up to less in the end, but how much less, and whether it stopped half way, can depend on
noisy answers. The theorems that allow noise to be chosen during a run (privacy filters) guarantee the configured
epsilon for the whole run, not the smaller sum. One kind of stop is the exception: a strict run sets a part of delta
aside, with which `stopping.py` proves a smaller epsilon where its answers make it stop. A run whose noise can be
repeated, or that has none, guarantees nothing: it counts as infinite once anything was charged, and no cap admits it.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from lookalike.errors import BudgetError, BudgetExceededError, LedgerError
from lookalike.notebook import card, table
from lookalike.privacy.chain import Chain, Entry
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Accounting, Budget, Charge
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.run import NO_NOISE, REPRODUCIBLE, SYSTEM_ENTROPY, NoiseSource, Run
from lookalike.privacy.stopping import STOPPED

FORMAT = 2
"""Files of format 1 do not say where a run's noise comes from; they are read and continued."""

NOT_RECORDED = "not recorded"
"""Noise of a run in a file of format 1."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as the ledger shows it.

    `stop_delta` is what a strict run sets aside beside its delta, `stopped` the epsilon it counts with if it stopped.
    """

    number: int
    started: str
    method: str
    epsilon: float
    delta: float
    accounting: Accounting
    neighbours: str
    status: str
    charges: tuple[Charge, ...]
    threshold_delta: float = 0.0
    noise: str = NOT_RECORDED
    stop_delta: float = 0.0
    stopped: float | None = None

    @property
    def rho(self) -> Fraction:
        return sum((charge.rho for charge in self.charges), Fraction(0))

    @property
    def private(self) -> bool:
        """False for a run with reproducible noise, or with a release that has none."""
        named = self.noise in (SYSTEM_ENTROPY, NOT_RECORDED)
        return named and all(charge.mechanism != NO_GUARANTEE for charge in self.charges)

    @property
    def epsilon_counted(self) -> float:
        """The configured epsilon once anything was charged, infinite for a run that is not private; see the module."""
        if not self.charges:
            return 0.0
        if not self.private:
            return math.inf
        proved = self.status == STOPPED and self.stopped is not None and self.stop_delta > 0
        return min(self.epsilon, self.stopped or 0.0) if proved else self.epsilon

    @property
    def delta_counted(self) -> float:
        return self.delta + self.stop_delta if self.charges else 0.0


class Ledger:
    """The ledger of one table. With `path=None` it is kept in memory until the process ends."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path = path
        self.identity = identity
        self._chain = Chain(path, is_complete)

    def entries(self) -> list[Entry]:
        """All lines, after checking the chain."""
        with self._chain.locked():
            return self._read()

    @property
    def cap(self) -> float | None:
        """The maximum of epsilon that all runs together may spend, or None."""
        return _cap(self.entries())

    def set_cap(self, epsilon: float) -> None:
        if not 0 < epsilon < math.inf:
            raise BudgetError(f"The cap is {epsilon}; it must be a positive, finite epsilon.")
        with self._chain.locked():
            self._append(self._read(), {"kind": "cap", "epsilon": epsilon})

    def runs(self) -> list[RunSummary]:
        return _runs(self.entries())

    def spent(self) -> tuple[float, float]:
        """Total (epsilon, delta) of all runs by basic composition: sums, valid whatever the runs did."""
        return _spent(self.entries())

    def begin(
        self,
        *,
        method: str,
        schema: str,
        budget: Budget,
        neighbours: Neighbours,
        noise: NoiseSource = SYSTEM_ENTROPY,
        stop_delta: float = 0.0,
    ) -> Run:
        """Open a run, or refuse it when it would pass the cap. Nothing counts until the first charge."""
        with self._chain.locked():
            entries = self._read()
            self._check_cap(entries, budget, noise)
            number = 1 + sum(entry["kind"] == "begin" for entry in entries)
            facts = _facts(method, schema, budget, neighbours, noise, stop_delta)
            begun = self._append(entries, {"kind": "begin", "run": number, **facts})
            return Run(self, number, budget, noise, begun=self._read()[begun]["hash"], stop_delta=stop_delta)

    def resume(
        self,
        number: int,
        *,
        method: str,
        schema: str,
        budget: Budget,
        neighbours: Neighbours,
        stop_delta: float = 0.0,
    ) -> Run:
        """Return an interrupted run, whose charges are made already; refuse one that was begun with other facts."""
        entries = self.entries()
        begun = [entry for entry in entries if entry["kind"] == "begin" and entry["run"] == number]
        if not begun:
            raise LedgerError(f"The ledger {self.path} has no run {number}. 'lookalike ledger TABLE' lists its runs.")
        facts = _facts(method, schema, budget, neighbours, SYSTEM_ENTROPY, stop_delta)
        changed = [name for name, value in facts.items() if begun[0].get(name) != value]
        if changed:
            raise LedgerError(
                f"Run {number} was begun with another {' and '.join(changed)}; it cannot be resumed. Start a new run."
            )
        made = [entry for entry in entries if entry["kind"] == "charge" and entry["run"] == number]
        charges = [(entry["n"], _charge(entry)) for entry in made]
        return Run(self, number, budget, begun=begun[0]["hash"], made=charges, stop_delta=stop_delta)

    def hash_of(self, entry: int) -> str:
        """The hash of a line, which covers all lines before it."""
        return self.entries()[entry]["hash"]

    def _check_cap(self, entries: list[Entry], budget: Budget, noise: NoiseSource, run: int | None = None) -> None:
        cap = _cap(entries)
        if cap is None:
            return
        spent = sum(summary.epsilon_counted for summary in _runs(entries) if summary.number != run)
        if noise != SYSTEM_ENTROPY:
            raise BudgetExceededError(
                f"This run on {self.identity}, which is NOT PRIVATE (noise: {noise}),",
                math.inf,
                max(0.0, cap - spent),
                "epsilon",
                f"The table has a cap of {cap:.6g}, and a run without secret noise counts as infinite epsilon. "
                + _REMEDIES[noise],
            )
        # One part in 1e12 allows for the rounding of decimal inputs (three runs at 0.1 under a cap of 0.3).
        if spent + budget.epsilon > cap * (1 + 1e-12):
            raise BudgetExceededError(
                f"This run on {self.identity}",
                budget.epsilon,
                max(0.0, cap - spent),
                "epsilon",
                f"{epsilon_text(spent)} of the cap of {cap:.6g} is spent. Use a smaller epsilon, or raise the cap with "
                "'lookalike ledger TABLE --cap EPSILON' if you may.",
            )

    def append_to_run(self, run: Run, body: Entry) -> int:
        """Write one line of an open run and return its number. The run's first charge reserves its whole budget."""
        with self._chain.locked():
            entries = self._read()
            first = not any(entry["kind"] == "charge" and entry["run"] == run.number for entry in entries)
            if body["kind"] == "charge" and first:
                self._check_cap(entries, run.budget, run.noise, run.number)
            return self._append(entries, {**body, "run": run.number})

    def _read(self) -> list[Entry]:
        entries = self._chain.read()
        if not entries:
            return entries
        table, version = entries[0].get("table"), entries[0].get("format")
        if entries[0]["kind"] != "table" or version not in range(1, FORMAT + 1):
            raise LedgerError(
                f"The ledger {self.path} has format {version}; this version of lookalike reads formats 1 to {FORMAT}. "
                "Install the version that wrote it, or a newer one."
            )
        if table != self.identity:
            raise LedgerError(
                f"The ledger {self.path} belongs to {table!r}, not to {self.identity!r}. "
                "Give each table a separate ledger with --ledger."
            )
        return entries

    def _append(self, entries: list[Entry], body: Entry) -> int:
        if not entries:
            self._chain.append({"kind": "table", "table": self.identity, "format": FORMAT})
        return self._chain.append(body)

    def _repr_html_(self) -> str:
        names = ("run", "time (UTC)", "method", "epsilon", "delta", "counted", "noise", "charges", "status")
        rows: list[tuple[object, ...]] = []
        for run in self.runs():
            amounts = (f"{run.epsilon:g}", f"{run.delta:g}", epsilon_text(run.epsilon_counted))
            started = run.started[:16].replace("T", " ")
            rows.append((run.number, started, run.method, *amounts, run.noise, len(run.charges), run.status))
        (spent, delta), cap = self.spent(), self.cap
        left = "no cap is set" if cap is None else f"{max(0.0, cap - spent):.6g} of the cap of {cap:g} is left"
        total = f"Spent in all: epsilon {epsilon_text(spent)}, delta {delta:.3g}; {left}."
        where = f"File: {self.path}" if self.path else "In memory only: it ends with the process."
        return card(f"Ledger of {self.identity}", [total, where], table(names, rows))


_REMEDIES = {
    REPRODUCIBLE: "Leave out insecure_rng, or repeat benchmarks on a public table without a cap.",
    NO_NOISE: "Choose settings of the method under which every release has noise.",
}


def epsilon_text(epsilon: float) -> str:
    """An epsilon as text: a number, or the word infinite."""
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.6g}"


def epsilon_json(epsilon: float) -> float | str:
    """An epsilon for JSON, which has no number for infinity: a number, or the word infinite."""
    return "infinite" if math.isinf(epsilon) else epsilon


# The fields of lines.

_RHO = re.compile(r"[0-9]{1,80}(/[1-9][0-9]{0,79})?")
_FIELDS: dict[str, dict[str, type]] = {
    "table": {"table": str, "format": int},
    "cap": {"epsilon": float},
    "begin": {
        "run": int, "method": str, "schema": str, "epsilon": float, "delta": float, "accounting": str,
        "neighbours": str,
    },
    "charge": {"run": int, "step": str, "mechanism": str, "releases": int, "rho": str, "detail": str},
    "end": {"run": int, "status": str},
}  # fmt: skip
_LATER_FIELDS = {"threshold_delta": float, "delta": float, "noise": str, "stop_delta": float, "stopped": float}


def is_complete(entry: Entry) -> bool:
    """Whether a line has every field of its kind with the right type; numbers are finite and not negative."""
    later = {name: kind for name, kind in _LATER_FIELDS.items() if name in entry}
    fields = {**_FIELDS[entry["kind"]], **later, "time": str}
    known = all(_is_a(entry[name], kind) for name, kind in fields.items())
    return known and ("rho" not in fields or _RHO.fullmatch(entry["rho"]) is not None)


def _is_a(value: Any, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return (whole or (kind is float and isinstance(value, float))) and 0 <= value < math.inf


def _facts(
    method: str, schema: str, budget: Budget, neighbours: Neighbours, noise: NoiseSource, stop_delta: float
) -> Entry:
    """What the first line of a run says about it."""
    return {
        "method": method,
        "schema": schema,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "threshold_delta": budget.threshold_delta,
        "accounting": budget.accounting,
        "neighbours": neighbours.describe(),
        "noise": noise,
        **({"stop_delta": stop_delta} if stop_delta else {}),
    }


def _charge(entry: Entry) -> Charge:
    words = (entry["step"], entry["mechanism"], entry["releases"], Fraction(entry["rho"]), entry["detail"])
    return Charge(*words, delta=entry.get("delta", 0.0))


def _cap(entries: list[Entry]) -> float | None:
    caps = [entry["epsilon"] for entry in entries if entry["kind"] == "cap"]
    return caps[-1] if caps else None


def _runs(entries: list[Entry]) -> list[RunSummary]:
    charges: dict[int, list[Charge]] = {}
    ends: dict[int, Entry] = {}
    for entry in entries:
        if entry["kind"] == "charge":
            charges.setdefault(entry["run"], []).append(_charge(entry))
        elif entry["kind"] == "end":
            ends[entry["run"]] = entry
    return [
        RunSummary(
            number=entry["run"],
            started=entry["time"],
            **{name: entry[name] for name in ("method", "epsilon", "delta", "accounting", "neighbours")},
            status=ends.get(entry["run"], {}).get("status", "unfinished"),
            charges=tuple(charges.get(entry["run"], ())),
            threshold_delta=entry.get("threshold_delta", 0.0),
            noise=entry.get("noise", NOT_RECORDED),
            stop_delta=entry.get("stop_delta", 0.0),
            stopped=ends.get(entry["run"], {}).get("stopped"),
        )
        for entry in entries
        if entry["kind"] == "begin"
    ]


def _spent(entries: list[Entry]) -> tuple[float, float]:
    runs = _runs(entries)
    return sum(run.epsilon_counted for run in runs), sum(run.delta_counted for run in runs)


def default_ledger_path(identity: str) -> Path:
    """The default place of a table's ledger: in the user's state folder, named after the identity."""
    base = os.environ.get("LOOKALIKE_LEDGERS")
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = Path(base) if base else Path(state) / "lookalike" / "ledgers"
    readable = "".join(c if c.isalnum() else "-" for c in Path(identity).stem)[:40]
    return folder / f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsonl"
