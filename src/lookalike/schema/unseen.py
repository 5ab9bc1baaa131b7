"""What a run could not see of a table, by comparing the schema before and after discovery. Both are released."""

from __future__ import annotations

from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.schema import Schema

DECLARED = "made up, since their names or a declaration say identifiers"
RARE_TEXTS = "made up, since too few values are frequent"
RARE_VALUES = "values too rare to be released count as 'other'"
SINGLE = "found in one value or bin only"


def unseen(before: Schema, after: Schema) -> dict[str, tuple[str, ...]]:
    """Return the columns of which something could not be seen, by reason; only reasons that apply."""
    found: dict[str, list[str]] = {DECLARED: [], RARE_TEXTS: [], RARE_VALUES: [], SINGLE: []}
    for column in after.columns:
        if isinstance(column, Identifier):
            if not column.person:
                declared = isinstance(before[column.name], Identifier)
                found[DECLARED if declared else RARE_TEXTS].append(column.name)
        elif column.fact(column.facts[0]) == "measured" and column.regular <= 1:
            found[SINGLE].append(column.name)
        elif isinstance(column, Categorical) and column.has_other and column.fact("values") == "measured":
            found[RARE_VALUES].append(column.name)
    return {reason: tuple(names) for reason, names in found.items() if names}


def unseen_text(found: dict[str, tuple[str, ...]]) -> str:
    """Return the columns and reasons in one line, with the remedy."""
    if not found:
        return "nothing; every value of the schema could be drawn."
    parts = "; ".join(f"{reason}: {', '.join(names)}" for reason, names in found.items())
    return f"{parts}. If you know their values, declare them in a schema: 'lookalike schema' drafts a file."
