"""Arrow arrays to what sources need of them: codes of one, two or four bytes, and texts with their numbers of rows.

Codes are those of `schema/codec.py`; here each distinct value is encoded once, where an array has few of them.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.codec import encode_column, encode_columns
from lookalike.schema.columns import Column
from lookalike.schema.probes import RowProbe, RowsPerPerson
from lookalike.schema.storage import holds_text, is_text, texts_of
from lookalike.schema.text_forms import MARKERS
from lookalike.sources.counting import smallest_type

_MIN_ROWS = 2000
"""Rows below which values are encoded one by one."""
_MAX_RANGE = 1 << 16
"""Whole numbers between the smallest and the largest of an array for which a table of codes is made."""
_SAMPLE = 500
"""Texts that are looked at to see whether an array has few distinct ones."""


Lookups = dict[tuple[str, int, int], np.ndarray]
"""Codes of all whole numbers of a range, and of null, by column and the ends of the range: kept from batch to batch."""


def codes_of_table(columns: Sequence[Column], table: pa.Table, lookups: Lookups | None = None) -> dict[str, np.ndarray]:
    """The codes of all rows in these columns, which fit the table's types, by name."""
    of_rows = [column for column in columns if isinstance(column, RowProbe)]
    rows = encode_columns(of_rows, table) if of_rows else np.empty((table.num_rows, 0))
    found = {column.name: rows[:, i].astype(smallest_type(column.size)) for i, column in enumerate(of_rows)}
    for column in columns:
        if column.name not in found:
            found[column.name] = _codes_of_chunks(column, table.column(column.name), lookups)
    return found


def _codes_of_chunks(column: Column, values: pa.ChunkedArray, lookups: Lookups | None) -> np.ndarray:
    if isinstance(column, RowsPerPerson):  # it depends on all rows
        return codes_of(column, values.combine_chunks())
    parts = [codes_of(column, chunk, lookups) for chunk in values.chunks]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, smallest_type(column.size))


def codes_of(column: Column, array: pa.Array, lookups: Lookups | None = None) -> np.ndarray:
    """The codes of an array, in the smallest type."""
    by_value = column.outside != "error" and not isinstance(column, RowsPerPerson) and not column.derived
    if by_value and len(array) >= _MIN_ROWS:
        if not pa.types.is_dictionary(array.type) and is_text(array.type) and _few_distinct(array):
            array = array.dictionary_encode()
        if pa.types.is_dictionary(array.type) and len(array.dictionary) < len(array):
            return _codes_of_dictionary(column, array)
        if pa.types.is_integer(array.type):
            found = _codes_of_range(column, array, {} if lookups is None else lookups)
            if found is not None:
                return found
    return encode_column(column, array).astype(smallest_type(column.size))


def _few_distinct(array: pa.Array) -> bool:
    """Whether a sample of the texts has few distinct ones. It decides about time only."""
    places = np.linspace(0, len(array) - 1, _SAMPLE).astype(np.int64)
    return len(array.take(pa.array(places)).unique()) < _SAMPLE // 2


def _codes_of_dictionary(column: Column, array: pa.DictionaryArray) -> np.ndarray:
    """Encode the dictionary, and null, then look up."""
    dictionary, indices = array.dictionary, array.indices
    table = encode_column(column, pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)]))
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(dictionary))
    return table.astype(smallest_type(column.size))[indices.to_numpy(zero_copy_only=False)]


def _codes_of_range(column: Column, array: pa.Array, lookups: Lookups) -> np.ndarray | None:
    """Encode every whole number of a short range, and null, then look up; None where the range is long."""
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or high - low >= min(_MAX_RANGE, len(array)) or high >= 1 << 63:
        return None
    key = (column.name, low, high)
    if key not in lookups:
        lookups[key] = _lookup(column, low, high, array.type)
    table = lookups[key]
    if array.null_count:
        return table[array.cast(pa.int64()).fill_null(high + 1).to_numpy() - low]
    if np.array_equal(table[:-1], np.arange(low, high + 1)):  # values that are codes already
        return array.to_numpy().astype(table.dtype)
    return table[array.to_numpy().astype(np.int64) - low]


def _lookup(column: Column, low: int, high: int, kind: pa.DataType) -> np.ndarray:
    """The codes of all whole numbers of a range, and of null."""
    numbers = pa.array(np.arange(low, high + 1), pa.int64()).cast(kind)
    return encode_column(column, pa.concat_arrays([numbers, pa.nulls(1, kind)])).astype(smallest_type(column.size))


def text_counts(array: pa.Array) -> tuple[list[str], np.ndarray]:
    """The distinct texts of an array except null and missing markers, and their numbers of rows. Both are private."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    counted = pc.value_counts(texts_of(array).drop_null())
    texts, counts = counted.field("values").to_pylist(), counted.field("counts").to_numpy()
    kept = [i for i, text in enumerate(texts) if text not in MARKERS and holds_text(array.type, text)]
    return [texts[i] for i in kept], counts[kept].astype(np.int64)
