"""A locked, hash-chained file of JSON lines, synced to disk line by line: changed and missing lines are found.

Each line carries the hash of the line before it. A small side file, the head, names the number of lines, the hash of
the newest and that of the first. Side files are named after the whole ledger: `runs-3.2` has `runs-3.2.head`,
`runs-3.2.lock` and, for a moment, `runs-3.2.head-new`.

A line is written and synced to disk first, and the head after it: a complete new file is synced, takes the old one's
place, and the folder is synced. So at whatever point the power fails, the ledger holds every line that was acted upon,
and the head is at most one line behind. A line half-written then was never acted upon and is dropped.

Found, and refused: a changed, inserted, removed or reordered line; a missing end, up to the line that the head names; a
missing head; a head of another ledger, which the hash of the first line distinguishes from a missing end.
Accepted: a ledger that is longer than its head says; a head without its final newline, such as an empty one. No write
of ours leaves such a head, but a disk without power may, and the ledger was on disk before it. The next line makes a
new head. Not found: a ledger and head that were both put back to an earlier state, or a ledger that was cut and its
head emptied. The chain has no key; it guards against accidents, not against a person who may write to the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lookalike.errors import LedgerError
from lookalike.guards import MAX_LEDGER_BYTES

Entry = dict[str, Any]

HEAD, NEW_HEAD, LOCK = ".head", ".head-new", ".lock"


@dataclass(frozen=True, slots=True)
class Head:
    """The content of the side file: the number of lines, the hash of the newest, and that of the first.

    Heads of earlier versions do not name the first line.
    """

    count: int
    newest: str
    first: str | None

    def reached_by(self, entries: list[Entry]) -> bool:
        """Whether the lines contain the one that the head calls the newest. Its hash covers all lines before it."""
        return 0 < self.count <= len(entries) and entries[self.count - 1]["hash"] == self.newest


class Chain:
    """The lines of one file; with `path=None` they are kept in memory.

    Args:
        path: the ledger's file; it need not exist.
        check: whether a line, already found to be chained, has all that its kind needs.
    """

    def __init__(self, path: Path | None, check: Callable[[Entry], bool]) -> None:
        if path is not None and path.is_dir():
            raise LedgerError(f"The ledger {path} is a folder; name a file in it with --ledger.")
        if path is not None and path.name.endswith((HEAD, NEW_HEAD, LOCK)):
            raise LedgerError(
                f"A ledger cannot be named {path.name}: names that end in {HEAD}, {NEW_HEAD} or {LOCK} are those of "
                "side files of other ledgers. Choose another name with --ledger."
            )
        self.path = path
        self._check = check
        self._known: list[Entry] = []
        self._known_bytes = 0

    @contextmanager
    def locked(self, *, reading: bool = False) -> Generator[None]:
        """Keep other processes from reading and writing while the lock is held.

        With `reading`, a ledger that this user may not write is locked as far as its files allow: a reader without a
        lock sees all lines that were acted upon before, and refuses what it sees half-replaced.
        """
        if self.path is None:
            yield
            return
        try:
            _make_folder(self.path.parent)
            lock, kind = os.open(_beside(self.path, LOCK), os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX
        except OSError as error:
            if not reading or not self.path.exists():
                raise _unwritable(self.path, error) from error
            lock, kind = _lock_of_another(self.path), fcntl.LOCK_SH
        try:
            if lock is not None:
                fcntl.flock(lock, kind)
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def read(self) -> list[Entry]:
        """All lines; those that this process has checked before are not hashed again. Call it while locked."""
        if self.path is None:
            return self._known
        text = _bytes_of(self.path)
        if len(text) < self._known_bytes:
            self._known, self._known_bytes = [], 0
        complete = text.rfind(b"\n") + 1  # what follows was never completed, hence never acted upon
        for line in text[self._known_bytes : complete].splitlines():
            self._known.append(self._verified(line, self.path))
        self._known_bytes = complete
        self._check_end(self.path)
        return self._known

    def append(self, body: Entry) -> int:
        """Write one more line, with the hash of the one before it, and return its number. Call it after `read`."""
        number, previous = len(self._known), self._known[-1]["hash"] if self._known else ""
        entry: Entry = {"n": number, "time": datetime.now(UTC).isoformat(timespec="seconds"), **body, "prev": previous}
        entry["hash"] = digest(entry)
        if self.path is not None:
            line = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode() + b"\n"
            first = self._known[0]["hash"] if self._known else entry["hash"]
            try:
                _append_line(self.path, self._known_bytes, line)
                _replace_head(self.path, f"{number + 1} {entry['hash']} {first}\n".encode())
            except OSError as error:
                raise _unwritable(self.path, error) from error
            self._known_bytes += len(line)
        self._known.append(entry)
        return number

    def _verified(self, line: bytes, path: Path) -> Entry:
        """The line as an entry, after its number, its hash, its link to the line before and its fields are checked."""
        number = len(self._known)
        try:
            entry: Entry = json.loads(line)
            intact = entry["n"] == number and entry["hash"] == digest(entry)
            chained = entry["prev"] == (self._known[-1]["hash"] if self._known else "")
            if intact and chained and self._check(entry):
                return entry
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise LedgerError(
            f"Line {number + 1} of the ledger {path} was changed or damaged: its hash does not fit, or fields are "
            "missing. What was spent is unknown; restore the file from a backup."
        )

    def _check_end(self, path: Path) -> None:
        """Refuse a ledger that is shorter than its head says. It may be longer: the head is written second."""
        _adopt_old_head(path, self._known)
        place = _beside(path, HEAD)
        if not place.exists():
            if len(self._known) > 1:
                raise LedgerError(_missing_head(path, place))
            return
        text = _bytes_of(place)
        if not text.endswith(b"\n"):
            return
        head = _head(text)
        if head is not None and head.reached_by(self._known):
            return
        if head is not None and head.first and self._known and head.first != self._known[0]["hash"]:
            raise LedgerError(
                f"The side file {place} belongs to another ledger: it names another first line than {path} has. That "
                f"is no sign that lines are missing. Put the {place.name} of this ledger back, and the other one too."
            )
        owner = _old_owner(place, head, path)
        if owner is not None:
            raise LedgerError(
                f"The side file {place} belongs to the ledger {owner}: earlier versions of lookalike named it so. "
                f"Run 'lookalike ledger TABLE --ledger {owner}' once, which renames it, or name another ledger."
            )
        raise LedgerError(
            f"The ledger {path} ends before the line that {place.name} names: lines are missing, or one of the two "
            "files was changed. What was spent is unknown; restore both from a backup."
        )


def digest(entry: Entry) -> str:
    """The hash of a line: of all its fields but the hash itself."""
    body = {key: value for key, value in entry.items() if key != "hash"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _beside(path: Path, suffix: str) -> Path:
    """A side file of the ledger: the suffix is added to the whole name and replaces nothing of it."""
    return path.with_name(path.name + suffix)


# Reading.


def _bytes_of(path: Path) -> bytes:
    try:
        if not path.exists():
            return b""
        if path.stat().st_size > MAX_LEDGER_BYTES:
            raise LedgerError(
                f"{path} has {path.stat().st_size:,} bytes; a ledger has {MAX_LEDGER_BYTES:,} at most. Is it a "
                "ledger? Name another file with --ledger."
            )
        return path.read_bytes()
    except OSError as error:
        raise LedgerError(f"Cannot read the ledger's file {path}: {error.strerror}. Check its permissions.") from error


def _head(text: bytes) -> Head | None:
    """The head in a text, or None where the text is not a head."""
    words = text.decode("ascii", "replace").split()
    if len(words) not in (2, 3) or not (words[0].isdecimal() and len(words[0]) < 16):
        return None
    return Head(int(words[0]), words[1], words[2] if len(words) == 3 else None)


def _missing_head(path: Path, place: Path) -> str:
    old = path.with_suffix(HEAD)
    message = f"{place} is missing, so whether the ledger {path} is complete is unknown."
    if old.exists():
        owner = _old_owner(old, _head(_bytes_of(old)), path)
        message += f" The file {old} " + (f"belongs to {owner}." if owner else "does not belong to it.")
    return f"{message} Restore both from a backup."


# Heads of earlier versions: 'runs-3.2-a' and 'runs-3.2-b' both kept 'runs-3.head', without the hash of the first line.


def _adopt_old_head(path: Path, entries: list[Entry]) -> None:
    """Rename the head that an earlier version kept, if there is one and it is this ledger's."""
    old, new = path.with_suffix(HEAD), _beside(path, HEAD)
    if new.exists() or not old.exists():
        return
    head = _head(_bytes_of(old))
    if head is not None and head.reached_by(entries):
        try:
            old.replace(new)
        except OSError as error:
            raise _unwritable(path, error) from error


