"""Table files in and out: texts (CSV, TSV, JSON lines), Parquet, Feather, and the formats of `office.py`, by suffix.

Files of texts are read as text, so that decimals, dates, leading zeros and missing markers can be written as they were.
They may be compressed (.gz, .bz2, .zst, .zip). Results are written under a temporary name, then renamed, so that a file
is always complete.
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import os
import secrets
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError
from lookalike.sources import jsonlines, office
from lookalike.sources.csvfiles import CsvStyle, check_delimiter, read_csv, read_names, write_csv

STANDARD = Path("-")
"""The name of standard input and output."""
_ENDS = {
    "csv": (".csv", ".tsv", ".txt"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "feather": (".feather", ".arrow", ".ipc"),
    **office.ENDS,
}
_PACKED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".zip": "zip"}
_TEXTS = ("csv", "jsonl")
_MAGIC = {
    b"PAR1": ".parquet", b"ARROW1": ".feather", b"\x1f\x8b": ".csv.gz", b"BZh": ".csv.bz2", b"(\xb5/\xfd": ".csv.zst",
}  # fmt: skip
"""First bytes of what comes by standard input, which has no suffix."""
KINDS = tuple(_ENDS)


@dataclass(frozen=True, slots=True)
class TableFile(os.PathLike[str]):
    """A file with how to read it. It stands for its path wherever a path is expected.

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
        return kind_of_path(self.path)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes of the file, unpacked; those of a text in UTF-8, with U+FFFD in place of what cannot be read."""
        with ExitStack() as stack:
            held = None if self.content is None else io.BytesIO(self.content)
            raw = stack.enter_context(held or self.path.open("rb"))
            stream = stack.enter_context(_unpacked(raw, self.path))
            known = self.kind not in _TEXTS or codecs.lookup(self.encoding).name == "utf-8"
            yield stream if known else cast(BinaryIO, _Recoded(stream, self.encoding))


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
    packed = next((end for end in _PACKED if name.endswith(end)), "")
    inner = name.removesuffix(packed)
    for kind, ends in _ENDS.items():
        if inner.endswith(ends) and (not packed or kind in _TEXTS):
            return kind
    if packed == ".zip" or path == STANDARD:
        return "csv"
    listed = ", ".join(end for ends in _ENDS.values() for end in ends)
    raise InputError(f"{path} has no known suffix. Use one of {listed}; texts may end in {', '.join(_PACKED)} too.")


def read_file(file: TableFile) -> tuple[pa.Table, str, CsvStyle]:
    """The table in a file, the kind of the file, and how it is written if it is a CSV file."""
    style = CsvStyle()
    with _reading(file.path, file.kind), file.opened() as stream:
        if file.kind == "csv":
            table, style = read_csv(stream.read(), str(file.path), file.delimiter)
            if _is_tsv(file.path) and style.delimiter == "\t":
                style = replace(style, delimiter=",")  # the suffix says tabs; files of other suffixes need none
        elif file.kind == "jsonl":
            table = jsonlines.read_lines(stream, str(file.path))
        elif file.kind == "parquet":
            table = parquet.read_table(_place(file))
        elif file.kind == "feather":
            table = feather.read_table(_place(file))
        else:
            table = office.read(stream, file.path, file.kind, rows=True)
    return table.drop_columns(_dropped(file, table.column_names)), file.kind, style


def file_structure(file: TableFile) -> pa.Schema:
    """Names and types of the columns in a file; no row of it is used."""
    with _reading(file.path, file.kind), file.opened() as stream:
        if file.kind == "csv":
            types = _texts(read_names(stream, str(file.path), file.delimiter))
        elif file.kind == "jsonl":
            types = _texts(jsonlines.read_names(stream, str(file.path)))
        elif file.kind == "parquet":
            types = parquet.read_schema(_place(file))
        elif file.kind == "feather":
            types = pa.ipc.open_file(stream).schema
        else:
            types = office.read(stream, file.path, file.kind, rows=False).schema
    dropped = _dropped(file, types.names)
    return pa.schema([entry for entry in types if entry.name not in dropped])


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


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Every error while a file is read becomes an InputError."""
    if path.is_dir():
        raise InputError(f"{path} is a directory. Give the path of one file.")
    packed = _PACKED.get(path.suffix.lower())
    try:
        yield
    except office.UNREADABLE as error:
        raise InputError(f"{path} cannot be read as {kind}: {type(error).__name__}. Check its suffix.") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError):
        raise InputError(f"{path} is not a complete {packed or kind} file. Compress it again.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:  # an OSError of Arrow, not of the system
            if packed:
                raise InputError(f"{path} is not a complete {packed} file. Compress it again.") from None
            message = f"{path} cannot be read as {kind}: it is damaged or of another kind. Check its suffix."
            raise InputError(message) from None
        raise InputError(f"Cannot read {path}: {_reason(error)}. Check the path and its permissions.") from None


def write_table(
    table: pa.Table,
    path: str | os.PathLike[str],
    *,
    csv: CsvStyle | None = None,
    escape_formulas: bool = False,
    numbers: Collection[str] = (),
) -> None:
    """Write a file of the kind that its name shows, or CSV to standard output for "-".

    Args:
        table: the rows.
        path: the file.
        csv: delimiter and line ends of the table that was read, for a CSV file of the same kind.
        escape_formulas: put an apostrophe before texts of a CSV file that a spreadsheet would take for formulas.
        numbers: columns of texts that hold numbers or truth values, for formats that distinguish these from texts.
    """
    target = Path(path)
    kind = kind_of_path(target)

    def write(stream: BinaryIO) -> None:
        if kind == "csv":
            write_csv(table, stream, _style(target, csv), escape_formulas=escape_formulas)
        elif kind == "jsonl":
            jsonlines.write_lines(table, stream, numbers)
        elif kind == "parquet":
            parquet.write_table(table, stream)
        elif kind == "feather":
            feather.write_feather(table, stream)
        else:
            office.write(table, stream, target, kind, numbers)

    if target == STANDARD:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    write_file(target, lambda stream: _packing(stream, target, write))


def _style(target: Path, read: CsvStyle | None) -> CsvStyle:
    """How a CSV file is written: as the one that was read, but .tsv files with tabs."""
    style = read or CsvStyle()
    return replace(style, delimiter="\t") if _is_tsv(target) else style


def _is_tsv(path: Path) -> bool:
    return ".tsv" in (suffix.lower() for suffix in path.suffixes)


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
        made = pa.BufferOutputStream()  # Arrow would close the file
        with pa.CompressedOutputStream(made, "zstd") as inner:
            write(cast(BinaryIO, inner))
        stream.write(made.getvalue())
    elif name.endswith(".zip"):
        member = zipfile.ZipInfo(target.name[: -len(".zip")])  # without the time of day
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(member, "w") as inner:
            write(cast(BinaryIO, inner))
    else:
        write(stream)


def write_file(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a temporary file beside the target and rename it; a failure leaves no file behind."""
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
