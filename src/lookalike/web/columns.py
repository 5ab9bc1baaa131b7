"""Turns one row of the schema form into a column, and a column into a row.

A row that agrees with the column leaves it unchanged, with all facts that the form does not show, such as bins and
hierarchies of an imported schema.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from lookalike.errors import SchemaError
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.columns import NULL, Categorical, Column, Identifier, Ordinal
from lookalike.schema.hints import listed, ranged, typed, valued
from lookalike.schema.storage import is_identifier_name, storage_type

KINDS = ("any", "integer", "number", "category", "boolean", "date", "datetime", "id", "person", "drop")
RANGED = ("integer", "number", "date", "datetime", "time")
MISSING = ("open", "never", "markers")
EMPTY = "empty"
"""How the form writes the marker that stands for an empty field."""
_FLAG = ("false", "true")


@dataclass(frozen=True, slots=True)
class Row:
    """What the form says about one column: texts as they are typed.

    Attributes:
        kind: one of `KINDS`, or `time` where the table stores times of day.
        low, high: the range of numbers and times.
        listed: the values of a category, between commas.
        in_order: "on" if they are listed from low to high.
        form: how texts write dates, in codes of strftime.
        missing: one of `MISSING`.
        markers: texts that stand for a missing value, between commas.
    """

    kind: str = "any"
    low: str = ""
    high: str = ""
    listed: str = ""
    in_order: str = ""
    form: str = ""
    missing: str = "open"
    markers: str = ""

    @classmethod
    def of(cls, column: Column) -> Row:
        """The row that shows the facts of a column, as far as the form can."""
        absent = "open" if "missing" in column.open_facts else "markers" if column.missing else "never"
        markers = (
            _joined(EMPTY if marker == NULL else marker for marker in column.missing) if absent == "markers" else ""
        )
        return cls(kind=kind_of(column), missing=absent, markers=markers, **_facts(column))

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def kind_of(column: Column) -> str:
    """The kind of a column, as the form names it."""
    if isinstance(column, Identifier):
        return "person" if column.person else "id"
    if isinstance(column, Integer):
        return "integer"
    if isinstance(column, Continuous):
        return "number"
    if isinstance(column, Datetime):
        return column.field_type
    if isinstance(column, Categorical):
        return "boolean" if column.values == _FLAG and not isinstance(column, Ordinal) else "category"
    return "any"


def _facts(column: Column) -> dict[str, str]:
    if isinstance(column, Binned):
        form = column.format if isinstance(column, Datetime) else ""
        low, high = ("" if bound is None else str(bound) for bound in (column.minimum, column.maximum))
        return {"low": low, "high": high, "form": form}
    if isinstance(column, Categorical) and kind_of(column) == "category":
        return {"listed": _joined(column.values or ()), "in_order": "on" if isinstance(column, Ordinal) else ""}
    return {}


def column_of(row: Row, base: Column, storage: str) -> Column:
    """The column that a row of the form describes; a SchemaError says what is wrong with it.

    Args:
        row: what was typed.
        base: the column as the table or an imported schema gives it.
        storage: the type of the column in the table.
    """
    if row == Row.of(base):
        return base
    column = _with_markers(_with_facts(row, base), row)
    storage_type(replace(column, storage=storage))  # refuses a kind that the table's type cannot hold
    return column


def _with_facts(row: Row, base: Column) -> Column:
    before = Row.of(base)
    same = (row.kind, row.form) == (before.kind, before.form)
    if row.kind == "time" and not same:
        raise SchemaError(f"Column {base.name!r} does not store times of day. Choose another kind.")
    kind = "id" if row.kind == "person" else row.kind
    if isinstance(base, Identifier) and kind == "id":
        return replace(base, person=False, max_rows=1, repeats=())
    if row.kind in RANGED:
        kept = same and bool(row.low or row.high) == bool(before.low or before.high)
        column = base if kept else typed(base, kind, row.form)
        return _with_range(column, row) if row.low or row.high else column
    if row.kind == "category" and row.listed.strip():
        values = listed(row.listed)
        if "" in values:
            raise SchemaError(f"Column {base.name!r} lists an empty value. Write values between commas, such as F, M.")
        unchanged = same and (row.listed, row.in_order) == (before.listed, before.in_order)
        return base if unchanged else valued(base, values, in_order=row.in_order == "on")
    return base if same and row.kind != "category" else typed(base, kind, row.form)


def _with_range(column: Column, row: Row) -> Column:
    if not (row.low and row.high):
        end = "high" if row.low else "low"
        raise SchemaError(f"Column {column.name!r} has one end of its range; the {end} end is missing. Give both.")
    unchanged = isinstance(column, Binned) and (str(column.minimum), str(column.maximum)) == (row.low, row.high)
    return column if unchanged else ranged(column, row.low, row.high)


def _with_markers(column: Column, row: Row) -> Column:
    marks = {fact: mark for fact, mark in column.provenance.items() if fact != "missing"}
    if row.missing == "open":
        return replace(column, missing=(), provenance={**marks, "missing": "open"})
    if row.missing == "never":
        return replace(column, missing=(), provenance=marks)
    markers = tuple(NULL if marker == EMPTY else marker for marker in listed(row.markers))
    if not row.markers.strip() or "" in listed(row.markers):
        raise SchemaError(
            f"Column {column.name!r} has no marker of missing values. Write them between commas, such as {EMPTY}, NA."
        )
    return replace(column, missing=markers, provenance=marks)


def origins(column: Column, drafted: Column) -> list[tuple[str, str]]:
    """Where each fact of a column comes from: pairs of a fact and `declared`, `name`, `type`, `open` or `measured`."""
    found: list[tuple[str, str]] = []
    if kind_of(column) != kind_of(drafted):
        found.append(("kind", "declared"))
    elif kind_of(column) == "id" and is_identifier_name(column.name):
        found.append(("kind", "name"))
    elif kind_of(column) != "any":
        found.append(("kind", "type"))
    for fact in column.facts:
        if fact == "repeats" and kind_of(column) != "person":
            continue
        mark = column.fact(fact)
        found.append((fact, {"public": "declared", "assumed": "declared"}.get(mark, mark)))
    return found


def row_from(values: dict[str, str]) -> Row:
    """The row that a form or a stored draft gives; unknown choices are refused."""
    known: dict[str, Any] = {name: str(values.get(name, default)) for name, default in Row().to_json().items()}
    row = Row(**{name: text if name in ("listed", "markers") else text.strip() for name, text in known.items()})
    if row.kind not in (*KINDS, "time") or row.missing not in MISSING:
        raise SchemaError("The form names a kind of column that does not exist. Reload the page.")
    return row


def _joined(values: Any) -> str:
    """The values between commas, those that contain one between quotation marks."""
    return ", ".join(f'"{v}"' if "," in v or v != v.strip() else v for v in (v.replace('"', '""') for v in values))
