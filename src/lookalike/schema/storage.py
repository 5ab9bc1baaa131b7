"""How columns are stored in Arrow: types, arrays of numbers and times or of texts that write them, and drafts.

No value raises an error here: values that cannot be read are marked, and the codec treats them as the schema says.

A draft (`draft`) knows names, order and storage types, which are public structure. Nothing is read from the rows, so it
costs no budget. Other facts are left open: the user declares them in the draft, or a run discovers them inside its
budget.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Continuous, Datetime, Integer, Number, bare_texts, dressed, is_dressed
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Categorical, Column, Identifier, Undeclared
from lookalike.schema.schema import Schema

_VALUES = b"lookalike.values"
"""Key of a field's metadata under which a type lists its values."""
_IDENTIFIER_NAMES = re.compile(
    r"(?!(?:has|have|had|is|was|sent|got|any|with)[^a-z])(.*[^a-z])?(id|uuid|guid|ssn|e-?mail|phone|fax|url|iban)",
    re.IGNORECASE,
)
_ALIASES = {"large_string": pa.large_string(), "string_view": pa.string_view(), "null": pa.null()}
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=(\d)>")
_DECIMAL = re.compile(r"decimal(32|64|128|256|)\((\d+), (-?\d+)\)")
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "": pa.decimal128, "128": pa.decimal128, "256": pa.decimal256}
_ZONED = re.compile(r"timestamp\[(\w+), tz=(.+)\]")


def arrow_type(text: str) -> pa.DataType:
    """The type that Arrow prints as `text`.

    >>> arrow_type("timestamp[us, tz=Europe/Paris]")
    TimestampType(timestamp[us, tz=Europe/Paris])
    """
    if text in _ALIASES:
        return _ALIASES[text]
    try:
        if match := _DICTIONARY.fullmatch(text):
            return pa.dictionary(arrow_type(match[2]), arrow_type(match[1]), ordered=match[3] == "1")
        if match := _DECIMAL.fullmatch(text):
            return _DECIMALS[match[1]](int(match[2]), int(match[3]))
        if match := _ZONED.fullmatch(text):
            return pa.timestamp(match[1], tz=match[2])
        return pa.type_for_alias(text)
    except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException):
        raise SchemaError(f"No storage type {text!r}. Use a type that Arrow knows, such as string or int64.") from None


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def holds_text(kind: pa.DataType, text: str) -> bool:
    """Whether the text can be read as a value of the type; a date beyond the year 9999 cannot."""
    if is_text(kind):
        return True
    try:
        pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def any_value(column: Column) -> str:
    """A text that the column's storage type can hold, as the only value of a column whose values were not found."""
    kind = value_type(storage_type(column))
    return next(text for text in ("other", "0", "false", "1970-01-01") if holds_text(kind, text))


def holds_identifiers(column: Column) -> bool:
    """Whether the column's storage can hold made-up identifiers."""
    kind = value_type(storage_type(column))
    return is_text(kind) or pa.types.is_integer(kind)


