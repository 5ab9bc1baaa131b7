"""Reads CSV files into Arrow tables of texts and writes them; errors name the fault and the line."""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from lookalike.errors import InputError
from lookalike.schema.schema import MAX_COLUMNS

WRITE_ROWS = 1 << 16
"""Rows that are written at a time."""
HEADER_LIMIT = 1 << 20
"""Largest number of bytes that the line of column names may take."""
_HEADER_BLOCK, _MAX_BLOCK = 1 << 14, 1 << 30
"""Bytes that are read at a time in search of the header, and the largest block that Arrow parses at once."""
_BOM = codecs.BOM_UTF8
_LONE_CR, _LONE_LF = re.compile(rb"\r(?!\n)"), re.compile(rb"(?<!\r)\n")
_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_QUOTED_FIELD = re.compile(rb"(?:\A|(?<=[,;\t|])|(?<=%b))%b" % (_BOM, _QUOTED))


def _first_line(mark: str) -> re.Pattern[bytes]:
    """Fields and the end of their line; a field that begins with a quotation mark may hold line ends."""
    plain = rb"[^\r\n%b]*+" % re.escape(mark).encode()
    fields = rb'(?:(?:%b|(?!"))%b%b)*+(?:%b|(?!"))%b' % (_QUOTED, plain, re.escape(mark).encode(), _QUOTED, plain)
    return re.compile(rb"(?:%b)?+%b(\r\n|\r|\n)" % (_BOM, fields))


