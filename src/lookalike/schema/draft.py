"""A first schema from public structure alone: names, order and storage types. Every other fact is left open.

Nothing is read from the rows, so a draft costs no budget. What the types do not say is discovered by a run inside its
own budget, or declared by whoever edits the draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lookalike.errors import SchemaError
from lookalike.schema.column import Provenance
from lookalike.schema.columns import Categorical, Column, Continuous, Datetime, Identifier, Integer, Undeclared
from lookalike.schema.schema import Schema
from lookalike.schema.storage import is_text

_VALUES = b"lookalike.values"
_IDENTIFIER_NAMES = re.compile(r"(.*[^a-z])?(id|uuid|guid|ssn|e-?mail|phone|fax|url|iban)", re.IGNORECASE)


def draft(types: pa.Schema) -> Schema:
    """The schema of a table with these names and types; `open_facts` lists what it leaves open."""
    return Schema(tuple(draft_column(field.name, field.type, _listed_values(field)) for field in types))


def with_values(field: pa.Field, values: Sequence[str]) -> pa.Field:
    """The field of a column whose type itself lists its values, as a polars Enum does: a public fact."""
    return field.with_metadata({_VALUES: json.dumps(list(values)).encode()})


def _listed_values(field: pa.Field) -> tuple[str, ...]:
    return tuple(json.loads((field.metadata or {}).get(_VALUES, b"[]")))


def with_person(schema: Schema, name: str, most_rows: int) -> Schema:
    """The schema with one column as the identifier of persons, of each of whom at most `most_rows` rows are used."""
    column = schema[name]
    if isinstance(column, Identifier):
        repeats = column.repeats if column.most_rows == most_rows else ()
        return schema.with_columns([replace(column, person=True, most_rows=most_rows, repeats=repeats)])
    marks: dict[str, Provenance] = {"missing": "open"} if "missing" in column.open_facts else {}
    person = Identifier(
        name, missing=column.missing, storage=column.storage, person=True, most_rows=most_rows, provenance=marks
    )
    return schema.with_columns([person])


def draft_column(name: str, kind: pa.DataType, values: tuple[str, ...] = ()) -> Column:
    """One column by its type alone. A name such as `customer_id` or `e-mail` makes an identifier: names are public."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if values:
        return Categorical(name, values=values, outside="absorb", provenance={"missing": "open"})
    if (is_text(value) or pa.types.is_integer(value)) and is_identifier_name(name):
        pattern = "id-########" if is_text(value) else "#" * 8
        return Identifier(name, pattern=pattern, provenance={"missing": "open"})
    if pa.types.is_dictionary(kind):
        return Categorical(name, outside="absorb", provenance={"missing": "open"})
    if is_text(kind):
        return Undeclared(name)
    if pa.types.is_boolean(kind):
        return Categorical(name, values=("false", "true"), outside="absorb", provenance={"missing": "open"})
    if pa.types.is_integer(kind):
        return Integer(name, outside="absorb", provenance={"bins": "open", "missing": "open"})
    if pa.types.is_decimal(kind):
        return Continuous(name, decimals=kind.scale, outside="absorb", provenance={"bins": "open", "missing": "open"})
    if pa.types.is_floating(kind):
        return Continuous(name, outside="absorb", provenance={"bins": "open", "missing": "open", "decimals": "open"})
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Datetime(
            name, resolution="day" if pa.types.is_date(kind) else "microsecond", zone=getattr(kind, "tz", None) or "",
            outside="absorb", provenance={"bins": "open", "missing": "open"},
        )  # fmt: skip
    if pa.types.is_null(kind):
        return Categorical(name, values=("none",), missing=("",), outside="absorb")
    raise SchemaError(
        f"Column {name!r} is stored as {kind}, which has no columns of its own kind here. Convert it to text, numbers, "
        "times or booleans, or drop it."
    )


def is_identifier_name(name: str) -> bool:
    """Whether a name by itself says that the column tells rows apart.

    >>> [is_identifier_name(name) for name in ("id", "Customer_ID", "patient id", "email", "paid", "humid")]
    [True, True, True, True, False, False]
    """
    return _IDENTIFIER_NAMES.fullmatch(name) is not None
