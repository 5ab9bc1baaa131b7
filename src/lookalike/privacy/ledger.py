"""The ledger records all that was ever spent on a table, and is on disk before any noise is drawn.

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
from lookalike.privacy.composition import NAMES, Cap, Composition, RunCost, composed
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Accounting, Budget, Charge, Neighbours
from lookalike.privacy.run import NO_NOISE, REPRODUCIBLE, SYSTEM_ENTROPY, NoiseSource, Run
from lookalike.privacy.stopping import STOPPED

FORMAT = 2
"""Files of format 1 do not say where a run's noise comes from; they are read and continued."""

NOT_RECORDED = "not recorded"
"""The origin of a run's noise in a file of format 1."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, as its lines in the ledger describe it.

    `stop_delta` is what a strict run sets aside beside its delta, `stopped` the epsilon it counts with if it stopped,
    `public` names a public table that the run was given.
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
    public: str = ""

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

    @property
    def cost(self) -> RunCost:
        """What the run may have spent, for its composition with other runs."""
        mechanisms = frozenset(charge.mechanism for charge in self.charges)
        counted = (self.epsilon_counted, self.delta_counted)
        return RunCost(self.epsilon, self.delta, self.accounting, self.threshold_delta, mechanisms, counted)


class Ledger:
    """The ledger of one table. With `path=None` it is kept in memory until the process ends."""

    def __init__(self, path: str | Path | None, identity: str) -> None:
        self.path = None if path is None else Path(path)
        self.identity = identity
        self._chain = Chain(self.path, is_complete)

    def entries(self) -> list[Entry]:
        """All lines, after checking the chain."""
        with self._chain.locked(reading=True):
            return self._read()

    @property
    def cap(self) -> float | None:
        """The maximum of epsilon that all runs together may spend, or None; `limit` says how it is added up."""
        limit = self.limit
        return limit.epsilon if limit else None

    @property
    def limit(self) -> Cap | None:
        """The maximum that all runs together may spend, and how they are added up, or None."""
        return _cap(self.entries())

    def set_cap(self, epsilon: float, composition: Composition = "sum", delta: float = 0.0) -> None:
        """Set the maximum of epsilon: of the sum, or of a composition of all runs at this delta."""
        if not 0 < epsilon < math.inf:
            raise BudgetError(f"The cap is {epsilon}; it must be a positive, finite epsilon.")
        if composition not in NAMES:
            raise BudgetError(f"The composition of a cap is {composition!r}; it must be one of {', '.join(NAMES)}.")
        more: Entry = {}
        if composition != "sum":
            Budget(epsilon, delta, composition)  # refuses a delta out of range
            more = {"composition": composition, "delta": delta}
        with self._chain.locked():
            self._append(self._read(), {"kind": "cap", "epsilon": epsilon, **more})

    def left(self) -> str:
        """Say what the cap leaves, in words."""
        return _left(self.limit, self.runs())

    def runs(self) -> list[RunSummary]:
        return _runs(self.entries())

    def spent(self) -> tuple[float, float]:
        """Total (epsilon, delta) of all runs by basic composition: sums, valid whatever the runs did."""
        return _spent(self.entries())

    def composed(self) -> tuple[float, Composition]:
        """Return the smallest proven epsilon of all runs, at the sum of their deltas, and by which composition."""
        return composed([run.cost for run in self.runs() if run.charges])

    def begin(
        self,
        *,
        method: str,
        schema: str,
        budget: Budget,
        neighbours: Neighbours,
        noise: NoiseSource = SYSTEM_ENTROPY,
        stop_delta: float = 0.0,
        public: str = "",
    ) -> Run:
        """Open a run, or refuse it when it would pass the cap. Nothing counts until the first charge."""
        with self._chain.locked():
            entries = self._read()
            self._check_cap(entries, budget, noise)
            number = 1 + sum(entry["kind"] == "begin" for entry in entries)
            facts = _facts(method, schema, budget, neighbours, noise, stop_delta, public)
            begun = self._append(entries, {"kind": "begin", "run": number, **facts})
            return Run(self, number, budget, noise, begun=self._read()[begun]["hash"], stop_delta=stop_delta)

    def resume(self, number: int, **facts: Any) -> Run:
        """Return an interrupted run with its charges; refuse one that was begun with other facts than these."""
        entries = self.entries()
        begun = [entry for entry in entries if entry["kind"] == "begin" and entry["run"] == number]
        if not begun:
            raise LedgerError(f"The ledger {self.path} has no run {number}. 'lookalike ledger TABLE' lists its runs.")
        told = _facts(**facts)
        changed = [name for name in {**told, "public": ""} if begun[0].get(name) != told.get(name)]
        if changed:
            raise LedgerError(
                f"Run {number} was begun with another {' and '.join(changed)}; it cannot be resumed. Start a new run."
            )
        made = [entry for entry in entries if entry["kind"] == "charge" and entry["run"] == number]
        charges = [(entry["n"], _charge(entry)) for entry in made]
        more = {"stop_delta": facts.get("stop_delta", 0.0)}
        return Run(self, number, facts["budget"], begun=begun[0]["hash"], made=charges, **more)

    def hash_of(self, entry: int) -> str:
        """The hash of a line, which covers all lines before it."""
        return self.entries()[entry]["hash"]

    def _check_cap(self, entries: list[Entry], budget: Budget, noise: NoiseSource, run: int | None = None) -> None:
        cap = _cap(entries)
        if cap is None:
            return
        others = [summary for summary in _runs(entries) if summary.charges and summary.number != run]
        spent = sum(summary.epsilon_counted for summary in others)
        if noise != SYSTEM_ENTROPY:
            raise BudgetExceededError(
                f"This run on {self.identity}, which is NOT PRIVATE (noise: {noise}),",
                math.inf,
                max(0.0, cap.epsilon - spent),
                "epsilon",
                f"The table has a cap of {cap.describe()}, and a run without secret noise counts as infinite epsilon. "
                + _REMEDIES[noise],
            )
        amounts = (budget.epsilon, budget.delta)
        new = RunCost(*amounts, budget.accounting, budget.threshold_delta, frozenset(), amounts)
        if cap.left([*(summary.cost for summary in others), new]) >= 0:
            return
        raised = "or raise the cap with 'lookalike ledger TABLE --cap EPSILON' if you may."
        if cap.composition != "sum":
            raise BudgetError(
                f"This run on {self.identity} needs epsilon {budget.epsilon:g} ({budget.accounting}) and would pass "
                f"the cap; {_left(cap, others)}. Use a smaller epsilon or a method that the cap composes, {raised}"
            )
        remedy = f"{epsilon_text(spent)} of the cap of {cap.epsilon:.6g} is spent. Use a smaller epsilon, {raised}"
        left = max(0.0, cap.epsilon - spent)
        raise BudgetExceededError(f"This run on {self.identity}", budget.epsilon, left, "epsilon", remedy)

    def append_to_run(self, run: Run, body: Entry) -> int:
        """Write one line of an open run and return its number. The run's first charge reserves its whole budget."""
        with self._chain.locked():
            entries = self._read()
            first = not any(entry["kind"] == "charge" and entry["run"] == run.number for entry in entries)
            if body["kind"] == "charge" and first:
                self._check_cap(entries, run.budget, run.noise, run.number)
            if body["kind"] == "charge" and body["releases"] and (cap := _cap(entries)):
                cap.check(run.budget, body["step"], body["mechanism"])
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
        spent, delta = self.spent()
        total = f"Spent in all: epsilon {epsilon_text(spent)}, delta {delta:.3g}; {self.left()}."
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
_LATER_FIELDS = {
    "composition": str,
    "threshold_delta": float,
    "delta": float,
    "noise": str,
    "stop_delta": float,
    "stopped": float,
    "public": str,
}


