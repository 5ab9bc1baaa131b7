"""The engine for files larger than memory: every pass reads the rows again, in batches.

No copy of the rows is made: Parquet and Arrow files are read again, and CSV files are parsed again. Parsing costs about
a quarter of writing a copy that could be read faster, a run with a schema makes few passes, and a copy of private rows
on a disk would have to be deleted in every case. The cap on the rows of a person is applied in bounded memory beside a
few bytes per row (`rows_of_persons`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from lookalike.errors import InputError, SourceError
from lookalike.schema.columns import Identifier
from lookalike.schema.domain import ColumnSet
from lookalike.schema.probes import RowProbe, RowsPerPerson, person_texts
from lookalike.schema.storage import is_text
from lookalike.sources.base import Counts, Keep, View
from lookalike.sources.counting import Lookups, Tally, codes_of_table, smallest_type, text_counts
from lookalike.sources.csvfiles import read_parts
from lookalike.sources.files import TableFile, check_offsets

BATCH_ROWS = 1 << 17
_BATCH_VALUES = 1 << 23
"""Values of a batch of a wide table, which has fewer rows then: decoding takes some 8 bytes for each."""
_MAX_CELLS = 1 << 16
MAX_HELD = 1 << 24
"""Rows whose persons are held at a time: 24 bytes each."""
_MAX_BITS = 16
"""Parts of persons are halved at most this often: the rows of one person cannot be divided."""

Watch = Callable[[float], None]
"""Called with the fraction of the bytes that a pass has read."""


class FileTable:
    """The rows of one or several files of the same columns. `repr` shows no data, not even how many rows."""

    __slots__ = ("_files", "_kept", "_stamps", "_watch", "form", "structure")

    def __init__(self, files: Sequence[TableFile], structure: pa.Schema, form: Any, watch: Watch | None = None) -> None:
        self._files, self.structure, self.form, self._watch = tuple(files), structure, form, watch
        self._stamps = [_stamp(file.path) for file in self._files]
        self._kept: list[np.ndarray] | None = None

    @property
    def max_cells(self) -> int:
        return _MAX_CELLS

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        tally = Tally(view.domain, sets)
        columns = [column for column in view.columns if column.name in tally.names]
        repeats = [column for column in columns if isinstance(column, RowsPerPerson)]
        if repeats and self._kept is None:
            return self.capped(repeats[0].base, _all_rows).scan(view, sets)
        lookups: Lookups = {}
        for table, kept in self._batches(_columns_read(columns)):
            codes = codes_of_table([column for column in columns if column not in repeats], table, lookups)
            for column in repeats:
                codes[column.name] = np.minimum(kept, column.regular) - 1
            for name in view.maps.keys() & codes.keys():
                codes[name] = view.maps[name].astype(smallest_type(view.domain.size(name)))[codes[name]]
            tally.add(codes, table.num_rows)
        return tally.counts()

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        found: dict[str, int] = {}
        for table, _ in self._batches([name]):
            for text, count in zip(*text_counts(table.column(name).combine_chunks()), strict=True):
                found[text] = found.get(text, 0) + int(count)
        return list(found), np.array(list(found.values()), dtype=np.int64)

    def capped(self, person: Identifier, keep: Keep) -> FileTable:
        taken = FileTable(self._files, self.structure, self.form, self._watch)
        taken._kept = rows_of_persons(lambda: (t.column(0) for t, _ in self._batches([person.name])), person, keep)
        return taken

    def close(self) -> None:
        """Do nothing: no file is held open between passes."""

    def _batches(self, names: Sequence[str]) -> Iterator[tuple[pa.Table, Any]]:
        """The rows of these columns that are kept, some at a time, and how many rows are kept of each one's person."""
        kept = iter(self._kept) if self._kept is not None else None
        for table in self._checked(names):
            if kept is None:
                yield table, None
            else:
                repeats = next(kept)
                yield table.filter(pa.array(repeats > 0)), repeats[repeats > 0]

    def _checked(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """All rows; a SourceError where a file changed since it was opened, or cannot be read any more."""
        names = list(names) or self.structure.names[:1]  # for the number of rows, some column must be read
        sizes = [max(stamp[0], 1) for stamp in self._stamps]
        for i, (file, stamp) in enumerate(zip(self._files, self._stamps, strict=True)):
            try:
                for table, part in _tables(file, names):
                    if self._watch:
                        self._watch((sum(sizes[:i]) + part * sizes[i]) / sum(sizes))
                    yield table
            except OSError as error:
                if error.errno is None:  # an error of Arrow about what the file holds
                    raise
                raise SourceError(f"Cannot read {file.path} any more. What was charged stays charged.") from None
            if _stamp(file.path) != stamp:
                raise SourceError(
                    f"{file.path} changed while the run read it, so its answers would come from two tables. What was "
                    "charged stays charged. Run again when nothing writes to the file."
                )

    def __repr__(self) -> str:
        return f"FileTable({len(self.structure)} columns)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A table holds private rows and cannot be pickled.")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Size, time of the last change and number of a file; an InputError where it cannot be found."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _all_rows(persons: np.ndarray, _: int) -> np.ndarray:
    return np.arange(len(persons))


def _columns_read(columns: Sequence[Any]) -> list[str]:
    """The columns of the files that some columns of a view need."""
    needed = [c.schema.names if isinstance(c, RowProbe) else (c.name,) for c in columns]
    return list(dict.fromkeys(name for names in needed for name in names))


