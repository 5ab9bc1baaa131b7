"""Errors a user can act on: each message names the value, the limit and the way out.

Everything raised for a user's mistake derives from `LookalikeError`; anything else that escapes is a bug of ours.
"""

from __future__ import annotations


class LookalikeError(Exception):
    """Base of all errors that a user can mend. The command line prints it in one paragraph and exits with 2."""


class SchemaError(LookalikeError):
    """The schema, or a request against it, does not make sense."""


class InputError(LookalikeError):
    """A file or frame cannot be read as the table it is said to be."""


class OutOfDomainError(LookalikeError):
    """The table holds a value that the schema does not allow.

    The message names the column and the rule, never the value: the value is private.
    """

    def __init__(self, column: str, rule: str, remedy: str) -> None:
        super().__init__(f"Column {column!r} holds a value outside the schema ({rule}). {remedy}")
        self.column = column
        self.rule = rule


class RunStoppedError(LookalikeError):
    """Something failed while private rows were read. The message is always the same: the cause may be a single row."""

    def __str__(self) -> str:
        return (
            "The run stopped while it read private rows, and its whole budget is charged. The reason is not shown: it "
            "may depend on a single row. Try the same schema and method on a made-up table with the same columns and "
            "types; if that run ends well, look for unusual values in the private table yourself."
        )


class BudgetError(LookalikeError):
    """A privacy parameter is out of range."""


class BudgetExceededError(BudgetError):
    """A request would spend more than is left; nothing was read."""

    def __init__(self, what: str, requested: float, remaining: float, unit: str, remedy: str) -> None:
        super().__init__(f"{what} needs {unit} {requested:.6g}, but only {remaining:.6g} is left. {remedy}")
        self.requested = requested
        self.remaining = remaining
        self.unit = unit


class LedgerError(LookalikeError):
    """The ledger cannot be read, was changed after the fact, or cannot be written."""


class ModelTooLargeError(LookalikeError):
    """A model would exceed the limits of time or memory; nothing large was allocated."""

    def __init__(self, what: str, predicted: float, limit: float, unit: str, remedy: str) -> None:
        super().__init__(f"{what} would need {predicted:.3g} {unit}; the limit is {limit:.3g} {unit}. {remedy}")
        self.predicted = predicted
        self.limit = limit
        self.unit = unit


class ModelFileError(LookalikeError):
    """A stored model cannot be read."""


class MissingExtraError(LookalikeError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}. Install it with: pip install 'lookalike[{extra}]'")
        self.package = package
        self.extra = extra