def is_complete(entry: Entry) -> bool:
    """Whether a line has every field of its kind with the right type; numbers are finite and not negative."""
    later = {name: kind for name, kind in _LATER_FIELDS.items() if name in entry}
    fields = {**_FIELDS[entry["kind"]], **later, "time": str}
    known = all(_is_a(entry[name], kind) for name, kind in fields.items())
    known = known and entry.get("composition", "sum") in NAMES
    return known and ("rho" not in fields or _RHO.fullmatch(entry["rho"]) is not None)


def _is_a(value: Any, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return (whole or (kind is float and isinstance(value, float))) and 0 <= value < math.inf


def _facts(
    method: str,
    schema: str,
    budget: Budget,
    neighbours: Neighbours,
    noise: NoiseSource = SYSTEM_ENTROPY,
    stop_delta: float = 0.0,
    public: str = "",
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
        **({"public": public} if public else {}),
    }


def _charge(entry: Entry) -> Charge:
    words = (entry["step"], entry["mechanism"], entry["releases"], Fraction(entry["rho"]), entry["detail"])
    return Charge(*words, delta=entry.get("delta", 0.0))


def _cap(entries: list[Entry]) -> Cap | None:
    caps = [entry for entry in entries if entry["kind"] == "cap"]
    if not caps:
        return None
    return Cap(caps[-1]["epsilon"], caps[-1].get("composition", "sum"), caps[-1].get("delta", 0.0))


def _left(cap: Cap | None, runs: list[RunSummary]) -> str:
    return "no cap is set" if cap is None else cap.left_in_words([run.cost for run in runs if run.charges])


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
            public=entry.get("public", ""),
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
