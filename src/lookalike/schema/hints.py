"""Facts about single columns in a few words, for a command line without a schema file: `age=0:120`, `sex=F,M`.

What a hint states is public from then on, exactly as if a schema file declared it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.bins import Binned
from lookalike.schema.columns import DEFAULT_BINS, Categorical, Column, Identifier, Ordinal, Undeclared
from lookalike.schema.schema import Schema

TYPES = ("integer", "number", "category", "boolean", "date", "datetime", "id", "any")
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints as the user types them: NAME=FACT each, but for identifiers the name alone.

    >>> from lookalike.schema.columns import Undeclared
    >>> schema = Schema((Undeclared("age"), Undeclared("sex"), Undeclared("patient")))
    >>> hints = Hints(ranges=("age=0:120",), values=("sex=F,M",), identifiers=("patient",))
    >>> [type(column).__name__ for column in hints.applied(schema).columns]
    ['Continuous', 'Categorical', 'Identifier']
    """

    types: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()

    def applied(self, schema: Schema) -> Schema:
        """The schema with these facts; a hint for a column that it does not have is refused."""
        for name in self.identifiers:
            schema = schema.with_columns([typed(schema[name], "id")])
        kinds: list[tuple[str, tuple[str, ...], Callable[[Column, str], Column]]] = [
            ("--type", self.types, _typed),
            ("--range", self.ranges, _ranged),
            ("--values", self.values, _valued),
        ]
        for option, hints, change in kinds:
            for hint in hints:
                column, fact = _split(hint, option, schema)
                schema = schema.with_columns([change(column, fact)])
        return schema


def _split(hint: str, option: str, schema: Schema) -> tuple[Column, str]:
    """The column and the fact of a hint; names of columns may contain an equals sign."""
    places = [i for i, mark in enumerate(hint) if mark == "="]
    if not places:
        raise SchemaError(f"{option} {hint!r} has no equals sign; write {option} COLUMN=...")
    known = [i for i in places if hint[:i] in schema.names]
    if not known:
        listed = ", ".join(schema.names[:20])
        raise SchemaError(f"{option} names column {hint[: places[0]]!r}; the columns are {listed}.")
    return schema[hint[: known[-1]]], hint[known[-1] + 1 :]


def _marks(*facts: str) -> dict[str, Any]:
    return {"outside": "absorb", "provenance": dict.fromkeys((*facts, "missing"), "open")}


def _typed(column: Column, fact: str) -> Column:
    kind, _, form = fact.partition(":")
    if kind not in TYPES or (form and not kind.startswith("date")):
        raise SchemaError(f"--type gives {column.name!r} the type {fact!r}; it must be one of {', '.join(TYPES)}.")
    return typed(column, kind, form)


def typed(column: Column, kind: str, form: str = "") -> Column:
    """The column as one of `TYPES`, with all other facts open; `form` is how dates and times are written."""
    name = column.name
    made: dict[str, Callable[[], Column]] = {
        "integer": lambda: Integer(name, **_marks("bins")),
        "number": lambda: Continuous(name, **_marks("bins", "decimals")),
        "category": lambda: Categorical(name, **_marks()),
        "boolean": lambda: Categorical(name, values=("false", "true"), **_marks()),
        "date": lambda: Datetime(name, format=form or "%Y-%m-%d", **_marks("bins")),
        "datetime": lambda: Datetime(name, format=form or "%Y-%m-%d %H:%M:%S", **_marks("bins")),
        "id": lambda: Identifier(name, provenance={"missing": "open"}),
        "any": lambda: Undeclared(name),
    }
    return replace(made[kind](), storage=column.storage)


def _ranged(column: Column, fact: str) -> Column:
    low, mark, high = fact.partition("..") if ".." in fact else fact.partition(":")
    if not (mark and low and high) or (mark == ":" and ":" in high):
        raise SchemaError(
            f"--range gives {column.name!r} {fact!r}; write LOW:HIGH such as 0:120, or LOW..HIGH for times."
        )
    if not isinstance(column, Binned):
        time = "date" if _ISO_DAY.fullmatch(low) else "datetime"
        # Whole bounds do not say that the numbers between them are whole.
        column = typed(column, time if _ISO_DAY.match(low) else "number")
    return ranged(column, low, high)


def ranged(column: Column, low: str, high: str) -> Column:
    """The column of numbers or times with these bounds; what lies beyond counts as the nearest of them."""
    facts: dict[str, Any] = {"minimum": low, "maximum": high, "outside": "clamp"}
    if isinstance(column, Binned) and column.fact("bins") == "measured":  # bins of other bounds: to be found anew
        marks = {**column.provenance, "bounds": "public", "bins": "open"}
        facts |= {"bins": DEFAULT_BINS, "shape": (), "rounding": (), "hierarchy": (), "provenance": marks}
    return replace(column, **facts)


def _valued(column: Column, fact: str) -> Column:
    values = listed(fact)
    if not values or "" in values:
        raise SchemaError(f"--values gives {column.name!r} {fact!r}; write values between commas, such as F,M.")
    return valued(column, values)


def listed(text: str) -> tuple[str, ...]:
    """The values of a text in which commas separate them; quotation marks hold a value that contains one.

    >>> listed('F, M, "Coast, north"')
    ('F', 'M', 'Coast, north')
    """
    return tuple(value.strip() for value in next(csv.reader([text], skipinitialspace=True), []))


def valued(column: Column, values: tuple[str, ...], *, in_order: bool = False) -> Column:
    """A category with these values, from low to high if they are in order; all others are counted together."""
    marks: dict[str, Any] = {"provenance": {"missing": "open"}, "storage": column.storage}
    return (Ordinal if in_order else Categorical)(column.name, values=values, **marks)
