"""Tables of databases: where they live, what is refused, what is never shown."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy

import lookalike as la
from lookalike.errors import InputError, SchemaError, SourceError
from lookalike.schema.binned import Datetime, Integer
from lookalike.schema.codec import encode_column
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources.base import View
from lookalike.sources.databases import DatabaseTable, check_new_table, write_into
from lookalike.sources.sql.dialects import OTHER_DIALECTS, rendered
from lookalike.sources.sql.engines import ServerTable
from lookalike.sources.sql.expressions import code_of
from lookalike.sources.sql.sessions import Field
from tests.databases import DATABASES, admin, in_duckdb, in_postgres, in_sqlite, server

PEOPLE = pa.table({"sex": ["F", "M", "M"] * 40, "age": pa.array([30, 40, 50] * 40, pa.int64())})
SCHEMA = Schema((Categorical("sex", values=("F", "M")), Integer("age", minimum=0, maximum=99, bins=10)))


@pytest.fixture(params=DATABASES)
def people(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseTable:
    return DATABASES[request.param](PEOPLE, tmp_path)


def test_a_release_has_the_columns_of_the_table(people: DatabaseTable, tmp_path: Path) -> None:
    release = la.synthesize(people, schema=SCHEMA, method="independent", ledger=tmp_path / "l.jsonl", epsilon=5.0)
    assert release.table.schema.names == ["sex", "age"]
    release.fitted.save(tmp_path / "m.lookalike")
    assert la.load(tmp_path / "m.lookalike").sample(5).num_rows == 5


def test_columns_can_be_dropped(people: DatabaseTable) -> None:
    assert DatabaseTable(people.where, people.name, ("sex",)).structure().names == ["age"]
    with pytest.raises(InputError, match="no column 'salary' to drop"):
        DatabaseTable(people.where, people.name, ("salary",)).structure()


def test_a_table_that_does_not_exist_is_refused(people: DatabaseTable) -> None:
    with pytest.raises(InputError, match="no table nobody"):
        DatabaseTable(people.where, "nobody").structure()
    with pytest.raises(InputError, match="No table was named"):
        DatabaseTable(people.where, " ")


def test_an_empty_table_and_a_view(tmp_path: Path) -> None:
    for put in DATABASES.values():
        empty = put(PEOPLE.slice(0, 0), tmp_path)
        ledger = tmp_path / f"{empty.dialect}.jsonl"
        assert la.synthesize(empty, schema=SCHEMA, method="independent", ledger=ledger).rows.num_rows >= 1
    place = in_postgres(PEOPLE, tmp_path)
    with admin() as connection:
        connection.execute(f"CREATE VIEW older AS SELECT * FROM {place.name} WHERE age > 35")
    scanner = DatabaseTable(server(), "older").scanner()
    assert scanner.scan(View.of(SCHEMA.columns), [("sex",)])[0].tolist() == [0, 80, 0]
    scanner.close()


def test_nothing_is_shown_or_pickled(people: DatabaseTable, tmp_path: Path) -> None:
    scanner = people.scanner()
    shown = repr(people) + repr(scanner) + repr(scanner._rows.session)
    assert str(tmp_path) not in shown
    assert "host" not in shown
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(scanner)
    scanner.close()


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/d", "postgresql://u@h/d?password=secret"])
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="holds a password") as caught:
        DatabaseTable(url, "t")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://h/d", "begins with one of"),
        ("sqlite:///nowhere.db", "no database file"),
        ("sqlite://nowhere.db", "for a path from here"),
        ("postgresql://localhost:1/none?connect_timeout=1", "Cannot connect"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DatabaseTable(url, "t").structure()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, but a secret")
    for kind in ("duckdb", "sqlite"):
        with pytest.raises(InputError) as caught:
            DatabaseTable(f"{kind}:///{tmp_path}/x.db", "t").structure()
        assert "secret" not in str(caught.value)


# Ledgers.


def test_every_spelling_has_one_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = in_sqlite(PEOPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    file = Path(place.where.removeprefix("sqlite:///")).name
    (tmp_path / "link.db").symlink_to(tmp_path / file)
    spelled = [("sqlite:///" + file, "PEOPLE"), ("sqlite:///./link.db", "main.people"), (place.where, '"people"')]
    assert {DatabaseTable(*pair).identity for pair in spelled} == {place.identity}
    wide = in_postgres(PEOPLE, tmp_path)
    with admin() as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f"GRANT SELECT ON {wide.name} TO reader")
    other = server().replace("postgres@", "reader@")
    names = [wide.name.upper(), f"public.{wide.name}", f'"public"."{wide.name}"']
    assert {DatabaseTable(other, name).identity for name in names} == {wide.identity}
    assert "reader" not in str(wide.identity)
    release = la.synthesize(DatabaseTable(other, names[0]), schema=SCHEMA, method="mst", ledger=tmp_path / "l.jsonl")
    assert release.spent.private  # a role that may only select suffices


def test_making_a_table_again_keeps_its_ledger(tmp_path: Path) -> None:
    place = in_postgres(PEOPLE, tmp_path)
    with admin() as connection:
        connection.execute(f"DROP TABLE {place.name}")
        connection.execute(f"CREATE TABLE {place.name} (other int)")
    assert DatabaseTable(place.where, place.name).identity == place.identity


# Python: engines and connections.


def test_sqlalchemy_engines_and_connections(tmp_path: Path) -> None:
    lite, wide, duck = in_sqlite(PEOPLE, tmp_path), in_postgres(PEOPLE, tmp_path), in_duckdb(PEOPLE, tmp_path)
    identities = {place.dialect: place.identity for place in (lite, wide, duck)}
    engine = sqlalchemy.create_engine(lite.where)
    posted = sqlalchemy.create_engine(server().replace("postgresql://", "postgresql+psycopg://"))
    with psycopg.connect(server()) as one, duckdb.connect(duck.where.removeprefix("duckdb:///")) as two:
        for where, name in ((engine, "people"), (posted, wide.name), (one, wide.name), (two, "people")):
            place = DatabaseTable(where, name)
            assert place.structure().names == ["sex", "age"]
            scanner = place.scanner()
            assert scanner.scan(View.of(SCHEMA.columns), [("sex",)])[0].tolist() == [40, 80, 0]
            scanner.close()
            assert place.identity == identities[place.dialect]
    engine.dispose()
    posted.dispose()


def test_a_connection_in_memory_has_no_ledger_of_its_own() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a INTEGER)")
    connection.commit()
    assert DatabaseTable(connection, "t").identity is None
    release = la.synthesize(DatabaseTable(connection, "t"), schema={"a": 2}, method="independent")
    assert release.table.schema.names == ["a"]


def test_a_connection_inside_a_transaction_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (a INTEGER)")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(InputError, match="inside a transaction"):
        DatabaseTable(connection, "t").scanner()
    connection.close()


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match="Cannot read a table through dict"):
        DatabaseTable({}, "t").structure()


# Rows written back.


def some_parts(number: int, then: Exception | None = None) -> Iterator[pa.Table]:
    """Tables that are made one by one, and a fault after the last if there is one."""
    for _ in range(number):
        yield PEOPLE
    if then is not None:
        raise then


def count_in(where: Any, name: str) -> int:
    place = DatabaseTable(where, name)
    scanner = place.scanner()
    found = int(scanner.scan(View.of(SCHEMA.columns), [()])[0])
    scanner.close()
    return found


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A database to write to: a file that is not there yet, or a server without the table."""
    if request.param != "postgres":
        return f"{request.param}:///{tmp_path}/made.db"
    with admin() as connection:
        connection.execute("DROP TABLE IF EXISTS made")
    return server()