def _tables(file: TableFile, names: Sequence[str]) -> Iterator[tuple[pa.Table, float]]:
    """The rows of one file with the given columns, some at a time, and the fraction of the file that was read."""
    if file.kind == "parquet":
        yield from _parquet_tables(file.path, names)
    elif file.kind == "feather":
        with pa.memory_map(str(file.path)) as mapped:
            reader = pa.ipc.open_file(mapped)
            for i in range(reader.num_record_batches):
                batch = pa.Table.from_batches([reader.get_batch(i)]).select(names)
                check_offsets(batch)
                for start in range(0, max(batch.num_rows, 1), BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS), (i + 1) / reader.num_record_batches
    else:
        size = max(os.stat(file.path).st_size, 1)
        with file.opened() as stream:
            for table, read in read_parts(stream, str(file.path), file.delimiter, names):
                yield table, min(read / size, 1.0)


def _parquet_tables(path: Path, names: Sequence[str]) -> Iterator[tuple[pa.Table, float]]:
    with parquet.ParquetFile(path) as plain:
        metadata, types = plain.metadata, plain.schema_arrow
    first = metadata.row_group(0) if metadata.num_row_groups else None
    chunks = [first.column(i) for i in range(first.num_columns)] if first is not None else []
    short = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
    coded, done = [name for name in names if name in short and is_text(types.field(name).type)], 0
    rows = min(BATCH_ROWS, _BATCH_VALUES // len(types) + 1)  # the same in every pass, whichever columns it reads
    # Buffered in advance, all bytes that were read would be held until the end of the pass.
    with parquet.ParquetFile(path, read_dictionary=coded, pre_buffer=False) as file:
        for batch in file.iter_batches(rows, columns=list(names)):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), done / max(metadata.num_rows, 1)


def rows_of_persons(
    batches: Callable[[], Iterable[pa.ChunkedArray]], person: Identifier, keep: Keep
) -> list[np.ndarray]:
    """Return for every row of every batch how many rows of its person are kept, 0 where the row is not.

    Persons are told apart by 128 bits of a hash with a secret key: the probability that any two of 10^9 persons are
    taken for one is below 10^-20. If there are more rows than may be held, the persons are treated in parts by their
    hashes, with a pass over the batches for each.
    """
    key, found, waiting = secrets.token_bytes(16), [], [(0, 0)]
    while waiting:
        part, bits = waiting.pop()
        held, first = _Held(part, bits), 0
        for number, column in enumerate(batches()):
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if len(found) <= number:  # rows without an identifier are separate persons, and stay
                found.append(np.ones(len(array), dtype=smallest_type(person.max_rows + 1)))
            held.add(*_hashed(person_texts(person, array), key), first)
            first += len(array)
        waiting += held.others
        _note(found, held, person.max_rows, keep)
    return found


class _Held:
    """The hashes of persons and the places of their rows, of the persons whose hash begins with some bits."""

    def __init__(self, part: int, bits: int) -> None:
        self.part, self.bits = part, bits
        self.others: list[tuple[int, int]] = []
        self._parts: list[np.ndarray] = []
        self._rows = 0

    def add(self, hashes: np.ndarray, places: np.ndarray, first: int) -> None:
        """Hold more rows. When there are too many, only those of half the persons are held; the rest is for later."""
        self._parts.append(self._mine(np.column_stack([hashes, (places + first).astype(np.uint64)])))
        self._rows += len(self._parts[-1])
        while self._rows > MAX_HELD and self.bits < _MAX_BITS:
            self.others.append((2 * self.part + 1, self.bits + 1))
            self.part, self.bits = 2 * self.part, self.bits + 1
            self._parts = [self._mine(np.concatenate(self._parts))]
            self._rows = len(self._parts[0])

    def _mine(self, rows: np.ndarray) -> np.ndarray:
        if not self.bits:
            return rows
        return rows[rows[:, 0] >> np.uint64(64 - self.bits) == np.uint64(self.part)]

    def persons(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of the person of every row that is held, and the places of the rows."""
        rows = np.concatenate(self._parts) if self._parts else np.empty((0, 3), np.uint64)
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        sorted_rows = rows[order]
        new = np.any(sorted_rows[1:, :2] != sorted_rows[:-1, :2], axis=1)
        numbers = np.concatenate([[0], np.cumsum(new)]) if len(rows) else np.empty(0, np.int64)
        return numbers, sorted_rows[:, 2].astype(np.int64)


def _hashed(texts: pa.Array, key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of 64 bits for the person of every row that has one, and the places of these rows."""
    coded = texts.dictionary_encode()
    digests = [hashlib.blake2b(text, digest_size=16, key=key).digest() for text in coded.dictionary.to_pylist()]
    hashes = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
    places = np.flatnonzero(coded.is_valid().to_numpy(zero_copy_only=False))
    return hashes[coded.indices.drop_null().to_numpy(zero_copy_only=False)], places


def _note(found: list[np.ndarray], held: _Held, max_rows: int, keep: Keep) -> None:
    """Write down which of the held rows are kept, and how many of each person."""
    persons, places = held.persons()
    if not len(persons):
        return
    kept = keep(persons, max_rows)
    repeats = np.zeros(len(persons), dtype=np.int64)
    repeats[kept] = np.minimum(np.bincount(persons[kept], minlength=int(persons[-1]) + 1)[persons[kept]], max_rows)
    ends = np.cumsum([len(batch) for batch in found])
    batch = np.searchsorted(ends, places, side="right")
    for number in np.unique(batch):
        mine = batch == number
        start = ends[number] - len(found[number])
        found[number][places[mine] - start] = repeats[mine]
