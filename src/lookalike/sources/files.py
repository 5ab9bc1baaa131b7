"""Reads table files: texts (CSV, TSV, JSON lines), Parquet, Feather, and the formats of `office.py`, by suffix.

Values of text files stay texts, so that decimals, dates, leading zeros and missing markers can be written as they were.
They may be compressed (.gz, .bz2, .zst, .zip).
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError
from lookalike.sources import jsonlines, office
from lookalike.sources.csvfiles import CsvStyle, check_delimiter, read_csv, read_names, read_style

STANDARD = Path("-")
"""The name of standard input and output."""
_ENDS = {
    "csv": (".csv", ".tsv", ".txt"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "feather": (".feather", ".arrow", ".ipc"),
    **office.ENDS,
}
PACKED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".zip": "zip"}
_TEXTS = ("csv", "jsonl")
_MAGIC = {
    b"PAR1": ".parquet", b"ARROW1": ".feather", b"\x1f\x8b": ".csv.gz", b"BZh": ".csv.bz2", b"(\xb5/\xfd": ".csv.zst",
}  # fmt: skip
"""First bytes of what comes by standard input, which has no suffix."""
KINDS = tuple(_ENDS)


@dataclass(frozen=True, slots=True)
class TableFile(os.PathLike[str]):
    """A file together with how it is read. It can be used wherever a path is expected.

    Attributes:
        encoding: of files of texts.
        delimiter: of CSV files; None takes the one that the header uses most.
        dropped: columns that are left out, as if the file did not have them.
        content: what was read from standard input.
    """

    path: Path
    encoding: str = "utf-8"
    delimiter: str | None = None
    dropped: tuple[str, ...] = ()
    content: bytes | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise InputError(f"There is no encoding {self.encoding!r}. Give for instance utf-8 or latin-1.") from None
        if self.delimiter is not None:
            check_delimiter(self.delimiter)

    @classmethod
    def at(cls, source: str | os.PathLike[str]) -> TableFile:
        """The file as it is, or the file at a path."""
        return source if isinstance(source, cls) else cls(Path(source))

    @classmethod
    def of_standard_input(cls, **options: Any) -> TableFile:
        """What standard input holds, kept in memory until the door reads it; the format shows in its first bytes."""
        content = sys.stdin.buffer.read()
        end = next((end for magic, end in _MAGIC.items() if content.startswith(magic)), ".csv")
        return cls(Path(f"standard input{end}"), content=content, **options)

    def __fspath__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> Any:
        if self.content is not None:
            raise TypeError("what was read from standard input cannot be pickled: it would carry private rows")
        return (type(self), (self.path, self.encoding, self.delimiter, self.dropped))

    @property
    def kind(self) -> str:
        return "parquet" if self.path.is_dir() or _is_pattern(self.path) else kind_of_path(self.path)

    @property
    def place(self) -> Path:
        """The resolved path, by which ledgers know the file; a pattern of all files of a folder is the folder."""
        whole = _is_pattern(self.path) and self.path.name == "*.parquet"
        return (self.path.parent if whole else self.path).resolve()

    def parts(self) -> list[TableFile]:
        """The file itself, or the Parquet files of a folder or of a pattern such as part-*.parquet, by name."""
        if self.path.is_dir():
            found = sorted(path for path in self.path.rglob("*.parquet") if not path.name.startswith((".", "_")))
        elif _is_pattern(self.path):
            found = sorted(Path(path) for path in glob(str(self.path)) if path.endswith((".parquet", ".pq")))
        else:
            return [self]
        if not found:
            what = "is a directory" if self.path.is_dir() else "is a pattern"
            raise InputError(f"{self.path} {what} without Parquet files. Give a file, or a folder of Parquet files.")
        top = self.path if self.path.is_dir() else _fixed(self.path)
        if any("=" in name for path in found for name in path.relative_to(top).parts[:-1]):
            raise InputError(f"{self.path} has columns in names of folders, which are not read. Write them into files.")
        return [replace(self, path=path) for path in found]

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes of the file, unpacked; those of a text in UTF-8, with U+FFFD in place of what cannot be read."""
        with ExitStack() as stack:
            held = None if self.content is None else io.BytesIO(self.content)
            raw = stack.enter_context(held or self.path.open("rb"))
            stream = stack.enter_context(_unpacked(raw, self.path))
            known = self.kind not in _TEXTS or codecs.lookup(self.encoding).name == "utf-8"
            yield stream if known else cast(BinaryIO, _Recoded(stream, self.encoding))


