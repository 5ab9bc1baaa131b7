"""Guards every read of private rows: whatever fails while rows are read, the caller gets one constant error.

A single row must not decide whether a run ends, or with which message. So warnings are dropped, and every exception
becomes `RunStoppedError`, without the exception that caused it, after the whole remaining budget was charged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from lookalike.errors import OutOfDomainError, RunStoppedError, SourceError
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Accountant

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
