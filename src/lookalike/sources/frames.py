"""Tables in and out: CSV, Parquet and Feather files, pandas, polars and Arrow frames.

Inside, every table is an Arrow table. CSV files are read as text, so that decimals, dates, leading zeros and missing
markers can be written as they were. Messages name places and limits, never a value of the table.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import narwhals as nw
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError, SchemaError
from lookalike.schema.draft import with_values
from lookalike.schema.schema import check_names
from lookalike.sources.csvfiles import CsvStyle, read_csv, write_csv

_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


@dataclass(frozen=True, slots=True)
class TableForm:
    """How a table came in, so that another can go out the same way. Public structure: types and names only.

    Attributes:
        kind: csv, parquet, feather, pandas, polars or arrow.
        csv: delimiter and line ends of a CSV file.
        dtypes: dtype of each column of a pandas or polars frame, by name.
    """

    kind: str
    csv: CsvStyle = field(default_factory=CsvStyle)
    dtypes: dict[str, Any] = field(default_factory=dict, compare=False)


def read_table(source: Any) -> tuple[pa.Table, TableForm]:
    """The Arrow table and the form of a path or of a pandas, polars or Arrow frame. That it has rows is not asked.

    Raises:
        InputError: the file cannot be read as a table, or there are no columns.
    """
    table, form = _read_path(Path(source)) if isinstance(source, str | os.PathLike) else _read_frame(source)
    try:
        check_names(table.column_names, "The table")
    except SchemaError as error:
        raise InputError(str(error)) from None
    if table.num_columns == 0:
        raise InputError("The table has no columns; it needs at least 1.")
    return table, form


def read_structure(source: Any) -> pa.Schema:
    """Names, order and storage types of a table's columns, without its rows: what everybody may know about it."""
    if not isinstance(source, str | os.PathLike):
        return _read_frame(source)[0].schema
    path = Path(source)
    kind = kind_of_path(path)
    if kind == "parquet" and path.is_file():
        try:
            return parquet.read_schema(path).remove_metadata()
        except (pa.ArrowInvalid, pa.ArrowException, OSError):
            raise InputError(f"{path} cannot be read as {kind}: the file is damaged or of another kind.") from None
    return _read_path(path)[0].schema


def kind_of_path(path: Path) -> str:
    """The kind of file by the end of its name."""
    name = path.name.lower()
    for kind, ends in (("parquet", _PARQUET), ("feather", _FEATHER), ("csv", _CSV)):
        if name.endswith(ends):
            return kind
    raise InputError(f"{path} ends with no known suffix. Use one of {', '.join(_CSV + _PARQUET + _FEATHER)}.")


def _read_path(path: Path) -> tuple[pa.Table, TableForm]:
    kind = kind_of_path(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory. Give the path of one file.")
    try:
        if kind == "csv":
            table, style = read_csv(_bytes(path), str(path))
            return table, TableForm(kind, csv=style)
        table = parquet.read_table(path) if kind == "parquet" else feather.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowException):
        raise InputError(f"{path} cannot be read as {kind}: the file is damaged or of another kind.") from None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {_reason(error)}. Check the path and its permissions.") from None
    return _plain(table), TableForm(kind)


def _bytes(path: Path) -> bytes:
    if not path.name.lower().endswith(".gz"):
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except (gzip.BadGzipFile, EOFError):
        raise InputError(f"{path} is not a complete gzip file. Compress it again.") from None


def _read_frame(frame: Any) -> tuple[pa.Table, TableForm]:
    if isinstance(frame, pa.Table):
        return _plain(frame), TableForm("arrow")
    try:
        wrapped: Any = nw.from_native(frame, pass_through=False)
    except TypeError:
        raise InputError(
            f"Cannot read a table from {type(frame).__name__}. Give a path, or a pandas, polars or Arrow table."
        ) from None
    if isinstance(wrapped, nw.LazyFrame):
        wrapped = wrapped.collect()
    implementation = str(wrapped.implementation.value if hasattr(wrapped.implementation, "value") else "")
    names = list(wrapped.columns)
    if any(not isinstance(name, str) for name in names):
        raise InputError("The table has a column whose name is no text. Rename the columns to texts.")
    native = wrapped.to_native()
    dtypes = dict(zip(names, native.dtypes, strict=True)) if implementation in ("pandas", "polars") else {}
    try:
        table = wrapped.to_arrow().select(names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise InputError("A column of the table holds values of several types. Convert it to one type.") from None
    listed = {name: list(kind.categories) for name, kind in dtypes.items() if type(kind).__name__ == "Enum"}
    if listed:
        fields = [with_values(f, listed[f.name]) if listed.get(f.name) else f for f in table.schema]
        table = table.cast(pa.schema(fields))
    return _plain(table), TableForm(implementation if dtypes else "arrow", dtypes=dtypes)


def _plain(table: pa.Table) -> pa.Table:
    """The table without the metadata of its maker, which may carry an index or statistics."""
    return table.replace_schema_metadata(None)


def to_frame(table: pa.Table, form: TableForm) -> Any:
    """The table as a frame of the given form: pandas, polars, else Arrow."""
    if form.kind == "pandas":
        return _to_pandas(table, form.dtypes)
    if form.kind == "polars":
        import polars

        frame: Any = polars.from_arrow(table)
        casts = {
            name: kind for name, kind in form.dtypes.items() if name in frame.columns and frame.schema[name] != kind
        }
        for name, kind in casts.items():
            texts = frame[name].cast(polars.String) if isinstance(kind, polars.Enum) else None
            # A schema of one's own may make other values than the Enum has: they stay texts.
            if texts is None:
                frame = frame.with_columns(polars.col(name).cast(kind))
            elif set(texts.drop_nulls().unique()) <= set(kind.categories):
                frame = frame.with_columns(texts.cast(kind))
        return frame
    return table


def _to_pandas(table: pa.Table, dtypes: dict[str, Any]) -> Any:
    frame: Any = table.to_pandas()
    for name, dtype in dtypes.items():
        # A categorical keeps the schema's categories: the list of the input's may be private.
        if name in frame.columns and frame[name].dtype != dtype and getattr(dtype, "name", "") != "category":
            frame[name] = frame[name].astype(dtype)
    return frame


def write_table(
    table: pa.Table, path: str | os.PathLike[str], *, csv: CsvStyle | None = None, escape_formulas: bool = False
) -> None:
    """Writes a file of the kind its name says: first under a temporary name, then renamed, so never half a file.

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
    """Calls `write` on a temporary file beside the target and renames it; on any failure nothing is left behind."""
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
