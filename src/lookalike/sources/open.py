"""Opens a table: reads it, binds the schema to its names and types, encodes its rows."""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.arrays import texts_of
from lookalike.schema.codec import bind, encode_columns
from lookalike.schema.columns import Column
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft, holds_text
from lookalike.schema.text_forms import MARKERS
from lookalike.sources.base import Source
from lookalike.sources.frames import TableForm, read_table
from lookalike.sources.memory import MemorySource


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A source with the public structure of its table.

    Attributes:
        schema: the given schema with the table's column order and storage types.
        form: the kind of file or frame that was read.
        table: the rows as they were read, kept only where the schema had open facts or rules are to be found.
    """

    source: Source
    schema: Schema
    form: TableForm
    table: pa.Table | None = field(default=None, repr=False)

    def encoded(self, schema: Schema) -> OpenedTable:
        """The same rows under another schema, whose columns must accept every value."""
        return replace(self, source=_encode(self._rows(), schema.columns), schema=schema)

    def value_counts(self, name: str) -> tuple[list[str], np.ndarray]:
        """The distinct texts of a column except missing markers, and their numbers of rows. Both are private."""
        array = self._rows().column(name).combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        counted = pc.value_counts(texts_of(array).drop_null())
        texts, counts = counted.field("values").to_pylist(), counted.field("counts").to_numpy()
        kept = [i for i, text in enumerate(texts) if text not in MARKERS and holds_text(array.type, text)]
        return [texts[i] for i in kept], counts[kept].astype(np.int64)

    def _rows(self) -> pa.Table:
        if self.table is None:
            raise RuntimeError("the rows of a table with a complete schema are not kept")
        return self.table


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as it was read, before any value was used."""

    rows: pa.Table = field(repr=False)
    form: TableForm

    def bound(self, schema: Schema | None) -> Schema:
        """The schema with the table's order and types; without one, it is drafted from these. Uses no row."""
        types = self.rows.schema
        return bind(schema or draft(types), types).ordered(types.names)

    def encoded(self, bound: Schema, *, keep: bool = False) -> OpenedTable:
        """The rows, encoded. While facts are open, the source has only the complete columns, and the rows are kept."""
        complete = [column for column in bound.columns if not column.open_facts]
        source = _encode(self.rows, complete)
        kept = keep or len(complete) < len(bound.columns)
        return OpenedTable(source, bound, self.form, self.rows if kept else None)


def read(where: Any) -> ReadTable:
    """The table at `where`; an InputError where it cannot be read as one."""
    return ReadTable(*read_table(where))


def _encode(table: pa.Table, columns: Sequence[Column]) -> MemorySource:
    return MemorySource(Domain.of({column.name: column.size for column in columns}), encode_columns(columns, table))
