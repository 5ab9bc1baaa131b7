"""The row-level exceptions: releases that look at single rows. Only the door calls what reads rows here.

Here: plausible deniability (Bindschaedler, Shokri, Gunter 2017), the split into disjoint parts, and the threshold of a
histogram of the cells that occur. What it costs is in `seed_price.py`, how seeds are counted in `tables/prefixes.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri  # pyright: ignore

from lookalike.errors import BudgetError, BudgetExceededError, InputError
from lookalike.privacy.budget import Budget, stddev_for
from lookalike.privacy.ledger import NO_GUARANTEE
from lookalike.privacy.neighbours import Neighbours
from lookalike.privacy.noise import bit_source, rounded_gaussian, two_sided_geometric
from lookalike.privacy.seed_price import SeedBudget, SeedTest, epsilon_of
from lookalike.privacy.thresholds import threshold, threshold_probability
from lookalike.schema.domain import Domain
from lookalike.tables.measurement import NoisyMarginal
from lookalike.tables.prefixes import PrefixCounts, class_sizes, probability_classes

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SEEDS_SHARE = 0.05
"""Part of delta for the chance that the lower bound on the number of seeds is wrong."""

MAX_TRIES = 1000
"""With the deterministic test, candidates per released row before giving up."""


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


def row_source(source: object) -> RowSource:
    """The source, if it can show rows."""
    if not isinstance(source, RowSource):
        raise InputError("This kind of table only answers counts; methods that look at rows need a file or a frame.")
    return source


class SeedModel(Protocol):
    """What seeding asks of a model: an order of columns, and how rows go on after their kept values."""

    @property
    def order(self) -> tuple[str, ...]: ...

    def resample(self, codes: np.ndarray, kept: np.ndarray, rng: SystemRandom) -> None: ...

    def log_probabilities(self, codes: np.ndarray) -> np.ndarray: ...


class SystemRandom:
    """Uniform numbers from the operating system's entropy. Which row is the seed must stay a secret for good."""

    def __init__(self, insecure_rng: np.random.Generator | None = None) -> None:
        self._bits = bit_source(insecure_rng)

    def random(self, size: int, /) -> Floats:
        """Multiples of 2^-53 in [0, 1)."""
        bits = np.frombuffer(self._bits(8 * size), dtype=np.uint64) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53

    def below(self, limit: int, size: int) -> Integers:
        """Integers 0..limit-1, exactly equally likely: 63-bit draws beyond the last whole multiple are drawn again."""
        most = np.uint64(2**63 // limit * limit)
        drawn = np.empty(0, dtype=np.uint64)
        while len(drawn) < size:
            bits = np.frombuffer(self._bits(8 * (size - len(drawn))), dtype=np.uint64) >> np.uint64(1)
            drawn = np.concatenate([drawn, bits[bits < most]])
        return (drawn % np.uint64(limit)).astype(np.int64)


class RowRelease(Protocol):
    """A request that looks at rows. The door settles it, charges all that is left of the budget, and lets it read."""

    @property
    def mechanism(self) -> str: ...

    @property
    def releases(self) -> int: ...

    @property
    def detail(self) -> str: ...

    def settled(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> RowRelease:
        """The request with all its parameters, from public numbers alone; refused where it does not fit the budget."""
        ...

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> Any:
        """What leaves the door. Only the door calls this."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SeededRows:
    """Rows grown from seeds; all of the request is public.

    Attributes:
        model: the model that goes on after the kept values.
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

    def settled(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> SeededRows:
        """The request with its threshold noise settled, or a refusal with numbers. Looks at nothing private."""
        if self.deterministic:
            return self
        require_single_row(neighbours, "Seeded rows")
        rho = math.nextafter(float(spent), math.inf)
        return replace(self, test=affordable_test(self.test, self.rows, self.counted, budget, rho, tune=self.tune))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> Codes:
        positions = [domain.position(name) for name in self.model.order]
        return seeded_rows(codes, positions, domain.shape(self.model.order), self, insecure_rng)


@dataclass(frozen=True, slots=True, eq=False)
class OccurringCells:
    """Noisy counts of those cells of one marginal that occur, however many there might be.

    Gaussian noise on the cells that occur, kept where the noisy count passes a threshold: as for open lists of values
    (`thresholds.py`), this is the Gaussian mechanism but for cells that one row alone holds, which cost delta. The rest
    of delta says how much rho is left, and all of it is spent.

    Attributes:
        attrs: the columns, in any order.
        delta_share: part of delta for cells that one row alone holds.
        stddev: noise on each count; set when settled.
        threshold: least noisy count that is kept; set when settled.
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

    def settled(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> OccurringCells:
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


# What the door asks before it reads.


def seeds_at_least(counted: NoisyMarginal, delta: float) -> int:
    """A number that exceeds the rows behind `counted`, less one, with probability `delta` at most; never below 0.

    Less one, so that it serves the neighbour with one row less; the rounding of each noisy cell adds half a row.
    """
    spread = counted.stddev * math.sqrt(counted.cells) * float(-ndtri(delta))
    return max(0, math.floor(float(counted.values.sum()) - spread - counted.cells / 2 - 1))


def affordable_test(
    test: SeedTest, rows: int, counted: NoisyMarginal, budget: Budget, rho: float, *, tune: bool
) -> SeedTest:
    """The test with its threshold noise settled, or a refusal with numbers. Looks at nothing private.

    Args:
        test: the privacy test.
        rows: how many rows are to be released.
        counted: a noisy count of the seed rows, from the door.
        budget: what the run may spend.
        rho: what the run has spent, or will have, on the same rows before the release.
        tune: whether the threshold noise is chosen to be the cheapest.
    """
    delta = budget.delta - budget.threshold_delta
    n = seeds_at_least(counted, delta * SEEDS_SHARE)
    account = SeedBudget(n, rho, budget.epsilon, delta * (1 - SEEDS_SHARE), tune)
    tuned = account.tuned(test, rows)
    price = epsilon_of(tuned, rows, n, rho, account.delta)
    if price <= budget.epsilon:
        return tuned
    most, k = account.most_rows(test), account.least_k(test, rows)
    more = f"this many rows would need k = {k:,}" if k is not None else "no k affords this many"
    raise BudgetExceededError(
        f"{rows:,} rows from seeds with k = {test.k} at delta {budget.delta:g}",
        price,
        budget.epsilon,
        "epsilon",
        f"With this k at most {most:,} rows are affordable; {more}. For any number of rows set seeds='histogram' (one "
        "noisy histogram in place of seeds) or omega='all' (no seeds). No seed was read.",
    )


def stddev_for_rest(what: str, budget: Budget, spent: Fraction, neighbours: Neighbours, releases: int) -> float:
    """The least noise with which what is left pays for so many numbers or vectors that a row moves by one each."""
    rest = budget.rho - spent
    if rest <= 0:
        raise BudgetExceededError(what, 0.0, 0.0, "rho", "Nothing was read or released.")
    return stddev_for(rest, neighbours.rows, releases)


def require_single_row(neighbours: Neighbours, what: str) -> None:
    if neighbours.rows != 1:
        raise BudgetError(
            f"{what} are priced for adding or removing one row, and this run hides {neighbours.describe()}; use "
            "omega='all' without parts."
        )


def part_budget(budget: Budget, shares: Sequence[float], neighbours: Neighbours) -> Budget:
    """What each of the disjoint random parts of a table may spend when all together may spend `budget`.

    A row is in part j with probability p_j and in none otherwise, whatever the other rows do. So the law with the row
    is a mixture of laws that are (e, d)-close to the law without it, and
        exp(epsilon) = 1 + sum p_j (exp(e) - 1),   delta = d * sum p_j,
    for the same e and d in every part (adding and removing alike, by convexity). The paper takes the largest part's e
    and amplifies it by one part's rate, which counts the other parts for nothing.
    """
    require_single_row(neighbours, "Disjoint parts")
    total = math.fsum(shares)
    if not shares or min(shares) <= 0 or total > 1 + 1e-12:
        raise BudgetError(f"The parts have shares {tuple(shares)}; they must be positive and add up to at most 1.")
    epsilon = math.log1p(math.expm1(budget.epsilon) / total) * (1 - 1e-12)
    return Budget(epsilon, min(budget.delta / total, 0.5), budget.accounting)


def part_of_rows(rows: int, shares: Sequence[float], insecure_rng: np.random.Generator | None) -> Integers:
    """A part for every row, drawn from system entropy: 0, 1, ... with the given probabilities, len(shares) for none."""
    return np.searchsorted(np.cumsum(shares), SystemRandom(insecure_rng).random(rows), side="right")


# What the door does with rows.


def seeded_rows(
    codes: Codes,
    positions: Sequence[int],
    sizes: Sequence[int],
    request: SeededRows,
    insecure_rng: np.random.Generator | None = None,
) -> Codes:
    """The released rows. Every number of them is asked of fresh system entropy; nothing about failures leaves.

    Args:
        codes: the private rows, columns in domain order.
        positions: place in `codes` of each column of the model's order.
        sizes: number of values of each of these.
        request: as settled.
        insecure_rng: for benchmarks: the rows are then NOT PRIVATE.
    """
    random = SystemRandom(insecure_rng)
    most = max(request.kept)
    depth = len(positions) if request.mixture else most
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
    counted = _looked_at(plausible, prefixes.rows, request.test, insecure_rng)
    if request.deterministic:
        return made, kept, counted >= request.test.k
    noise = two_sided_geometric(1 / request.test.epsilon0, count, insecure_rng=insecure_rng)
    return made, kept, counted + noise >= request.test.k


def _looked_at(plausible: Integers, rows: int, test: SeedTest, insecure_rng: np.random.Generator | None) -> Integers:
    """How many plausible seeds the paper's loop meets: rows in random order, at most max_check, until max_plausible.

    The order need not be secret: the price holds for every order.
    """
    if test.max_check is not None and test.max_check < rows:
        order = np.random.Generator(np.random.PCG64(int.from_bytes(bit_source(insecure_rng)(32), "little")))
        plausible = order.hypergeometric(plausible, rows - plausible, test.max_check)
    return plausible if test.max_plausible is None else np.minimum(plausible, test.max_plausible)


def _tested_without_noise(
    codes: Codes,
    positions: Sequence[int],
    request: SeededRows,
    prefixes: PrefixCounts,
    random: SystemRandom,
) -> Codes:
    """Privacy Test 1: candidates until enough pass, failures dropped. Deniable for each row; not private as a whole."""
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
                f"Hardly any row has k = {request.test.k} plausible seeds; use a smaller k or a larger omega."
            )
    return np.asfortranarray(np.concatenate(found))
