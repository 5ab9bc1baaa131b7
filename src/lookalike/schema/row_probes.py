"""Probes of rows: public classes of whole rows, by which discovery tests rules between columns.

A probe of rows is a column with a fixed list of classes, like the probes of single columns (`probes.py`), but its class
follows from several columns of the row. Every row belongs to exactly one class, whatever it holds, and no row raises an
error: its columns are read as their schema reads them, and then compared. So one row adds one to one count, and the
counts of a probe cost as much as those of any column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from lookalike.schema.binned import Datetime
from lookalike.schema.broken import Numbers, broken_rows
from lookalike.schema.columns import Column
from lookalike.schema.parts import part_of
from lookalike.schema.schema import Schema
from lookalike.schema.times import TICKS


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProbe(Column):
    """A column of classes of rows.

    `schema` has the columns that the class depends on, as they are encoded; the codec reads them and passes codes, and
    ticks of numbers and times. A value that is missing, or is no number where one is expected, has the code of a
    missing marker; where the column has none, it counts as some number of its range.
    """

    schema: Schema

    classes: ClassVar[tuple[str, ...]] = ()

    @property
    def regular(self) -> int:
        return len(self.classes)

    def _regular_labels(self) -> list[str]:
        return list(self.classes)

    def row_codes(self, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
        """The class of every row, given codes and ticks of the columns of `schema`."""
        raise NotImplementedError

    def present(self, codes: np.ndarray, place: int) -> np.ndarray:
        """Which rows have a value in a column; the catch-all of a list is one."""
        column = self.schema.columns[place]
        return codes[:, place] < column.regular + column.has_other


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleProbe(RowProbe):
    """Whether a row breaks a rule of the schema: the same test as for rows that are written."""

    classes: ClassVar[tuple[str, ...]] = ("kept", "broken")

    def row_codes(self, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
        with np.errstate(all="ignore"):
            return broken_rows(self.schema, codes, numbers).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(RowProbe):
    """Which of two numbers or times of a row is larger, or is missing; of other columns only what is missing."""

    classes: ClassVar[tuple[str, ...]] = ("both missing", "first missing", "second missing", "less", "equal", "more")

    def row_codes(self, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
        one, two = self.present(codes, 0), self.present(codes, 1)
        first, second = (numbers.get(column.name) for column in self.schema.columns)
        order = np.zeros(len(codes), dtype=np.int32)
        if first is not None and second is not None:
            order = (first > second).astype(np.int32) - (first < second)
        return np.where(one & two, 4 + order, np.where(one, 2, two.astype(np.int32))).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class HourLate(RowProbe):
    """By how many hours of the day the number in the second column is ahead of the time in the first.

    The last class is for rows without one of the two, or with a number that is no hour.
    """

    classes: ClassVar[tuple[str, ...]] = (*(f"{hours} hours" for hours in range(24)), "unknown")

    def row_codes(self, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
        time, hour = self.schema.columns
        micros = numbers[time.name] * TICKS[cast(Datetime, time).resolution]
        late = (numbers[hour.name] - part_of(micros, "hour")) % 24
        known = self.present(codes, 0) & self.present(codes, 1) & (numbers[hour.name] >= 0) & (numbers[hour.name] < 24)
        return np.where(known, late, 24).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAndMissing(RowProbe):
    """The code of the first column, once for rows that have a value in the second and once for rows that have none."""

    @property
    def regular(self) -> int:
        return 2 * self.schema.columns[0].size

    def _regular_labels(self) -> list[str]:
        return [f"{label}, {what}" for label in self.schema.columns[0].labels() for what in ("value", "missing")]

    def row_codes(self, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
        return (2 * codes[:, 0] + ~self.present(codes, 1)).astype(np.int32)
