"""The ledger never under-reports: not after a kill, a torn line, a second writer, or a hand that edits it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import pytest

from lookalike.errors import BudgetError, BudgetExceededError, LedgerError
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import Charge, Ledger, default_ledger_path
from lookalike.privacy.neighbours import Neighbours


def open_run(ledger: Ledger, epsilon: float = 0.9):
    return ledger.begin(method="mst", schema="s", budget=Budget(epsilon, 1e-5, "gdp"), neighbours=Neighbours())


def spend(ledger: Ledger, epsilon: float = 0.9, status: str | None = "done") -> None:
    run = open_run(ledger, epsilon)
    run.charge(Charge("all", "gaussian", 1, Budget(epsilon, 1e-5, "gdp").rho))
    if status:
        run.end(status)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "book" / "t.jsonl"


def test_runs_and_charges_come_back_after_reopening(path: Path) -> None:
    spend(Ledger(path, "t"))
    (run,) = Ledger(path, "t").runs()
    assert run.status == "done"
    assert run.rho == Budget(0.9, 1e-5, "gdp").rho
    assert run.epsilon_counted == pytest.approx(0.9, rel=1e-9)
    assert Ledger(path, "t").spent() == (pytest.approx(0.9), 1e-5)


def test_third_run_past_the_cap_is_refused_with_what_is_left(path: Path) -> None:
    ledger = Ledger(path, "t")
    ledger.set_cap(2)
    spend(ledger)
    spend(ledger)
    with pytest.raises(BudgetExceededError, match=r"0\.2 is left") as refusal:
        open_run(Ledger(path, "t"))
    assert refusal.value.remaining == pytest.approx(0.2)
    assert len(ledger.runs()) == 2


def test_decimal_caps_are_met_exactly(path: Path) -> None:
    ledger = Ledger(path, "t")
    ledger.set_cap(0.3)
    for _ in range(3):
        spend(ledger, 0.1)
    with pytest.raises(BudgetExceededError):
        open_run(ledger, 0.001)


def test_a_run_without_charges_costs_nothing(path: Path) -> None:
    ledger = Ledger(path, "t")
    open_run(ledger).end("failed")
    open_run(ledger)
    assert ledger.spent() == (0.0, 0.0)


def test_a_partial_run_counts_what_it_was_charged_once_it_ends(path: Path) -> None:
    ledger = Ledger(path, "t")
    run = open_run(ledger, 1.0)
    run.charge(Charge("first", "gaussian", 1, Budget(1.0, 1e-5, "gdp").rho / 4))
    assert ledger.spent()[0] == 1.0  # unfinished: counted in full
    run.end("failed")
    assert 0.4 < ledger.spent()[0] < 0.5


def test_two_open_runs_cannot_both_pass_the_cap(path: Path) -> None:
    ledger = Ledger(path, "t")
    ledger.set_cap(1)
    first, second = open_run(ledger), open_run(ledger)
    first.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    with pytest.raises(BudgetExceededError):
        second.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf")])
def test_senseless_caps_are_refused(path: Path, epsilon: float) -> None:
    with pytest.raises(BudgetError):
        Ledger(path, "t").set_cap(epsilon)


def test_every_changed_line_is_found(path: Path) -> None:
    spend(Ledger(path, "t"))
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines):
        entry = json.loads(line)
        entry["rho" if entry["kind"] == "charge" else "time"] = "0"
        path.write_text("\n".join([*lines[:index], json.dumps(entry), *lines[index + 1 :]]) + "\n")
        with pytest.raises(LedgerError, match=f"Line {index + 1} "):
            Ledger(path, "t").entries()


def test_a_line_rehashed_by_hand_breaks_the_link_to_the_next(path: Path) -> None:
    from lookalike.privacy import ledger as module

    spend(Ledger(path, "t"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    charge = next(i for i, line in enumerate(lines) if line["kind"] == "charge")
    lines[charge]["rho"] = "0"
    lines[charge]["hash"] = module._digest(lines[charge])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(LedgerError, match=f"Line {charge + 2} "):
        Ledger(path, "t").entries()


def test_every_lost_end_is_found(path: Path) -> None:
    spend(Ledger(path, "t"))
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(LedgerError):
            Ledger(path, "t").entries()


def test_a_lost_side_file_is_found(path: Path) -> None:
    spend(Ledger(path, "t"))
    path.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match="missing"):
        Ledger(path, "t").entries()


def test_a_torn_last_line_is_dropped_and_written_over(path: Path) -> None:
    spend(Ledger(path, "t"))
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"n":4,"kind":"charge","rho"')
    assert len(Ledger(path, "t").runs()) == 1
    spend(Ledger(path, "t"))
    assert path.read_bytes().startswith(before)
    assert len(Ledger(path, "t").runs()) == 2


def test_another_tables_ledger_is_refused(path: Path) -> None:
    spend(Ledger(path, "t"))
    with pytest.raises(LedgerError, match="belongs to"):
        Ledger(path, "u").entries()


def test_binary_rubbish_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\x00\xff\x00\n" * 3)
    with pytest.raises(LedgerError, match="Line 1 "):
        Ledger(path, "t").entries()


def test_a_full_disk_refuses_the_charge_and_leaves_the_ledger_sound(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path, "t")
    run = open_run(ledger)
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    with pytest.raises(LedgerError, match="No space left"):
        run.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    monkeypatch.undo()
    assert Ledger(path, "t").spent() == (0.0, 0.0)
    run.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    assert len(Ledger(path, "t").runs()[0].charges) == 1


CHILD = textwrap.dedent(
    """
    import sys
    from fractions import Fraction
    from pathlib import Path
    from lookalike.privacy.budget import Budget
    from lookalike.privacy.ledger import Charge, Ledger
    from lookalike.privacy.neighbours import Neighbours
    ledger = Ledger(Path(sys.argv[1]), "t")
    run = ledger.begin(method="m", schema="s", budget=Budget(1.0, 1e-5, "gdp"), neighbours=Neighbours())
    for number in range(int(sys.argv[2])):
        run.charge(Charge("a", "gaussian", 1, Fraction(1, 2**20)))
        sys.stdout.write("x")  # stands for the noise: it exists only after the charge is on disk
        sys.stdout.flush()
    """
)


def test_killed_at_any_point_it_reports_at_least_what_was_released(path: Path) -> None:
    for delay in (0, 7, 31):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), "100000"], stdout=subprocess.PIPE)
        assert child.stdout is not None
        released = len(child.stdout.read(1 + delay))
        child.send_signal(signal.SIGKILL)
        released += len(child.stdout.read())
        child.stdout.close()
        child.wait()
        run = Ledger(path, "t").runs()[-1]
        assert run.status == "unfinished"
        assert released <= len(run.charges) <= released + 1
        assert run.epsilon_counted == 1.0


def test_concurrent_writers_lose_no_line(path: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(path), "40"], stdout=subprocess.DEVNULL) for _ in range(3)
    ]
    assert [child.wait() for child in children] == [0, 0, 0]
    runs = Ledger(path, "t").runs()
    assert [len(run.charges) for run in runs] == [40, 40, 40]


def test_default_place_depends_on_the_whole_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path))
    first, second = default_ledger_path("/a/t.csv"), default_ledger_path("/b/t.csv")
    assert first != second
    assert first.parent == tmp_path
