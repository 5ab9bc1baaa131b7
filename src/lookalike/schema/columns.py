"""The kinds of columns, and the public facts that all of them share.

Categories, ordered categories, identifiers and columns of a kind still unknown are here; numbers and times, which have
bins, are in `binned.py`. Codes of every column lie in one order: values or bins first, then the catch-all `other` where
there is one, then one code per missing marker. A fact that is not known yet is "open": private discovery fills it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema.documents import as_text
from lookalike.schema.hierarchy import category_groups, category_levels

Provenance = Literal["public", "assumed", "measured", "open"]
PROVENANCES: tuple[Provenance, ...] = ("public", "assumed", "measured", "open")
Outside = Literal["error", "clamp", "other", "absorb"]
OUTSIDES: tuple[Outside, ...] = ("error", "clamp", "other", "absorb")

MAX_FORMAT = 1_000
"""Largest number of characters of a pattern of identifiers or a format of times: every row is written with it."""
MAX_CODES = 100_000
"""Largest number of codes of one column: beyond it a one-way marginal is mostly noise, and slow."""
DEFAULT_BINS = 32
NULL = ""
"""The missing marker that stands for an empty field of a CSV file and for null everywhere else."""
OTHERS = ("other", "other values", "(other)", "*")
"""Default labels of the catch-all code: the first that is neither a value nor a marker is used."""

AnyColumn = TypeVar("AnyColumn", bound="Column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The public facts that all kinds of columns share.

    Attributes:
        name: the column's name in the table.
        missing: markers of missing values, each with a separate code, so that `?` is written as `?` again. The empty
            marker stands for null. Without markers the column is never missing.
        outside: what happens to a value outside the schema. By default every value has a code, so that no value of
            one person can stop a run: numbers and times `clamp` to their bounds, and other values count as
            missing, or fall in the middle bin where nothing may be missing; categories have the catch-all code
            `other`; `absorb` takes the first category instead. `error` stops the run and charges its whole budget.
        storage: Arrow type of the column in the table, written as Arrow prints it; "" is the kind's natural type. A
            `string` column of numbers or times is text in the column's format, as in CSV files.
        provenance: where each fact comes from: known to all (`public`), taken as public in a drafted schema and not
            confirmed yet (`assumed`), paid for from the budget (`measured`), or to be discovered (`open`).
        hierarchy: public levels of groups of values or bins, from fine to coarse; see `hierarchy.py`.
        derived: whether a rule of the schema computes the column from others. It is then not modelled: every row has
            the same code, and values are filled in when rows are written.
    """

    name: str = field(kw_only=False)
    missing: tuple[str, ...] = ()
    outside: Outside = "absorb"
    storage: str = ""
    provenance: Mapping[str, Provenance] = field(default_factory=dict, hash=False)
    hierarchy: tuple[Any, ...] = ()
    derived: bool = False

    facts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))
        self._require_once(self.missing, "lists the missing marker")
        for fact, value in self.provenance.items():
            self._require(
                fact in self.facts and value in PROVENANCES,
                f"marks {fact!r} as {value!r}",
                f"Mark one of {', '.join(self.facts)} as {', '.join(PROVENANCES)}.",
            )
        # Marks that repeat the default are dropped, so that columns that say the same are equal.
        default = {fact: "open" if self._lacks(fact) else "public" for fact in self.facts}
        marked = {fact: value for fact, value in self.provenance.items() if value != default[fact]}
        object.__setattr__(self, "provenance", marked)
        object.__setattr__(self, "hierarchy", tuple(self.hierarchy))

    def _require(self, condition: bool, what: str, remedy: str) -> None:
        if not condition:
            raise SchemaError(f"Column {self.name!r} {what}. {remedy}")

    def _require_once(self, texts: tuple[str, ...], what: str) -> None:
        for text, count in Counter(texts).items() if len(set(texts)) < len(texts) else ():
            self._require(count == 1, f"{what} {text!r} twice", "Remove one of the two.")

    @property
    def field_type(self) -> str:
        """The column's type in the words of a Frictionless Table Schema."""
        return "string"

    @property
    def has_other(self) -> bool:
        return self.outside == "other"

    @property
    def open_facts(self) -> tuple[str, ...]:
        """Names of the facts that private discovery has still to fill."""
        return tuple(fact for fact in self.facts if self.provenance.get(fact) == "open" or self._lacks(fact))

    def _lacks(self, fact: str) -> bool:
        """Whether the column has no codes as long as this fact is not given."""
        return False

    @property
    def regular(self) -> int:
        """Number of codes of values or bins."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of codes in all; 1 for a column that a rule computes."""
        if self.open_facts:
            raise SchemaError(
                f"Column {self.name!r} leaves {', '.join(self.open_facts)} open. Declare them in the schema, or let "
                "a run with a private budget discover them."
            )
        return 1 if self.derived else self.written_codes

    @property
    def written_codes(self) -> int:
        """Number of codes when values are written: of a column that a rule computes, all that it may give."""
        return self.regular + self.has_other + len(self.missing)

    @property
    def levels(self) -> tuple[np.ndarray, ...]:
        """Maps from code to group for the levels that merge something, from fine to coarse.

        The catch-all and the missing markers keep separate codes, after the groups.
        """
        if self.derived:
            return ()
        found, extra = [np.arange(self.size)], self.size - self.regular
        for groups in self._groups():
            count = int(groups.max()) + 1
            if count + extra <= found[-1].max():
                found.append(np.concatenate([groups, count + np.arange(extra)]))
        return tuple(found[1:])

    def _groups(self) -> list[np.ndarray]:
        """The group of each value or bin at every level of the hierarchy; a SchemaError for an invalid level."""
        return self._make_groups() if self.hierarchy else []

    def _make_groups(self) -> list[np.ndarray]:
        self._require(False, "has no values or bins that a hierarchy could group", "Remove dp.hierarchy.")
        return []

    @property
    def other_code(self) -> int | None:
        return self.regular if self.has_other else None

    def missing_code(self, marker: str = NULL) -> int | None:
        """Code of a marker; null falls back to the first marker. None where the column has no missing values."""
        if not self.missing:
            return None
        position = self.missing.index(marker) if marker in self.missing else 0
        return self.regular + self.has_other + position

    def fact(self, name: str) -> Provenance:
        """Where one fact comes from; facts without a mark are public."""
        return "open" if name in self.open_facts else self.provenance.get(name, "public")

    def labels(self) -> list[str]:
        """A short public text for every code, for reports and plots."""
        if self.derived:
            return ["computed from other columns"]
        markers = [f"missing ({marker})" if marker else "missing" for marker in self.missing]
        return [*self._regular_labels(), *(["other"] if self.has_other else []), *markers]

    def _regular_labels(self) -> list[str]:
        raise NotImplementedError

    def _check_count(self, codes: int) -> None:
        """Refuse more codes than a column may have."""
        self._require(
            codes <= MAX_CODES,
            f"has {codes:,} codes; the limit is {MAX_CODES:,}",
            "Use fewer bins, list the common values and set outside: other, or leave the column out.",
        )


