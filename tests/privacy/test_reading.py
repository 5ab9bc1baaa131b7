"""Whatever goes wrong while private rows are read: one constant error, the whole budget charged, no word about why."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lookalike
from lookalike.errors import (
    InputError,
    LookalikeError,
    OutOfDomainError,
    RunStoppedError,
    SchemaError,
)
from lookalike.measurements import CellTable
from lookalike.privacy.kernel.accounting import Accountant, Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.binned import Datetime, Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.sources.frames import TableForm
from lookalike.sources.open import OpenedTable
from lookalike.sources.writing import write_table

DOMAIN = Domain(("a", "b"), (2, 3))
SCHEMA = Schema.from_sizes({"a": 2, "b": 3})
SECRET = "1066-10-14"


class Broken:
    """A source on which every look fails, or warns."""

    domain = DOMAIN

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    def look(self) -> np.ndarray:
        warnings.warn(f"a warning about {SECRET}", RuntimeWarning, stacklevel=1)
        if self.error is not None:
            try:
                raise KeyError(SECRET)
            except KeyError:
                raise self.error from None
        return np.array([1e308]) * 10

    @property
    def codes(self) -> Broken:
        return self

    def __len__(self) -> int:
        return len(self.look())

    def __getitem__(self, _: object) -> np.ndarray:
        return self.look()

    def counts(self, cliques: object) -> list[np.ndarray]:
        self.look()
        return [np.zeros(DOMAIN.shape(clique), dtype=np.int64) for clique in cliques]  # type: ignore[attr-defined]

    def recoded(self, maps: object) -> Broken:
        self.look()
        return self

    def taken(self, chosen: np.ndarray) -> Broken:
        self.look()
        return self


def opened(error: BaseException | None) -> tuple[GuardedTable, Ledger]:
    ledger = Ledger(None, "t")
    budget = Budget(1.0, 1e-5, "zcdp", 1e-6)
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    table = OpenedTable(Broken(error), SCHEMA, TableForm("arrow"))  # type: ignore[arg-type]
    return GuardedTable(table, Accountant(budget, run), Neighbours()), ledger


def residual() -> ResidualL1:
    return ResidualL1((("a",),), (np.zeros(2),))


ACTS: dict[str, Callable[[GuardedTable], object]] = {
    "measure": lambda door: door.measure([("a",)], 1e3, step="m"),
    "contrasts": lambda door: door.measure_contrasts([CellTable(("a", "b"), (2, 3))], [1e3], step="m"),
    "scores": lambda door: door.noisy_scores(residual(), 1e3, step="s"),
    "choose": lambda door: door.choose(residual(), 0.01, step="c"),
    "frequent": lambda door: door.frequent(["a"], 1e3, 1e-8, step="f"),
    "rows": lambda door: door.release_rows(OccurringCells(("a",)), step="r"),
    "parts": lambda door: door.parts(RandomParts((0.5, 0.5)), step="p"),
    "coarsened": lambda door: door.coarsened({"b": np.array([0, 0, 1])}),
    "encoded": lambda door: door.encoded(SCHEMA),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("error", [ValueError(SECRET), InputError(SECRET), SchemaError(SECRET), RuntimeWarning(SECRET)])
def test_every_failure_is_the_same_error_and_takes_the_whole_budget(act: str, error: Exception) -> None:
    door, ledger = opened(error)
    with pytest.raises(RunStoppedError) as caught:
        ACTS[act](door)
    stopped = caught.value
    assert str(stopped) == str(RunStoppedError())
    assert (stopped.__cause__, stopped.__context__, stopped.args) == (None, None, ())
    assert SECRET not in "".join(traceback.format_exception(stopped))
    assert door.remaining == 0
    assert ledger.runs()[0].rho == door.budget.rho
    assert ledger.spent()[0] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("act", ["rows", "parts"])
def test_a_value_outside_the_schema_takes_the_guarantee_also_where_nothing_is_left(act: str) -> None:
    """These charge all that is left before they read, and the error names a column without noise."""
    door, ledger = opened(OutOfDomainError("a", "rule", "remedy"))
    with pytest.raises(OutOfDomainError):
        ACTS[act](door)
    assert ledger.spent()[0] == math.inf


@pytest.mark.parametrize("act", ["measure", "scores", "choose", "coarsened"])
def test_no_warning_leaves_whatever_the_filters(act: str) -> None:
    door, _ = opened(None)
    for action in ("error", "always"):
        with warnings.catch_warnings(record=True) as seen, np.errstate(all="raise"):
            warnings.simplefilter(action)  # type: ignore[arg-type]
            ACTS[act](door)
        assert seen == []


def test_private_frames_are_not_in_the_traceback() -> None:
    door, _ = opened(ValueError(SECRET))
    with pytest.raises(RunStoppedError) as caught:
        door.measure([("a",)], 1e3, step="m")
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "look" not in names
    assert "counts" not in names


def test_lack_of_memory_is_told_and_charged_and_an_interrupt_passes() -> None:
    door, _ = opened(MemoryError(SECRET))
    with pytest.raises(MemoryError) as caught:
        door.measure([("a",)], 1e3, step="m")
    assert (str(caught.value), caught.value.__context__, door.remaining) == ("", None, 0)
    door, _ = opened(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        door.measure([("a",)], 1e3, step="m")
    assert door.remaining > 0


def test_requests_that_are_wrong_for_public_reasons_say_so_and_cost_nothing() -> None:
    door, ledger = opened(ValueError(SECRET))
    wrong: list[Callable[[], object]] = [
        lambda: door.measure([("z",)], 1e3, step="m"),
        lambda: door.coarsened({"b": np.array([0, 5, 1])}),
        lambda: door.measure([("a",)], 1e-3, step="m"),
    ]
    for act in wrong:
        with pytest.raises(LookalikeError) as caught:
            act()
        assert not isinstance(caught.value, RunStoppedError)
    assert ledger.spent() == (0.0, 0.0)


# From the table to the end of a run.


def run_of(table: object, schema: Schema | None) -> tuple[Ledger, Exception | None]:
    ledger = Ledger(None, "t")
    try:
        lookalike.synthesize(table, schema=schema, epsilon=1.0, method="independent", ledger=ledger)
    except Exception as error:  # noqa: BLE001 - the test looks at whatever comes
        return ledger, error
    return ledger, None


def test_a_failure_while_values_are_encoded_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> np.ndarray:
        raise OverflowError(SECRET)

    monkeypatch.setattr("lookalike.sources.counting.encode_column", fails)
    ledger, error = run_of(pa.table({"a": [0, 1]}), Schema.from_sizes({"a": 2}))
    assert isinstance(error, RunStoppedError)
    assert error.__context__ is None
    assert ledger.spent()[0] == pytest.approx(1.0, rel=1e-6)
    assert ledger.runs()[0].status == "failed"


def test_a_failure_while_a_table_is_read_is_charged_but_a_broken_header_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("a,a\n0,1\n")
    ledger, error = run_of(tmp_path / "t.csv", Schema.from_sizes({"a": 2}))
    assert isinstance(error, InputError)
    assert "two columns named 'a'" in str(error)
    assert ledger.spent() == (0.0, 0.0)
    (tmp_path / "t.csv").write_text("a\n0,1\n")

    def fails(_: object) -> object:
        raise OverflowError(SECRET)

    monkeypatch.setattr("lookalike.sources.open.read_table", fails)
    ledger, error = run_of(tmp_path / "t.csv", Schema.from_sizes({"a": 2}))
    assert isinstance(error, RunStoppedError)
    assert ledger.spent()[0] == pytest.approx(1.0, rel=1e-6)


def test_a_row_that_is_too_long_for_the_parser_ends_in_the_constant_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one thing that can still go wrong with a row: it takes more than a gigabyte."""
    (tmp_path / "t.csv").write_text("a\n" + "0\n" * 100 + SECRET * 20 + "\n" + "0\n" * 100)
    monkeypatch.setattr("lookalike.sources.csvfiles._MAX_BLOCK", 32)
    ledger, error = run_of(tmp_path / "t.csv", Schema.from_sizes({"a": 2}))
    assert isinstance(error, RunStoppedError)
    assert error.__context__ is None
    assert ledger.spent()[0] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_damaged_files_have_one_message_wherever_they_are_damaged(tmp_path: Path, name: str) -> None:
    path, messages = tmp_path / name, set[str]()
    write_table(pa.table({"a": ["x", "yy"] * 5000, "b": range(10_000)}), path)
    data = path.read_bytes()
    for start in range(0, len(data), len(data) // 40):
        path.write_bytes(data[:start] + b"\xff" * 64 + data[start + 64 :])
        _, error = run_of(path, None)
        if error is not None and not isinstance(error, RunStoppedError | SchemaError):
            assert isinstance(error, InputError)
            messages.add(str(error))
    assert messages == {f"{path} cannot be read as {name[2:]}: it is damaged or of another kind. Check its suffix."}


@pytest.mark.parametrize(
    ("schema", "array", "words"),
    [
        (Schema((Categorical("a", ("x",)),)), pa.array([1]), "lists a value"),
        (Schema((Integer("a", minimum=0, maximum=9),)), pa.array([[1]]), "stored as|No storage type"),
        (None, pa.array([[1]]), "stored as"),
        (None, pa.array([b"x"]), "stored as"),
        (None, pa.array([{"x": 1}]), "stored as"),
        (None, pa.array([0], pa.timestamp("s", tz="Mars/Olympus")), "time zone"),
        (Schema((Datetime("a"),)), pa.array([0], pa.timestamp("s", tz="Mars/Olympus")), "time zone"),
        (None, pa.array([0], pa.int32()).cast(pa.time32("s")).dictionary_encode(), "cannot be read"),
        (Schema((Categorical("a", ("1",), outside="other", other_label="none"),)), pa.array([1]), "dp.other"),
    ],
)
def test_types_that_do_not_fit_are_refused_from_public_facts(
    schema: Schema | None, array: pa.Array, words: str
) -> None:
    """The same without a row: no value decides, and nothing is charged."""
    for table in (pa.table({"a": array}), pa.table({"a": array}).slice(0, 0)):
        ledger = Ledger(None, "t")
        with pytest.raises(SchemaError, match=words):
            lookalike.synthesize(table, schema=schema, method="independent", ledger=ledger)
        assert ledger.spent() == (0.0, 0.0)


AGES = [3, 17, 42, 88]


def ages(outside: str, top: int) -> Schema:
    return Schema((Integer("age", minimum=0, maximum=top, bins=10, outside=outside),))  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 1e-6])
