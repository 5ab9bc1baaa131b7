"""The engine for tables of Spark: rows become packed blocks of codes on the executors, which are cached and counted.

A block holds the codes of up to 65,536 rows, column by column. Blocks of a view are made once, by the codec,
and stay with the executors; every further pass unpacks and counts them. Spark schedules, caches and repeats
tasks. A task that is repeated or run twice changes nothing: blocks and counts follow from the rows alone, and of each
partition Spark takes one result.

`blocks.py` has what runs on the executors.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lookalike.errors import SchemaError, SourceError
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.probes import RowProbe, RowsPerPerson, missing_texts
from lookalike.schema.storage import is_text
from lookalike.sources.base import LEAST_COUNT, Counts, Keep, View
from lookalike.sources.blocks import PIECE, REPEATS, Counting, Listing, Packing, added, joined, sums
from lookalike.sources.clusters import no_logs, quoted

MAX_CELLS = 1 << 16
"""Cells of the widest set that is counted in order to sum it down."""
_MAX_PACKED = 2
"""Views whose blocks are cached at a time."""
_RANK = "lookalike rank"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a run uses.

    Attributes:
        frame: the DataFrame.
        structure: names and types of its columns.
        location: where the files are, None where there are none.
        stamp: their names, sizes and times when the run began.
    """

    frame: Any
    structure: pa.Schema
    location: str | None = None
    stamp: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def of(cls, frame: Any, structure: pa.Schema, location: str | None) -> Rows:
        return cls(frame, structure, location, _stamp(frame, location))


