"""What releases of rows share, the split of a table into disjoint parts, and a histogram of the cells that occur.

Only the door calls the functions that read rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.kernel.accounting import Budget, Neighbours, stddev_for
from lookalike.privacy.kernel.mechanisms import bit_source, rounded_gaussian
from lookalike.privacy.kernel.thresholds import threshold, threshold_probability
from lookalike.privacy.row_level.prefixes import PrefixCounts
from lookalike.schema.domain import Domain

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class SystemRandom:
    """Uniform numbers from the operating system's entropy: which row is a seed must stay secret."""

    def __init__(self, insecure_rng: np.random.Generator | None = None) -> None:
        self._bits = bit_source(insecure_rng)

    def random(self, size: int, /) -> Floats:
        """Multiples of 2^-53 in [0, 1)."""
        bits = np.frombuffer(self._bits(8 * size), dtype=np.uint64) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53

    def below(self, limit: int, size: int) -> Integers:
        """Integers 0..limit-1, exactly equally likely: 63-bit draws beyond the last whole multiple are drawn again."""
        top = np.uint64(2**63 // limit * limit)
        drawn = np.empty(0, dtype=np.uint64)
        while len(drawn) < size:
            bits = np.frombuffer(self._bits(8 * (size - len(drawn))), dtype=np.uint64) >> np.uint64(1)
            drawn = np.concatenate([drawn, bits[bits < top]])
        return (drawn % np.uint64(limit)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class OccurringCells:
    """Noisy counts of the cells of one marginal that occur, however many cells it has.

    Gaussian noise on the cells that occur, kept where the noisy count passes a threshold: as for open lists of values
    (`thresholds.py`), this is the Gaussian mechanism except for cells that a single row occupies, which cost delta. The
    rest of delta gives the remaining rho, and all of it is spent.

    Attributes:
        attrs: the columns, in any order.
        delta_share: part of delta for cells that a single row occupies.
        stddev: noise on each count; set when priced.
        threshold: smallest noisy count that is kept; set when priced.
    """

    attrs: tuple[str, ...]
    delta_share: float = 0.1
    stddev: float = 0.0
    threshold: float = 0.0

    @property
    def mechanism(self) -> str:
        return "thresholded histogram"

    @property
    def releases(self) -> int:
        return 1

    @property
    def detail(self) -> str:
        return f"stddev {self.stddev:.6g}, cells kept from {self.threshold:.6g} on"

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> OccurringCells:
        require_single_row(neighbours, "Histograms of the cells that occur")
        delta = budget.delta - budget.threshold_delta
        rest = Budget(budget.epsilon, delta * (1 - self.delta_share), budget.accounting).rho - spent
        if rest <= 0:
            raise BudgetExceededError("The histogram", float(spent), float(rest + spent), "rho", "Nothing was read.")
        stddev = stddev_for(rest)
        lone = threshold_probability(delta * self.delta_share, budget.epsilon)
        return replace(self, stddev=stddev, threshold=threshold(stddev, lone, neighbours))

    def release(
        self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None
    ) -> tuple[Codes, NDArray[np.float64]]:
        """The kept cells, one row of codes each with columns as in `attrs`, and their noisy counts."""
        positions = [domain.position(name) for name in self.attrs]
        cells, counts = PrefixCounts(codes[:, positions], domain.shape(self.attrs)).cells(len(positions))
        noisy = counts + rounded_gaussian(self.stddev, counts.shape, insecure_rng=insecure_rng)
        kept = noisy >= self.threshold
        return cells[kept], noisy[kept].astype(np.float64)


def stddev_for_rest(what: str, budget: Budget, spent: Fraction, neighbours: Neighbours, releases: int) -> float:
    """Return the smallest noise at which the remaining budget pays for this many releases of sensitivity 1."""
    rest = budget.rho - spent
    if rest <= 0:
        raise BudgetExceededError(what, 0.0, 0.0, "rho", "Nothing was read or released.")
    return stddev_for(rest, neighbours.rows, releases)


def require_single_row(neighbours: Neighbours, what: str) -> None:
    """Refuse neighbours for which the price is not proved."""
    if neighbours.rows != 1:
        raise BudgetError(
            f"{what} are priced for adding or removing one row, and this run hides {neighbours.describe()}. Choose "
            "settings of the method that need none, or another method."
        )


@dataclass(frozen=True, slots=True)
class RandomParts:
    """Disjoint random parts of the rows: the part of each row is independent of the other rows.

    A row is in part j with probability p_j and in none otherwise. So the distribution with the row is a mixture of
    distributions that are (e, d)-close to the one without it, and
        exp(epsilon) = 1 + sum p_j (exp(e) - 1),   delta = d * sum p_j,
    for the same e and d in every part (adding and removing alike, by convexity). Bindschaedler, Shokri, Gunter (2017)
    take the largest part's e and amplify it by one part's rate, which counts the other parts for nothing.

    Attributes:
        shares: the probabilities p_j.
    """

    shares: tuple[float, ...]

    @property
    def parts(self) -> int:
        return len(self.shares)

    def budget_of_part(self, budget: Budget, neighbours: Neighbours) -> Budget:
        require_single_row(neighbours, "Disjoint parts")
        total = math.fsum(self.shares)
        if not self.shares or min(self.shares) <= 0 or total > 1 + 1e-12:
            raise BudgetError(f"The parts have shares {self.shares}; they must be positive and add up to at most 1.")
        epsilon = math.log1p(math.expm1(budget.epsilon) / total) * (1 - 1e-12)
        return Budget(epsilon, min(budget.delta / total * (1 - 1e-12), 0.5), budget.accounting)

    def part_of_rows(self, rows: int, insecure_rng: np.random.Generator | None) -> Integers:
        return np.searchsorted(np.cumsum(self.shares), SystemRandom(insecure_rng).random(rows), side="right")
