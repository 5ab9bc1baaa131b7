"""What callers pass to the door: scores, releases of rows, splits of the rows, and recorders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.schema.domain import ColumnSet, Domain

Rng = np.random.Generator | None


class Score(Protocol):
    """One number per candidate, a function of exact marginals and of public settings.

    Scores are multiples of 1/resolution; `sensitivity` is the largest change of any score by one added or removed row.
    """

    resolution: ClassVar[int]
    sensitivity: ClassVar[Fraction]

    @property
    def cliques(self) -> tuple[ColumnSet, ...]:
        """The marginals that `evaluate` needs, in the order it needs them."""
        ...

    def evaluate(self, counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the exact scores times `resolution`. Private: only the door calls this."""
        ...


class RowRelease(Protocol):
    """A request that reads single rows. The door prices it, charges the whole remaining budget, and lets it read."""

    @property
    def mechanism(self) -> str: ...

    @property
    def releases(self) -> int: ...

    @property
    def detail(self) -> str: ...

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> RowRelease:
        """Return the request with its noise, from public numbers alone; refuse what does not fit the budget."""
        ...

    def release(self, codes: NDArray[np.int32], domain: Domain, insecure_rng: Rng) -> Any:
        """Return what is released. Only the door calls this."""
        ...


class RowSplit(Protocol):
    """A random split of the rows into disjoint parts."""

    @property
    def parts(self) -> int: ...

    def budget_of_part(self, budget: Budget, neighbours: Neighbours) -> Budget:
        """Return what each part may spend when all together may spend `budget`, from public numbers alone."""
        ...

    def part_of_rows(self, rows: int, insecure_rng: Rng) -> NDArray[np.int64]:
        """Return the part of every row, 0, 1, ..., and a larger number for rows that are in none."""
        ...


class Recorder(Protocol):
    """Receives every noisy answer after it was drawn, and nothing else: it holds no data."""

    def measured(self, measurements: Sequence[NoisyMarginal], /) -> None:
        """Take noisy marginals or contrasts."""
        ...

    def scored(self, score: Score, values: NDArray[np.float64], stddev: float, /) -> None:
        """Take noisy scores."""
        ...

    def coarsened(self, domain: Domain, maps: Mapping[str, np.ndarray], /) -> Recorder:
        """Return the recorder for the same table with columns of `domain` recoded by `maps`."""
        ...


@runtime_checkable
class RowSource(Protocol):
    """A source that can also give single rows, unlike a database that only answers counts."""

    @property
    def codes(self) -> np.ndarray:
        """The encoded rows, one column per column of the domain. Not to be written to."""
        ...

    def taken(self, chosen: np.ndarray) -> Any:
        """Return a source of the rows for which `chosen` is true."""
        ...


def row_source(source: object) -> RowSource:
    """Return the source if it can give rows, or raise an InputError."""
    if not isinstance(source, RowSource):
        raise InputError("This kind of table only answers counts; a method that reads rows needs a file or a frame.")
    return source
