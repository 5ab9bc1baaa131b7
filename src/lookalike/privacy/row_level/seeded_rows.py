"""Plausible deniability (Bindschaedler, Shokri, Gunter 2017): a row is released if many rows could have been its seed.

`seed_price.py` computes the price, `prefixes.py` counts the seeds. The randomised test draws exact two-sided geometric
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import localcontext
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri  # pyright: ignore

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.guards import MAX_TRIES
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Budget, Neighbours
from lookalike.privacy.kernel.mechanisms import (
    Bounds,
    Floats,
    Integers,
    bit_source,
    checked_scale,
    context,
    decimal_digits,
    decimal_of,
    draw,
)
from lookalike.privacy.row_level.prefixes import PrefixCounts, class_sizes, probability_classes
from lookalike.privacy.row_level.rows import Codes, SystemRandom, require_single_row
from lookalike.privacy.row_level.seed_price import SeedBudget, SeedTest
from lookalike.schema.domain import Domain


def two_sided_geometric(
    scale: float | Fraction, size: int | tuple[int, ...], *, insecure_rng: np.random.Generator | None = None
) -> Integers:
    """Return independent draws of K with P(K = k) proportional to exp(-|k| / scale).

    Added to an integer of sensitivity s it gives pure epsilon = s / scale (Ghosh, Roughgarden, Sundararajan 2009).
    Arguments as for `rounded_gaussian`.
    """
    return draw(Geometric(checked_scale("scale", scale)), size, bit_source(insecure_rng))


@dataclass(frozen=True, slots=True)
class Geometric:
    """P(K >= k) = q^k / (1 + q) with q = exp(-1/scale), so |K| = floor(-scale * log(V * (1 + q))).

    The magnitude is within FLOAT_ERROR of the kernel: two roundings of V move -log(V) by 2^-52, the logarithm is within
    4 units in the last place of at most 45.1 (NumPy's own limit, tested), and three more roundings follow: in all
    4.3e-14.
    """

    scale: float

    def magnitude(self, v: Floats) -> Floats:
        return -self.scale * (np.log(v) + math.log1p(math.exp(-1.0 / self.scale))) - 0.5

    def tail(self, k: int, bits: int) -> Bounds:
        digits = decimal_digits(bits) + 3
        error = Fraction(10, 10**digits)
        exponent = k / Fraction(self.scale)
        if exponent > 3 * digits:
            # exp(-3) is less than 1/10, so the tail is below the error.
            return Fraction(0), error
        # x * exp(-x) < 1/2, so an argument off by a relative 10^-digits moves neither exponential by more than that.
        with localcontext(context(digits)):
            middle = Fraction(decimal_of(-exponent).exp() / (1 + decimal_of(-1 / Fraction(self.scale)).exp()))
        return middle - error, middle + error


_SPENT_STEPS = 1 << 30
SEEDS_SHARE = 0.05
"""Part of delta for the chance that the lower bound on the number of seeds is wrong."""


class SeedModel(Protocol):
    """A model for seeded rows: an order of columns, and how to draw the values after the kept ones."""

    @property
    def order(self) -> tuple[str, ...]: ...

    def resample(self, codes: np.ndarray, kept: np.ndarray, rng: SystemRandom) -> None: ...

    def log_probabilities(self, codes: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, slots=True, eq=False)
class SeededRows:
    """A request for rows generated from seeds; all of its fields are public.

    Attributes:
        model: draws the values after the kept ones.
        rows: how many rows to release.
        kept: the numbers of kept columns to draw from, one per row; 0 means that no seed is used.
        test: the privacy test.
        counted: a noisy count of the seed rows, from the door.
        mixture: whether the test is for the mixture over `kept` instead of for the drawn number.
        tune: whether the threshold noise of the test is chosen to be the cheapest.
        deterministic: Privacy Test 1: no noise on the threshold and no differential privacy.
    """

    model: SeedModel
    rows: int
    kept: tuple[int, ...]
    test: SeedTest
    counted: NoisyMarginal
    mixture: bool = False
    tune: bool = True
    deterministic: bool = False

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise BudgetError(f"{self.rows} seeded rows were asked for; ask for at least 1.")
        if not self.kept or min(self.kept) < 0 or len(set(self.kept)) != len(self.kept):
            raise BudgetError(f"kept is {self.kept}; give different numbers of columns, 0 or more each.")
        if self.mixture and not self.test.gamma > 1:
            raise BudgetError("The test for the mixture needs gamma above 1; use for instance 2.")

    @property
    def mechanism(self) -> str:
        return NO_GUARANTEE if self.deterministic else "plausible deniability"

    @property
    def releases(self) -> int:
        return self.rows

    @property
    def detail(self) -> str:
        if self.deterministic:
            return f"({self.test.k}, {self.test.gamma:g})-plausible deniability of each row; NOT differentially private"
        return f"k {self.test.k}, threshold epsilon {self.test.epsilon0:.6g}, seeded share {self.test.seeded_share:g}"

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> SeededRows:
        """The request with its threshold noise chosen, or a refusal with numbers. Uses public numbers only."""
        if self.deterministic:
            return self
        require_single_row(neighbours, "Seeded rows")
        rho = math.nextafter(float(coarsely_spent(spent, budget)), math.inf)
        return replace(self, test=affordable_test(self.test, self.rows, self.counted, budget, rho, tune=self.tune))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> Codes:
        positions = [domain.position(name) for name in self.model.order]
        return seeded_rows(codes, positions, domain.shape(self.model.order), self, insecure_rng)


# Before anything is read.


def coarsely_spent(spent: Fraction, budget: Budget) -> Fraction:
    """What was spent before, rounded up to a multiple of 2^-30 of the budget.

    A method plans what it spends, but the noise scales of families follow from noisy answers, and their roundings move
    the sum by 1e-15 of it. The Renyi order is chosen for the sum, and must depend on no answer.
    """
    return min(budget.rho, math.ceil(spent / budget.rho * _SPENT_STEPS) * budget.rho / _SPENT_STEPS)


def seeds_lower_bound(counted: NoisyMarginal, delta: float) -> int:
    """A lower bound on the number of seed rows minus one that is wrong with probability at most `delta`; at least 0.

    Minus one, so that it holds for the neighbour with one row less; the rounding of each noisy cell adds half a row.
    """
    spread = counted.stddev * math.sqrt(counted.cells) * float(-ndtri(delta))
    return max(0, math.floor(float(counted.values.sum()) - spread - counted.cells / 2 - 1))


def affordable_test(
    test: SeedTest, rows: int, counted: NoisyMarginal, budget: Budget, rho: float, *, tune: bool
) -> SeedTest:
    """The test with its threshold noise chosen, or a refusal with numbers. Uses public numbers only.

    Args:
        test: the privacy test.
        rows: how many rows are to be released.
        counted: a noisy count of the seed rows, from the door.
        budget: what the run may spend.
        rho: what the run has spent, or will have, on the same rows before the release.
        tune: whether the threshold noise is chosen to be the cheapest.

    The noisy count decides only whether there are seeds enough. Threshold noise and Renyi order are those at the least
    number of seeds that affords the rows: an order chosen after a noisy count would not add up with the count's own.
    """
    delta = budget.delta - budget.threshold_delta
    n = seeds_lower_bound(counted, delta * SEEDS_SHARE)
    account = SeedBudget(n, rho, budget.epsilon, delta * (1 - SEEDS_SHARE), tune)
    needed = account.min_seeds(test, rows)
    if needed is not None and needed <= n:
        return replace(account, n=needed).tuned(test, rows)
    price = account.price(test, rows)
    affordable, k = account.max_rows(test), account.min_k(test, rows)
    more = f"this many rows would need k = {k:,}" if k is not None else "no k affords this many"
    seeds = f"{needed:,} seed rows" if needed is not None else "more seed rows than any table has"
    raise BudgetExceededError(
        f"{rows:,} rows from seeds with k = {test.k} at delta {budget.delta:g}",
        price,
        budget.epsilon,
        "epsilon",
        f"With this k at most {affordable:,} rows are affordable; {more}. The request needs {seeds}; {n:,} are "
        "certain. For any number of rows set seeds='histogram' (one noisy histogram in place of seeds) or omega='all' "
        "(no seeds). No seed was read.",
    )


# With private rows.


def seeded_rows(
    codes: Codes,
    positions: Sequence[int],
    sizes: Sequence[int],
    request: SeededRows,
    insecure_rng: np.random.Generator | None = None,
) -> Codes:
    """The released rows, drawn from system entropy. Nothing about failed tests is released.

    Args:
        codes: the private rows, columns in domain order.
        positions: place in `codes` of each column of the model's order.
        sizes: number of values of each of these.
        request: as priced.
        insecure_rng: for benchmarks: the rows are then NOT PRIVATE.
    """
    random = SystemRandom(insecure_rng)
    depth = len(positions) if request.mixture else max(request.kept)
    prefixes = PrefixCounts(codes[:, list(positions[:depth])], sizes[:depth])
    if request.deterministic:
        return _tested_without_noise(codes, positions, request, prefixes, random)
    made, kept, passed = _candidates(codes, positions, request, prefixes, random, request.rows, insecure_rng)
    tried = random.random(request.rows) < request.test.seeded_share
    kept = np.where(passed & tried, len(positions) if request.mixture else kept, 0)
    request.model.resample(made, kept, random)
    return made


def _candidates(
    codes: Codes,
    positions: Sequence[int],
    request: SeededRows,
    prefixes: PrefixCounts,
    random: SystemRandom,
    count: int,
    insecure_rng: np.random.Generator | None,
) -> tuple[Codes, Integers, NDArray[np.bool_]]:
    """Candidate rows with their numbers of kept columns and whether they pass. For a mixture the rows are complete."""
    made = np.zeros((count, codes.shape[1]), dtype=np.int32, order="F")
    kept = np.array(request.kept, dtype=np.int64)[random.below(len(request.kept), count)]
    if prefixes.rows == 0:
        return made, kept, np.zeros(count, dtype=np.bool_)
    seeds = random.below(prefixes.rows, count)
    for place in range(max(request.kept)):
        taken = np.flatnonzero(kept > place)
        made[taken, positions[place]] = codes[seeds[taken], positions[place]]
    if request.mixture:
        request.model.resample(made, kept, random)
        ordered, own = made[:, list(positions)], codes[:, list(positions)][seeds]
        agreeing: Integers = np.logical_and.accumulate(ordered == own, axis=1).sum(axis=1, dtype=np.int64)
        classes = probability_classes(request.model.log_probabilities(made), request.kept, request.test.gamma)
        sizes = class_sizes(prefixes.of_codes(ordered), classes)
        plausible = sizes[np.arange(count), np.minimum(agreeing, max(request.kept))]
    else:
        plausible = prefixes.of_rows(seeds, kept)
    counted = _met(plausible, prefixes.rows, request.test, insecure_rng)
    if request.deterministic:
        return made, kept, counted >= request.test.k
    noise = two_sided_geometric(1 / Fraction(request.test.epsilon0), count, insecure_rng=insecure_rng)
    return made, kept, counted + noise >= request.test.k


def _met(plausible: Integers, rows: int, test: SeedTest, insecure_rng: np.random.Generator | None) -> Integers:
    """Return how many plausible seeds the paper's loop meets: at most max_check random rows, until max_plausible.

    The order need not be secret: the price holds for every order.
    """
    if test.max_check is not None and test.max_check < rows:
        order = np.random.Generator(np.random.PCG64(int.from_bytes(bit_source(insecure_rng)(32), "little")))
        plausible = order.hypergeometric(plausible, rows - plausible, test.max_check)
    return plausible if test.max_plausible is None else np.minimum(plausible, test.max_plausible)


def _tested_without_noise(
    codes: Codes, positions: Sequence[int], request: SeededRows, prefixes: PrefixCounts, random: SystemRandom
) -> Codes:
    """Privacy Test 1: candidates until enough pass. Each row is deniable; the whole is not private."""
    found: list[Codes] = []
    missing, tries = request.rows, 0
    while missing > 0:
        count = min(max(2 * missing, 1000), 1_000_000)
        tries += count
        made, kept, passed = _candidates(codes, positions, request, prefixes, random, count, None)
        passing = np.flatnonzero(passed)[:missing]
        made, kept = made[passing], kept[passing]
        if not request.mixture:
            request.model.resample(made, kept, random)
        found.append(made)
        missing -= len(passing)
        if tries > MAX_TRIES * request.rows + 1_000_000:
            raise BudgetError(
                f"Almost no row has k = {request.test.k} plausible seeds. Use a smaller k or a larger omega."
            )
    return np.asfortranarray(np.concatenate(found))
