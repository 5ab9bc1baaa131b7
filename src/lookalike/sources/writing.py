"""Writes synthetic rows to files of the kinds that are read, by suffix, and to new tables of databases.

A file is written under a temporary name, then renamed; rows go into a database in one transaction, by COPY or in
batches. So a table is written completely or not at all.
"""

from __future__ import annotations

import bz2
import gzip
import os
import secrets
import shutil
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError, MissingExtraError
from lookalike.schema.documents import write_whole
from lookalike.schema.storage import value_type
from lookalike.sources import jsonlines, office
from lookalike.sources.csvfiles import CsvStyle, write_csv
from lookalike.sources.databases import IN_PROCESS, SCHEMES, check_password, file_of
from lookalike.sources.files import STANDARD, is_tsv, kind_of_path, reason_of
from lookalike.sources.sql.connections import name_parts
from lookalike.sources.sql.sessions import dialect_of, quoted


def write_table(table: pa.Table, path: str | os.PathLike[str], **settings: Any) -> None:
    """Write one table to a file; see `write_tables`."""
    write_tables([table], path, **settings)


def write_tables(
    tables: Iterable[pa.Table],
    path: str | os.PathLike[str],
    *,
    csv: CsvStyle | None = None,
    escape_formulas: bool = False,
    numbers: Collection[str] = (),
    times: Collection[str] = (),
) -> None:
    """Write tables of the same columns, one after the other, to a file of the kind that its name shows.

    "-" is standard output, in CSV. With a star in the name, as in people/part-*.parquet, each table becomes a file of
    its own in a new folder. A file or folder is there only when it is complete.

    Args:
        tables: the rows; at least one table.
        path: the file.
        csv: delimiter and line ends of the table that was read, for a CSV file of the same kind.
        escape_formulas: put an apostrophe before texts of a CSV file that a spreadsheet would take for formulas.
        numbers: columns of texts that hold numbers or truth values, for formats that distinguish these from texts.
        times: columns of texts that hold days or times, for sheets, which distinguish these from texts.
    """
    target = Path(path)
    if "*" in target.name:
        settings = {"csv": csv, "escape_formulas": escape_formulas, "numbers": numbers, "times": times}
        _write_folder(target, lambda number, file: write_table(number, file, **settings), tables)
        return
    kind = kind_of_path(target)

    def write(stream: BinaryIO) -> None:
        if kind == "csv":
            write_csv(tables, stream, _style(target, csv), escape_formulas=escape_formulas)
        elif kind == "parquet":
            _write_parquet(tables, stream)
        elif kind == "jsonl":
            for table in tables:
                jsonlines.write_lines(table, stream, numbers)
        elif kind == "feather":
            feather.write_feather(pa.concat_tables(tables), stream)
        else:
            office.write(pa.concat_tables(tables), stream, target, kind, numbers, times)

    if target == STANDARD:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    write_file(target, lambda stream: _packing(stream, target, write))


def _write_parquet(tables: Iterable[pa.Table], stream: BinaryIO) -> None:
    remaining = iter(tables)
    first = next(remaining)
    with parquet.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], remaining):
            writer.write_table(table)


def _write_folder(target: Path, write: Callable[[pa.Table, Path], None], tables: Iterable[pa.Table]) -> None:
    """Write each table to a file of its own in a new folder, which gets its name when all are there."""
    folder = target.parent
    if folder.exists():
        raise InputError(f"The folder {folder} exists already. Name a new folder for the parts of the table.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        temporary.mkdir()
        for number, table in enumerate(tables):
            write(table, temporary / target.name.replace("*", f"{number:05}"))
        os.replace(temporary, folder)
    except OSError as error:
        raise InputError(f"Cannot write {folder}: {reason_of(error)}. Choose another place, or make room.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _style(target: Path, read: CsvStyle | None) -> CsvStyle:
    """How a CSV file is written: as the one that was read, but .tsv files with tabs."""
    style = read or CsvStyle()
    return replace(style, delimiter="\t") if is_tsv(target) else style


def _packing(stream: BinaryIO, target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write through the compression that the name of a file ends in."""
    name = target.name.lower()
    if name.endswith(".gz"):
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as inner:
            write(cast(BinaryIO, inner))
    elif name.endswith(".bz2"):
        with bz2.BZ2File(stream, "wb") as inner:
            write(cast(BinaryIO, inner))
    elif name.endswith(".zst"):
        with pa.CompressedOutputStream(pa.PythonFile(_NeverClosed(stream), "w"), "zstd") as inner:
            write(cast(BinaryIO, inner))
    elif name.endswith(".zip"):
        member = zipfile.ZipInfo(target.name[: -len(".zip")])  # without the time of day
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(member, "w") as inner:
            write(cast(BinaryIO, inner))
    else:
        write(stream)


class _NeverClosed:
    """A stream that Arrow cannot close: it is synchronised with the disk before it is."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.write, self.flush = stream.write, stream.flush

    def close(self) -> None:
        """Do nothing."""


def write_file(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all, by `write` on its stream; an InputError says why it could not be."""
    try:
        write_whole(target, write)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {reason_of(error)}. Choose another place, or make room.") from None


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
    """Raised to undo a transaction that was only a trial."""


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
    """Return what must be closed afterwards, and the driver's connection; a connection of the user stays open."""
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
