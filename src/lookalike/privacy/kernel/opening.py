"""Opens a guarded table: reads it, binds the schema, caps the rows of each person, encodes. No rows go elsewhere."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.privacy.kernel.accounting import Accountant, Book, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.kernel.reading import reading
from lookalike.privacy.kernel.requests import Rng
from lookalike.schema.columns import Identifier
from lookalike.schema.schema import Schema
from lookalike.sources.open import ReadTable, read


def open_table(
    where: Any,
    schema: Schema | None,
    budget: Budget,
    book: Book,
    *,
    neighbours: Neighbours,
    insecure_rng: Rng = None,
    keep_rows: bool = False,
    **reader: Any,
) -> GuardedTable:
    """Read and encode the table, and return the only object that may answer questions about it.

    A file that is no table is refused uncharged, and so is a schema that does not fit its names and types. Both follow
    from public structure: of a CSV file only the header can be refused. From then on nothing depends on a value, unless
    the schema says `outside: error`: a value outside it then stops the run, with an error that names the column and not
    the value, after the whole budget is charged. With `keep_rows` they can be encoded anew by a complete schema too;
    `reader` are settings of `sources.open.read`.
    """
    book.check_noise(secret=insecure_rng is None)
    accountant = Accountant(budget, book)
    table = reading(accountant, lambda: read(where, **reader), InputError)
    bound = table.bound(schema)
    opened = reading(accountant, lambda: with_capped_persons(table, bound).encoded(bound, keep=keep_rows))
    return GuardedTable(opened, accountant, neighbours, insecure_rng)


def with_capped_persons(table: ReadTable, schema: Schema) -> ReadTable:
    """Return the table with no more rows of a person than the schema's person column allows.

    This makes the bound on one person's rows, by which `neighbours.py` prices releases, true of the table. A schema has
    one person column at most. The engine that holds the rows keeps those that `kept_rows` chooses, or chooses alike.
    """
    for column in schema.columns:
        if isinstance(column, Identifier) and column.person:
            return table.capped(column, kept_rows)
    return table


def kept_rows(persons: np.ndarray, max_rows: int) -> np.ndarray:
    """Return the places of at most `max_rows` rows of each person, chosen at random, independent of the rows of others.

    Args:
        persons: the number of the person of every row.
        max_rows: how many rows of each are kept.
    """
    order = np.lexsort((np.random.default_rng(secrets.randbits(128)).random(len(persons)), persons))
    ordered = persons[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ranks = np.arange(len(persons)) - np.repeat(starts, np.diff(np.append(starts, len(persons))))
    return np.sort(order[ranks < max_rows])
