"""The ledger never under-reports: not after a kill, a torn line, a second writer, or a hand that edits it."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lookalike.errors import BudgetError, BudgetExceededError, LedgerError
from lookalike.privacy.chain import digest
from lookalike.privacy.kernel.accounting import Budget, Charge, Neighbours
from lookalike.privacy.ledger import Ledger, Run, default_ledger_path

from ..fuzz.mutations import many


def open_run(ledger: Ledger, epsilon: float = 0.9, **more: Any) -> Run:
    budget = Budget(epsilon, 1e-5, "gdp")
    return ledger.begin(method="mst", schema="s", budget=budget, neighbours=Neighbours(), **more)


def head_of(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change lines and chain them anew, as an earlier version or a careful hand might have written them."""
    previous, lines = "", []
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        change(entry)
        entry["prev"] = previous
        previous = entry["hash"] = digest(entry)
        lines.append(json.dumps(entry) + "\n")
    path.write_text("".join(lines))
    head_of(path).write_text(f"{len(lines)} {previous}\n")


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


def test_a_cap_that_is_changed_holds_from_then_on(path: Path) -> None:
    """Plant: the first cap that was ever set holds for good."""
    ledger = Ledger(path, "t")
    ledger.set_cap(5.0)
    ledger.set_cap(1.5)
    assert (ledger.cap, Ledger(path, "t").cap) == (1.5, 1.5)
    budget = {"budget": Budget(2.0, 1e-5, "gdp"), "neighbours": Neighbours()}
    with pytest.raises(BudgetExceededError):
        ledger.begin(method="m", schema="s", **budget)
    ledger.set_cap(2.0)
    assert ledger.begin(method="m", schema="s", **budget).number == 1


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


