"""Errors that a user can act on: each message names the value, the limit and the remedy.

Every error that a user can correct derives from `LookalikeError`; any other exception is a bug in this package.
"""

from __future__ import annotations

from typing import Any


class LookalikeError(Exception):
    """The base of all errors that a user can correct. The command line prints the message and exits with code 2."""


class LookalikeWarning(UserWarning):
    """A notice about a run that succeeded, such as what could not be seen. The command line prints it."""


class SchemaError(LookalikeError):
    """The schema, or a request that refers to it, is invalid."""


class InputError(LookalikeError):
    """An input cannot be used: a table that cannot be read, or an argument that is out of range."""


class OutOfDomainError(LookalikeError):
    """The table holds a value that the schema does not allow.

    The message names the column and the rule, never the value: the value is private.
    """

    def __init__(self, column: str, rule: str, remedy: str) -> None:
        super().__init__(f"Column {column!r} holds a value outside the schema ({rule}). {remedy}")
        self.column = column
        self.rule = rule


class SourceError(LookalikeError):
    """The place of the rows failed during a run, for a reason that no row can cause: a lost connection, a changed file.

    The message is made from public facts, never from what an engine says, which may quote values.
    """


class RunStoppedError(LookalikeError):
    """A run failed while it read private rows. The message is always the same: the cause may be a single row."""

    def __str__(self) -> str:
        return (
            "The run stopped while it read private rows, and its whole budget is charged. The reason is not shown: it "
            "may depend on a single row. Try the same schema and method on a made-up table with the same columns and "
            "types; if that run succeeds, look for unusual values in the private table."
        )


class DoubtfulError(LookalikeError):
    """A strict run stopped after discovery, because its noisy answers leave a column to be guessed.

    Attributes:
        lines: what could not be seen, what would have been done instead, and what to declare.
        unseen: the same as typed entries.
        schema: what was found, with the noisy counts that were paid for: a later run can go on from it.
        counted: the epsilon that the run counts for in the ledger, set when its account is closed.
    """

    def __init__(self, lines: tuple[str, ...], unseen: tuple[Any, ...], schema: Any) -> None:
        super().__init__(*lines)
        self.lines, self.unseen, self.schema = lines, unseen, schema
        self.counted: float | None = None

    def __str__(self) -> str:
        head = "The run is strict and stopped after discovery, since it cannot see enough:"
        spent = "" if self.counted is None else f" The run counts with epsilon {self.counted:.6g} in the ledger."
        return "\n  ".join([head, *self.lines]) + f"\nNo row was made.{spent}"


class BudgetError(LookalikeError):
    """A privacy parameter is out of range."""


class BudgetExceededError(BudgetError):
    """A request would spend more than is left. Nothing was read."""

    def __init__(self, what: str, requested: float, remaining: float, unit: str, remedy: str) -> None:
        super().__init__(f"{what} needs {unit} {requested:.6g}, but only {remaining:.6g} is left. {remedy}")
        self.requested = requested
        self.remaining = remaining
        self.unit = unit


class LedgerError(LookalikeError):
    """The ledger cannot be read or written, or was changed."""


class ModelTooLargeError(LookalikeError):
    """A model would exceed a limit of time or memory. Nothing large was allocated."""

    def __init__(self, what: str, predicted: float, limit: float, unit: str, remedy: str) -> None:
        super().__init__(f"{what} would need {predicted:.3g} {unit}; the limit is {limit:.3g} {unit}. {remedy}")
        self.predicted = predicted
        self.limit = limit
        self.unit = unit


class ModelFileError(LookalikeError):
    """A stored model cannot be read."""


class MissingExtraError(LookalikeError):
    """An optional dependency is needed but not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}. Install it with: pip install 'lookalike[{extra}]'")
        self.package = package
        self.extra = extra
