"""Rules about rows that everybody may know, such as that a discharge is never before its admission."""

from __future__ import annotations

from typing import Any, Protocol


class Constraint(Protocol):
    """A public rule about the columns of one row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the rule is about."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The rule as it stands in a schema file."""
        ...
