"""Probes: public classes of values and of rows, by which discovery finds kinds, formats, bounds and rules.

A probe is a column with a fixed list of classes, so that its counts can be measured like those of any other column.
Every value belongs to exactly one class, and no value raises an error. The class of a probe of rows follows from
several columns of the row: they are read as their schema reads them, and then compared. So one row adds one to one
count, and the counts of a probe cost as much as those of any column.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.columns import NULL, Column, Identifier
from lookalike.schema.enforce import Numbers, broken_rows
from lookalike.schema.parts import part_of
from lookalike.schema.schema import Schema
from lookalike.schema.storage import is_text, saturated, to_numbers, value_type
from lookalike.schema.text_forms import MARKERS
from lookalike.schema.times import TICKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Column):
    """A column of classes. `codes` gives the class of every value and never fails."""

    classes: ClassVar[tuple[str, ...]] = ()

    @property
    def regular(self) -> int:
        return len(self.classes)

    def _regular_labels(self) -> list[str]:
        return list(self.classes)

    def codes(self, array: pa.Array) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Roundness(Probe):
    """The largest of the given steps, in ticks (minutes of clock times, months), of which a number is a multiple; the
    last class is for zero and for what is not a number."""

    base: Binned
    steps: tuple[int, ...]

    @property
    def regular(self) -> int:
        return len(self.steps) + 1

    def codes(self, array: pa.Array) -> np.ndarray:
        numbers, readable = to_numbers(self.base, array)
        ticks = self.base.steps_of(as_ticks(self.base, numbers))
        codes = np.zeros(len(ticks), dtype=np.int32)
        for code, step in enumerate(self.steps):
            codes[ticks % step == 0] = code
        codes[~readable | (ticks == 0)] = len(self.steps)
        return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPerPerson(Probe):
    """How many rows belong to the person of each row, up to `max_rows`. A person's rows depend on no other person."""

    base: Identifier

    @property
    def regular(self) -> int:
        return self.base.max_rows

    def codes(self, array: pa.Array) -> np.ndarray:
        people = person_numbers(self.base, array)
        return (np.minimum(np.bincount(people)[people], self.regular) - 1).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridProbe(Probe):
    """The piece of the number line that holds a value; the first includes all below it, the last is for other texts."""

    base: Binned
    edges: np.ndarray = field(hash=False, compare=False)

    @property
    def regular(self) -> int:
        return len(self.edges) + 1

    def codes(self, array: pa.Array) -> np.ndarray:
        numbers, readable = to_numbers(self.base, array)
        places = np.searchsorted(self.edges, numbers, side="right") - 1
        return np.where(readable, np.maximum(places, 0), len(self.edges)).astype(np.int32)


def person_numbers(column: Identifier, array: pa.Array) -> np.ndarray:
    """A number for the person of each row; a row without an identifier counts as a separate person.

    Equal values are one person, however the array is stored: see `person_texts`.
    """
    coded = person_texts(column, array).dictionary_encode()
    numbers = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = len(coded.dictionary) + np.arange(len(alone))
    return numbers


def person_texts(column: Identifier, array: pa.Array) -> pa.Array:
    """The identifier of the person of each row as bytes, null where a row has none.

    Bytes are compared, so that different texts that are not UTF-8 are never taken for one person.
    """
    kind = value_type(array.type)
    values = array.cast(kind)
    texts = (values if is_text(kind) else values.cast(pa.string())).cast(pa.binary()).cast(pa.large_binary())
    missing = pa.array([text.encode() for text in missing_texts(column, kind)], pa.large_binary())
    return pc.if_else(pc.is_in(texts, value_set=missing), pa.scalar(None, pa.large_binary()), texts)


def missing_texts(column: Identifier, kind: pa.DataType) -> list[str]:
    """Texts that identify no person: the declared missing markers, or all known ones where the schema declares none.

    Discovery measures markers after the rows of persons are chosen, so what it finds must not change the persons.
    """
    markers = column.missing if column.fact("missing") in ("public", "assumed") else (*MARKERS, *column.missing)
    if is_text(kind):
        return [NULL, *markers]
    numbers = [marker for marker in markers if re.fullmatch(r"[+-]?[0-9]+", marker)]
    return [str(int(number)) for number in numbers]


def as_ticks(base: Binned, numbers: np.ndarray) -> np.ndarray:
    """Whole ticks of internal numbers, clipped to +-2^62."""
    with np.errstate(all="ignore"):
        return saturated(np.rint(numbers if base.tick is None else numbers / float(base.tick)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProbe(Column):
    """A column of classes of rows.

    `schema` has the columns that the class depends on, as they are encoded; the codec reads them and passes codes, and
    ticks of numbers and times. A value that is missing, or not a number where one is expected, has the code of a
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
    """The difference in hours of the day between the number in the second column and the time in the first.

    The last class is for rows without one of the two, or with a number that is not an hour.
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
