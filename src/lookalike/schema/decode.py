"""Codes to values: a table with the same column names, Arrow types, formats and missing markers as the original.

It reads no data; `codec.py` is the way from values to codes.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError
from lookalike.schema.arrays import to_array
from lookalike.schema.binned import Binned
from lookalike.schema.codec import decode_categorical, marker_values, work_kind
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.draw import draw_identifiers, draw_numbers
from lookalike.schema.repair import drawn_numbers, repaired
from lookalike.schema.schema import Schema
from lookalike.schema.storage import storage_type


def decode(schema: Schema, codes: np.ndarray, *, rng: np.random.Generator) -> pa.Table:
    """A table whose values have these codes and satisfy the schema's rules. `rng` chooses the values within bins.

    Where codes or values within bins break a rule, values are changed until it holds: see `repair.py`.
    """
    numbers = drawn_numbers(schema, codes, rng)
    if schema.constraints:
        codes, numbers = repaired(schema, codes, numbers, rng)
    arrays = [
        _decode_binned(column, codes[:, i], numbers[column.name], storage_type(column))
        if isinstance(column, Binned)
        else decode_column(column, codes[:, i], rng=rng)
        for i, column in enumerate(schema.columns)
    ]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def decode_column(column: Column, codes: np.ndarray, *, rng: np.random.Generator) -> pa.Array:
    """Values of one column, in its storage type."""
    kind = storage_type(column)
    if isinstance(column, Binned):
        bins = np.where(codes < column.regular, codes, 0)
        return _decode_binned(column, codes, draw_numbers(column, bins, rng), kind)
    if isinstance(column, Categorical):
        return decode_categorical(column, codes, kind)
    if isinstance(column, Identifier):
        return _decode_identifier(column, codes, kind, rng)
    raise SchemaError(f"Column {column.name!r} has the unknown kind {type(column).__name__}.")


def _decode_binned(column: Binned, codes: np.ndarray, numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(codes))
    regular = codes < column.regular
    try:
        array = to_array(column, numbers, ~regular, work_kind(kind))
    except pa.ArrowInvalid:
        raise SchemaError(
            f"Column {column.name!r} is stored as {kind}, which cannot hold all values between {column.minimum} and "
            f"{column.maximum}. Narrow the bounds or change the storage type."
        ) from None
    return _with_markers(column, array, codes, kind)


def _decode_identifier(column: Identifier, codes: np.ndarray, kind: pa.DataType, rng: np.random.Generator) -> pa.Array:
    return _with_markers(column, draw_identifiers(column, len(codes), work_kind(kind), rng), codes, kind)


def _with_markers(column: Column, array: pa.Array, codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The array with missing markers where the codes say so, in the storage type."""
    regular = codes < column.regular
    if column.missing and not regular.all():
        markers = marker_values(column, array.type).take(pa.array(np.where(regular, 0, codes - column.regular)))
        array = pc.if_else(pa.array(regular), array, markers)
    return array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array.cast(kind)
