"""Synthetic rows into a new table of a database: by COPY, or in batches, completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from lookalike.errors import InputError, MissingExtraError
from lookalike.schema.storage import value_type
from lookalike.sources.databases import IN_PROCESS, SCHEMES, check_password, file_of
from lookalike.sources.sql.connections import name_parts
from lookalike.sources.sql.sessions import dialect_of, quoted

_TYPES = {
    "string": "text", "large_string": "text", "double": "double precision", "float": "real", "int64": "bigint",
    "int32": "integer", "int16": "smallint", "int8": "smallint", "uint8": "smallint", "uint16": "integer",
    "uint32": "bigint", "uint64": "numeric(20)", "bool": "boolean", "date32[day]": "date", "time64[us]": "time",
}  # fmt: skip
"""Types of columns by those of Arrow; SQLite takes any name."""
_BATCH = 10_000
_SIDE_FILES = ("", "-journal", "-wal", "-shm", ".wal")
"""Ends of the names of the files of a database that is one: itself, and what SQLite and DuckDB keep beside it."""


def write_rows(tables: Iterable[pa.Table], where: Any, name: str) -> None:
    """Write tables of the same columns, one after the other, into a new one of a database.

    Args:
        tables: synthetic rows; at least one table. They are made while they are written, and only one is held.
        where: a URL, a SQLAlchemy engine or a DBAPI connection with the right to create tables.
        name: the new table as SQL names it. A table that exists already is refused.
    """
    dialect = SCHEMES[where.partition(":")[0]] if isinstance(where, str) else dialect_of(where)
    path = ".".join(quoted(part) for part in name_parts(name))
    remaining = iter(tables)
    first = next(remaining)
    listed = ", ".join(f"{quoted(field.name)} {_type(field.type)}" for field in first.schema)
    with _connected(where, dialect, name) as cursor:
        with _refusing(name):
            cursor.execute(f"CREATE TABLE {path} ({listed})")
        for table in chain([first], remaining):
            with _refusing(name):
                _insert(cursor, dialect, path, table)


def _insert(cursor: Any, dialect: str, path: str, table: pa.Table) -> None:
    if dialect == "duckdb":
        cursor.register("lookalike_made", table)
        cursor.execute(f"INSERT INTO {path} SELECT * FROM lookalike_made")
        cursor.unregister("lookalike_made")
    elif hasattr(cursor, "copy"):  # psycopg
        with cursor.copy(f"COPY {path} FROM STDIN") as copy:
            for row in _rows(table):
                copy.write_row(row)
    else:
        marks = ", ".join(["%s" if dialect == "postgres" else "?"] * table.num_columns)
        rows = _rows(table) if dialect == "postgres" else ([_plain(value) for value in row] for row in _rows(table))
        cursor.executemany(f"INSERT INTO {path} VALUES ({marks})", rows)


class _UndoneError(Exception):
    """Takes back a transaction that was only a trial."""


def check_new(where: str, name: str) -> None:
    """Refuse a table that cannot be created, by creating it in a transaction that is taken back."""
    path = ".".join(quoted(part) for part in name_parts(name))
    try:
        with _connected(where, SCHEMES[where.partition(":")[0]], name) as cursor:
            with _refusing(name):
                cursor.execute(f"CREATE TABLE {path} (x integer)")
            raise _UndoneError
    except _UndoneError:
        return


def _type(kind: pa.DataType) -> str:
    value = value_type(kind)
    if pa.types.is_decimal(value):
        return f"numeric({value.precision}, {value.scale})"
    if pa.types.is_timestamp(value):
        return "timestamp with time zone" if value.tz else "timestamp"
    return _TYPES.get(str(value), "text")


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(_BATCH):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _plain(value: Any) -> Any:
    """A value that SQLite can hold: decimals and times are texts there."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@contextmanager
def _connected(where: Any, dialect: str, name: str) -> Iterator[Any]:
    """A cursor in one transaction, which is taken back if anything fails; a file that was made for it, too."""
    made = _new_file(where, dialect) if isinstance(where, str) else None
    opened, connection = _connection(where, dialect)
    try:
        cursor = connection if dialect == "duckdb" else connection.cursor()
        if dialect in IN_PROCESS and not getattr(connection, "in_transaction", False):
            cursor.execute("BEGIN")
        yield cursor
        with _refusing(name):
            connection.commit()
        made = None
    except BaseException:
        with suppress(Exception):  # the connection may be lost
            connection.rollback()
        raise
    finally:
        if opened is not None:
            opened.close()
        if made is not None:
            for end in _SIDE_FILES:
                made.with_name(made.name + end).unlink(missing_ok=True)


def _connection(where: Any, dialect: str) -> tuple[Any, Any]:
    """What is to be closed afterwards, and the connection of the driver; that of the user stays open."""
    if isinstance(where, str):
        opened = _opened(where, dialect)
        return opened, opened
    if hasattr(where, "raw_connection"):  # an engine of SQLAlchemy lends one of its pool
        lent = where.raw_connection()
        return lent, lent.driver_connection
    return None, where


def _new_file(url: str, dialect: str) -> Path | None:
    """The file of a database that does not exist yet, None for others."""
    check_password(url)
    file = file_of(url) if dialect in IN_PROCESS else None
    return file if file is not None and not file.exists() else None


def _opened(url: str, dialect: str) -> Any:
    try:
        if dialect == "postgres":
            import psycopg

            return psycopg.connect(url, application_name="lookalike")
        if dialect == "duckdb":
            import duckdb

            return duckdb.connect(str(file_of(url)))
    except ImportError as error:
        raise MissingExtraError(str(error.name), "sql", "Writing to this database") from None
    except Exception:  # noqa: BLE001 - drivers have classes of their own
        raise InputError("Cannot connect to the database to write to. Check the URL and the password.") from None
    import sqlite3

    return sqlite3.connect(file_of(url))


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - drivers have classes of their own
        state, text = str(getattr(error, "sqlstate", None) or ""), str(error)
        if state == "42P07" or "already exists" in text:
            raise InputError(f"The table {name} exists already. Give --out-table another name.") from None
        if state == "42501":
            raise InputError(f"No permission to create {name}. Ask for CREATE on its schema.") from None
        raise InputError(
            f"The table {name} could not be written; nothing of it is left. Check the connection and its disk."
        ) from None
