"""The one source over all engines: it covers, remembers and sums exact counts, so that rows are read seldom.

Counting a wide column set once and summing it down is cheaper than counting many sets that it contains (`cover`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import NoReturn

import numpy as np

from lookalike.schema.domain import ColumnSet, Domain
from lookalike.sources.base import Counter, Counts, Maps, View, check_cliques

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
        """Count sets that contain the given ones, in one pass."""
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
    """A cover while it is made."""

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
