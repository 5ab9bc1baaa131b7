"""Candidates for rules between columns, chosen from public facts: kinds, bounds, lists of values and measured bins.

Testing a rule costs budget, so only plausible rules are tested. Ranges are the best evidence: minutes lie between 0 and
59. They are judged by where most rows are, since measured bounds are noisy and may add a month 13.
Where bins were measured, they also tell about how values are spread, so that a column can be the sum of two others only
if its mean is the sum of theirs. Nothing here reads a row, and nothing here is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.constraints import ClockSum, Parts, Sum
from lookalike.schema.enforce import minutes_of
from lookalike.schema.parts import PARTS, in_zone, part_of
from lookalike.schema.schema import Schema

Histogram = tuple[np.ndarray, np.ndarray]
"""Places on the number line, rising, and the shares of rows there."""
MAX_VALUES = 2_000
"""Longest list of values of a number that may be determined."""
MAX_CELLS = 200_000
"""Largest table of counts in which one column may determine another."""
_MAX_SUM_COLUMNS = 40
"""Columns among which sums are looked for: there are a third of its cube of triples."""
_NEAR, _SPREAD = 0.15, 1.25
"""How far the mean of a sum may be off, in its standard deviations, and the factor by which the latter may."""
_STRAY = 0.1
"""Share of a column's weight that may lie outside the range of a part: bounds and the weights at them are noisy."""
_OVERLAP = 0.2
"""Share of pairs of independent values that must break a comparison, or it would tell nothing."""
_LATEST = {
    "month": 10, "day": 28, "day of year": 300, "hour": 12, "minute": 45, "second": 45, "clock": 1200, "quarter": 4,
    "weekday": 6, "weekday from 1": 7, "weekday from Sunday": 6, "weekday from Sunday 1": 7,
}  # fmt: skip
"""What the largest value of a part reaches at least: others have smaller ranges by chance."""
ZONES = (
    "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Phoenix",
    "America/Anchorage", "America/Halifax", "America/Mexico_City", "America/Bogota", "America/Sao_Paulo",
    "Pacific/Honolulu", "Europe/London", "Europe/Paris", "Europe/Athens", "Europe/Istanbul", "Europe/Moscow",
    "Africa/Lagos", "Africa/Johannesburg", "Africa/Nairobi", "Asia/Dubai", "Asia/Karachi", "Asia/Kolkata", "Asia/Dhaka",
    "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo", "Australia/Perth", "Australia/Brisbane", "Australia/Sydney",
    "Pacific/Auckland",
)  # fmt: skip
"""Time zones in which parts of times given in UTC are looked for."""


def whole_numbers(schema: Schema) -> list[Binned]:
    """Columns of numbers with a fixed tick that are not computed."""
    return [c for c in schema.columns if isinstance(c, Integer | Continuous) and c.tick is not None and not c.derived]


def is_utc(time: Datetime) -> bool:
    """Whether the column's times are in UTC, so that columns beside it may be in the time of a place."""
    return time.zone in ("UTC", "Etc/UTC", "+00:00") or (not time.zone and time.format.endswith(("Z", "%z", "%:z")))


def parts_of_times(schema: Schema) -> list[Parts]:
    """Rules with one part each, for every time and every number whose bounds are those of the part."""
    clocks = [column for column in schema.columns if isinstance(column, Datetime) and not column.derived]
    found = [
        Parts(time.name, ((part, number.name),))
        for time in clocks
        for number in whole_numbers(schema)
        for part in PARTS
        if _can_be(number, time, part)
    ]
    return found


def _can_be(number: Binned, time: Datetime, part: str) -> bool:
    """Whether most of a number's weight is within the range of a part of the times, and reaches far enough in it."""
    low, high = float(number.minimum), float(number.maximum)
    first, last = PARTS[part]
    needed = {"hour": "hour", "clock": "minute", "minute": "minute", "second": "second"}.get(part, "day")
    if not _within(number, first, last) or times.TICKS[time.resolution] > times.TICKS[needed]:
        return False
    ends = np.array([time.internal(time.minimum), time.internal(time.maximum)]) * times.TICKS[time.resolution]
    if part in ("year", "date"):
        early, late = part_of(ends, part).tolist()
        margin = 1 if part == "year" else 10_000
        return _within(number, early - margin, late + margin)
    if ends[1] - ends[0] < 366 * times.TICKS["day"] and part in ("month", "quarter", "day of year"):
        return bool(low <= part_of(ends, part).max()) or high >= _LATEST[part]
    return high >= _LATEST[part]


