"""The kinds of columns: public facts about each, and how many codes they give.

Codes of every column lie in one order: values or bins first, then the catch-all `other` where there is one, then one
code per missing marker. A fact that is not known yet is `None` ("open"): private discovery fills it before a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar, Literal

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema import times

Provenance = Literal["public", "assumed", "measured"]
Outside = Literal["error", "clamp", "other"]

MAX_CODES = 100_000
"""Largest number of codes of one column: beyond it a one-way marginal is mostly noise and takes long to hold."""
DEFAULT_BINS = 32
NULL = ""
"""The missing marker that stands for an empty field of a CSV file and for null everywhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What all kinds share.

    Attributes:
        name: the column's name in the table.
        missing: markers of missing values, each with a code of its own, so that `?` comes back as `?`. The empty
            marker stands for null. No markers: the column never is missing.
        outside: what happens to a value outside the schema: `error`, `clamp` to the bounds (numbers and times; texts
            that are no number count as missing), or `other` (the catch-all code of categories).
        storage: Arrow type of the column in the table, written as Arrow prints it; "" is the kind's natural type. A
            `string` column of numbers or times is text in the column's format, as in CSV files.
        provenance: where each fact comes from: known to all (`public`), taken for public by whoever drafted the schema
            and not confirmed yet (`assumed`), or paid for from the budget (`measured`).
    """

    name: str = field(kw_only=False)
    missing: tuple[str, ...] = ()
    outside: Outside = "error"
    storage: str = ""
    provenance: Mapping[str, Provenance] = field(default_factory=dict, hash=False)

    facts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))
        self._require(len(set(self.missing)) == len(self.missing), "lists a missing marker twice", "Remove one.")
        for fact, value in self.provenance.items():
            self._require(
                fact in self.facts and value in ("public", "assumed", "measured"),
                f"marks {fact!r} as {value!r}",
                f"Mark one of {', '.join(self.facts)} as public, assumed or measured.",
            )
        marked = {fact: value for fact, value in self.provenance.items() if value != "public"}
        object.__setattr__(self, "provenance", marked)

    def _require(self, condition: bool, what: str, remedy: str) -> None:
        if not condition:
            raise SchemaError(f"Column {self.name!r} {what}. {remedy}")

    @property
    def field_type(self) -> str:
        """The column's type in the words of a Frictionless Table Schema."""
        return "string"

    @property
    def has_other(self) -> bool:
        return self.outside == "other"

    @property
    def open_facts(self) -> tuple[str, ...]:
        """Names of the facts that private discovery has still to fill."""
        return ()

    @property
    def regular(self) -> int:
        """Number of codes of values or bins."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of codes in all."""
        if self.open_facts:
            raise SchemaError(
                f"Column {self.name!r} leaves {', '.join(self.open_facts)} open. Declare them in the schema, or let "
                "a run with a private budget discover them."
            )
        return self.regular + self.has_other + len(self.missing)

    @property
    def other_code(self) -> int | None:
        return self.regular if self.has_other else None

    def missing_code(self, marker: str = NULL) -> int | None:
        """Code of a marker; null falls back to the first marker. None where the column has no missing values."""
        if not self.missing:
            return None
        position = self.missing.index(marker) if marker in self.missing else 0
        return self.regular + self.has_other + position

    def fact(self, name: str) -> Provenance:
        """Provenance of one fact; facts that nobody marked are public."""
        return self.provenance.get(name, "public")

    def labels(self) -> list[str]:
        """A short public text for every code, for reports and plots."""
        markers = [f"missing ({marker})" if marker else "missing" for marker in self.missing]
        return [*self._regular_labels(), *(["other"] if self.has_other else []), *markers]

    def _regular_labels(self) -> list[str]:
        raise NotImplementedError

    def _check_size(self) -> None:
        self._require(
            self.size <= MAX_CODES,
            f"has {self.size:,} codes; the limit is {MAX_CODES:,}",
            "Use fewer bins, list the common values and set outside: other, or leave the column out.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """A column with a finite list of values, kept as the texts that the table holds.

    >>> ward = Categorical("ward", values=("Surgery", "Medicine"), missing=("?",), outside="other")
    >>> ward.size, ward.other_code, ward.missing_code("?")
    (4, 2, 3)
    """

    values: tuple[str, ...] | None = field(default=None, kw_only=False)
    other_label: str = "other"

    facts: ClassVar[tuple[str, ...]] = ("values", "missing")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._require(self.outside != "clamp", "cannot clamp categories", "Set outside to error or other.")
        if self.values is None:
            return
        object.__setattr__(self, "values", tuple(as_text(value) for value in self.values))
        self._require(len(self.values) > 0, "lists no values", "List at least one, or leave the list out.")
        self._require(len(set(self.values)) == len(self.values), "lists a value twice", "Remove one of the two.")
        clash = set(self.values) & set(self.missing)
        self._require(not clash, "lists a missing marker among its values", "Keep it in one of the two lists.")
        self._check_size()

    @property
    def open_facts(self) -> tuple[str, ...]:
        return ("values",) if self.values is None else ()

    @property
    def regular(self) -> int:
        return len(self.values or ())

    def _regular_labels(self) -> list[str]:
        return list(self.values or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Categorical):
    """A categorical column whose values are listed from low to high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binned(Column):
    """What integers, decimals and times share: public bounds, public bins, and a grid of ticks within each bin.

    `bins` is a number of equally wide bins or the list of their lower edges. A bin holds its lower edge and ends before
    the next; the last one ends with `maximum`.
    """

    bins: Any = DEFAULT_BINS
    minimum: Any = None
    maximum: Any = None
    _edges: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    facts: ClassVar[tuple[str, ...]] = ("bounds", "bins", "missing")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._require(self.outside != "other", "has no catch-all code", "Set outside to error or clamp.")
        # Bounds become plain numbers or ISO texts at once, so that columns that say the same are equal.
        if not isinstance(self.bins, int | str):
            object.__setattr__(self, "bins", tuple(self._plain(edge) for edge in self.bins))
        object.__setattr__(self, "minimum", self._plain(self.minimum))
        object.__setattr__(self, "maximum", self._plain(self.maximum))
        if self.open_facts:
            return
        low, high = self.internal(self.minimum), self.internal(self.maximum)
        self._require(low <= high, f"has minimum {self.minimum} above maximum {self.maximum}", "Swap the two.")
        edges = self._make_edges(low, high)
        self._require(
            len(edges) > 0 and bool(np.all(np.diff(edges) > 0)) and edges[0] == low and edges[-1] <= high,
            "needs lower edges that rise from the minimum and stay below the maximum",
            "Correct bins, minimum and maximum.",
        )
        object.__setattr__(self, "_edges", edges)
        self._check_size()

    @property
    def open_facts(self) -> tuple[str, ...]:
        return ("bounds",) if self.minimum is None or self.maximum is None else ()

    @property
    def regular(self) -> int:
        return 0 if self._edges is None else len(self._edges)

    @property
    def edges(self) -> np.ndarray:
        """Lower edges of the bins, as internal numbers (see `internal`)."""
        if self._edges is None:
            raise SchemaError(f"Column {self.name!r} has no bounds yet; declare them or let a run discover them.")
        return self._edges

    @property
    def tick(self) -> Decimal | None:
        """Distance of neighbouring values, None where any float may occur."""
        return Decimal(1)

    def internal(self, value: Any) -> int | float:
        """The number that stands for a value of the schema: itself, or ticks since 1970 for times."""
        raise NotImplementedError

    def external(self, number: int | float) -> Any:
        """The value of the schema that a number stands for."""
        raise NotImplementedError

    def _plain(self, value: Any) -> Any:
        return None if value is None else self.external(self.internal(value))

    def _make_edges(self, low: Any, high: Any) -> np.ndarray:
        if isinstance(self.bins, tuple):
            return np.array([self.internal(edge) for edge in self.bins])
        self._require(isinstance(self.bins, int) and self.bins >= 1, f"has bins {self.bins!r}", "Give 1 or more bins.")
        self._require(self.bins <= MAX_CODES, f"has {self.bins:,} bins; the limit is {MAX_CODES:,}", "Use fewer bins.")
        return self._equal_edges(low, high)

    def _equal_edges(self, low: int, high: int) -> np.ndarray:
        span = high - low + 1
        count = min(self.bins, span)
        return np.array([low + i * span // count for i in range(count)], dtype=np.int64)

    def tick_ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last tick of every bin, both inclusive; a tick t stands for the number t * tick."""
        high = int(self.internal(self.maximum))
        return self.edges, np.append(self.edges[1:] - 1, high)

    def _regular_labels(self) -> list[str]:
        lows = [self.external(edge) for edge in self.edges.tolist()]
        highs = [*lows[1:], self.maximum]
        return [
            f"[{low}, {high}{')' if i + 1 < len(lows) else ']'}"
            for i, (low, high) in enumerate(zip(lows, highs, strict=True))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Binned):
    """Whole numbers between public bounds.

    `width` pads text with leading zeros, as in `007`.

    >>> Integer("age", minimum=0, maximum=109, bins=11).edges[:3].tolist()
    [0, 10, 20]
    """

    width: int = 0

    @classmethod
    def coded(cls, name: str, size: int) -> Integer:
        """A column of integer codes 0..size-1, one bin each, as in a table given with `--domain`."""
        return cls(name, minimum=0, maximum=size - 1, bins=max(size, 1))

    @property
    def field_type(self) -> str:
        return "integer"

    def internal(self, value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        exact = number is not None and (isinstance(value, str) or number == value)
        self._require(exact and abs(number or 0) < 2**62, f"has {value!r} as a bound or edge", "Give a whole number.")
        return int(value)

    def external(self, number: int | float) -> int:
        return int(number)

    def _regular_labels(self) -> list[str]:
        lows, highs = self.tick_ranges()
        return [str(a) if a == b else f"{a}-{b}" for a, b in zip(lows.tolist(), highs.tolist(), strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous(Binned):
    """Decimal numbers between public bounds, with a fixed number of places or (None) as many as a float has."""

    decimals: int | None = None

    def __post_init__(self) -> None:
        Binned.__post_init__(self)
        if self.decimals is None or self.open_facts:
            return
        largest = max(abs(self.internal(self.minimum)), abs(self.internal(self.maximum)))
        self._require(
            0 <= self.decimals <= 15 and largest * 10.0**self.decimals < 2**53,
            f"asks for {self.decimals} decimals",
            "Give 0 to 15, with no more than 15 digits in all.",
        )
        first, last = self.tick_ranges()
        self._require(
            bool(np.all(first <= last)),
            f"has a bin that holds no number with {self.decimals} decimals",
            "Use fewer bins or more decimals.",
        )

    @property
    def field_type(self) -> str:
        return "number"

    @property
    def tick(self) -> Decimal | None:
        return None if self.decimals is None else Decimal(1).scaleb(-self.decimals)

    def internal(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        self._require(math.isfinite(number), f"has {value!r} as a bound or edge", "Give a finite number.")
        return number

    def external(self, number: int | float) -> float:
        return float(number)

    def _equal_edges(self, low: float, high: float) -> np.ndarray:
        if low == high:
            return np.array([low])
        edges = np.linspace(low, high, self.bins + 1)[:-1]
        if self.decimals is not None:
            edges = np.unique(np.round(edges, self.decimals).clip(low, high))
            edges[0] = low
        return edges[: max(1, len(edges) - int(edges[-1] == high))]

    def tick_ranges(self) -> tuple[np.ndarray, np.ndarray]:
        if self.decimals is None:
            raise SchemaError(f"Column {self.name!r} has no fixed number of decimals, so no ticks.")
        scale = Decimal(10) ** self.decimals
        first = np.array([math.ceil(Decimal(repr(edge)) * scale) for edge in self.edges.tolist()], dtype=np.int64)
        last = math.floor(Decimal(repr(self.internal(self.maximum))) * scale)
        return first, np.append(first[1:] - 1, last)


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
        if not self.resolution:
            object.__setattr__(self, "resolution", times.resolution_of(self.format))
        known = ", ".join(times.TICKS)
        self._require(self.resolution in times.TICKS, f"has resolution {self.resolution!r}", f"Use one of {known}.")
        times.check_zone(self.name, self.zone)
        Binned.__post_init__(self)

    @property
    def field_type(self) -> str:
        return "date" if self.resolution == "day" and not self.zone else "datetime"

    def internal(self, value: Any) -> int:
        return times.parse_bound(self.name, value, self.format, self.resolution)

    def external(self, number: int | float) -> str:
        return times.bound_text(int(number), self.resolution)

    def _make_edges(self, low: int, high: int) -> np.ndarray:
        if isinstance(self.bins, str):
            return times.calendar_edges(self.name, self.bins, low, high, self.resolution)
        return Binned._make_edges(self, low, high)


def as_text(value: object) -> str:
    """A category as the text that a table would hold: `true` for True, `5` for 5, the text itself for a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def measured(column: Column, facts: Iterable[str], **changes: Any) -> Column:
    """The column with facts filled in and marked as measured: what private discovery returns."""
    provenance = {**column.provenance, **dict.fromkeys(facts, "measured")}
    return replace(column, provenance=provenance, **changes)
