"""The runs of the page: a process for each run in progress, and what is on disk about all others.

The page itself never opens a table. A separate process (`worker.py`) can be cancelled at any time, gives its memory
back, and leaves a journal from which the run is resumed. The ledger decides whether two runs may happen at once.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike.errors import InputError
from lookalike.privacy.journal import in_use
from lookalike.privacy.ledger import RunSummary
from lookalike.resuming import interrupted
from lookalike.web.orders import Order
from lookalike.web.tables import Place, make_folder
from lookalike.web.worker import GRACE, RECORD

_BEGINS = 120.0
"""Seconds in which a process must say which run it is, or why not."""
_MAX_KEPT = 50
"""Ended processes whose last messages are remembered."""


@dataclass(slots=True)
class Live:
    """A process that works for the page, and what it said last."""

    process: subprocess.Popen[bytes]
    run: int | None = None
    message: str = ""
    fraction: float = 0.0
    started: float = field(default_factory=time.monotonic)
    failed: str | None = None
    reason: str = ""
    page: str | None = None
    cancelled: bool = False
    heard: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def going_on(self) -> bool:
        return not self.ended.is_set()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def listen(self) -> None:
        """Take in what the process says until it ends."""
        stream = self.process.stdout
        for line in stream or ():
            self._take(json.loads(line))
        self.process.wait()
        if self.failed is None and self.process.returncode:
            self.failed, self.reason = "", "cancelled" if self.cancelled else "died"
        self.ended.set()
        self.heard.set()
        for pipe in (self.process.stdin, stream):
            with contextlib.suppress(OSError):
                pipe.close() if pipe else None

    def _take(self, said: dict[str, Any]) -> None:
        if "run" in said:
            self.run = said["run"]
            self.heard.set()
        elif "progress" in said:
            self.message, self.fraction = said["progress"]
        elif "failed" in said:
            self.failed, self.reason = said["failed"], said["reason"]
        elif "page" in said:
            self.page = said["page"]

    def cancel(self) -> None:
        """Ask the process to close its account, and end it if it does not."""
        self.cancelled = True
        self.process.terminate()
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        if not self.ended.wait(GRACE):
            self.process.kill()


class Runs:
    """All processes of one page."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, str, int], Live] = {}
        self._lock = threading.Lock()

    def release(self, place: Place, order: Order) -> Live:
        """Start a run and wait until it has begun or was refused; `Live.run` is its number in the ledger."""
        return self._begun(place, {"kind": "release", "order": order.to_json()})

    def resume(self, place: Place, number: int) -> Live:
        """Continue an interrupted run, and wait until it has begun again or was refused."""
        return self._begun(place, {"kind": "resume", "run": number})

    def compare(self, place: Place, number: int, record: dict[str, Any]) -> Live:
        """Start the comparison of real and synthetic rows, which is NOT PRIVATE."""
        found = self.live(place, number, "compare")
        if found is not None and (found.going_on or found.page is not None):
            return found
        task = {"kind": "compare", "folder": str(folder_of(place, number))}
        task |= {"out": record["files"]["out"], "reading": record["reading"]}
        live = self._started(place, task)
        self._keep(place, number, live, "compare")
        return live

    def live(self, place: Place, number: int, kind: str = "run") -> Live | None:
        """What a process of this page said about a run, also after it ended."""
        with self._lock:
            return self._live.get((kind, place.key, number))

    def stop(self) -> None:
        """End all processes: their runs can be resumed."""
        with self._lock:
            alive = [live for live in self._live.values() if live.going_on]
        for live in alive:
            live.cancel()
        for live in alive:
            live.ended.wait(GRACE + 1.0)

    def _begun(self, place: Place, task: dict[str, Any]) -> Live:
        live = self._started(place, task)
        if not live.heard.wait(_BEGINS):
            live.cancel()
            raise InputError(f"The run did not begin within {_BEGINS:.0f} seconds and was ended. Nothing was spent.")
        if live.run is not None:
            self._keep(place, live.run, live, "run")
        return live

    def _keep(self, place: Place, number: int, live: Live, kind: str) -> None:
        with self._lock:
            self._live[kind, place.key, number] = live
            ended = [name for name, other in self._live.items() if not other.going_on]
            for name in ended[: max(0, len(ended) - _MAX_KEPT)]:
                del self._live[name]

    def _started(self, place: Place, task: dict[str, Any]) -> Live:
        make_folder(place.state)
        whole = {**task, "where": place.where, "stem": place.stem, "state": str(place.state)}
        process = subprocess.Popen(
            [sys.executable, "-m", "lookalike.web.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        live = Live(process)
        threading.Thread(target=live.listen, daemon=True).start()
        with contextlib.suppress(OSError):  # a process that died at once is noticed by the listener
            if process.stdin is not None:
                process.stdin.write(json.dumps(whole).encode() + b"\n")
                process.stdin.flush()
        return live


# What the disk says.


@dataclass(frozen=True, slots=True)
class RunState:
    """One run of a table as the page shows it.

    `state` is one of: `running` here, running `elsewhere`, `done` with results on this page, `interrupted` (can be
    resumed), `failed`, `stopped` (strict), or `other` (of the command line, or without results here).
    """

    number: int
    state: str
    summary: RunSummary


def states(place: Place, runs: Runs) -> list[RunState]:
    """All runs in the ledger of a table, newest first."""
    book = place.ledger
    journals = interrupted(None, ledger=book)
    return [
        RunState(summary.number, _state(place, summary, runs, journals), summary) for summary in reversed(book.runs())
    ]


def state_of(place: Place, number: int, runs: Runs) -> RunState:
    """One run of a table."""
    for state in states(place, runs):
        if state.number == number:
            return state
    raise InputError(f"The ledger of {place.label} has no run {number}.")


def _state(place: Place, summary: RunSummary, runs: Runs, journals: dict[int, Path]) -> str:
    live = runs.live(place, summary.number)
    if live is not None and live.going_on:
        return "running"
    if (folder_of(place, summary.number) / RECORD).is_file():
        return "done"
    if summary.number in journals:
        return "elsewhere" if in_use(journals[summary.number]) else "interrupted"
    return {"failed": "failed", "stopped": "stopped"}.get(summary.status, "other")


def folder_of(place: Place, number: int) -> Path:
    """The folder of the results of a run."""
    return place.state / f"run-{number}"


def record_of(place: Place, number: int) -> dict[str, Any]:
    """What was written about the results of a run."""
    try:
        return json.loads((folder_of(place, number) / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"Run {number} of {place.label} has no results here.") from None


def spent_of(place: Place) -> dict[str, Any]:
    """What all runs of a table have spent, its cap, and what that leaves; in words if runs are composed."""
    book = place.ledger
    (spent, delta), cap = book.spent(), book.limit
    summed = cap is not None and cap.composition == "sum"
    left = max(0.0, cap.epsilon - spent) if cap is not None and summed else None
    facts = {"spent": spent, "delta": delta, "cap": None if cap is None else cap.epsilon, "left": left}
    return {**facts, "said": "" if cap is None or summed else book.left()}
