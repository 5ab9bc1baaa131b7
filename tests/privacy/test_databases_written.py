"""What leaves a database: the server's own log shows counts alone, and nothing written tells neighbours apart."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.audit.written import everything, try_pair
from lookalike.errors import RunStoppedError
from lookalike.schema.schema import Schema
from lookalike.sources.databases import DatabaseTable
from lookalike.sources.sql.engines import ServerTable
from tests.databases import DATABASES, admin, in_postgres, in_sqlite, log

from .test_everything_written import CASES, CLAIM, DELTA, EPSILON, FAILURE, RUNS, odd_row


def audited(put: Any, table: pa.Table, neighbour: pa.Table, folder: Path, **arguments: Any) -> Any:
    extra = neighbour.slice(table.num_rows)
    given = {"epsilon": EPSILON, "delta": DELTA, "method": "independent", **arguments}
    one, two = put(table, folder), put(neighbour, folder)
    runs = (lambda: everything(one, extra, given), lambda: everything(two, extra, given))  # type: ignore[arg-type]
    return try_pair(*runs, CLAIM, runs=RUNS, rng=np.random.default_rng(0), failure=FAILURE)


def connected(table: pa.Table, folder: Path) -> DatabaseTable:
    """The table by a connection: the names of two files would tell them apart."""
    file = in_sqlite(table, folder).where.removeprefix("sqlite:///")
    return DatabaseTable(sqlite3.connect(file), "people")


@pytest.mark.slow
def test_a_run_without_a_schema_on_sqlite_tells_nothing_apart(tmp_path: Path) -> None:
    finding = audited(connected, *odd_row(), tmp_path)
    assert not finding.broken, finding


@pytest.mark.slow
def test_a_run_on_a_server_tells_nothing_apart(tmp_path: Path) -> None:
    case = CASES["declared columns"]
    finding = audited(in_postgres, case.table, case.neighbour, tmp_path, **case.arguments)
    assert not finding.broken, finding


def test_a_run_on_sqlite_tells_nothing_apart(tmp_path: Path) -> None:
    case = CASES["declared columns"]
    wide = pa.schema([(name, pa.int64()) for name in case.table.column_names])
    declared = Schema.from_sizes({"a": 1, "b": 2, "c": 2})
    finding = audited(connected, case.table.cast(wide), case.neighbour.cast(wide), tmp_path, schema=declared)
    assert not finding.broken, finding


@pytest.mark.slow
def test_a_run_without_a_schema_on_a_server_tells_nothing_apart(tmp_path: Path) -> None:
    finding = audited(in_postgres, *odd_row(), tmp_path)
    assert not finding.broken, finding


# Statements.


def plain(statement: str) -> str:
    """The statement without literals and without what stands in parentheses."""
    text = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "x", statement)
    while (shorter := re.sub(r"\([^()]*\)", " ", text)) != text:
        text = shorter
    return " ".join(text.split())


def returns_rows(statement: str) -> bool:
    """Whether a statement may return something of single rows: each of its parts must group, or count all."""
    parts = re.split(r"\bUNION ALL\b", re.sub(r"^WITH \w+ AS MATERIALIZED ", "", plain(statement)))
    return not all("GROUP BY" in part or re.match(r"^\s*SELECT (count|max) FROM", part) for part in parts)


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM t", "SELECT x FROM t WHERE y IN (SELECT count(*) FROM t GROUP BY z)"]
)
def test_a_statement_that_returns_rows_is_noticed(statement: str) -> None:
    assert returns_rows(statement)


def statements(name: str) -> list[str]:
    """The statements that the server was given of a table, as its log has them."""
    found = re.findall(r"LOG:  (?:statement|execute [^:]*): (.*?)(?=\n\d{4}-\d\d-\d\d |\Z)", log(), re.DOTALL)
    return [text for text in found if name in text]


@pytest.mark.parametrize("options", [{}, {"person": "who"}], ids=["rows", "persons"])
def test_the_servers_own_log_shows_no_statement_that_returns_rows(tmp_path: Path, options: dict[str, str]) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({
        "town": rng.choice(["Ox", "Rye", "secret place"], 400, p=[0.5, 0.49, 0.01]),
        "age": rng.integers(0, 90, 400),
        "who": [f"person {i}" for i in rng.integers(0, 300, 400)],
    })  # fmt: skip
    place = in_postgres(table, tmp_path)
    la.synthesize(place, method="mst", epsilon=2.0, ledger=tmp_path / "l.jsonl", **options)  # type: ignore[arg-type]
    given = [text for text in statements(place.name) if not text.startswith(("CREATE TABLE", "COPY"))]
    assert len(given) > 5
    read = [text for text in given if f'"{place.name}"' in text and "to_regclass" not in text]
    assert read
    assert [text[:200] for text in read if returns_rows(text)] == []
    listed = [text for text in read if "HAVING count(*) >= 10" in text]
    assert listed  # values are listed only where ten rows hold them
    assert all("HAVING" in text or re.match(r"^(WITH|SELECT \d+, cell|SELECT count)", text) for text in read)


def test_what_the_server_says_of_a_fault_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = in_postgres(pa.table({"a": ["secret"] * 3}), tmp_path)
    faulty = f"SELECT 0, (a)::int, 1 FROM {place.name}"
    monkeypatch.setattr(ServerTable, "statements", lambda *_: [faulty])
    with pytest.raises(RunStoppedError) as caught:
        la.synthesize(place, schema={"fields": [{"name": "a"}]}, method="independent", ledger=tmp_path / "l.jsonl")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    with admin() as connection, pytest.raises(Exception, match="secret"):
        connection.execute(faulty)


def test_the_journal_and_the_ledger_hold_no_password_host_or_user(tmp_path: Path) -> None:
    for put in DATABASES.values():
        place = put(pa.table({"a": ["x"] * 30}), tmp_path)
        ledger = tmp_path / f"{place.dialect}.jsonl"
        la.synthesize(place, schema={"fields": [{"name": "a", "constraints": {"enum": ["x"]}}]}, ledger=ledger)
        text = ledger.read_text()
        assert "postgres@" not in text
        assert "host" not in text
