"""The journal of a run: its noisy answers, kept beside the ledger until its results are written.

An interrupted run is resumed by running it again from the start: every request that was charged before is answered
from the journal and charged no more, and the first request beyond them is a new one. What the file holds was released
by the door, noise included, so it is as public as the release itself; it holds nothing else of the table.

Why a charge never has two answers that anybody saw:
  1. The charge is in the ledger before the answer is drawn, and the answer is in the journal, on disk, before anything
     outside the door sees it. A run that dies between the two leaves its last charge without an answer. Nothing saw
     the answer that was lost, and the resumed run draws a new one for the same charge.
  2. While a process runs or resumes a run, it holds a lock on the journal; a second one is refused.
  3. A request that is answered from the journal must be the one that was recorded, by its charge in the ledger and by a
     hash of what it asks for: columns, noise, references, weights. The first that differs ends the run. So two
     continuations share all answers that either was given, and differ only in what was never drawn before.
  4. Releases that give numbers out while they read single rows, random splits of the rows, and runs that had to stop
     remove the journal before they are charged: such a run cannot be resumed.
  5. Every line carries the hash of the line before it, the first that of the run's line in the ledger, and every answer
     the hash of its charge's line: journals of other runs, cut ones and changed ones do not fit their ledger.

`Recording` keeps the answers in memory, from which error bars are computed later.
"""

# Values that are read from JSON have no static types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import base64
import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import LedgerError
from lookalike.guards import MAX_REFERENCE_CELLS
from lookalike.measurements import NoisyMarginal, NoisyResidual, on_finer_domain
from lookalike.privacy.chain import digest
from lookalike.privacy.kernel.requests import Recorder, Score
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain

FORMAT = 1
SUFFIX = ".answers"
MAX_BYTES = 1 << 31
_GO_ON = "Start a new run: 'lookalike ledger TABLE' shows what this one has spent."


def journal_path(ledger: Path, run: int) -> Path:
    """The place of the journal of one run."""
    return ledger.with_name(f"{ledger.name}-run{run}{SUFFIX}")


def journals_of(ledger: Path) -> dict[int, Path]:
    """The journals beside a ledger, by run: those of runs that did not end, or whose results were not written."""
    found = {}
    for path in ledger.parent.glob(f"{ledger.name}-run*{SUFFIX}"):
        number = path.name[len(ledger.name) + len("-run") : -len(SUFFIX)]
        if number.isdecimal():
            found[int(number)] = path
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Kept:
    """One answer: the hash of its charge in the ledger, that of the request, and the answer."""

    charge: str
    request: str
    answer: Any


