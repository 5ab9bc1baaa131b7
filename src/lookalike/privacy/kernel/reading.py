"""How private rows are read: a fault is one constant error, and each person keeps at most as many rows as declared.

A single row must not decide whether a run ends, or with which message. So warnings are dropped, and every exception
becomes `RunStoppedError`, without the exception that caused it, after the whole remaining budget was charged.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from lookalike.errors import OutOfDomainError, RunStoppedError, SourceError
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Accountant
from lookalike.schema.columns import Identifier
from lookalike.schema.schema import Schema
from lookalike.sources.open import ReadTable

Answer = TypeVar("Answer")

_PANIC = "PanicException"
"""Libraries in Rust, such as polars, raise this on a fault: it is not an `Exception`, but its text may hold a value."""


def reading(accountant: Accountant, read: Callable[[], Answer], *refused: type[Exception]) -> Answer:
    """Return what `read` returns, or raise the constant error of a stopped run.

    Lack of memory is reported as such, at the same price. A fault that no row can cause (`SourceError`: a connection
    that was lost) is reported as it is and costs nothing further. A value outside a schema that asks for errors
    (`outside: error`) is reported by column and rule. No noise hides which value that was, so such a run counts as one
    without a guarantee. What is not an `Exception`, such as a user's interrupt, is raised as it is, except a panic of a
    library.

    Args:
        accountant: pays for a run that stops.
        read: reads private rows.
        refused: errors for a file that is not a table; they are raised as they are and cost nothing.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return read()
    except BaseException as error:  # what a row caused must not show
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        passed = (SourceError, *refused)
        charged, shown = not isinstance(error, passed), _shown(error, passed)
    # Raised after the handler has ended: else the exception would carry the one that caused it.
    mechanism = NO_GUARANTEE if isinstance(shown, OutOfDomainError) else "stopped"
    if charged and (accountant.remaining > 0 or mechanism == NO_GUARANTEE):
        accountant.charge_rest("stopped", mechanism, 0, "the run stopped while it read private rows")
    raise shown


def _shown(error: BaseException, passed: tuple[type[Exception], ...]) -> Exception:
    """The exception to raise, without traceback, cause or context, whose frames hold private rows."""
    if isinstance(error, MemoryError):
        return MemoryError()
    if isinstance(error, OutOfDomainError):
        error.args = (f"{error} The ledger counts this run as infinite epsilon, since no noise hides why it stopped.",)
    elif not isinstance(error, passed):
        return RunStoppedError()
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


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