def test_runs_that_die_on_a_value_cannot_search_for_a_maximum(epsilon: float) -> None:
    """The first that dies leaves nothing under the cap, however little it was allowed to spend itself."""
    ledger = Ledger(None, "t")
    ledger.set_cap(1.0)
    answers: list[str] = []
    low, high = 0, 200
    for _ in range(20):
        middle = (low + high) // 2
        try:
            lookalike.synthesize(
                pa.table({"age": AGES}),
                schema=ages("error", middle),
                epsilon=epsilon,
                method="independent",
                ledger=ledger,
            )
            high, answer = middle, "ends well"
        except LookalikeError as error:
            low, answer = middle, type(error).__name__
        answers.append(answer)
    first = answers.index("OutOfDomainError") if epsilon < 1 else answers.index("ends well")
    assert first <= 1
    assert set(answers[first + 1 :]) == {"BudgetExceededError"}


def test_the_message_of_a_value_outside_names_the_column_and_the_rule() -> None:
    ledger, error = run_of(pa.table({"age": AGES}), ages("error", 50))
    assert isinstance(error, OutOfDomainError)
    assert (error.column, error.__context__) == ("age", None)
    assert "not between 0 and 50" in str(error)
    assert "infinite epsilon" in str(error)
    assert "88" not in str(error)
    assert ledger.runs()[0].rho == Budget(1.0, 1e-5, "gdp").rho
    assert ledger.spent()[0] == float("inf")


def test_by_default_no_value_stops_a_run() -> None:
    for top in (1, 50, 100):
        ledger, error = run_of(pa.table({"age": AGES}), Schema((Integer("age", minimum=0, maximum=top),)))
        assert error is None
        assert ledger.runs()[0].status == "done"


def test_open_table_is_the_only_way_in_and_keeps_the_filters_of_the_user() -> None:
    before = warnings.filters[:]
    ledger = Ledger(None, "t")
    budget = Budget(1.0, 1e-5, "gdp")
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    open_table(pa.table({"a": [0]}), Schema.from_sizes({"a": 2}), budget, run, neighbours=Neighbours())
    assert warnings.filters == before
