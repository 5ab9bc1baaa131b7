"""Connections to DuckDB and SQLite, which run inside this process on a file, and to PostgreSQL: their catalogues,
snapshots, and the messages of connections that fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookalike.errors import InputError, MissingExtraError
from lookalike.sources.databases import file_of
from lookalike.sources.sql.sessions import Field, Session, quoted, unreadable
from lookalike.sources.sql.texts import safe_float

if TYPE_CHECKING:
    from lookalike.sources.databases import DatabaseTable


_DUCK_KINDS = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"), "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"), "TIME": pa.time64("us"), "VARCHAR": pa.string(),
}  # fmt: skip
_DUCK_TABLES = """
SELECT database_name, schema_name, table_name FROM (
    SELECT database_name, schema_name, table_name FROM duckdb_tables()
    UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal)
WHERE lower(table_name) = lower(?)
"""


class DuckDB(Session):
    """A connection to DuckDB, which runs inside this process."""

    dialect = "duckdb"

    @staticmethod
    def connected(place: DatabaseTable) -> Any:
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("duckdb", "sql", "Reading a table of DuckDB") from None
        try:
            return duckdb.connect(str(file_of(place.where)), read_only=True)
        except duckdb.Error:
            raise InputError(
                "The file cannot be opened as a DuckDB database: it is damaged, of another version, or open for "
                "writing elsewhere."
            ) from None

    def fetch(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, list(parameters) or None).fetchall()

    def find(self, name: str) -> tuple[str, ...]:
        parts = name_parts(name)
        found = [row for row in self.fetch(_DUCK_TABLES, parts[-1]) if _ends_with(row, parts)]
        return only_one(found, name)

    def columns(self) -> list[tuple[Any, ...]]:
        return self.fetch(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? AND "
            "table_name = ? ORDER BY column_index",
            *self.path,
        )

    def field(self, name: str, *described: Any) -> Field:
        return _duck_field(name, *described)

    def identity(self) -> str | None:
        found = self.fetch("SELECT path FROM duckdb_databases() WHERE database_name = ?", self.path[0])
        path = found[0][0] if found else None
        return f"duckdb:{Path(path).resolve()}/{'.'.join(map(quoted, self.path[1:]))}" if path else None

    def in_transaction(self) -> bool:
        try:
            self.fetch("BEGIN TRANSACTION")
        except Exception:  # noqa: BLE001 - there is one already
            return True
        self.fetch("ROLLBACK")
        return False

    def begin(self) -> None:
        with self.opening():
            self.fetch("BEGIN TRANSACTION READ ONLY")


def _duck_field(name: str, kind: str) -> Field:
    if kind in _DUCK_KINDS:
        return Field(name, _DUCK_KINDS[kind], quoted(name))
    if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        return Field(name, pa.decimal128(int(found[1]), int(found[2])), quoted(name))
    if kind == "UUID" or kind.startswith("ENUM("):
        values = tuple(text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", kind))
        return Field(name, pa.string(), f"CAST({quoted(name)} AS VARCHAR)", values)
    raise unreadable(name, kind.partition("(")[0])


# SQLite.


class SQLite(Session):
    """A connection to SQLite, which runs inside this process and whose columns may hold values of any type."""

    dialect = "sqlite"

    @staticmethod
    def connected(place: DatabaseTable) -> Any:
        import sqlite3

        path = file_of(place.where).resolve()
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)

    def find(self, name: str) -> tuple[str, ...]:
        parts = name_parts(name)
        schemas = [row[1] for row in self.fetch("PRAGMA database_list")]
        tables = [
            (schema, table)
            for schema in schemas
            for (table,) in self.fetch(
                f"SELECT name FROM {quoted(schema)}.sqlite_master WHERE type IN ('table', 'view')"
            )
            if table.lower() == parts[-1].lower()
        ]
        return only_one([path for path in tables if _ends_with(path, parts)], name)

    def columns(self) -> list[tuple[Any, ...]]:
        listed = self.fetch(f"PRAGMA {quoted(self.path[0])}.table_xinfo({quoted(self.path[1])})")
        return [(row[1], row[2]) for row in listed if row[6] != 1]

    def field(self, name: str, *described: Any) -> Field:
        return Field(name, sqlite_kind(*described), quoted(name))

    def identity(self) -> str | None:
        files = {row[1]: row[2] for row in self.fetch("PRAGMA database_list")}
        path = files.get(self.path[0])
        return f"sqlite:{Path(path).resolve()}/{quoted(self.path[1])}" if path else None

    def begin(self) -> None:
        with self.opening():
            self.fetch("BEGIN")
            self.fetch(f"SELECT count(*) FROM {self.table} WHERE 0")


def sqlite_kind(declared: str) -> pa.DataType:
    """The type that a declaration means, by SQLite's own rules of affinity; dates and times are texts there.

    >>> [str(sqlite_kind(text)) for text in ("INT", "VARCHAR(9)", "DOUBLE", "BOOLEAN", "DATE", "NUMERIC", "")]
    ['int64', 'string', 'double', 'bool', 'string', 'double', 'string']
    """
    name = declared.upper()
    if "INT" in name:
        return pa.int64()
    if "BOOL" in name:
        return pa.bool_()
    if any(part in name for part in ("CHAR", "CLOB", "TEXT", "BLOB", "DATE", "TIME")) or not name:
        return pa.string()
    return pa.float64()


def name_parts(name: str) -> list[str]:
    """The parts of a table's name, without quotes.

    >>> name_parts('clinic."Old.visits"')
    ['clinic', 'Old.visits']
    """
    parts = [part.replace('""', '"') or bare for part, bare in re.findall(r'"((?:[^"]|"")+)"|([^".]+)', name)]
    if not parts:
        raise InputError(f"{name!r} is not the name of a table. Write SCHEMA.NAME, each in double quotes if need be.")
    return parts


def _ends_with(path: tuple[str, ...], parts: list[str]) -> bool:
    return [part.lower() for part in path[-len(parts) :]] == [part.lower() for part in parts]


def only_one(found: list[tuple[str, ...]], name: str) -> tuple[str, ...]:
    """The one table that was found; an InputError where there is none, or where there are several."""
    if not found:
        raise InputError(
            f"There is no table {name} in this database. Check its spelling; write SCHEMA.NAME if need be."
        )
    if len(found) > 1:
        raise InputError(f"There are {len(found)} tables {name} in this database. Write SCHEMA.NAME.")
    return found[0]


_PG_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_PG_COLUMNS = """
SELECT a.attname, COALESCE(b.typname, t.typname), COALESCE(b.typtype, t.typtype), COALESCE(b.oid, t.oid)::bigint,
       CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
     LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_PG_KINDS = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us"), "time": pa.time64("us"),
}  # fmt: skip
_PG_TEXTS = ("text", "varchar", "bpchar", "citext", "uuid", "name")
_PG_SETTINGS = ("TimeZone = 'UTC'", "standard_conforming_strings = on", "jit = off", "work_mem = '64MB'")


