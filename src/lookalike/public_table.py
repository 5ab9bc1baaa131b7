"""A public table that a run is given beside the private one, such as last year's release.

It is the only table that is read outside the door besides those of the evaluation, because it is public: the user
says so by naming it. What a run can know to be private is refused: the private table itself, and tables with a ledger.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, LookalikeError
from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.inputs import parts_of, same_file, table_identity
from lookalike.measurements import NoisyMarginal
from lookalike.models.model import Model
from lookalike.privacy.ledger import default_ledger_path
from lookalike.schema import codec
from lookalike.schema.schema import Schema
from lookalike.selection.public_prior import Informed, with_public
from lookalike.sources.base import Place
from lookalike.sources.frames import read_table

MAX_ROWS = 500_000
"""Rows of a public table that are used; beyond that its sampling error is far below any noise."""


@dataclass(frozen=True, slots=True, repr=False)
class PublicTable:
    """The rows of a public table, in the columns of a schema.

    Attributes:
        path: its file; None for a frame.
        rows: its rows, with the columns of the schema alone.
    """

    path: str | None
    rows: pa.Table

    @property
    def text(self) -> str:
        """Its name, number of rows and checksum, by which the ledger, the statement and the report name it."""
        name = "a table in memory" if self.path is None else Path(self.path).name
        return f"{name}, {self.rows.num_rows:,} rows, sha256 {self.checksum}"

    @property
    def checksum(self) -> str:
        """SHA-256 of names, types and values, in Arrow's format."""
        sink = pa.BufferOutputStream()
        whole = self.rows.replace_schema_metadata(None).combine_chunks()
        with pa.ipc.new_stream(sink, whole.schema) as writer:
            writer.write_table(whole)
        return hashlib.sha256(sink.getvalue()).hexdigest()

    def fitted(self, model: Model, released: Sequence[NoisyMarginal], schema: Schema) -> Informed:
        """Return the model that is fitted to what a run measured and to this table, in the codes of its schema."""
        return with_public(model, released, self._codes(schema), model_zeros(schema))

    def _codes(self, schema: Schema) -> np.ndarray:
        """The rows in the codes of a schema that has no open facts; of very many rows an even part."""
        step = -(-self.rows.num_rows // MAX_ROWS)
        thinned = self.rows if step <= 1 else self.rows.take(np.arange(0, self.rows.num_rows, step))
        return codec.encode(_unstored(schema), thinned)


def as_public(public: Any, table: Any, schema: Schema) -> PublicTable:
    """Return the public table of a run on the private `table`, read and checked; an InputError says what is wrong."""
    if isinstance(public, Place):
        raise InputError("The public table is in a database. Give a file or a frame.")
    _check_not_private(public, table)
    rows, _ = read_table(public)
    lacking = [name for name in schema.names if name not in rows.column_names]
    if lacking:
        listed = ", ".join(map(repr, lacking[:5])) + (" and others" if len(lacking) > 5 else "")
        raise InputError(
            f"The public table lacks {listed}; it needs every column of the private table. Add them, or leave it out."
        )
    if not rows.num_rows:
        raise InputError("The public table has no rows. Leave it out, or give one with rows.")
    found = PublicTable(_path(public), rows.select(list(schema.names)))
    _check_fits(found.rows, schema)
    return found


def _path(public: Any) -> str | None:
    return os.path.realpath(public) if isinstance(public, str | os.PathLike) else None


def _check_not_private(public: Any, table: Any) -> None:
    """Refuse the private table itself, and any file on which runs have spent a budget."""
    path, private = _path(public), table_identity(table)
    files = (public, table)
    same = public is table or (path is not None and private is not None and path == os.path.realpath(private))
    if path is not None and all(isinstance(file, str | os.PathLike) for file in files):
        same = same or any(same_file(*pair) for pair in product(parts_of(public), parts_of(table)))
    if same:
        raise InputError(
            "The public table is the private table itself, or a part of it: its rows would be published without "
            "protection. Give a table that anybody may read, such as an earlier release, or leave it out."
        )
    identity = table_identity(public)
    if identity is not None and default_ledger_path(identity).exists():
        raise InputError(
            f"{path} has a ledger, so runs have protected it as a private table. A public table is one that anybody "
            "may read. Give such a table, or leave it out."
        )


def _unstored(schema: Schema) -> Schema:
    """The schema without storage types: a public table may be stored in others, such as the texts of a CSV file."""
    return replace(schema, columns=tuple(replace(column, storage="") for column in schema.columns))


def _check_fits(rows: pa.Table, schema: Schema) -> None:
    """Refuse a public table whose types or values do not fit what the schema declares, before anything is spent."""
    try:
        bound = codec.bind(_unstored(schema), rows.schema)
        declared = [column for column in bound.columns if not column.open_facts]
        codec.encode_columns(declared, rows.select([column.name for column in declared]))
    except LookalikeError as error:
        raise InputError(f"The public table does not fit the schema of the private one. {error}") from None
