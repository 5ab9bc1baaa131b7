"""A probability for every possible row, for small domains, and its update by multiplicative weights (MWEM)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.sampling.draws import systematic
from lookalike.schema.domain import Domain
from lookalike.stored import Stored


@dataclass(frozen=True, slots=True, eq=False)
class DenseModel:
    """A table of probabilities over the whole domain.

    Attributes:
        domain: names and sizes of the columns.
        probabilities: one number per cell of the domain, in domain order, adding up to 1.
        total: estimated number of rows of the private table; marginals sum to it.
    """

    kind: ClassVar[str] = "dense"

    domain: Domain
    probabilities: np.ndarray
    total: float

    def __post_init__(self) -> None:
        if self.probabilities.shape != self.domain.sizes:
            raise ValueError(f"probabilities have shape {self.probabilities.shape}, the domain {self.domain.sizes}")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the expected counts of any column set, with axes in domain order; they sum to `total`."""
        kept = set(self.domain.canonical(attrs))
        dropped = tuple(axis for axis, name in enumerate(self.domain.names) if name not in kept)
        return self.total * self.probabilities.sum(axis=dropped)

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(attrs) for attrs in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows of codes in random order; no cell is off its expected count by more than one row."""
        cells = systematic(self.probabilities.ravel(), rows, rng)
        columns = np.unravel_index(rng.permutation(cells), self.domain.sizes)
        return np.asfortranarray(np.column_stack(columns).astype(np.int32))

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain = stored.domain()
        probabilities = stored.table("probabilities", domain.sizes, 0.0, 1.0)
        stored.require(abs(float(probabilities.sum()) - 1.0) < 1e-3, "has probabilities that do not add up to 1")
        return cls(domain, probabilities, stored.total())


def multiplicative_weights(
    domain: Domain, start: np.ndarray, measurements: Sequence[NoisyMarginal], total: float, *, replays: int
) -> np.ndarray:
    """Return the probabilities of all cells after `replays` passes over the measurements.

    One update multiplies every cell by exp((y - x) / (2 N)), where y is the noisy and x the model's count of the
    marginal cell that it lies in, then normalises: the paper's rule for all cells of a marginal at once, which do not
    overlap. The number of passes is the only regularisation; the size of the noise is not used.

    Args:
        domain: names and sizes.
        start: probabilities to start from, in the domain's shape.
        measurements: noisy marginals without groups.
        total: number of rows N.
        replays: passes over all measurements.
    """
    table = start.copy()
    for _ in range(replays):
        for measurement in measurements:
            held = set(measurement.attrs)
            dropped = tuple(axis for axis, name in enumerate(domain.names) if name not in held)
            model = total * table.sum(axis=dropped, keepdims=True)
            step = (measurement.values.reshape(model.shape) - model) / (2.0 * total)
            # With few rows the noise can exceed the counts by far; a factor beyond exp(20) could overflow.
            table *= np.exp(np.clip(step, -20.0, 20.0))
            table /= table.sum()
    return table
