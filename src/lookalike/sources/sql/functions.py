"""Functions that DuckDB and SQLite call with the rows of a table, inside this process.

A statement such as `SELECT max(lookalike_rows(a, b)) FROM t` returns one zero, and the rows pass through the function
in batches. Values reach it as the engine holds them, whatever their collation or encoding; none raises an error.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.sources.sql.connections import SQLite
from lookalike.sources.sql.sessions import Field, Session

BATCH_ROWS = 1 << 16
Add = Callable[[pa.Table], None]
_DUCK_TYPES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "float": "FLOAT",
    "double": "DOUBLE", "date32[day]": "DATE", "timestamp[us]": "TIMESTAMP", "timestamp[s]": "TIMESTAMP_S",
    "timestamp[ms]": "TIMESTAMP_MS", "timestamp[ns]": "TIMESTAMP_NS", "time64[us]": "TIME", "string": "VARCHAR",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip


def stream(session: Session, fields: Sequence[Field], clause: str, add: Add) -> None:
    """Pass all rows of a FROM clause to `add`, in batches with the fields as columns, by one statement."""
    kind = _SQLiteBatches if isinstance(session, SQLite) else _DuckBatches
    batches = kind(fields, add)
    try:
        batches.run(session, clause)
    except Exception:
        if batches.fault is None:
            raise
    if batches.fault is not None:
        raise batches.fault
    batches.flush()


class _Batches:
    """Collects rows until they fill a batch. An error of `add` is kept, and raised after the statement."""

    def __init__(self, fields: Sequence[Field], add: Add) -> None:
        self.fields, self.add = fields, add
        self.held: list[Any] = []
        self.rows = 0
        self.fault: BaseException | None = None
        self.lock = threading.Lock()

    def table(self) -> pa.Table:
        raise NotImplementedError

    def flush(self) -> None:
        if self.rows:
            batch = self.table()
            self.held, self.rows = [], 0
            self.add(batch)

    def take(self, rows: Any, number: int) -> None:
        with self.lock:
            if self.fault is not None:
                raise RuntimeError("stopped")
            try:
                self.held.append(rows)
                self.rows += number
                if self.rows >= BATCH_ROWS:
                    self.flush()
            except BaseException as error:
                self.fault = error
                raise


class _DuckBatches(_Batches):
    """Collects vectors of DuckDB, which arrive as Arrow arrays and on several threads."""

    def run(self, session: Session, clause: str) -> None:
        name = f"lookalike_rows_{id(self)}"
        given = [field.value for field in self.fields] or ["0"]
        types = [_duck_type(field.kind) for field in self.fields] or ["INTEGER"]

        def rows(*columns: Any) -> pa.Array:
            self.take(columns, len(columns[0]))
            return pa.array(np.zeros(len(columns[0]), dtype=np.int8))

        # DuckDB asks for as many parameters as there are types.
        named = [inspect.Parameter(f"c{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(types))]
        rows.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        options = {"type": "arrow", "null_handling": "special", "side_effects": True}
        session.connection.create_function(name, rows, types, "TINYINT", **options)
        try:
            session.fetch(f"SELECT max({name}({', '.join(given)})) FROM {clause}")
        finally:
            session.connection.remove_function(name)

    def table(self) -> pa.Table:
        if not self.fields:
            return pa.table({"": pa.nulls(self.rows)})
        columns = [
            pa.chunked_array([chunk for row in self.held for chunk in _chunks(row[i])])
            .combine_chunks()
            .cast(field.kind)
            for i, field in enumerate(self.fields)
        ]
        return pa.table(columns, schema=pa.schema([(field.name, field.kind) for field in self.fields]))


def _chunks(array: Any) -> list[pa.Array]:
    return array.chunks if isinstance(array, pa.ChunkedArray) else [array]


def _duck_type(kind: pa.DataType) -> str:
    return f"DECIMAL({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _DUCK_TYPES[str(kind)]


class _SQLiteBatches(_Batches):
    """Collects rows of SQLite, which arrive one by one at an aggregate function."""

    def run(self, session: Session, clause: str) -> None:
        batches = self

        class LookalikeRows:
            def step(self, *row: Any) -> None:
                batches.take(row, 1)

            def finalize(self) -> int:
                return 0

        session.connection.create_aggregate("lookalike_rows", -1, LookalikeRows)
        session.connection.create_function("lookalike_order", -1, _order)
        given = [_as_bytes(field) for field in self.fields] or ["0"]
        session.fetch(f"SELECT lookalike_rows({', '.join(given)}) FROM {clause}")

    def table(self) -> pa.Table:
        if not self.fields:
            return pa.table({"": pa.nulls(self.rows)})
        columns = zip(*self.held, strict=True)
        arrays = [_sqlite_array(column, field.kind) for column, field in zip(columns, self.fields, strict=True)]
        return pa.table(arrays, names=[field.name for field in self.fields])


def _as_bytes(field: Field) -> str:
    """The value, with texts as bytes, since texts that are not UTF-8 could not be passed on."""
    return f"CASE typeof({field.value}) WHEN 'text' THEN CAST({field.value} AS BLOB) ELSE {field.value} END"


def _order(salt: str, *row: Any) -> bytes:
    return hashlib.blake2b(repr(row).encode("utf-8", "replace"), key=salt.encode()[:64], digest_size=16).digest()


def _sqlite_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of any type as an array of the column's own; what does not fit is null."""
    if pa.types.is_string(kind):
        return pa.array([_sqlite_text(value) for value in values], pa.string())
    if pa.types.is_int64(kind):
        return pa.array([_sqlite_whole(value) for value in values], pa.int64())
    if pa.types.is_boolean(kind):
        return pa.array(
            [bool(value) if value in (0, 1) and not isinstance(value, bytes) else None for value in values], pa.bool_()
        )
    return pa.array([float(v) if isinstance(v, int | float) else None for v in values], pa.float64())


def _sqlite_text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def _sqlite_whole(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value if isinstance(value, int) else None
