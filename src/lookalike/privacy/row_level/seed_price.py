"""The price of rows generated from real seed rows: the arithmetic of plausible deniability, without data.

The mechanism, once per released row (Bindschaedler, Shokri, Gunter 2017, with a branch for failure): with probability
1 - L draw a row from the model alone. Else take a uniform real row as seed, keep the first l values of it, draw the
rest from the model, count the rows that could have been the seed, and release the result if count + Z >= k, where Z is
two-sided geometric noise, P[Z = z] proportional to exp(-epsilon0 |z|). Where the test fails, draw from the model alone.

Below, table D has n rows, D' one more, the row x; N rows of D are plausible seeds of what x would make; p(N) is the
probability that N plausible seeds pass. Every step is proved in `docs/proofs/seeded_rows.md`, and
`tests/privacy/test_deniability.py` compares the results with exact probabilities.

One row (`tight_price`). What D' makes more often than D comes from x's class or from the model alone. The class's N old
rows pass at most exp(epsilon0) times as often. Where N >= t, x's own contribution is at most gamma/N of theirs: a
factor 1 + gamma/t. Where N < t, x itself is the seed with probability 1/(n+1) and passes with p(t) at most: an additive
L p(t)/(n+1). The paper (theorem 1) bounds p(t) by exp(-epsilon0 (k-t)), has no 1/(n+1), and leaves out the event
'nothing released', whose probability moves by up to 1/(n+1); drawing from the model instead hides it among the 1 - L: a
factor 1 + L/((n+1)(1-L)).

Many rows (`renyi`). The loss above is met only when x's class is hit, which has probability N p(N) L/n, so the Renyi
divergence of one row is of order epsilon0^2 k/n and not epsilon0^2. With phi(r) = r^a - 1 - a (r - 1) the divergence
of order a is log(1 + E[phi(ratio)]) / (a - 1), the expectation under the denominator, and E is at most the sum over
  x's class       (L gamma / n) N p(N) phi((1 + gamma/N) p(N+1)/p(N)), largest over N >= t, and for N < t
                  (L gamma / n) N p(N) phi(exp(epsilon0)), after x's own mass L p(t)/(n+1) went into delta;
  other classes   L phi(n/(n+1));
  model alone     q phi(1 + d/q), where q and q + d are the smaller and the larger of its two probabilities. Nothing
                  bounds d/q but q >= 1-L where x fails and makes it larger, d <= L/(n+1). Where x makes others pass,
                  d <= L u/(n+1) with u = max gamma N (p(N+1) - p(N)) + p(N+1), and 1 + d/q <= exp(epsilon0) (n+1)/n.
Removing x is bounded the same way with ratios inverted, and needs no delta. Each term falls as n grows, so a lower
bound on n serves. For a fixed number of kept columns all plausible seeds make a row equally often, and gamma is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BudgetError

Floats = NDArray[np.float64]

ORDERS: Floats = 1.0 + np.geomspace(0.02, 4000.0, 90)
"""Renyi orders over which the conversion to (epsilon, delta) is minimised."""

OWN_SHARE = 0.1
"""Part of delta for the event that a row is released from its own lone seed."""

_SAFETY = 1.0 + 1e-6
"""Covers the rounding of floats, which is below 1e-8 relative in each term."""


@dataclass(frozen=True, slots=True)
class SeedTest:
    """Privacy Test 2 with its public settings.

    Attributes:
        k: threshold on the number of plausible seeds.
        epsilon0: strength of the threshold's noise: larger is less noise and a higher price.
        gamma: plausible seeds make the row with probabilities within this factor; 1 where they are equal.
        seeded_share: L, the share of rows that try a seed at all.
        max_plausible: counting stops here; None counts all.
        max_check: count in a random subset of this many rows only; None counts in all. Never needed for speed here, and
            priced by the looser rule (epsilon per row, composed), since a new row may then push others out.
    """

    k: int
    epsilon0: float
    gamma: float = 1.0
    seeded_share: float = 0.9
    max_plausible: int | None = None
    max_check: int | None = None

    def __post_init__(self) -> None:
        if self.k < 2:
            raise BudgetError(f"k is {self.k}; a row needs at least 2 plausible seeds.")
        if not 1e-12 <= self.epsilon0 <= 100:
            raise BudgetError(f"The threshold's epsilon is {self.epsilon0:g}; it must lie between 1e-12 and 100.")
        if not 1 <= self.gamma < math.inf:
            raise BudgetError(f"gamma is {self.gamma:g}; it must be at least 1.")
        if not 0 < self.seeded_share < 1:
            raise BudgetError(
                f"seeded_share is {self.seeded_share:g}; it must lie strictly between 0 and 1: rows from the model "
                "alone are needed to hide the failures of the test."
            )
        for name, value in (("max_plausible", self.max_plausible), ("max_check", self.max_check)):
            if value is not None and value < 1:
                raise BudgetError(f"{name} is {value}; it must be at least 1.")

    def log_pass(self, seeds: Floats) -> Floats:
        """log p(N) for each number of plausible seeds: log P[min(N, max_plausible) + Z >= k]."""
        counted = np.minimum(seeds, math.inf if self.max_plausible is None else self.max_plausible)
        short, ratio = self.k - counted, math.exp(-self.epsilon0)
        below = -self.epsilon0 * np.maximum(short, 0) - math.log1p(ratio)
        above = np.log1p(-np.exp(-self.epsilon0 * (1 - np.minimum(short, 0))) / (1 + ratio))
        return np.where(short >= 0, below, above)


def paper_price(test: SeedTest, t: int) -> tuple[float, float]:
    """(epsilon, delta) of one released row by theorem 1 of the paper; it leaves out the event 'nothing released'."""
    return test.epsilon0 + math.log1p(test.gamma / t), math.exp(-test.epsilon0 * (test.k - t))


def tight_price(test: SeedTest, t: int, n: int) -> tuple[float, float]:
    """(epsilon, delta) of one released row, all events included, for tables of at least n >= k rows; see the module."""
    share = test.seeded_share
    hidden = math.log1p(share / ((n + 1) * (1 - share)))
    return test.epsilon0 + math.log1p(test.gamma / t) + hidden, share * _passes(test, t) / (n + 1)


@np.errstate(over="ignore", invalid="ignore")
def renyi(test: SeedTest, t: int, n: int, orders: Floats = ORDERS) -> Floats:
    """Renyi divergence of one released row at each order, after delta_own(test, t, n); see the module.

    Holds for every pair of tables that differ in one row, the smaller having at least n rows.
    """
    if test.max_check is not None:
        epsilon = tight_price(test, t, n)[0]
        return np.minimum(epsilon, orders * epsilon**2 / 2) * _SAFETY
    share = test.seeded_share
    others = share * np.maximum(_phi(1 / n, orders), _phi(-1 / n, orders))
    total = share * test.gamma / n * _own_class(test, t, orders) + others + _alone(test, n, orders)
    bound = np.log1p(total * _SAFETY) / (orders - 1)
    return np.where(np.isnan(bound), math.inf, bound)


def delta_own(test: SeedTest, t: int, n: int) -> float:
    """Probability that a released row is its own lone seed's: what `renyi` leaves to delta, per released row."""
    return test.seeded_share * _passes(test, t) / (n + 1)


