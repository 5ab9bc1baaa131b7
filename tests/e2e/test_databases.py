"""The command line on databases: the same commands, another source, and rows written back."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.databases import DATABASES, admin, server

from .conftest import Call

PEOPLE = pa.table({
    "town": ["Ox", "Rye", "Rye", None] * 200,
    "age": pa.array([30, 40, 50, 60] * 200, pa.int64()),
    "who": [f"p{i % 400}" for i in range(800)],
})  # fmt: skip


@pytest.mark.parametrize("kind", DATABASES)
def test_commands_on_a_database(kind: str, call: Call, tmp_path: Path) -> None:
    place = DATABASES[kind](PEOPLE, tmp_path)
    table = (place.where, "--table", place.name)
    assert "name: town" in call("schema", *table).out
    planned = call("plan", *table, "--id", "who")
    assert planned.code == 0, planned.err
    found = call("inspect", *table, "--epsilon", 1, "--no-rules", "--write-schema", tmp_path / "found.yaml")
    assert found.code == 0, found.err
    out = tmp_path / "out.csv"
    made = call("synth", *table, "--method", "mst", "--person", "who", "--max-rows-per-person", 2, "-o", out)
    assert made.code == 0, made.err
    assert out.read_text().startswith("town,age,who")
    shown = call("ledger", *table, "--json")
    assert len(json.loads(shown.out)["runs"]) == 2
    assert str(place.where) not in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synth", "sqlite:///x.db", "-o", "o.csv"), "was not named"),
        (("synth", "people.csv", "--table", "t", "-o", "o.csv"), "is a file"),
        (("synth", "postgresql://u:secret@h/d", "--table", "t", "-o", "o.csv"), "holds a password"),
        (("synth", "oracle://h/d", "--table", "t", "-o", "o.csv"), "begins with one of"),
    ],
)
def test_bad_places_are_one_message(arguments: tuple[str, ...], message: str, call: Call) -> None:
    outcome = call(*arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert "secret" not in outcome.err + outcome.out


def test_methods_that_read_rows_are_refused_in_the_plan(call: Call, tmp_path: Path) -> None:
    place = DATABASES["sqlite"](PEOPLE, tmp_path)
    outcome = call("plan", place.where, "--table", place.name, "--method", "pate-gan")
    assert outcome.code == 2
    assert "only counts are read" in outcome.err


def test_rows_are_written_back(call: Call, tmp_path: Path) -> None:
    place = DATABASES["sqlite"](PEOPLE, tmp_path)
    model, made = tmp_path / "m.lookalike", f"sqlite:///{tmp_path}/made.db"
    options = ("--method", "independent", "--id", "who", "--range", "age=0:99", "--values", "town=Ox,Rye")
    outcome = call(
        "synth", place.where, "--table", place.name, *options, "-o", made, "--out-table", "made", "--model", model
    )
    assert outcome.code == 0, outcome.err
    with sqlite3.connect(tmp_path / "made.db") as connection:
        assert connection.execute("SELECT count(*) FROM made WHERE age BETWEEN 0 AND 99").fetchone()[0] > 500
    again = call("sample", model, "-o", made, "--out-table", "made")
    assert again.code == 2
    assert "exists already" in again.err
    assert call("sample", model, "-o", server(), "--out-table", "made_rows", "--rows", 7).code == 0
    with admin() as connection:
        assert connection.execute("SELECT count(*) FROM made_rows").fetchone() == (7,)
    assert (
        call("sample", model, "-o", f"duckdb:///{tmp_path}/made.duckdb", "--out-table", "made", "--rows", 7).code == 0
    )
    with duckdb.connect(str(tmp_path / "made.duckdb")) as connection:
        assert connection.execute("SELECT count(*) FROM made").fetchall() == [(7,)]
    assert call("sample", model, "-o", made).code == 2
