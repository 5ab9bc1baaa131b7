"""Which tables are neighbours, and how far counts and scores of two neighbours can be apart."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from lookalike.errors import BudgetError
from lookalike.measurements import Contrasts

Relation = Literal["add-remove", "replace"]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two tables are neighbours when they differ in the rows of one person.

    Attributes:
        relation: "add-remove" (the person's rows are there or not; the number of rows is private) or "replace" (the
            person's rows are exchanged for others).
        max_rows_per_person: at most this many rows of the table belong to one person. It must be true of the table:
            it is enforced where a person column is given, and otherwise not checked.
    """

    relation: Relation = "add-remove"
    max_rows_per_person: int = 1

    def __post_init__(self) -> None:
        if self.relation not in ("add-remove", "replace"):
            raise BudgetError(f"Neighbours {self.relation!r} are not known; use 'add-remove' or 'replace'.")
        if self.max_rows_per_person < 1:
            raise BudgetError(f"max_rows_per_person is {self.max_rows_per_person}; it must be at least 1.")

    @property
    def rows(self) -> int:
        """How many single-row additions and removals lead from a table to its neighbour.

        A score that one added or removed row moves by at most s moves by at most s times this.
        """
        return self.max_rows_per_person * (1 if self.relation == "add-remove" else 2)

    @property
    def squared_l2(self) -> int:
        """Largest squared L2 distance between the counts of one marginal in two neighbouring tables.

        All k rows may sit in one cell: k^2. Replacing moves them from one cell to another: k^2 + k^2.
        """
        return self.max_rows_per_person**2 * (1 if self.relation == "add-remove" else 2)

    def squared_contrasts(self, contrasts: Contrasts) -> Fraction:
        """Largest squared L2 distance between the contrasts of one table of counts in two neighbouring tables.

        k rows change them by at most k times as much as one does, by the triangle inequality.
        """
        one = contrasts.added if self.relation == "add-remove" else contrasts.replaced
        return self.max_rows_per_person**2 * one

    def describe(self) -> str:
        rows = self.max_rows_per_person
        person = "one row" if rows == 1 else f"one person with up to {rows} rows"
        return f"{'adding or removing' if self.relation == 'add-remove' else 'replacing'} {person}"
