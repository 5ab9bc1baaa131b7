"""The kinds of columns that have bins: whole numbers, decimal numbers and times, and how texts write numbers.

More texts are read as numbers than are written: what stands around a number and between its groups of digits may be
missing, spaces and apostrophes may be of any kind, and a minus may come after the prefix (`$-5`, written as `-$5`).
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.bins import Binned
from lookalike.schema.columns import MAX_FORMAT
from lookalike.schema.times import escaped

THOUSANDS = (",", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
"""Separators of groups of three digits."""
MAX_AFFIX = 20
NO_AFFIX = re.compile(r"[\d+\-]|[.,]$|^[.,]")
"""What must not be in a prefix or suffix, because it could be taken for a part of the number."""
_SPACES, _APOSTROPHES = " \u00a0\u202f", "'\u2019"
_SMALL_GAP = 0.02
"""Largest gap between two bins, as a part of their widths, that labels leave out."""


class Style(Protocol):
    """How a column writes numbers; see `binned.Number`."""

    @property
    def prefix(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def thousands(self) -> str: ...
    @property
    def plus(self) -> bool: ...
    @property
    def decimal_mark(self) -> str: ...


def is_dressed(style: Style) -> bool:
    """Whether texts hold more than digits, a minus and a point."""
    return bool(style.prefix or style.suffix or style.thousands or style.plus or style.decimal_mark != ".")


def bare(style: Style, value: Any) -> Any:
    """A text of a number without all that surrounds and separates its digits; any other value as it is."""
    found = re.match(dressed_pattern(style), value.strip()) if isinstance(value, str) and is_dressed(style) else None
    if not found:
        return value
    digits = re.sub(separators(style), "", found["digits"]).replace(style.decimal_mark, ".")
    return (found["sign"] or "") + (found["inner"] or "") + digits


def bare_texts(style: Style, texts: pa.Array) -> pa.Array:
    """The same for an array of texts, null where a text is no such number."""
    if not is_dressed(style):
        return texts
    parts = pc.extract_regex(texts, dressed_pattern(style))
    sign, inner, digits = parts.flatten()
    digits = pc.replace_substring_regex(digits, separators(style), "")
    return pc.binary_join_element_wise(sign, inner, pc.replace_substring(digits, style.decimal_mark, "."), "")


def dressed(style: Style, text: str) -> str:
    """The text of a number as the column writes it, from plain digits with an optional minus and point."""
    sign = "-" if text.startswith("-") else "+" if style.plus else ""
    whole, point, fraction = text.removeprefix("-").partition(".")
    if style.thousands and whole.isdecimal():
        whole = f"{int(whole):,}".replace(",", style.thousands)
    mark = style.decimal_mark if point else ""
    return f"{sign}{style.prefix}{whole}{mark}{fraction}{style.suffix}"


def dressed_pattern(style: Style) -> str:
    """The expression of such texts, for RE2 and Python, with groups `sign`, `inner` (after the prefix) and `digits`."""
    group = separators(style)
    whole = f"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+)" if style.thousands else "[0-9]+"
    mark = f"[{style.decimal_mark}]"
    digits = f"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    before, after = (_optional(text) for text in (style.prefix.strip(), style.suffix.strip()))
    signs = f"(?:(?P<sign>[+-]){before}|{before}(?P<inner>[+-])?)"
    return f"^{signs}(?P<digits>{digits}){after}$"


def separators(style: Style) -> str:
    """The expression of separators of thousands; of none where the column has none."""
    kinds = next((kinds for kinds in (_SPACES, _APOSTROPHES) if style.thousands and style.thousands in kinds), None)
    return f"[{kinds or style.thousands}]" if style.thousands else "\\x00"


def _optional(text: str) -> str:
    """The expression of a text beside a number, which may be left out, with or without spaces between the two."""
    return f"(?:[{_SPACES}]?{escaped(text)}[{_SPACES}]?)?" if text else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Binned):
    """What integers and decimals share: how texts write them, which is public and matters for texts only.

    Attributes:
        prefix: what stands before the digits, such as a currency: a minus comes before it, as in `-$5`.
        suffix: what stands after the number, as in `15.6 %`. A percent is the number that is written: 15.6.
        thousands: what stands between groups of three digits, as in `1,234`.
        plus: whether numbers that are not negative begin with a plus.
    """

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    plus: bool = False

    def __post_init__(self) -> None:
        Binned.__post_init__(self)
        for key, text in (("prefix", self.prefix), ("suffix", self.suffix)):
            shown = text.lstrip() if key == "prefix" else text.rstrip()
            self._require(
                len(text) <= MAX_AFFIX and not NO_AFFIX.search(text) and shown == text,
                f"has {key} {text!r}",
                f"Give at most {MAX_AFFIX} characters, no digits or signs, and no space at the outer end.",
            )
        known = ", ".join(repr(text) for text in THOUSANDS)
        self._require(self.thousands in ("", *THOUSANDS), f"has groupChar {self.thousands!r}", f"Use one of {known}.")
        if isinstance(self, Continuous):
            mark = self.decimal_mark
            self._require(self.thousands != mark, f"has {mark!r} for thousands and decimals", "Change one of them.")

    @property
    def decimal_mark(self) -> str:
        return "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Number):
    """Whole numbers between public bounds.

    `width` pads text with leading zeros, as in `007`. `clock` is set where numbers are clock times, hour * 100 +
    minute, as in 517 and 1345: their last two digits are at most 59.

    >>> Integer("age", minimum=0, maximum=109, bins=11).edges[:3].tolist()
    [0, 10, 20]
    """

    width: int = 0
    clock: bool = False

    def __post_init__(self) -> None:
        grouped = bool(self.width and self.thousands)
        self._require(not grouped, "has leading zeros and separators of thousands", "Use dp.width or groupChar.")
        if self.clock and self.minimum is not None:
            below = self.internal(self.minimum) < 0
            self._require(not below, f"holds clock times from {self.minimum} on", "Give a minimum of at least 0.")
        Number.__post_init__(self)

    @property
    def sparse(self) -> bool:
        return self.clock

    def steps_of(self, ticks: np.ndarray, *, up: bool = False) -> np.ndarray:
        return ticks // 100 * 60 + np.minimum(ticks % 100, 60 if up else 59) if self.clock else ticks

    def ticks_at(self, steps: np.ndarray) -> np.ndarray:
        return steps // 60 * 100 + steps % 60 if self.clock else steps

    @classmethod
    def coded(cls, name: str, size: int) -> Integer:
        """A column of integer codes 0..size-1, one bin each, as in a table given with `--domain`."""
        return cls(name, minimum=0, maximum=size - 1, bins=max(size, 1))

    @property
    def field_type(self) -> str:
        return "integer"

    def internal(self, value: Any) -> int:
        value = bare(self, value)
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        exact = number is not None and (isinstance(value, str) or number == value)
        fits = exact and abs(number or 0) < 2**62
        self._require(fits, f"has {value!r} as a bound or edge", "Give a whole number of at most 62 bits.")
        return int(value)

    def external(self, number: int | float) -> int:
        return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous(Number):
    """Decimal numbers between public bounds, with a fixed number of places or (None) as many as a float has.

    `least_decimals` is the smallest number of decimals that texts show where they leave out final zeros. `comma` is set
    where texts write a comma before the decimals.
    """

    decimals: int | None = None
    least_decimals: int | None = None
    comma: bool = False

    facts: ClassVar[tuple[str, ...]] = ("bounds", "bins", "missing", "decimals")

    def __post_init__(self) -> None:
        Number.__post_init__(self)
        if self.decimals is None:
            return
        remedy = "Give 0 to 15, with no more than 15 digits in all."
        self._require(0 <= self.decimals <= 15, f"asks for {self.decimals} decimals", remedy)
        if self._lacks("bounds"):
            return
        largest = max(abs(self.internal(self.minimum)), abs(self.internal(self.maximum)))
        self._require(largest * 10.0**self.decimals < 2**53, f"asks for {self.decimals} decimals", remedy)
        pieces = np.array([self.internal(edge) for edge, _ in self.shape]) if self.shape else self.edges
        for edges, what in ((self.edges, "bin"), (pieces, "piece of its shape")):
            first, last = self.tick_ranges(edges)
            self._require(
                bool(np.all(first <= last)),
                f"has a {what} that holds no number with {self.decimals} decimals",
                "Use fewer of them, or more decimals.",
            )

    @property
    def field_type(self) -> str:
        return "number"

    @property
    def decimal_mark(self) -> str:
        return "," if self.comma else "."

    @property
    def tick(self) -> Decimal | None:
        return None if self.decimals is None else Decimal(1).scaleb(-self.decimals)

    def internal(self, value: Any) -> float:
        value = bare(self, value)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        self._require(math.isfinite(number), f"has {value!r} as a bound or edge", "Give a finite number.")
        return number

    def external(self, number: int | float) -> float:
        return float(number)

    def numbers_at(self, ticks: Any) -> Any:
        return ticks if self.decimals is None else ticks / 10.0**self.decimals

    def nearest_tick(self, number: int | float) -> int:
        return round(number * 10.0 ** (self.decimals or 0))

    def _equal_edges(self, low: float, high: float) -> np.ndarray:
        if low == high:
            return np.array([low])
        edges = np.linspace(low, high, self.bins + 1)[:-1]
        if self.decimals is not None:
            edges = np.unique(np.round(edges, self.decimals).clip(low, high))
            edges[0] = low
        return edges[: max(1, len(edges) - int(edges[-1] == high))]

    def _regular_labels(self) -> list[str]:
        """Ends with as many digits as distinguish neighbouring ends, such as `5.29 to 7.5`."""
        lows, highs = (np.array(self.numbers_at(ends), dtype=float) for ends in self.bin_ends())
        widths = highs - lows
        # Where the next bin begins at -0.2, the label '-0.6 to -0.2' is clearer than '-0.6 to -0.20001'.
        near = lows[1:] - highs[:-1] < _SMALL_GAP * np.minimum(widths[1:], widths[:-1])
        highs[:-1][near] = lows[1:][near]
        ends = np.unique(np.append(lows, highs))
        texts = shortest_texts(ends)
        found = dict(zip(ends.tolist(), texts, strict=True))
        pairs = [(found[low], found[high]) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        return [low if low == high else f"{low} to {high}" for low, high in pairs]

    def tick_ranges(self, edges: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        if self.decimals is None:
            raise SchemaError(f"Column {self.name!r} has no fixed number of decimals, so no ticks.")
        edges = self.edges if edges is None else edges
        scale = Decimal(10) ** self.decimals
        first = np.array([math.ceil(Decimal(repr(edge)) * scale) for edge in edges.tolist()], dtype=np.int64)
        last = math.floor(Decimal(repr(self.internal(self.maximum))) * scale)
        return first, np.append(first[1:] - 1, last)


def shortest_texts(numbers: np.ndarray) -> list[str]:
    """Rising numbers as texts with as few digits as show the distance of neighbours to within a tenth of it.

    >>> shortest_texts(np.array([5.293955920339377, 7.5, 12.0, 1234567.0]))
    ['5.3', '7.5', '12', '1234567']
    """
    if not len(numbers):
        return []
    gaps = np.diff(numbers)
    gap = float(gaps[gaps > 0].min()) if (gaps > 0).any() else max(abs(float(numbers[0])), 1.0)
    decimals = int(np.clip(1 - math.floor(math.log10(gap)), 0, 15))
    return [text.rstrip("0").rstrip(".") if "." in text else text for text in (f"{n:.{decimals}f}" for n in numbers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Datetime(Binned):
    """Dates or timestamps between public bounds, on a public grid of days, hours, minutes, seconds or finer.

    Attributes:
        format: how the text of the table writes them, in strftime codes; also how bounds may be written in a schema.
        resolution: distance of neighbouring values; by default the finest part that `format` writes.
        zone: time zone of the table's timestamps, "" for none. Bounds are wall-clock times in it.
        bins: a number of equally wide bins, `month` or `year`, or the lower edges.
    """

    format: str = "%Y-%m-%d"
    resolution: str = ""
    zone: str = ""

    def __post_init__(self) -> None:
        long = f"has a format of {len(self.format):,} characters"
        self._require(len(self.format) <= MAX_FORMAT, long, f"Give at most {MAX_FORMAT:,}.")
        if not self.resolution:
            object.__setattr__(self, "resolution", times.resolution_of(self.format))
        known = ", ".join(times.TICKS)
        self._require(self.resolution in times.TICKS, f"has resolution {self.resolution!r}", f"Use one of {known}.")
        times.check_zone(self.name, self.zone)
        if self.clock:
            for key, last in (("minimum", 0), ("maximum", times.TICKS["day"] // times.TICKS[self.resolution] - 1)):
                if getattr(self, key) is None:
                    object.__setattr__(self, key, self.external(last))
                within = 0 <= self.internal(getattr(self, key)) <= times.TICKS["day"] // times.TICKS[self.resolution]
                self._require(within, f"has {key} {getattr(self, key)!r}", "Give a time of day, such as 23:59.")
        Binned.__post_init__(self)

    @property
    def clock(self) -> bool:
        """Whether values are times of day. Their bounds are known: they are those of a day."""
        return times.is_clock(self.format)

    @property
    def sparse(self) -> bool:
        return self.resolution == "day" and times.calendar_unit(self.format) != ""

    def steps_of(self, ticks: np.ndarray, *, up: bool = False) -> np.ndarray:
        if not self.sparse:
            return ticks
        unit = {"month": "datetime64[M]", "year": "datetime64[Y]"}[times.calendar_unit(self.format)]
        steps = ticks.astype("datetime64[D]").astype(unit)
        later = up & (steps.astype("datetime64[D]").astype(np.int64) < ticks)
        return steps.astype(np.int64) + later

    def ticks_at(self, steps: np.ndarray) -> np.ndarray:
        if not self.sparse:
            return steps
        unit = {"month": "datetime64[M]", "year": "datetime64[Y]"}[times.calendar_unit(self.format)]
        return steps.astype(unit).astype("datetime64[D]").astype(np.int64)

    @property
    def field_type(self) -> str:
        if self.clock:
            return "time"
        return "date" if self.resolution == "day" and not self.zone else "datetime"

    def internal(self, value: Any) -> int:
        return times.parse_bound(self.name, value, self.format, self.resolution)

    def external(self, number: int | float) -> str:
        return times.bound_text(int(number), self.resolution, clock=self.clock)

    def _make_edges(self, low: int, high: int) -> np.ndarray:
        if isinstance(self.bins, str):
            return times.calendar_edges(self.name, self.bins, low, high, self.resolution)
        return Binned._make_edges(self, low, high)
