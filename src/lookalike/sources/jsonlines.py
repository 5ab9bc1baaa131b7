"""Reads files of JSON lines as Arrow tables of texts, and writes them.

The names of columns are the keys of the first line, which are taken as public, as a header is; only that line can be
refused. Every line after it counts as a row: a missing key is null, a key that the first line does not have is dropped,
and a line that is not a JSON object is a row of nulls.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, BinaryIO

import pyarrow as pa

from lookalike.errors import InputError
from lookalike.schema.schema import MAX_COLUMNS
from lookalike.sources.csvfiles import HEADER_LIMIT, WRITE_ROWS, as_texts


def read_names(stream: BinaryIO, path: str) -> list[str]:
    """The keys of the first line; nothing after the block in which it ends is read."""
    start = b""
    while b"\n" not in start and len(start) <= HEADER_LIMIT:
        block = stream.read1(1 << 14)  # type: ignore[attr-defined]
        if not block:
            break
        start += block
    return _names(start.split(b"\n", 1)[0], path)


def _names(line: bytes, path: str) -> list[str]:
    try:
        first = json.loads(line.decode("utf-8-sig"), object_pairs_hook=list)
        names = [key for key, _ in first]
    except (ValueError, TypeError, RecursionError):
        raise InputError(
            f"The first line of {path} is not a JSON object {{column: value}}. Write one object per line."
        ) from None
    if not names or len(line) > HEADER_LIMIT or len(names) > MAX_COLUMNS:
        limits = f"1 to {MAX_COLUMNS:,} columns in at most {HEADER_LIMIT:,} bytes"
        raise InputError(f"The first line of {path} has {len(names):,} columns; it must have {limits}.")
    return names


def read_lines(stream: BinaryIO, path: str) -> pa.Table:
    """A table of texts: numbers as they are written, `true` and `false`, lists and objects as JSON."""
    data = stream.read()
    lines = [line for line in data.split(b"\n") if line.strip()]
    names = _names(lines[0] if lines else b"", path)
    rows = [_row(line.decode("utf-8-sig", "replace")) for line in lines]
    columns = [pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in names]
    return pa.Table.from_arrays(columns, names=names)


class _Number(str):
    """The text of a number, as it is written."""

    __slots__ = ()


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def write_lines(table: pa.Table, stream: BinaryIO, numbers: Collection[str] = ()) -> None:
    """Write one object per row; texts of the columns in `numbers` that are JSON numbers or truth values as such."""
    keys = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    for start in range(0, table.num_rows, WRITE_ROWS):
        part = table.slice(start, WRITE_ROWS)
        columns = [
            _json_values(as_texts(column), name in numbers or not _is_text(column.type))
            for name, column in zip(part.column_names, part.columns, strict=True)
        ]
        for row in zip(*columns, strict=True):
            pairs = (f"{key}: {value}" for key, value in zip(keys, row, strict=True))
            stream.write(f"{{{', '.join(pairs)}}}\n".encode("utf-8", "replace"))


def _json_values(texts: list[str | None], literal: bool) -> list[str]:
    def written(text: str | None) -> str:
        if text is None:
            return "null"
        return text if literal and _is_literal(text) else json.dumps(text, ensure_ascii=False)

    return [written(text) for text in texts]


def _is_literal(text: str) -> bool:
    try:
        value = json.loads(text, parse_constant=_Number)
    except ValueError:
        return False
    return isinstance(value, int | float)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
