"""Every release of the door, on a small and on a large table: the same charges, each before any row is read.

Each test fails when the plant that its docstring names is put in.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

import lookalike
from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.inputs import as_ledger, table_identity
from lookalike.measurements import CellTable, Contrasts
from lookalike.privacy import chain
from lookalike.privacy.journal import Recording
from lookalike.privacy.kernel import door, mechanisms
from lookalike.privacy.kernel.accounting import Budget, Neighbours, gaussian_rho, stddev_for
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.kernel.thresholds import threshold, threshold_probability
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.teacher_votes import TeacherVotes
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources import writing
from lookalike.sources.open import MemorySource, OpenedTable, read

from . import test_critic_sums as critic_case

BUDGET = Budget(2.0, 1e-4, "zcdp", threshold_delta=5e-5)
SMALL, LARGE = ("x", "y"), ("x", "y", "SECRET") * 40
SCHEMA = Schema((*Schema.from_sizes({"a": 2, "b": 3}).columns, Categorical("c")))


def table_of(texts: tuple[str, ...]) -> pa.Table:
    return pa.table(
        {"a": [0, 1] * (len(texts) // 2), "b": [2, 0] * (len(texts) // 2), "c": texts[: len(texts) // 2 * 2]}
    )


def door_to(
    texts: tuple[str, ...] = SMALL, ledger: Ledger | None = None, neighbours: Neighbours | None = None
) -> GuardedTable:
    """The door to a table with two coded columns, and one whose list of values is open."""
    people = neighbours or Neighbours()
    run = (ledger or Ledger(None, "t")).begin(method="m", schema="s", budget=BUDGET, neighbours=people)
    return open_table(table_of(texts), SCHEMA, BUDGET, run, neighbours=people)


SCORE = ResidualL1((("a",), ("b",)), (np.zeros(2), np.zeros(3)))
PROBABILITY = threshold_probability(2e-5, BUDGET.epsilon)
RELEASES: dict[str, Callable[[GuardedTable], Any]] = {
    "measure": lambda door: door.measure([("a",), ("a", "b")], 40.0, step="s"),
    "measure_contrasts": lambda door: door.measure_contrasts([CellTable(("a", "b"), (2, 3))], [40.0], step="s"),
    "noisy_scores": lambda door: door.noisy_scores(SCORE, 40.0, step="s"),
    "choose": lambda door: door.choose(SCORE, 0.1, step="s", weights=[1.0, 2.0]),
    "frequent": lambda door: door.frequent(["c"], 40.0, PROBABILITY, step="s"),
    "release_rows": lambda door: door.release_rows(OccurringCells(("a",), 0.3), step="s"),
    "parts": lambda door: door.parts(RandomParts((0.5, 0.5)), step="s"),
}
VIEWS: dict[str, Callable[[GuardedTable], GuardedTable]] = {
    "coarsened": lambda door: door.coarsened({"b": np.array([0, 1, 1])}),
    "encoded": lambda door: door.encoded(Schema(SCHEMA.columns[:2])),
    "recorded": lambda door: door.recorded_by(Recording()),
}


def charges(ledger: Ledger) -> list[dict[str, Any]]:
    """What the ledger says of charges, apart from the time and the hashes."""
    lines = [entry for entry in ledger.entries() if entry["kind"] == "charge"]
    return [{key: line[key] for key in ("step", "mechanism", "releases", "rho", "detail", "delta")} for line in lines]


@pytest.mark.parametrize("name", RELEASES)
def test_charges_do_not_depend_on_the_rows(name: str) -> None:
    """Plant: the number of rows, or a value, in the detail of a charge, or in what the door says of itself."""
    said = []
    for texts in (SMALL, LARGE):
        ledger = Ledger(None, "t")
        door = door_to(texts, ledger)
        before = repr(door)
        RELEASES[name](door)
        said.append((charges(ledger), before, repr(door)))
    assert said[0] == said[1]
    assert said[0][0]


@pytest.mark.parametrize("name", RELEASES)
def test_no_row_is_touched_before_its_charge_is_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: any release that reads first and charges then."""
    ledger = Ledger(None, "t")
    door = door_to(LARGE, ledger)
    touched: list[int] = []

    def spied(right: Any) -> Any:
        return lambda *given: (touched.append(len(charges(ledger))), right(*given))[1]

    for owner, method in ((MemorySource, "counts"), (MemorySource, "taken"), (OpenedTable, "value_counts")):
        monkeypatch.setattr(owner, method, spied(getattr(owner, method)))
    codes = MemorySource.codes.fget  # type: ignore[attr-defined]
    if name == "release_rows":
        monkeypatch.setattr(MemorySource, "codes", property(spied(codes)))
    RELEASES[name](door)
    assert touched
    # `isinstance` of a protocol asks for the attribute `codes`, which reads no row.
    assert all(touched[1:] if name == "release_rows" else touched)


