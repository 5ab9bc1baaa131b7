"""The place of a table in a database: a URL, a SQLAlchemy engine or a DBAPI connection, and the table's name.

No password is kept here: drivers find it in the environment, in a service or password file, or the user is asked for
it. `repr` shows the kind of database and the table alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from lookalike.errors import InputError
from lookalike.sources.clusters import check_new, is_cluster, is_spark, write_parts

if TYPE_CHECKING:
    from lookalike.sources.base import Scanner
    from lookalike.sources.sql.sessions import Session

SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "duckdb": "duckdb", "sqlite": "sqlite"}
"""Kinds of URLs, and the dialects of SQL that they mean."""
IN_PROCESS = ("duckdb", "sqlite")
"""Dialects of engines that run inside this process, on a file."""


def is_url(text: str | os.PathLike[str]) -> bool:
    """Whether a text says where a database is.

    >>> is_url("postgresql://db.example/clinic"), is_url("people.csv")
    (True, False)
    """
    return os.fspath(text).partition(":")[0] in SCHEMES and "://" in os.fspath(text)


@dataclass(frozen=True, repr=False, eq=False)
class DatabaseTable:
    """A table or view of a database, such as DatabaseTable("duckdb:///clinic.db", "visits").

    Attributes:
        where: a URL without a password, a SQLAlchemy engine, or a connection of a DBAPI driver.
        name: the table as SQL names it, such as `visits` or `clinic."Old visits"`.
        dropped: columns to leave out.
        ask_password: called for a password where the server wants one and none is found; by default nobody is asked.
    """

    where: Any
    name: str
    dropped: tuple[str, ...] = ()
    ask_password: Callable[[], str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name or not self.name.strip():
            raise InputError("No table was named. Give --table NAME or --table SCHEMA.NAME.")
        if isinstance(self.where, str | os.PathLike):
            check_url(os.fspath(self.where))

    @property
    def dialect(self) -> str:
        """The dialect of SQL, as sqlglot names it."""
        from lookalike.sources.sql.sessions import dialect_of

        return SCHEMES[urlsplit(self.where).scheme] if isinstance(self.where, str) else dialect_of(self.where)

    def session(self) -> Session:
        """Connect, and find the table."""
        from lookalike.sources.sql.engines import open_session

        return open_session(self)

    @cached_property
    def _facts(self) -> tuple[str | None, pa.Schema]:
        with closing(self.session()) as session:
            return session.identity(), session.structure()

    @property
    def identity(self) -> str | None:
        """The table's name in ledgers, as the database itself names it: host, user and spelling do not matter."""
        return self._facts[0]

    def structure(self) -> pa.Schema:
        """Names and types of the columns, from the catalogue of the database."""
        return self._facts[1]

    def scanner(self) -> Scanner:
        """The engine that counts, on a connection and a snapshot of its own."""
        from lookalike.sources.sql.engines import open_engine

        return open_engine(self.session(), self.structure())

    def __repr__(self) -> str:
        return f"DatabaseTable({self.dialect}, {self.name!r})"


def check_url(url: str, *, new: bool = False) -> None:
    """Refuse a URL of an unknown kind, and one that holds a password: lists of processes and histories show it."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InputError(f"A URL of a database begins with one of {known}; for others give a connection in Python.")
    check_password(url)
    if SCHEMES[parts.scheme] in IN_PROCESS:
        path = file_of(url)
        if not path.is_file() and not new:
            raise InputError(f"There is no database file {path}. Check the path: three slashes come before it.")


def check_password(url: str) -> None:
    """Refuse a URL that holds a password."""
    parts = urlsplit(url)
    if parts.password or "password" in dict(parse_qsl(parts.query)):
        raise InputError(
            "The URL holds a password, which lists of processes and histories of commands show. Leave it out: set "
            "PGPASSWORD, use a password file or a service file (postgresql://?service=NAME), or type it when asked. "
            "Change this password if others use the machine."
        )


def check_new_table(where: str, name: str) -> None:
    """Refuse a new table that cannot be created, before any budget is spent on its rows."""
    if is_cluster(where):
        check_new(where, name)
        return
    from lookalike.sources import writing

    check_url(where, new=True)
    writing.check_new(where, name)


def write_into(tables: Iterable[pa.Table], where: Any, name: str) -> None:
    """Write synthetic rows, some at a time, into a new table of a database or of Spark, completely or not at all."""
    if is_spark(where):
        write_parts(tables, where, name)
        return
    from lookalike.sources.writing import write_rows

    write_rows(tables, where, name)


def file_of(url: str) -> Path:
    """The file of a database that is stored in a file.

    >>> file_of("sqlite:///data/clinic.db"), file_of("duckdb:////srv/clinic.db")
    (PosixPath('data/clinic.db'), PosixPath('/srv/clinic.db'))
    """
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) < 2 or parts.query:
        raise InputError(f"Write {parts.scheme}:///FILE for a path from here, {parts.scheme}:////FILE for one from /.")
    return Path(unquote(parts.path[1:]))
