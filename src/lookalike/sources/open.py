"""Opens a table: chooses the engine that holds its rows, binds the schema to its names and types, encodes the rows.

Tables in memory are held here, as they were read and as codes of one, two or four bytes. Larger files, databases and
clusters have separate engines.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from lookalike.errors import SchemaError
from lookalike.guards import MAX_BYTES_IN_MEMORY
from lookalike.schema.codec import bind
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.probes import person_numbers
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft
from lookalike.sources.base import Counts, Keep, Place, Scanner, Source, View
from lookalike.sources.counting import CountedSource, Tally, codes_of_table, smallest_type, text_counts
from lookalike.sources.files import TableFile, file_style
from lookalike.sources.frames import TableForm, read_structure, read_table
from lookalike.sources.streams import FileTable, Watch

_BYTES_OF_VALUE = 4
"""Bytes that a value of a Parquet file counts as at least, when it is decided whether the file is large."""
_ROWS_PER_CELL = 8
"""Rows for which a cell of a wide set is worth its addition when the set is summed down."""
_MAX_CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A source with the public structure of its table.

    Attributes:
        schema: the given schema with the table's column order and storage types.
        form: the kind of file or frame that was read.
        engine: holds the rows as they were read; kept only where the schema had open facts or rules are to be found.
    """

    source: Source
    schema: Schema
    form: TableForm
    engine: Scanner | None = field(default=None, repr=False)

    def encoded(self, schema: Schema) -> OpenedTable:
        """The same rows under another schema, whose columns must accept every value."""
        return replace(self, source=_source(self._rows(), schema.columns), schema=schema)

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        """The distinct texts of a column except missing markers, and their numbers of rows. Both are private."""
        return self._rows().value_counts(name)

    @property
    def least_count(self) -> int:
        """The smallest number of rows of a value that `value_counts` knows. Public: it depends on the engine alone."""
        return getattr(self.engine, "least_count", 1)

    def close(self) -> None:
        """Give back what the engine holds open."""
        if self.engine is not None:
            self.engine.close()

    def _rows(self) -> Scanner:
        if self.engine is None:
            raise RuntimeError("the rows of a table with a complete schema are not kept")
        return self.engine


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table of which no value has been used yet."""

    engine: Scanner

    def bound(self, schema: Schema | None) -> Schema:
        """The schema with the table's order and types; without one, it is drafted from these. Uses no row."""
        types = self.engine.structure
        bound = bind(schema or draft(types), types).ordered(types.names)
        check = getattr(self.engine, "check", None)
        if check is not None:
            check([column for column in bound.columns if not column.open_facts])
        return bound

    def capped(self, person: Identifier, keep: Keep) -> ReadTable:
        """The table with no more rows of a person than its column allows."""
        return ReadTable(self.engine.capped(person, keep))

    def encoded(self, bound: Schema, *, keep: bool = False) -> OpenedTable:
        """The rows, encoded. While facts are open, the source has only the complete columns, and the rows are kept."""
        complete = [column for column in bound.columns if not column.open_facts]
        source = _source(self.engine, complete)
        kept = keep or len(complete) < len(bound.columns) or not isinstance(self.engine, MemoryTable)
        return OpenedTable(source, bound, self.engine.form, self.engine if kept else None)


def read(where: Any, *, single_rows: bool = False, watch: Watch | None = None) -> ReadTable:
    """The table at `where`; an InputError where it cannot be read as one.

    Large files stay where they are and are read in batches, unless `single_rows` are needed; `watch` is called with the
    fraction that each pass has read.
    """
    if isinstance(where, Place):
        return ReadTable(where.scanner())
    if isinstance(where, str | os.PathLike) and not single_rows:
        file = TableFile.at(where)
        if (parts := streamed_parts(file)) is not None:
            return ReadTable(FileTable(parts, read_structure(file), TableForm(file.kind, csv=file_style(file)), watch))
    return ReadTable(MemoryTable(*read_table(where)))


def streamed_parts(file: TableFile) -> list[TableFile] | None:
    """The files to read in batches; None where the table is small, or of a kind that is read at once."""
    if file.content is not None or file.kind not in ("parquet", "feather", "csv"):
        return None
    try:
        parts = file.parts()
        regular = all(part.path.is_file() for part in parts)
        size = sum(_bytes_of(part) for part in parts) if regular else 0
    except (OSError, pa.ArrowException):  # what cannot be read is refused when it is opened
        return None
    packed = file.kind == "csv" and file.path.suffix.lower() in (".gz", ".bz2", ".zst", ".zip")
    return parts if regular and size > MAX_BYTES_IN_MEMORY // (8 if packed else 1) else None


def _bytes_of(part: TableFile) -> int:
    """The size of a file; of Parquet at least what its values take in memory, since few distinct ones pack densely."""
    size = part.path.stat().st_size
    if part.kind != "parquet" or size > MAX_BYTES_IN_MEMORY:
        return size
    found = parquet.read_metadata(part.path)
    return max(size, found.num_rows * found.num_columns * _BYTES_OF_VALUE)


def _source(engine: Scanner, columns: Sequence[Column]) -> Source:
    """The source of the rows of an engine: rows in memory are encoded at once, others whenever they are counted."""
    return engine.encoded(columns) if isinstance(engine, MemoryTable) else CountedSource(engine, View.of(columns))


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
        """Do nothing: rows in memory hold nothing open."""

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
