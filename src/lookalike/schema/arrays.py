"""Arrow arrays of numbers and times, or of texts that write them, to internal numbers and back.

No value raises an error here: values that cannot be read are marked, and the codec treats them as the schema says.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema import number_texts, time_texts, times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer, Number
from lookalike.schema.storage import is_text

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
    numbers = _floats(array)
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
    """The array as plain texts. Bytes that are no UTF-8, which other programs may have stored, become `\ufffd`."""
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


def _floats(array: pa.Array) -> np.ndarray:
    numbers = array.cast(pa.float64(), safe=False)
    return numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)


def saturated(numbers: np.ndarray) -> np.ndarray:
    """Floats as whole numbers, clipped to +-2^62, which is beyond every bound of a schema; NaN becomes 0."""
    return np.nan_to_num(numbers, nan=0.0, posinf=2.0**62, neginf=-(2.0**62)).clip(-(2.0**62), 2.0**62).astype(np.int64)


def _read_text(column: Number, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    trimmed = number_texts.bare_texts(column, pc.utf8_trim_whitespace(texts_of(array)))
    number = pc.match_substring_regex(trimmed, _NUMBER)
    numbers = _floats(pc.if_else(number, trimmed, None))
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
    if not plain and number_texts.is_dressed(column):
        texts = [number_texts.dressed(column, text) for text in texts]
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
    elif time_texts.known(column.format):
        return time_texts.read(texts, column.format, tz)
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
    if time_texts.known(column.format):
        return time_texts.written(micros, column.format, tz)
    distinct, places = np.unique(micros, return_inverse=True)
    stamps = pa.array(distinct).cast(pa.timestamp("us")).to_pylist()
    texts = [when.replace(tzinfo=tz).strftime(column.format) for when in stamps]
    return pa.array(texts, type=pa.string()).take(pa.array(places))