def epsilon_of(test: SeedTest, rows: int, n: int, rho: float, delta: float) -> float:
    """Epsilon at `delta` of `rows` released rows after Gaussian releases of `rho`; infinite where none is enough.

    Args:
        test: the test every row passed.
        rows: how many rows are released, those drawn from the model alone included.
        n: a lower bound on the number of seed rows; below k nothing is affordable.
        rho: what was spent on the same rows before.
        delta: delta of the whole, of which OWN_SHARE is for lone seeds.

    The conversion is the one of Canonne, Kamath and Steinke (2020, proposition 12), at each order.
    """
    t = _largest_t(test, rows, n, delta * OWN_SHARE)
    if t < 1 or n < test.k:
        return math.inf
    left = math.log(delta * (1 - OWN_SHARE))
    total = ORDERS * rho + rows * renyi(test, t, n)
    return max(0.0, float(np.min(total + np.log1p(-1 / ORDERS) - (left + np.log(ORDERS)) / (ORDERS - 1))))


@dataclass(frozen=True, slots=True)
class SeedBudget:
    """The budget of seeded rows, and what fits into it.

    Attributes:
        n: a lower bound on the number of seed rows.
        rho: Gaussian releases made before on the same rows.
        epsilon: epsilon of the whole.
        delta: delta of the whole.
        tune: whether the test's epsilon0 is chosen anew, the cheapest, for every question.
    """

    n: int
    rho: float
    epsilon: float
    delta: float
    tune: bool = True

    def price(self, test: SeedTest, rows: int) -> float:
        return epsilon_of(self.tuned(test, rows), rows, self.n, self.rho, self.delta)

    def tuned(self, test: SeedTest, rows: int) -> SeedTest:
        """The same test with the threshold noise at which `rows` released rows cost the least epsilon.

        Little noise makes a passing row reveal much; much noise lets lone seeds pass, which delta pays for.
        """
        if not self.tune:
            return test
        need = max(1.0, math.log(max(math.e, rows / (self.delta * OWN_SHARE * (self.n + 1)))))
        scales = np.minimum(need / test.k * np.geomspace(1.02, 4.0, 10), 100.0)
        tests = [replace(test, epsilon0=float(scale)) for scale in scales]
        prices = [epsilon_of(candidate, rows, self.n, self.rho, self.delta) for candidate in tests]
        return tests[int(np.argmin(prices))]

    def max_rows(self, test: SeedTest) -> int:
        """Largest number of seeded rows that the budget affords; may be 0."""
        if self.price(test, 1) > self.epsilon:
            return 0
        low, high = 1, 2
        while high < 2**40 and self.price(test, high) <= self.epsilon:
            low, high = high, 2 * high
        return _boundary(low, high, lambda rows: self.price(test, rows) <= self.epsilon)

    def min_seeds(self, test: SeedTest, rows: int) -> int | None:
        """The smallest number of seed rows, within 2 %, at which `rows` seeded rows fit; None if none is. Ignores n."""

        def seeds(step: int) -> int:
            return math.ceil(test.k * 1.02**step)

        def fits(step: int) -> bool:
            return replace(self, n=seeds(step)).price(test, rows) <= self.epsilon

        if fits(0):
            return test.k
        enough = math.ceil(math.log(2**40 / test.k, 1.02))
        return seeds(_boundary(enough, 0, fits)) if fits(enough) else None

    def min_k(self, test: SeedTest, rows: int) -> int | None:
        """Smallest k from the test's own on at which `rows` seeded rows fit; None where no k up to n does."""

        def fits(k: int) -> bool:
            return self.price(replace(test, k=k), rows) <= self.epsilon

        if fits(test.k):
            return test.k
        low, high = test.k, min(2 * test.k, self.n)
        while low < high and not fits(high):
            low, high = high, min(2 * high, self.n)
        return _boundary(high, low, fits) if low < high else None


