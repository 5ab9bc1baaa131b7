"""Neighbouring tables are not told apart by anything that a run writes or says, and leaky runs are."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from lookalike.audit.written import SECRET, Case, Claim, Finding, cases, everything, try_pair
from lookalike.cli import main as cli
from lookalike.discovery.discover import Discovery
from lookalike.errors import LookalikeError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel import door
from lookalike.release import Spent
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources import frames
from lookalike.sources import open as opening
from lookalike.synthesizers import METHODS

EPSILON, DELTA, FAILURE, RUNS = 0.2, 1e-5, 1e-8, 45
CASES = {case.name: case for case in cases()}
CLAIM = Claim(EPSILON, DELTA, gaussian=True, threshold_delta=0.1 * DELTA)


def audited(
    case: Case, runs: int, claim: Claim = CLAIM, write: Callable[..., Any] = everything, **arguments: Any
) -> Finding:
    given = {**case.arguments, "epsilon": EPSILON, "delta": DELTA, "method": "independent", **arguments}
    return try_pair(
        lambda: write(case.table, case.extra, given),
        lambda: write(case.neighbour, case.extra, given),
        claim,
        runs=runs,
        rng=np.random.default_rng(0),
        failure=FAILURE,
    )


LONE_VALUES = ("new category", "extreme number", "new maximum", "lone null")
"""The command line below has all of them in one row; one by one, cases are among the slow tests."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_written_tells_neighbours_apart(name: str) -> None:
    finding = audited(CASES[name], RUNS if name not in LONE_VALUES else 60)
    assert not finding.broken, finding
    assert finding.detectable > 2 * EPSILON  # a fact that always shows would have been noticed


