"""Faults of machines and people leave a ledger that reports every release, nothing half-written, nobody locked out."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.trust import faults
from lookalike.errors import LedgerError, LookalikeError
from lookalike.privacy import chain
from lookalike.privacy.chain import Chain
from lookalike.privacy.ledger import Ledger


def test_killed_at_random_moments_nothing_is_under_reported(tmp_path: Path) -> None:
    found = faults.kills(12, tmp_path, random.Random(0))
    assert found["releases_seen"] > 0
    assert found["runs_in_ledger"] >= found["releases_seen"]
    assert [found[name] for name in faults.FAULTS] == [0, 0]


def test_a_release_that_the_ledger_does_not_know_is_noticed(tmp_path: Path) -> None:
    assert faults.faults_left(tmp_path / "ledger", tmp_path / "out.csv", 1) == ["under_reported"]


def test_a_half_written_output_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("a,b\n1,1\n0,")
    assert faults.faults_left(tmp_path / "ledger", tmp_path / "out.csv", 0) == ["half_written"]


# A full disk.


def test_a_disk_that_is_full_at_some_operation_loses_no_charge(tmp_path: Path) -> None:
    """Every fifth operation of a run; all of them in the slow tests."""
    found: list[str] = []
    for at in range(1, 50, 5):
        place = tmp_path / str(at)
        place.mkdir()
        found.extend(faults._run_on(faults.FullDisk(place, at, half=at % 2 == 0)))
    assert found == []


def test_every_output_is_whole_or_absent_on_a_disk_that_is_too_small(tmp_path: Path) -> None:
    tried, wrong = faults.small_disks(tmp_path, steps=3)
    assert tried > 30
    assert wrong == 0


def test_an_output_that_is_written_in_place_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "outputs_of", lambda *_: {"out.txt": lambda path: path.write_bytes(b"x" * 9999)})
    tried, wrong = faults.small_disks(tmp_path, steps=3)
    assert wrong == tried > 2


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_operation_loses_no_charge(tmp_path: Path) -> None:
    found = faults.full_disk(tmp_path)
    assert found["operations"] > 30
    assert found["sizes_of_outputs"] > 50
    assert [found[name] for name in ("under_reported", "locked_out", "other_errors", "half_written")] == [0] * 4


def test_a_charge_that_is_not_written_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Chain.append
    monkeypatch.setattr(Chain, "append", lambda self, body: 0 if body["kind"] == "charge" else real(self, body))
    assert "under_reported" in list(faults._run_on(faults.FullDisk(tmp_path, 0)))


def test_a_journal_that_cannot_be_written_refuses_the_run_before_it_spends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def full(handle: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(".answers"):
            raise OSError(28, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LedgerError, match="Nothing was spent"):
        faults.one_run(Ledger(tmp_path / "l.jsonl", "t"))
    assert Ledger(tmp_path / "l.jsonl", "t").spent() == (0.0, 0.0)
    assert not list(tmp_path.glob("*.answers"))


# Power.


def test_a_new_folder_of_a_ledger_is_on_disk_before_the_first_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    ledger = Ledger(tmp_path / "new" / "deep" / "l.jsonl", "t")
    ledger.set_cap(3)
    folders = [str(tmp_path / part) for part in ("new/deep", "new", "")]
    assert {folder.rstrip("/") for folder in folders} <= set(synced)


# A clock that goes backwards.


def test_a_clock_that_goes_backwards_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(datetime):
        calls = 0

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            cls.calls += 1
            return datetime(2030, 1, 1) - timedelta(days=cls.calls)

    monkeypatch.setattr(chain, "datetime", Backwards)
    ledger = tmp_path / "l.jsonl"
    for _ in range(3):
        faults.one_run(Ledger(ledger, "t"))
    runs = Ledger(ledger, "t").runs()
    assert [run.status for run in runs] == ["done"] * 3
    assert sum(run.epsilon_counted for run in runs) == pytest.approx(3 * faults.EPSILON)
    times = [entry["time"] for entry in Ledger(ledger, "t").entries()]
    assert times == sorted(times, reverse=True)
    assert Backwards.calls > 5


# A ledger that may be read, not written.


def as_ordinary_user(act: object) -> str:
    """What a function returns in a child without the rights of root; its error's message if it raises one of ours."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            said = str(act())  # pyright: ignore[reportCallIssue]
        except LookalikeError as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001 - a child must not go on as its parent
            said = f"unexpected {error!r}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with one run in a folder that everybody may read and nobody may write."""
    folder = tmp_path_factory.mktemp("shared")
    faults.one_run(Ledger(folder / "l.jsonl", "t"))
    for path in (folder, *folder.parents):
        if path == Path(path.anchor) or path.stat().st_mode & 0o005 == 0o005:
            break
        path.chmod(path.stat().st_mode | 0o055)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    return folder / "l.jsonl"


@pytest.mark.parametrize("lock", ["readable", "unreadable", "missing"])
def test_who_may_only_read_a_ledger_sees_what_was_spent(shared: Path, lock: str) -> None:
    place = shared.with_name("l.jsonl.lock")
    if lock == "unreadable":
        place.chmod(0)
    elif lock == "missing":
        shared.parent.chmod(0o755)
        place.unlink()
        shared.parent.chmod(0o555)
    assert as_ordinary_user(lambda: Ledger(shared, "t").spent()[0]) == str(faults.EPSILON)


def test_who_may_only_read_a_ledger_cannot_run(shared: Path) -> None:
    before = shared.read_bytes()
    said = as_ordinary_user(lambda: faults.one_run(Ledger(shared, "t")))
    assert said.startswith("LedgerError: Cannot write the ledger")
    assert "Permission denied" in said
    assert shared.read_bytes() == before


def test_who_may_not_even_read_a_ledger_is_told_so(shared: Path) -> None:
    shared.chmod(0)
    said = as_ordinary_user(lambda: Ledger(shared, "t").spent())
    assert said.startswith("LedgerError: Cannot read the ledger's file")


# Ctrl-C.


@pytest.mark.slow
def test_interrupted_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path))  # undone after the test, whatever it is set to
    found = faults.interrupts(6, tmp_path, random.Random(2))
    assert set(found["exit_codes"]) <= {"0", "130"}
    assert [found[name] for name in ("not_finished", "tracebacks", "half_written", "ledgers_lost")] == [0] * 4
