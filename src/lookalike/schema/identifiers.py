"""Made-up identifiers: they follow a public pattern and no row of the private table."""

from __future__ import annotations

import string
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lookalike.schema.columns import Identifier


def made_up(column: Identifier, count: int, kind: pa.DataType, rng: np.random.Generator) -> pa.Array:
    """Distinct values as long as the pattern allows that many; a person's come back in as many rows as persons have.

    The wild places of the pattern are the digits of a number that runs through all of its values in a shuffled order.
    """
    if column.repeats:
        sizes = _sizes(column, count, rng)
        people = made_up(replace(column, repeats=(), most_rows=1), len(sizes), kind, rng)
        return people.take(pa.array(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[:count])))
    if pa.types.is_integer(kind):
        limit = min(10 ** max(1, column.pattern.count("#")), 2 ** (kind.bit_width - 1))
        return pa.array(_distinct(count, limit, rng)).cast(kind)
    alphabets = [_alphabet(mark) for mark in column.pattern]
    limit = 1
    for letters in alphabets:
        limit = min(limit * len(letters), 2**62)
    numbers = _distinct(count, limit, rng)
    places: list[np.ndarray] = []
    for letters in reversed(alphabets):
        numbers, digit = np.divmod(numbers, len(letters))
        places.append(np.array(list(letters))[digit])
    texts = ["".join(row) for row in zip(*reversed(places), strict=True)] if count else []
    return pa.array(texts, type=pa.string()).cast(kind)


def _sizes(column: Identifier, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows of persons, until there are enough rows."""
    shares = np.array(column.repeats) / sum(column.repeats)
    sizes = 1 + rng.choice(len(shares), count, p=shares)
    return sizes[: int(np.searchsorted(np.cumsum(sizes), count)) + 1]


def _alphabet(mark: str) -> str:
    return {"#": string.digits, "@": string.ascii_lowercase}.get(mark, mark)


def _distinct(count: int, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers below `limit`, distinct where there are enough: a start and steps coprime to the limit."""
    step = int(rng.integers(limit // 3 + 1, limit // 2 + 2))
    while np.gcd(step, limit) != 1:
        step += 1
    start = int(rng.integers(limit))
    return np.array([(start + i * step) % limit for i in range(count)], dtype=np.int64)
