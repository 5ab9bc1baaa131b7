"""Public classes of values that partition everything a column can hold: how a value is written, and how large it is.

Discovery counts the classes of every open column in one histogram. A class is a *form* (a missing marker, whole
numbers, numbers with two decimals, dates of one format, texts ...) and a cell of the form's *axis*: small whole numbers
one by one, larger ones by magnitude (10, 15, 20, 30, ...), dates by year or decade, texts by length. The lists are constants, so
the counts are an ordinary marginal. Every value belongs to exactly one class, and no value raises an error.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema import times
from lookalike.schema.arrays import texts_of, to_numbers
from lookalike.schema.binned import Continuous, Datetime
from lookalike.schema.columns import NULL, Column
from lookalike.schema.probes import (
    COMMA_FORMS,
    MARKERS,
    MAX_PLACES,
    NUMBER_FORMS,
    TIME_FORMS,
    Probe,
)
from lookalike.schema.storage import is_text, storage_type, value_type

SENTINELS = (99, 999, 9_999, 99_999, 999_999, 9_999_999, 99_999_999)
"""Whole numbers that often stand for something else than themselves; their negatives as well."""
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
    "year": np.unique([*range(0, 1900, 100), *range(1900, LAST_YEAR, 10), *range(1990, 2030)]).astype(float),
    "length": np.array(_LENGTHS, dtype=float),
}
"""Lower edges of the cells of each axis; the first cell also holds all below it, the last one all above."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way of writing values, and the axis along which they are counted."""

    name: str
    axis: str = "none"

    @property
    def cells(self) -> int:
        return len(AXES[self.axis])


def _number_axis(name: str) -> str:
    if name in ("whole", "whole.0", "places 0"):
        return "whole"
    return "length" if name == "padded" else "float" if name == "float" else "decimal"


TEXT_FORMS = (
    *(Form(f"marker {marker}") for marker in MARKERS),
    *(Form(name, _number_axis(name)) for name in (*NUMBER_FORMS, *COMMA_FORMS)),
    *(Form(name, "year") for name in TIME_FORMS),
    Form("text", "length"),
)
FLOAT_FORMS = (
    *(Form(n, _number_axis(n)) for n in (*(f"places {k}" for k in range(MAX_PLACES + 1)), "float")),
    Form("null"),
)
WHOLE_FORMS = (Form("whole", "whole"), Form("null"))
STAMP_FORMS = (*(Form(name, "year") for name in times.TICKS), Form("null"))
OTHER_FORMS = (Form("value"), Form("null"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueClasses(Probe):
    """The class of every value of a column: its form and its cell on the form's axis."""

    forms: tuple[Form, ...]

    @property
    def regular(self) -> int:
        return sum(form.cells for form in self.forms)

    @property
    def starts(self) -> dict[str, slice]:
        """The classes of each form, in the order of the codes."""
        ends = np.cumsum([form.cells for form in self.forms]).tolist()
        return {form.name: slice(end - form.cells, end) for form, end in zip(self.forms, ends, strict=True)}

    def codes(self, array: pa.Array) -> np.ndarray:
        forms, positions = _READERS[self.forms](array)
        codes = np.zeros(len(forms), dtype=np.int32)
        for number, (form, part) in enumerate(zip(self.forms, self.starts.values(), strict=True)):
            rows = forms == number
            codes[rows] = part.start + _cells(AXES[form.axis], positions[rows])
        return codes


def _cells(edges: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.maximum(np.searchsorted(edges, positions, side="right") - 1, 0)


def class_probe(column: Column) -> ValueClasses:
    """The probe of a column whose type, format, missing markers or magnitude is open, by its storage type."""
    value = value_type(storage_type(column))
    if is_text(value):
        return ValueClasses(column.name, forms=TEXT_FORMS)
    if pa.types.is_floating(value) or pa.types.is_decimal(value):
        return ValueClasses(column.name, forms=FLOAT_FORMS)
    if pa.types.is_integer(value):
        return ValueClasses(column.name, forms=WHOLE_FORMS)
    if pa.types.is_timestamp(value) or pa.types.is_date(value):
        return ValueClasses(column.name, forms=STAMP_FORMS)
    return ValueClasses(column.name, forms=OTHER_FORMS)


def _read_texts(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Number of the form and position on its axis, of every text."""
    distinct = texts_of(array).dictionary_encode()
    forms, positions = _text_forms(distinct.dictionary)
    places = distinct.indices.fill_null(len(forms)).to_numpy(zero_copy_only=False)
    return np.append(forms, MARKERS.index(NULL))[places], np.append(positions, 0.0)[places]


def _text_forms(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    names = [form.name for form in TEXT_FORMS]
    trimmed = pc.utf8_trim_whitespace(texts)
    forms = np.full(len(texts), names.index("text"), dtype=np.int64)
    positions = pc.utf8_length(trimmed).to_numpy(zero_copy_only=False).astype(float)
    for patterns, read in ((TIME_FORMS, _years), (COMMA_FORMS, _comma_numbers), (NUMBER_FORMS, _numbers)):
        for name, pattern in reversed(patterns.items()):
            matches = pc.match_substring_regex(trimmed, f"^{pattern}$").to_numpy(zero_copy_only=False)
            forms[matches] = names.index(name)
        own = np.isin(forms, [names.index(name) for name in patterns if name != "padded"])
        if own.any():
            positions[own] = read(trimmed.filter(pa.array(own)))
    found = pc.index_in(texts, value_set=pa.array(MARKERS)).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(found >= 0, found, forms), positions


def _numbers(texts: pa.Array, *, comma: bool = False) -> np.ndarray:
    return np.nan_to_num(to_numbers(Continuous("x", comma=comma), texts)[0])


def _comma_numbers(texts: pa.Array) -> np.ndarray:
    return _numbers(texts, comma=True)


def _years(texts: pa.Array) -> np.ndarray:
    """The year of a date: the first four digits in a row."""
    years = pc.struct_field(pc.extract_regex(texts, r"(?P<year>[0-9]{4})"), "year")
    return years.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)


def _read_floats(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    numbers = array.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
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
    years = micros.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970
    return forms, years.astype(float)


def _read_others(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    null = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return null.astype(np.int64), np.zeros(len(null))


_READERS = {
    TEXT_FORMS: _read_texts,
    FLOAT_FORMS: _read_floats,
    WHOLE_FORMS: _read_wholes,
    STAMP_FORMS: _read_stamps,
    OTHER_FORMS: _read_others,
}
