"""What users give a run: a table, a schema, a ledger and files to write, each in any of its accepted forms."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, LookalikeWarning, SchemaError
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger, default_ledger_path
from lookalike.schema.columns import Identifier
from lookalike.schema.enforce import aligned
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft
from lookalike.sources.base import Place
from lookalike.sources.clusters import SparkTable, is_cluster
from lookalike.sources.databases import DatabaseTable, check_new_table, check_url, file_of, is_url
from lookalike.sources.files import PACKED, STANDARD, TableFile, check_format, kind_of_path
from lookalike.sources.frames import index_columns, is_spark_frame, read_structure


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


def structure_of(table: Any) -> dict[str, str]:
    """Return the names of the columns of a table with their storage types, as Arrow prints these. No row is used."""
    return {field.name: str(field.type) for field in read_structure(table)}


def is_table_file(path: Path) -> bool:
    """Return whether a file is a table by the suffix of its name. The file is not opened."""
    try:
        kind_of_path(path)
    except InputError:
        return False
    return True


def table_at(path: str | os.PathLike[str], **options: Any) -> TableFile:
    """Return a file as a `TableFile`, which says how it is read; "-" is standard input."""
    if isinstance(path, TableFile):
        return replace(path, **options)
    if os.fspath(path) == "-":
        return TableFile.of_standard_input(**options)
    return TableFile(Path(path), **options)


def as_table(table: Any) -> Any:
    """Return the table unchanged, but a DataFrame of Spark as a `SparkTable`, whose rows stay on the cluster."""
    if isinstance(table, str | os.PathLike):
        return table
    for name in index_columns(table):
        warnings.warn(f"The index {name!r} of the frame is kept as a column.", LookalikeWarning, stacklevel=4)
    return SparkTable(table) if is_spark_frame(table) else table


def database_table(url: str, name: str | None, dropped: tuple[str, ...] = (), ask_password: Any = None) -> Place:
    """Return a table of the database at a URL, or of Spark at an address."""
    if is_cluster(url):
        return SparkTable(url, name or "", dropped)
    if not is_url(url):
        check_url(url)
    if name is None:
        raise InputError("The table of the database was not named. Give --table NAME or --table SCHEMA.NAME.")
    return DatabaseTable(url, name, dropped, ask_password)


def database_file(url: str) -> Path | None:
    """Return the file in which a database is stored; None for a database of a server."""
    return file_of(url) if url.startswith(("duckdb:", "sqlite:")) else None


def as_ledger(ledger: Ledger | str | Path | None, table: Any) -> Ledger:
    """Return the ledger to write to: the given one, the default one of a file, or one in memory."""
    if isinstance(ledger, Ledger):
        return ledger
    identity = table_identity(table)
    if ledger is not None:
        return Ledger(Path(ledger), identity or f"ledger:{Path(ledger).resolve()}")
    if isinstance(table, TableFile) and identity is None:
        raise InputError("Standard input has no default ledger. Give --ledger FILE, so that what is spent is recorded.")
    return Ledger(default_ledger_path(identity) if identity else None, identity or "a table in memory")


def table_identity(table: Any) -> str | None:
    """Return the name of a table in ledgers: a file's path, a database's name; None for frames and standard input."""
    if isinstance(table, Place):
        return table.identity
    if isinstance(table, TableFile) and table.content is not None:
        return None
    return str(TableFile.at(table).place) if isinstance(table, str | os.PathLike) else None


def _is_file(table: Any) -> bool:
    return isinstance(table, str | os.PathLike) and table_identity(table) is not None


def modified(table: Any) -> int | None:
    """Return the time at which the file of a table was last changed. It depends on no value of the table."""
    try:
        return max(os.stat(file).st_mtime_ns for file in TableFile.at(table).parts()) if _is_file(table) else None
    except OSError as error:
        raise InputError(f"Cannot read {table}: {error.strerror}. Check the path and its permissions.") from None


def parts_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return the file of a table, or all files of a folder or pattern."""
    return [part.path for part in TableFile.at(path).parts()]


def reading_of(table: Any) -> dict[str, Any]:
    """Return how a table is read and when its file was changed, so that a resumed run reads the same table."""
    told: dict[str, Any] = {"modified": modified(table)}
    if isinstance(table, Place):
        return {**told, "dropped": getattr(table, "dropped", ())}
    if not isinstance(table, str | os.PathLike):
        return told
    file = TableFile.at(table)
    return {**told, "encoding": file.encoding, "delimiter": file.delimiter, "dropped": file.dropped}


