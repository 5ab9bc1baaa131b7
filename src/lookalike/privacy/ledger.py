"""What has ever been spent on a table: locked, append-only, hash-chained, on disk before any noise is drawn.

One text file per table, one JSON object per line. Each line carries the hash of the line before it, so a changed or
reordered line shows; a small side file holds the newest line's hash, so a missing end shows too. A line half-written
when the process died was never acted upon (noise is drawn only after it is safely on disk) and is dropped.

Lines: `table` (whose ledger), `cap` (what may ever be spent), `begin` (a run and its budget), `charge`, `end`.
"""

from __future__ import annotations

import fcntl
import hashlib
import html
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from lookalike.errors import BudgetError, BudgetExceededError, LedgerError
from lookalike.privacy.budget import Accounting, Budget, epsilon_spent
from lookalike.privacy.neighbours import Neighbours

FORMAT = 1
NO_GUARANTEE = "none"
"""Mechanism of a release without differential privacy. A run that made one counts as infinite epsilon."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Charge:
    """One act at the door: what kind, for which step of the method, at what price. Only thresholds cost delta."""

    step: str
    mechanism: str
    releases: int
    rho: Fraction
    detail: str = ""
    delta: float = 0.0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as the ledger tells it. An unfinished run counts with its whole budget once anything was charged."""

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

    @property
    def rho(self) -> Fraction:
        return sum((charge.rho for charge in self.charges), Fraction(0))

    @property
    def epsilon_counted(self) -> float:
        if not self.charges:
            return 0.0
        if any(charge.mechanism == NO_GUARANTEE for charge in self.charges):
            return float("inf")
        if self.status == "unfinished":
            return self.epsilon
        return min(self.epsilon, epsilon_spent(self.rho, self.delta - self.threshold_delta, self.accounting))

    @property
    def delta_counted(self) -> float:
        return self.delta if self.charges else 0.0


