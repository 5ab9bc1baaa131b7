"""Parts of times as numbers: year, month, day, weekday, hour, ... of wall-clock times, and times from their parts.

Times are microseconds since 1970, of any size: no value raises an error, and times outside the years 1 to 9999 count
as the first or last of them. Uses no data beyond the arrays that it is given.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.times import TICKS

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of the first and last time of the years 1 to 9999."""
_DAY = TICKS["day"]
_CLOCK = {"hour": (TICKS["hour"], 24), "minute": (TICKS["minute"], 60), "second": (TICKS["second"], 60)}
_WEEKDAYS = {
    "weekday": (0, 0),
    "weekday from 1": (0, 1),
    "weekday from Sunday": (1, 0),
    "weekday from Sunday 1": (1, 1),
}
"""Days by which Monday comes late, and the number of the first day."""

PARTS: dict[str, tuple[int, int]] = {
    "year": (1, 9999), "quarter": (1, 4), "month": (1, 12), "day": (1, 31), "day of year": (1, 366),
    "weekday": (0, 6), "weekday from 1": (1, 7), "weekday from Sunday": (0, 6), "weekday from Sunday 1": (1, 7),
    "hour": (0, 23), "minute": (0, 59), "second": (0, 59), "clock": (0, 2359), "date": (10_101, 99_991_231),
}  # fmt: skip
"""Smallest and largest value of every part. A weekday counts from Monday = 0 unless it says otherwise; `clock` is
100*hour + minute, `date` is 10000*year + 100*month + day."""
SETTABLE = ("year", "month", "day", *_WEEKDAYS, "hour", "minute", "second")
"""Parts that `with_parts` can give a time."""


def part_of(micros: np.ndarray, part: str) -> np.ndarray:
    """The part of every wall-clock time, as whole numbers.

    >>> part_of(np.array([86_400_000_000 * 59 + 3_600_000_000 * 5]), "month"), part_of(np.array([-1]), "hour")
    (array([3]), array([23]))
    """
    micros = micros.clip(FIRST, LAST)
    days = micros // _DAY
    if part in _CLOCK:
        unit, count = _CLOCK[part]
        return micros // unit % count
    if part == "clock":
        return 100 * part_of(micros, "hour") + part_of(micros, "minute")
    if part in _WEEKDAYS:
        late, first = _WEEKDAYS[part]
        return (days + 3 + late) % 7 + first  # 1970 began on a Thursday
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    if part in ("year", "month", "quarter"):
        return {"year": year, "month": month, "quarter": (month + 2) // 3}[part]
    if part == "day of year":
        return days - _first_day(year, np.ones_like(year)) + 1
    day = days - months.astype("datetime64[D]").astype(np.int64) + 1
    return day if part == "day" else 10_000 * year + 100 * month + day


def with_parts(micros: np.ndarray, parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The wall-clock times with these parts in place of their own; a day beyond the end of its month is its last.

    A weekday moves the time by up to three days, and counts only where no day is given.
    """
    own = micros.clip(FIRST, LAST)
    given = {name: np.clip(values, *PARTS[name]) for name, values in parts.items()}
    year, month, day = (given.get(name, part_of(own, name)) for name in ("year", "month", "day"))
    first = _first_day(year, month)
    days = first + np.minimum(day, _first_day(year + month // 12, month % 12 + 1) - first) - 1
    for name, (late, start) in _WEEKDAYS.items():
        if name in given and "day" not in given:
            ahead = (given[name] - start - (days + 3 + late)) % 7
            days = days + np.where(ahead > 3, ahead - 7, ahead)
    clock = own % _DAY
    for name, (unit, _) in _CLOCK.items():
        if name in given:
            clock = clock + (given[name] - part_of(own, name)) * unit
    return (days * _DAY + clock).clip(FIRST, LAST)


def _first_day(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """Days from 1970 to the first day of a month."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64)


def days_in_month(year: int, month: int) -> int:
    """The number of days of a month.

    >>> days_in_month(2024, 2), days_in_month(2023, 2), days_in_month(2023, 12)
    (29, 28, 31)
    """
    at = np.array([year]), np.array([month])
    return int((_first_day(at[0] + at[1] // 12, at[1] % 12 + 1) - _first_day(*at))[0])


def in_zone(micros: np.ndarray, zone: str) -> np.ndarray:
    """Wall-clock times of a zone at these times in UTC; the times themselves where no zone is given."""
    if not zone:
        return micros
    known = pa.array(micros.clip(FIRST, LAST)).cast(pa.timestamp("us", tz=zone))
    return pc.local_timestamp(known).cast(pa.int64()).to_numpy(zero_copy_only=False)


def from_zone(micros: np.ndarray, zone: str) -> np.ndarray:
    """Times in UTC at wall-clock times of a zone: the earlier where clocks show a time twice, the later where never."""
    if not zone:
        return micros
    known = pa.array(micros.clip(FIRST, LAST)).cast(pa.timestamp("us"))
    found = pc.assume_timezone(known, zone, ambiguous="earliest", nonexistent="latest")
    return found.cast(pa.int64()).to_numpy(zero_copy_only=False)
