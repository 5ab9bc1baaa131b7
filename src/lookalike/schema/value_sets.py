"""Which values of one column a comparison names: the share of every code, between 0 and 1 where a bin is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.schema.binned import Binned
from lookalike.schema.columns import Categorical, Column, Ordinal


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Values of an ordered column between two ends, either of which may be left out (None) or not included."""

    column: Column
    low: float | int | None = None
    high: float | int | None = None
    low_open: bool = False
    high_open: bool = False

    @classmethod
    def of(cls, column: Column, sign: str, value: str) -> Range:
        position = position_of(column, value)
        if sign.startswith(">"):
            return cls(column, low=position, low_open=sign == ">")
        return cls(column, high=position, high_open=sign == "<")

    def meet(self, other: Range) -> Range:
        """The values in both ranges."""
        lows = [(r.low, r.low_open) for r in (self, other) if r.low is not None]
        highs = [(r.high, not r.high_open) for r in (self, other) if r.high is not None]
        low, low_open = max(lows) if lows else (None, False)
        high, high_closed = min(highs) if highs else (None, True)
        return Range(self.column, low, high, low_open, not high_closed)

    def weights(self) -> np.ndarray:
        """Share of every code's values that lie in the range; missing and other values never do."""
        column = self.column
        shares = np.zeros(column.size)
        if isinstance(column, Binned):
            (first, last), step = column.bin_ends(), 0.0 if column.tick is None else 1.0
        else:
            first = last = np.arange(column.regular)
            step = 1.0
        low = -np.inf if self.low is None else self._end(self.low, step if self.low_open else 0.0)
        high = np.inf if self.high is None else -self._end(-self.high, step if self.high_open else 0.0)
        overlap = np.minimum(last, high) - np.maximum(first, low) + step
        width = last - first + step
        # A bin of no width holds a single value; it is inside or it is not.
        inside = np.where(width > 0, overlap / np.where(width > 0, width, 1), (low <= first) & (first <= high))
        shares[: column.regular] = np.clip(inside, 0.0, 1.0)
        return shares

    def _end(self, value: float, gap: float) -> float:
        """The smallest value inside, in units of the column's ticks: `value` and `gap`, or the next tick above."""
        tick = self.column.tick if isinstance(self.column, Binned) else None
        if tick is None or tick == 1:
            return value + gap
        scaled = value / float(tick)
        nearest = round(scaled)
        return nearest + gap if abs(scaled - nearest) < 1e-6 else float(np.ceil(scaled))


def position_of(column: Column, value: str) -> float | int:
    """A value as a number that can be compared with the column's bins or positions."""
    if isinstance(column, Ordinal) and column.values is not None:
        if value in column.values:
            return column.values.index(value)
        raise _no_value(column, value)
    if isinstance(column, Binned):
        try:
            return column.internal(value)
        except SchemaError:
            raise InputError(
                f"{value!r} cannot be read as a value of column {column.name!r}. Give a {column.field_type} such as "
                f"{column.minimum}."
            ) from None
    raise InputError(f"The values of column {column.name!r} have no order; compare with =, != or in.")


def any_of(column: Column, values: Sequence[str]) -> np.ndarray:
    """Share of every code whose value is one of `values`."""
    shares = np.zeros(column.size)
    for value in values:
        if value in column.missing:
            shares[column.missing_code(value)] = 1.0
        elif isinstance(column, Categorical):
            if column.values is not None and value in column.values:
                shares[column.values.index(value)] = 1.0
            elif column.has_other and value == column.other_label:
                shares[column.other_code] = 1.0
            else:
                raise _no_value(column, value)
        else:
            position = position_of(column, value)
            shares = np.minimum(1.0, shares + Range(column, position, position).weights())
    return shares


def _no_value(column: Categorical, value: str) -> InputError:
    values = column.values or ()
    listed = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
    return InputError(f"{value!r} is not among the {len(values)} values of column {column.name!r}: {listed}.")


def missing_codes(column: Column) -> np.ndarray:
    shares = np.zeros(column.size)
    shares[column.size - len(column.missing) :] = 1.0 if column.missing else 0.0
    return shares
