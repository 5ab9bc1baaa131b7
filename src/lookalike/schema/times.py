"""Points in time as whole numbers of ticks since 1970: bounds, calendar bins, and texts in formats of strftime codes.

Known codes: `%Y`, `%y` (two digits: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068, as in POSIX), `%m`, `%d`,
`%b` and `%B` (English names of months), `%^b` (in capitals), `%a` and `%A` (of weekdays, which are not checked), `%H`,
`%I`, `%M`, `%S`, `%f` (six decimals of a second), `%3f` (three), `%p` and `%P` (AM and am), `%z` and `%:z` (offsets
such as +0100 and +01:00). `%-m`, `%-d`, `%-H` and `%-I` write no leading zero. Formats with any other code go through
Python's own functions, text by text. Results are the same on every machine and in any locale.

More texts are read than are written: leading zeros are optional, and names may be in any case, short or long.
Functions work on whole arrays, and no text raises an error.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError

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
    if not known(format):
        return datetime.strptime(text, format)
    micros, readable = read(pa.array([text.strip()]), format)
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


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"%(?::z|3f|\^b|-[mdHI]|.)|[^%]+|%", re.DOTALL)
_SHORT_MONTHS = "|".join(name[:3] for name in MONTHS)
_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_FIRST_TIME, _LAST_TIME = -62_135_424_000_000_000, 253_402_128_000_000_000
"""Microseconds of the times between which zones can be applied: the years 1 to 9999 without two days at either end."""

NAMES = (*MONTHS, *(name[:3] for name in MONTHS), *(name[:3].upper() for name in MONTHS), "AM", "PM", "am", "pm")

STRICT = {
    "%Y": "[0-9]{4}", "%y": "[0-9]{2}",
    "%m": "(0[1-9]|1[0-2])", "%-m": "([1-9]|1[0-2])",
    "%d": "(0[1-9]|[12][0-9]|3[01])", "%-d": "([1-9]|[12][0-9]|3[01])",
    "%b": f"({_SHORT_MONTHS})", "%^b": f"({_SHORT_MONTHS.upper()})", "%B": f"({'|'.join(MONTHS)})",
    "%a": f"({'|'.join(name[:3] for name in DAYS)})", "%A": f"({'|'.join(DAYS)})",
    "%H": "([01][0-9]|2[0-3])", "%-H": "([0-9]|1[0-9]|2[0-3])",
    "%I": "(0[1-9]|1[0-2])", "%-I": "([1-9]|1[0-2])", "%M": "[0-5][0-9]", "%S": "[0-5][0-9]",
    "%f": "[0-9]{6}", "%3f": "[0-9]{3}", "%p": "(AM|PM)", "%P": "(am|pm)",
    "%z": "[+-](0[0-9]|1[0-4])[0-5][0-9]", "%:z": "[+-](0[0-9]|1[0-4]):[0-5][0-9]",
}  # fmt: skip
"""What each code writes, as an expression for RE2."""

_TWO = "[0-9]{1,2}"
_ANY_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
_ANY_DAY = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in DAYS)
_FIELDS = {
    "%Y": ("year", "[0-9]{4}"), "%y": ("short_year", "[0-9]{2}"), "%m": ("month", _TWO), "%-m": ("month", _TWO),
    "%b": ("name", f"(?i:{_ANY_MONTH})"), "%^b": ("name", f"(?i:{_ANY_MONTH})"), "%B": ("name", f"(?i:{_ANY_MONTH})"),
    "%d": ("day", _TWO), "%-d": ("day", _TWO), "%a": ("", f"(?i:{_ANY_DAY})"), "%A": ("", f"(?i:{_ANY_DAY})"),
    "%H": ("hour", _TWO), "%-H": ("hour", _TWO), "%I": ("half_hour", _TWO), "%-I": ("half_hour", _TWO),
    "%M": ("minute", _TWO), "%S": ("second", _TWO), "%f": ("fraction", "[0-9]{1,6}"), "%3f": ("fraction", "[0-9]{1,6}"),
    "%p": ("half", "(?i:[ap]m)"), "%P": ("half", "(?i:[ap]m)"),
    "%z": ("offset", "(?:Z|[+-][0-9]{2}:?[0-9]{2})"), "%:z": ("offset", "(?:Z|[+-][0-9]{2}:?[0-9]{2})"),
}  # fmt: skip
"""The part of a time that each code gives, and what is read for it."""
DEFAULTS = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "fraction": 0}


def tokens(format: str) -> list[str]:
    """The codes of a format and the texts between them.

    >>> tokens("%-d %b %Y")
    ['%-d', ' ', '%b', ' ', '%Y']
    """
    return _TOKEN.findall(format)


def strict_pattern(format: str) -> str:
    """The expression of the texts that a format of known codes writes."""
    return "".join(STRICT.get(token) or escaped(token) for token in tokens(format))


def escaped(text: str) -> str:
    """The expression of a literal text for RE2, which refuses some of Python's escapes."""
    return re.sub(r"[\\.+*?()|\[\]{}^$]", lambda mark: f"\\{mark[0]}", text)