def _passes(test: SeedTest, seeds: int) -> float:
    return float(np.exp(test.log_pass(np.array([float(seeds)])))[0]) if seeds > 0 else 0.0


def _largest_t(test: SeedTest, rows: int, n: int, delta: float) -> int:
    """Largest t up to k with rows * delta_own <= delta; 0 where there is none."""
    if rows * delta_own(test, 1, n) > delta:
        return 0
    if rows * delta_own(test, test.k, n) <= delta:
        return test.k
    return _boundary(1, test.k, lambda t: rows * delta_own(test, t, n) <= delta)


def _boundary(good: int, bad: int, fits: Callable[[int], bool]) -> int:
    """The last number that fits between one that does and one that does not, whichever is larger."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _phi(x: Floats | float, order: Floats) -> Floats:
    """phi(1 + x) = (1 + x)^a - 1 - a x; near 0, where that cancels, Taylor's a (a-1)/2 x^2, rounded up.

    The second derivative there is a (a-1) times a factor of (1 + x)^(a-2), below 1 + 2e-5. Where the difference is
    computed, rounding moves it by less than 1e-8 of itself.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        small = order * (order - 1) / 2 * np.square(x) * (1 + 2e-5)
        full = np.expm1(order * np.log1p(x)) - order * x
    return np.where(order * np.abs(x) < 1e-5, small, np.maximum(full, 0.0))