def whole_range(column: Column) -> tuple[int, int]:
    """Smallest and largest whole number that the column's storage can hold; those of 64 bits for other types."""
    kind = value_type(storage_type(column))
    bits = kind.bit_width if pa.types.is_integer(kind) else 64
    return (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values: that of the dictionary where the type is one."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def natural_type(column: Column) -> pa.DataType:
    """The Arrow type of a column for which neither the table nor the schema gives one."""
    if isinstance(column, Integer):
        return pa.int64()
    if isinstance(column, Continuous):
        return pa.float64()
    if isinstance(column, Datetime):
        if column.clock:
            return pa.time64("us")
        if column.zone:
            return pa.timestamp("us", tz=column.zone)
        return pa.date32() if column.resolution == "day" else pa.timestamp("us")
    return pa.string()


def storage_type(column: Column) -> pa.DataType:
    """The column's Arrow type; a SchemaError where the type cannot hold the column's kind."""
    if not column.storage:
        return natural_type(column)
    kind = arrow_type(column.storage)
    value = value_type(kind)
    if pa.types.is_timestamp(value):
        times.check_zone(column.name, value.tz or "")
    if pa.types.is_null(value):
        fits = bool(column.missing)
    elif isinstance(column, Undeclared):
        fits = is_text(value)
    elif isinstance(column, Categorical):
        fits = is_text(value) or _is_number(value) or pa.types.is_boolean(value) or pa.types.is_temporal(value)
    elif isinstance(column, Identifier):
        fits = is_text(value) or pa.types.is_integer(value)
    elif isinstance(column, Datetime):
        typed = pa.types.is_time(value) if column.clock else pa.types.is_timestamp(value) or pa.types.is_date(value)
        fits = is_text(value) or typed
    else:
        fits = is_text(value) or _is_number(value)
    if not fits:
        raise SchemaError(
            f"Column {column.name!r} is {type(column).__name__} in the schema but stored as {column.storage}. "
            "Change the field's type in the schema, or convert the column."
        )
    return kind


def draft(types: pa.Schema) -> Schema:
    """The schema of a table with these names and types; `open_facts` lists what it leaves open."""
    return Schema(tuple(draft_column(field.name, field.type, _listed_values(field)) for field in types))


def with_values(field: pa.Field, values: Sequence[str]) -> pa.Field:
    """The field of a column whose type itself lists its values, as a polars Enum does: a public fact."""
    return field.with_metadata({_VALUES: json.dumps(list(values)).encode()})


def _listed_values(field: pa.Field) -> tuple[str, ...]:
    return tuple(json.loads((field.metadata or {}).get(_VALUES, b"[]")))


def draft_column(name: str, kind: pa.DataType, values: tuple[str, ...] = ()) -> Column:
    """One column by its type alone. A name such as `customer_id` or `e-mail` makes an identifier: names are public."""
    value = value_type(kind)
    if values:
        return Categorical(name, values=values, **_open())
    if (is_text(value) or pa.types.is_integer(value)) and is_identifier_name(name):
        pattern = "id-########" if is_text(value) else "#" * 8
        return Identifier(name, pattern=pattern, provenance={"missing": "open"})
    if pa.types.is_dictionary(kind):
        return Categorical(name, **_open())
    if is_text(kind):
        return Undeclared(name)
    if pa.types.is_boolean(kind):
        return Categorical(name, values=("false", "true"), **_open())
    if pa.types.is_integer(kind):
        return Integer(name, **_open("bins"))
    if pa.types.is_decimal(kind):
        return Continuous(name, decimals=kind.scale, **_open("bins"))
    if pa.types.is_floating(kind):
        return Continuous(name, **_open("bins", "decimals"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        resolution = "day" if pa.types.is_date(kind) else "microsecond"
        return Datetime(name, resolution=resolution, zone=getattr(kind, "tz", None) or "", **_open("bins"))
    if pa.types.is_time(kind):
        resolution = {"s": "second", "ms": "millisecond"}.get(kind.unit, "microsecond")
        return Datetime(name, format="%H:%M:%S", resolution=resolution, **_open("bins"))
    if pa.types.is_null(kind):
        return Categorical(name, values=("none",), missing=("",), outside="absorb")
    raise SchemaError(
        f"Column {name!r} is stored as {kind}, which cannot be synthesized. Convert it to text, numbers, times or "
        "booleans, or drop it."
    )


def _open(*facts: str) -> dict[str, Any]:
    """Arguments of drafted columns: these facts and the missing markers are open, any value is accepted."""
    return {"outside": "absorb", "provenance": dict.fromkeys((*facts, "missing"), "open")}


def is_identifier_name(name: str) -> bool:
    """Whether the name alone shows that a column identifies rows or persons. What is sent or had is a flag.

    >>> [is_identifier_name(name) for name in ("id", "Customer_ID", "patient id", "email", "paid", "sent_email")]
    [True, True, True, True, False, False]
    """
    return _IDENTIFIER_NAMES.fullmatch(name) is not None


_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the first and last time of the years 1 to 9999, outside of which time zones cannot be applied."""
_UNITS = {"s": times.TICKS["second"], "ms": times.TICKS["millisecond"], "us": 1}
# Arrow reads and writes these codes as strptime does; the others go through Python, on distinct texts only.
_ARROW_CODES = re.compile(r"(?:[^%]|%[YmdHMS])*")


def to_numbers(column: Binned, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Internal numbers of an array, and which of them could be read; nulls count as not read."""
    if isinstance(column, Datetime):
        numbers, readable = _read_times(column, array)
        return numbers // times.TICKS[column.resolution], readable
    if is_text(array.type) and isinstance(column, Number):
        return _read_text(column, array)
    numbers = floats_of(array)
    readable = ~np.isnan(numbers)
    if isinstance(column, Integer):
        if pa.types.is_signed_integer(array.type):
            return _filled(array.cast(pa.int64()), 0), ~_nulls(array)
        readable &= numbers == np.floor(numbers)
        return saturated(numbers), readable
    return numbers, readable


def to_array(column: Binned, numbers: np.ndarray, null: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Values as an Arrow array of type `kind`. `numbers` are ticks, or floats where the column has no fixed tick."""
    if isinstance(column, Datetime):
        return _write_times(column, numbers, null, kind)
    fixed_decimals = isinstance(column, Continuous) and column.decimals is not None
    if isinstance(column, Number) and (is_text(kind) or (fixed_decimals and pa.types.is_decimal(kind))):
        texts = _texts(column, numbers, plain=not is_text(kind))
        return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), texts).cast(kind)
    numbers = column.numbers_at(numbers)
    if pa.types.is_decimal(kind):
        return pa.array([str(number) for number in numbers.tolist()], mask=null).cast(kind)
    return pa.array(numbers, mask=null).cast(kind)


def texts_of(array: pa.Array) -> pa.Array:
    """The array as plain texts. Bytes that are not UTF-8, which other programs may have stored, become `\ufffd`."""
    texts = array.cast(pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.cast(pa.binary()).to_pylist()
        texts = pa.array([None if text is None else text.decode("utf-8", "replace") for text in raw], type=pa.string())
    return texts


def _nulls(array: pa.Array) -> np.ndarray:
    return array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def _filled(array: pa.Array, value: int | float) -> np.ndarray:
    return array.fill_null(value).to_numpy(zero_copy_only=False)


def floats_of(array: pa.Array) -> np.ndarray:
    """The numbers of an array as floats, NaN for null: the nearest, which Arrow's cast of decimals often misses.

    Short floats are the numbers that they are written as: 0.7 of 32 bits is below the edge 0.7 of a bin otherwise.
    """
    written = pa.types.is_decimal(array.type) or pa.types.is_float32(array.type)
    numbers = (array.cast(pa.string()) if written else array).cast(pa.float64(), safe=False)
    return numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)


def saturated(numbers: np.ndarray) -> np.ndarray:
    """Floats as whole numbers, clipped to +-2^62, which is beyond every bound of a schema; NaN becomes 0."""
    return np.nan_to_num(numbers, nan=0.0, posinf=2.0**62, neginf=-(2.0**62)).clip(-(2.0**62), 2.0**62).astype(np.int64)


def _read_text(column: Number, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    trimmed = bare_texts(column, pc.utf8_trim_whitespace(texts_of(array)))
    number = pc.match_substring_regex(trimmed, _NUMBER)
    numbers = floats_of(pc.if_else(number, trimmed, None))
    readable = _filled(number, False)
    if not isinstance(column, Integer):
        return numbers, readable
    short = pc.match_substring_regex(trimmed, _WHOLE)
    whole = _filled(pc.if_else(short, pc.replace_substring_regex(trimmed, r"^\+", ""), None).cast(pa.int64()), 0)
    is_short = _filled(short, False)
    readable &= is_short | (numbers == np.floor(numbers))
    return np.where(is_short, whole, saturated(numbers)), readable


def _texts(column: Number, numbers: np.ndarray, *, plain: bool) -> pa.Array:
    """Texts of numbers as the column writes them, or (`plain`) of digits, a minus and a point alone."""
    distinct, places = np.unique(numbers, return_inverse=True)
    texts = _plain_texts(column, distinct.tolist())
    if not plain and is_dressed(column):
        texts = [dressed(column, text) for text in texts]
    return pa.array(texts, type=pa.string()).take(pa.array(places))


def _plain_texts(column: Number, numbers: list[Any]) -> list[str]:
    if isinstance(column, Integer):
        return [f"{number:0{column.width}d}" for number in numbers]
    if not isinstance(column, Continuous) or column.decimals is None:
        return [repr(number) for number in numbers]
    scale, places = 10.0**column.decimals, column.decimals
    texts = [f"{number / scale:.{places}f}" for number in numbers]
    least = column.least_decimals
    return texts if least is None else [_trimmed(text, least) for text in texts]


def _trimmed(text: str, places: int) -> str:
    """The text without final zeros, but with at least `places` decimals."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(places, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _read_times(column: Datetime, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Wall-clock microseconds since 1970 and which values could be read."""
    if is_text(array.type):
        return _parse_times(column, pc.utf8_trim_whitespace(texts_of(array)))
    if pa.types.is_null(array.type):
        array = array.cast(pa.timestamp("us"))
    micros = _micros(array)
    if pa.types.is_timestamp(array.type) and array.type.tz:
        known = pa.array(micros.clip(_FIRST_TIME, _LAST_TIME)).cast(pa.timestamp("us", tz=array.type.tz))
        micros = _filled(pc.local_timestamp(known).cast(pa.int64()), 0)
    return micros, ~_nulls(array)


def _micros(array: pa.Array) -> np.ndarray:
    """Microseconds of dates or timestamps. Arrow's casts wrap around or raise where 64 bits are too few."""
    if pa.types.is_date32(array.type):
        counts, unit = _filled(array.cast(pa.int32()).cast(pa.int64()), 0), times.TICKS["day"]
    elif pa.types.is_time32(array.type):
        counts, unit = _filled(array.cast(pa.int32()).cast(pa.int64()), 0), _UNITS[array.type.unit]
    else:
        unit_name = "ms" if pa.types.is_date64(array.type) else array.type.unit
        counts = _filled(array.cast(pa.int64()), 0)
        if unit_name == "ns":
            return counts // 1000
        unit = _UNITS[unit_name]
    return counts.clip(-(2**62) // unit, 2**62 // unit) * unit


def _parse_times(column: Datetime, texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    tz = times.offset_zone(column.zone) if column.zone else UTC
    if _ARROW_CODES.fullmatch(column.format) and all(code in column.format for code in ("%Y", "%m", "%d")):
        stamps = pc.strptime(texts, format=column.format, unit="us", error_is_null=True)
    elif times.known(column.format):
        return times.read(texts, column.format, tz)
    else:
        distinct = texts.dictionary_encode()
        parsed = [_parse_time(text, column.format, tz) for text in distinct.dictionary.to_pylist()]
        stamps = pa.array(parsed, type=pa.timestamp("us")).take(distinct.indices)
    return _micros(stamps), ~_nulls(stamps)


def _parse_time(text: str, format: str, tz: object) -> datetime | None:
    try:
        when = datetime.strptime(text, format)
    except ValueError:
        return None
    try:
        return when if when.tzinfo is None else when.astimezone(tz).replace(tzinfo=None)  # type: ignore[arg-type]
    except OverflowError:  # an offset moves the first and last day out of the years 1 to 9999
        return datetime.min if when.year == 1 else datetime.max


def _write_times(column: Datetime, ticks: np.ndarray, null: np.ndarray, kind: pa.DataType) -> pa.Array:
    micros = ticks.astype(np.int64) * times.TICKS[column.resolution]
    if is_text(kind):
        return pc.if_else(pa.array(null), pa.scalar(None, pa.string()), _format_times(column, micros)).cast(kind)
    if pa.types.is_time(kind):
        return pa.array(micros, mask=null).cast(pa.time64("us")).cast(kind, safe=False)
    stamps = pa.array(micros, mask=null).cast(pa.timestamp("us"))
    if pa.types.is_timestamp(kind) and kind.tz:
        stamps = pc.assume_timezone(stamps, kind.tz, ambiguous="earliest", nonexistent="latest")
    return stamps.cast(kind, safe=False)


def _format_times(column: Datetime, micros: np.ndarray) -> pa.Array:
    tz = times.offset_zone(column.zone) if column.zone else UTC
    if times.known(column.format):
        return times.written(micros, column.format, tz)
    distinct, places = np.unique(micros, return_inverse=True)
    stamps = pa.array(distinct).cast(pa.timestamp("us")).to_pylist()
    texts = [when.replace(tzinfo=tz).strftime(column.format) for when in stamps]
    return pa.array(texts, type=pa.string()).take(pa.array(places))
