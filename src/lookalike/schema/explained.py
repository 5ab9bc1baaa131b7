"""A schema file with a comment on every line that a person may want to change."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from lookalike.errors import SchemaError
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.documents import write_whole
from lookalike.schema.fields import field_of
from lookalike.schema.schema import Schema, dumped

_KEY = re.compile(r"\s*(?:- )?(\w+):")
_COMMENTS = {
    "missingValues": "texts that stand for a missing value; '' is an empty field",
    "categoriesOrdered": "values are listed from low to high",
    "decimalChar": "what stands before the decimals",
    "format": "how the table writes dates and times, in codes of strftime",
    "bins": "a number of bins of equal width, or their lower edges; values in a bin share one code",
    "shape": "how values are spread within bins, by weights of finer pieces",
    "rounding": "how often values are multiples of these steps",
    "hierarchy": "groups of values, from fine to coarse",
    "pattern": "made-up values look like this: # is a digit, @ a letter",
    "resolution": "distance of neighbouring times",
    "decimals": "digits after the point",
    "storage": "type of the column in the table that was read",
    "other": "label of all values that are not listed",
}
_OUTSIDE = {
    "absorb": "values that are not listed or outside the bounds count as one that is",
    "clamp": "numbers outside the bounds count as the nearest bound",
    "other": "values that are not listed are counted together",
    "error": "a value outside STOPS the run, and shows that there is one",
}
_SOURCES = {
    "public": "declared, costs nothing",
    "assumed": "taken as public, please check",
    "measured": "found by a run inside its budget",
    "open": "still to be found, from the budget of a run",
}
_GUESSES = (
    (r"age", "an integer from 0 to 120"),
    (r"sex|gender", "a string with an enum of its values"),
    (r"month", "an integer from 1 to 12"),
    (r"year|yr|hour|minute|count|number|num|visits|children", "an integer"),
    (r"date|dob|birthday", "a date"),
    (r"time|timestamp|datetime|at", "a datetime"),
    (r"id|uuid|ssn|email|phone|address|name|rownames|notes|comment|comments|description", "an identifier: --id COLUMN"),
    (r"price|cost|amount|income|salary|wage|weight|height|score|rate|percent|pct|temp|temperature|lat|lon", "a number"),
    (r"is|has|flag", "a boolean"),
)
"""What columns usually hold whose names end (for booleans also begin) with such a word. Suggested, never assumed."""
_HEAD = """\
# Schema of a table: what everybody may know about its columns. A fact that you declare costs no privacy budget, so it
# must not come from looking at the rows. A run discovers what is open within its budget: docs/schema_file.md.
"""
_COUNTS = """\
# Under counts: noisy counts that a run paid for. A run with this file uses them again and pays nothing for them. They
# may be published unchanged. Counts of a column that you change above are dropped.
"""


def explained(schema: Schema) -> str:
    """The text of the schema file, with comments; it says the same as `Schema.to_yaml`."""
    content = schema.to_dict()
    parts = [_HEAD, "fields:\n"]
    parts += [_field(column) for column in schema.columns]
    parts += [_COUNTS] if schema.counts else []
    parts.append(dumped({"dp": content["dp"]}))
    return "".join(parts)


def save_explained(schema: Schema, path: Path) -> None:
    """Write the schema file with comments, completely or not at all."""
    try:
        write_whole(path, lambda stream: stream.write(explained(schema).encode()))
    except OSError as error:
        raise SchemaError(f"Cannot write the schema to {path}: {error.strerror}. Choose another place.") from None


def _field(column: Column) -> str:
    lines = dumped([field_of(column)]).splitlines()
    return "".join(f"{_commented(line, column)}\n" for line in [f"# {_summary(column)}", *lines])


def _summary(column: Column) -> str:
    """One line about the column: what is known of it, and where that comes from."""
    sources: dict[str, list[str]] = {}
    for fact in column.facts:
        sources.setdefault(column.fact(fact), []).append(fact)
    known = "; ".join(f"{', '.join(facts)}: {_SOURCES[mark]}" for mark, facts in sources.items())
    made = "made up anew in every row, never read; " if isinstance(column, Identifier) else ""
    return f"{yaml.safe_dump(column.name, width=10**6, allow_unicode=True).splitlines()[0]} - {made}{known}."


def _commented(line: str, column: Column) -> str:
    found = _KEY.match(line)
    comment = _comment(found[1], column) if found else None
    return f"{line}  # {comment}" if comment and not line.startswith("#") else line


def _comment(key: str, column: Column) -> str | None:
    if key == "type":
        if column.field_type == "any":
            guess = usual_kind(column.name)
            perhaps = f" (by its name perhaps {guess})" if guess else ""
            return f"found by a run; or declare string, integer, number, boolean, date or datetime{perhaps}"
        return "made-up identifiers or free text" if isinstance(column, Identifier) else None
    if key == "constraints" and "missing" in column.open_facts:
        return "required: whether values are missing is still open"
    if key == "outside":
        return _OUTSIDE[column.outside]
    return _COMMENTS.get(key)


def usual_kind(name: str) -> str | None:
    """Return what columns of such a name usually hold, None where it says nothing. Names are public; no row is read.

    >>> usual_kind("patientAge"), usual_kind("is_member"), usual_kind("ward")
    ('an integer from 0 to 120', 'a boolean', None)
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    for pattern, kind in _GUESSES:
        places = (words[:1] + words[-1:]) if kind == "a boolean" else words[-1:]
        if any(re.fullmatch(pattern, word.lower()) for word in places):
            return kind
    return None