def _is_pattern(path: Path) -> bool:
    """Whether a path is a pattern of names; the name of an existing file is not."""
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def _fixed(path: Path) -> Path:
    """The folder of a pattern, up to the first part of the path that varies."""
    fixed = Path(*(part for part in path.parts if not any(mark in part for mark in "*?[")))
    return fixed if path.is_absolute() or fixed.parts else Path()


class _Recoded:
    """A stream of text in some encoding, read as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")

    def read(self, size: int = -1) -> bytes:
        return self._text.read(size).encode("utf-8", "replace")

    read1 = read


def kind_of_path(path: Path) -> str:
    """The kind of file by the end of its name; the one of texts for standard output."""
    name = path.name.lower()
    packed = next((end for end in PACKED if name.endswith(end)), "")
    inner = name.removesuffix(packed)
    for kind, ends in _ENDS.items():
        if inner.endswith(ends) and (not packed or kind in _TEXTS):
            return kind
    if packed == ".zip" or path == STANDARD:
        return "csv"
    listed = ", ".join(end for ends in _ENDS.values() for end in ends)
    raise InputError(f"{path} has no known suffix. Use one of {listed}; texts may end in {', '.join(PACKED)} too.")


def check_format(path: Path, names: Sequence[str] = ()) -> None:
    """Refuse a file of a kind that cannot be written here, or not with columns of these names."""
    kind = kind_of_path(path)
    if kind in office.ENDS:
        office.check_writable(path, kind, names)


def read_file(file: TableFile) -> tuple[pa.Table, str, CsvStyle]:
    """The table in a file, the kind of the file, and how it is written if it is a CSV file."""
    style = CsvStyle()
    if file.kind == "parquet":
        types = file_structure(file)
        with _reading(file.path, file.kind):
            tables = [parquet.ParquetFile(_place(part)).read().select(types.names) for part in file.parts()]
        return pa.concat_tables(tables), file.kind, style
    with _reading(file.path, file.kind), file.opened() as stream:
        if file.kind == "csv":
            table, style = read_csv(stream.read(), str(file.path), file.delimiter)
            style = _without_tabs(file.path, style)
        elif file.kind == "jsonl":
            table = jsonlines.read_lines(stream, str(file.path))
        elif file.kind == "feather":
            table = feather.read_table(_place(file))
            check_offsets(table)  # such files have no checksums
        else:
            table = office.read(stream, file.path, file.kind, rows=True)
    return table.drop_columns(_dropped(file, table.column_names)), file.kind, style


def file_structure(file: TableFile) -> pa.Schema:
    """Names and types of the columns in a file; no row of it is used."""
    if file.kind == "parquet":
        return _parquet_structure(file)
    with _reading(file.path, file.kind), file.opened() as stream:
        if file.kind == "csv":
            types = _texts(read_names(stream, str(file.path), file.delimiter))
        elif file.kind == "jsonl":
            types = _texts(jsonlines.read_names(stream, str(file.path)))
        elif file.kind == "feather":
            types = pa.ipc.open_file(stream).schema
        else:
            types = office.read(stream, file.path, file.kind, rows=False).schema
    return _without_dropped(file, types)


def file_style(file: TableFile) -> CsvStyle:
    """How a CSV file is written, from its header; of other files the standard way."""
    if file.kind != "csv":
        return CsvStyle()
    with _reading(file.path, file.kind), file.opened() as stream:
        style = read_style(stream, str(file.path), file.delimiter)
    return _without_tabs(file.path, style)


def _without_tabs(path: Path, style: CsvStyle) -> CsvStyle:
    """The style without the tabs that the suffix says; files of other suffixes need none."""
    return replace(style, delimiter=",") if is_tsv(path) and style.delimiter == "\t" else style


def _without_dropped(file: TableFile, types: pa.Schema) -> pa.Schema:
    dropped = _dropped(file, types.names)
    return pa.schema([entry for entry in types if entry.name not in dropped])


def _parquet_structure(file: TableFile) -> pa.Schema:
    """Names and types of the columns of Parquet files, which must all have the same."""
    with _reading(file.path, file.kind):
        parts = file.parts()
        found = [parquet.read_schema(_place(part)).remove_metadata() for part in parts]
    for part, types in zip(parts, found, strict=True):
        if not types.equals(found[0]):
            raise InputError(f"{part.path} has other columns or types than {parts[0].path}. Write them all alike.")
    return _without_dropped(file, found[0])


def _texts(names: list[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _place(file: TableFile) -> Any:
    return file.path if file.content is None else pa.BufferReader(file.content)


def _dropped(file: TableFile, names: list[str]) -> list[str]:
    """The columns to leave out; one that the file does not have is refused."""
    for name in file.dropped:
        if name not in names:
            raise InputError(f"There is no column {name!r} to drop; the columns are {', '.join(names[:20])}.")
    return list(file.dropped)


@contextmanager
def _unpacked(stream: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    name = path.name.lower()
    if name.endswith(".gz"):
        yield cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    elif name.endswith(".bz2"):
        yield cast(BinaryIO, bz2.BZ2File(stream))
    elif name.endswith(".zst"):
        yield cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")))
    elif name.endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            members = [member for member in archive.namelist() if not member.endswith("/")]
            if len(members) != 1:
                raise InputError(f"{path} holds {len(members)} files; it must hold 1. Pack one table alone.")
            with archive.open(members[0]) as inner:
                yield cast(BinaryIO, inner)
    else:
        yield stream


def _of_another_kind(path: Path, kind: str) -> InputError:
    return InputError(f"{path} cannot be read as {kind}: it is damaged or of another kind. Check its suffix.")


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Every error while a file is read becomes an InputError."""
    packed = PACKED.get(path.suffix.lower())
    try:
        yield
    except office.UNREADABLE:
        raise _of_another_kind(path, kind) from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError):
        raise InputError(f"{path} is not a complete {packed or kind} file. Compress it again.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:  # an OSError of Arrow, not of the system
            if packed:
                raise InputError(f"{path} is not a complete {packed} file. Compress it again.") from None
            raise _of_another_kind(path, kind) from None
        raise InputError(f"Cannot read {path}: {reason_of(error)}. Check the path and its permissions.") from None


def check_offsets(table: pa.Table) -> None:
    """Refuse a table of a damaged file, whose wrong offsets would end the process.

    Values are not looked at, so that no row can make a whole file unreadable: texts count as bytes, whatever these are.
    """
    for chunk in (chunk for column in table.columns for chunk in column.chunks):
        if pa.types.is_dictionary(chunk.type):
            chunk = pa.DictionaryArray.from_arrays(chunk.indices, _as_bytes(chunk.dictionary))
        else:
            chunk = _as_bytes(chunk)
        kind = chunk.type
        chunk.validate(full=pa.types.is_dictionary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_bytes(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        return array.view(pa.binary())
    return array.view(pa.large_binary()) if pa.types.is_large_string(array.type) else array


def is_tsv(path: Path) -> bool:
    """Whether the name of a file says that its fields are separated by tabs."""
    return ".tsv" in (suffix.lower() for suffix in path.suffixes)


def reason_of(error: OSError) -> str:
    """Return why a file could not be read or written, in words that name no value."""
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
