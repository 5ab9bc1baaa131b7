"""Reads CSV files as Arrow tables of texts, and writes them.

Only the header, which is public, can be refused. Any text after it is read as rows, since no private row may decide
whether or how a run ends: `read_csv` says how broken rows are read.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import BinaryIO

import numpy as np
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
PART_BYTES, MAX_PART_BYTES = 1 << 24, 1 << 26
"""Bytes of rows that are parsed at a time where a file is read in parts, and the most that a row may take then."""
_BOM = codecs.BOM_UTF8
_LONE_CR, _LONE_LF = re.compile(rb"\r(?!\n)"), re.compile(rb"(?<!\r)\n")
_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'
_QUOTED_FIELD = re.compile(rb"(?:\A|(?<=[,;\t|])|(?<=%b))%b" % (_BOM, _QUOTED))


def _field(mark: str) -> bytes:
    """A pattern of a field; one that begins with a quotation mark may hold line ends up to the mark that closes it."""
    return rb'(?:%b|(?!"))[^\r\n%b]*+' % (_QUOTED, re.escape(mark).encode())


def _line(mark: str) -> bytes:
    """A pattern of the fields of a line and its end, which is group 1."""
    return rb"(?:%b%b)*+%b(\r\n|\r|\n)" % (_field(mark), re.escape(mark).encode(), _field(mark))


@cache
def _first_line(mark: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?:%b)?+%b" % (_BOM, _line(mark)))


DELIMITERS = (",", ";", "\t", "|")
"""Separators that are recognised; any other has to be named."""
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""Characters with which a formula begins in some spreadsheet program, full-width forms included."""
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


def check_delimiter(mark: str) -> None:
    """Refuse a separator that no CSV file can have."""
    if len(mark) != 1 or not mark.isascii() or mark == '"' or not (mark.isprintable() or mark in "\t\x01\x1f"):
        raise InputError(f"The delimiter is {mark!r}; it must be one ASCII character and no quotation mark, such as ;.")


def read_csv(data: bytes, path: str, delimiter: str | None = None) -> tuple[pa.Table, CsvStyle]:
    """Return a table of texts, in which an empty field is null. `path` only serves the messages about the header.

    Rows cannot be refused. Missing fields of a short row are null, and surplus fields of a long row are dropped; rows
    of both kinds come last. Bytes that are not UTF-8 become U+FFFD, and NUL is a character like any other. A quotation
    mark that opens a field and is never closed is an ordinary character, so it spoils its own line only; one that is
    closed on a later line makes one row of all lines between.
    """
    header = _header(data, path, delimiter)
    return _read_rows(data[header.end :], header), header.style


