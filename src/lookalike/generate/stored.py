"""The parts of a stored model, each checked when it is asked for: a file may say anything.

Every fault is a ModelFileError that names the part. Limits are far beyond what any run writes, and near enough that a
model within them can be used: no number overflows, no code lies outside its column, no setting makes a sample endless.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from lookalike.errors import ModelFileError
from lookalike.schema.columns import MAX_CODES
from lookalike.schema.domain import Clique, Domain
from lookalike.schema.schema import MAX_CODES_IN_ALL, MAX_COLUMNS
from lookalike.tables.measurement import NoisyMarginal

LARGEST_TOTAL = 1e10
"""Most rows that a model may stand for."""
LARGEST_COUNT = 1e12
"""Largest count, noisy or not, and largest noise."""
_MAX_TEXT = 10_000
_NEAR = 1e-3

T = TypeVar("T")


class Stored:
    """A JSON object of a model file with the file's arrays.

    Args:
        meta: the object, refused if it is none.
        arrays: all arrays, by name.
        what: what the object describes, for messages.
    """

    def __init__(self, meta: Any, arrays: Mapping[str, np.ndarray] | None = None, what: str = "the model") -> None:
        self.what = what
        if not isinstance(meta, Mapping):
            self.fail(f"is a {type(meta).__name__}, not a JSON object")
        self.meta: Mapping[str, Any] = meta
        self.arrays = arrays or {}

    def fail(self, problem: str) -> None:
        raise ModelFileError(f"{self.what} {problem}")

    def require(self, condition: bool, problem: str) -> None:
        if not condition:
            self.fail(problem)

    # Single values.

    def value(self, key: str, kind: type[T], default: T | None = None) -> T:
        found = self.meta.get(key, default)
        if isinstance(found, tuple):  # parts that never went through a file have them
            found = list(found)
        # True is an int to Python, but not a number to anybody else.
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            self.fail(f"has a {type(found).__name__} as {key!r}, where a {kind.__name__} belongs")
        return found  # type: ignore[return-value]

    def part(self, key: str, what: str = "") -> Stored:
        return Stored(self.value(key, dict), self.arrays, what or f"{key} of {self.what}")

    def parts(self, key: str) -> list[Stored]:
        """The objects of a list."""
        listed = self.value(key, list, [])
        return [Stored(entry, self.arrays, f"{key} {i + 1} of {self.what}") for i, entry in enumerate(listed)]

    def text(self, key: str, default: str | None = None) -> str:
        text = self.value(key, str, default)
        self.require(len(text) <= _MAX_TEXT, f"has a text of {len(text):,} characters as {key!r}")
        return text

    def choice(self, key: str, known: Sequence[str]) -> Any:
        text = self.text(key)
        self.require(text in known, f"has {text[:50]!r} as {key!r}; known are {', '.join(known)}")
        return text

    def number(self, key: str, least: float, most: float, default: float | None = None) -> float:
        found = self.meta.get(key, default)
        good = isinstance(found, int | float) and not isinstance(found, bool) and least <= found <= most
        self.require(good, f"has {_shown(found)} as {key!r}, where a number from {least:g} to {most:g} belongs")
        return float(found)  # type: ignore[arg-type]

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        found = self.meta.get(key, default)
        good = isinstance(found, int) and not isinstance(found, bool) and least <= found <= most
        self.require(good, f"has {_shown(found)} as {key!r}, where a whole number from {least} to {most} belongs")
        return int(found)  # type: ignore[arg-type]

    def numbers(self, key: str, least: float, most: float) -> tuple[float, ...]:
        listed = self.value(key, list)
        entries = Stored(dict(enumerate(listed)), what=f"{key} of {self.what}")
        return tuple(entries.number(i, least, most) for i in range(len(listed)))  # type: ignore[arg-type]

    def wholes(self, key: str, least: int, most: int) -> tuple[int, ...]:
        listed = self.value(key, list)
        entries = Stored(dict(enumerate(listed)), what=f"{key} of {self.what}")
        return tuple(entries.whole(i, least, most) for i in range(len(listed)))  # type: ignore[arg-type]

    def texts(self, key: str) -> tuple[str, ...]:
        listed = self.value(key, list)
        self.require(all(isinstance(text, str) for text in listed), f"has something else than texts in {key!r}")
        return tuple(listed)

    # What all models have.

    def domain(self) -> Domain:
        """The domain, given as {name: size} or as lists of names and sizes."""
        if "domain" in self.meta:
            sizes = self.part("domain")
            names = tuple(sizes.meta)
            counts = tuple(sizes.whole(name, 1, MAX_CODES) for name in names)
        else:
            names, counts = self.texts("names"), self.wholes("sizes", 1, MAX_CODES)
        self.require(0 < len(names) <= MAX_COLUMNS, f"has {len(names):,} columns")
        self.require(sum(counts) <= MAX_CODES_IN_ALL, f"has columns of {sum(counts):,} codes in all")
        return Domain(names, counts)

    def total(self) -> float:
        return self.number("total", 1e-6, LARGEST_TOTAL)

    def cliques(self, key: str, domain: Domain) -> tuple[Clique, ...]:
        """A list of attribute sets, each in domain order."""
        listed = self.value(key, list)
        entries = Stored(dict(enumerate(listed)), what=f"{key} of {self.what}")
        return tuple(entries.clique(i, domain) for i in range(len(listed)))  # type: ignore[arg-type]

    def clique(self, key: str, domain: Domain) -> Clique:
        names = self.texts(key)
        self.require(all(name in domain for name in names), f"names a column in {key!r} that the model does not have")
        self.require(domain.canonical(names) == names, f"lists the columns of {key!r} out of order or twice")
        return names

    # Arrays.

    def table(self, name: str, shape: tuple[int, ...], least: float, most: float, *, never: bool = False) -> np.ndarray:
        """An array of floats of that shape; with `never`, -inf may mark what is impossible."""
        array = self._array(name, "f")
        self.require(array.shape == shape, f"has an array {name!r} of shape {array.shape}, where {shape} belongs")
        inside = (array >= least) & (array <= most)
        if never:
            inside |= np.isneginf(array)
        self.require(bool(inside.all()), f"has an array {name!r} with entries outside {least:g} to {most:g}")
        return array

    def laws(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Probabilities that add up to 1 along the last axis."""
        array = self.table(name, shape, 0.0, 1.0 + _NEAR)
        sums = array.sum(axis=-1, dtype=np.float64)
        self.require(bool((np.abs(sums - 1) <= _NEAR).all()), f"has an array {name!r} that does not add up to 1")
        return array

    def weights(self, name: str, axes: int, most: float) -> np.ndarray:
        """An array of floats of any shape, with so many axes, none of them empty."""
        array = self._array(name, "f")
        self.require(array.ndim == axes and array.size > 0, f"has an array {name!r} of shape {array.shape}")
        return self.table(name, array.shape, -most, most)

    def codes(self, name: str, sizes: Sequence[int]) -> np.ndarray:
        """Rows of codes, each within the size of its column: int32, one contiguous column per column."""
        array = self._array(name, "iu")
        self.require(
            array.ndim == 2 and array.shape[1] == len(sizes) and len(array) > 0,
            f"has an array {name!r} of shape {array.shape} for {len(sizes)} columns",
        )
        for column, size in zip(array.T, sizes, strict=True):
            self.require(column.min() >= 0 and column.max() < size, f"has an array {name!r} with a code beyond {size}")
        return np.asfortranarray(array.astype(np.int32))

    def labels(self, name: str, shape: tuple[int, ...], count: int) -> np.ndarray:
        """Numbers of groups 0..count-1, every one of which occurs."""
        array = self._array(name, "iu")
        self.require(array.shape == shape, f"has an array {name!r} of shape {array.shape}, where {shape} belongs")
        return self.grouped(array, name, count)

    def grouped(self, array: np.ndarray, name: str, count: int) -> np.ndarray:
        inside = array.size > 0 and array.min() >= 0 and array.max() < count
        self.require(inside, f"has a group outside 0 to {count - 1} in {name!r}")
        occurs = np.bincount(array.ravel().astype(np.int64), minlength=count) > 0
        self.require(bool(occurs.all()), f"has a group in {name!r} without members")
        return array

    def _array(self, name: str, kinds: str) -> np.ndarray:
        array = self.arrays.get(name)
        if array is None or array.dtype.kind not in kinds:
            self.fail(f"lacks the array {name!r}, or it is of another type")
        return array  # type: ignore[return-value]

    # Noisy numbers.

    def measurement(self, domain: Domain, values: str, groups: str, entry: str) -> NoisyMarginal:
        """A noisy marginal whose numbers lie in the array `values`, and its groups, if any, in the array `groups`."""
        attrs = self.clique("attrs", domain)
        shape, labels = domain.shape(attrs), None
        if groups in self.arrays:
            length = self.arrays[values].size if values in self.arrays else 0
            labels = self.labels(groups, shape, length)
            shape = (length,)
        counts = self.table(values, shape, -LARGEST_COUNT, LARGEST_COUNT)
        contrasts = self.wholes("contrasts", 1, MAX_CODES) if self.meta.get("contrasts") is not None else None
        if contrasts is not None:
            # Groups of cells are a table of their own, which need not have the axes of the marginal.
            fits = contrasts == shape if labels is None else bool(contrasts) and math.prod(contrasts) == counts.size
            self.require(fits, f"has the contrasts {contrasts[:9]} of {counts.size:,} numbers")
        number = self.whole(entry, -1, 2**53)
        return NoisyMarginal(attrs, counts, self.stddev(), labels, number, contrasts)

    def stddev(self) -> float:
        return self.number("stddev", 1e-6, LARGEST_COUNT)


def _shown(value: Any) -> str:
    return repr(value)[:50]