def _own_class(test: SeedTest, t: int, orders: Floats) -> Floats:
    """Upper bound of what the class of the changed row adds to E, in units of L gamma / n, without its own mass."""
    a = orders[:, None]
    low, high = _blocks(test, t)
    added = high * np.exp(test.log_pass(high)) * _phi(np.expm1(_log_ratio(test, low)), a)
    few = (t - 1) * _passes(test, t - 1) * _phi(math.expm1(test.epsilon0), orders)
    lone = _passes(test, 1) * (orders - 1)
    removed = [
        (last + 1) * np.exp(test.log_pass(last + 1)) * _phi(np.expm1(-_log_ratio(test, first)), a)
        for first, last in ((low, high), _blocks(test, 1, t))
    ]
    beyond = _tail(test, high[-1] + 1, orders)
    return np.max([few, lone, beyond, *(term.max(axis=1) for term in (added, *removed))], axis=0)


def _alone(test: SeedTest, n: int, orders: Floats) -> Floats:
    """Upper bound of what the outcome 'from the model alone' adds to E.

    Let q and q + d be its two probabilities, q at least 1 - L. Either direction adds at most q phi(1 + d/q). This grows
    with d, and falls with q at a given d, but grows with q at a given d/q: so where both d and d/q are bounded, it is
    largest where q is as small as both bounds, reached together, allow.
    """
    smallest, one = 1 - test.seeded_share, test.seeded_share / (n + 1)
    largest = one * _moved(test)
    q = max(smallest, largest / (math.exp(test.epsilon0) * (1 + 1 / n) - 1))
    return np.maximum(smallest * _phi(one / smallest, orders), q * _phi(largest / q, orders))


def _moved(test: SeedTest) -> float:
    """u, at least gamma N (p(N+1) - p(N)) + p(N+1) for every N.

    p(N+1) - p(N) = P[Z = k-1-N] = r^|k-1-N| (1-r)/(1+r) with r = exp(-epsilon0), so N times it grows until N reaches
    both k-1 and r/(1-r), and falls from there on. Where counting stops, p no longer grows.
    """
    peak = max(test.k - 1, math.ceil(1 / math.expm1(test.epsilon0)))
    if test.max_plausible is not None:
        peak = min(peak, test.max_plausible - 1)
    step = math.exp(-test.epsilon0 * abs(test.k - 1 - peak)) * math.tanh(test.epsilon0 / 2)
    return 1 + test.gamma * peak * step


def _log_ratio(test: SeedTest, seeds: Floats) -> Floats:
    """Return the logarithm of the largest factor by which one more plausible seed changes the release of a row."""
    return np.log1p(test.gamma / seeds) + test.log_pass(seeds + 1) - test.log_pass(seeds)


def _blocks(test: SeedTest, start: int, stop: int | None = None) -> tuple[Floats, Floats]:
    """Runs of numbers N from `start` on, as first and last: N p(N) and the ratios are monotone, so ends bound a run."""
    end = stop if stop is not None else test.k + math.ceil(40 / test.epsilon0) + 2
    edges = [max(start, 1)]
    width = max(1, int(0.05 / test.epsilon0))
    while edges[-1] < end or len(edges) == 1:
        edges.append(edges[-1] + max(1, min(max(width, (edges[-1] - test.k) // 20), edges[-1] // 20)))
    marks = np.array(edges, dtype=float)
    return marks[:-1], marks[1:] - 1


def _tail(test: SeedTest, start: float, orders: Floats) -> Floats:
    """Bound of what `_own_class` takes the largest of, over all N >= start, where p is 1 up to exp(-40).

    With 1 + x = (1 + gamma/N) p(N+1)/p(N), both phi(1 + x) and phi(1/(1 + x)) are at most
    a (a-1)/2 x^2 (1+x)^max(a-2, 0), and p(N+1)/p(N) <= 1 + exp(-epsilon0 (N - k)): even times N + 1 that falls in N.
    """
    x = (1 + test.gamma / start) * (1 + math.exp(-test.epsilon0 * (start - test.k))) - 1
    with np.errstate(over="ignore"):
        return (start + 1) * orders * (orders - 1) / 2 * x**2 * (1 + x) ** np.maximum(orders - 2, 0)
