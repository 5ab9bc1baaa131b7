"""Connections to databases: the table's names and types from the catalogue, one read-only snapshot, and statements.

A server's message about a fault may quote values, so it is never passed on: every fault becomes one of a few constant
messages. Passwords are found by the drivers, and are neither kept nor shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from lookalike.errors import InputError, SourceError
from lookalike.schema.storage import with_values

if TYPE_CHECKING:
    from lookalike.sources.databases import DatabaseTable

_DIALECTS = {
    "psycopg": "postgres", "psycopg2": "postgres", "pg8000": "postgres", "postgresql": "postgres",
    "duckdb": "duckdb", "_duckdb": "duckdb", "sqlite3": "sqlite", "sqlite": "sqlite",
}  # fmt: skip
"""Dialects by the module of a connection, or by SQLAlchemy's name."""
_LOST = "The connection to the database was lost."
_FAULTS = {
    "08": _LOST, "57P": _LOST, "57014": "The database stopped a statement: its time limit was reached, or an operator "
    "cancelled it. Raise statement_timeout for this role, or use fewer columns.",
    "53100": "The disk of the database is full.", "53": "The database has too little memory or too many connections.",
    "40": "The database took back the snapshot that the run reads, as a standby does. Connect to the primary.",
    "55": "The table is locked.",
}  # fmt: skip
"""Faults of a server that no row of the table causes, by the beginning of the SQLSTATE, the longest first."""
_GO_ON = "Nothing more is charged. 'lookalike resume' finishes the run without paying again for what it has measured."


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the table as the database holds it.

    Attributes:
        name: its name.
        kind: the Arrow type in which its values are encoded.
        value: the SQL expression of its values, of a type of the database that says the same as `kind`.
        values: what the type lists, as an enumeration does.
    """

    name: str
    kind: pa.DataType
    value: str
    values: tuple[str, ...] = ()


class Session:
    """A connection to a database and one table in it."""

    dialect = ""

    def __init__(self, connection: Any, place: DatabaseTable, *, owned: bool) -> None:
        self.connection, self.owned, self.begun = connection, owned, False
        self.place_name = place.name
        self.path: tuple[str, ...] = ()
        try:
            with self.opening():
                if self.in_transaction():
                    raise InputError("The connection is inside a transaction. Commit it, or give a fresh connection.")
                self.begun = True
                self.path = self.find(place.name)
                listed = self.columns()
                for name in set(place.dropped) - {row[0] for row in listed}:
                    raise InputError(f"The table has no column {name!r} to drop. Check its spelling.")
                self.listed = [self.field(*row) for row in listed if row[0] not in place.dropped]
                self.forget()
        except BaseException:
            self.close()
            raise

    @property
    def table(self) -> str:
        """The table's name for a FROM clause."""
        return ".".join(quoted(part) for part in self.path)

    def structure(self) -> pa.Schema:
        """Names and types of the columns; an enumeration lists its values."""
        fields = [(pa.field(field.name, field.kind), field.values) for field in self.listed]
        return pa.schema([with_values(field, values) if values else field for field, values in fields])

    def identity(self) -> str | None:
        """The table's name in ledgers, None for a database that lives in memory."""
        raise NotImplementedError

    def find(self, name: str) -> tuple[str, ...]:
        """The names of schema and table as the catalogue has them; an InputError where there is no such table."""
        raise NotImplementedError

    def columns(self) -> list[tuple[Any, ...]]:
        """The columns that the catalogue lists: their names, and what it says of their types."""
        raise NotImplementedError

    def field(self, name: str, *described: Any) -> Field:
        """A column with what the catalogue says of its type; an InputError where it cannot be synthesized."""
        raise NotImplementedError

    def in_transaction(self) -> bool:
        """Whether a connection that was given has work that is not committed."""
        return bool(getattr(self.connection, "in_transaction", False))

    def forget(self) -> None:
        """End the transaction that some drivers begin with the first statement."""

    def begin(self) -> None:
        """Begin the transaction of a run: all that it reads is one state of the table, and nothing is written."""
        raise NotImplementedError

    def fetch(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement, parameters) if parameters else cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
        finally:
            cursor.close()

    def close(self) -> None:
        """End the transaction, and the connection if it was opened here."""
        try:
            if self.owned:
                self.connection.close()
            elif self.begun:
                self.connection.rollback()
        except Exception:  # noqa: BLE001 - a connection that is lost cannot be closed
            return

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Turn faults before a run into an InputError."""
        try:
            yield
        except (InputError, SourceError):
            raise
        except Exception as error:  # noqa: BLE001 - drivers have classes of their own
            raise InputError(_opening_message(error, self.place_name)) from None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Turn faults that no row causes into a SourceError; others stay as they are, for the door to hide."""
        try:
            yield
        except Exception as error:
            found = fault_of(error)
            if found is None:
                raise
            message = f"{found} {_GO_ON}"
        else:
            return
        raise SourceError(message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place_name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A connection to a database cannot be pickled.")


def quoted(name: str) -> str:
    """The name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def fault_of(error: Exception) -> str | None:
    """Return what happened if it is a fault of the server that no row can cause, else None."""
    state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
    for beginning in sorted(_FAULTS, key=len, reverse=True):
        if state.startswith(beginning):
            return _FAULTS[beginning]
    lost = not state and type(error).__name__ in (
        "OperationalError",
        "InterfaceError",
        "AdminShutdown",
        "ConnectionException",
    )
    return _LOST if lost and type(error).__module__.startswith(("psycopg", "pg8000")) else None


def _opening_message(error: Exception, name: str) -> str:
    state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
    if state == "42501":
        return f"No permission to read {name}. Ask for SELECT on it; nothing more is needed."
    if state.startswith("28"):
        return "The database refused the user or the password. Check both; PGUSER and PGPASSWORD set them."
    if state == "3D000":
        return "There is no such database on this server. Check its name in the URL."
    return fault_of(error) or f"The database could not be asked about {name} ({type(error).__name__})."


def dialect_of(where: Any) -> str:
    """The dialect of a SQLAlchemy engine or of a DBAPI connection."""
    name = getattr(getattr(where, "dialect", None), "name", None) or type(where).__module__.partition(".")[0]
    if name not in _DIALECTS:
        raise InputError(
            f"Cannot read a table through {type(where).__name__}. Give a URL, or a SQLAlchemy engine or connection to "
            "PostgreSQL, DuckDB or SQLite."
        )
    return _DIALECTS[name]


def unreadable(name: str, kind: str) -> InputError:
    """The refusal of a column whose type cannot be synthesized."""
    remedy = "Leave it out with --drop, or give a view that casts it to text, a number, a time or a boolean."
    return InputError(f"Column {name!r} has type {kind}, which cannot be synthesized. {remedy}")
