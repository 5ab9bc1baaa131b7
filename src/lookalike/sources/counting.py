"""From Arrow arrays to codes of one, two or four bytes, and from codes to counts of many marginals in one pass.

Codes are those of `schema/codec.py`; where an array has few distinct values, each is encoded once. Loops are compiled
where that pays.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.guards import numba_available
from lookalike.schema.codec import encode_column, encode_columns
from lookalike.schema.columns import Column
from lookalike.schema.domain import ColumnSet, Domain, mixed_radix
from lookalike.schema.probes import RowProbe, RowsPerPerson
from lookalike.schema.storage import holds_text, is_text, texts_of
from lookalike.schema.text_forms import MARKERS
from lookalike.sources.base import Counts

BLOCK_ROWS = 1 << 15
"""Rows counted at a time, so that the cell numbers of a block stay in the cache."""
_WORTH_COMPILING = 100_000_000
"""Rows times columns of all sets from which compiled loops are loaded: they save about half a second then."""
_MAX_SMALL = 1 << 31
"""Rows that are counted in 32 bits before they are added to counts of 64."""
_MAX_SMALL_CELLS = 1 << 20
"""Cells of a set that is counted in 32 bits; a larger one would not fit into a cache anyway."""
_MIN_ROWS = 2000
"""Rows below which values are encoded one by one."""
_MAX_RANGE = 1 << 16
"""Whole numbers between the smallest and the largest of an array for which a table of codes is made."""
_SAMPLE = 500
"""Texts that are looked at to see whether an array has few distinct ones."""


Lookups = dict[tuple[str, int, int], np.ndarray]
"""Codes of all whole numbers of a range, and of null, by column and the ends of the range: kept from batch to batch."""


def smallest_type(size: int) -> Any:
    """The type of the codes 0..size-1.

    >>> [np.dtype(smallest_type(size)).itemsize for size in (256, 257, 65536, 65537)]
    [1, 2, 2, 4]
    """
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.int32


class Tally:
    """Counts of marginals to which rows are added, some at a time."""

    def __init__(self, domain: Domain, sets: Sequence[ColumnSet]) -> None:
        self.domain, self.sets = domain, sets
        self.names = sorted({name for columns in sets for name in columns}, key=domain.position)
        self._totals = [np.zeros(domain.cells(columns), dtype=np.int64) for columns in sets]
        self._compiled: _CompiledTally | None = None
        self._work = 0

    def add(self, codes: Mapping[str, np.ndarray], rows: int) -> None:
        """Add rows, given the codes of every column in `names`."""
        self._work += rows * sum(map(len, self.sets))
        pays = self._work > _WORTH_COMPILING or "lookalike.sources.numba_counting" in sys.modules
        if self._compiled is None and pays and numba_available():
            self._compiled = _CompiledTally(self.domain, self.sets, self._totals)
        add_block = self._compiled.add_block if self._compiled else self._add_block
        for start in range(0, rows, BLOCK_ROWS):
            block = {name: codes[name][start : start + BLOCK_ROWS] for name in self.names}
            add_block(block, min(BLOCK_ROWS, rows - start))

    def counts(self) -> list[Counts]:
        """The counts of all rows that were added."""
        if self._compiled:
            self._compiled.flush()
        shapes = [self.domain.shape(columns) for columns in self.sets]
        return [total.reshape(shape) for total, shape in zip(self._totals, shapes, strict=True)]

    def _add_block(self, block: Mapping[str, np.ndarray], rows: int) -> None:
        for total, columns in zip(self._totals, self.sets, strict=True):
            cells = mixed_radix([block[name] for name in columns], self.domain.shape(columns), rows)
            if total.size <= 4 * rows:
                total += np.bincount(cells, minlength=total.size)
            else:
                found, number = np.unique(cells, return_counts=True)
                total[found] += number


class _CompiledTally:
    """The same by compiled loops, into counts of 32 bits, which fit into a nearer cache."""

    def __init__(self, domain: Domain, sets: Sequence[ColumnSet], totals: list[Counts]) -> None:
        from lookalike.sources import numba_counting

        self._loops: Any = numba_counting
        self._sets, self._totals = sets, totals
        self._sizes = [domain.shape(columns) for columns in sets]
        self._small = [np.zeros(t.size, dtype=np.int32) if t.size <= _MAX_SMALL_CELLS else t for t in totals]
        self._cells = np.empty(BLOCK_ROWS, dtype=np.uint32)
        self._rows = 0

    def add_block(self, block: Mapping[str, np.ndarray], rows: int) -> None:
        if self._rows + rows >= _MAX_SMALL:
            self.flush()
        self._rows += rows
        for small, columns, sizes in zip(self._small, self._sets, self._sizes, strict=True):
            if not columns:
                small[0] += rows
                continue
            self._loops.begin(self._cells, block[columns[0]])
            for name, size in zip(columns[1:], sizes[1:], strict=True):
                self._loops.extend(self._cells, block[name], np.uint32(size))
            self._loops.tally(small, self._cells, rows)

    def flush(self) -> None:
        """Add what was counted in 32 bits to the totals."""
        for small, total in zip(self._small, self._totals, strict=True):
            if small is not total:
                total += small
                small[:] = 0
        self._rows = 0


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
