"""Probes: public classes of values, by which discovery finds the kind, format and bounds of a column.

A probe is a column with a fixed list of classes, so that its counts can be measured like those of any other column.
Every value belongs to exactly one class, and no value raises an error.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.arrays import saturated, to_numbers
from lookalike.schema.binned import Binned
from lookalike.schema.columns import NULL, Column, Identifier
from lookalike.schema.storage import is_text, value_type
from lookalike.schema.text_forms import MARKERS


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

    Equal values are one person, however the array is stored. They are compared as bytes, so that different texts that
    are not UTF-8 are never taken for one person.
    """
    kind = value_type(array.type)
    values = array.cast(kind)
    texts = (values if is_text(kind) else values.cast(pa.string())).cast(pa.binary()).cast(pa.large_binary())
    missing = pa.array([text.encode() for text in _missing_texts(column, kind)], pa.large_binary())
    texts = pc.if_else(pc.is_in(texts, value_set=missing), pa.scalar(None, pa.large_binary()), texts)
    coded = texts.dictionary_encode()
    numbers = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = len(coded.dictionary) + np.arange(len(alone))
    return numbers


def _missing_texts(column: Identifier, kind: pa.DataType) -> list[str]:
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
