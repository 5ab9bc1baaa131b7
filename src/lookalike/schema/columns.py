"""The kinds of columns.

Categories, ordered categories, generated identifiers and columns of a kind still unknown are here; integers, decimals
and times, which have bins, are in `binned.py`; what all share is in `column.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.column import (
    DEFAULT_BINS,
    MAX_CODES,
    MAX_FORMAT,
    NULL,
    Column,
    Outside,
    Provenance,
    as_text,
    measured,
)
from lookalike.schema.hierarchy import category_groups, category_levels

OTHERS = ("other", "other values", "(other)", "*")
"""Labels of the catch-all code where the schema gives none: the first that is no value or marker itself."""

__all__ = [
    "DEFAULT_BINS", "MAX_CODES", "NULL", "OTHERS", "Binned", "Categorical", "Column", "Continuous", "Datetime",
    "Identifier", "Integer", "Ordinal", "Outside", "Provenance", "Undeclared", "as_text", "measured",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """A column with a finite list of values, kept as the texts that the table holds.

    >>> ward = Categorical("ward", values=("Surgery", "Medicine"), missing=("?",))
    >>> ward.size, ward.other_code, ward.missing_code("?")
    (4, 2, 3)
    """

    values: tuple[str, ...] | None = field(default=None, kw_only=False)
    outside: Outside = "other"
    other_label: str = OTHERS[0]

    facts: ClassVar[tuple[str, ...]] = ("values", "missing")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._require(self.outside != "clamp", "cannot clamp categories", "Set outside to other or absorb.")
        object.__setattr__(self, "hierarchy", category_levels(self.name, self.hierarchy))
        if self.values is None:
            self._groups()
            return
        self._check_count(len(self.values))
        object.__setattr__(self, "values", tuple(as_text(value) for value in self.values))
        self._require(len(self.values) > 0, "lists no values", "List at least one, or leave the list out.")
        self._require(len(set(self.values)) == len(self.values), "lists a value twice", "Remove one of the two.")
        clash = set(self.values) & set(self.missing)
        self._require(not clash, "lists a missing marker among its values", "Keep it in one of the two lists.")
        self._choose_label()
        self._groups()
        if not self.open_facts:
            self._check_size()

    def _choose_label(self) -> None:
        """The catch-all must not look like a value."""
        taken = {*(self.values or ()), *self.missing}
        if self.has_other and self.other_label in taken:
            self._require(self.other_label in OTHERS, "lists the label of its catch-all as a value", "Set dp.other.")
            unused = [text for text in OTHERS if text not in taken] or ["*" * (1 + max(map(len, taken)))]
            object.__setattr__(self, "other_label", unused[0])

    def _lacks(self, fact: str) -> bool:
        return fact == "values" and self.values is None

    def _groups(self) -> list[np.ndarray]:
        declared = not self.hierarchy or "values" not in self.open_facts
        self._require(declared, "has a hierarchy of values that are not declared", "List its values.")
        return category_groups(self.name, self.values or (), self.hierarchy)

    @property
    def regular(self) -> int:
        return len(self.values or ())

    def _regular_labels(self) -> list[str]:
        return list(self.values or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Categorical):
    """A categorical column whose values are listed from low to high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier(Column):
    """Unique identifiers or free text: never modelled, never copied; every row gets a made-up value.

    The only code says that there is a value; further ones say which missing marker stands there instead.

    Attributes:
        pattern: how made-up texts look: `#` is a digit, `@` a letter, anything else itself. Numbers are made up within
            as many digits as there are `#`.
        person: whether the identifier says whose row it is. No more than `most_rows` rows of a person are then used.
        repeats: relative numbers of persons with 1, 2, ... `most_rows` rows; made-up persons get as many.
    """

    pattern: str = "id-########"
    person: bool = False
    most_rows: int = 1
    repeats: tuple[float, ...] = ()

    facts: ClassVar[tuple[str, ...]] = ("missing", "repeats")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._groups()
        self._require(
            len(self.pattern) <= MAX_FORMAT,
            f"has a pattern of {len(self.pattern):,} characters",
            f"Give {MAX_FORMAT:,} at most.",
        )
        wild = sum(self.pattern.count(mark) for mark in "#@")
        self._require(wild >= 4, f"has pattern {self.pattern!r}", "Give at least four of # (digit) and @ (letter).")
        self._require(self.outside == "absorb", f"has outside {self.outside!r}", "Identifiers take any value.")
        self._require(
            1 <= self.most_rows <= MAX_CODES,
            f"has most_rows {self.most_rows}",
            f"Give 1 or more, {MAX_CODES:,} at most.",
        )
        object.__setattr__(self, "repeats", tuple(float(weight) for weight in self.repeats))
        fits = not self.repeats or len(self.repeats) == self.most_rows
        self._require(
            fits and all(weight >= 0 for weight in self.repeats) and (not self.repeats or sum(self.repeats) > 0),
            f"has {len(self.repeats)} repeats for at most {self.most_rows} rows",
            "Give one weight, not negative, per number of rows.",
        )

    def _lacks(self, fact: str) -> bool:
        return fact == "repeats" and self.person and self.most_rows > 1 and not self.repeats

    @property
    def regular(self) -> int:
        return 1

    def _regular_labels(self) -> list[str]:
        return ["made up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared(Column):
    """A column of texts of which nothing is known but name and storage: private discovery finds out its kind."""

    facts: ClassVar[tuple[str, ...]] = ("type", "missing")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._groups()

    @property
    def field_type(self) -> str:
        return "any"

    def _lacks(self, fact: str) -> bool:
        return True

    @property
    def regular(self) -> int:
        return 0

    def _regular_labels(self) -> list[str]:
        return []
