"""What a run could not see of a table: the column, what was seen, what was done, and what to declare.

All of it follows from released numbers and public facts. Reasons that make a column a guess are *doubts*, at which a
strict run stops (`Discovery.strict`); the others are remarks, which only say that noise hides rare values.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.schema import Schema

SMALL = "too few rows for so many columns"
NOTHING = "the kind of values (a guess, since no way of writing them stands out from the noise)"
GUESSED = "the range (a guess, since no values stand out from the noise)"
BOUNDS = "the bounds (few rows support those that were found)"
HIDDEN = "other values (found constant, although some rows seem to hold others)"
RARE_TEXTS = "the values (made up, since too few of them are frequent)"
RARE_VALUES = "values too rare to be released (they count as 'other')"
SINGLE = "more than one value or bin"
DECLARED = "the values of identifiers, by name or declaration (made up)"
DOUBTS = (SMALL, NOTHING, GUESSED, BOUNDS, HIDDEN, RARE_TEXTS)
REASONS = (*DOUBTS, RARE_VALUES, SINGLE, DECLARED)
"""In the order in which they are listed."""

_CONSTANT = "no other value is made"
_NAMED = 5
"""Maximum number of columns that a line names; of the others it gives the number."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that a run could not see.

    Attributes:
        reason: one of REASONS.
        column: None for the table as a whole.
        seen: what the noisy answers show.
        done: what the run made of that.
        declare: the option that declares it, if the fact is public; "" where there is nothing to declare.
    """

    reason: str
    column: str | None
    seen: str
    done: str
    declare: str = ""

    @property
    def is_doubt(self) -> bool:
        """Whether a strict run stops here."""
        return self.reason in DOUBTS


def unseen(before: Schema, after: Schema) -> tuple[Unseen, ...]:
    """Return what a comparison of the schema before and after discovery shows; both are released."""
    found = (_unseen(before[column.name], column) for column in after.columns if not column.derived)
    return tuple(entry for entry in found if entry is not None)


def _unseen(before: Column, after: Column) -> Unseen | None:
    name = after.name
    listed = option("values", name, "A,B")
    if isinstance(after, Identifier):
        if after.person:
            return None
        if isinstance(before, Identifier):
            return Unseen(DECLARED, name, "not read", "made up in every row", option("type", name, "any"))
        return Unseen(RARE_TEXTS, name, "texts, few of them frequent", "made up in every row", listed)
    measured = after.fact(after.facts[0]) == "measured"
    if measured and after.regular <= 1:
        if isinstance(after, Binned):
            made = f"made from {after.minimum} to {after.maximum}" if after.minimum != after.maximum else _CONSTANT
            return Unseen(SINGLE, name, "one bin", made, range_option(after))
        made = "rarer ones count as 'other'" if after.has_other else _CONSTANT
        return Unseen(SINGLE, name, "one value", made, listed)
    if isinstance(after, Categorical) and after.has_other and measured:
        return Unseen(RARE_VALUES, name, f"{after.regular} values", "others count as one", listed)
    return None


def option(name: str, column: str, fact: str) -> str:
    """Return an option of the command line that declares a fact about a column, as a shell takes it."""
    return f"--{name} {shlex.quote(f'{column}={fact}')}"


def range_option(column: Binned) -> str:
    """Return the option that declares the bounds of a column."""
    return option("range", column.name, "LOW..HIGH" if isinstance(column, Datetime) else "LOW:HIGH")


def merged(doubts: Iterable[Unseen], remarks: Iterable[Unseen]) -> tuple[Unseen, ...]:
    """Return both in the order in which they are reported, one entry for each column: the first of its reasons."""
    first: dict[str | None, Unseen] = {}
    for entry in sorted((*doubts, *remarks), key=lambda entry: REASONS.index(entry.reason)):
        first.setdefault(entry.column, entry)
    return tuple(first.values())


def by_reason(found: Iterable[Unseen]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each reason that applies; none for what concerns the whole table."""
    grouped: dict[str, tuple[str, ...]] = {}
    for entry in found:
        grouped[entry.reason] = (*grouped.get(entry.reason, ()), *(() if entry.column is None else (entry.column,)))
    return grouped


def unseen_lines(found: Iterable[Unseen]) -> tuple[str, ...]:
    """Return one line for each reason: its columns, the first few by name, what was done, and what to declare.

    >>> unseen_lines([Unseen(RARE_TEXTS, "town", "texts", "made up in every row", "--values town=A,B")])[0]
    'the values (made up, since too few of them are frequent): town. If you know better, declare it: --values town=A,B.'
    """
    groups: dict[str, list[Unseen]] = {}
    for entry in found:
        groups.setdefault(entry.reason, []).append(entry)
    return tuple(_line(reason, entries) for reason, entries in groups.items())


def _line(reason: str, entries: list[Unseen]) -> str:
    first = entries[0]
    if first.column is None:
        return f"{reason}: {first.seen}; {first.done}. {first.declare}"
    shown = ", ".join(_shown(entry) for entry in entries[:_NAMED])
    more = f" and {len(entries) - _NAMED:,} more" if len(entries) > _NAMED else ""
    return f"{reason}: {shown}{more}. If you know better, declare it: {first.declare}."


def _shown(entry: Unseen) -> str:
    with_detail = entry.reason in (NOTHING, GUESSED, BOUNDS, HIDDEN, SINGLE)
    return f"{entry.column} ({entry.done})" if with_detail else str(entry.column)


def unseen_text(found: Iterable[Unseen], schema: Schema) -> str:
    """Return all lines as one text; without any line, a sentence that says that nothing is in doubt."""
    if any("measured" in column.provenance.values() for column in schema.columns):
        nothing = "nothing is in doubt; what only few rows hold, such as rare values, cannot be seen."
    else:
        nothing = "nothing; every value of the schema could be drawn."
    return "\n  ".join(unseen_lines(found)) or nothing