def written_together(schema: Schema) -> list[Sum]:
    """Numbers that write others side by side: 100*hour + minute, 100*year + month, 10000*year + 100*month + day."""
    columns = [c for c in whole_numbers(schema) if (c.decimals or 0 if isinstance(c, Continuous) else 0) <= 1]
    hours = [c for c in columns if _within(c, 0, 24) and c.maximum >= 12]
    sixties = [c for c in columns if _within(c, 0, 60) and c.maximum >= 45]
    years, months = [c for c in columns if _within(c, 1000, 2999)], [c for c in columns if _within(c, 1, 12)]
    days = [c for c in columns if _within(c, 1, 31) and c.maximum >= 28]
    spread = {c.name: tuple(float(c.tick or 1) * own for own in spread_of(c)) for c in columns}
    found: list[Sum] = []
    for total in columns:
        for low, high, parts, factors in (
            (0, 2400, (hours, sixties), (100, 1)),
            (100_001, 299_912, (years, months), (100, 1)),
            (0, 240_000, (hours, sixties, sixties), (10_000, 100, 1)),
            (10_000_101, 29_991_231, (years, months, days), (10_000, 100, 1)),
        ):
            if _within(total, low, high):
                rules = (Sum(total.name, names, factors) for names in _choices(parts, total))
                found += [rule for rule in rules if _adds_up(rule, spread)]
    return found


