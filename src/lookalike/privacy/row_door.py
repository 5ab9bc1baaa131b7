"""The door's two methods that look at single rows. They take the same steps as all others: price, charge, read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from lookalike.errors import InputError
from lookalike.privacy.accountant import Accountant
from lookalike.privacy.neighbours import Neighbours
from lookalike.privacy.rows import RowRelease, part_budget, part_of_rows
from lookalike.schema.domain import Domain


@runtime_checkable
class RowSource(Protocol):
    """A source that can also show single rows. A database that only counts is none."""

    @property
    def domain(self) -> Domain: ...

    @property
    def codes(self) -> np.ndarray:
        """The encoded rows, one column per column of the domain. Not to be written to."""
        ...

    def taken(self, chosen: np.ndarray) -> Any:
        """A source of the rows for which `chosen` is true."""
        ...


class RowDoor:
    """The part of `GuardedTable` that reaches for rows, through `rows.py` alone."""

    _opened: Any
    _source: Any
    _accountant: Accountant
    _neighbours: Neighbours
    _insecure_rng: np.random.Generator | None

    def __init__(
        self,
        opened: Any,
        accountant: Accountant,
        neighbours: Neighbours,
        insecure_rng: np.random.Generator | None = None,
    ) -> None:
        self._opened, self._source = opened, opened.source
        self._accountant, self._neighbours, self._insecure_rng = accountant, neighbours, insecure_rng

    def release_rows(self, release: RowRelease, *, step: str) -> Any:
        """What a row-level exception releases. It prices itself from public numbers, and takes all that is left."""
        source = self._row_source()
        budget, spent = self._accountant.budget, self._accountant.spent
        settled = release.settled(source.domain, budget, spent, self._neighbours)
        self._accountant.charge_rest(step, settled.mechanism, settled.releases, settled.detail)
        return settled.release(source.codes, source.domain, self._insecure_rng)

    def parts(self, shares: Sequence[float], *, step: str) -> list[Self]:
        """Disjoint random parts of the rows, each with a budget of its own; together they take all of this one's."""
        source = self._row_source()
        each = part_budget(self._accountant.budget, shares, self._neighbours)
        accountants = self._accountant.split(each, len(shares), step)
        part = part_of_rows(len(source.codes), shares, self._insecure_rng)
        return [
            type(self)(
                replace(self._opened, source=source.taken(part == j)), accountant, self._neighbours, self._insecure_rng
            )
            for j, accountant in enumerate(accountants)
        ]

    def _row_source(self) -> RowSource:
        if not isinstance(self._source, RowSource):
            raise InputError(
                "This kind of table only answers counts; methods that look at rows need a file or a frame."
            )
        return self._source