@pytest.mark.parametrize("view", VIEWS)
def test_views_spend_from_the_accountant_of_their_table(view: str) -> None:
    """Plant: a view with an accountant of its own, which writes to the ledger and refuses nothing."""
    door = door_to()
    seen = VIEWS[view](door)
    most = door.stddev_for(door.remaining * 0.6)
    seen.measure([("a",)], most, step="view")
    assert door.remaining == seen.remaining < float(BUDGET.rho) / 2
    for table in (door, seen):
        with pytest.raises(BudgetExceededError):
            table.measure([("a",)], most, step="again")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("people", [Neighbours("add-remove", 3), Neighbours("replace", 1)])
def test_views_price_for_the_neighbours_of_their_table(view: str, people: Neighbours) -> None:
    """Plant: a view that hides one added row, whatever the table was opened for."""
    ledger = Ledger(None, "t")
    seen = VIEWS[view](door_to(LARGE, ledger, people))
    seen.measure([("a",)], 400.0, step="view")
    assert ledger.runs()[0].rho == people.squared_l2 * gaussian_rho(1, 400.0)
    assert seen.stddev_for(0.01) == stddev_for(Fraction(0.01) / people.squared_l2)


def test_every_charge_of_a_part_is_in_the_ledger_of_the_whole() -> None:
    """Plant: what is released of parts leaves no line, because the split has paid for it."""
    ledger = Ledger(None, "t")
    one, two = door_to(LARGE, ledger).parts(RandomParts((0.5, 0.5)), step="split")
    one.measure([("a",)], 40.0, step="first")
    two.choose(SCORE, 0.1, step="second")
    written = [(line["step"], line["mechanism"], line["rho"]) for line in charges(ledger)]
    assert written[1:] == [("first", "gaussian", "0"), ("second", "exponential", "0")]
    for part, line in enumerate(charges(ledger)[1:], 1):
        assert line["detail"].endswith(f"of part {part}, paid for by the split")


def test_the_delta_of_every_threshold_is_charged() -> None:
    """Plants: delta is not added up over calls, or only the first call is charged for it."""
    ledger = Ledger(None, "t")
    door = door_to(LARGE, ledger)
    for _ in range(2):
        door.frequent(["c"], 40.0, PROBABILITY, step="s")
    assert [charge["delta"] for charge in charges(ledger)] == [pytest.approx(2e-5, rel=1e-3)] * 2
    with pytest.raises(BudgetExceededError, match="threshold delta"):
        door.frequent(["c"], 40.0, PROBABILITY, step="s")


def test_a_recorder_is_given_what_was_released() -> None:
    """Plant: the recorder, whose marginals the model file stores, is given exact counts."""
    recording = Recording()
    door = door_to(LARGE).recorded_by(recording)
    measured = [*RELEASES["measure"](door), *RELEASES["measure_contrasts"](door)]
    assert all(kept is given for kept, given in zip(recording.released, measured, strict=True))


def test_what_holds_rows_does_not_show_them(tmp_path: Path) -> None:
    """Plants: rows, or how many there are, in the `repr` of what holds them; a door that can be pickled or copied."""
    shown = []
    for texts in (SMALL, LARGE):
        table = read(table_of(texts))
        opened = table.encoded(table.bound(SCHEMA))
        shown.append([repr(holder).split(" at 0x")[0] for holder in (table, opened, opened.source, door_to(texts))])
        shown[-1][1] = repr(opened).replace(repr(opened.source), "")
    assert shown[0] == shown[1]
    for carry in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            carry(door_to(LARGE))


def test_a_release_carries_no_source() -> None:
    """Plants: the source in the form of the table or in the model, and so in their pickle."""
    release = lookalike.synthesize(table_of(LARGE), schema=SCHEMA, epsilon=2.0, method="independent")
    for part in (release, release.fitted, release.model):
        assert b"lookalike.sources.open" not in pickle.dumps(part)
        assert b"lookalike.sources.open" not in pickle.dumps(part)
    assert not any(isinstance(held, MemorySource | OpenedTable | GuardedTable) for held in reached(release))


def reached(start: object) -> list[object]:
    """Every object that can be reached from this one, but through functions, classes and modules."""
    found: dict[int, object] = {id(start): start}
    waiting = [start]
    while waiting:
        for held in gc.get_referents(waiting.pop()):
            if id(held) not in found and not isinstance(held, type | FunctionType | ModuleType):
                found[id(held)] = held
                waiting.append(held)
    return list(found.values())


