"""Files of spreadsheets and statistics programs: Excel, Stata, SAS, SPSS. Their libraries are extras.

The first row of an Excel sheet holds the names; the cells below are read as texts, one by one, since a sheet has no
types: no value decides the type of a column. Stata, SAS and SPSS files say what type a column has, and by its format
whether its numbers are dates; that is public structure, and the values only follow it. Value labels are not read.
"""

from __future__ import annotations

import codecs
import datetime
import io
import re
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, MissingExtraError
from lookalike.schema.schema import MAX_COLUMNS

ENDS = {"excel": (".xlsx", ".xlsm"), "stata": (".dta",), "sas": (".sas7bdat", ".xpt"), "spss": (".sav", ".zsav")}


class UnreadableError(Exception):
    """A library cannot read a file of its format. Its own message, which may hold values, is dropped."""


UNREADABLE = (UnreadableError,)
_READERS = {
    ".dta": "read_dta", ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport", ".sav": "read_sav", ".zsav": "read_sav",
}  # fmt: skip
_WRITERS = {".dta": "write_dta", ".xpt": "write_xport", ".sav": "write_sav", ".zsav": "write_sav"}
_DATES = {
    "stata": (re.compile(r"%-?t?d"), re.compile(r"%-?t[cC]")),
    "sas": (
        re.compile(
            r"(DATE|DDMMYY|MMDDYY|YYMMDD|E8601DA|B8601DA|WEEKDATE|WORDDATE|DAY|MONYY|YYMM|JULIAN)\w?\d*(\.\d*)?$"
        ),
        re.compile(r"(DATETIME|E8601DT|B8601DT|DATEAMPM|MDYAMPM)"),
    ),
    "spss": (re.compile(r"[AEJS]?DATE\d+$"), re.compile(r"(DATETIME|YMDHMS)")),
}
"""Formats of columns that hold days, and of those that hold times."""
_BYTES = "ISO-8859-1"
"""The encoding in which every byte is a character of its own."""
_STATA_START, _STATA_UTF8 = 100, 118
"""Bytes at the beginning of a Stata file that name its format, and the first format whose texts are UTF-8."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]|$)")
_MAX_STATA = 2_147_483_620
"""Larger numbers of 32 bits mean missing values there."""
_TICKS = {  # microseconds of one unit of days and of times, and days from the program's first day to 1970
    "stata": (86_400_000_000, 1_000, 3653),
    "sas": (86_400_000_000, 1_000_000, 3653),
    "spss": (1_000_000, 1_000_000, 141_428),
}


def read(stream: BinaryIO, path: Path, kind: str, *, rows: bool) -> pa.Table:
    """The table in a file; with `rows=False` only its names and types, without a row."""
    if kind == "excel":
        return _read_sheet(io.BytesIO(stream.read()), path, rows)
    return _read_statistics(stream, path, kind, rows)


def check_writable(path: Path, kind: str, names: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written, or not with columns of these names: it costs nothing to find out first."""
    if kind == "excel":
        _library("openpyxl", kind)
        return
    pandas = _library("pandas", kind)
    _written(pandas.DataFrame({name: [0.0] for name in names or ["a"]}), path)


def write(
    table: pa.Table, stream: BinaryIO, path: Path, kind: str, numbers: Collection[str], times: Collection[str] = ()
) -> None:
    """Write a table; texts of the columns in `numbers` become numbers, in a sheet those in `times` days and times."""
    if kind == "excel":
        _write_sheet(table, stream, numbers, times)
    else:
        _write_statistics(table, stream, path, numbers)


