"""Arrow arrays of numbers and times, or of texts that write them, to internal numbers and back.

No value raises an error here: values that cannot be read are marked, and the codec treats them as the schema says.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.storage import is_text

_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the first and last time of the years 1 to 9999, outside of which time zones cannot be applied."""
# Arrow reads and writes these codes as strptime does; the others go through Python, on distinct texts only.
_ARROW_CODES = re.compile(r"(?:[^%]|%[YmdHMS])*")


def to_numbers(column: Binned, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Internal numbers of an array, and which of them could be read; nulls count as not read."""
    if isinstance(column, Datetime):
        numbers, readable = _read_times(column, array)
        return numbers // times.TICKS[column.resolution], readable
    if is_text(array.type):
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
    if is_text(kind) or (fixed_decimals and pa.types.is_decimal(kind)):
        return pa.array(_texts(column, numbers), type=pa.string(), mask=null).cast(kind)
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


def _read_text(column: Binned, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    trimmed = pc.utf8_trim_whitespace(texts_of(array))
    if isinstance(column, Continuous) and column.comma:
        trimmed = pc.replace_substring(trimmed, ",", ".")
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


def _texts(column: Binned, numbers: np.ndarray) -> list[str] | pa.Array:
    if isinstance(column, Integer):
        if column.width:
            return [f"{number:0{column.width}d}" for number in numbers.tolist()]
        return pa.array(numbers).cast(pa.string()).to_pylist()
    if isinstance(column, Continuous) and column.decimals is not None:
        scale, places = 10.0**column.decimals, column.decimals
        texts = [f"{number / scale:.{places}f}" for number in numbers.tolist()]
        if column.least_decimals is not None:
            texts = [_trimmed(text, column.least_decimals) for text in texts]
    else:
        texts = [repr(number) for number in numbers.tolist()]
    return [text.replace(".", ",") for text in texts] if isinstance(column, Continuous) and column.comma else texts


def _trimmed(text: str, places: int) -> str:
    """The text without final zeros, but with at least `places` decimals."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0").ljust(places, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _read_times(column: Datetime, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Wall-clock microseconds since 1970 and which values could be read."""
    if is_text(array.type):
        array = _parse_times(column, pc.utf8_trim_whitespace(texts_of(array)))
    elif pa.types.is_null(array.type):
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
    else:
        unit_name = "ms" if pa.types.is_date64(array.type) else array.type.unit
        counts = _filled(array.cast(pa.int64()), 0)
        if unit_name == "ns":
            return counts // 1000
        unit = {"s": times.TICKS["second"], "ms": times.TICKS["millisecond"], "us": 1}[unit_name]
    return counts.clip(-(2**62) // unit, 2**62 // unit) * unit


def _parse_times(column: Datetime, texts: pa.Array) -> pa.Array:
    if _ARROW_CODES.fullmatch(column.format):
        return pc.strptime(texts, format=column.format, unit="us", error_is_null=True)
    distinct = texts.dictionary_encode()
    tz = times.offset_zone(column.zone) if column.zone else UTC
    parsed = [_parse_time(text, column.format, tz) for text in distinct.dictionary.to_pylist()]
    return pa.array(parsed, type=pa.timestamp("us")).take(distinct.indices)


def _parse_time(text: str, format: str, tz: object) -> datetime | None:
    try:
        when = datetime.strptime(text, format.replace("%:z", "%z"))
    except ValueError:
        return None
    try:
        return when if when.tzinfo is None else when.astimezone(tz).replace(tzinfo=None)  # type: ignore[arg-type]
    except OverflowError:  # an offset moves the first and last day out of the years 1 to 9999
        return datetime.min if when.year == 1 else datetime.max


def _write_times(column: Datetime, ticks: np.ndarray, null: np.ndarray, kind: pa.DataType) -> pa.Array:
    micros = pa.array(ticks.astype(np.int64) * times.TICKS[column.resolution], mask=null).cast(pa.timestamp("us"))
    if is_text(kind):
        return _format_times(column, micros).cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        micros = pc.assume_timezone(micros, kind.tz, ambiguous="earliest", nonexistent="latest")
    return micros.cast(kind, safe=False)


def _format_times(column: Datetime, micros: pa.Array) -> pa.Array:
    if _ARROW_CODES.fullmatch(column.format):
        return pc.strftime(micros.cast(pa.timestamp("s"), safe=False), format=column.format)
    tz = times.offset_zone(column.zone) if column.zone else UTC
    aware = [None if when is None else when.replace(tzinfo=tz) for when in micros.to_pylist()]
    return pa.array([None if when is None else _format_time(when, column.format) for when in aware], type=pa.string())


def _format_time(when: datetime, format: str) -> str:
    """strftime that also knows `%:z`, the offset with a colon, which Python learnt in 3.12."""
    offset = when.strftime("%z")
    return when.strftime(format.replace("%:z", f"{offset[:3]}:{offset[3:]}"))