def test_as_many_rows_are_made_as_the_model_estimates() -> None:
    """Plant: the true number of rows is made. The noise at this epsilon hits it once in hundreds of runs."""
    schema = Schema.from_sizes({"a": 2, "b": 3})
    table = table_of(LARGE).select(["a", "b"])
    runs = [lookalike.synthesize(table, schema=schema, epsilon=0.02, method="independent") for _ in range(3)]
    assert [len(run.rows) for run in runs] == [run.fitted.rows for run in runs] != [len(LARGE)] * 3


def test_progress_notes_and_the_ledger_do_not_depend_on_the_rows() -> None:
    """Plants: the number of rows in a message of progress, in the status of a run, or in a note."""
    said = []
    for texts in (SMALL * 1111, LARGE * 37):
        messages, ledger = dict[str, float](), Ledger(None, "t")
        table, schema = table_of(texts).select(["a", "b"]), Schema.from_sizes({"a": 2, "b": 3})
        shared: dict[str, Any] = {"schema": schema, "epsilon": 2.0, "method": "independent", "rows": 5}
        release = lookalike.synthesize(table, ledger=ledger, progress=messages.__setitem__, **shared)
        assert not any(str(table.num_rows) in note for note in release.notes)
        said.append((list(messages), [(line["kind"], line.get("status")) for line in ledger.entries()]))
    assert said[0] == said[1]


# Randomness that nobody can repeat.


def test_bits_come_from_the_operating_system() -> None:
    """Plant: noise from a generator with a seed, be it a constant or the time."""
    assert mechanisms.bit_source(None) is os.urandom


class Students:
    """Shows and asks fixed rows, and keeps the counts of votes."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.heard = rows, list[np.ndarray]()

    def shown(self) -> np.ndarray:
        return self.rows

    asked = shown

    def learn(self, votes: np.ndarray, /) -> None:
        self.heard.append(votes)


def test_batches_and_parts_are_dealt_by_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants: the critic's batches, the teachers' parts, the noise of either, or disjoint parts by a fixed seed."""
    codes = np.zeros((60, 3), dtype=np.int32)
    domain, critic = critic_case.DOMAIN, critic_case.critics()[0]
    weights = np.random.default_rng(1).normal(size=(sum(domain.sizes) + 1, 4))
    students = Students(np.zeros((5, len(domain)), dtype=np.int32))

    def seeded(*_: object) -> None:
        raise AssertionError("a generator with a seed is made where privacy depends on it")

    monkeypatch.setattr(np.random, "default_rng", seeded)
    codes = np.zeros((60, len(domain)), dtype=np.int32)
    CriticSums(critic_case.Listener(critic, 1000), 3, 3, stddev=1.0).release(codes, domain, None)
    TeacherVotes(students, 2, 5, 3, weights, weights[0], 0.1, stddev=1.0).release(codes, domain, None)
    RandomParts((0.5, 0.5)).part_of_rows(100, None)
    door_to().measure([("a",)], 40.0, step="s")


def test_rows_of_a_person_are_kept_by_no_seed() -> None:
    """Plant: which rows of a person are kept follows from a fixed seed."""
    persons = np.repeat(np.arange(500), 2)
    assert not np.array_equal(door.kept_rows(persons, 1), door.kept_rows(persons, 1))


# On disk.


def test_lines_heads_and_their_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: a ledger that returns before its line, its head or the folder's entry is on disk."""
    ledger = Ledger(tmp_path / "runs.jsonl", "t")
    door, synced = door_to(SMALL, ledger), set[int]()
    right = os.fsync
    monkeypatch.setattr(chain.os, "fsync", lambda handle: (synced.add(os.fstat(handle).st_ino), right(handle))[1])
    door.measure([("a",)], 40.0, step="s")
    files = [path for path in tmp_path.iterdir() if "lock" not in path.name]
    assert len(files) == 2
    assert {path.stat().st_ino for path in (*files, tmp_path)} <= synced


