"""From a place to a source: read, bind the schema to the table's public structure, encode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lookalike.schema.codec import bind, encode
from lookalike.schema.schema import Schema
from lookalike.sources.base import Source
from lookalike.sources.frames import TableForm, read_table
from lookalike.sources.memory import MemorySource


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A source with the public structure of its table.

    Attributes:
        schema: the given schema with the table's column order and storage types.
        form: what kind of file or frame the table came in.
    """

    source: Source
    schema: Schema
    form: TableForm


def open_source(where: Any, schema: Schema) -> OpenedTable:
    """The encoded table at `where`. Only the door and the evaluation call this."""
    table, form = read_table(where)
    bound = bind(schema, table.schema).ordered(table.column_names)
    return OpenedTable(MemorySource(bound.domain, encode(bound, table)), bound, form)
