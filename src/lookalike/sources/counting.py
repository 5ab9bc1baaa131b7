"""Turns Arrow arrays into codes, and codes into counts of many marginals; `CountedSource` does so over any engine.

Codes have one, two or four bytes and are those of `schema/codec.py`; where an array has few distinct values, each is
encoded once. Loops are compiled where that pays. `CountedSource` asks an engine for few wide column sets: counting one
of them and summing it down is cheaper than counting many sets that it contains (`cover`).
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike import guards
from lookalike.schema.codec import encode_column, encode_columns
from lookalike.schema.columns import Column
from lookalike.schema.domain import ColumnSet, Domain, mixed_radix
from lookalike.schema.probes import RowProbe, RowsPerPerson
from lookalike.schema.storage import holds_text, is_text, texts_of
from lookalike.schema.text_forms import MARKERS
from lookalike.sources.base import Counter, Counts, Maps, View, check_cliques

BLOCK_ROWS = 1 << 15
"""Rows counted at a time, so that the cell numbers of a block stay in the cache."""
_WORTH_COMPILING = 100_000_000
"""Rows times columns of all sets above which compiled loops are loaded; there they save about half a second."""
_MAX_SMALL = 1 << 31
"""Rows that are counted in 32 bits before they are added to counts of 64."""
_MAX_SMALL_CELLS = 1 << 20
"""Cells of a set that is counted in 32 bits; a larger one would not fit into a cache anyway."""
_MIN_ROWS = 2000
"""Rows below which values are encoded one by one."""
_MAX_RANGE = 1 << 16
"""Whole numbers between the smallest and the largest of an array for which a table of codes is made."""
_SAMPLE = 500
"""Number of texts by which it is judged whether an array has few distinct ones."""


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
        if self._compiled is None and pays and guards.NUMBA:
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
    """Whether a sample of the texts has few distinct ones. Only the running time depends on it."""
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


MAX_MEMO_CELLS = 1 << 24
"""Cells of all counts that are remembered: 128 MB."""
_MAX_KNOWN = 8
"""Columns of a counted set all of whose subsets are known to follow from it; of wider sets only those asked for."""

MAX_COVER_CELLS = 1 << 23
"""Cells of all sets of a cover that are wider than what was asked for: 64 MB of counts."""
_OPEN_SETS = 40
"""Wide sets to which a set of three or more columns may still be added; all would take quadratic time."""


class CountedSource:
    """Exact counts of the rows of an engine. They are kept here, inside the door, and `repr` shows none of them.

    Few wide sets are counted in one pass (`cover`) and summed down; what was counted is remembered, so that a
    method that asks again, or for a part of what it asked before, needs no further pass.
    """

    __slots__ = ("_counter", "_fine", "_homes", "_passes", "_tables", "_view")

    def __init__(self, counter: Counter, view: View, fine: CountedSource | None = None) -> None:
        self._counter, self._view, self._fine = counter, view, fine
        self._tables: dict[ColumnSet, Counts] = {}
        self._homes: dict[ColumnSet, ColumnSet] = {}
        self._passes = 0

    @property
    def domain(self) -> Domain:
        return self._view.domain

    @property
    def passes(self) -> int:
        """How often the rows were read, by this source and by the one that it was recoded from."""
        return self._passes + (self._fine.passes if self._fine else 0)

    def counts(self, cliques: Sequence[ColumnSet]) -> list[Counts]:
        check_cliques(self.domain, cliques)
        missing = [clique for clique in cliques if self._homes.get(clique) not in self._tables]
        if missing and self._fine is not None and self._summable(missing, self._fine.domain):
            for clique, counts in zip(missing, self._fine.counts(missing), strict=True):
                self._remember(clique, merged(counts, clique, self._view.maps), [clique])
        elif missing:
            self._scan(missing)
        found = [summed(self._tables[self._homes[clique]], self._homes[clique], clique) for clique in cliques]
        self._forget()
        return found

    def recoded(self, maps: Maps) -> CountedSource:
        """The source with merged columns; its counts are sums of counts of this one where these have few cells."""
        return CountedSource(self._counter, self._view.recoded(maps), self._fine or self)

    def _summable(self, cliques: Iterable[ColumnSet], fine: Domain) -> bool:
        return all(fine.cells(clique) <= self._counter.max_cells for clique in cliques)

    def _scan(self, cliques: Sequence[ColumnSet]) -> None:
        """Count sets that contain the given ones in one pass over the rows."""
        homes = cover(cliques, self.domain, self._counter.max_cells)
        asked: dict[ColumnSet, list[ColumnSet]] = {}
        for clique, home in homes.items():
            asked.setdefault(home, []).append(clique)
        self._passes += 1
        for (home, parts), counts in zip(asked.items(), self._counter.scan(self._view, list(asked)), strict=True):
            self._remember(home, counts, parts)

    def _remember(self, home: ColumnSet, counts: Counts, parts: Iterable[ColumnSet]) -> None:
        self._tables[home] = counts
        sizes = range(len(home) + 1) if len(home) <= _MAX_KNOWN else ()
        for part in chain(parts, *(combinations(home, size) for size in sizes)):
            if self._homes.get(part) not in self._tables:
                self._homes[part] = home

    def _forget(self) -> None:
        """Drop the oldest counts while there are more than MAX_MEMO_CELLS."""
        cells = sum(counts.size for counts in self._tables.values())
        while cells > MAX_MEMO_CELLS:
            cells -= self._tables.pop(next(iter(self._tables))).size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.domain)} columns)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A source holds private rows or counts and cannot be pickled.")


def cover(wanted: Iterable[ColumnSet], domain: Domain, max_cells: int) -> dict[ColumnSet, ColumnSet]:
    """Return for every wanted column set a set to count that contains it, in domain order; few different ones.

    Sets to count have at most `max_cells` cells, but for those that are wanted as they are.

    >>> found = cover([("a", "b"), ("b", "c"), ("a",)], Domain.of({"a": 2, "b": 3, "c": 4}), 100)
    >>> set(found.values())
    {('a', 'b', 'c')}
    """
    return _Cover(domain, max_cells).of(sorted(set(wanted), key=lambda one: (-len(one), -domain.cells(one), one)))


class _Cover:
    """A cover under construction."""

    def __init__(self, domain: Domain, max_cells: int) -> None:
        self.domain, self.max_cells = domain, max_cells
        self.room = MAX_COVER_CELLS
        self.wide: list[set[str]] = []
        self.home: dict[ColumnSet, int] = {}

    def of(self, wanted: Sequence[ColumnSet]) -> dict[ColumnSet, ColumnSet]:
        for columns in (one for one in wanted if len(one) > 2):
            self._place(columns, range(max(0, len(self.wide) - _OPEN_SETS), len(self.wide)))
        self._place_pairs([one for one in wanted if len(one) == 2])
        by_column = {name: i for i, columns in enumerate(self.wide) for name in columns}
        for columns in (one for one in wanted if len(one) < 2):
            known = by_column.get(columns[0]) if columns else 0 if self.wide else None
            if known is None:
                self._place(columns, range(max(0, len(self.wide) - 1), len(self.wide)))
            else:
                self.home[columns] = known
        sets = [self.domain.canonical(columns) for columns in self.wide]
        return {columns: sets[i] for columns, i in self.home.items()}

    def _place(self, columns: ColumnSet, candidates: Iterable[int]) -> None:
        """Put a set into one of the wide sets that it makes the least wider, or start another."""
        wider = {i: self.domain.cells(self.wide[i] | set(columns)) for i in candidates}
        fitting = [i for i, cells in wider.items() if self._fits(cells) or self.wide[i] >= set(columns)]
        if fitting:
            best = min(fitting, key=lambda i: wider[i] / self.domain.cells(self.wide[i]))
            self.room -= wider[best] - self.domain.cells(self.wide[best])
            self.wide[best] |= set(columns)
        else:
            best = len(self.wide)
            self.wide.append(set(columns))
        self.home[columns] = best

    def _fits(self, cells: int) -> bool:
        return cells <= self.max_cells and cells <= self.room

    def _place_pairs(self, pairs: Sequence[ColumnSet]) -> None:
        """Put pairs into sets that grow by the column that covers most further pairs for the cells that it adds."""
        place = {name: i for i, name in enumerate(self.domain.names)}
        left = np.zeros((len(place), len(place)), dtype=bool)
        for a, b in pairs:
            left[place[a], place[b]] = left[place[b], place[a]] = True
        for i, columns in enumerate(self.wide):
            self._take(left, [place[name] for name in columns], i)
        price = np.log2(np.array(self.domain.sizes, dtype=float) + 1)
        for a, b in pairs:
            if left[place[a], place[b]]:
                grown = self._grown(left, [place[a], place[b]], price)
                self.wide.append({self.domain.names[i] for i in grown})
                self._take(left, grown, len(self.wide) - 1)

    def _grown(self, left: np.ndarray, chosen: list[int], price: np.ndarray) -> list[int]:
        """The columns with others added while pairs are covered by that and the cells are within the limits."""
        sizes = np.array(self.domain.sizes, dtype=float)
        gain, cells = left[chosen].sum(axis=0), math.prod(self.domain.sizes[i] for i in chosen)
        gain[chosen] = 0
        while True:
            possible = np.where(cells * sizes <= min(self.max_cells, self.room), gain / price, 0)
            best = int(possible.argmax())
            if possible[best] <= 0:
                self.room -= cells if len(chosen) > 2 else 0
                return chosen
            chosen = [*chosen, best]
            cells *= self.domain.sizes[best]
            gain = gain + left[best]
            gain[chosen] = 0

    def _take(self, left: np.ndarray, chosen: list[int], wide: int) -> None:
        """Note the pairs that a set covers, and mark them as covered."""
        names, ordered = self.domain.names, sorted(chosen)
        for k, a in enumerate(ordered):
            for b in ordered[k + 1 :]:
                if left[a, b]:
                    self.home[names[a], names[b]] = wide
                    left[a, b] = left[b, a] = False


def summed(counts: np.ndarray, columns: ColumnSet, kept: ColumnSet) -> np.ndarray:
    """Return the counts of a marginal summed down to some of its columns."""
    others = tuple(i for i, name in enumerate(columns) if name not in kept)
    return counts.sum(axis=others, dtype=np.int64) if others else counts.copy()


def merged(counts: np.ndarray, columns: ColumnSet, maps: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the counts of a marginal after its columns were recoded by maps from old code to new code 0..k-1."""
    for axis, name in enumerate(columns):
        if name in maps:
            codes = np.asarray(maps[name])
            order = np.argsort(codes, kind="stable")
            starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 1))
            counts = np.add.reduceat(counts.take(order, axis=axis), starts, axis=axis)
    return counts
