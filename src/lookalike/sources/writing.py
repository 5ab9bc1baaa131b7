"""Writes table files of the kinds that are read, by suffix.

Each is written under a temporary name, then renamed, so that a file is always complete.
"""

from __future__ import annotations

import bz2
import gzip
import os
import secrets
import shutil
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from lookalike.errors import InputError
from lookalike.schema.documents import write_whole
from lookalike.sources import jsonlines, office
from lookalike.sources.csvfiles import CsvStyle, write_csv
from lookalike.sources.files import STANDARD, is_tsv, kind_of_path, reason_of


def write_table(table: pa.Table, path: str | os.PathLike[str], **settings: Any) -> None:
    """Write one table to a file; see `write_tables`."""
    write_tables([table], path, **settings)


def write_tables(
    tables: Iterable[pa.Table],
    path: str | os.PathLike[str],
    *,
    csv: CsvStyle | None = None,
    escape_formulas: bool = False,
    numbers: Collection[str] = (),
    times: Collection[str] = (),
) -> None:
    """Write tables of the same columns, one after the other, to a file of the kind that its name shows.

    "-" is standard output, in CSV. With a star in the name, as in people/part-*.parquet, each table becomes a file of
    its own in a new folder. A file or folder is there only when it is complete.

    Args:
        tables: the rows; at least one table.
        path: the file.
        csv: delimiter and line ends of the table that was read, for a CSV file of the same kind.
        escape_formulas: put an apostrophe before texts of a CSV file that a spreadsheet would take for formulas.
        numbers: columns of texts that hold numbers or truth values, for formats that distinguish these from texts.
        times: columns of texts that hold days or times, for sheets, which distinguish these from texts.
    """
    target = Path(path)
    if "*" in target.name:
        settings = {"csv": csv, "escape_formulas": escape_formulas, "numbers": numbers, "times": times}
        _write_folder(target, lambda number, file: write_table(number, file, **settings), tables)
        return
    kind = kind_of_path(target)

    def write(stream: BinaryIO) -> None:
        if kind == "csv":
            write_csv(tables, stream, _style(target, csv), escape_formulas=escape_formulas)
        elif kind == "parquet":
            _write_parquet(tables, stream)
        elif kind == "jsonl":
            for table in tables:
                jsonlines.write_lines(table, stream, numbers)
        elif kind == "feather":
            feather.write_feather(pa.concat_tables(tables), stream)
        else:
            office.write(pa.concat_tables(tables), stream, target, kind, numbers, times)

    if target == STANDARD:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    write_file(target, lambda stream: _packing(stream, target, write))


def _write_parquet(tables: Iterable[pa.Table], stream: BinaryIO) -> None:
    remaining = iter(tables)
    first = next(remaining)
    with parquet.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], remaining):
            writer.write_table(table)


def _write_folder(target: Path, write: Callable[[pa.Table, Path], None], tables: Iterable[pa.Table]) -> None:
    """Write each table to a file of its own in a new folder, which gets its name when all are there."""
    folder = target.parent
    if folder.exists():
        raise InputError(f"{folder} exists already. Give the name of a folder that does not, for its parts.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        temporary.mkdir()
        for number, table in enumerate(tables):
            write(table, temporary / target.name.replace("*", f"{number:05}"))
        os.replace(temporary, folder)
    except OSError as error:
        raise InputError(f"Cannot write {folder}: {reason_of(error)}. Choose another place, or make room.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _style(target: Path, read: CsvStyle | None) -> CsvStyle:
    """How a CSV file is written: as the one that was read, but .tsv files with tabs."""
    style = read or CsvStyle()
    return replace(style, delimiter="\t") if is_tsv(target) else style


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
        with pa.CompressedOutputStream(pa.PythonFile(_NeverClosed(stream), "w"), "zstd") as inner:
            write(cast(BinaryIO, inner))
    elif name.endswith(".zip"):
        member = zipfile.ZipInfo(target.name[: -len(".zip")])  # without the time of day
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(member, "w") as inner:
            write(cast(BinaryIO, inner))
    else:
        write(stream)


class _NeverClosed:
    """A stream that Arrow cannot close: it is synchronised with the disk before it is."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.write, self.flush = stream.write, stream.flush

    def close(self) -> None:
        """Do nothing."""


def write_file(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all, by `write` on its stream; an InputError says why it could not be."""
    try:
        write_whole(target, write)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {reason_of(error)}. Choose another place, or make room.") from None
