"""Models and noisy numbers as JSON values and arrays, checked when read back.

`taken_apart` writes any of them from its fields alone. Each class reads itself (`from_stored`). A file may contain
anything, so `Stored` checks each part when it is read, and every fault is a ModelFileError that names the part. Limits
are far beyond what any run writes, and low enough that a model within them can be used: no number overflows, no code
lies outside its column, no setting makes a sample endless.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from lookalike.errors import ModelFileError
from lookalike.measurements import NoisyMarginal
from lookalike.schema.columns import MAX_CODES
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import MAX_CODES_IN_ALL, MAX_COLUMNS

MAX_TOTAL = 1e10
"""Largest number of rows of a model."""
MAX_COUNT = 1e12
"""Largest count, noisy or not, and largest standard deviation of noise."""
_MAX_TEXT = 10_000
_NEAR = 1e-3

_FIELD_NAME = re.compile("[a-z_]{1,30}")

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]
"""A model as JSON values and named arrays: all that the open file format holds."""

T = TypeVar("T")


def taken_apart(value: Any) -> Parts:
    """Return a model, or a mapping that holds models and noisy numbers, as JSON values and arrays.

    Objects become mappings of their fields (of `stored_fields`, if they have that attribute), models with their kind as
    well. In the JSON values an array is represented by its name, which is its path.
    """
    arrays: dict[str, np.ndarray] = {}
    return _json_value(value, "", arrays), arrays


def _json_value(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        arrays[place] = _compact(value)
        return place
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            value = {"keys": list(value), "values": list(value.values())}
        keys = [key if _FIELD_NAME.fullmatch(key) else str(i) for i, key in enumerate(value)]
        places = (f"{place}-{key}".removeprefix("-") for key in keys)
        return {key: _json_value(part, at, arrays) for (key, part), at in zip(value.items(), places, strict=True)}
    if isinstance(value, Sequence):
        return [_json_value(entry, f"{place}-{i}", arrays) for i, entry in enumerate(value)]
    names = getattr(value, "stored_fields", None) or [field.name for field in fields(value) if field.init]
    kind = {"kind": value.kind} if hasattr(value, "kind") else {}
    return _json_value({**kind, **{name: getattr(value, name) for name in names}}, place, arrays)


def _compact(array: np.ndarray) -> np.ndarray:
    """Codes and numbers of groups in as few bytes as they need; other arrays as they are."""
    if array.dtype.kind not in "iu" or not array.size or array.min() < 0:
        return array
    return array.astype(np.min_scalar_type(array.max()))


class Stored:
    """A JSON object of a model file with the file's arrays.

    Args:
        meta: the JSON object.
        arrays: all arrays, by name. Each is used once and removed, so that a small file cannot use a large array many
            times.
        what: name of the object in messages.
    """

    def __init__(self, meta: Any, arrays: dict[str, np.ndarray] | None = None, what: str = "the model") -> None:
        self.what = what
        if not isinstance(meta, Mapping):
            self.fail(f"is a {type(meta).__name__}, not a JSON object")
        self.meta: Mapping[str, Any] = meta
        self.arrays = {} if arrays is None else arrays

    def fail(self, problem: str) -> None:
        raise ModelFileError(f"{self.what} {problem}")

    def require(self, condition: bool, problem: str) -> None:
        if not condition:
            self.fail(problem)

    # Single values.

    def value(self, key: str, kind: type[T], default: T | None = None) -> T:
        found = self.meta.get(key, default)
        # In Python True is an int, but in a file it is not a number.
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            self.fail(f"has a {type(found).__name__} as {key!r}; expected a {kind.__name__}")
        return found  # type: ignore[return-value]

    def part(self, key: str, what: str = "") -> Stored:
        return Stored(self.value(key, dict), self.arrays, what or f"{key} of {self.what}")

    def parts(self, key: str) -> list[Stored]:
        """Return the objects of a list."""
        listed = self.value(key, list, [])
        return [Stored(entry, self.arrays, f"{key} {i + 1} of {self.what}") for i, entry in enumerate(listed)]

    def entries(self, key: str) -> Stored:
        """Return a list as an object whose keys are "0", "1", ..."""
        listed = self.value(key, list)
        return Stored({str(i): entry for i, entry in enumerate(listed)}, self.arrays, f"{key} of {self.what}")

    def settings(self, kind: type[T], limits: Mapping[str, Any]) -> T:
        """Return a dataclass of settings, each of the type of its default.

        `limits` gives the range of every number, the known values of every text, and the limits of nested settings.
        """
        defaults = kind()
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        return kind(**{name: self._setting(name, getattr(defaults, name), limits.get(name)) for name in names})

    def _setting(self, key: str, default: Any, limits: Any) -> Any:
        if isinstance(default, bool):
            return self.value(key, bool)
        if isinstance(default, str):
            return self.choice(key, limits)
        if isinstance(default, tuple):
            return (self.wholes if isinstance(default[0], int) else self.numbers)(key, *limits)
        if isinstance(default, int | float):
            return (self.whole if isinstance(default, int) else self.number)(key, *limits)
        return self.part(key).settings(type(default), limits)

    def text(self, key: str, default: str | None = None) -> str:
        text = self.value(key, str, default)
        self.require(len(text) <= _MAX_TEXT, f"has a text of {len(text):,} characters as {key!r}")
        return text

    def choice(self, key: str, known: Sequence[str]) -> Any:
        text = self.text(key)
        self.require(text in known, f"has {text[:50]!r} as {key!r}; known are {', '.join(known)}")
        return text

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        found = self.meta.get(key, default)
        good = isinstance(found, int | float) and not isinstance(found, bool) and low <= found <= high
        self.require(good, f"has {_shown(found)} as {key!r}; expected a number from {low:g} to {high:g}")
        return float(found)  # type: ignore[arg-type]

    def whole(self, key: str, low: int, high: int) -> int:
        found = self.meta.get(key)
        good = isinstance(found, int) and not isinstance(found, bool) and low <= found <= high
        self.require(good, f"has {_shown(found)} as {key!r}; expected a whole number from {low} to {high}")
        return int(found)  # type: ignore[arg-type]

    def numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        entries = self.entries(key)
        return tuple(entries.number(i, low, high) for i in entries.meta)

    def wholes(self, key: str, low: int, high: int) -> tuple[int, ...]:
        entries = self.entries(key)
        return tuple(entries.whole(i, low, high) for i in entries.meta)

    def texts(self, key: str) -> tuple[str, ...]:
        listed = self.value(key, list)
        self.require(all(isinstance(text, str) for text in listed), f"has entries in {key!r} that are not texts")
        return tuple(listed)

    # What all models have.

    def domain(self) -> Domain:
        """Return the names and sizes of the columns."""
        part = self.part("domain")
        names, counts = part.texts("names"), part.wholes("sizes", 1, MAX_CODES)
        self.require(0 < len(names) <= MAX_COLUMNS, f"has {len(names):,} columns; the limits are 1 and {MAX_COLUMNS:,}")
        self.require(
            sum(counts) <= MAX_CODES_IN_ALL,
            f"has columns of {sum(counts):,} codes in all; the limit is {MAX_CODES_IN_ALL:,}",
        )
        return Domain(names, counts)

    def total(self) -> float:
        return self.number("total", 1e-6, MAX_TOTAL)

    def cliques(self, key: str, domain: Domain) -> tuple[ColumnSet, ...]:
        """Return a list of column sets, each in domain order."""
        entries = self.entries(key)
        return tuple(entries.clique(i, domain) for i in entries.meta)

    def clique(self, key: str, domain: Domain) -> ColumnSet:
        names = self.texts(key)
        self.require(all(name in domain for name in names), f"names a column in {key!r} that the model does not have")
        self.require(domain.canonical(names) == names, f"lists the columns of {key!r} out of order or twice")
        return names

    # Arrays.

    def table(
        self, key: str, shape: tuple[int, ...], low: float, high: float, *, impossible: bool = False
    ) -> np.ndarray:
        """Return an array of floats of that shape; with `impossible`, -inf may mark impossible cells."""
        return self._within(self._array(key, "f"), key, shape, low, high, impossible)

    def tables(
        self, key: str, shapes: Sequence[tuple[int, ...]], low: float, high: float, *, impossible: bool = False
    ) -> tuple[np.ndarray, ...]:
        """Return a list of as many such arrays as there are shapes."""
        entries = self.entries(key)
        self.require(len(entries.meta) == len(shapes), f"has {len(entries.meta):,} {key}; expected {len(shapes):,}")
        return tuple(
            entries.table(i, shape, low, high, impossible=impossible)
            for i, shape in zip(entries.meta, shapes, strict=True)
        )

    def distributions(self, key: str, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
        """Return a list of arrays of probabilities that add up to 1 along the last axis."""
        arrays = self.tables(key, shapes, 0.0, 1.0 + _NEAR)
        for array in arrays:
            sums = array.sum(axis=-1, dtype=np.float64)
            self.require(bool((np.abs(sums - 1) <= _NEAR).all()), f"has an array of {key!r} that does not add up to 1")
        return arrays

    def weights(self, key: str, axes: int, high: float) -> np.ndarray:
        """Return an array of floats with this number of axes, none of them empty."""
        array = self._array(key, "f")
        self.require(array.ndim == axes and array.size > 0, f"has an array {key!r} of shape {array.shape}")
        return self._within(array, key, array.shape, -high, high)

    def codes(self, key: str, sizes: Sequence[int], *, min_rows: int = 1) -> np.ndarray:
        """Return at least `min_rows` rows of codes, each below the size of its column: int32, columns contiguous."""
        array = self._array(key, "iu")
        self.require(
            array.ndim == 2 and array.shape[1] == len(sizes) and len(array) >= min_rows,
            f"has an array {key!r} of shape {array.shape} for {len(sizes)} columns",
        )
        for column, size in zip(array.T, sizes, strict=True):
            inside = column.min(initial=0) >= 0 and column.max(initial=0) < size
            self.require(inside, f"has an array {key!r} with a code outside 0 to {size - 1}")
        return np.asfortranarray(array.astype(np.int32))

    def labels(self, key: str, shape: tuple[int, ...], count: int | None = None) -> np.ndarray:
        """Return group numbers 0..count-1 (by default up to the largest number), all of which must occur: int32."""
        array = self._array(key, "iu")
        self.require(array.shape == shape, f"has an array {key!r} of shape {array.shape}; expected {shape}")
        count = int(array.max(initial=0)) + 1 if count is None else count
        inside = array.size > 0 and array.min() >= 0 and array.max() < count <= array.size
        self.require(inside, f"has a group outside 0 to {count - 1} in {key!r}, or more groups than members")
        occurs = np.bincount(array.ravel().astype(np.int64), minlength=count) > 0
        self.require(bool(occurs.all()), f"has a group in {key!r} without members")
        return array.astype(np.int32)

    def _array(self, key: str, kinds: str) -> np.ndarray:
        array = self.arrays.pop(self.text(key), None)
        if array is None or array.dtype.kind not in kinds:
            self.fail(f"lacks the array {key!r}, or it is of another type or used twice")
        return array  # type: ignore[return-value]

    def _within(
        self, array: np.ndarray, key: str, shape: tuple[int, ...], low: float, high: float, impossible: bool = False
    ) -> np.ndarray:
        self.require(array.shape == shape, f"has an array {key!r} of shape {array.shape}; expected {shape}")
        inside = (array >= low) & (array <= high)
        if impossible:
            inside |= np.isneginf(array)
        self.require(bool(inside.all()), f"has an array {key!r} with entries outside {low:g} to {high:g}")
        return array

    # Noisy numbers.

    def measurement(self, domain: Domain) -> NoisyMarginal:
        """Return a noisy marginal, with or without groups of cells."""
        attrs, counts, labels = self.clique("attrs", domain), self._array("values", "f"), None
        shape = domain.shape(attrs)
        if self.meta.get("groups") is not None:
            labels = self.labels("groups", shape, counts.size)
            shape = (counts.size,)
        self._within(counts, "values", shape, -MAX_COUNT, MAX_COUNT)
        contrasts = self.wholes("contrasts", 1, MAX_CODES) if self.meta.get("contrasts") is not None else None
        if contrasts is not None:
            # A table of groups need not have the axes of the marginal.
            fits = contrasts == shape if labels is None else bool(contrasts) and math.prod(contrasts) == counts.size
            self.require(fits, f"has contrasts of shape {contrasts[:9]} for {counts.size:,} numbers")
        return NoisyMarginal(attrs, counts, self.stddev(), labels, self.whole("ledger_entry", -1, 2**53), contrasts)

    def stddev(self) -> float:
        return self.number("stddev", 1e-6, MAX_COUNT)


def _shown(value: Any) -> str:
    return repr(value)[:50]
