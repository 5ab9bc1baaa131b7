"""Values to codes: a schema is bound to a table's types, then every value has a code. `decode.py` is the way back.

Tables are Arrow tables. `encode` gives int32 codes in domain order. Errors name the column and the rule, never a value
of the table. The door needs this module, so it imports nothing that makes values.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import InputError, OutOfDomainError, SchemaError
from lookalike.schema.bins import Binned
from lookalike.schema.classes import class_probe
from lookalike.schema.columns import NULL, OTHERS, Categorical, Column, Identifier
from lookalike.schema.probes import Probe, RowProbe, as_ticks
from lookalike.schema.schema import Schema, check_names
from lookalike.schema.storage import is_text, storage_type, to_numbers, value_type


def bind(schema: Schema, types: pa.Schema) -> Schema:
    """The schema with the storage types of a table, which are public structure; names must be the same.

    A column missing from the table or the schema, or one whose type cannot hold its kind, is an error. All faults of
    names and types are found here, on arrays without values: once rows are read, an error may give no reason.
    """
    check_names(types.names, "The table")
    lacking = [name for name in schema.names if name not in types.names]
    if lacking:
        raise InputError(_names("The table lacks", lacking) + "Add them, or remove them from the schema.")
    extra = [name for name in types.names if name not in schema.names]
    if extra:
        raise InputError(_names("The schema does not describe", extra) + "Describe them, or drop them from the table.")
    bound = schema.with_storage({field.name: str(field.type) for field in types})
    for field in types:
        _check_type(bound[field.name], field.type)
    return replace(bound, columns=tuple(_with_catch_all(column) for column in bound.columns))


def _check_type(column: Column, kind: pa.DataType) -> None:
    """Refuse a storage type that cannot hold the column's kind, or cannot be read as such."""
    storage_type(column)
    empty = pa.nulls(0, type=kind)
    try:
        if isinstance(column, Binned):
            to_numbers(column, _plain(empty))
        if isinstance(column, Categorical):
            _typed(column, (), _plain(empty).type)
        encode_column(class_probe(column) if column.open_facts else column, empty)
    except pa.ArrowException:
        raise SchemaError(
            f"Column {column.name!r} is stored as {kind}, which cannot be read as {type(column).__name__}. Convert the "
            "column to text, numbers, times or booleans."
        ) from None


def _with_catch_all(column: Column) -> Column:
    """The column, with `absorb` in place of a catch-all whose label the storage cannot hold, as in integers."""
    if not isinstance(column, Categorical) or column.values is None or not column.has_other or holds_other(column):
        return column
    column._require(
        column.other_label in OTHERS,
        f"is stored as {column.storage}, which cannot hold {column.other_label!r}, the label of the catch-all",
        "Set dp.other to a value of that type, or dp.outside to absorb.",
    )
    return replace(column, outside="absorb")


def holds_other(column: Categorical) -> bool:
    """Whether the column's storage can hold the label of its catch-all beside its values."""
    try:
        decode_categorical(replace(column, outside="other"), np.array([column.regular]), storage_type(column))
    except (SchemaError, pa.ArrowInvalid):
        return False
    return True