def _adds_up(rule: Sum, spread: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether mean and standard deviation of the total are about those of the terms, taken as independent.

    So a year from 2013 on is no time of the day, and the hour of an arrival is not that of a departure.
    """
    mean, deviation = spread[rule.total]
    means, deviations = zip(*(spread[name] for name in rule.terms), strict=True)
    factors = np.array(rule.factors)
    expected = float(np.linalg.norm(factors * deviations))
    near = abs(mean - float(factors @ means)) <= 2 * _NEAR * deviation
    return near and expected / 1.5 <= deviation <= expected * 1.5


def _choices(parts: Sequence[Sequence[Binned]], total: Binned) -> Iterator[tuple[str, ...]]:
    """One column out of each list, all different and other than the total."""
    if not parts:
        yield ()
        return
    for column in parts[0]:
        for rest in _choices(parts[1:], total):
            if column is not total and column.name not in rest:
                yield (column.name, *rest)


def _within(column: Binned, low: float, high: float) -> bool:
    """Whether most of a column's weight lies in pieces of its range that two numbers enclose, or cut."""
    first, last, weights = _pieces(column)
    tick = float(column.tick or 1)
    return float(weights[(last * tick < low) | (first * tick > high)].sum()) <= _STRAY


def sums(schema: Schema) -> list[Sum]:
    """Sums of two columns of one unit, most plausible first; a difference is a sum as well."""
    # A time comes before the numbers that are added to it.
    known = [(column, spread_of(column)) for column in _addable(schema)]
    ranked: list[tuple[float, Sum]] = []
    for (one, first), (two, second) in combinations(known, 2):
        for total, whole in known:
            if total is not one and total is not two and _one_unit(total, one, two):
                off = _mismatch(whole, first, second)
                ranked += [] if off is None else [(off, Sum(total.name, (one.name, two.name)))]
    return [rule for _, rule in sorted(ranked, key=lambda item: item[0])]


def clock_sums(schema: Schema) -> list[ClockSum]:
    """Times of day, as 100*hour + minute, that may be others some minutes later; most plausible first."""
    known = {column.name: spread_of(column) for column in whole_numbers(schema)}
    clocks = {c.name: _minutes_spread(c) for c in whole_numbers(schema) if _within(c, 0, 2400) and c.maximum >= 1200}
    ranked: list[tuple[float, ClockSum]] = []
    for (total, whole), (start, first) in permutations(clocks.items(), 2):
        for name, minutes in known.items():
            off = _mismatch(whole, first, minutes) if name not in clocks and minutes[1] > 0 < whole[1] else None
            ranked += [] if off is None else [(off, ClockSum(total, start, name))]
    return [rule for _, rule in sorted(ranked, key=lambda item: item[0])]


def _minutes_spread(column: Binned) -> tuple[float, float]:
    """Mean and standard deviation of a column's minutes of the day."""
    places, weights = histogram(column)
    minutes = minutes_of(np.rint(places * float(column.tick or 1)))
    mean = float(minutes @ weights)
    return mean, float(np.sqrt(((minutes - mean) ** 2) @ weights))


def _addable(schema: Schema) -> list[Binned]:
    """Columns that vary and can be added up, times first."""
    clocks = [c for c in schema.columns if isinstance(c, Datetime) and not c.derived]
    return [column for column in (*clocks, *whole_numbers(schema)) if spread_of(column)[1] > 0][:_MAX_SUM_COLUMNS]


def _one_unit(total: Binned, one: Binned, two: Binned) -> bool:
    clocks = [isinstance(column, Datetime) for column in (total, one, two)]
    if any(clocks):
        same = isinstance(total, Datetime) and isinstance(one, Datetime) and total.resolution == one.resolution
        return same and clocks == [True, True, False] and isinstance(two, Integer)
    return total.tick == one.tick == two.tick


def _mismatch(total: tuple[float, float], one: tuple[float, float], two: tuple[float, float]) -> float | None:
    """How far means are from adding up, in standard deviations of the total; None where they cannot.

    The deviation of a sum lies between the difference and the sum of those of its terms, and each term must matter.
    """
    (mean, spread), (left, some), (right, more) = total, one, two
    off = abs(mean - left - right) / spread
    least, largest = abs(some - more) / _SPREAD, (some + more) * _SPREAD
    matters = min(some, more) > 0.02 * spread
    return off if off <= _NEAR and least <= spread <= largest and matters else None


def spread_of(column: Binned) -> tuple[float, float]:
    """Mean and standard deviation of a column's ticks, as far as its bins tell."""
    places, weights = histogram(column)
    mean = float(places @ weights)
    return mean, float(np.sqrt(max(((places - mean) ** 2) @ weights, 0.0)))


def with_shapes(schema: Schema, known: Sequence[NoisyMarginal]) -> Schema:
    """The schema with noisy counts of bins as shape of the columns that have none, by which candidates are judged."""
    counts = {m.attrs[0]: m for m in known if len(m.attrs) == 1}
    found: list[Column] = []
    for column in schema.columns:
        if isinstance(column, Binned) and column.name in counts and not column.shape and column.regular > 1:
            values = counts[column.name].values[: column.regular].clip(0.0)
            edges = [column.external(edge) for edge in column.edges.tolist()]
            if values.sum() > 0 and len(values) == len(edges):
                found.append(replace(column, shape=tuple(zip(edges, values.tolist(), strict=True))))
    return schema.with_columns(found)


def histogram(column: Binned) -> Histogram:
    """Middles of pieces of a column's range, in ticks, and shares of rows in them."""
    first, last, weights = _pieces(column)
    return (first + last) / 2.0, weights


def _pieces(column: Binned) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and last tick of pieces of a column's range, and shares of rows in them.

    By its shape; without one every bin counts as much: measured bins hold about equally many rows.
    """
    pieces = np.array([column.internal(edge) for edge, _ in column.shape]) if column.shape else column.edges
    weights = np.array([weight for _, weight in column.shape]) if column.shape else np.ones(len(pieces))
    if weights.sum() <= 0:
        weights = np.ones(len(pieces))
    if column.tick is None:
        first, last = pieces, np.append(pieces[1:], float(column.internal(column.maximum)))
    else:
        first, last = column.tick_ranges(pieces)
    return first, last, weights / weights.sum()


def comparable(schema: Schema) -> list[tuple[str, str]]:
    """Pairs of numbers or of times in which neither order is given by the bounds; the most open ones first.

    Only pairs in which one could always be the larger: its distribution must lie to the right of the other's.
    """
    columns = [c for c in schema.columns if isinstance(c, Binned) and not c.derived and c.regular > 1]
    spread = {column.name: histogram(column) for column in columns}
    ranked: list[tuple[float, tuple[str, str]]] = []
    for one, two in combinations(columns, 2):
        if type(one) is type(two) and one.tick == two.tick and _resolution(one) == _resolution(two):
            less, more, crossing = _compared(spread[one.name], spread[two.name])
            if min(less, more) >= _OVERLAP and crossing <= _NEAR:
                ranked.append((-min(less, more), (one.name, two.name)))
    return [pair for _, pair in sorted(ranked)]


def _resolution(column: Binned) -> str:
    return column.resolution if isinstance(column, Datetime) else ""


def _compared(one: Histogram, two: Histogram) -> tuple[float, float, float]:
    """Chances that an independent value of one is less, or more, and how far both distribution functions cross."""
    (left, p), (right, q) = one, two
    points = np.union1d(left, right)
    reached, other = (np.concatenate(([0.0], np.cumsum(weights))) for weights in (p, q))
    less = float(p @ (1.0 - other[np.searchsorted(right, left, side="right")]))
    more = float(p @ other[np.searchsorted(right, left, side="left")])
    gap = reached[np.searchsorted(left, points, side="right")] - other[np.searchsorted(right, points, side="right")]
    return less, more, float(min(gap.max(initial=0.0), -gap.min(initial=0.0)))


def missing_pairs(schema: Schema) -> list[tuple[str, str]]:
    """Pairs of columns that both may be missing."""
    names = [c.name for c in schema.columns if c.missing and not c.derived and not isinstance(c, Identifier)]
    return list(combinations(names, 2))


def listed(schema: Schema) -> list[Column]:
    """Columns of at least two values each of which has a code."""
    return [c for c in schema.columns if c.regular > 1 and not c.derived and _has_list(c)]


def _has_list(column: Column) -> bool:
    return column.single_values() is not None if isinstance(column, Binned) else isinstance(column, Categorical)


def with_value_bins(schema: Schema) -> Schema:
    """The schema with a bin for every value of numbers whose shape lists single values that share bins."""
    return schema.with_columns([_with_value_bins(c) for c in whole_numbers(schema) if c.single_values() is None])


def _with_value_bins(column: Binned) -> Binned:
    pieces = np.array([column.internal(edge) for edge, _ in column.shape])
    used = np.array([weight > 0 for _, weight in column.shape], dtype=bool)
    if not used.any() or used.sum() > MAX_VALUES:
        return column
    first, last = column.tick_ranges(pieces)
    if np.any(first[used] != last[used]):
        return column
    starts = [edge for (edge, _), kept in zip(column.shape, used, strict=True) if kept]
    return replace(column, bins=(column.minimum, *starts[1:]))


def determined_pairs(schema: Schema, fine: Schema, rows: float) -> list[tuple[tuple[str, ...], str]]:
    """(source, target): first columns with at least as many values as their target, which they may determine.

    Those with fewer come last: they may determine it together with another. A column with about as many values as there
    are rows would seem to determine every other, and is left out.
    """
    found: list[tuple[bool, tuple[tuple[str, ...], str]]] = []
    for source, target in product(listed(schema), listed(fine)):
        if source.name == target.name:
            continue
        if source.written_codes * target.written_codes <= MAX_CELLS and source.regular <= rows / 50:
            found.append((source.regular < target.regular, ((source.name,), target.name)))
    return [family for _, family in sorted(found, key=lambda item: item[0])]


def value_and_missing(schema: Schema, max_values: int = 12) -> list[tuple[str, str]]:
    """(column of few values, column that may be missing)."""
    few = [c.name for c in listed(schema) if c.regular <= max_values]
    absent = [c.name for c in schema.columns if c.missing and not c.derived and not isinstance(c, Identifier)]
    return [(one, two) for one in few for two in absent if one != two]


def best_zone(time: Datetime, late: np.ndarray, rows: float) -> str | None:
    """The zone whose hours are ahead of UTC as often as the counts say; "" for UTC itself, None where none fits."""
    shares = late / max(float(late.sum()), 1.0)
    low, high = (time.internal(end) * times.TICKS[time.resolution] for end in (time.minimum, time.maximum))
    moments = np.linspace(low, high, 2000).astype(np.int64) // times.TICKS["hour"] * times.TICKS["hour"]
    distances: dict[str, float] = {}
    for zone in ("", *ZONES):
        hours = (part_of(in_zone(moments, zone), "hour") - part_of(moments, "hour")) % 24
        distances[zone] = float(np.abs(np.bincount(hours, minlength=24) / len(hours) - shares).sum() / 2)
    best = min(distances, key=lambda zone: distances[zone])
    return best if distances[best] < 0.2 and late.sum() > 0.5 * rows else None
