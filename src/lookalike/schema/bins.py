"""What columns of numbers and times share: public bounds, bins, and how values are spread within a bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema.columns import DEFAULT_BINS, MAX_CODES, Column, Outside
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
        if self.sparse:
            self._settle()
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

    def _settle(self) -> None:
        """Move bounds, edges and pieces of the shape to values that exist, which changes no bin's values.

        Bins and pieces that hold no value are dropped.
        """
        low, high = self.internal(self.minimum), self.internal(self.maximum)
        object.__setattr__(self, "minimum", self.external(self.settled(np.array([low]), up=True)[0]))
        object.__setattr__(self, "maximum", self.external(self.settled(np.array([high]), up=False)[0]))
        if isinstance(self.bins, tuple):
            object.__setattr__(self, "bins", self._settled_edges(self.bins))
        levels = [n if isinstance(n, int) else self._settled_edges(n) for n in self.hierarchy]
        object.__setattr__(self, "hierarchy", tuple(levels))
        if self.shape:
            weights = dict(
                zip(self._moved_up([edge for edge, _ in self.shape]), [w for _, w in self.shape], strict=True)
            )
            kept = self._settled_edges(tuple(weights))
            object.__setattr__(self, "shape", tuple((edge, weights[edge]) for edge in kept))

    def _moved_up(self, values: Sequence[Any]) -> list[Any]:
        numbers = self.settled(np.array([self.internal(value) for value in values]), up=True)
        return [self.external(number) for number in numbers.tolist()]

    def _settled_edges(self, edges: Sequence[Any]) -> tuple[Any, ...]:
        high = self.internal(self.maximum)
        return tuple(edge for edge in dict.fromkeys(self._moved_up(edges)) if self.internal(edge) <= high)

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

    @property
    def sparse(self) -> bool:
        """Whether not every tick is a value, so that values are counted in steps: minutes of clock times, months."""
        return False

    def steps_of(self, ticks: np.ndarray, *, up: bool = False) -> np.ndarray:
        """Steps of a sparse column at ticks: of the largest value not above, or (`up`) of the smallest not below."""
        return ticks

    def ticks_at(self, steps: np.ndarray) -> np.ndarray:
        """Ticks of the values of a sparse column at these steps."""
        return steps

    def settled(self, ticks: np.ndarray, *, up: bool) -> np.ndarray:
        """The largest values that are not above the ticks, or (`up`) the smallest that are not below them."""
        return self.ticks_at(self.steps_of(ticks, up=up)) if self.sparse else ticks

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
        if self.sparse:
            low, high = (int(step) for step in self.steps_of(np.array([low, high])))
        span = high - low + 1
        count = min(self.bins, span)
        edges = np.array([low + i * span // count for i in range(count)], dtype=np.int64)
        return self.ticks_at(edges) if self.sparse else edges

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
        return edges, np.append(self.settled(edges[1:] - 1, up=False), int(self.internal(self.maximum)))

    def bin_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of every bin: ticks, or numbers where the column has no ticks."""
        if self.tick is None:
            return self.edges, np.append(self.edges[1:], self.internal(self.maximum))
        return self.tick_ranges()

    def single_values(self) -> np.ndarray | None:
        """The tick of every bin that holds one value, None where a bin holds several or the column has no ticks.

        A bin holds one value if it is one tick wide, or if its shape puts all weight on one piece of that width.
        """
        if self.tick is None:
            return None
        first, last = self.tick_ranges()
        if not self.shape:
            return first if bool(np.all(first == last)) else None
        starts, ends = self.tick_ranges(np.array([self.internal(edge) for edge, _ in self.shape]))
        used = np.array([weight for _, weight in self.shape]) > 0
        bins = np.searchsorted(first, starts, side="right") - 1
        pieces = np.bincount(bins[used], minlength=len(first))
        narrow = bool(np.all(starts[used] == ends[used]))
        wide = first != last
        if not narrow or np.any(pieces > 1) or np.any(wide & (pieces != 1)):
            return None
        values = first.copy()
        values[bins[used]] = starts[used]
        return values

    def _regular_labels(self) -> list[str]:
        """Smallest and largest value of every bin, such as `5 to 9`, or the one value that it holds."""
        lows, highs = self.bin_ends()
        ends = [(str(self.external(low)), str(self.external(high))) for low, high in zip(lows, highs, strict=True)]
        return [low if low == high else f"{low} to {high}" for low, high in ends]