def test_rows_are_written_part_by_part(target: str) -> None:
    write_into(some_parts(3), target, "made")
    assert count_in(target, "made") == 3 * PEOPLE.num_rows
    with pytest.raises(InputError, match="exists already"):
        write_into(some_parts(1), target, "made")
    assert count_in(target, "made") == 3 * PEOPLE.num_rows


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), InputError("no more")], ids=["interrupt", "fault"])
def test_a_table_that_is_not_finished_is_not_there(target: str, fault: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(fault)):
        write_into(some_parts(2, fault), target, "made")
    check_new_table(target, "made")
    assert list(tmp_path.iterdir()) == []  # neither a file nor what was a trial


def test_a_fault_of_the_database_is_one_message(target: str) -> None:
    odd = pa.table({"sex": ["F"], "age": ["my secret"]})  # no whole number
    tables = [PEOPLE, odd if target.startswith("postgres") else pa.table({"sex": ["F"]})]
    with pytest.raises(InputError, match="could not be written; nothing of it is left") as caught:
        write_into(tables, target, "made")
    assert "my secret" not in str(caught.value)
    write_into([PEOPLE], target, "made")


def test_engines_and_connections_are_written_through(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/made.db")
    write_into([PEOPLE], engine, "made")
    assert count_in(engine, "made") == PEOPLE.num_rows
    engine.dispose()
    with admin() as connection:
        connection.execute("DROP TABLE IF EXISTS made")
        other = psycopg.connect(server(), cursor_factory=PlainCursor)
        write_into([PEOPLE], other, "made")
        other.close()
    assert count_in(server(), "made") == PEOPLE.num_rows


class PlainCursor(psycopg.Cursor[Any]):
    """A cursor as drivers without COPY have it."""

    @property
    def copy(self) -> Any:
        raise AttributeError


# Faults.


def test_no_permission_is_one_message(tmp_path: Path) -> None:
    place = in_postgres(PEOPLE, tmp_path)
    with admin() as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN")
    with pytest.raises(InputError, match="No permission to read"):
        DatabaseTable(server().replace("postgres@", "stranger@"), place.name).structure()


@pytest.mark.parametrize("fault", ["lost", "timeout"])
def test_a_lost_connection_and_a_timeout_cost_nothing_more(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = in_postgres(PEOPLE, tmp_path)
    scanner: Any = place.scanner()
    session = scanner._rows.session
    if fault == "lost":
        with admin() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [session.connection.info.backend_pid])
    else:
        session.fetch("SET LOCAL statement_timeout = 1")
        monkeypatch.setattr(ServerTable, "statements", lambda *_: ["SELECT pg_sleep(5)"])
    message = "connection to the database was lost" if fault == "lost" else "time limit"
    with pytest.raises(SourceError, match=message) as caught:
        scanner.scan(View.of(SCHEMA.columns), [("sex",)])
    assert caught.value.__cause__ is None
    assert "resume" in str(caught.value)
    scanner.close()


def test_a_run_that_loses_its_connection_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, ledger, scan = in_postgres(PEOPLE, tmp_path), tmp_path / "l.jsonl", ServerTable.scan
    asked: list[Any] = []

    def broken(self: Any, view: View, sets: Any) -> Any:
        asked.append(sets)
        if len(asked) == 1:
            with admin() as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", [self._rows.session.connection.info.backend_pid])
        return scan(self, view, sets)

    monkeypatch.setattr(ServerTable, "scan", broken)
    with pytest.raises(SourceError):
        la.synthesize(place, schema=SCHEMA, method="mst", ledger=ledger)
    spent = la.Ledger(ledger, place.identity or "").runs()[0]
    assert "stopped" not in {charge.step for charge in spent.charges}
    assert la.resume(place, ledger=ledger).table.num_rows > 0
    assert len(la.Ledger(ledger, place.identity or "").runs()) == 1


def test_others_writing_during_a_run_do_not_show(people: DatabaseTable) -> None:
    if people.dialect == "duckdb":
        pytest.skip("DuckDB lets no other process write to a file that is open")
    scanner = people.scanner()
    before = scanner.scan(View.of(SCHEMA.columns), [("sex",)])[0].tolist()
    if people.dialect == "postgres":
        with admin() as connection:
            connection.execute(f"DELETE FROM {people.name}")
    else:
        file = people.where.removeprefix("sqlite:///")
        # Locked: the reader comes first.
        with suppress(sqlite3.OperationalError), sqlite3.connect(file, timeout=0.1) as connection:
            connection.execute("DELETE FROM people")
    assert scanner.scan(View.of(SCHEMA.columns), [("sex",)])[0].tolist() == before
    scanner.close()


def test_types_that_cannot_be_synthesized_are_named(tmp_path: Path) -> None:
    with admin() as connection:
        connection.execute("DROP TABLE IF EXISTS odd")
        connection.execute("CREATE TABLE odd (a int, b jsonb, c numeric, d numeric(8, 3), e varchar(3), f uuid)")
    with pytest.raises(InputError, match="Column 'b' has type jsonb"):
        DatabaseTable(server(), "odd").structure()
    kinds = DatabaseTable(server(), "odd", ("b",)).structure()
    assert [str(kind) for kind in kinds.types] == ["int32", "double", "decimal128(8, 3)", "string", "string"]


def test_an_enumeration_lists_its_values(tmp_path: Path) -> None:
    with admin() as connection:
        connection.execute("DROP TABLE IF EXISTS moods; DROP TYPE IF EXISTS mood")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s ok')")
        connection.execute("CREATE TABLE moods (m mood)")
    drafted = la.inspect.__globals__["as_schema"](None, DatabaseTable(server(), "moods"))
    assert drafted["m"].values == ("sad", "it's ok")


def test_rows_are_refused_before_anything_is_charged(people: DatabaseTable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="looks at single rows"):
        la.synthesize(people, schema=SCHEMA, method="dp-wgan", ledger=tmp_path / "l.jsonl")
    assert not (tmp_path / "l.jsonl").exists()


def test_what_a_server_cannot_encode_is_refused_uncharged(tmp_path: Path) -> None:
    place = in_postgres(PEOPLE, tmp_path)
    strict = Schema((Categorical("sex", values=("F", "M"), outside="error"), SCHEMA.columns[1]))
    with pytest.raises(SchemaError, match="outside: error"):
        la.synthesize(place, schema=strict, method="independent", ledger=tmp_path / "l.jsonl")
    assert la.Ledger(tmp_path / "l.jsonl", place.identity or "").runs()[0].charges == ()


# Hostile values.


def test_values_of_any_type_in_a_column_of_sqlite(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (text TEXT, number INTEGER, flag BOOLEAN, real REAL, any)")
    odd = ["x", "1", 1, 2.5, None, b"\xff\x00", "\udcff".encode("utf-8", "surrogatepass"), 2**62, -1.0]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(v, v, v, v, v) for v in odd])
    connection.execute("UPDATE t SET text = CAST(X'ff' AS TEXT) WHERE rowid = 1")
    connection.commit()
    connection.close()
    place = DatabaseTable(f"sqlite:///{tmp_path}/t.db", "t")
    scanner = place.scanner()
    columns = (
        Categorical("text", values=("x",)),
        Integer("number", minimum=0, maximum=9, bins=2),
        Categorical("flag", values=("true", "false"), missing=("",)),
        Categorical("any", values=("x",)),
    )
    for counts in scanner.scan(View.of(columns), [(column.name,) for column in columns]):
        assert counts.sum() == len(odd)
    scanner.close()


