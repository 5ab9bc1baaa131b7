"""Counts of many marginals in one pass over codes of one, two or four bytes, compiled where that pays."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lookalike.guards import numba_available
from lookalike.schema.domain import ColumnSet, Domain, mixed_radix
from lookalike.sources.base import Counts

BLOCK_ROWS = 1 << 15
"""Rows counted at a time, so that the cell numbers of a block stay in the cache."""
_WORTH_COMPILING = 100_000_000
"""Rows times columns of all sets from which compiled loops are loaded: they save about half a second then."""
_MAX_SMALL = 1 << 31
"""Rows that are counted in 32 bits before they are added to counts of 64."""
_MAX_SMALL_CELLS = 1 << 20
"""Cells of a set that is counted in 32 bits; a larger one would not fit into a cache anyway."""


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