_FIRST_LINES = {mark: _first_line(mark) for mark in (",", ";", "\t", "|")}
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What starts a formula in some spreadsheet, full-width forms included."""
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """How a CSV file is written: what separates fields, what ends a line, and whether it starts with a BOM."""

    delimiter: str = ","
    line_end: str = "\n"
    bom: bool = False


@dataclass(frozen=True, slots=True)
class _Header:
    """The names in the first line, how the file is written, and where its rows begin."""

    names: list[str]
    style: CsvStyle
    end: int


def read_csv(data: bytes, path: str) -> tuple[pa.Table, CsvStyle]:
    """The CSV data as a table of texts, in which empty fields are null, and its style. `path` is for error messages."""
    _check_bytes(data.removeprefix(_BOM), path)
    header = _header(data, path)
    rows, mark = _marked(data[header.end :], header.style.line_end)
    if header.style.line_end == "\r":
        rows = rows.replace(b"\r", b"\n")
    table = _parse(rows, header, path)
    return _unmarked(table, mark, "\n" if header.style.line_end == "\r" else "\r"), header.style


def _marked(rows: bytes, line_end: str) -> tuple[bytes, str]:
    """The rows with a mark in place of every lone CR (LF where lines end with CR), and the mark, "" without such.

    Python and pandas leave these unquoted, because they end no line there, but Arrow would end the line.
    """
    lone = _LONE_LF if line_end == "\r" else _LONE_CR
    if not lone.search(rows):
        return rows, ""
    mark = next(mark for n in count() if (mark := f"\x1e{n}\x1f").encode() not in rows)
    return lone.sub(mark.encode(), rows), mark


def _unmarked(table: pa.Table, mark: str, text: str) -> pa.Table:
    """The table with the text in place of the mark."""
    if not mark:
        return table
    columns = [pc.replace_substring(column, mark, text) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def read_names(stream: BinaryIO, path: str) -> list[str]:
    """The names of the columns, from the header alone.

    At most the block of bytes in which the header ends is read, so faults further on in the file are not found.
    """
    start = b""
    while len(start) <= HEADER_LIMIT and not _FIRST_LINES[_delimiter(start)].match(start):
        # One system call, so that a pipe does not block. Blocks grow, so a long header takes few searches.
        block = stream.read1(max(_HEADER_BLOCK, len(start)))  # type: ignore[attr-defined]
        if not block:
            break
        start += block
    return _header(start, path).names


def _header(data: bytes, path: str) -> _Header:
    """The header of a file, of which `data` is the start."""
    delimiter = _delimiter(data)
    found = _FIRST_LINES[delimiter].match(data, 0, HEADER_LIMIT)
    if found is None and len(data) > HEADER_LIMIT:
        raise InputError(
            f"The first line of {path} does not end within {HEADER_LIMIT:,} bytes. Begin the file with a line of "
            "column names, and close quoted names with a quotation mark."
        )
    line = data[: found.start(1) if found else len(data)].removeprefix(_BOM)
    _check_bytes(line, path)
    try:
        names = next(csv.reader(io.StringIO(line.decode(), newline=""), delimiter=delimiter))
    except csv.Error:
        raise InputError(f"The first line of {path} cannot be read as CSV. Check its quotes and separators.") from None
    if len(names) > MAX_COLUMNS:
        raise InputError(f"{path} has {len(names):,} columns; the limit is {MAX_COLUMNS:,}. Leave columns out.")
    style = CsvStyle(delimiter, found[1].decode() if found else "\n", data.startswith(_BOM))
    return _Header(names, style, found.end() if found else len(data))


def _check_bytes(body: bytes, path: str) -> None:
    if not body.strip():
        raise InputError(f"{path} is empty or begins with an empty line. A table needs at least a header line.")
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16 text. Save it as UTF-8.")
    if b"\0" in body:
        line = body.count(b"\n", 0, body.index(b"\0")) + 1
        raise InputError(f"{path} has a NUL byte on line {line}. Save it as UTF-8 text without binary parts.")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path} is not UTF-8 text (first on line {line}). Convert it: iconv -t UTF-8.") from None
    if body.count(b'"') % 2:
        raise InputError(f'{path} has an odd number of quotation marks, so one is not closed. Write "" inside quotes.')


def _delimiter(data: bytes) -> str:
    """The separator that the first line uses most outside quoted names; a comma where it uses none."""
    line = re.split(rb"[\r\n]", _QUOTED_FIELD.sub(b"", data[:HEADER_LIMIT]), maxsplit=1)[0]
    return max(_FIRST_LINES, key=lambda mark: line.count(mark.encode()))


def _parse(rows: bytes, header: _Header, path: str) -> pa.Table:
    """The rows as texts. Names and types are given, so that Arrow infers none from the data."""
    types = pa.schema([(name, pa.string()) for name in header.names])
    if not rows.strip(b"\r\n") and (len(header.names) > 1 or not rows):
        return types.empty_table()
    ragged: list[tuple[int, int, int]] = []

    def refuse(row: arrow_csv.InvalidRow) -> str:
        ragged.append((row.number or 0, row.expected_columns, row.actual_columns))
        return "error"

    try:
        return arrow_csv.read_csv(
            pa.BufferReader(rows),
            # A row must fit into a block: with one block for all rows, a long field cannot stop the run.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=header.names, block_size=min(len(rows) + 1, _MAX_BLOCK)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=header.style.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(header.names) > 1,
                invalid_row_handler=refuse,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid:
        if ragged:
            line, expected, actual = ragged[0]
            message = f"{path}, row {line + 1}: {actual} fields, but the header has {expected}. "
            raise InputError(message + "Quote fields that hold separators, and give every row all fields.") from None
        raise InputError(f"{path} cannot be read as CSV. Check its quotes and separators.") from None


def write_csv(table: pa.Table, stream: BinaryIO, style: CsvStyle, *, escape_formulas: bool = False) -> None:
    """Write header and rows; texts are quoted only where they must be, null becomes an empty field.

    With `escape_formulas`, texts that a spreadsheet would take for formulas start with an apostrophe; numbers do not.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig" if style.bom else "utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=style.delimiter, lineterminator=style.line_end)
    written = without_formulas if escape_formulas else list
    writer.writerow(written(table.column_names))
    for start in range(0, table.num_rows, WRITE_ROWS):
        columns = [written(as_texts(column)) for column in table.slice(start, WRITE_ROWS).columns]
        writer.writerows(zip(*columns, strict=True))
    text.flush()
    text.detach()


def without_formulas(texts: Sequence[str | None]) -> list[str | None]:
    """The texts, with an apostrophe before those that a spreadsheet would take for formulas. Numbers stay as they are.

    >>> without_formulas(["=1+1", "-5.2e3", "-a", None, "@x", "b", "-1,5"])
    ["'=1+1", '-5.2e3', "'-a", None, "'@x", 'b', '-1,5']
    """
    return [f"'{text}" if text and text[0] in _FORMULA and not _NUMBER.fullmatch(text) else text for text in texts]


def as_texts(column: pa.ChunkedArray) -> list[str | None]:
    """A column's values as written in a CSV file."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return column.cast(pa.string()).to_pylist()