class Postgres(Session):
    """A connection to PostgreSQL, by psycopg or any other driver."""

    dialect = "postgres"

    @staticmethod
    def connected(place: DatabaseTable) -> Any:
        """A connection of psycopg, which finds a password in PGPASSWORD, a password file or a service file."""
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError("psycopg", "sql", "Reading a table of PostgreSQL") from None
        given: dict[str, Any] = {"application_name": "lookalike", "autocommit": True}
        for password in ({}, {"password": place.ask_password}):
            try:
                asked: dict[str, Any] = {key: value() for key, value in password.items() if value is not None}
                return psycopg.connect(place.where, **given, **asked)
            except psycopg.Error as error:
                wanted = getattr(error, "pgconn", None) is not None and bool(
                    error.pgconn and error.pgconn.needs_password
                )
                message = _connection_message(error, wanted=wanted)
            if not wanted or place.ask_password is None:
                break
        raise InputError(message)

    def find(self, name: str) -> tuple[str, ...]:
        try:
            found = self.fetch(_PG_TABLE, name)
        except Exception as error:
            if str(getattr(error, "sqlstate", "") or getattr(error, "pgcode", ""))[:2] not in ("42", "22"):
                raise
            found = []
        if not found or found[0][3] not in ("r", "p", "v", "m", "f", b"r", b"p", b"v", b"m", b"f"):
            raise InputError(f"There is no table {name} in this database. Give --table SCHEMA.NAME as SQL writes it.")
        _, schema, table, _, readable = found[0]
        if not readable:
            raise InputError(f"No permission to read {name}. Ask for SELECT on it; nothing more is needed.")
        return schema, table

    def columns(self) -> list[tuple[Any, ...]]:
        return self.fetch(_PG_COLUMNS, self.table)

    def field(self, name: str, *described: Any) -> Field:
        kind, sort, oid, modifier = described
        value = quoted(name)
        if kind in _PG_KINDS:
            return Field(name, _PG_KINDS[kind], value)
        if kind == "timestamptz":
            return Field(name, pa.timestamp("us", tz="UTC"), f"({value} AT TIME ZONE 'UTC')")
        if kind == "numeric":
            precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
            if modifier >= 0 and precision <= 38 and scale <= precision:
                # Even such a column may hold NaN, which no decimal of Arrow is: it counts as missing.
                return Field(name, pa.decimal128(precision, scale), f"NULLIF({value}, 'NaN')")
            return Field(name, pa.float64(), safe_float(value))
        if kind in _PG_TEXTS:
            return Field(name, pa.string(), f"({value})::text")
        if sort in ("e", b"e"):
            labels = self.fetch("SELECT enumlabel FROM pg_enum WHERE enumtypid = %s ORDER BY enumsortorder", oid)
            return Field(name, pa.string(), f"({value})::text", tuple(label for (label,) in labels))
        raise unreadable(name, kind)

    def identity(self) -> str:
        with self.opening():
            rows = self.fetch("SELECT system_identifier::text, current_database() FROM pg_control_system()")
        system, database = rows[0]
        return f"postgresql:{system}/{quoted(database)}.{self.table}"

    def in_transaction(self) -> bool:
        info = getattr(self.connection, "info", None)
        return int(getattr(info, "transaction_status", 0)) != 0

    def forget(self) -> None:
        self.connection.rollback()

    def begin(self) -> None:
        with self.opening():
            mode = "TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            self.fetch(f"BEGIN {mode}" if getattr(self.connection, "autocommit", False) else f"SET {mode}")
            for setting in _PG_SETTINGS:
                self.fetch(f"SET LOCAL {setting}")
            self.fetch(f"SELECT count(*) FROM {self.table} WHERE false")  # takes the snapshot, and asks for permission


def _connection_message(error: Any, *, wanted: bool) -> str:
    """What to do about a connection that failed, without what the server or the driver said."""
    state = str(getattr(error, "sqlstate", None) or "")
    if wanted:
        return (
            "The database wants a password. Set PGPASSWORD, or use a password file or a service file "
            "(postgresql://?service=NAME)."
        )
    if state.startswith("28"):
        return "The database refused the user or the password. Check both; PGUSER and PGPASSWORD set them."
    if state == "3D000":
        return "There is no such database on this server. Check its name in the URL."
    return "Cannot connect to the database. Check the host, the port and the database in the URL, and the password."