class Ledger:
    """The ledger of one table. `path=None` keeps it in memory: it then forgets when the process ends."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path = path
        self.identity = identity
        self._known: list[Entry] = []
        self._known_bytes = 0

    def entries(self) -> list[Entry]:
        """All lines, after checking the chain."""
        with self._locked():
            return self._read()

    @property
    def cap(self) -> float | None:
        """Most epsilon that all runs together may spend, or None."""
        return _cap(self.entries())

    def set_cap(self, epsilon: float) -> None:
        if not 0 < epsilon < float("inf"):
            raise BudgetError(f"The cap is {epsilon}; it must be a positive, finite epsilon.")
        with self._locked():
            self._append(self._read(), {"kind": "cap", "epsilon": epsilon})

    def runs(self) -> list[RunSummary]:
        return _runs(self.entries())

    def spent(self) -> tuple[float, float]:
        """Total (epsilon, delta) of all runs by basic composition: sums, valid whatever the runs did."""
        return _spent(self.entries())

    def begin(self, *, method: str, schema: str, budget: Budget, neighbours: Neighbours) -> Run:
        """Open a run, or refuse it when its budget would pass the cap. Nothing counts until the first charge."""
        with self._locked():
            entries = self._read()
            self._check_cap(entries, budget.epsilon)
            number = 1 + sum(entry["kind"] == "begin" for entry in entries)
            body: Entry = {
                "kind": "begin",
                "run": number,
                "method": method,
                "schema": schema,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "threshold_delta": budget.threshold_delta,
                "accounting": budget.accounting,
                "neighbours": neighbours.describe(),
            }
            self._append(entries, body)
        return Run(self, number, budget)

    def _check_cap(self, entries: list[Entry], epsilon: float, run: int | None = None) -> None:
        cap = _cap(entries)
        if cap is None:
            return
        spent = sum(summary.epsilon_counted for summary in _runs(entries) if summary.number != run)
        # One part in 1e12 forgives the rounding of decimal inputs (three runs at 0.1 under a cap of 0.3).
        if spent + epsilon > cap * (1 + 1e-12):
            raise BudgetExceededError(
                f"This run on {self.identity}",
                epsilon,
                max(0.0, cap - spent),
                "epsilon",
                f"{spent:.6g} of the cap of {cap:.6g} is spent. Use a smaller epsilon, or raise the cap with "
                "'lookalike ledger TABLE --cap EPSILON' if you may.",
            )

    def append_to_run(self, run: int, budget: Budget, body: Entry) -> int:
        """Write one line of an open run and return its number. The run's first charge reserves its whole budget."""
        with self._locked():
            entries = self._read()
            first = not any(entry["kind"] == "charge" and entry["run"] == run for entry in entries)
            if body["kind"] == "charge" and first:
                self._check_cap(entries, budget.epsilon, run)
            return self._append(entries, {**body, "run": run})

    # Files and the chain.

    @contextmanager
    def _locked(self) -> Generator[None]:
        if self.path is None:
            yield
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> list[Entry]:
        """All lines; those that this process has checked before are not hashed again."""
        if self.path is None:
            return self._known
        try:
            text = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise LedgerError(
                f"Cannot read the ledger {self.path}: {error.strerror}. Check its permissions."
            ) from error
        if len(text) < self._known_bytes:
            self._known, self._known_bytes = [], 0
        complete = text.rfind(b"\n") + 1  # what follows was never completed, hence never acted upon
        _verify(self._known, text[self._known_bytes : complete], self.path)
        self._known_bytes = complete
        if self._known and self._known[0].get("table") != self.identity:
            raise LedgerError(
                f"The ledger {self.path} belongs to {self._known[0].get('table')!r}, not to {self.identity!r}. "
                "Give each table a ledger of its own."
            )
        self._check_end(self._known)
        return self._known

    def _check_end(self, entries: list[Entry]) -> None:
        """Refuse a ledger that is shorter than it was. It may be longer: the side file is written second."""
        head = self._head_path()
        if not head.exists():
            if len(entries) > 1:
                raise LedgerError(f"{head} is missing. Restore it from a backup together with {self.path}.")
            return
        try:
            count, digest = head.read_text().split()
            complete = 0 < int(count) <= len(entries) and entries[int(count) - 1]["hash"] == digest
        except (OSError, ValueError):
            complete = False
        if not complete:
            raise LedgerError(
                f"The ledger {self.path} does not reach the line that {head.name} names: lines are missing, or one of "
                "the two files was changed. What was spent is unknown; restore both from a backup."
            )

    def _append(self, entries: list[Entry], body: Entry) -> int:
        if not entries and body["kind"] != "table":
            self._append(entries, {"kind": "table", "table": self.identity, "format": FORMAT})
        previous = entries[-1]["hash"] if entries else ""
        number = len(entries)
        entry: Entry = {"n": number, "time": datetime.now(UTC).isoformat(timespec="seconds"), **body, "prev": previous}
        entry["hash"] = _digest(entry)
        if self.path is not None:
            line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
            self._write(self.path, line, number + 1, entry["hash"])
            self._known_bytes += len(line)
        entries.append(entry)
        return number

    def _write(self, path: Path, line: bytes, count: int, digest: str) -> None:
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                _drop_torn_line(handle)
                start = os.lseek(handle, 0, os.SEEK_END)
                try:
                    if os.write(handle, line) != len(line):
                        raise OSError(28, "No space left on device")
                    os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, start)
                    raise
            finally:
                os.close(handle)
            temporary = self._head_path().with_suffix(".head-new")
            temporary.write_text(f"{count} {digest}\n")
            temporary.replace(self._head_path())
        except OSError as error:
            raise _unwritable(path, error) from error

    def _head_path(self) -> Path:
        return (self.path or Path()).with_suffix(".head")

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{run.number}</td><td>{run.started}</td><td>{run.method}</td><td>{run.epsilon:g}</td>"
            f"<td>{run.delta:g}</td><td>{run.epsilon_counted:.4g}</td><td>{run.status}</td></tr>"
            for run in self.runs()
        )
        head = "".join(
            f"<th>{name}</th>" for name in ("run", "time", "method", "epsilon", "delta", "counted", "status")
        )
        return f"<table><caption>Ledger of {html.escape(self.identity)}</caption><tr>{head}</tr>{cells}</table>"