def decode_categorical(column: Categorical, codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return the values of a column of categories; `bind` also calls it, to see if a storage type can hold them."""
    plain = work_kind(kind)
    other = (column.other_label,) if column.has_other else ()
    regular = _typed(column, (*(column.values or ()), *other), plain)
    markers = marker_values(column, plain)
    if not pa.types.is_dictionary(kind):
        return pa.concat_arrays([regular, markers]).take(pa.array(codes)).cast(kind)
    shown = markers.drop_null()
    positions = np.full(len(markers), -1)
    positions[markers.is_valid().to_numpy(zero_copy_only=False)] = len(regular) + np.arange(len(shown))
    indices = np.concatenate([np.arange(len(regular)), positions])[codes]
    indices = pa.array(indices, mask=indices < 0).cast(kind.index_type)
    values = pa.concat_arrays([regular, shown]).cast(kind.value_type)
    # Discovery lists values by how frequent they are, which is not the order of an ordered dictionary.
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered and column.fact("values") != "measured")


def work_kind(kind: pa.DataType) -> pa.DataType:
    """The type to compute a column's values in: Arrow computes on plain strings where it cannot on other texts."""
    value = value_type(kind)
    return pa.string() if is_text(value) else value


def _names(what: str, names: list[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{what} {len(names)} column{'s' if len(names) > 1 else ''}: {listed}. "


def encode(schema: Schema, table: pa.Table) -> np.ndarray:
    """Codes of all rows, int32, one contiguous column per column of the schema.

    Raises:
        OutOfDomainError: a value is outside the schema and the column says `outside: error`.
    """
    return encode_columns(bind(schema, table.schema).columns, table)


def encode_columns(columns: Sequence[Column], table: pa.Table) -> np.ndarray:
    """Codes of all rows in these columns, which fit the table's types; layout and errors as for `encode`."""
    codes = np.empty((table.num_rows, len(columns)), dtype=np.int32, order="F")
    known: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for i, column in enumerate(columns):
        if isinstance(column, RowProbe):
            read = [_read_once(base, table, known) for base in column.schema.columns]
            numbers = {base.name: n for base, (_, n) in zip(column.schema.columns, read, strict=True) if n is not None}
            codes[:, i] = column.row_codes(np.column_stack([found for found, _ in read]), numbers)
        else:
            codes[:, i] = encode_column(column, table.column(column.name))
    return codes


def _read_once(
    base: Column, table: pa.Table, known: dict[str, tuple[np.ndarray, np.ndarray | None]]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes and ticks of a column that probes of rows ask about, of which there may be many."""
    if base.name not in known:
        full, array = replace(base, derived=False), table.column(base.name)
        known[base.name] = encode_column(full, array), ticks_of(full, array) if isinstance(full, Binned) else None
    return known[base.name]


def ticks_of(column: Binned, values: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Numbers and times in ticks of their column, or as they are where it has none; the minimum for missing values."""
    numbers, readable = to_numbers(column, _plain(_one_array(values)))
    with np.errstate(all="ignore"):
        found = np.where(readable, numbers, column.internal(column.minimum))
        return found if column.tick is None or found.dtype.kind == "i" else as_ticks(column, found)


def encode_column(column: Column, values: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Codes of one column."""
    array = _plain(_one_array(values))
    if column.derived:
        return np.zeros(len(array), dtype=np.int32)
    if isinstance(column, Binned):
        return _encode_binned(column, array)
    if isinstance(column, Categorical):
        return _encode_categorical(column, array)
    if isinstance(column, Identifier):
        return np.maximum(_encode_missing(column, array), 0).astype(np.int32)
    if isinstance(column, Probe):
        return column.codes(array)
    raise SchemaError(f"Column {column.name!r} has the unknown kind {type(column).__name__}.")


def _one_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _plain(array: pa.Array) -> pa.Array:
    """The array without a dictionary, and half floats as floats, which Arrow can look up."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.float32()) if pa.types.is_float16(array.type) else array


def _encode_categorical(column: Categorical, array: pa.Array) -> np.ndarray:
    values = column.values or ()
    codes = _lookup(array, _typed(column, values, array.type))
    codes = np.where(codes < 0, _encode_missing(column, array), codes)
    return _place_rest(column, codes, "it is not in the list of values", column.other_code or 0)


def _encode_binned(column: Binned, array: pa.Array) -> np.ndarray:
    markers = _encode_missing(column, array)
    numbers, readable = to_numbers(column, array)
    low, high = column.internal(column.minimum), column.internal(column.maximum)
    inside = readable & (numbers >= low) & (numbers <= high)
    bins = np.searchsorted(column.edges, numbers.clip(low, high), side="right") - 1
    taken = inside if column.outside == "error" else readable
    codes = np.where(markers >= 0, markers, np.where(taken, bins, -1))
    rule = f"it is not of the declared type or not between {column.minimum} and {column.maximum}"
    missing = column.missing_code()
    return _place_rest(column, codes, rule, column.regular // 2 if missing is None else missing)


def _encode_missing(column: Column, array: pa.Array) -> np.ndarray:
    """Codes of missing markers, -1 elsewhere. Null takes the empty marker's code, or the first one's."""
    codes = np.full(len(array), -1, dtype=np.int64)
    null = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    code = column.missing_code(NULL)
    if code is None:
        if null.any() and column.outside == "error":
            raise OutOfDomainError(
                column.name, "the schema says it is never missing", "Remove 'required: true' or list missingValues."
            )
        return codes
    found = _lookup(array, marker_values(column, array.type))
    codes[found >= 0] = found[found >= 0] + column.regular + column.has_other
    codes[null] = code
    return codes


def _place_rest(column: Column, codes: np.ndarray, rule: str, fallback: int) -> np.ndarray:
    rest = codes < 0
    if column.outside == "error" and rest.any():
        treated = "are clamped" if isinstance(column, Binned) else "get the code of other values"
        remedy = f"Correct the table or the schema, or remove dp.outside, so that such values {treated}."
        raise OutOfDomainError(column.name, rule, remedy)
    return np.where(rest, fallback, codes).astype(np.int32)


def _lookup(array: pa.Array, values: pa.Array) -> np.ndarray:
    """Position of each element in `values`, -1 where it is null or not in them."""
    if is_text(array.type) or is_text(values.type):
        array, values = array.cast(pa.string()), values.cast(pa.string())
    found = pc.index_in(array, value_set=values, skip_nulls=True)
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _typed(column: Column, values: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    """The schema's texts as values of the storage type."""
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    try:
        return pa.array(values, type=pa.string()).cast(kind)
    except pa.ArrowInvalid:
        raise SchemaError(
            f"Column {column.name!r} is stored as {kind}, but the schema lists a value (or the catch-all's label) that "
            "is not of this type. Write the values as the table holds them, or convert the column to text."
        ) from None


def marker_values(column: Column, kind: pa.DataType) -> pa.Array:
    """Missing markers as values of the storage type; null for the empty one and for those the type cannot write."""
    return pa.array([_marker(marker, kind) for marker in column.missing], type=kind)


def _marker(marker: str, kind: pa.DataType) -> object:
    if marker == NULL or pa.types.is_null(kind):
        return None
    try:
        return pa.scalar(marker, type=pa.string()).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