@pytest.mark.parametrize("status", ["failed", "done", None])
@pytest.mark.parametrize("part", [Fraction(1, 10**6), Fraction(1, 4), Fraction(1)])
def test_a_run_counts_with_its_whole_epsilon_once_anything_was_charged(
    path: Path, status: str | None, part: Fraction
) -> None:
    """How much of the budget was used, and where a run stopped, may depend on noisy answers."""
    ledger = Ledger(path, "t")
    run = open_run(ledger, 1.0)
    assert ledger.spent() == (0.0, 0.0)
    run.charge(Charge("first", "gaussian", 1, Budget(1.0, 1e-5, "gdp").rho * part))
    if status:
        run.end(status)
    assert Ledger(path, "t").spent() == (1.0, 1e-5)


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
    spend(Ledger(path, "t"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    charge = next(i for i, line in enumerate(lines) if line["kind"] == "charge")
    lines[charge]["rho"] = "0"
    lines[charge]["hash"] = digest(lines[charge])
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
    head_of(path).unlink()
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


# Side files: of one ledger only, by its whole name.


def test_side_files_are_named_by_the_whole_name(tmp_path: Path) -> None:
    for name in ("runs-3.2-a", "runs-3.2-b", "runs-3", "runs.jsonl", "runs"):
        spend(Ledger(tmp_path / name, name))
    for name in ("runs-3.2-a", "runs-3.2-b", "runs-3", "runs.jsonl", "runs"):
        spend(Ledger(tmp_path / name, name))
        assert len(Ledger(tmp_path / name, name).runs()) == 2
        assert {path.name for path in tmp_path.glob(f"{name}*")} >= {name, f"{name}.head", f"{name}.lock"}


def test_swapped_heads_are_told_from_missing_lines(tmp_path: Path) -> None:
    first, second = tmp_path / "runs-3.2-a", tmp_path / "runs-3.2-b"
    spend(Ledger(first, "a"))
    for _ in range(3):
        spend(Ledger(second, "b"))
    heads = head_of(first).read_bytes(), head_of(second).read_bytes()
    head_of(first).write_bytes(heads[1])
    head_of(second).write_bytes(heads[0])
    for path, name in ((first, "a"), (second, "b")):
        with pytest.raises(LedgerError, match="belongs to another ledger") as refusal:
            Ledger(path, name).entries()
        assert "spent is unknown" not in str(refusal.value)
        assert "no sign that lines are missing" in str(refusal.value)


def to_old_names(path: Path) -> Path:
    """As an earlier version left it: the head at a name with the suffix replaced, without the first line's hash."""
    old = path.with_suffix(".head")
    old.write_text(" ".join(head_of(path).read_text().split()[:2]) + "\n")
    if old != head_of(path):
        head_of(path).unlink()
    return old


@pytest.mark.parametrize("name", ["runs-3.2-a", "t.jsonl", "plain"])
def test_a_ledger_of_an_earlier_version_goes_on(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    spend(Ledger(path, "t"))
    old = to_old_names(path)
    assert len(Ledger(path, "t").runs()) == 1
    spend(Ledger(path, "t"))
    assert len(Ledger(path, "t").runs()) == 2
    assert old == head_of(path) or not old.exists()
    assert len(head_of(path).read_text().split()) == 3


def test_a_cut_ledger_of_an_earlier_version_is_found(path: Path) -> None:
    spend(Ledger(path, "t"))
    to_old_names(path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(LedgerError, match=r"whether the ledger .* is complete is unknown"):
        Ledger(path, "t").entries()


def test_an_old_head_of_another_ledger_is_named_and_left_alone(tmp_path: Path) -> None:
    """Earlier versions kept one head for both: the second ledger starts anew, the first keeps its head."""
    first, second, short = tmp_path / "runs-3.2-a", tmp_path / "runs-3.2-b", tmp_path / "runs-3"
    spend(Ledger(first, "a"))
    old = to_old_names(first)
    kept = old.read_bytes()
    spend(Ledger(second, "b"))
    assert old.read_bytes() == kept
    with pytest.raises(LedgerError, match=r"belongs to the ledger runs-3\.2-a"):
        Ledger(short, "c").entries()
    head_of(second).unlink()
    with pytest.raises(LedgerError, match=r"belongs to runs-3\.2-a"):
        Ledger(second, "b").entries()
    assert len(Ledger(first, "a").runs()) == 1
    spend(Ledger(short, "c"))


@pytest.mark.parametrize("name", ["t.head", "t.lock", "t.head-new"])
def test_a_ledger_cannot_have_the_name_of_a_side_file(tmp_path: Path, name: str) -> None:
    spend(Ledger(tmp_path / "t", "t"))
    with pytest.raises(LedgerError, match="cannot be named"):
        Ledger(tmp_path / name, "u")
    with pytest.raises(LedgerError, match="is a folder"):
        Ledger(tmp_path, "u")


# Power loss.


@pytest.mark.parametrize("length", [0, 1, 10, -1])
def test_a_torn_head_locks_nobody_out_and_is_made_anew(path: Path, length: int) -> None:
    spend(Ledger(path, "t"))
    whole = head_of(path).read_bytes()
    head_of(path).write_bytes(whole[:length] if length else b"\0" * 70)
    assert len(Ledger(path, "t").runs()) == 1
    spend(Ledger(path, "t"))
    assert head_of(path).read_bytes().endswith(b"\n")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(LedgerError, match="lines are missing"):
        Ledger(path, "t").entries()


def test_power_lost_at_any_write_leaves_a_ledger_that_holds_what_was_acted_upon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files go back to what was last synced; every line whose charge returned is still there."""
    durable: dict[str, bytes] = {}
    real_fsync, real_replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        real_fsync(handle)
        name = os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))
        file = path.parent / name
        if file.is_file():
            durable[name] = file.read_bytes()

    def replaced(source: Path, target: Path) -> Path:
        assert source.read_bytes() == durable.get(source.name), "what takes a head's place is on disk before"
        durable[target.name] = durable.pop(source.name)
        return real_replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    ledger = Ledger(path, "t")
    run = open_run(ledger)
    for number in range(1, 4):
        run.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
        copy = path.parent / f"after-{number}"
        copy.mkdir()
        for name, content in durable.items():
            (copy / name).write_bytes(content)
        assert len(Ledger(copy / path.name, "t").runs()[0].charges) == number


def test_a_head_behind_the_ledger_is_fine(path: Path) -> None:
    ledger = Ledger(path, "t")
    run = open_run(ledger)
    before = head_of(path).read_bytes()
    run.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    head_of(path).write_bytes(before)
    assert len(Ledger(path, "t").runs()[0].charges) == 1


# Noise that is not secret.


@pytest.mark.parametrize("noise", ["reproducible", "none"])
def test_a_run_without_secret_noise_counts_as_infinite_and_stays_marked(path: Path, noise: str) -> None:
    ledger = Ledger(path, "t")
    run = open_run(ledger, noise=noise)
    assert ledger.spent() == (0.0, 0.0)
    run.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    run.end("done")
    spend(ledger)
    again = Ledger(path, "t")
    assert again.spent() == (math.inf, 2e-5)
    assert [(r.noise, r.private) for r in again.runs()] == [(noise, False), ("system entropy", True)]
    assert "infinite" in again._repr_html_()
    again.set_cap(100)
    with pytest.raises(BudgetExceededError, match="infinite of the cap of 100 is spent"):
        open_run(again, 0.1)


@pytest.mark.parametrize(("noise", "remedy"), [("reproducible", "insecure_rng"), ("none", "every release has noise")])
def test_a_cap_admits_no_run_without_secret_noise(path: Path, noise: str, remedy: str) -> None:
    ledger = Ledger(path, "t")
    open_before = open_run(ledger, noise=noise)
    ledger.set_cap(1000)
    with pytest.raises(BudgetExceededError, match=rf"NOT PRIVATE \(noise: {noise}\).*infinite.*{remedy}"):
        open_run(ledger, noise=noise)
    with pytest.raises(BudgetExceededError, match="NOT PRIVATE"):
        open_before.charge(Charge("a", "gaussian", 1, Fraction(1, 1000)))
    assert ledger.spent() == (0.0, 0.0)


def test_a_release_without_noise_is_refused_in_a_run_that_began_with_noise(path: Path) -> None:
    ledger = Ledger(path, "t")
    with pytest.raises(BudgetError, match="without noise in a run that began as one with noise"):
        open_run(ledger).charge(Charge("rows", "none", 1, Fraction(1, 1000)))
    open_run(ledger, noise="none").charge(Charge("rows", "none", 1, Fraction(1, 1000)))
    assert ledger.spent()[0] == math.inf


def test_a_ledger_that_does_not_say_where_noise_came_from_still_loads(path: Path) -> None:
    spend(Ledger(path, "t"))
    rewritten(path, lambda entry: (entry.pop("noise", None), "format" in entry and entry.update(format=1)))
    ledger = Ledger(path, "t")
    assert [(run.noise, run.private) for run in ledger.runs()] == [("not recorded", True)]
    spend(ledger)
    assert [run.noise for run in Ledger(path, "t").runs()] == ["not recorded", "system entropy"]


def test_a_ledger_of_a_later_version_is_refused(path: Path) -> None:
    spend(Ledger(path, "t"))
    rewritten(path, lambda entry: "format" in entry and entry.update(format=3))
    with pytest.raises(LedgerError, match="has format 3"):
        Ledger(path, "t").entries()


# Lines that are chained but make no sense end in one kind of error, and cost no memory.


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("charge", {"rho": "1e999999999"}),
        ("charge", {"rho": "1/0"}),
        ("charge", {"rho": "-1"}),
        ("charge", {"releases": None}),
        ("charge", {"run": "1"}),
        ("begin", {"epsilon": float("nan")}),
        ("begin", {"epsilon": -1.0}),
        ("begin", {"noise": 5}),
        ("begin", {"kind": "surprise"}),
        ("begin", {"kind": ["begin"]}),
        ("end", {"status": {}}),
        ("table", {"format": "2"}),
    ],
)
def test_senseless_lines_are_refused(path: Path, kind: str, change: dict[str, Any]) -> None:
    spend(Ledger(path, "t"))
    rewritten(path, lambda entry: entry["kind"] == kind and entry.update(change))
    with pytest.raises(LedgerError, match="fields are missing"):
        Ledger(path, "t").runs()


def test_nested_and_huge_files_are_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(LedgerError, match="Line 1 "):
        Ledger(path, "t").entries()
    with path.open("wb") as file:
        file.truncate(1 << 36)
    with pytest.raises(LedgerError, match="Is it a ledger"):
        Ledger(path, "t").entries()


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A few bytes replaced, cut out, doubled or put in."""
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(content) + 1), rng.choice([0, 1, 1, 5, 80])
        put = rng.choice([b"", bytes([rng.randrange(256)]), b"9" * 30, b"\n", b"[" * 3000, b"\xff\x00", content[:at]])
        content = content[:at] + put + content[at + length :]
    return content


def read_mutants(path: Path, number: int) -> None:
    spend(Ledger(path, "t"))
    files = {file: file.read_bytes() for file in (path, head_of(path))}
    rng = random.Random(7)
    for _ in range(number):
        for file, content in files.items():
            file.write_bytes(mutated(content, rng) if rng.random() < 0.7 else content)
        try:
            ledger = Ledger(path, "t")
            assert ledger.spent() in ((0.0, 0.0), (pytest.approx(0.9), 1e-5))
            ledger.cap, ledger._repr_html_()
        except LedgerError:
            pass


def test_mutated_ledgers_load_or_end_in_one_kind_of_error(path: Path) -> None:
    read_mutants(path, 300)


@pytest.mark.slow
def test_thousands_of_mutated_ledgers(path: Path) -> None:
    read_mutants(path, many())


CHILD = textwrap.dedent(
    """
    import sys
    from fractions import Fraction
    from pathlib import Path
    from lookalike.privacy.kernel.accounting import Budget
    from lookalike.privacy.kernel.accounting import Charge
    from lookalike.privacy.ledger import Ledger
    from lookalike.privacy.kernel.accounting import Neighbours
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


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    Ledger(str(tmp_path / "l.jsonl"), "t").set_cap(2.0)
    assert Ledger(tmp_path / "l.jsonl", "t").cap == 2.0