class Journal:
    """The open journal of a run. Make it by `start` or `resume`; both lock the file until `close` or `discard`."""

    def __init__(self, path: Path, handle: int, header: dict[str, Any], answers: list[Kept], newest: str) -> None:
        self.path = path
        self.header = header
        self.answers = answers
        self._handle: int | None = handle
        self._newest = newest

    @classmethod
    def start(cls, path: Path, begun: str, header: Mapping[str, Any]) -> Journal:
        """A new journal of the run whose line in the ledger has the hash `begun`."""
        journal = None
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            journal = cls(path, handle, dict(header), [], begun)
            fcntl.flock(handle, fcntl.LOCK_EX)
            journal._append({"format": FORMAT, **header})
            return journal
        except OSError as error:
            if journal is not None:
                journal.discard()
            problem = f"Cannot write {path}: {error.strerror}. Nothing was spent; free some space"
            raise LedgerError(f"{problem}, or name another ledger with --ledger.") from None
        except BaseException:
            if journal is not None:
                journal.close()
            raise

    @classmethod
    def resume(cls, path: Path, begun: str) -> Journal:
        """The journal of an interrupted run; its lines are checked, and one that was never completed is dropped."""
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError as error:
            raise LedgerError(f"Cannot read {path}: {error.strerror}. {_GO_ON}") from None
        try:
            _lock(handle, path)
            return cls._read(path, handle, begun)
        except BaseException:
            os.close(handle)
            raise

    @classmethod
    def _read(cls, path: Path, handle: int, begun: str) -> Journal:
        size = os.fstat(handle).st_size
        if size > MAX_BYTES:
            raise LedgerError(f"{path} has {size:,} bytes; a journal has {MAX_BYTES:,} at most. {_GO_ON}")
        data = _read_all(handle, size)
        complete = data.rfind(b"\n") + 1
        if not complete:
            path.unlink(missing_ok=True)
            raise LedgerError(f"The run of {path.name} stopped before it had spent anything. Start it again.")
        newest, bodies = begun, []
        try:
            for line in data[:complete].splitlines():
                body = json.loads(line)
                if body["prev"] != newest or body["hash"] != digest(body):
                    raise ValueError("chain")
                newest = body["hash"]
                bodies.append(body)
            header, *lines = bodies
            answers = [Kept(line["charge"], line["request"], line["answer"]) for line in lines]
            if header["format"] != FORMAT:
                raise ValueError("format")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(
                f"{path} was changed or damaged, or does not belong to its ledger: the run cannot be resumed. {_GO_ON}"
            ) from None
        os.ftruncate(handle, complete)
        return cls(path, handle, header, answers, newest)

    def keep(self, charge: str, request: tuple[Any, ...], answer: Any) -> None:
        """Write one answer, synced to disk. Where that is impossible, the run continues but cannot be resumed."""
        if self._handle is None:
            return
        try:
            kept = Kept(charge, request_hash(request), written(answer))
            self._append({"charge": kept.charge, "request": kept.request, "answer": kept.answer})
            self.answers.append(kept)
        except (OSError, TypeError):
            self.discard()

    def kept(self, place: int, charge: str, request: tuple[Any, ...]) -> Any:
        """The answer at this place among the run's answers; None beyond the last. It must be one to this request."""
        if place >= len(self.answers):
            return None
        found = self.answers[place]
        if found.charge != charge or found.request != request_hash(request):
            raise LedgerError(
                "The run asks for something other than it did before it was interrupted, so it cannot be resumed: the "
                "schema, the settings, the version of lookalike or the machine changed. Nothing was read for it. "
                f"{_GO_ON}"
            )
        return restored(found.answer)

    def discard(self) -> None:
        """Remove the journal: the results are written, or the run cannot be resumed any more."""
        if self._handle is None:
            return
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(f"Cannot remove {self.path}: {error.strerror}. Remove it yourself.") from None
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _append(self, body: dict[str, Any]) -> None:
        entry = {**body, "prev": self._newest}
        entry["hash"] = digest(entry)
        data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        handle = self._handle if self._handle is not None else -1
        os.lseek(handle, 0, os.SEEK_END)
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
        self._newest = entry["hash"]


