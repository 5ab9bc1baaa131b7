"""Tables in memory: rows as they were read, and rows as codes of one, two or four bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lookalike.errors import SchemaError
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.probes import person_numbers
from lookalike.sources.base import Counts, Keep, View
from lookalike.sources.counted import CountedSource
from lookalike.sources.counting import Tally, smallest_type
from lookalike.sources.encoding import codes_of_table, text_counts

_ROWS_PER_CELL = 8
"""Rows for which a cell of a wide set is worth its addition when the set is summed down."""
_MAX_CELLS = 1 << 16


class MemoryTable:
    """A table in memory as an engine. `repr` shows no data, not even how many rows."""

    __slots__ = ("form", "rows")

    def __init__(self, rows: pa.Table, form: Any) -> None:
        self.rows, self.form = rows, form

    @property
    def structure(self) -> pa.Schema:
        return self.rows.schema

    @property
    def max_cells(self) -> int:
        return _widest(self.rows.num_rows)

    def encoded(self, columns: Sequence[Column]) -> MemorySource:
        """The source of the rows under complete columns."""
        rows = CodedRows(codes_of_table(columns, self.rows), self.rows.num_rows)
        return MemorySource.over(rows, View.of(columns))

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        return self.encoded(view.columns).recoded(view.maps).counts(sets)

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        return text_counts(self.rows.column(name).combine_chunks())

    def capped(self, person: Identifier, keep: Keep) -> MemoryTable:
        people = person_numbers(person, self.rows.column(person.name).combine_chunks())
        return MemoryTable(self.rows.take(keep(people, person.max_rows)), self.form)

    def close(self) -> None:
        """Nothing is held but memory."""

    def __repr__(self) -> str:
        return f"MemoryTable({len(self.structure)} columns)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A table holds private rows and cannot be pickled.")


class MemorySource(CountedSource):
    """A source over rows of codes, which it can also give, for releases that read single rows.

    >>> source = MemorySource(Domain.of({"a": 2, "b": 3}), np.array([[0, 2], [1, 0], [0, 2]]))
    >>> source.counts([("a", "b")])[0].tolist()
    [[0, 0, 2], [1, 0, 0]]
    """

    __slots__ = ("_rows",)

    def __init__(self, domain: Domain, codes: np.ndarray) -> None:
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != len(domain):
            raise SchemaError(f"The codes need {len(domain)} columns, one per column of the domain.")
        columns: dict[str, np.ndarray] = {}
        for i, (name, size) in enumerate(zip(domain.names, domain.sizes, strict=True)):
            column = codes[:, i]
            if column.size and (column.min() < 0 or column.max() >= size):
                raise SchemaError(f"Column {name!r} has a code outside 0..{size - 1}.")
            columns[name] = column.astype(smallest_type(size))
        self._rows = CodedRows(columns, len(codes))
        super().__init__(self._rows, View(domain))

    @classmethod
    def over(cls, rows: CodedRows, view: View, fine: CountedSource | None = None) -> MemorySource:
        """The source of rows whose codes fit the view."""
        source = cls.__new__(cls)
        source._rows = rows
        CountedSource.__init__(source, rows, view, fine)
        return source

    @property
    def codes(self) -> np.ndarray:
        """The codes of all rows, int32, one contiguous column per column of the domain."""
        columns = [self._rows.column(name, self._view) for name in self.domain.names]
        codes = np.empty((self._rows.number, len(columns)), dtype=np.int32, order="F")
        for i, column in enumerate(columns):
            codes[:, i] = column
        return codes

    def taken(self, chosen: np.ndarray) -> MemorySource:
        return MemorySource(self.domain, self.codes[chosen])

    def recoded(self, maps: Any) -> MemorySource:
        return self.over(self._rows, self._view.recoded(maps), self._fine or self)


class CodedRows:
    """Codes of rows, one array per column in the smallest type that holds them."""

    __slots__ = ("columns", "number")

    def __init__(self, columns: dict[str, np.ndarray], number: int) -> None:
        self.columns, self.number = columns, number

    @property
    def max_cells(self) -> int:
        return _widest(self.number)

    def column(self, name: str, view: View) -> np.ndarray:
        """The codes of a column as the view shows them."""
        codes = self.columns[name]
        return view.maps[name].astype(smallest_type(view.domain.size(name)))[codes] if name in view.maps else codes

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        tally = Tally(view.domain, sets)
        tally.add({name: self.column(name, view) for name in tally.names}, self.number)
        return tally.counts()


def _widest(rows: int) -> int:
    return min(_MAX_CELLS, max(rows // _ROWS_PER_CELL, 1))