def files_of(table: Any, book: Ledger) -> tuple[str, ...]:
    """Return the files of a run that its results may not overwrite."""
    read = [Path(table).expanduser(), *parts_of(table)] if _is_file(table) else []
    if isinstance(table, DatabaseTable) and isinstance(table.where, str):
        read = [path for path in (database_file(table.where),) if path is not None]
    if isinstance(table, SparkTable) and (table.identity or "").startswith(os.sep):
        read = [Path(str(table.identity))]
    return tuple(str(path.resolve()) for path in (*read, *with_side_files(book.path)))


def check_gives_rows(table: Any, method: str) -> None:
    """Refuse a method that looks at single rows where the rows stay in a database or on a cluster."""
    if isinstance(table, Place):
        raise InputError(
            f"The method {method!r} looks at single rows, but of this table only counts are read. Choose a method that "
            "measures counts, such as auto, or give a file or a frame."
        )


def with_persons(schema: Schema, person: str | None, neighbours: Neighbours) -> tuple[Schema, Neighbours]:
    """Return the schema with the person column, and neighbours with the same maximum number of rows per person."""
    if person is not None:
        schema = schema.with_person(person, neighbours.max_rows_per_person)
    for column in schema.columns:
        if isinstance(column, Identifier) and column.person:
            neighbours = replace(neighbours, max_rows_per_person=column.max_rows)
    return schema, neighbours


def check_target(path: Path, *, table: bool) -> None:
    """Refuse a file that cannot be written, before any budget is spent on its contents."""
    if table:
        check_format(path)
        if path == STANDARD:
            return
    folder = path.parent
    if table and "*" in path.name:  # parts in a folder that is made
        if folder.exists():
            raise InputError(f"The folder {folder} exists already. Name a new folder for the parts of the table.")
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"Cannot write {path.name}: there is no folder {folder}. Create it, or choose another place.")
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"No permission to write to {folder}. Choose another place, or change its permissions.")


def drawn_files(out: Path | None, number: int | None) -> list[Path]:
    """Return the files for the draws of a release whose own table is `out`: people-1.csv, ... beside people.csv.

    >>> [path.name for path in drawn_files(Path("people.csv.gz"), 2)]
    ['people-1.csv.gz', 'people-2.csv.gz']
    """
    if number is None:
        return []
    if number < 2:
        raise InputError(f"--tables is {number}; intervals need at least 2 tables, and 5 or more to be narrow.")
    if out is None or out == STANDARD or "*" in out.name:
        raise InputError("--tables writes several files beside --out, which must be the name of one file.")
    kept = out.suffixes[-2:] if out.suffix.lower() in PACKED else out.suffixes[-1:]
    end = "".join(kept)
    return [out.with_name(f"{out.name.removesuffix(end)}-{i}{end}") for i in range(1, number + 1)]


def check_database_target(url: str, name: str) -> None:
    """Refuse a new table of a database that cannot be created, before any budget is spent on its rows."""
    check_new_table(url, name)


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that would overwrite an input or another output.

    Args:
        outputs: the path of each output by its name, such as "--model"; None if it is not written.
        inputs: the path of each input by its name, such as "the private table".
    """
    written: list[tuple[str, Path]] = []
    for what, path in outputs.items():
        if path is None or path == STANDARD:
            continue
        for name, other in inputs.items():
            if other is not None and same_file(path, other):
                raise InputError(f"{what} {path} is {name} and would overwrite it. Choose another place.")
        for name, other in written:
            if same_file(path, other):
                raise InputError(f"{what} and {name} would write the same file, {path}. Choose two places.")
        written.append((what, path))


def check_not_read(path: str | Path, inputs: Iterable[str]) -> None:
    """Refuse to overwrite the inputs or the ledger of a run."""
    check_apart({"The output": Path(path)}, {f"an input of the run ({name})": Path(name) for name in inputs})


def same_file(one: Path, two: Path) -> bool:
    """Return whether two paths are one file: by symbolic or hard link, or by another spelling."""
    try:
        return os.path.samefile(one, two)
    except OSError:
        # One of them does not exist yet: they are one file only if they will be created at the same place.
        return os.path.realpath(one) == os.path.realpath(two)


def with_side_files(ledger: Path | None) -> list[Path]:
    """Return the paths of a ledger, of its side files, and of what runs have left beside it."""
    if ledger is None:
        return []
    beside = [path for end in (".head", ".lock") for path in (ledger.with_suffix(end), Path(f"{ledger}{end}"))]
    return [ledger, *beside, *ledger.parent.glob(f"{ledger.name}-run*")]
