"""Columns of numbers and times: their public bounds and bins, and how values are spread within a bin."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.columns import DEFAULT_BINS, MAX_CODES, MAX_FORMAT, Column, Outside
from lookalike.schema.hierarchy import bin_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Binned(Column):
    """What integers, decimals and times share: public bounds, public bins, and a grid of ticks within each bin.

    `bins` is a number of equally wide bins or the list of their lower edges. A bin holds its lower edge and ends before
    the next; the last one ends with `maximum`.

    Attributes:
        shape: pieces of the range as (lower edge, weight), finer than the bins: values within a bin fall into its
            pieces in proportion to their weights. Without it values are uniform over the bin.
        rounding: (step in ticks, share): how often values are multiples of a step, as people round to tens.
    """

    outside: Outside = "clamp"
    bins: Any = DEFAULT_BINS
    minimum: Any = None
    maximum: Any = None
    shape: tuple[tuple[Any, float], ...] = ()
    rounding: tuple[tuple[int, float], ...] = ()
    _edges: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    facts: ClassVar[tuple[str, ...]] = ("bounds", "bins", "missing")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._require(self.outside != "other", "has numbers or times, so no catch-all", "Set dp.outside to clamp.")
        # Bounds become plain numbers or ISO texts at once, so that columns that say the same are equal.
        if not isinstance(self.bins, int | str):
            object.__setattr__(self, "bins", tuple(self._plain(edge) for edge in self.bins))
        object.__setattr__(self, "minimum", self._plain(self.minimum))
        object.__setattr__(self, "maximum", self._plain(self.maximum))
        self._check_levels()
        if self._lacks("bounds"):
            return
        low, high = self.internal(self.minimum), self.internal(self.maximum)
        self._require(low <= high, f"has minimum {self.minimum} above maximum {self.maximum}", "Swap the two.")
        edges = self._make_edges(low, high)
        self._require(
            len(edges) > 0 and bool(np.all(np.diff(edges) > 0)) and edges[0] == low and edges[-1] <= high,
            f"needs lower edges that rise from its minimum {self.minimum} and stay below its maximum {self.maximum}",
            "Correct bins, minimum and maximum.",
        )
        object.__setattr__(self, "_edges", edges)
        self._check_shape()
        self._groups()
        if not self.open_facts:
            self._check_count(self.size)

    def _check_levels(self) -> None:
        plain = [n if isinstance(n, int) else tuple(self._plain(edge) for edge in n) for n in self.hierarchy]
        object.__setattr__(self, "hierarchy", tuple(plain))
        counts = [level for level in plain if isinstance(level, int)]
        falling = all(count >= 1 for count in counts) and all(a > b for a, b in pairwise(counts))
        self._require(falling, f"has a hierarchy of {counts} groups", "Give falling numbers of at least 1.")
        declared = len(counts) == len(plain) or not {"bounds", "bins"} & set(self.open_facts)
        self._require(declared, "has a hierarchy of bins that are not declared", "Declare bounds and bins.")

    def _make_groups(self) -> list[np.ndarray]:
        starts = {
            place: np.array([self.internal(edge) for edge in level])
            for place, level in enumerate(self.hierarchy)
            if not isinstance(level, int)
        }
        return bin_groups(self.name, self.edges, self.hierarchy, starts)

    def _lacks(self, fact: str) -> bool:
        return fact == "bounds" and (self.minimum is None or self.maximum is None)

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

    def numbers_at(self, ticks: Any) -> Any:
        """Internal numbers at whole numbers of ticks; where the column has no ticks, the numbers themselves."""
        return ticks

    def nearest_tick(self, number: int | float) -> int:
        """The whole number of ticks next to an internal number."""
        return round(number)

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

    def _check_shape(self) -> None:
        pieces = tuple((self._plain(edge), float(weight)) for edge, weight in self.shape)
        object.__setattr__(self, "shape", pieces)
        object.__setattr__(self, "rounding", tuple((int(step), float(share)) for step, share in self.rounding))
        self._require(
            all(step >= 1 for step, _ in self.rounding) and all(share >= 0 for _, share in self.rounding),
            "has a rounding step below 1 or a negative share",
            "Give pairs of a positive whole step and its share.",
        )
        if not pieces:
            return
        edges = np.array([self.internal(edge) for edge, _ in pieces])
        self._require(
            bool(np.all(np.diff(edges) > 0)) and edges[-1] <= self.internal(self.maximum)
            and bool(np.isin(self.edges, edges).all()) and all(weight >= 0 for _, weight in pieces),
            "has a shape whose pieces do not rise, miss the edge of a bin, or have negative weights",
            "Give rising lower edges that include those of all bins.",
        )  # fmt: skip

    def tick_ranges(self, edges: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """First and last tick of every bin (or piece), both inclusive; a tick t stands for the number t * tick."""
        edges = self.edges if edges is None else edges
        return edges, np.append(edges[1:] - 1, int(self.internal(self.maximum)))

    def bin_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of every bin: ticks, or numbers where the column has no ticks."""
        if self.tick is None:
            return self.edges, np.append(self.edges[1:], self.internal(self.maximum))
        return self.tick_ranges()

    def _regular_labels(self) -> list[str]:
        """Smallest and largest value of every bin, such as `5 to 9`, or the one value that it holds."""
        lows, highs = self.bin_ends()
        ends = [(str(self.external(low)), str(self.external(high))) for low, high in zip(lows, highs, strict=True)]
        return [low if low == high else f"{low} to {high}" for low, high in ends]


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
        fits = exact and abs(number or 0) < 2**62
        self._require(fits, f"has {value!r} as a bound or edge", "Give a whole number of at most 62 bits.")
        return int(value)

    def external(self, number: int | float) -> int:
        return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous(Binned):
    """Decimal numbers between public bounds, with a fixed number of places or (None) as many as a float has.

    `least_decimals` is the smallest number of decimals that texts show where they leave out final zeros. `comma` is set
    where texts write a comma before the decimals.
    """

    decimals: int | None = None
    least_decimals: int | None = None
    comma: bool = False

    facts: ClassVar[tuple[str, ...]] = ("bounds", "bins", "missing", "decimals")

    def __post_init__(self) -> None:
        Binned.__post_init__(self)
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
        """Ends with as many digits as tell neighbouring ends apart, such as `5.29 to 7.5`."""
        lows, highs = (np.asarray(self.numbers_at(ends), dtype=float) for ends in self.bin_ends())
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
    """Rising numbers as texts of as few digits as tell neighbours apart by a tenth of their distance.

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
