"""What all kinds of columns share: public facts about each, and how many codes they give.

Codes of every column lie in one order: values or bins first, then the catch-all `other` where there is one, then one
code per missing marker. A fact that is not known yet is `None` ("open"): private discovery fills it before a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from lookalike.errors import SchemaError

Provenance = Literal["public", "assumed", "measured", "open"]
PROVENANCES: tuple[Provenance, ...] = ("public", "assumed", "measured", "open")
Outside = Literal["error", "clamp", "other", "absorb"]
OUTSIDES: tuple[Outside, ...] = ("error", "clamp", "other", "absorb")

MAX_FORMAT = 1_000
"""Most characters of a pattern of identifiers or a format of times: every row is written with all of them."""
MAX_CODES = 100_000
"""Largest number of codes of one column: beyond it a one-way marginal is mostly noise and takes long to hold."""
DEFAULT_BINS = 32
NULL = ""
"""The missing marker that stands for an empty field of a CSV file and for null everywhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What all kinds share.

    Attributes:
        name: the column's name in the table.
        missing: markers of missing values, each with a code of its own, so that `?` comes back as `?`. The empty
            marker stands for null. No markers: the column never is missing.
        outside: what happens to a value outside the schema. By default every value has a code, so that no value of
            one person can stop a run: numbers and times `clamp` to their bounds, and what is no number or time counts
            as missing, or goes to the middle bin where nothing may be missing; categories have the catch-all code
            `other`; `absorb` takes the first category instead. `error` stops the run and charges its whole budget.
        storage: Arrow type of the column in the table, written as Arrow prints it; "" is the kind's natural type. A
            `string` column of numbers or times is text in the column's format, as in CSV files.
        provenance: where each fact comes from: known to all (`public`), taken for public by whoever drafted the schema
            and not confirmed yet (`assumed`), paid for from the budget (`measured`), or to be discovered (`open`).
        hierarchy: public levels of groups of values or bins, from fine to coarse; see `hierarchy.py`.
    """

    name: str = field(kw_only=False)
    missing: tuple[str, ...] = ()
    outside: Outside = "absorb"
    storage: str = ""
    provenance: Mapping[str, Provenance] = field(default_factory=dict, hash=False)
    hierarchy: tuple[Any, ...] = ()

    facts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))
        self._require(len(set(self.missing)) == len(self.missing), "lists a missing marker twice", "Remove one.")
        for fact, value in self.provenance.items():
            self._require(
                fact in self.facts and value in PROVENANCES,
                f"marks {fact!r} as {value!r}",
                f"Mark one of {', '.join(self.facts)} as {', '.join(PROVENANCES)}.",
            )
        # What is public, or open because it is not there, goes without saying: columns that say the same are equal.
        silent = {fact: "open" if self._lacks(fact) else "public" for fact in self.facts}
        marked = {fact: value for fact, value in self.provenance.items() if value != silent[fact]}
        object.__setattr__(self, "provenance", marked)
        object.__setattr__(self, "hierarchy", tuple(self.hierarchy))

    def _require(self, condition: bool, what: str, remedy: str) -> None:
        if not condition:
            raise SchemaError(f"Column {self.name!r} {what}. {remedy}")

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
        """Whether the column cannot have codes for want of this fact."""
        return False

    @property
    def regular(self) -> int:
        """Number of codes of values or bins."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of codes in all."""
        if self.open_facts:
            raise SchemaError(
                f"Column {self.name!r} leaves {', '.join(self.open_facts)} open. Declare them in the schema, or let "
                "a run with a private budget discover them."
            )
        return self.regular + self.has_other + len(self.missing)

    @property
    def levels(self) -> tuple[np.ndarray, ...]:
        """Maps from code to group for the levels that merge something, from fine to coarse.

        The catch-all and missing markers stay codes of their own, after the groups.
        """
        found, extra = [np.arange(self.size)], self.size - self.regular
        for groups in self._groups():
            count = int(groups.max()) + 1
            if count + extra <= found[-1].max():
                found.append(np.concatenate([groups, count + np.arange(extra)]))
        return tuple(found[1:])

    def _groups(self) -> list[np.ndarray]:
        """For every level of the hierarchy the group of each value or bin."""
        self._require(not self.hierarchy, "has no values or bins that a hierarchy could group", "Remove dp.hierarchy.")
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
        """Provenance of one fact; facts that nobody marked are public."""
        return "open" if name in self.open_facts else self.provenance.get(name, "public")

    def labels(self) -> list[str]:
        """A short public text for every code, for reports and plots."""
        markers = [f"missing ({marker})" if marker else "missing" for marker in self.missing]
        return [*self._regular_labels(), *(["other"] if self.has_other else []), *markers]

    def _regular_labels(self) -> list[str]:
        raise NotImplementedError

    def _check_size(self) -> None:
        self._check_count(self.size)

    def _check_count(self, codes: int) -> None:
        self._require(
            codes <= MAX_CODES,
            f"has {codes:,} codes; the limit is {MAX_CODES:,}",
            "Use fewer bins, list the common values and set outside: other, or leave the column out.",
        )


def as_text(value: object) -> str:
    """A category as the text that a table would hold: `true` for True, `5` for 5, the text itself for a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def measured(column: Column, facts: Iterable[str], **changes: Any) -> Column:
    """The column with facts filled in and marked as measured: what private discovery returns."""
    provenance = {**column.provenance, **dict.fromkeys(facts, "measured")}
    return replace(column, provenance=provenance, **changes)