def test_outputs_are_synced_before_they_take_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: no sync of a file that is renamed, which after a crash may be empty."""
    synced: set[int] = set()
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(writing.os, "fsync", lambda handle: (synced.add(os.fstat(handle).st_ino), fsync(handle))[1])

    def renamed(source: Path, target: Path) -> None:
        assert source.stat().st_ino in synced
        replace(source, target)

    monkeypatch.setattr(writing.os, "replace", renamed)
    writing.write_table(table_of(SMALL), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").exists()


def test_a_cap_is_positive_and_is_checked_when_a_run_begins_and_when_it_first_charges() -> None:
    """Plants: a cap of 0 that is taken for none; only one of the two checks."""
    ledger = Ledger(None, "t")
    with pytest.raises(BudgetError, match="cap is 0"):
        ledger.set_cap(0)
    ledger.set_cap(BUDGET.epsilon * 1.5)
    first, second = door_to(SMALL, ledger), door_to(SMALL, ledger)
    first.measure([("a",)], 40.0, step="s")
    with pytest.raises(BudgetExceededError):
        second.measure([("a",)], 40.0, step="s")
    with pytest.raises(BudgetExceededError):
        door_to(SMALL, ledger)
    assert ledger.spent()[0] == BUDGET.epsilon


def test_a_table_is_known_by_its_place(tmp_path: Path) -> None:
    """Plants: identity by inode, by size, or by a path with links; a file that is written anew is the same table."""
    path, link = tmp_path / "t.csv", tmp_path / "link.csv"
    path.write_text("a\n1\n")
    link.symlink_to(path)
    before, ledger = table_identity(path), as_ledger(None, path).path
    assert table_identity(link) == before
    (tmp_path / "new").write_text("a\n1\n2\n")
    os.replace(tmp_path / "new", path)
    assert table_identity(path) == before == str(path.resolve())
    assert as_ledger(None, path).path == as_ledger(None, link).path == ledger


# Numbers.


@pytest.mark.parametrize("shape", [(2,), (5,), (2, 2), (2, 3), (3, 4), (2, 2, 3)])
def test_what_a_row_changes_of_contrasts(shape: tuple[int, ...]) -> None:
    """Plants: half of the squared norm of an added row, or of a replaced one."""
    contrasts = Contrasts(shape)
    moved = [contrasts.of(row.reshape(shape)).ravel() for row in np.eye(contrasts.cells)]
    assert max((row**2).sum() for row in moved) == pytest.approx(float(contrasts.added))
    assert max(((a - b) ** 2).sum() for a in moved for b in moved) == pytest.approx(float(contrasts.replaced))


@pytest.mark.parametrize("rows", [1, 3])
def test_replaced_rows_are_a_removal_and_an_addition(rows: int) -> None:
    """Plants: a neighbour with replaced rows that is priced as one with added rows, in counts, scores or contrasts."""
    added, replaced = Neighbours(max_rows_per_person=rows), Neighbours("replace", rows)
    assert (added.rows, added.squared_l2) == (rows, rows**2)
    assert (replaced.rows, replaced.squared_l2) == (2 * rows, 2 * rows**2)
    contrasts = Contrasts((2, 3))
    assert added.squared_contrasts(contrasts) == rows**2 * contrasts.added
    assert replaced.squared_contrasts(contrasts) == rows**2 * contrasts.replaced


@pytest.mark.parametrize("stddev", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("probability", [0.2, 1e-3, 1e-9])
def test_a_lone_value_passes_a_threshold_as_rarely_as_is_paid_for(stddev: float, probability: float) -> None:
    """Plant: a threshold that is lower by one."""
    limit = threshold(stddev, probability, Neighbours())
    assert norm.sf((np.ceil(limit) - 1.5) / stddev) <= probability < norm.sf((limit - 2.01) / stddev)


@pytest.mark.parametrize("least", [1, 10])
@pytest.mark.parametrize("rows", [1, 3])
def test_values_that_a_database_does_not_list_pass_as_rarely_with_one_person_more(least: int, rows: int) -> None:
    """Plant: a threshold without the rows of others that a value may have unseen: fewer than `least`."""
    limit = threshold(2.0, 0.01, Neighbours(max_rows_per_person=rows), least)
    most = least - 1 + rows
    assert rows * norm.sf((np.ceil(limit) - 0.5 - most) / 2.0) <= 0.01


def test_the_threshold_is_that_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: `GuardedTable.frequent` takes every engine for one that lists all values."""
    budget = Budget(1.0, 1e-3, "gdp", threshold_delta=5e-4)
    table, found = pa.table({"c": ["a"] * 300}), []
    for least in (1, 10):
        monkeypatch.setattr(OpenedTable, "least_count", property(lambda self, least=least: least))
        ledger = Ledger(None, "t")
        run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
        door = open_table(table, None, budget, run, neighbours=Neighbours(), keep_rows=True)
        door.frequent(["c"], 9.0, 1e-4, step="values")
        found.append(float(ledger.runs()[0].charges[0].detail.rsplit(" ", 1)[1]))
    assert found[1] == pytest.approx(found[0] + 9)


def test_scales_are_rounded_up_and_prices_too() -> None:
    """Plants: a stddev or a price that is rounded down, or to the nearest."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        exact = Fraction(int(rng.integers(10**17, 10**18)), int(rng.integers(1, 10**17)))
        assert Fraction(mechanisms.checked_scale("stddev", exact)) >= exact
        assert gaussian_rho(1, exact) >= 1 / (2 * exact**2)
        rho = Fraction(float(rng.uniform(1e-6, 1)))
        assert gaussian_rho(1, stddev_for(rho)) <= rho
