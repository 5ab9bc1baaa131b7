"""Counts with two-sided geometric noise, accounted by advanced composition as the plausible-deniability paper does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from lookalike.errors import BudgetExceededError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level.rows import Codes
from lookalike.privacy.row_level.seeded_rows import two_sided_geometric
from lookalike.schema.domain import ColumnSet, Domain, mixed_radix


def advanced_epsilon(each: float, releases: int, delta: float) -> float:
    """Return an epsilon, at `delta`, of releases that are `each`-differentially private without a delta.

    e sqrt(2 m ln(1/delta)) + m e (exp(e) - 1), the advanced composition of section 3.5, or the plain sum m e if less.
    """
    drift = releases * each * math.expm1(min(each, 700.0))  # above 700 floats overflow, and the sum is far smaller
    grown = each * math.sqrt(2 * releases * math.log(1 / delta)) + drift
    return min(grown, releases * each)


def epsilon_of_each(epsilon: float, releases: int, delta: float) -> float:
    """Return an epsilon of each release, about the largest, with which all together have at most `epsilon`."""
    low, high = epsilon / releases * (1 - 1e-9), epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if advanced_epsilon(middle, releases, delta) <= epsilon else (low, middle)
    return low * (1 - 1e-9)


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceCounts:
    """Noisy counts of marginals, some columns in buckets, for all that is left of the budget.

    Each is released with geometric noise (Laplace noise for whole numbers) and has no delta. What was spent before has
    some epsilon at half of the delta, advanced composition gives these releases the rest of epsilon at the other half.

    Attributes:
        sets: the marginals.
        buckets: for each marginal public maps from code to bucket, by column.
        each: epsilon of each marginal; set when priced.
        scale: scale of its noise; set when priced.
    """

    sets: tuple[ColumnSet, ...]
    buckets: tuple[Mapping[str, np.ndarray], ...]
    each: float = 0.0
    scale: float = 0.0

    @property
    def mechanism(self) -> str:
        return "laplace"

    @property
    def releases(self) -> int:
        return len(self.sets)

    @property
    def detail(self) -> str:
        return f"epsilon {self.each:.6g} each by advanced composition, scale {self.scale:.6g}"

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> LaplaceCounts:
        """Return the request with its noise, from public numbers alone."""
        delta = (budget.delta - budget.threshold_delta) * (0.5 if spent else 1.0)
        before = epsilon_spent(spent, delta, budget.accounting)
        if not before < budget.epsilon:
            raise BudgetExceededError("Laplace counts", before, budget.epsilon, "epsilon", "Nothing was read for them.")
        each = epsilon_of_each((budget.epsilon - before) * (1 - 1e-9), len(self.sets), delta)
        return replace(self, each=each, scale=neighbours.rows / each * (1 + 1e-9))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> list[NoisyMarginal]:
        """Return the noisy counts. Only the door calls this."""
        # The variance of two-sided geometric noise is 2q/(1-q)^2 with q = exp(-1/scale).
        stddev = math.sqrt(2 * math.exp(-1 / self.scale)) / -math.expm1(-1 / self.scale)
        made: list[NoisyMarginal] = []
        for attrs, maps in zip(self.sets, self.buckets, strict=True):
            columns = [codes[:, domain.position(name)] for name in attrs]
            values = [maps[n][c] if n in maps else c for n, c in zip(attrs, columns, strict=True)]
            shape = tuple(int(maps[n].max()) + 1 if n in maps else domain.size(n) for n in attrs)
            cells = mixed_radix(values, shape, len(codes))
            counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.int64)
            noisy = counts + two_sided_geometric(self.scale, shape, insecure_rng=insecure_rng)
            made.append(NoisyMarginal(attrs, noisy.astype(np.float64), max(stddev, 1e-3)))
        return made
