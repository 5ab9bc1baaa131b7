"""Public classes of values that partition everything a column can hold: how a value is written, and how large it is.

Discovery counts the classes of every open column in one histogram. A class is a *form* (a missing marker, whole
numbers, numbers with two decimals, dates of one format, texts ...) and a cell of the form's *axis*: small whole numbers
one by one, larger ones by magnitude (10, 15, 20, 30, ...), dates by year or decade, texts by length. The lists are
constants, so the counts are an ordinary marginal. Every value belongs to exactly one class, and no value raises an
error.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema import times
from lookalike.schema.binned import Datetime
from lookalike.schema.columns import Column
from lookalike.schema.probes import Probe
from lookalike.schema.storage import floats_of, is_text, storage_type, texts_of, to_numbers, value_type
from lookalike.schema.text_forms import (
    AFFIXES,
    FORMS,
    MAX_PLACES,
    OFFSETS,
    Form,
    affix_of,
    form_of,
    number_of,
    offset_of,
)

SENTINELS = (99, 999, 9_999, 99_999, 999_999, 9_999_999, 99_999_999)
"""Whole numbers that often mark missing or special values instead of amounts; their negatives, too."""
LAST_YEAR = 2200
_LENGTHS = (0, 1, 2, 3, 4, 5, 7, 9, 13, 21, 41)
_LEAST = 5e-324
"""The smallest positive float: a cell that ends there holds zero alone."""


def _magnitudes(low: int, high: int) -> np.ndarray:
    """1, 1.5, 2, 3, 4, 5 and 7 times the powers of ten from 10^low to 10^high; below 1/100 the powers alone."""
    digits, fine = ("1", "1.5", "2", "3", "4", "5", "7"), max(low, -2)
    powers = [float(f"1e{power}") for power in range(low, fine)]
    return np.array(powers + [float(f"{digit}e{power}") for power in range(fine, high + 1) for digit in digits])


def _both_signs(sizes: np.ndarray, zero: float) -> np.ndarray:
    """Edges at plus and minus the sizes, with a separate cell for zero, which ends at `zero`."""
    return np.concatenate([-sizes[::-1], [-zero, 0.0, zero], sizes])


def _whole_axis() -> np.ndarray:
    """-9 to 12 one by one, steps of five to thirty, of ten to a hundred, then magnitudes; sentinels and decades apart.

    Wider cells hold more rows, so that they stand out from more noise; where they do, later rounds cut them up.
    """
    sizes = _magnitudes(1, 18)
    small = [*range(-9, 13), 25, *range(30, 101, 10), 120, 1900]
    apart = [edge for number in SENTINELS for edge in (number, number + 1, -number, -number + 1)]
    return np.unique(np.concatenate([-sizes, sizes, small, range(1950, 2031, 10), apart]).astype(float))


AXES: dict[str, np.ndarray] = {
    "none": np.zeros(1),
    "whole": _whole_axis(),
    "decimal": _both_signs(_magnitudes(-MAX_PLACES, 15), _LEAST),
    "float": _both_signs(_magnitudes(-12, 18), _LEAST),
    "power": _both_signs(10.0 ** np.arange(-3, 16), _LEAST),
    "hour": np.arange(24, dtype=float),
    "year": np.unique([1, *range(100, 1900, 100), *range(1900, LAST_YEAR, 10), *range(1990, 2030)]).astype(float),
    "length": np.array(_LENGTHS, dtype=float),
}
"""Lower edges of the cells of each axis; the first cell also holds all below it, the last one all above."""


@dataclass(frozen=True, slots=True)
class FormAxis:
    """A way of writing values, and the axis along which they are counted."""

    name: str
    axis: str = "none"

    @property
    def cells(self) -> int:
        return len(AXES[self.axis])


def _axis_of(form: Form) -> str:
    """The axis of a form of texts: plain numbers have the finest."""
    if form.family == "time":
        return "year" if any(code in form.format for code in ("Y", "%y")) else "hour"
    if form.family == "text":
        return "length"
    if not form.is_number:
        return "none"
    return _number_axis(form.name) if form.name in _PLAIN else "power"


def _number_axis(name: str) -> str:
    if name in ("whole", "whole.0", "places 0"):
        return "whole"
    return "float" if name == "float" else "decimal"


_PLAIN = ("whole", "whole.0", "grouped? .", *(f"places {k}" for k in range(1, MAX_PLACES + 1)), "float")
_FLOATS = (*(f"places {k}" for k in range(MAX_PLACES + 1)), "float")
FORM_AXES: dict[str, tuple[FormAxis, ...]] = {
    "text": tuple(FormAxis(form.name, _axis_of(form)) for form in FORMS),
    "float": (*(FormAxis(name, _number_axis(name)) for name in _FLOATS), FormAxis("null")),
    "whole": (FormAxis("whole", "whole"), FormAxis("null")),
    "stamp": (*(FormAxis(name, "year") for name in times.TICKS), FormAxis("null")),
    "clock": (*(FormAxis(name, "hour") for name in times.TICKS), FormAxis("null")),
    "other": (FormAxis("value"), FormAxis("null")),
}
"""The forms that values of each storage may have, in the order of their codes."""


def _slices(forms: tuple[FormAxis, ...]) -> dict[str, slice]:
    ends = np.cumsum([form.cells for form in forms]).tolist()
    return {form.name: slice(end - form.cells, end) for form, end in zip(forms, ends, strict=True)}


_SLICES = {storage: _slices(forms) for storage, forms in FORM_AXES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueClasses(Probe):
    """The class of every value of a column: its form and its cell on the form's axis."""

    kind: str

    @property
    def forms(self) -> tuple[FormAxis, ...]:
        return FORM_AXES[self.kind]

    @property
    def starts(self) -> dict[str, slice]:
        """The classes of each form, in the order of the codes."""
        return _SLICES[self.kind]

    @property
    def regular(self) -> int:
        return max(part.stop for part in self.starts.values())

    def codes(self, array: pa.Array) -> np.ndarray:
        forms, positions = _READERS[self.kind](array)
        codes = np.zeros(len(forms), dtype=np.int32)
        for number in np.unique(forms).tolist():
            form, rows = self.forms[number], forms == number
            codes[rows] = self.starts[form.name].start + _cells(AXES[form.axis], positions[rows])
        return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Affixes(Probe):
    """What stands before and after a number, such as a currency."""

    @property
    def regular(self) -> int:
        return len(AFFIXES)

    def codes(self, array: pa.Array) -> np.ndarray:
        return affix_of(array)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets(Probe):
    """The offset from UTC with which a time is written."""

    @property
    def regular(self) -> int:
        return len(OFFSETS)

    def codes(self, array: pa.Array) -> np.ndarray:
        return offset_of(array)


