"""Interrupted runs go on: wherever a run stops, nothing is charged twice and no charge has two answers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lookalike as la
from lookalike.errors import InputError, LedgerError, RunStoppedError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy import journal as journals
from lookalike.privacy.journal import Journal, journal_path, request_hash, restored, written
from lookalike.privacy.kernel import door
from lookalike.privacy.kernel.accounting import Budget, Charge, Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.run import NO_NOISE, SYSTEM_ENTROPY, Run
from lookalike.privacy.scores import ResidualL1
from lookalike.release import FittedModel
from lookalike.resuming import interrupted, reopen, resume
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.schema import Schema

SIZES = {"a": 3, "b": 3, "c": 4}


class Killed(BaseException):
    """Ends a run at once, as a signal would, without any of its clean-up on disk."""


def killed(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 3, 300)
    rows = np.column_stack([a, (a + (rng.random(300) < 0.3)) % 3, rng.integers(0, 4, 300)])
    path = tmp_path / "t.csv"
    np.savetxt(path, rows, fmt="%d", delimiter=",", header="a,b,c", comments="")
    return path


def begin(table: Path, ledger: Path, **more: Any) -> la.Release:
    arguments = {"schema": SIZES, "epsilon": 2.0, "method": "mst", "seed": 3, **more}
    return la.synthesize(table, ledger=ledger, **arguments)


class Interruptions:
    """Counts the events of a run, and ends it before or after one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.stop_at = 0, -1
        self.draws: list[bytes] = []
        for where, name in ((Ledger, "append_to_run"), (Journal, "_append")):
            monkeypatch.setattr(where, name, self._around(getattr(where, name)))

    def _event(self) -> None:
        if self.seen == self.stop_at:
            raise Killed
        self.seen += 1

    def _around(self, real: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            if self.seen > self.stop_at >= 0:
                return real(*arguments)  # what the dying process still tries is not an event
            self._event()
            found = real(*arguments)
            self._event()
            return found

        return counted


def without_ends(ledger: Path) -> None:
    """A killed process writes no `end`; ours did while it unwound. Forget the line, as if it had not been written."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    kept = [line for line in lines if line["kind"] != "end"]
    ledger.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
    head = Path(f"{ledger}.head")
    head.write_text(f"{len(kept)} {kept[-1]['hash']} {kept[0]['hash']}\n")


def charges(ledger: Path) -> list[tuple[int, str, str]]:
    """Run, step and price of every charge in the file."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    return [(line["run"], line["step"], line["rho"]) for line in lines if line["kind"] == "charge"]


@pytest.mark.parametrize("method", ["mst", "aim"])
def test_a_run_that_stops_anywhere_is_finished_at_the_price_of_one(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    settings = {"rounds": 2} if method == "aim" else {}
    whole = begin(table, tmp_path / "whole.jsonl", method=method, **settings)
    expected = [charge.step for charge in whole.spent.charges]
    stopped = 0
    for place in range(200):
        ledger = tmp_path / f"{place}.jsonl"
        with monkeypatch.context() as patched:
            watch = Interruptions(patched)
            watch.stop_at = place
            try:
                begin(table, ledger, method=method, **settings)
                break
            except Killed:
                stopped += 1
        if ledger.exists() and len(ledger.read_text().splitlines()) > 2:
            without_ends(ledger)
        if not journal_path(ledger, 1).stat().st_size:
            assert charges(ledger) == []
            with pytest.raises(LedgerError, match="before it had spent"):
                resume(table, ledger=ledger)
            assert interrupted(table, ledger=ledger) == {}
            continue
        release = resume(table, ledger=ledger)
        assert [charge.step for charge in release.spent.charges] == expected
        if method == "mst":
            assert [charge.rho for charge in release.spent.charges] == [charge.rho for charge in whole.spent.charges]
        assert len(charges(ledger)) == len(expected)
        assert release.spent.epsilon_spent <= 2.0
        assert Ledger(ledger, str(table.resolve())).runs()[0].status == "done"
        assert interrupted(table, ledger=ledger) == {}
    assert stopped > 2 * len(expected)


def recorded_draws(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every noisy marginal that the door draws from now on, as a hash."""
    drawn: list[str] = []
    real = door.noisy_counts

    def spied(*arguments: Any) -> NoisyMarginal:
        found = real(*arguments)
        drawn.append(request_hash((found.values,)))
        return found

    monkeypatch.setattr(door, "noisy_counts", spied)
    return drawn


def test_answers_that_were_kept_are_not_drawn_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.jsonl"
    drawn = recorded_draws(monkeypatch)
    with monkeypatch.context() as patched:
        watch = Interruptions(patched)
        watch.stop_at = 8  # begin, header, charge and answer of the columns are complete: two events each
        with pytest.raises(Killed):
            begin(table, ledger)
    first = list(drawn)
    assert len(first) == 3
    kept = Journal.resume(journal_path(ledger, 1), Ledger(ledger, str(table.resolve())).entries()[1]["hash"])
    answers = [restored(answer.answer) for answer in kept.answers]
    kept.close()
    release = resume(table, ledger=ledger)
    assert [request_hash((m.values,)) for m in answers[0]] == first
    used = [request_hash((m.values,)) for m in release.fitted.measurements]
    assert used[:3] == first
    assert drawn[:3] == first
    assert not set(drawn[3:]) & set(first)


def test_two_continuations_share_every_answer(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A continuation that is interrupted itself, and the next, see the same numbers wherever both see any."""
    ledger, seen = tmp_path / "l.jsonl", []
    for place in (8, 12, 30):
        with monkeypatch.context() as patched:
            drawn: list[tuple[int, str]] = []
            real = Journal.kept

            def spied(self: Journal, at: int, *rest: Any, into: Any = drawn, real: Any = real) -> Any:
                found = real(self, at, *rest)
                if found is not None:
                    into.append((at, json.dumps(written(found))))
                return found

            patched.setattr(Journal, "kept", spied)
            watch = Interruptions(patched)
            watch.stop_at = place if not seen else place - 8
            with suppress(Killed):
                resume(table, ledger=ledger) if seen else begin(table, ledger)
            seen.append(dict(drawn))
    assert seen[0] == {}
    assert len(seen[1]) >= 1
    for earlier, later in pairwise(seen):
        assert earlier.items() <= later.items()


def test_a_journal_holds_noisy_answers_and_public_facts_only(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the noise taken from one and the same stream, neighbouring tables leave journals that differ in counts."""
    ledger = tmp_path / "l.jsonl"
    with monkeypatch.context() as patched:
        watch = Interruptions(patched)
        watch.stop_at = 12
        with pytest.raises(Killed):
            begin(table, ledger)
    lines = [json.loads(line) for line in journal_path(ledger, 1).read_text().splitlines()]
    assert set(lines[0]) == {
        "format", "ledger", "run", "table", "schema", "epsilon", "delta", "method", "settings", "neighbours",
        "discovery", "making", "prev", "hash",
    }  # fmt: skip
    assert all(set(line) == {"charge", "request", "answer", "prev", "hash"} for line in lines[1:])
    assert journal_path(ledger, 1).stat().st_mode & 0o077 == 0


def stopped_run(table: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch, place: int = 8, **more: Any) -> None:
    with monkeypatch.context() as patched:
        watch = Interruptions(patched)
        watch.stop_at = place
        with pytest.raises(Killed):
            begin(table, ledger, **more)


def test_what_differs_is_refused_and_costs_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.jsonl"
    stopped_run(table, ledger, monkeypatch)
    before = charges(ledger)
    path = journal_path(ledger, 1)
    text = path.read_bytes()

    def refused(match: str, to: Path = ledger) -> None:
        with pytest.raises((LedgerError, InputError), match=match):
            resume(table, ledger=to)
        assert charges(ledger) == before

    lines = text.splitlines(keepends=True)
    path.write_bytes(text.replace(b'"epsilon":2.0', b'"epsilon":1.0'))
    refused("changed or damaged")
    path.write_bytes(lines[0] + lines[1][:-30] + b"\n")
    refused("changed or damaged")
    path.write_bytes(text)
    stamp = table.stat().st_mtime_ns
    os.utime(table, ns=(stamp, stamp + 10**9))
    refused("changed after run 1 began")
    os.utime(table, ns=(stamp, stamp))
    other = tmp_path / "other.jsonl"
    stopped_run(table, other, monkeypatch, delta=1e-6)
    journal_path(other, 1).write_bytes(text)
    with pytest.raises(LedgerError, match="does not belong"):
        resume(table, ledger=other)
    held = reopen(table, 1, ledger=ledger)
    refused("still running")
    held.account.journal.close()
    assert resume(table, ledger=ledger).spent.private


def with_header(path: Path, begun: str, **changes: Any) -> None:
    """Change the first line of a journal and chain all lines anew, as somebody could who wants to."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0].update(changes)
    newest, text = begun, ""
    for line in lines:
        line["prev"] = newest
        line["hash"] = newest = journals.digest(line)
        text += json.dumps(line) + "\n"
    path.write_text(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "independent", "settings": {}}, "another method"),
        ({"epsilon": 1.0}, "another epsilon"),
        ({"delta": 1e-6}, "another delta"),
        ({"neighbours": {"relation": "replace", "max_rows_per_person": 1}}, "another neighbours"),
        ({"settings": {"oneway_share": 0.3}}, "asks for something other"),
        ({"schema": {"fields": [{"name": "a", "type": "any"}]}}, "another schema|threshold_delta"),
    ],
)
def test_a_journal_that_tells_of_another_run_is_refused(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    ledger = tmp_path / "l.jsonl"
    stopped_run(table, ledger, monkeypatch)
    before = charges(ledger)
    begun = Ledger(ledger, str(table.resolve())).entries()[1]["hash"]
    with_header(journal_path(ledger, 1), begun, **changes)
    with pytest.raises(LedgerError, match=message):
        resume(table, ledger=ledger)
    assert charges(ledger) == before


def test_answers_cut_off_the_journal_cannot_be_drawn_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer may be missing, that of the last charge, which nobody saw; two may not."""
    ledger = tmp_path / "l.jsonl"
    stopped_run(table, ledger, monkeypatch, 12)
    path = journal_path(ledger, 1)
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(LedgerError, match="0 answers to 3 charges"):
        resume(table, ledger=ledger)


def test_a_copied_journal_does_not_let_a_finished_run_go_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy lacks the answer to the last charge alone, which an interruption might have lost; but the run ended."""
    ledger = tmp_path / "l.jsonl"
    path, copies = journal_path(ledger, 1), list[bytes]()
    with monkeypatch.context() as patched:
        real = Journal._append

        def copied(self: Journal, body: dict[str, Any]) -> None:
            copies.append(path.read_bytes())
            real(self, body)

        patched.setattr(Journal, "_append", copied)
        begin(table, ledger)
    before = charges(ledger)
    assert copies[-1].count(b"\n") == len(before)  # the header, and all answers but the last
    drawn = recorded_draws(monkeypatch)
    path.write_bytes(copies[-1])
    with pytest.raises(LedgerError, match="no run is continued twice"):
        resume(table, ledger=ledger)
    assert charges(ledger) == before
    assert drawn == []


@pytest.mark.parametrize("place", [6, 9, 13])
def test_a_run_with_persons_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Which rows of a person are kept is chosen anew for the rest of the run; nobody ever has more than two."""
    path, ledger = tmp_path / "p.csv", tmp_path / "l.jsonl"
    rng = np.random.default_rng(1)
    rows = [f"{person},{'ab'[person % 2]},{visit % 3}" for person in range(80) for visit in range(1 + person % 5)]
    path.write_text("\n".join(["who,sex,kind", *rng.permutation(rows)]) + "\n")
    kept: list[list[int]] = []
    real = door.kept_rows

    def spied(persons: np.ndarray, max_rows: int) -> np.ndarray:
        found = real(persons, max_rows)
        kept.append(np.unique(persons[found], return_counts=True)[1].tolist())
        return found

    monkeypatch.setattr(door, "kept_rows", spied)
    kinds = Categorical("sex", ("a", "b"), outside="absorb"), Categorical("kind", ("0", "1", "2"), outside="absorb")
    schema = Schema((Identifier("who", pattern="####"), *kinds))
    bounded = {"schema": schema, "person": "who", "neighbours": la.Neighbours(max_rows_per_person=2)}
    stopped_run(path, ledger, monkeypatch, place, **bounded)
    without_ends(ledger)
    before = charges(ledger)
    release = resume(path, ledger=ledger)
    after = charges(ledger)
    assert after[: len(before)] == before
    assert [charge.step for charge in release.spent.charges] == [step for _, step, _ in after]
    assert release.spent.epsilon_spent <= 2.0
    assert "person" in release.spent.neighbours
    assert len(kept) == 2
    assert all(max(counts) == 2 for counts in kept)


def test_runs_that_read_single_rows_are_not_resumed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their parts of the rows, or the rows of a batch, would be drawn anew: the price would not be true any more."""
    monkeypatch.setattr(FittedModel, "batches", killed)
    for number, settings in enumerate(({"method": "dp-wgan", "steps": 20}, {"method": "bsg", "parts": "0.5,0.5"})):
        ledger = tmp_path / f"{number}.jsonl"
        with pytest.raises(Killed):
            begin(table, ledger, **settings)
        with pytest.raises(InputError, match="no run of this table"):
            resume(table, ledger=ledger)


def test_a_run_whose_results_were_not_written_is_finished_for_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(FittedModel, "batches", killed)
        with pytest.raises(Killed):
            begin(table, ledger)
    before = charges(ledger)
    assert Ledger(ledger, str(table.resolve())).runs()[0].status == "done"
    drawn = recorded_draws(monkeypatch)
    assert resume(table, ledger=ledger).rows.num_rows > 0
    assert charges(ledger) == before
    assert drawn == []


def test_a_full_disk_costs_the_journal_and_not_the_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.jsonl"
    real = Journal._append

    def full(self: Journal, body: dict[str, Any]) -> None:
        if "answer" in body:
            raise OSError(28, "No space left on device")
        real(self, body)

    monkeypatch.setattr(Journal, "_append", full)
    assert begin(table, ledger).rows.num_rows > 0
    assert not list(tmp_path.glob("*.answers"))


def test_a_stopped_continuation_is_charged_what_is_left_and_no_more(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.jsonl"
    stopped_run(table, ledger, monkeypatch, 12)

    def broken(*_: Any) -> None:
        raise ValueError("a row")

    monkeypatch.setattr("lookalike.privacy.kernel.door.with_capped_persons", broken)
    with pytest.raises(RunStoppedError):
        resume(table, ledger=ledger)
    book = Ledger(ledger, str(table.resolve()))
    assert book.runs()[0].rho == la.Budget(2.0, 1e-5, "gdp").rho
    with pytest.raises(InputError, match="no run of this table"):
        resume(table, ledger=ledger)


ANSWERS = [
    7,
    (np.array([[1.5, -2.0]]), 3.0),
    [{"a": 1.25, "é": -3.0}, {}],
    np.arange(6, dtype=np.float64).reshape(2, 3) / 7,
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda value: type(value).__name__)
def test_answers_come_back_exactly(answer: Any) -> None:
    again = restored(json.loads(json.dumps(written(answer))))
    assert type(again) is type(answer)
    assert request_hash((again,)) == request_hash((answer,))


def test_marginals_come_back_exactly() -> None:
    marginal = NoisyMarginal(("a", "b"), np.array([0.1, 1e300]), 3.3, np.array([[0, 1], [1, 1]]), 5)
    again = restored(json.loads(json.dumps(written([marginal]))))[0]
    assert request_hash((again,)) == request_hash((marginal,))
    contrasts = NoisyMarginal(("a",), np.array([0.5, -0.5]), 1.0, contrasts=(2,))
    assert restored(json.loads(json.dumps(written(contrasts)))).contrasts == (2,)


def test_requests_that_differ_have_different_hashes() -> None:
    reference = (np.arange(3.0),)
    requests = [
        ((("a",),), 1.0),
        ((("a",),), 1.0 + 2**-52),
        ((("b",),), 1.0),
        ((("a", "b"),), 1.0),
        ((("a",), ("b",)), 1.0),
        (ResidualL1((("a",),), reference), 1.0),
        (ResidualL1((("a",),), (np.array([0.0, 1.0, 2.0 + 2**-51]),)), 1.0),
        (ResidualL1((("a",),), (np.arange(3),)), 1.0),
        (Fraction(1, 3), None),
        ("1.0", None),
        (1.0, None),
        (1, None),
    ]
    assert len({request_hash(request) for request in requests}) == len(requests)


def killed_when(process: subprocess.Popen[bytes], journal: Path, lines: int, delay: float) -> bool:
    """Kill the process when its journal has that many lines; whether it was still alive."""
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") >= lines:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        time.sleep(0.002)
    process.wait()
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_process_that_is_killed_again_and_again_finishes(tmp_path: Path) -> None:
    """The command line, killed at random moments; every life goes on from what the ones before it had measured."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 900)
    columns = [a, (a + rng.integers(0, 2, 900)) % 4, rng.integers(0, 3, 900), rng.integers(0, 5, 900), a // 2]
    table, out, ledger = tmp_path / "t.csv", tmp_path / "o.csv", tmp_path / "l.jsonl"
    np.savetxt(table, np.column_stack(columns), fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    run = ["synth", str(table), "-e", "2", "-o", str(out), "--ledger", str(ledger), "--json"]
    again = ["resume", str(table), "--ledger", str(ledger), "--json"]
    chance, journal = random.Random(1), journal_path(ledger, 1)
    kept, deaths = [1], 0
    for life in range(6):
        command = [sys.executable, "-m", "lookalike", *(again if life else run)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = kept[-1] + chance.randint(1, 4) if life < 5 else 10**6
        if not killed_when(process, journal, until, chance.random() * 0.01):
            assert process.returncode == 0
            break
        deaths += 1
        lines = journal.read_bytes().splitlines(keepends=True)
        kept.append(sum(line.endswith(b"\n") for line in lines))
        assert kept[-1] >= kept[-2]
    assert deaths >= 2
    assert len(out.read_text().splitlines()) > 500
    (summary,) = Ledger(ledger, str(table.resolve())).runs()
    assert summary.rho <= la.Budget(2.0, 1e-5, summary.accounting, summary.threshold_delta).rho
    assert summary.status == "done"
    assert not journal.exists()


def test_an_answer_is_given_to_its_own_charge_and_request_alone(tmp_path: Path) -> None:
    """Plants: only the charge, or only the request, decides whether a kept answer is taken."""
    journal = Journal.start(tmp_path / "l.jsonl-run1.answers", "begun", {})
    journal.keep("charge", (("a",), 40.0), np.array([1.5]))
    assert journal.kept(0, "charge", (("a",), 40.0)) == np.array([1.5])
    for charge, request in (("charge", (("b",), 40.0)), ("another", (("a",), 40.0))):
        with pytest.raises(LedgerError, match="asks for something other"):
            journal.kept(0, charge, request)
    assert journal.kept(1, "charge", (("a",), 40.0)) is None
    journal.discard()


def test_answers_are_on_disk_before_anything_uses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: an answer is written and not synced, so that a power loss would let it be drawn again."""
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def watched(handle: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle).st_size))
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    path = tmp_path / "l.jsonl-run1.answers"
    journal = Journal.start(path, "begun", {})
    for number in range(2):
        journal.keep("charge", (number,), np.array([1.5]))
        assert synced[-1] == (str(path), path.stat().st_size)
    journal.discard()


@pytest.mark.parametrize(
    "mechanism", ["disjoint parts", "plausible deniability", "laplace", "thresholded histogram", "stopped", "none"]
)
def test_a_journal_that_is_put_back_does_not_resume_what_read_single_rows(tmp_path: Path, mechanism: str) -> None:
    """Plant: a mechanism that gives numbers out while it reads counts as one whose answers are kept."""
    facts = {"method": "m", "schema": "s", "budget": Budget(1.0, 1e-5, "gdp"), "neighbours": Neighbours()}
    book = Ledger(tmp_path / "l.jsonl", "t")
    run = book.begin(**facts, noise=NO_NOISE if mechanism == "none" else SYSTEM_ENTROPY)
    run.charge(Charge("rows", mechanism, 1, Fraction(1, 1000)))
    journal = Journal.start(journal_path(tmp_path / "l.jsonl", 1), run.begun, {})
    again = Run(book, 1, facts["budget"], begun=run.begun, made=[(2, book.runs()[0].charges[0])])
    with pytest.raises(LedgerError, match="after which no run can be resumed"):
        again.record(journal)
    journal.discard()


def test_a_charge_is_repeated_as_it_was_made_or_not_at_all(tmp_path: Path) -> None:
    """Plant: the step alone decides. The last charge may have no answer, so that nothing else would tell."""
    book, made = Ledger(tmp_path / "l.jsonl", "t"), Charge("s", "gaussian", 1, Fraction(1, 1000), "stddev 22")
    budget = Budget(1.0, 1e-5, "gdp")
    run = book.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    number = run.charge(made)
    others = {"rho": Fraction(1, 100), "releases": 2, "mechanism": "threshold", "delta": 1e-7, "detail": "stddev 7"}
    for name, value in others.items():
        again = Run(book, 1, budget, begun=run.begun, made=[(number, made)])
        with pytest.raises(LedgerError, match="asks for something other"):
            again.charge(replace(made, **{name: value}))
    assert Run(book, 1, budget, begun=run.begun, made=[(number, made)]).charge(made) == number
    assert len(book.runs()[0].charges) == 1