def read_parts(
    stream: BinaryIO, path: str, delimiter: str | None, names: Sequence[str], size: int = PART_BYTES
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the columns `names` of the rows of a file, read as `read_csv` reads them but about `size` bytes at a time.

    With each part comes the number of bytes that were read. A quotation mark that is not closed within MAX_PART_BYTES
    counts as one that is never closed.
    """
    start, done = _start(stream, delimiter), 0
    header = _header(start, path, delimiter)
    line, rest, read = _whole_lines(header.style), start[header.end :], len(start)
    while not done:
        block = stream.read(max(size - len(rest), size // 2))
        read, done, rest = read + len(block), not block, rest + block
        end = len(rest) if done else line(rest)
        if end or len(rest) > MAX_PART_BYTES:
            end = end or rest.rfind(header.style.line_end[-1].encode()) + 1 or len(rest)
            yield _read_rows(rest[:end], header).select(list(names)), read
            rest = rest[end:]


def _whole_lines(style: CsvStyle) -> Callable[[bytes], int]:
    """Return a function that says where the last whole line of some bytes ends; 0 where there is none."""
    end = style.line_end[-1].encode()
    mark = re.escape(style.delimiter).encode()
    field = rb'(?:%b|(?!"))[^%b%b]*+' % (_QUOTED, end, mark)
    lines = re.compile(rb"(?:%b(?:%b%b)*+%b)*+" % (field, mark, field, end + b"\n?" * (end == b"\r")))

    def whole(rows: bytes) -> int:
        rows = rows.removesuffix(b"\r")  # it may be the first half of a line end
        # Without quotation marks every line end ends a row, and finding the last one takes no time.
        if b'"' not in rows:
            last = rows.rfind(end) + 1
            return last + (end == b"\r" and rows[last : last + 1] == b"\n")
        found = lines.match(rows)
        return found.end() if found else 0

    return whole


def _read_rows(data: bytes, header: _Header) -> pa.Table:
    """The rows that some bytes after the header hold."""
    rows = _valid(data)
    unused = (mark for n in count() if (mark := f"\x1e{n}\x1f").encode() not in rows)
    mark, last = next(unused), next(unused)
    cr = header.style.line_end == "\r"
    lone = _LONE_LF if cr else _LONE_CR
    # Python and pandas do not quote a lone CR (an LF where lines end with CR), but Arrow would end a row there.
    if any_lone := lone.search(rows) is not None:
        rows = lone.sub(mark.encode(), rows)
    table = _parse(rows.replace(b"\r", b"\n") if cr else rows, header, last)
    if any_lone:
        columns = [pc.replace_substring(column, mark, "\n" if cr else "\r") for column in table.columns]
        table = pa.Table.from_arrays(columns, schema=table.schema)
    return table


def _valid(rows: bytes) -> bytes:
    """Return the rows in UTF-8, with U+FFFD in place of what is not. Separators and line ends stay as they are."""
    try:
        rows.decode()
    except UnicodeDecodeError:
        return rows.decode("utf-8", "replace").encode()
    return rows


def read_names(stream: BinaryIO, path: str, delimiter: str | None = None) -> list[str]:
    """The names of the columns, from the header alone.

    At most the block of bytes in which the header ends is read, so faults further on in the file are not found.
    """
    return _header(_start(stream, delimiter), path, delimiter).names


def read_style(stream: BinaryIO, path: str, delimiter: str | None = None) -> CsvStyle:
    """How a file is written, from the header alone."""
    return _header(_start(stream, delimiter), path, delimiter).style


def _start(stream: BinaryIO, delimiter: str | None) -> bytes:
    """The first bytes of a stream, in which the header ends."""
    start = b""
    while len(start) <= HEADER_LIMIT:
        # A CR at the end of what was read may be the first half of a line end.
        if _first_line(delimiter or _delimiter(start)).match(start.removesuffix(b"\r")):
            break
        # One system call, so that a pipe does not block. Blocks grow, so a long header takes few searches.
        block = stream.read1(max(_HEADER_BLOCK, len(start)))  # type: ignore[attr-defined]
        if not block:
            break
        start += block
    return start


def _header(data: bytes, path: str, delimiter: str | None = None) -> _Header:
    """The header of a file, of which `data` is the start."""
    delimiter = delimiter or _delimiter(data)
    found = _first_line(delimiter).match(data, 0, HEADER_LIMIT)
    if found is None and len(data) > HEADER_LIMIT:
        raise InputError(
            f"The first line of {path} does not end within {HEADER_LIMIT:,} bytes. Begin the file with a line of "
            "column names, and close quoted names with a quotation mark."
        )
    line = data[: found.start(1) if found else len(data)].removeprefix(_BOM)
    _check_header(line, path)
    try:
        names = next(csv.reader(io.StringIO(line.decode(), newline=""), delimiter=delimiter))
    except csv.Error:
        raise InputError(f"The first line of {path} cannot be read as CSV. Check its quotes and separators.") from None
    if len(names) > MAX_COLUMNS:
        raise InputError(f"{path} has {len(names):,} columns; the limit is {MAX_COLUMNS:,}. Leave columns out.")
    style = CsvStyle(delimiter, found[1].decode() if found else "\n", data.startswith(_BOM))
    return _Header(names, style, found.end() if found else len(data))


def _check_header(line: bytes, path: str) -> None:
    """Refuse a first line that holds no names. The line is public, so the message may say what is wrong with it."""
    if not line.strip():
        raise InputError(f"{path} is empty or begins with an empty line. A table needs at least a header line.")
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16 text. Save it as UTF-8, or give --encoding utf-16.")
    if b"\0" in line:
        raise InputError(f"The first line of {path} has a NUL byte. Save it as UTF-8 text without binary parts.")
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"The first line of {path} is not UTF-8 text. Name its encoding, such as --encoding latin-1, or convert "
            "the file: iconv -t UTF-8."
        ) from None
    if line.count(b'"') % 2:
        raise InputError(
            f'The first line of {path} has an odd number of quotation marks, so one is not closed. Write "" in quotes.'
        )


def _delimiter(data: bytes) -> str:
    """The separator that the first line uses most outside quoted names; a comma where it uses none."""
    line = re.split(rb"[\r\n]", _QUOTED_FIELD.sub(b"", data[:HEADER_LIMIT]), maxsplit=1)[0]
    return max(DELIMITERS, key=lambda mark: line.count(mark.encode()))


def _parse(rows: bytes, header: _Header, last: str) -> pa.Table:
    """Return the rows as texts.

    A row that begins with `last`, a text that no row holds, is added at the end and removed again. Where it is missing
    then, a quotation mark was never closed: it took up all that follows.
    """
    delimiter, names = header.style.delimiter, header.names
    line_end = b"" if rows.endswith(b"\n") or not rows else b"\n"
    last_row = line_end + (last + delimiter * (len(names) - 1)).encode()
    table, other = _arrow_table(rows + last_row, header)
    if not table.num_rows or table.column(0)[-1].as_py() != last:
        table, other = _arrow_table(_without_open_quote(rows, delimiter) + last_row, header)
    table = table.slice(0, table.num_rows - 1)
    if not other:
        return table
    fields = re.compile(r'%s(?:"([^"]*+(?:""[^"]*+)*+)")?+([^%s]*+)' % ((re.escape(delimiter),) * 2))
    filled = [None] * len(names)
    found = [[q.replace('""', '"') + rest or None for q, rest in fields.findall(delimiter + row)] for row in other]
    columns = zip(*((row + filled)[: len(names)] for row in found), strict=True)
    added = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=table.schema)
    return pa.concat_tables([table, added])


def _arrow_table(rows: bytes, header: _Header) -> tuple[pa.Table, list[str]]:
    """Return the rows with as many fields as the header, and the text of all others.

    Names and types are given, so that Arrow takes none from what it reads.
    """
    types = pa.schema([(name, pa.string()) for name in header.names])
    other: list[str] = []

    def set_aside(row: arrow_csv.InvalidRow) -> str:
        other.append(row.text)
        return "skip"

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(rows),
            # A row must fit into a block: with one block for all rows, a long field cannot stop the run.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=header.names, block_size=min(len(rows) + 1, _MAX_BLOCK)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=header.style.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(header.names) > 1,
                invalid_row_handler=set_aside,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        # Not an InputError, which would cost nothing: whether this happens depends on one row.
        raise RuntimeError(f"a row of a CSV file takes more than {_MAX_BLOCK:,} bytes") from None
    return table, other


def _without_open_quote(rows: bytes, delimiter: str) -> bytes:
    """Return the rows with the one field quoted whose opening quotation mark is never closed.

    There is only one. After it, all marks stand in runs of even length, since from there on each was the half of a
    doubled one; and a field that begins with such a run is closed by it.
    """
    line, field = re.compile(_line(delimiter)), re.compile(_field(delimiter) + re.escape(delimiter).encode())
    at = 0
    for pattern in (line, field):
        while found := pattern.match(rows, at):
            at = found.end()
    end = re.compile(rb"[\n%b]|\r\n|\Z" % re.escape(delimiter).encode()).search(rows, at)
    stop = end.start() if end else len(rows)
    return rows[:at] + b'"' + rows[at:stop].replace(b'"', b'""') + b'"' + rows[stop:]


def write_csv(tables: Iterable[pa.Table], stream: BinaryIO, style: CsvStyle, *, escape_formulas: bool = False) -> None:
    """Write header and rows; texts are quoted only where they must be, null becomes an empty field.

    With `escape_formulas`, texts that a spreadsheet would take for formulas start with an apostrophe; numbers do not.
    """
    for number, table in enumerate(tables):
        if number == 0:
            names = without_formulas(table.column_names) if escape_formulas else table.column_names
            head = pa.table([pa.array([name], pa.string()) for name in names], names=table.column_names)
            stream.write((_BOM if style.bom else b"") + _lines(head, style, escape_formulas=False))
        for start in range(0, table.num_rows, WRITE_ROWS):
            stream.write(_lines(table.slice(start, WRITE_ROWS), style, escape_formulas=escape_formulas))


def _lines(table: pa.Table, style: CsvStyle, *, escape_formulas: bool) -> bytes:
    """The lines of some rows. Fields are joined by Arrow, whose buffer of texts is then what is written."""
    marks = f'"{style.delimiter}{style.line_end}'
    end, separator, nothing, empty = map(_text, (style.line_end, style.delimiter, "", '""'))
    columns: list[pa.Array] = []
    for column in table.columns:
        texts = _texts(column)
        if escape_formulas:
            texts = pa.array(without_formulas(texts.to_pylist()), pa.large_string())
        texts = texts.fill_null("")
        if any(text.encode() in _bytes_of(texts) for text in marks):
            coded = texts.dictionary_encode()
            texts = _quoted(coded.dictionary, marks).take(coded.indices)
        columns.append(texts)
    if len(columns) == 1:  # an empty line would not be read as a row
        columns = [pc.if_else(pc.equal(columns[0], nothing), empty, columns[0])]
    columns[-1] = pc.binary_join_element_wise(columns[-1], end, nothing)
    lines = pc.binary_join_element_wise(*columns, separator) if len(columns) > 1 else columns[0]
    return _bytes_of(lines)


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _quoted(texts: pa.Array, marks: str) -> pa.Array:
    """The texts, in quotation marks where they hold a mark that means something in the file."""
    special = pc.match_substring_regex(texts, "[" + "".join(f"\\x{ord(mark):02x}" for mark in marks) + "]")
    inner = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise(_text('"'), inner, _text('"'), _text("")), texts)


def _bytes_of(texts: pa.Array) -> bytes:
    """The bytes of all texts of an array, one after the other."""
    _, ends, data = texts.buffers()
    if not len(texts) or data is None:
        return b""
    places = np.frombuffer(ends, np.int64)
    first = int(places[texts.offset])
    return data.slice(first, int(places[texts.offset + len(texts)]) - first).to_pybytes()


def without_formulas(texts: Sequence[str | None]) -> list[str | None]:
    """The texts, with an apostrophe before those that a spreadsheet would take for formulas. Numbers stay as they are.

    >>> without_formulas(["=1+1", "-5.2e3", "-a", None, "@x", "b", "-1,5"])
    ["'=1+1", '-5.2e3', "'-a", None, "'@x", 'b', '-1,5']
    """
    return [f"'{text}" if text and text[0] in _FORMULA and not _NUMBER.fullmatch(text) else text for text in texts]


def as_texts(column: pa.ChunkedArray) -> list[str | None]:
    """A column's values as written in a CSV file."""
    return _texts(column).to_pylist()


def _texts(column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return column.cast(pa.string()).cast(pa.large_string()).combine_chunks()