def _library(name: str, kind: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(name, "formats", f"A file of {kind.title()}") from None


# Excel.


def _read_sheet(data: io.BytesIO, path: Path, rows: bool) -> pa.Table:
    openpyxl = _library("openpyxl", "excel")
    try:
        lines = _lines(openpyxl.load_workbook(data, read_only=True, data_only=True))
        names = [_cell(value) or "" for value in next(lines, ())]
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, OSError, AttributeError):
        raise UnreadableError from None
    while names and not names[-1]:
        names.pop()
    if not names or len(names) > MAX_COLUMNS:
        raise InputError(
            f"The first row of {path} has {len(names):,} names; it must have 1 to {MAX_COLUMNS:,}. Begin the first "
            "sheet with a row of column names."
        )
    found = [_line(line, len(names)) for line in lines if any(v is not None for v in line)] if rows else []
    columns = zip(*found, strict=True) if found else ([] for _ in names)
    return pa.Table.from_arrays([pa.array(list(column), pa.string()) for column in columns], names=names)


def _lines(book: Any) -> Iterator[tuple[Any, ...]]:
    """The values of the first sheet's rows; a cell that the library cannot read counts as empty."""
    reader, sheet = import_module("openpyxl.worksheet._reader"), book.worksheets[0]

    class Parser(reader.WorkSheetParser):
        def parse_cell(self, element: Any) -> dict[str, Any]:
            before = self.col_counter
            try:
                return super().parse_cell(element)
            except Exception:  # noqa: BLE001 - a row must not decide whether a run ends
                place = self.col_counter = max(self.col_counter, before + 1)
                return {"row": self.row_counter, "column": place, "value": None, "data_type": "n", "style_id": 0}

    formats = {"date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
    with sheet._get_source() as source:
        for _, cells in Parser(source, sheet._shared_strings, data_only=True, epoch=book.epoch, **formats).parse():
            values = {cell["column"]: cell["value"] for cell in cells if cell["column"] <= MAX_COLUMNS + 1}
            yield tuple(values.get(place) for place in range(1, max(values, default=0) + 1))


def _line(line: tuple[Any, ...], width: int) -> list[str | None]:
    return [_cell(value) for value in (*line[:width], *([None] * (width - len(line))))]


def _cell(value: Any) -> str | None:
    """The text of a cell, by its own value alone. Excel keeps whole numbers as floats and days as midnights."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return str(value.date()) if value.time() == datetime.time() else str(value)
    return str(value).encode("utf-8", "replace").decode()


def _write_sheet(table: pa.Table, stream: BinaryIO, numbers: Collection[str], times: Collection[str]) -> None:
    openpyxl = _library("openpyxl", "excel")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(table.column_names)
    columns = [_values(table.column(name), name in numbers) for name in table.column_names]
    dated = [
        map(_time, values) if name in times else values
        for name, values in zip(table.column_names, columns, strict=True)
    ]
    for row in zip(*dated, strict=True):
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value=value) for value in row]
        for cell in cells:
            if isinstance(cell.value, str):
                cell.data_type = "s"  # a text that begins with = is not a formula
        sheet.append(cells)
    book.save(stream)


def _values(column: pa.ChunkedArray, numbers: bool) -> list[Any]:
    values = column.to_pylist()
    values = [v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for v in values]
    return [_number(value) for value in values] if numbers else values


def _number(text: Any) -> Any:
    """The number or truth value that a text stands for; any other value unchanged."""
    if not isinstance(text, str):
        return text
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _time(text: Any) -> Any:
    """The day or time that a text such as 2020-01-31 12:00:00 stands for, if Excel has it; else the value unchanged."""
    if not isinstance(text, str) or not _ISO.match(text) or text < "1900-03-01":
        return text
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if found.tzinfo else found.date() if len(text) == len("2020-01-31") else found


# Stata, SAS, SPSS.


def _read_statistics(stream: BinaryIO, path: Path, kind: str, rows: bool) -> pa.Table:
    """Names and types come from the metadata alone, and only these can be refused.

    Texts of rows are read as bytes and decoded one by one: a text that is not in the encoding of the file would make
    the library refuse all of it, and a single row must not decide about a run.
    """
    pyreadstat = _library("pyreadstat", kind)
    read_ = getattr(pyreadstat, _READERS[path.suffix.lower()])
    options = {"disable_datetime_conversion": True, "output_format": "dict"}
    try:
        start = stream.read(_STATA_START)
        stream.seek(0)
        _, meta = read_(stream, metadataonly=True, **options)
        stream.seek(0)
        found = read_(stream, encoding=_BYTES, **options)[0] if rows else {}
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, UnicodeDecodeError):
        raise UnreadableError from None
    encoding = _encoding(meta.file_encoding, start, kind)
    arrays, columns = [], list(found.values()) or [[] for _ in meta.column_names]
    for name, values in zip(meta.column_names, columns, strict=True):
        form = meta.original_variable_types.get(name) or ""
        stored, form = meta.readstat_variable_types[name], form if kind == "stata" else form.upper()
        decoded = _decoded(values, encoding) if stored == "string" else values
        arrays.append(_typed(decoded, stored, form, kind))
    return pa.Table.from_arrays(arrays, names=list(meta.column_names))


def _encoding(named: str | None, start: bytes, kind: str) -> str:
    """The encoding of a file's texts, from its first bytes and its metadata: one that Python knows."""
    if kind == "stata":  # files before version 14 say nothing, and are read as those of Windows
        release = re.search(rb"<release>(\d+)", start)
        named = "utf-8" if release is not None and int(release[1]) >= _STATA_UTF8 else "windows-1252"
    try:
        return codecs.lookup(named or "utf-8").name
    except LookupError:
        return _BYTES


def _decoded(values: Any, encoding: str) -> list[str | None]:
    return [None if value is None else value.encode(_BYTES).decode(encoding, "replace") for value in values]


def _typed(values: Any, kind: str, form: str, program: str) -> pa.Array:
    """A column by its declared type and format alone."""
    if kind == "string":
        return pa.array([value or None for value in values], pa.string())
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    absent = np.isnan(numbers)
    days, times = _DATES[program]
    day_ticks, time_ticks, offset = _TICKS[program]
    if times.match(form) or days.match(form):
        is_day = not times.match(form)
        ticks = np.where(absent, 0, numbers) * (day_ticks if is_day else time_ticks) - offset * 86_400_000_000.0
        whole = np.clip(np.rint(ticks), -(2.0**62), 2.0**62).astype(np.int64)
        stamps = pa.array(whole, mask=absent).cast(pa.timestamp("us"))
        return stamps.cast(pa.date32(), safe=False) if is_day else stamps
    if kind.startswith("int"):
        return pa.array(np.where(absent, 0, numbers).astype(np.int32), mask=absent)
    return pa.array(numbers, pa.float64(), mask=absent)


def _write_statistics(table: pa.Table, stream: BinaryIO, path: Path, numbers: Collection[str]) -> None:
    pandas = _library("pandas", "statistics")
    columns = {name: _storable(table.column(name), name in numbers) for name in table.column_names}
    frame = pandas.DataFrame({name: pandas.Series(values, dtype=kind) for name, (values, kind) in columns.items()})
    stream.write(_written(frame, path))


def _written(frame: Any, path: Path) -> bytes:
    """The contents of a file of that suffix with the frame's columns."""
    pyreadstat, end = _library("pyreadstat", "statistics"), path.suffix.lower()
    if end not in _WRITERS:
        raise InputError(f"{path} cannot be written: {end} files can only be read. Write an .xpt file.")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"table{end}"
        try:
            getattr(pyreadstat, _WRITERS[end])(frame, str(made), **({"compress": True} if end == ".zsav" else {}))
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, TypeError) as error:
            raise InputError(f"The table cannot be written to {path}: {error}. Write a .csv file.") from None
        return made.read_bytes()


def _storable(column: pa.ChunkedArray, numbers: bool) -> tuple[list[Any], Any]:
    """The values of a column as these programs can hold them, and their dtype: numbers, days, times, or texts."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    values = _values(column, numbers)
    if pa.types.is_timestamp(kind):
        return values, "datetime64[us]"
    if pa.types.is_date(kind):
        return values, object
    if all(value is None or (type(value) is int and abs(value) <= _MAX_STATA) for value in values):
        return values, "Int32"
    if all(value is None or isinstance(value, int | float) for value in values):
        return [np.nan if value is None else float(value) for value in values], float
    return ["" if value is None else str(value) for value in values], object
