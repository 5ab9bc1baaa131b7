"""Points in time as whole numbers of ticks since 1970: bounds, calendar bins and formats. Uses no data."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from lookalike.errors import SchemaError
from lookalike.schema import time_texts

TICKS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""Microseconds of one tick, from coarse to fine."""

_FINEST = [
    (re.compile(r"%f|%[cX]"), "microsecond"),
    (re.compile(r"%3f"), "millisecond"),
    (re.compile(r"%[SsTr]"), "second"),
    (re.compile(r"%[MR]"), "minute"),
    (re.compile(r"%-?[HI]"), "hour"),
]
_DAY_CODES = re.compile(r"%(-?[de]|[jDFcxsaAuw])")
_MONTH_CODES = re.compile(r"%(-?m|\^?[bBh]|[UVW])")
_YEAR_CODES = re.compile(r"%[YyG]")
_HOUR_CODES = re.compile(r"%(-?[HIkl]|[TRXr])")
_EPOCH = datetime(1970, 1, 1)


def resolution_of(format: str) -> str:
    """The finest part that a strftime format writes.

    >>> resolution_of("%d.%m.%Y %H:%M")
    'minute'
    """
    return next((name for pattern, name in _FINEST if pattern.search(format)), "day")


def is_clock(format: str) -> bool:
    """Whether a format writes times of day, without a date.

    >>> is_clock("%H:%M:%S"), is_clock("%d.%m.%Y %H:%M")
    (True, False)
    """
    dates = (_DAY_CODES, _MONTH_CODES, _YEAR_CODES)
    return _HOUR_CODES.search(format) is not None and not any(codes.search(format) for codes in dates)


def calendar_unit(format: str) -> str:
    """`month` or `year` where a format writes no finer part of a date, so that only its first day can be meant.

    >>> calendar_unit("%b %Y"), calendar_unit("%Y-%m-%d")
    ('month', '')
    """
    if _DAY_CODES.search(format) or _HOUR_CODES.search(format) or not _YEAR_CODES.search(format):
        return ""
    return "month" if _MONTH_CODES.search(format) else "year"


def check_zone(column: str, zone: str) -> None:
    """Refuse a time zone that is not in the system's list."""
    if zone and offset_zone(zone) is None:
        raise SchemaError(
            f"Column {column!r} has time zone {zone!r}, which is unknown. Use a name such as Europe/Paris or an "
            "offset such as +02:00."
        )


def offset_zone(zone: str) -> Any:
    """The tzinfo of a zone name or of a fixed offset; None for an unknown name."""
    if re.fullmatch(r"[+-]\d\d:?\d\d", zone):
        return datetime.strptime(zone, "%z").tzinfo
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse_bound(column: str, value: Any, format: str, resolution: str) -> int:
    """Ticks of a wall-clock time given as date, datetime, ISO text, or text in the column's format."""
    when = _as_datetime(value, format)
    if when is None:
        raise SchemaError(
            f"Column {column!r} has {value!r} as a bound or edge. Write it as "
            + ("23:59 or 23:59:59." if is_clock(format) else "2024-12-31 or 2024-12-31T23:59.")
        )
    return (when - _EPOCH) // (TICKS[resolution] * datetime.resolution)


def _as_datetime(value: Any, format: str) -> datetime | None:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, time):
        return datetime.combine(_EPOCH, value.replace(tzinfo=None))
    for parse in (
        datetime.fromisoformat,
        _time_of_day if is_clock(format) else _month,
        lambda text: _read(text, format),
    ):
        try:
            return parse(str(value)).replace(tzinfo=None)
        except (ValueError, OverflowError):
            continue
    return None


def _time_of_day(text: str) -> datetime:
    return datetime.combine(_EPOCH, time.fromisoformat(text))


def _month(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m")


def _read(text: str, format: str) -> datetime:
    """The wall-clock time that a text writes; a ValueError where it cannot be read."""
    if not time_texts.known(format):
        return datetime.strptime(text, format)
    micros, readable = time_texts.read(pa.array([text.strip()]), format)
    if not readable[0]:
        raise ValueError
    return _EPOCH + int(micros[0]) * datetime.resolution


def bound_text(ticks: int, resolution: str, *, clock: bool = False) -> str:
    """ISO text of a number of ticks, no longer than its resolution needs; of the time alone with `clock`."""
    when = _EPOCH + ticks * TICKS[resolution] * datetime.resolution
    if clock:
        return when.time().isoformat("minutes" if when.second == when.microsecond == 0 else "auto")
    return when.date().isoformat() if resolution == "day" else when.isoformat()


def calendar_edges(column: str, unit: str, low: int, high: int, resolution: str) -> np.ndarray:
    """Lower edges at the starts of months or years, the first one at the minimum."""
    codes = {"month": "M", "year": "Y"}
    if unit not in codes:
        raise SchemaError(f"Column {column!r} has bins {unit!r}. Give a number, a list of edges, month or year.")
    tick = TICKS[resolution]
    ends = np.array([low * tick, high * tick], dtype="datetime64[us]").astype(f"datetime64[{codes[unit]}]")
    starts = np.arange(ends[0] + 1, ends[1] + 1).astype("datetime64[us]").astype(np.int64)
    return np.append(low, -(-starts // tick)).astype(np.int64)
