"""The maximum of rows per person in tables that are read in batches, in bounded memory beside some bytes per row."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from lookalike.schema.columns import Identifier
from lookalike.schema.probes import person_texts
from lookalike.sources.base import Keep
from lookalike.sources.counting import smallest_type

MAX_HELD = 1 << 24
"""Rows whose persons are held at a time: 24 bytes each."""
_MAX_BITS = 16
"""Parts of persons are halved so often at most: the rows of one person cannot be."""


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