def known(format: str) -> bool:
    """Whether arrays of texts can be read and written in this format: it has codes, all of them known."""
    codes = [token for token in tokens(format) if token.startswith("%")]
    return bool(codes) and all(code in _FIELDS for code in codes)


def read(texts: pa.Array, format: str, zone: tzinfo | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since 1970 of texts in a known format, and which could be read. Without a date, those of the day.

    Times with an offset become wall-clock times of `zone`; without a zone they stay as written.
    """
    distinct = texts.dictionary_encode()
    fields = pc.extract_regex(distinct.dictionary, wide_pattern(format))
    readable = fields.is_valid().to_numpy(zero_copy_only=False)
    parts = dict(zip([field.name for field in fields.type], fields.flatten(), strict=True))
    numbers = {name: _whole(part) for name, part in parts.items() if name not in ("name", "half", "offset", "fraction")}
    if "fraction" in parts:
        numbers["fraction"] = _whole(pc.utf8_rpad(parts["fraction"], 6, "0"))
    numbers, fits = _calendar_parts(numbers, parts)
    micros = _microseconds(numbers)
    if "offset" in parts and zone is not None:
        micros = _in_zone(micros - _offsets(parts["offset"]), zone)
    found = np.append(micros, 0), np.append(readable & fits, False)
    rows = distinct.indices.fill_null(len(micros)).to_numpy(zero_copy_only=False)
    return found[0][rows], found[1][rows]


def wide_pattern(format: str) -> str:
    """The expression that finds the parts of a text. Two digits are needed where no sign ends a number."""
    parts, seen = [], set()
    codes = tokens(format)
    for token, following in zip(codes, [*codes[1:], ""], strict=True):
        name, pattern = _FIELDS.get(token, ("", escaped(token)))
        digits_follow = following in _FIELDS and _FIELDS[following][1].startswith("[0-9]")
        pattern = "[0-9]{2}" if pattern == _TWO and digits_follow else pattern
        parts.append(f"(?P<{name}>{pattern})" if name and name not in seen else f"(?:{pattern})")
        seen.add(name)
    return f"(?s)^{''.join(parts)}$"


def _whole(texts: pa.Array) -> np.ndarray:
    return texts.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _calendar_parts(
    numbers: dict[str, np.ndarray], parts: dict[str, pa.Array]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Year, month, day, hour, minute, second and fraction, and which of them exist in the calendar."""
    count = len(next(iter(parts.values())))
    fits = np.ones(count, dtype=bool)
    found = {name: numbers.get(name, np.full(count, default)) for name, default in DEFAULTS.items()}
    if "short_year" in numbers:
        found["year"] = numbers["short_year"] + np.where(numbers["short_year"] < 69, 2000, 1900)
    if "name" in parts:
        short = pc.utf8_slice_codeunits(pc.ascii_lower(parts["name"]), 0, 3)
        months = pc.index_in(short, value_set=pa.array([name[:3].lower() for name in MONTHS]))
        found["month"] = months.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    if "half_hour" in numbers:
        afternoon = pc.equal(pc.ascii_lower(parts["half"]), "pm") if "half" in parts else pa.array([False] * count)
        later = afternoon.fill_null(False).to_numpy(zero_copy_only=False)
        fits &= (numbers["half_hour"] >= 1) & (numbers["half_hour"] <= 12)
        found["hour"] = numbers["half_hour"] % 12 + 12 * later
    fits &= (found["year"] >= 1) & (found["month"] >= 1) & (found["month"] <= 12)
    found["month"] = np.clip(found["month"], 1, 12)
    starts = _month_starts(found)
    lengths = _month_starts({**found, "month": found["month"] + 1}) - starts
    fits &= (found["day"] >= 1) & (found["day"] <= lengths)
    return found, fits & (found["hour"] < 24) & (found["minute"] < 60) & (found["second"] < 60)


def _month_starts(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Days since 1970 of the first days of months."""
    months = (parts["year"] - 1970) * 12 + parts["month"] - 1
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _microseconds(parts: dict[str, np.ndarray]) -> np.ndarray:
    days = _month_starts(parts) + parts["day"] - 1
    clock = parts["hour"] * _HOUR + parts["minute"] * _MINUTE + parts["second"] * _SECOND + parts["fraction"]
    return days * _DAY + clock


def _offsets(texts: pa.Array) -> np.ndarray:
    """Microseconds of offsets such as +01:00, +0100 and Z."""
    signs = np.where(pc.starts_with(texts, "-").fill_null(False).to_numpy(zero_copy_only=False), -1, 1)
    digits = pc.replace_substring_regex(texts, "[^0-9]", "")
    numbers = _whole(pc.if_else(pc.equal(digits, ""), "0", digits))
    return signs * (numbers // 100 * _HOUR + numbers % 100 * _MINUTE)


def _in_zone(instants: np.ndarray, zone: tzinfo) -> np.ndarray:
    """Wall-clock microseconds of instants."""
    fixed = zone.utcoffset(None)
    if fixed is not None:
        return instants + fixed // timedelta(microseconds=1)
    distinct, places = np.unique(instants, return_inverse=True)
    moments = [
        _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=micros)
        for micros in distinct.clip(_FIRST_TIME, _LAST_TIME).tolist()
    ]
    offsets = [moment.astimezone(zone).utcoffset() or timedelta(0) for moment in moments]
    return instants + np.array([offset // timedelta(microseconds=1) for offset in offsets], dtype=np.int64)[places]


def written(micros: np.ndarray, format: str, zone: tzinfo | None = None) -> pa.Array:
    """Texts of wall-clock microseconds since 1970 in a known format; offsets are those of `zone`."""
    distinct, places = np.unique(micros, return_inverse=True)
    days, clock = np.divmod(distinct, _DAY)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    hour = clock // _HOUR
    numbers = {
        "year": months // 12 + 1970, "short_year": (months // 12 + 1970) % 100, "month": months % 12 + 1,
        "day": days - months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + 1,
        "weekday": (days + 3) % 7, "hour": hour, "half_hour": (hour - 1) % 12 + 1, "half": hour // 12,
        "minute": clock // _MINUTE % 60, "second": clock // _SECOND % 60, "fraction": clock % _SECOND,
    }  # fmt: skip
    if "offset" in [_FIELDS[token][0] for token in tokens(format) if token in _FIELDS]:
        numbers["offset"] = _zone_offsets(distinct, zone)
    parts = [_written_part(token, numbers, len(distinct)) for token in tokens(format)]
    return pc.binary_join_element_wise(*parts, "").take(pa.array(places))


def _zone_offsets(walls: np.ndarray, zone: tzinfo | None) -> np.ndarray:
    """Minutes from UTC to the zone at wall-clock times; without a zone that of UTC."""
    zone = zone or UTC
    fixed = zone.utcoffset(None)
    if fixed is not None:
        return np.full(len(walls), fixed // timedelta(minutes=1))
    naive = [
        _EPOCH.replace(tzinfo=zone) + timedelta(microseconds=wall)
        for wall in walls.clip(_FIRST_TIME, _LAST_TIME).tolist()
    ]
    return np.array([(when.utcoffset() or timedelta(0)) // timedelta(minutes=1) for when in naive], dtype=np.int64)


def _written_part(token: str, numbers: dict[str, np.ndarray], count: int) -> pa.Array:
    """The texts of one code, or the text between codes, for all times."""
    names = {
        "%b": [name[:3] for name in MONTHS], "%^b": [name[:3].upper() for name in MONTHS], "%B": MONTHS,
        "%a": [name[:3] for name in DAYS], "%A": DAYS, "%p": ("AM", "PM"), "%P": ("am", "pm"),
    }  # fmt: skip
    if token in names:
        places = {"%a": numbers["weekday"], "%A": numbers["weekday"], "%p": numbers["half"], "%P": numbers["half"]}
        return pa.array(names[token]).take(pa.array(places.get(token, numbers["month"] - 1)))
    if token in ("%z", "%:z"):
        offsets = numbers["offset"]
        signs = pa.array(np.where(offsets < 0, "-", "+"))
        hours, minutes = np.divmod(np.abs(offsets), 60)
        return pc.binary_join_element_wise(
            signs, _padded(hours, 2), ":" if token == "%:z" else "", _padded(minutes, 2), ""
        )
    if token not in _FIELDS:
        return pa.array([token] * count, pa.string())
    values = numbers[_FIELDS[token][0]]
    if token in ("%f", "%3f"):
        return _padded(values, 6) if token == "%f" else _padded(values // 1000, 3)
    return _padded(values, 0 if token.startswith("%-") else 4 if token == "%Y" else 2)


def _padded(numbers: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")
