"""Connections to PostgreSQL: its catalogue, its snapshots and the messages of connections that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookalike.errors import InputError, MissingExtraError
from lookalike.sources.sql.sessions import Field, Session, quoted, unreadable
from lookalike.sources.sql.texts import safe_float

if TYPE_CHECKING:
    from lookalike.sources.databases import DatabaseTable

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
