"""CSV text to an Arrow table of texts and back, with checks that say what is wrong and on which line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from lookalike.errors import InputError
from lookalike.schema.schema import MAX_COLUMNS

WRITE_ROWS = 1 << 16
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What starts a formula in some spreadsheet, full-width forms included."""
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """How a CSV file is written: what separates fields, what ends a line, and whether it starts with a BOM."""

    delimiter: str = ","
    line_end: str = "\n"
    bom: bool = False


def read_csv(data: bytes, path: str) -> tuple[pa.Table, CsvStyle]:
    """A table of texts; an empty field is null. `path` only serves the messages."""
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    _check_bytes(body, path)
    body, line_end = _unix_lines(body)
    header = body[: body.find(b"\n")]
    delimiter = _delimiter(header)
    columns = header.count(delimiter.encode()) + 1
    if columns > MAX_COLUMNS:
        raise InputError(f"{path} has {columns:,} columns; the limit is {MAX_COLUMNS:,}. Leave columns out.")
    style = CsvStyle(delimiter, line_end, bom)
    return _parse(body, style, path), style


def _unix_lines(body: bytes) -> tuple[bytes, str]:
    """The text with a line feed after its header, and the line end that the header has: the header alone decides."""
    first = re.search(rb"\r\n|\r|\n", body)
    line_end = first.group().decode() if first else "\n"
    if line_end == "\r":
        body = body.replace(b"\r", b"\n")
    return body if first else body + b"\n", line_end


def _check_bytes(body: bytes, path: str) -> None:
    if not body.strip():
        raise InputError(f"{path} is empty. A table needs at least a header line.")
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


def _delimiter(header: bytes) -> str:
    """The separator that the header line uses most; a comma where it uses none."""
    return max((",", ";", "\t", "|"), key=lambda mark: header.count(mark.encode()))


def _parse(body: bytes, style: CsvStyle, path: str) -> pa.Table:
    names = next(csv.reader(io.StringIO(_header_text(body)), delimiter=style.delimiter), [])
    ragged: list[tuple[int, int, int]] = []

    def refuse(row: arrow_csv.InvalidRow) -> str:
        ragged.append((row.number or 0, row.expected_columns, row.actual_columns))
        return "error"

    try:
        return arrow_csv.read_csv(
            pa.BufferReader(body),
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(
                delimiter=style.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,
                invalid_row_handler=refuse,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        if ragged:
            line, expected, actual = ragged[0]
            message = f"{path}, row {line}: {actual} fields, but the header has {expected}. "
            raise InputError(message + "Quote fields that hold separators, and give every row all fields.") from None
        raise InputError(f"{path} cannot be read as CSV. Check its quotes and separators.") from None


def _header_text(body: bytes) -> str:
    """The first line, or more where a quoted name goes over a line end."""
    end = body.find(b"\n")
    while end >= 0 and body.count(b'"', 0, end) % 2:
        end = body.find(b"\n", end + 1)
    return body[: end if end >= 0 else len(body)].decode("utf-8")


def write_csv(table: pa.Table, stream: BinaryIO, style: CsvStyle, *, escape_formulas: bool = False) -> None:
    """Writes header and rows; texts are quoted only where they must be, null becomes an empty field.

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
    """A column's values as they stand in a CSV file."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return column.cast(pa.string()).to_pylist()
