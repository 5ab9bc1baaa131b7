"""Tables in and out: CSV, Parquet and Feather files, pandas, polars and Arrow frames.

Inside, every table is an Arrow table. CSV files are read as text, so that decimals, dates, leading zeros and missing
markers can be written as they were. Messages name places and limits, never a value of the table.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import narwhals as nw
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError, SchemaError
from lookalike.schema.schema import check_names
from lookalike.sources.csvfiles import CsvStyle, read_csv, read_names, write_csv
from lookalike.sources.dtypes import pandas_frame, pandas_table, polars_frame, polars_table

_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


@dataclass(frozen=True, slots=True)
class TableForm:
    """How a table came in, so that another can go out the same way. Public structure: types and names only.

    Attributes:
        kind: csv, parquet, feather, pandas, polars or arrow.
        csv: delimiter and line ends of a CSV file.
        dtypes: dtype of each column of a pandas or polars frame, by name; of a pandas category column only that it is
            one, for its dtype holds the list of categories.
    """

    kind: str
    csv: CsvStyle = field(default_factory=CsvStyle)
    dtypes: dict[str, Any] = field(default_factory=dict, compare=False)


def read_table(source: Any) -> tuple[pa.Table, TableForm]:
    """The Arrow table and the form of a path or of a pandas, polars or Arrow frame. A table without rows is one too.

    Raises:
        InputError: the file cannot be read as a table, or there are no columns.
    """
    table, form = _read_path(Path(source)) if isinstance(source, str | os.PathLike) else _read_frame(source)
    _check_columns(table.schema)
    return table, form


def read_structure(source: Any) -> pa.Schema:
    """Names, order and storage types of a table's columns, without its rows: what everybody may know about it.

    Of a CSV file no more than the header is read, of other files only what says their types.
    """
    if isinstance(source, str | os.PathLike):
        types = _path_structure(Path(source))
    else:
        types = _read_frame(source, rows=False)[0].schema
    _check_columns(types)
    return types


def _check_columns(types: pa.Schema) -> None:
    try:
        check_names(types.names, "The table")
    except SchemaError as error:
        raise InputError(str(error)) from None
    if not types.names:
        raise InputError("The table has no columns; it needs at least 1.")


def kind_of_path(path: Path) -> str:
    """The kind of file by the end of its name."""
    name = path.name.lower()
    for kind, ends in (("parquet", _PARQUET), ("feather", _FEATHER), ("csv", _CSV)):
        if name.endswith(ends):
            return kind
    raise InputError(f"{path} ends with no known suffix. Use one of {', '.join(_CSV + _PARQUET + _FEATHER)}.")


def _read_path(path: Path) -> tuple[pa.Table, TableForm]:
    with _reading(path) as kind:
        if kind == "csv":
            with _csv_stream(path) as stream:
                table, style = read_csv(stream.read(), str(path))
            return table, TableForm(kind, csv=style)
        table = parquet.read_table(path) if kind == "parquet" else feather.read_table(path)
        return _plain(table), TableForm(kind)


def _path_structure(path: Path) -> pa.Schema:
    with _reading(path) as kind:
        if kind == "csv":
            with _csv_stream(path) as stream:
                return pa.schema([(name, pa.string()) for name in read_names(stream, str(path))])
        if kind == "parquet":
            return _plain_schema(parquet.read_schema(path))
        with open(path, "rb") as stream:
            return _plain_schema(pa.ipc.open_file(stream).schema)


@contextmanager
def _reading(path: Path) -> Iterator[str]:
    """The kind of the file at `path`; whatever goes wrong with reading it becomes one clear error."""
    kind = kind_of_path(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory. Give the path of one file.")
    try:
        yield kind
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{path} is not a complete gzip file. Compress it again.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:  # an OSError of Arrow, not of the system
            message = f"{path} cannot be read as {kind}: it is damaged or of another kind. Check its suffix."
            raise InputError(message) from None
        raise InputError(f"Cannot read {path}: {_reason(error)}. Check the path and its permissions.") from None


def _csv_stream(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb"))


def _read_frame(frame: Any, *, rows: bool = True) -> tuple[pa.Table, TableForm]:
    """The table and form of a frame; without rows, no value of it is looked at."""
    if isinstance(frame, pa.Table):
        return _plain(frame if rows else frame.slice(0, 0)), TableForm("arrow")
    try:
        wrapped: Any = nw.from_native(frame, pass_through=False)
    except TypeError:
        raise InputError(
            f"Cannot read a table from {type(frame).__name__}. Give a path, or a pandas, polars or Arrow table."
        ) from None
    except nw.exceptions.DuplicateError:
        raise InputError("The table has two columns of the same name. Rename one of the two.") from None
    if any(not isinstance(name, str) for name in wrapped.collect_schema().names()):
        raise InputError("The table has a column whose name is no text. Rename the columns to texts.")
    wrapped = wrapped if rows else wrapped.head(0)
    if isinstance(wrapped, nw.LazyFrame):
        wrapped = wrapped.collect()
    if wrapped.implementation.is_pandas_like():
        table, dtypes = pandas_table(wrapped.to_pandas())
        return table, TableForm("pandas", dtypes=dtypes)
    if wrapped.implementation.is_polars():
        table, dtypes = polars_table(wrapped.to_native())
        return table, TableForm("polars", dtypes=dtypes)
    return _plain(wrapped.to_arrow()), TableForm("arrow")


def _plain(table: pa.Table) -> pa.Table:
    """The table without the metadata of its maker, which may carry an index, statistics or lists of values."""
    return pa.Table.from_arrays(table.columns, schema=_plain_schema(table.schema))


def _plain_schema(types: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in types])


def to_frame(table: pa.Table, form: TableForm) -> Any:
    """The table as a frame of the given form: pandas, polars, else Arrow."""
    if form.kind == "pandas":
        return pandas_frame(table, form.dtypes)
    return polars_frame(table, form.dtypes) if form.kind == "polars" else table


def write_table(
    table: pa.Table, path: str | os.PathLike[str], *, csv: CsvStyle | None = None, escape_formulas: bool = False
) -> None:
    """Write a file of the kind its name says: first under a temporary name, then renamed, so never half a file.

    With `escape_formulas`, texts of a CSV file that a spreadsheet would take for formulas start with an apostrophe.
    """
    target = Path(path)
    kind = kind_of_path(target)
    if kind == "parquet":
        write_file(target, lambda stream: parquet.write_table(table, stream))
    elif kind == "feather":
        write_file(target, lambda stream: feather.write_feather(table, stream))
    else:
        style = csv or CsvStyle(delimiter="\t" if ".tsv" in target.name.lower() else ",")
        packed = target.name.lower().endswith(".gz")
        write_file(target, lambda stream: _write_csv(table, stream, style, packed, escape_formulas))


def _write_csv(table: pa.Table, stream: BinaryIO, style: CsvStyle, packed: bool, escape_formulas: bool) -> None:
    if not packed:
        write_csv(table, stream, style, escape_formulas=escape_formulas)
        return
    with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as inner:
        write_csv(table, cast(BinaryIO, inner), style, escape_formulas=escape_formulas)


def write_file(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a temporary file beside the target and renames it; on any failure nothing is left behind."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {_reason(error)}. Choose another place, or make room.") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _reason(error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EACCES: "no permission",
        errno.EPERM: "no permission",
        errno.EROFS: "the disk is read-only",
        errno.ENOENT: "no such file or directory",
        errno.EISDIR: "it is a directory",
    }
    return reasons.get(error.errno or 0, error.strerror or "an input/output error")