def count_rows(table: pa.Table, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    """A run that lets the true number of rows slip into its messages."""
    written = everything(table, extra, arguments, report=False)
    return {**written, "progress": [*written["progress"], f"{table.num_rows} rows read"]}


@pytest.mark.slow
def test_a_message_with_the_number_of_rows_is_noticed() -> None:
    finding = audited(CASES["new maximum"], RUNS, write=count_rows)
    assert finding.broken
    assert "rows read" in finding.event


def test_values_told_without_a_threshold_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    many = pa.table({"town": ["Ox"] * 3000})
    case = Case("new category", many, pa.table({"town": [SECRET]}))
    assert not audited(case, RUNS, discovery=Discovery(share=0.93)).broken
    monkeypatch.setattr(door, "threshold", lambda *_: -np.inf)
    # Events that tell nearly all runs apart, but not every one, contradict the claim only with more runs.
    assert audited(case, 3 * RUNS, discovery=Discovery(share=0.93)).broken


def scale_noise(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Gaussian noise of all kinds with a wrong deviation."""
    exact = door.rounded_gaussian
    monkeypatch.setattr(door, "rounded_gaussian", lambda stddev, *a, **k: exact(stddev * factor, *a, **k))


def test_too_little_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scale_noise(monkeypatch, 1 / 500)
    assert audited(CASES["declared columns"], RUNS).broken


def stopped(table: pa.Table, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    """Whether a run ends with an error, and which."""
    try:
        synthesize(table, **arguments)
    except LookalikeError as error:
        return {"error": str(error)}
    return {}


def test_an_error_for_the_lone_row_is_noticed() -> None:
    """`outside: error` lets one value stop a run: docs/sharp_edges.md says so, and it shows. By default none does."""
    sizes = Schema.from_sizes({"a": 1, "b": 2, "c": 2})
    strict = sizes.with_columns(replace(column, outside="error") for column in sizes.columns)
    assert audited(CASES["declared columns"], RUNS, write=stopped, schema=strict).broken
    assert not audited(CASES["declared columns"], RUNS, write=stopped, schema=sizes).broken


# What a run gives back: objects, as they are pickled and shown.


class Kept:
    """Something that a form carries along, with values of the table in it."""

    def __init__(self, values: Any) -> None:
        self.values = values


class Pickled(Kept):
    """Shows nothing, but keeps the values in its pickle."""

    def __repr__(self) -> str:
        return "Pickled()"


class Shown(Kept):
    """Pickles to nothing, but shows the values."""

    def __repr__(self) -> str:
        return f"Shown({self.values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Shown, (None,)


class Counted(Kept):
    """Pickles only how many values there are."""

    def __repr__(self) -> str:
        return "Counted()"

    def __reduce__(self) -> tuple[Any, ...]:
        return Counted, (len(self.values),)


TOWNS = Case("new category", pa.table({"town": ["Ox", "Rye"] * 9}), pa.table({"town": [SECRET]}))
MORE_RUNS = 60
"""So many that an event which comes once by chance on the wrong side is still seen to break the claim."""
DECLARED_TOWNS = Schema((Categorical("town", values=("Ox", "Rye"), outside="other"),))


def written_quickly(table: Any, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    return everything(table, extra, arguments, report=False)


@pytest.mark.parametrize(
    ("leak", "where"),
    [(Pickled, "pickle of"), (Shown, "repr of"), (Counted, "pickle of")],
    ids=["pickle", "repr", "number in a pickle"],
)
def test_a_value_that_only_a_pickle_or_a_repr_carries_is_noticed(
    monkeypatch: pytest.MonkeyPatch, leak: type[Kept], where: str
) -> None:
    def leaky(source: Any) -> tuple[pa.Table, frames.TableForm]:
        table, form = frames.read_table(source)
        values = sorted(set(table.column("town").to_pylist()))
        return table, replace(form, dtypes={"town": leak(values)})

    monkeypatch.setattr(opening, "read_table", leaky)
    finding = audited(TOWNS, MORE_RUNS, write=written_quickly, schema=DECLARED_TOWNS)
    assert finding.broken, finding
    assert finding.event.startswith(where), finding


def test_a_page_that_alone_carries_a_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leak in `_repr_html_`, which notebooks show."""
    pages: list[str] = []

    def leaky(source: Any) -> tuple[pa.Table, frames.TableForm]:
        table, form = frames.read_table(source)
        pages.append(", ".join(sorted(set(table.column("town").to_pylist()))))
        return table, form

    monkeypatch.setattr(opening, "read_table", leaky)
    monkeypatch.setattr(Spent, "_repr_html_", lambda self: pages[-1])
    finding = audited(TOWNS, MORE_RUNS, write=written_quickly, schema=DECLARED_TOWNS)
    assert finding.broken
    assert finding.event.startswith("html of")


def as_categories(table: pa.Table, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    """A run on a pandas frame of categories, from which one row was filtered out before: its category is left."""
    frame = table.to_pandas().astype("category")[:-1]
    coded = pa.table(
        {name: extra.column(name).cast(pa.large_string()).dictionary_encode() for name in extra.column_names}
    )
    return everything(frame, coded, arguments, report=False)


def test_categories_of_a_frame_tell_nothing_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = audited(TOWNS, MORE_RUNS, write=as_categories, schema=DECLARED_TOWNS)
    assert not finding.broken, finding

    read = frames.pandas_table

    def kept(frame: Any) -> tuple[pa.Table, dict[str, Any]]:
        return read(frame)[0], dict(frame.dtypes)

    monkeypatch.setattr(frames, "pandas_table", kept)
    assert audited(TOWNS, MORE_RUNS, write=as_categories, schema=DECLARED_TOWNS).broken


SHORTER: dict[str, dict[str, Any]] = {
    "rap": {"relaxed_rows": 50, "steps": 10},
    "rap-paper": {"relaxed_rows": 50, "steps": 5, "rounds": 3},
    "dualquery": {"rounds": 8, "rows_per_round": 50},
    "dualquery-paper": {"rounds": 8},
    "fem": {"rows_per_round": 50},
}
"""Settings of methods that train for long: what they write is the same."""


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
def test_no_method_tells_neighbours_apart(method: str) -> None:
    """With declared columns of few bins: what discovery does comes before any method, and is audited above."""
    table, neighbour = odd_row()
    few = Schema.from_dict(yaml.safe_load(DECLARED.replace("outside: clamp", "outside: clamp, bins: 2")))
    case = Case("all at once", table, neighbour.slice(table.num_rows), {"schema": few})
    gaussian = METHODS[method].accounting == "gdp"
    claim, shorter = Claim(EPSILON, DELTA, gaussian, 0.1 * DELTA), SHORTER.get(method, {})
    finding = audited(case, RUNS, claim, method=method, **shorter)
    assert not finding.broken, finding


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "broken"), [(1.0, False), (0.1, True)])
def test_noise_of_a_tenth_of_its_size_is_noticed(monkeypatch: pytest.MonkeyPatch, factor: float, broken: bool) -> None:
    """With noise as it should be nothing is contradicted; a tenth of it is too little, and is seen to be."""
    scale_noise(monkeypatch, factor)
    finding = audited(CASES["declared columns"], 400, Claim(2.0, DELTA, gaussian=True), epsilon=2.0)
    assert finding.broken == broken, finding


# The command line: files, their names and sizes, both output streams, the exit code.


def odd_row() -> tuple[pa.Table, pa.Table]:
    """A table, and the same with a row that has a new category, an extreme number, a new maximum and a null."""
    texts = CASES["new category"].table
    odd = {"town": SECRET, "age": "119", "pay": "987654321012.75", "seen": None}
    row = pa.table({name: pa.array([odd[name]], pa.string()) for name in texts.column_names})
    return texts, pa.concat_tables([texts, row])


class CommandLine:
    """Runs of the command line in a folder of their own, and all that each leaves behind."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "120")

    def run(self, table: pa.Table, *options: str) -> dict[str, Any]:
        for path in self.folder.iterdir():
            path.unlink()
        pyarrow.csv.write_csv(table, self.folder / "table.csv")
        files = ("--ledger", "ledger.jsonl", "--report", "page.html", "--model", "model.lookalike")
        arguments = ["synth", "table.csv", "-o", "out.csv", *files, "--epsilon", str(EPSILON), *options]
        self.monkeypatch.setattr(sys, "argv", ["lookalike", *arguments])
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            cli.main()
        written: dict[str, Any] = {"code": ended.value.code, "out": out.getvalue(), "err": err.getvalue()}
        for path in sorted(self.folder.iterdir()):
            if path.name != "table.csv":
                data = path.read_bytes()
                text = "" if path.suffix == ".lookalike" else data.decode()
                written[path.name] = {"bytes": len(data), "text": text}
        return written


@pytest.mark.slow
def test_the_command_line_tells_nothing_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = CommandLine(tmp_path, monkeypatch)
    table, neighbour = odd_row()
    options = ("--method", "independent")
    finding = try_pair(
        lambda: line.run(table, *options),
        lambda: line.run(neighbour, *options),
        CLAIM,
        runs=RUNS,
        rng=np.random.default_rng(1),
        failure=FAILURE,
    )
    assert not finding.broken, finding


DECLARED = """
fields:
- {name: town, type: string, constraints: {enum: [Ox, Rye]}, dp: {outside: other}}
- {name: age, type: integer, constraints: {minimum: 0, maximum: 99}, dp: {outside: clamp}}
- {name: pay, type: number, constraints: {minimum: 0, maximum: 9999}, dp: {outside: clamp, decimals: 2}}
- {name: seen, type: date, constraints: {minimum: 2024-01-01, maximum: 2024-12-31}, dp: {outside: clamp}}
"""


@pytest.mark.parametrize("method", ["independent", "mst"])
def test_all_but_noisy_numbers_is_the_same_for_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """With declared columns the messages, the ledger and the files' names do not depend on the table at all."""
    schema, folder = tmp_path / "schema.yaml", tmp_path / "run"
    schema.write_text(DECLARED)
    folder.mkdir()
    line = CommandLine(folder, monkeypatch)
    empty, odd = odd_row()[0].slice(0, 0), odd_row()[1]
    first, second = (line.run(table, "--schema", str(schema), "--method", method) for table in (empty, odd))
    assert first["code"] == second["code"] == 0
    assert set(first) == set(second)
    # The number of synthetic rows is a noisy number.
    one, two = (re.sub(r"^Rows: [\d,]+ ", "", written["out"]) for written in (first, second))
    assert one == two
    assert first["err"] == second["err"]
    one, two = (_charges(written["ledger.jsonl"]["text"]) for written in (first, second))
    # The noise of the tree's pairs follows from which pairs the noise made the tree of.
    assert one[:-1] == two[:-1] if method == "mst" else one == two
    assert [charge["step"] for charge in one] == [charge["step"] for charge in two]


def _charges(ledger: str) -> list[dict[str, Any]]:
    """The charges of a ledger but for clocks and hashes."""
    lines = [json.loads(line) for line in ledger.splitlines()]
    clocks = ("time", "hash", "prev")
    return [{k: v for k, v in line.items() if k not in clocks} for line in lines if line["kind"] == "charge"]
