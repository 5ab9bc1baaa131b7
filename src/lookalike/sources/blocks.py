"""Blocks of codes of a table of Spark, as the executors make and count them.

A block holds the codes of about 65,536 rows, column by column: Spark passes on only the columns that are counted.
Every failure here becomes one constant error, since executors write errors to their logs. Executors import this
module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.schema.columns import Column
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.probes import RowsPerPerson
from lookalike.schema.storage import value_type
from lookalike.sources.base import Maps
from lookalike.sources.counting import Tally, codes_of_table, smallest_type, text_counts

BLOCK_ROWS = 1 << 16
PIECE = 1 << 12
"""Number of counts in a piece. The executors add up larger sets of counts, the driver smaller ones."""
REPEATS = "lookalike repeats"
"""Column of the number of rows of a row's person."""
_FAULT = "a block of rows could not be read"


def place(number: int) -> str:
    """The name of a column of a block."""
    return f"c{number}"


Batches = Iterable[pa.RecordBatch]
Task = Callable[..., Iterator[pa.RecordBatch]]


def own_version(batches: Batches) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [version("lookalike")]})


def _with_constant_error(task: Task) -> Task:
    """The task with one error for whatever fails: it is written to logs, and what caused it may hold a value."""

    @wraps(task)
    def guarded(*given: Any) -> Iterator[pa.RecordBatch]:
        found, ended = task(*given), False
        while not ended:
            try:
                batch = next(found)
            except StopIteration:
                return
            except Exception:  # noqa: BLE001 - it is raised anew, without what caused it
                ended = True
            else:
                yield batch
        raise RuntimeError(_FAULT)

    return guarded


def _gathered(batches: Batches, types: pa.Schema) -> Iterator[pa.Table]:
    """The rows in tables of about BLOCK_ROWS, in the types that the codec was bound to."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= BLOCK_ROWS:
            yield _typed(held, types)
            held = []
    if held:
        yield _typed(held, types)


def _typed(batches: list[pa.RecordBatch], types: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(batches)
    return table.cast(pa.schema([types.field(f.name) if f.name in types.names else f for f in table.schema]))


@dataclass(frozen=True, slots=True)
class Packing:
    """Makes blocks of codes from rows."""

    columns: tuple[Column, ...]
    types: pa.Schema

    @_with_constant_error
    def packed(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """One block per BLOCK_ROWS rows: their number, and the codes of each column."""
        for table in _gathered(batches, self.types):
            codes = [pa.array([found.tobytes()], pa.binary()) for found in self._codes(table)]
            rows = pa.array([table.num_rows], pa.int32())
            yield pa.record_batch([rows, *codes], names=["rows", *map(place, range(len(codes)))])

    @property
    def block(self) -> str:
        """The columns of a block, with their types as Spark names them."""
        return ", ".join(["rows int", *(f"{place(i)} binary" for i in range(len(self.columns)))])

    def _codes(self, table: pa.Table) -> Iterator[np.ndarray]:
        plain = [column for column in self.columns if not isinstance(column, RowsPerPerson)]
        found = codes_of_table(plain, table)
        for column in self.columns:
            if isinstance(column, RowsPerPerson):
                number = table.column(REPEATS).combine_chunks().to_numpy(zero_copy_only=False)
                found[column.name] = np.minimum(number, column.regular) - 1
            yield found[column.name].astype(smallest_type(column.size), copy=False)


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts column sets in blocks.

    Attributes:
        fine: the columns of a block.
        domain: the same after the maps.
    """

    fine: Domain
    domain: Domain
    sets: tuple[ColumnSet, ...]
    maps: Maps

    @_with_constant_error
    def counted(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The counts of the blocks of one partition, in pieces; none where it has no rows."""
        tally, seen = Tally(self.domain, self.sets), False
        for batch in batches:
            for number, rows in enumerate(batch.column("rows").to_pylist()):
                tally.add({name: self._codes(batch, number, name) for name in tally.names}, rows)
                seen = True
        if seen:
            total = np.concatenate([counts.ravel() for counts in tally.counts()])
            places = range(0, len(total), PIECE)
            yield from _pieces({i: total[start : start + PIECE] for i, start in enumerate(places)})

    @property
    def needed(self) -> list[str]:
        """The columns of blocks that hold what is counted."""
        names = {name for columns in self.sets for name in columns}
        return ["rows", *(place(i) for i, name in enumerate(self.fine.names) if name in names)]

    def _codes(self, batch: pa.RecordBatch, number: int, name: str) -> np.ndarray:
        held = batch.column(place(self.fine.position(name)))[number].as_buffer()
        codes: np.ndarray = np.frombuffer(held, dtype=np.dtype(smallest_type(self.fine.size(name))))
        return self.maps[name].astype(smallest_type(self.domain.size(name)))[codes] if name in self.maps else codes


@dataclass(frozen=True, slots=True)
class Listing:
    """Counts the distinct texts of a column."""

    name: str
    kind: pa.DataType

    @_with_constant_error
    def listed(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for table in _gathered(batches, pa.schema([pa.field(self.name, self.kind)])):
            texts, counts = text_counts(table.column(self.name).combine_chunks())
            coded = pa.array([text.encode() for text in texts], pa.binary())
            yield pa.record_batch({"text": coded, "number": pa.array(counts, pa.int64())})


@_with_constant_error
def added(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The pieces of a partition with the counts of equal ones added."""
    yield from _pieces(sums(batches))


def sums(batches: Batches) -> dict[int, np.ndarray]:
    total: dict[int, np.ndarray] = {}
    for batch in batches:
        for piece, counts in zip(batch.column("piece").to_pylist(), batch.column("counts"), strict=True):
            found = np.frombuffer(counts.as_buffer(), dtype=np.int64)
            total[piece] = total[piece] + found if piece in total else found.copy()
    return total


def _pieces(counts: dict[int, np.ndarray]) -> Iterator[pa.RecordBatch]:
    places = list(counts)
    for start in range(0, len(places), 256):
        some = places[start : start + 256]
        held = pa.array([counts[place].tobytes() for place in some], pa.binary())
        yield pa.record_batch({"piece": pa.array(some, pa.int32()), "counts": held})


def joined(pieces: dict[int, np.ndarray], cells: int) -> np.ndarray:
    total = np.zeros(cells, dtype=np.int64)
    for place, counts in pieces.items():
        total[place * PIECE : place * PIECE + len(counts)] = counts
    return total


_UNSIGNED = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.decimal128(20)}
"""Types that Spark does not have, and those that hold their values."""


@dataclass(frozen=True)
class Making:
    """Makes parts of a synthetic table from their numbers; no private row is involved.

    Attributes:
        parts: the tables by number.
        structure: names and types of their columns.
    """

    parts: Any
    structure: pa.Schema

    def types(self) -> pa.Schema:
        """The types in which Spark holds the columns."""
        return pa.schema([(field.name, self._type(value_type(field.type))) for field in self.structure])

    def spark_types(self) -> Any:
        """The same types as Spark names them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.types())

    @staticmethod
    def _type(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", kind.tz)
        if pa.types.is_time(kind) or pa.types.is_null(kind):
            return pa.string()
        return _UNSIGNED.get(str(kind), kind)

    def made(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parts whose numbers come in."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.parts[number].cast(self.types()).to_batches(BLOCK_ROWS)
