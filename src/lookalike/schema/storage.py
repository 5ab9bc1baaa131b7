"""Arrow types and columns: which kinds of column each type may store, and the first schema that types alone give.

A draft (`draft`) knows names, order and storage types, which are public structure. Nothing is read from the rows, so it
costs no budget. Other facts are left open: the user declares them in the draft, or a run discovers them inside its
budget.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Column, Identifier, Undeclared
from lookalike.schema.schema import Schema

_VALUES = b"lookalike.values"
"""Key of a field's metadata under which a type lists its values."""
_IDENTIFIER_NAMES = re.compile(r"(.*[^a-z])?(id|uuid|guid|ssn|e-?mail|phone|fax|url|iban)", re.IGNORECASE)
_ALIASES = {"large_string": pa.large_string(), "string_view": pa.string_view(), "null": pa.null()}
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=(\d)>")
_DECIMAL = re.compile(r"decimal(32|64|128|256|)\((\d+), (-?\d+)\)")
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "": pa.decimal128, "128": pa.decimal128, "256": pa.decimal256}
_ZONED = re.compile(r"timestamp\[(\w+), tz=(.+)\]")


def arrow_type(text: str) -> pa.DataType:
    """The type that Arrow prints as `text`.

    >>> arrow_type("timestamp[us, tz=Europe/Paris]")
    TimestampType(timestamp[us, tz=Europe/Paris])
    """
    if text in _ALIASES:
        return _ALIASES[text]
    try:
        if match := _DICTIONARY.fullmatch(text):
            return pa.dictionary(arrow_type(match[2]), arrow_type(match[1]), ordered=match[3] == "1")
        if match := _DECIMAL.fullmatch(text):
            return _DECIMALS[match[1]](int(match[2]), int(match[3]))
        if match := _ZONED.fullmatch(text):
            return pa.timestamp(match[1], tz=match[2])
        return pa.type_for_alias(text)
    except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException):
        raise SchemaError(f"No storage type {text!r}. Use a type that Arrow knows, such as string or int64.") from None


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def holds_text(kind: pa.DataType, text: str) -> bool:
    """Whether the text can be read as a value of the type; a date beyond the year 9999 cannot."""
    if is_text(kind):
        return True
    try:
        pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def any_value(column: Column) -> str:
    """A text that the column's storage type can hold, as the only value of a column whose values were not found."""
    kind = value_type(storage_type(column))
    return next(text for text in ("other", "0", "false", "1970-01-01") if holds_text(kind, text))


def holds_identifiers(column: Column) -> bool:
    """Whether the column's storage can hold made-up identifiers."""
    kind = value_type(storage_type(column))
    return is_text(kind) or pa.types.is_integer(kind)


def whole_range(column: Column) -> tuple[int, int]:
    """Smallest and largest whole number that the column's storage can hold; those of 64 bits where it is no integer."""
    kind = value_type(storage_type(column))
    bits = kind.bit_width if pa.types.is_integer(kind) else 64
    return (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values: that of the dictionary where the type is one."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def natural_type(column: Column) -> pa.DataType:
    """The Arrow type of a column for which neither the table nor the schema gives one."""
    if isinstance(column, Integer):
        return pa.int64()
    if isinstance(column, Continuous):
        return pa.float64()
    if isinstance(column, Datetime):
        if column.clock:
            return pa.time64("us")
        if column.zone:
            return pa.timestamp("us", tz=column.zone)
        return pa.date32() if column.resolution == "day" else pa.timestamp("us")
    return pa.string()


def storage_type(column: Column) -> pa.DataType:
    """The column's Arrow type; a SchemaError where the type cannot hold the column's kind."""
    if not column.storage:
        return natural_type(column)
    kind = arrow_type(column.storage)
    value = value_type(kind)
    if pa.types.is_timestamp(value):
        times.check_zone(column.name, value.tz or "")
    if pa.types.is_null(value):
        fits = bool(column.missing)
    elif isinstance(column, Undeclared):
        fits = is_text(value)
    elif isinstance(column, Categorical):
        fits = is_text(value) or _is_number(value) or pa.types.is_boolean(value) or pa.types.is_temporal(value)
    elif isinstance(column, Identifier):
        fits = is_text(value) or pa.types.is_integer(value)
    elif isinstance(column, Datetime):
        typed = pa.types.is_time(value) if column.clock else pa.types.is_timestamp(value) or pa.types.is_date(value)
        fits = is_text(value) or typed
    else:
        fits = is_text(value) or _is_number(value)
    if not fits:
        raise SchemaError(
            f"Column {column.name!r} is {type(column).__name__} in the schema but stored as {column.storage}. "
            "Change the field's type in the schema, or convert the column."
        )
    return kind


def draft(types: pa.Schema) -> Schema:
    """The schema of a table with these names and types; `open_facts` lists what it leaves open."""
    return Schema(tuple(draft_column(field.name, field.type, _listed_values(field)) for field in types))


def with_values(field: pa.Field, values: Sequence[str]) -> pa.Field:
    """The field of a column whose type itself lists its values, as a polars Enum does: a public fact."""
    return field.with_metadata({_VALUES: json.dumps(list(values)).encode()})


def _listed_values(field: pa.Field) -> tuple[str, ...]:
    return tuple(json.loads((field.metadata or {}).get(_VALUES, b"[]")))


def draft_column(name: str, kind: pa.DataType, values: tuple[str, ...] = ()) -> Column:
    """One column by its type alone. A name such as `customer_id` or `e-mail` makes an identifier: names are public."""
    value = value_type(kind)
    if values:
        return Categorical(name, values=values, **_open())
    if (is_text(value) or pa.types.is_integer(value)) and is_identifier_name(name):
        pattern = "id-########" if is_text(value) else "#" * 8
        return Identifier(name, pattern=pattern, provenance={"missing": "open"})
    if pa.types.is_dictionary(kind):
        return Categorical(name, **_open())
    if is_text(kind):
        return Undeclared(name)
    if pa.types.is_boolean(kind):
        return Categorical(name, values=("false", "true"), **_open())
    if pa.types.is_integer(kind):
        return Integer(name, **_open("bins"))
    if pa.types.is_decimal(kind):
        return Continuous(name, decimals=kind.scale, **_open("bins"))
    if pa.types.is_floating(kind):
        return Continuous(name, **_open("bins", "decimals"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        resolution = "day" if pa.types.is_date(kind) else "microsecond"
        return Datetime(name, resolution=resolution, zone=getattr(kind, "tz", None) or "", **_open("bins"))
    if pa.types.is_time(kind):
        resolution = {"s": "second", "ms": "millisecond"}.get(kind.unit, "microsecond")
        return Datetime(name, format="%H:%M:%S", resolution=resolution, **_open("bins"))
    if pa.types.is_null(kind):
        return Categorical(name, values=("none",), missing=("",), outside="absorb")
    raise SchemaError(
        f"Column {name!r} is stored as {kind}, which cannot be synthesized. Convert it to text, numbers, times or "
        "booleans, or drop it."
    )


def _open(*facts: str) -> dict[str, Any]:
    """Arguments of drafted columns: these facts and the missing markers are open, any value is accepted."""
    return {"outside": "absorb", "provenance": dict.fromkeys((*facts, "missing"), "open")}


def is_identifier_name(name: str) -> bool:
    """Whether the name alone shows that a column identifies rows or persons.

    >>> [is_identifier_name(name) for name in ("id", "Customer_ID", "patient id", "email", "paid", "humid")]
    [True, True, True, True, False, False]
    """
    return _IDENTIFIER_NAMES.fullmatch(name) is not None