class Run:
    """An open run of a ledger: the accountant's pen."""

    def __init__(self, ledger: Ledger, number: int, budget: Budget) -> None:
        self.ledger = ledger
        self.number = number
        self._budget = budget

    def charge(self, charge: Charge) -> int:
        body = {
            "kind": "charge",
            "step": charge.step,
            "mechanism": charge.mechanism,
            "releases": charge.releases,
            "rho": str(charge.rho),
            "detail": charge.detail,
            "delta": charge.delta,
        }
        return self.ledger.append_to_run(self.number, self._budget, body)

    def end(self, status: str) -> None:
        """Close the run as 'done' or 'failed'; from now on it counts with what it was charged."""
        self.ledger.append_to_run(self.number, self._budget, {"kind": "end", "status": status})

    def summary(self) -> RunSummary:
        return self.ledger.runs()[self.number - 1]


def _digest(entry: Entry) -> str:
    body = {key: value for key, value in entry.items() if key != "hash"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _verify(entries: list[Entry], lines: bytes, path: Path) -> None:
    """Append the parsed lines to `entries`, each after its number, hash and link to the line before are checked."""
    for line in lines.splitlines():
        number = len(entries)
        try:
            entry: Entry = json.loads(line)
            sound = entry["n"] == number and entry["hash"] == _digest(entry)
            chained = entry["prev"] == (entries[-1]["hash"] if entries else "")
        except (ValueError, KeyError, TypeError):
            sound = chained = False
            entry = {}
        if not (sound and chained):
            raise LedgerError(
                f"Line {number + 1} of the ledger {path} was changed or damaged: its hash does not fit. What was spent "
                "is unknown; restore the file from a backup."
            )
        entries.append(entry)


def _drop_torn_line(handle: int) -> None:
    size = os.lseek(handle, 0, os.SEEK_END)
    os.lseek(handle, 0, os.SEEK_SET)
    kept = os.read(handle, size).rfind(b"\n") + 1
    if kept != size:
        os.ftruncate(handle, kept)


def _unwritable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"Cannot write the ledger {path}: {error.strerror}. Nothing is released without it; free some space, mend the "
        "permissions, or name another place with --ledger."
    )


def _cap(entries: list[Entry]) -> float | None:
    caps = [entry["epsilon"] for entry in entries if entry["kind"] == "cap"]
    return caps[-1] if caps else None


def _runs(entries: list[Entry]) -> list[RunSummary]:
    charges: dict[int, list[Charge]] = {}
    status: dict[int, str] = {}
    for entry in entries:
        if entry["kind"] == "charge":
            words = (entry["step"], entry["mechanism"], entry["releases"], Fraction(entry["rho"]), entry["detail"])
            charge = Charge(*words, delta=entry.get("delta", 0.0))
            charges.setdefault(entry["run"], []).append(charge)
        elif entry["kind"] == "end":
            status[entry["run"]] = entry["status"]
    return [
        RunSummary(
            number=entry["run"],
            started=entry["time"],
            method=entry["method"],
            epsilon=entry["epsilon"],
            delta=entry["delta"],
            accounting=entry["accounting"],
            neighbours=entry["neighbours"],
            status=status.get(entry["run"], "unfinished"),
            charges=tuple(charges.get(entry["run"], ())),
            threshold_delta=entry.get("threshold_delta", 0.0),
        )
        for entry in entries
        if entry["kind"] == "begin"
    ]


def _spent(entries: list[Entry]) -> tuple[float, float]:
    runs = _runs(entries)
    return sum(run.epsilon_counted for run in runs), sum(run.delta_counted for run in runs)


def default_ledger_path(identity: str) -> Path:
    """Where the ledger of a table lies unless told otherwise: in the user's state folder, named after the identity."""
    base = os.environ.get("LOOKALIKE_LEDGERS")
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = Path(base) if base else Path(state) / "lookalike" / "ledgers"
    readable = "".join(c if c.isalnum() else "-" for c in Path(identity).stem)[:40]
    return folder / f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsonl"
