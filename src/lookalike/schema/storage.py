"""Arrow types by the text that Arrow prints for them, and which kinds of column each may store."""

from __future__ import annotations

import re

import pyarrow as pa

from lookalike.errors import SchemaError
from lookalike.schema.columns import Categorical, Column, Continuous, Datetime, Identifier, Integer, Undeclared

_ALIASES = {"large_string": pa.large_string(), "string_view": pa.string_view(), "null": pa.null()}
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=(\d)>")
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+), (-?\d+)\)")
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
            return pa.decimal128(int(match[1]), int(match[2]))
        if match := _ZONED.fullmatch(text):
            return pa.timestamp(match[1], tz=match[2])
        return pa.type_for_alias(text)
    except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException):
        raise SchemaError(f"No storage type {text!r}. Use a type that Arrow knows, such as string or int64.") from None


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def natural_type(column: Column) -> pa.DataType:
    """How a column is stored when neither table nor schema says."""
    if isinstance(column, Integer):
        return pa.int64()
    if isinstance(column, Continuous):
        return pa.float64()
    if isinstance(column, Datetime):
        if column.zone:
            return pa.timestamp("us", tz=column.zone)
        return pa.date32() if column.resolution == "day" else pa.timestamp("us")
    return pa.string()


def storage_type(column: Column) -> pa.DataType:
    """The column's Arrow type; a SchemaError where the type cannot hold the column's kind."""
    if not column.storage:
        return natural_type(column)
    kind = arrow_type(column.storage)
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(value):
        fits = bool(column.missing)
    elif isinstance(column, Undeclared):
        fits = is_text(value)
    elif isinstance(column, Categorical):
        fits = is_text(value) or _is_number(value) or pa.types.is_boolean(value) or pa.types.is_temporal(value)
    elif isinstance(column, Identifier):
        fits = is_text(value) or pa.types.is_integer(value)
    elif isinstance(column, Datetime):
        fits = is_text(value) or pa.types.is_timestamp(value) or pa.types.is_date(value)
    else:
        fits = is_text(value) or _is_number(value)
    if not fits:
        raise SchemaError(
            f"Column {column.name!r} is {type(column).__name__} in the schema but stored as {column.storage}. "
            "Change the field's type in the schema, or convert the column."
        )
    return kind