# Other dialects, as text.


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
def test_lists_are_rendered_in_other_dialects(dialect: str) -> None:
    column = Categorical("x", values=tuple(f"v{i}" for i in range(12)), missing=("", "NA"))
    text = rendered(code_of(column, Field("x", pa.string(), '"x"')), dialect)
    assert "v11" in text
    assert 'COLLATE "C"' not in text or dialect == "duckdb"
    if dialect == "duckdb":
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT unnest(['v0', 'v11', 'NA', NULL, 'V0', 'v0 ']) AS x")
            found = connection.execute(f"SELECT {text} FROM t").fetchall()
        assert [code for (code,) in found] == [0, 11, 14, 13, 12, 12]
    if dialect == "sqlite":
        lite = sqlite3.connect(":memory:")
        lite.execute("CREATE TABLE t (x TEXT COLLATE NOCASE)")
        lite.executemany("INSERT INTO t VALUES (?)", [(v,) for v in ("v0", "v11", "NA", None, "V0", "v0 ")])
        assert [code for (code,) in lite.execute(f"SELECT {text} FROM t")] == [0, 11, 14, 13, 12, 12]


NUMBERS = (Integer("x", minimum=0, maximum=99, bins=4, missing=("", "-1")), "INTEGER", [-5, 24, 25, 99, 500, None, -1])
DAYS = (Datetime("x", minimum="2020-01-01", maximum="2020-12-31", bins=4), "DATE", ["2020-03-31", "2020-04-01", None])


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
@pytest.mark.parametrize(("column", "name", "values"), [NUMBERS, DAYS], ids=["numbers", "days"])
def test_bins_are_rendered_in_other_dialects(dialect: str, column: Any, name: str, values: list[Any]) -> None:
    """On DuckDB and SQLite, of which SQLite has no days, the codes are those of the codec."""
    kind = pa.int64() if name == "INTEGER" else pa.date32()
    text = rendered(code_of(column, Field("x", kind, '"x"')), dialect)
    assert "width_bucket" not in text.lower()
    assert text.count("<") == 3
    if dialect == "duckdb" or (dialect == "sqlite" and name == "INTEGER"):
        connection: Any = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
        connection.execute(f"CREATE TABLE t (x {name})")
        connection.executemany("INSERT INTO t VALUES (?)", [(v,) for v in values])
        found = connection.execute(f"SELECT {text} FROM t").fetchall()
        wanted = encode_column(column, pa.array(values).cast(kind))
        assert [code for (code,) in found] == wanted.tolist()


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [
        ("mysql", "CASE WHEN CAST(`x` AS BINARY) = 'it''s' THEN 0 ELSE 1 END"),
        ("snowflake", r"""CASE WHEN COLLATE("x", 'utf8') = 'it\'s' THEN 0 ELSE 1 END"""),
        ("bigquery", r"CASE WHEN COLLATE(`x`, '') = 'it\'s' THEN 0 ELSE 1 END"),
        ("tsql", "CASE WHEN ([x] + NCHAR(1)) COLLATE Latin1_General_100_BIN2 = N'it''s' + NCHAR(1) THEN 0 ELSE 1 END"),
    ],
)
def test_texts_of_other_dialects(dialect: str, wanted: str) -> None:
    column = Categorical("x", values=("it's",))
    assert rendered(code_of(column, Field("x", pa.string(), '"x"')), dialect) == wanted


def test_what_only_postgres_has_is_not_rendered() -> None:
    column = Integer("x", minimum=0, maximum=9, bins=3)  # of texts, which are read by patterns
    with pytest.raises(SchemaError, match="PostgreSQL alone"):
        rendered(code_of(column, Field("x", pa.string(), '"x"')), "mysql")