class SparkRows:
    """The rows of a table of Spark. `repr` shows no data, not even how many rows."""

    __slots__ = ("_packed", "_rows")
    max_cells = MAX_CELLS
    least_count = LEAST_COUNT

    def __init__(self, rows: Rows, packed: list[tuple[Any, ...]] | None = None) -> None:
        self._rows = rows
        self._packed = [] if packed is None else packed

    @property
    def structure(self) -> pa.Schema:
        return self._rows.structure

    @property
    def form(self) -> Any:
        from lookalike.sources.frames import TableForm

        return TableForm("database")

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse `outside: error`: which row of which executor fails would be seen in logs."""
        for column in columns:
            if column.outside == "error":
                raise SchemaError(
                    f"Column {column.name!r} has 'outside: error', which cannot be kept on a cluster. Use 'other' or "
                    "'absorb'."
                )

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        cells = [view.domain.cells(columns) for columns in sets]
        fine = Domain.of({column.name: column.size for column in view.columns})
        task = Counting(fine, view.domain, tuple(sets), dict(view.maps))
        with self._running():
            blocks = self._blocks(view.columns).select(*task.needed)
            parts = blocks.mapInArrow(task.counted, "piece int, counts binary")
            if sum(cells) > PIECE:
                number = min(-(-sum(cells) // PIECE), self._rows.frame.sparkSession.sparkContext.defaultParallelism)
                parts = parts.repartition(number, "piece").mapInArrow(added, "piece int, counts binary")
            total = joined(sums(parts.toArrow().to_batches()), sum(cells))
        found = np.split(total, np.cumsum(cells)[:-1])
        return [counts.reshape(view.domain.shape(columns)) for counts, columns in zip(found, sets, strict=True)]

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        from pyspark.sql import functions as f

        task = Listing(name, self.structure.field(name).type)
        with self._running():
            parts = self._rows.frame.select(quoted(name)).mapInArrow(task.listed, "text binary, number long")
            found = parts.groupBy("text").agg(f.sum("number").alias("number"))
            table = found.where(f.col("number") >= LEAST_COUNT).toArrow()
        texts = [text.decode() for text in table.column("text").to_pylist()]
        return texts, np.array(table.column("number").to_pylist(), dtype=np.int64)

    def capped(self, person: Identifier, keep: Keep) -> SparkRows:
        """The rows that come first by a hash of a secret salt and all that a row holds, as databases choose them."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        frame = self._rows.frame
        with self._running():
            key, order = _key(self._rows, person), _order(frame, secrets.token_hex(16))
            rank = f.row_number().over(Window.partitionBy(*_alone(key, order)).orderBy(order))
            ranked = frame.withColumn(_RANK, f.when(key.isNull(), 0).otherwise(rank))
            chosen = ranked.where(f.col(quoted(_RANK)) <= person.max_rows).drop(_RANK)
        return SparkRows(replace(self._rows, frame=chosen), self._packed)

    def close(self) -> None:
        """Free the blocks on the executors. The session stays open."""
        while self._packed:
            blocks = self._packed.pop()[-1]
            if _is_running(blocks):
                blocks.unpersist()

    def _blocks(self, columns: tuple[Column, ...]) -> Any:
        """The cached blocks of these columns; those that were made first are forgotten when there are too many."""
        for frame, known, blocks in self._packed:
            if frame is self._rows.frame and known is columns:
                return blocks
        while len(self._packed) >= _MAX_PACKED:
            self._packed.pop(0)[-1].unpersist()
        from pyspark import StorageLevel

        frame, names = self._rows.frame, _columns_read(columns)
        for column in columns:
            if isinstance(column, RowsPerPerson) and REPEATS not in names:
                frame, names = _with_repeats(self._rows, column.base), [*names, REPEATS]
        task = Packing(columns, self.structure)
        names = names or self.structure.names[:1]
        blocks = frame.select(*map(quoted, names)).mapInArrow(task.packed, task.block)
        blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        self._packed.append((self._rows.frame, columns, blocks))
        return blocks

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Run a job: a session that ended and a table that changed are faults that no row causes."""
        try:
            with warnings.catch_warnings(), no_logs():
                warnings.simplefilter("ignore")
                yield
        except Exception:
            if not _is_running(self._rows.frame):
                raise SourceError(
                    "The session of Spark has ended. Nothing more is charged. 'lookalike resume' finishes the run "
                    "without paying again for what it has measured."
                ) from None
            self._check_unchanged()
            raise
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if _stamp(self._rows.frame, self._rows.location) != self._rows.stamp:
            raise SourceError(
                "The files of the table changed while the run read them, so its answers would come from two tables. "
                "What was charged stays charged. Run again when nothing writes to the table."
            )

    def __repr__(self) -> str:
        return f"SparkRows({len(self.structure)} columns)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A table holds private rows and cannot be pickled.")


def _columns_read(columns: Sequence[Column]) -> list[str]:
    """The columns of the table that some columns of a view need."""
    plain = [column for column in columns if not isinstance(column, RowsPerPerson)]
    needed = [column.schema.names if isinstance(column, RowProbe) else (column.name,) for column in plain]
    return list(dict.fromkeys(name for names in needed for name in names))


# What the driver asks Spark to compute.


def _key(rows: Rows, person: Identifier) -> Any:
    """The person of a row, compared as bytes; null for a row without an identifier, which is a person alone."""
    from pyspark.sql import functions as f

    kind, value = rows.structure.field(person.name).type, f.col(quoted(person.name))
    none: list[Any] = [text.encode() for text in missing_texts(person, kind)]
    if is_text(kind):
        value = value.cast("binary")
    else:
        none = [number for number in map(int, none) if -(2**63) <= number < 2**63]
    return f.when(value.isin([f.lit(one) for one in none]), None).otherwise(value) if none else value


def _order(frame: Any, salt: str) -> Any:
    """A hash of the salt and of all that the row holds: it depends on no other row, and is the same in every pass."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, TimestampType

    parts = [f.lit(salt)]
    for field in frame.schema:
        value = f.col(quoted(field.name))
        if isinstance(field.dataType, TimestampType):  # as texts, two hours in autumn would be the same
            value = f.unix_micros(value)
        text = f.hex(value.cast("binary")) if isinstance(field.dataType, StringType) else value.cast("string")
        parts.append(f.coalesce(f.concat(f.lit("="), text, f.lit(";")), f.lit("-")))
    return f.sha2(f.concat(*parts), 256)


def _alone(key: Any, order: Any) -> tuple[Any, Any]:
    """Columns that tell persons apart; rows without one are spread, else a single executor would get them all."""
    from pyspark.sql import functions as f

    return key, f.when(key.isNull(), order)


def _with_repeats(rows: Rows, person: Identifier) -> Any:
    """The rows with the number of rows of each row's person."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key = _key(rows, person)
    number = f.count(f.lit(1)).over(Window.partitionBy(*_alone(key, _order(rows.frame, ""))))
    return rows.frame.withColumn(REPEATS, f.when(key.isNull(), 1).otherwise(number).cast("long"))


def _is_running(frame: Any) -> bool:
    try:
        return not frame.sparkSession.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - the gateway to Java is gone
        return False


def _stamp(frame: Any, location: str | None) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the last change of the table's files; nothing where it has none."""
    if location is None:
        return ()
    session, found = frame.sparkSession, []
    try:
        folder = session._jvm.org.apache.hadoop.fs.Path(location)
        listed = folder.getFileSystem(session._jsc.hadoopConfiguration()).listFiles(folder, True)
        while listed.hasNext():
            file = listed.next()
            found.append((file.getPath().toString(), file.getLen(), file.getModificationTime()))
    except Exception:  # noqa: BLE001 - the files are gone, or may not be listed
        return (("", -1, -1),)
    return tuple(sorted(found))
