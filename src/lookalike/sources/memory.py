"""A source over encoded rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema.cells import cell_numbers
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.sources.base import check_cliques, recoded_domain

BLOCK_ROWS = 1 << 16
"""Rows counted at a time, so that the cell numbers of a block stay in the cache."""


class MemorySource:
    """Counts by cell numbers and one `bincount` per block of rows. `repr` shows no data, not even how many rows.

    >>> source = MemorySource(Domain.of({"a": 2, "b": 3}), np.array([[0, 2], [1, 0], [0, 2]]))
    >>> source.counts([("a", "b")])[0].tolist()
    [[0, 0, 2], [1, 0, 0]]
    """

    __slots__ = ("_codes", "_domain")

    def __init__(self, domain: Domain, codes: np.ndarray) -> None:
        codes = np.asfortranarray(codes, dtype=np.int32)
        if codes.ndim != 2 or codes.shape[1] != len(domain):
            raise SchemaError(f"The codes need {len(domain)} columns, one per column of the domain.")
        for i, size in enumerate(domain.sizes):
            column = codes[:, i]
            if column.size and (column.min() < 0 or column.max() >= size):
                raise SchemaError(f"Column {domain.names[i]!r} has a code outside 0..{size - 1}.")
        self._domain = domain
        self._codes = codes

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def codes(self) -> np.ndarray:
        return self._codes

    def taken(self, chosen: np.ndarray) -> MemorySource:
        return MemorySource(self._domain, self._codes[chosen])

    def counts(self, cliques: Sequence[ColumnSet]) -> list[np.ndarray]:
        check_cliques(self._domain, cliques)
        results = [np.zeros(self._domain.cells(clique), dtype=np.int64) for clique in cliques]
        positions = [[self._domain.position(name) for name in clique] for clique in cliques]
        for start in range(0, len(self._codes), BLOCK_ROWS):
            block = self._codes[start : start + BLOCK_ROWS]
            for total, places in zip(results, positions, strict=True):
                _add_counts(total, block, places, self._domain.sizes)
        return [total.reshape(self._domain.shape(clique)) for total, clique in zip(results, cliques, strict=True)]

    def recoded(self, maps: Mapping[str, np.ndarray]) -> MemorySource:
        domain = recoded_domain(self._domain, maps)
        codes = self._codes.copy(order="F")
        for name, new in maps.items():
            i = self._domain.position(name)
            codes[:, i] = np.asarray(new, dtype=np.int32)[self._codes[:, i]]
        return MemorySource(domain, codes)

    def __repr__(self) -> str:
        return f"MemorySource({len(self._domain)} columns)"

    def __reduce__(self) -> str:
        raise TypeError("A source holds private rows and cannot be pickled.")


def _add_counts(total: np.ndarray, block: np.ndarray, places: list[int], sizes: tuple[int, ...]) -> None:
    if not places:
        total[0] += len(block)
        return
    cells = cell_numbers(block, places, sizes)
    if total.size <= 4 * len(block):
        total += np.bincount(cells, minlength=total.size)
    else:
        found, number = np.unique(cells, return_counts=True)
        total[found] += number
