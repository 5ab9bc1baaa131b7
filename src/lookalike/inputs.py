"""What users give a run: a table, a schema, a ledger, in the forms in which they can be given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, SchemaError
from lookalike.places import with_side_files
from lookalike.privacy.ledger import Ledger, default_ledger_path
from lookalike.schema.enforce import aligned
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft
from lookalike.sources.files import TableFile
from lookalike.sources.frames import read_structure


def as_schema(schema: Schema | str | Path | dict[str, Any] | None, table: Any = None) -> Schema:
    """Return the schema, read from a file if need be, or drafted from the names and types of the table's columns."""
    if schema is None:
        return draft(read_structure(table))
    if isinstance(schema, Schema):
        return aligned(schema)
    if isinstance(schema, dict):
        coded = all(isinstance(value, int) for value in schema.values())
        return Schema.from_sizes(schema) if coded else aligned(Schema.from_dict(schema))
    if isinstance(schema, (str, Path)):
        path = Path(schema)
        return Schema.from_domain_json(path) if path.suffix == ".json" else aligned(Schema.load(path))
    raise SchemaError(
        f"The schema is a {type(schema).__name__}; give a Schema, a path, or {{column: number of codes}}."
    )


def table_at(path: str | os.PathLike[str], **options: Any) -> TableFile:
    """Return the file of a table with how to read it (see `TableFile`); "-" is standard input."""
    if isinstance(path, TableFile):
        return replace(path, **options)
    if os.fspath(path) == "-":
        return TableFile.of_standard_input(**options)
    return TableFile(Path(path), **options)


def as_ledger(ledger: Ledger | str | Path | None, table: Any) -> Ledger:
    """Return the ledger to write to: the given one, the default one of a file, or one in memory."""
    if isinstance(ledger, Ledger):
        return ledger
    identity = table_identity(table)
    if ledger is not None:
        return Ledger(Path(ledger), identity or f"ledger:{Path(ledger).resolve()}")
    if isinstance(table, TableFile) and identity is None:
        raise InputError("Standard input has no ledger of its own. Give --ledger, so that what is spent is remembered.")
    return Ledger(default_ledger_path(identity) if identity else None, identity or "a table in memory")


def table_identity(table: Any) -> str | None:
    """Return the name of a table in ledgers: the resolved path of a file, None for a frame or standard input."""
    if isinstance(table, TableFile) and table.content is not None:
        return None
    return str(Path(table).resolve()) if isinstance(table, str | os.PathLike) else None


def modified(table: Any) -> int | None:
    """When the file of a table was last written to, as the system tells; no value of the table shows in it."""
    try:
        return os.stat(table).st_mtime_ns if table_identity(table) else None
    except OSError as error:
        raise InputError(f"Cannot read {table}: {error.strerror}. Check the path and its permissions.") from None


def files_of(table: Any, book: Ledger) -> tuple[str, ...]:
    """Return the files of a run that its results may not overwrite."""
    read = [Path(table).expanduser()] if table_identity(table) else []
    return tuple(str(path.resolve()) for path in (*read, *with_side_files(book.path)))