def measured(column: AnyColumn, *facts: str, **changes: Any) -> AnyColumn:
    """The column with facts filled in and marked as measured: what private discovery returns."""
    return replace(column, provenance={**column.provenance, **dict.fromkeys(facts, "measured")}, **changes)


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
        self._require(self.outside != "clamp", "cannot clamp categories", "Set dp.outside to other or absorb.")
        if self.hierarchy:
            object.__setattr__(self, "hierarchy", category_levels(self.name, self.hierarchy))
        if self.values is None:
            self._groups()
            return
        self._check_count(len(self.values))
        object.__setattr__(self, "values", tuple(as_text(value) for value in self.values))
        self._require(len(self.values) > 0, "lists no values", "List at least one, or leave the list out.")
        self._require_once(self.values, "lists the value")
        for marker in self.missing:
            both = f"lists the missing marker {marker!r} among its values"
            self._require(marker not in self.values, both, "Keep it in one of the two lists.")
        self._choose_label()
        self._groups()
        if not self.open_facts:
            self._check_count(self.size)

    def _choose_label(self) -> None:
        """Choose a label of the catch-all that is neither a value nor a marker."""
        taken = {*(self.values or ()), *self.missing}
        if self.has_other and self.other_label in taken:
            self._require(
                self.other_label in OTHERS,
                f"lists the label of its catch-all, {self.other_label!r}, as a value",
                "Set dp.other to another text.",
            )
            unused = [text for text in OTHERS if text not in taken] or ["*" * (1 + max(map(len, taken)))]
            object.__setattr__(self, "other_label", unused[0])

    def _lacks(self, fact: str) -> bool:
        return fact == "values" and self.values is None

    def _make_groups(self) -> list[np.ndarray]:
        declared = "values" not in self.open_facts
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
    """Identifiers or free text: never modelled, never copied; every row gets a made-up value.

    Code 0 means that the row has a value; further codes are those of the missing markers.

    Attributes:
        pattern: the form of made-up texts: `#` is a digit, `@` a letter, anything else itself. Made-up numbers have as
            many digits as the pattern has `#`, and a pattern of `#` alone makes texts of such numbers.
        person: whether the identifier names the person that the row belongs to.
        max_rows: at most this many rows of each person are used.
        repeats: relative numbers of persons with 1, 2, ... `max_rows` rows, which made-up persons follow.
    """

    pattern: str = "id-########"
    person: bool = False
    max_rows: int = 1
    repeats: tuple[float, ...] = ()

    facts: ClassVar[tuple[str, ...]] = ("missing", "repeats")

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        self._groups()
        self._require(
            len(self.pattern) <= MAX_FORMAT,
            f"has a pattern of {len(self.pattern):,} characters",
            f"Give at most {MAX_FORMAT:,}.",
        )
        random_places = sum(self.pattern.count(mark) for mark in "#@")
        few = f"has pattern {self.pattern!r} with {random_places} random places"
        self._require(random_places >= 4, few, "Give at least four of # (digit) and @ (letter).")
        self._require(self.outside == "absorb", f"has outside {self.outside!r}", "Leave it out: any value fits.")
        self._require(
            1 <= self.max_rows <= MAX_CODES, f"has max_rows {self.max_rows}", f"Give 1 or more, at most {MAX_CODES:,}."
        )
        object.__setattr__(self, "repeats", tuple(float(weight) for weight in self.repeats))
        fits = not self.repeats or len(self.repeats) == self.max_rows
        self._require(
            fits and all(weight >= 0 for weight in self.repeats) and (not self.repeats or sum(self.repeats) > 0),
            f"has {len(self.repeats)} repeats for at most {self.max_rows} rows",
            "Give one weight, not negative, per number of rows.",
        )

    def _lacks(self, fact: str) -> bool:
        return fact == "repeats" and self.person and self.max_rows > 1 and not self.repeats

    @property
    def regular(self) -> int:
        return 1

    def _regular_labels(self) -> list[str]:
        return ["made up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared(Column):
    """A column of texts whose kind is unknown: private discovery determines it."""

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
