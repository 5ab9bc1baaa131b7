"""From a place to a source: read, bind the schema to the table's public structure, encode."""

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
from lookalike.schema.codec import bind, encode_column
from lookalike.schema.columns import Column
from lookalike.schema.domain import Domain
from lookalike.schema.probes import MARKERS
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft, holds_text
from lookalike.sources.base import Source
from lookalike.sources.frames import TableForm, read_table
from lookalike.sources.memory import MemorySource


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A source with the public structure of its table.

    Attributes:
        schema: the given schema with the table's column order and storage types.
        form: what kind of file or frame the table came in.
        table: the rows as they were read, kept only where the schema had open facts.
    """

    source: Source
    schema: Schema
    form: TableForm
    table: pa.Table | None = field(default=None, repr=False)

    def encoded(self, schema: Schema) -> OpenedTable:
        """The same rows under another schema, whose columns must take every value without an error."""
        return replace(self, source=_encode(self._rows(), schema.columns), schema=schema)

    def value_counts(self, name: str) -> tuple[list[str], np.ndarray]:
        """The distinct texts of a column but missing markers, and how many rows hold each. Private, both of them."""
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
    """A table as it was read. No value of it was used yet."""

    rows: pa.Table = field(repr=False)
    form: TableForm

    def bound(self, schema: Schema | None) -> Schema:
        """The schema with the table's order and types; without one, it is drafted from these. Looks at no row."""
        types = self.rows.schema
        return bind(schema or draft(types), types).ordered(types.names)

    def encoded(self, bound: Schema) -> OpenedTable:
        """Return the rows, encoded. While facts are open, the source has only the complete columns."""
        complete = [column for column in bound.columns if not column.open_facts]
        source = _encode(self.rows, complete)
        return OpenedTable(source, bound, self.form, self.rows if len(complete) < len(bound.columns) else None)


def read(where: Any) -> ReadTable:
    """The table at `where`; an InputError where there is none."""
    return ReadTable(*read_table(where))


def _encode(table: pa.Table, columns: Sequence[Column]) -> MemorySource:
    codes = np.empty((table.num_rows, len(columns)), dtype=np.int32, order="F")
    for i, column in enumerate(columns):
        codes[:, i] = encode_column(column, table.column(column.name))
    return MemorySource(Domain(tuple(c.name for c in columns), tuple(c.size for c in columns)), codes)