def _old_owner(place: Path, head: Head | None, path: Path) -> str | None:
    """The ledger in the same folder that the head of an earlier version belongs to, if it is another one."""
    if head is None:
        return None
    newest = f'"hash":"{head.newest}"'.encode()
    for other in sorted(place.parent.iterdir()):
        alike = other.with_suffix(HEAD) == place and other.name != path.name and not other.name.endswith((HEAD, LOCK))
        if alike and other.is_file() and other.stat().st_size <= MAX_LEDGER_BYTES and newest in other.read_bytes():
            return other.name
    return None


# Writing.


def _append_line(path: Path, complete: int, line: bytes) -> None:
    """Write the line after the complete ones, in place of one that was never completed, and sync it to disk."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size < complete or b"\n" in os.pread(handle, size - complete, complete):
            raise LedgerError(f"The ledger {path} was changed by another program while it was locked. Run again.")
        os.ftruncate(handle, complete)
        os.lseek(handle, complete, os.SEEK_SET)
        try:
            _write_all(handle, line)
        except OSError:
            os.ftruncate(handle, complete)
            raise
    finally:
        os.close(handle)


def _replace_head(path: Path, text: bytes) -> None:
    """Replace the head at once, never by a part of it, and sync both files' names to disk."""
    place, temporary = _beside(path, HEAD), _beside(path, NEW_HEAD)
    handle = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        _write_all(handle, text)
    finally:
        os.close(handle)
    temporary.replace(place)
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    """Sync the names of a folder's files to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_folder(folder: Path) -> None:
    """Make the folder of a ledger, with its name on disk: without it a power loss would take the ledger along."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync_names(made.parent)


def _lock_of_another(path: Path) -> int | None:
    """The lock file of a ledger that this user may only read, if it may be read too."""
    try:
        return os.open(_beside(path, LOCK), os.O_RDONLY)
    except OSError:
        return None


def _write_all(handle: int, data: bytes) -> None:
    if os.write(handle, data) != len(data):
        raise OSError(28, "No space left on device")
    os.fsync(handle)


def _unwritable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"Cannot write the ledger {path}: {error.strerror}. Nothing is released without it; free some space, correct "
        "its permissions, or name another file with --ledger."
    )