def _cells(edges: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.maximum(np.searchsorted(edges, positions, side="right") - 1, 0)


def class_probe(column: Column) -> ValueClasses:
    """The probe of a column whose type, format, missing markers or magnitude is open, by its storage type."""
    value = value_type(storage_type(column))
    if is_text(value):
        return ValueClasses(column.name, kind="text")
    if pa.types.is_floating(value) or pa.types.is_decimal(value):
        return ValueClasses(column.name, kind="float")
    if pa.types.is_integer(value):
        return ValueClasses(column.name, kind="whole")
    if pa.types.is_timestamp(value) or pa.types.is_date(value):
        return ValueClasses(column.name, kind="stamp")
    if pa.types.is_time(value):
        return ValueClasses(column.name, kind="clock")
    return ValueClasses(column.name, kind="other")


def _read_texts(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Number of the form and position on its axis, of every text."""
    distinct = texts_of(array).dictionary_encode()
    forms = form_of(distinct.dictionary).astype(np.int64)
    positions = _positions(pc.utf8_trim_whitespace(distinct.dictionary), forms)
    rows = distinct.indices.fill_null(len(forms)).to_numpy(zero_copy_only=False)
    return np.append(forms, form_of(pa.nulls(1, pa.string())))[rows], np.append(positions, 0.0)[rows]


def _positions(texts: pa.Array, forms: np.ndarray) -> np.ndarray:
    """Where each text is on the axis of its form: its number, year, hour or length."""
    positions = pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(float)
    for number in np.unique(forms).tolist():
        form, rows = FORMS[number], np.flatnonzero(forms == number)
        axis = FORM_AXES["text"][number].axis
        if axis in ("none", "length"):
            continue
        numbers = np.nan_to_num(number_of(texts.take(pa.array(rows)), form))
        if axis == "year":
            numbers = _years(numbers.astype(np.int64))
        positions[rows] = numbers // times.TICKS["hour"] if axis == "hour" else numbers
    return positions


def _years(micros: np.ndarray) -> np.ndarray:
    return micros.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970.0


def _read_floats(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    numbers = floats_of(array)
    forms = np.full(len(numbers), MAX_PLACES + 1)
    with np.errstate(all="ignore"):
        for places in range(MAX_PLACES, -1, -1):
            forms[np.round(numbers, places) == numbers] = places
    forms[np.isnan(numbers)] = MAX_PLACES + 2
    return forms, np.nan_to_num(numbers)


def _read_wholes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    null = array.is_null().to_numpy(zero_copy_only=False)
    return null.astype(np.int64), array.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)


def _read_stamps(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The coarsest unit of which a timestamp is a whole number, and its year."""
    micros, readable = to_numbers(Datetime("x", resolution="microsecond"), array)
    forms = np.full(len(micros), len(times.TICKS) - 1)
    for number, tick in reversed(list(enumerate(times.TICKS.values()))):
        forms[micros % tick == 0] = number
    forms[~readable] = len(times.TICKS)
    return forms, _years(micros)


def _read_clocks(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    forms, _ = _read_stamps(array)
    micros, _ = to_numbers(Datetime("x", resolution="microsecond"), array)
    return forms, (micros // times.TICKS["hour"]).astype(float)


def _read_others(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    null = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return null.astype(np.int64), np.zeros(len(null))


_READERS = {
    "text": _read_texts,
    "float": _read_floats,
    "whole": _read_wholes,
    "stamp": _read_stamps,
    "clock": _read_clocks,
    "other": _read_others,
}