def _lock(handle: int, path: Path) -> None:
    """Lock the file; refuse one that another process has locked, or that was removed meanwhile."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LedgerError(f"The run of {path.name} is still running in another process. Wait for it.") from None
    if not path.exists() or not os.path.samestat(os.fstat(handle), os.stat(path)):
        raise LedgerError(f"The run of {path.name} has just ended in another process: there is nothing to resume.")


def in_use(path: Path) -> bool:
    """Whether some process runs or resumes the run of this journal at this moment."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _read_all(handle: int, size: int) -> bytes:
    parts, at = [], 0
    while at < size and (part := os.pread(handle, min(1 << 24, size - at), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


# Requests as hashes.


def request_hash(request: tuple[Any, ...]) -> str:
    """A hash of all that a request asks for: column sets, noise, scores with their references, weights."""
    state = hashlib.sha256()
    _feed(state, request)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
    """Add a value to a hash, with its type, so that different values are different bytes."""
    if isinstance(value, np.ndarray):
        state.update(f"array {value.dtype.str} {value.shape} ".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _feed(state, (type(value).__name__, *(getattr(value, f.name) for f in dataclasses.fields(value))))
    elif isinstance(value, Mapping):
        _feed(state, ("mapping", *(item for pair in value.items() for item in pair)))
    elif isinstance(value, list | tuple):
        state.update(f"list {len(value)} ".encode())
        for item in value:
            _feed(state, item)
    elif value is None or isinstance(value, str | bool | int | float | Fraction | np.generic):
        text = repr(value.item() if isinstance(value, np.generic) else value).encode()
        state.update(f"{len(text)} ".encode() + text)
    else:
        raise TypeError(f"a request with a {type(value).__name__} cannot be recorded")


# Answers as JSON, exactly: arrays by their bytes, numbers by their shortest text.


def written(answer: Any) -> Any:
    """The plain JSON value of an answer of the door."""
    if isinstance(answer, NoisyMarginal):
        return {"marginal": [written(getattr(answer, field.name)) for field in dataclasses.fields(answer)]}
    if isinstance(answer, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(answer).tobytes()).decode()
        return {"array": [answer.dtype.str, list(answer.shape), data]}
    if isinstance(answer, dict):
        return {"dict": [[written(key), written(value)] for key, value in answer.items()]}
    if isinstance(answer, tuple):
        return {"tuple": [written(item) for item in answer]}
    if isinstance(answer, list):
        return [written(item) for item in answer]
    return answer.item() if isinstance(answer, np.generic) else answer


def restored(value: Any) -> Any:
    """The answer whose JSON value `written` gave."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        kind_, shape, data = content
        return np.frombuffer(base64.b64decode(data), dtype=np.dtype(kind_)).reshape(shape).copy()
    if kind == "marginal":
        return NoisyMarginal(*(restored(item) for item in content))
    if kind == "dict":
        return {restored(key): restored(item) for key, item in content}
    return tuple(restored(item) for item in content)


@dataclass(frozen=True, slots=True)
class Recording:
    """The releases of a door with this recorder, on the domain of the door.

    Attributes:
        released: the noisy marginals so far, in the order of release, those of coarsened tables included.
        residuals: noisy distances of marginals from public references, at most MAX_REFERENCE_CELLS cells of them.
    """

    released: list[NoisyMarginal] = field(default_factory=list[NoisyMarginal])
    residuals: list[NoisyResidual] = field(default_factory=list[NoisyResidual])

    def measured(self, measurements: Sequence[NoisyMarginal], /) -> None:
        self.released.extend(measurements)

    def scored(self, score: Score, values: NDArray[np.float64], stddev: float, /) -> None:
        if not isinstance(score, ResidualL1):
            return
        cells = sum(residual.reference.size for residual in self.residuals)
        for attrs, reference, value in zip(score.cliques, score.references, values, strict=True):
            cells += reference.size
            if cells <= MAX_REFERENCE_CELLS:
                self.residuals.append(NoisyResidual(attrs, np.rint(reference), float(value), stddev))

    def coarsened(self, domain: Domain, maps: Mapping[str, np.ndarray], /) -> Recorder:
        return _CoarseRecording(self, domain, maps)


@dataclass(frozen=True, slots=True)
class _CoarseRecording:
    """Passes what a coarsened table releases on to the finer table's recorder, as measurements of groups of cells."""

    finer: Recorder
    domain: Domain
    maps: Mapping[str, np.ndarray]

    def measured(self, measurements: Sequence[NoisyMarginal], /) -> None:
        self.finer.measured([on_finer_domain(measurement, self.maps, self.domain) for measurement in measurements])

    def scored(self, score: Score, values: NDArray[np.float64], stddev: float, /) -> None:
        """Drop the scores: error bars have no use for distances from references of coarser cells."""

    def coarsened(self, domain: Domain, maps: Mapping[str, np.ndarray], /) -> Recorder:
        return _CoarseRecording(self, domain, maps)
