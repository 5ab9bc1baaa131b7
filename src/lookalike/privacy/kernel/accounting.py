"""Defines neighbouring tables, the budget of a run and the price of each release, and charges or refuses releases.

Two kinds of accounting, each with one additive unit rho, so that a run's total is the sum of its charges:

* ``gdp``: all releases are Gaussian. rho = mu^2 / 2, where mu^2 adds up (Dong, Roth, Su 2022), and the exact curve of
  the Gaussian mechanism gives epsilon and delta (Balle, Wang 2018, theorem 8).
* ``zcdp``: Gaussian and exponential mechanisms mixed. rho of zero-concentrated DP (Bun, Steinke 2016), with the
  conversion of Canonne, Kamath, Steinke (2020, proposition 12).

Every rounding is on the safe side: budgets down, prices up. Floats give a first answer; decimal arithmetic with proven
bounds then checks it. Charges are fractions with denominator 2^100: sums of them are exact and stay small.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeVar, cast

from scipy import optimize, special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.measurements import Contrasts
from lookalike.privacy.kernel.mechanisms import Bounds, context, decimal_digits, decimal_of, float_up, upper_tail

Answer = TypeVar("Answer")
Number = int | float | Fraction
Relation = Literal["add-remove", "replace"]
Accounting = Literal["gdp", "zcdp"]
ACCOUNTINGS: tuple[Accounting, ...] = ("gdp", "zcdp")

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1000.0
SMALLEST_DELTA = 1e-100

NO_GUARANTEE = "none"
"""Mechanism of a release without differential privacy. A run that made one counts as infinite epsilon."""
DISJOINT_PARTS = "disjoint parts"
"""Mechanism that divides the rows, which takes the whole budget of a table on which nothing was spent."""

DIGITS, SLACK = 60, Fraction(1, 10**35)
"""Decimal digits of the zCDP conversion, and a bound on its rounding errors."""

_GRAIN = 2**100
_STEP = 1e-12

_special, _optimize = cast(Any, special), cast(Any, optimize)
_erfcx: Callable[[float], float] = _special.erfcx
_ndtr: Callable[[float], float] = _special.ndtr
_log_ndtr: Callable[[float], float] = _special.log_ndtr


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


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend: epsilon and delta for its user, one exact number (rho) for the accountant.

    Attributes:
        epsilon: between 1e-6 and 1000.
        delta: probability with which the epsilon bound may fail, 1e-100 to below 1.
        accounting: "gdp" or "zcdp", see the module.
        threshold_delta: part of delta that is kept for noisy thresholds; the charges' rho gets the rest.
        rho: what charges may add up to, rounded down.

    >>> round(float(Budget(1.0, 1e-5, "gdp").rho), 4)
    0.0359
    """

    epsilon: float
    delta: float
    accounting: Accounting
    threshold_delta: float = 0.0
    rho: Fraction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.accounting not in ACCOUNTINGS:
            raise BudgetError(f"accounting is {self.accounting!r}; it must be one of {', '.join(ACCOUNTINGS)}.")
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not 0 <= self.threshold_delta < self.delta:
            raise BudgetError(f"threshold_delta is {self.threshold_delta:g}; it must be below delta.")
        convert = gdp_rho if self.accounting == "gdp" else zcdp_rho
        object.__setattr__(self, "rho", convert(self.epsilon, self.delta - self.threshold_delta))


@dataclass(frozen=True, slots=True)
class Charge:
    """One release: of which step of a method, by which mechanism, how many numbers or tables, at what price.

    Only noisy thresholds cost delta.
    """

    step: str
    mechanism: str
    releases: int
    rho: Fraction
    detail: str = ""
    delta: float = 0.0


class Book(Protocol):
    """An open run of a ledger, to which charges are written."""

    def charge(self, charge: Charge, /) -> int:
        """Write the charge to disk and return its number; refuse, by an exception, what the run's plan forbids."""
        ...

    def check_noise(self, *, secret: bool) -> None:
        """Refuse, by an exception, noise that can be repeated where the run is recorded as one with secret noise."""
        ...

    def kept(self, entry: int, /, *request: Any) -> Any:
        """Return the noisy answer to an earlier charge of a run that was interrupted; None where there is none."""
        ...

    def keep(self, answer: Any, entry: int, /, *request: Any) -> None:
        """Write a noisy answer to disk before it is used, if the run can be resumed; None makes it impossible."""
        ...


class Accountant:
    """Spends one run's budget. Charges add up exactly, whatever their order.

    Gaussian releases compose as rho = mu^2/2 under either accounting; the accounting only decides how much rho a given
    (epsilon, delta) allows. Adaptive choice of noise scales is covered: both are privacy filters (Feldman and Zrnic
    2021 for zCDP; Smith and Thakurta 2022 for Gaussian DP) as long as scales depend on earlier outputs only.
    """

    def __init__(self, budget: Budget, book: Book) -> None:
        self.budget = budget
        self.book = book
        self._spent = Fraction(0)
        self._spent_delta = Fraction(0)

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def remaining(self) -> Fraction:
        return self.budget.rho - self._spent

    def charge(self, charge: Charge) -> int:
        """Write the charge to the ledger and return its entry number; refuse what the budget does not allow."""
        what, unread = f"Step {charge.step!r}", "Nothing was read or released."
        if self.budget.accounting == "gdp" and charge.mechanism not in ("gaussian", "threshold"):
            raise BudgetError(
                f"{what} uses the {charge.mechanism} mechanism, which Gaussian-DP accounting cannot compose; run the "
                "method with zCDP accounting."
            )
        if charge.rho > self.remaining:
            raise BudgetExceededError(what, float(charge.rho), float(self.remaining), "rho", unread)
        delta = self._spent_delta + Fraction(charge.delta)
        if delta > Fraction(self.budget.threshold_delta):
            raise BudgetExceededError(what, float(delta), self.budget.threshold_delta, "threshold delta", unread)
        entry = self.book.charge(charge)
        self._spent += charge.rho
        self._spent_delta = delta
        return entry

    def answer(self, asked: tuple[Any, ...], draw: Callable[[], Answer]) -> Answer:
        """Return the answer to a charge: the one that an interrupted run was given, or a new one that is kept first.

        The same noisy numbers again are post-processing; numbers that were drawn but not kept were seen by nothing.
        """
        kept = self.book.kept(*asked)
        if kept is not None:
            return kept
        drawn = draw()
        self.book.keep(drawn, *asked)
        return drawn

    def charge_rest(self, step: str, mechanism: str, releases: int, detail: str) -> int:
        """Charge the whole remaining budget, for a release that fits (epsilon, delta) with all charges before it.

        The caller has proved that it fits, in a way that rho cannot express. No release can follow, so how it composes
        with later ones does not matter. A stop, which releases nothing, is charged even where nothing is left.
        """
        if releases and self.remaining <= 0:
            raise BudgetExceededError(f"Step {step!r}", 0.0, 0.0, "rho", "Nothing was read or released.")
        self.book.keep(None, -1)  # what follows is seen while rows are read, so it cannot be kept first
        entry = self.book.charge(Charge(step, mechanism, releases, self.remaining, detail))
        self._spent = self.budget.rho
        return entry

    def split(self, each: Budget, count: int, step: str) -> list[Accountant]:
        """Return accountants for `count` disjoint parts of the table, each with the budget `each`, for all of this one.

        The parts' charges are written to the same run with a price of 0: the price of all of them is this charge.
        """
        if self._spent:
            raise BudgetError("A table can only be split before anything is spent on it; give a complete schema.")
        detail = f"{count} parts, each with epsilon {each.epsilon:.6g} and delta {each.delta:.3g}"
        self.charge_rest(step, DISJOINT_PARTS, count, detail)
        return [Accountant(each, _PartBook(self.book, part + 1)) for part in range(count)]


@dataclass(frozen=True, slots=True)
class _PartBook:
    """Writes the charges of one part of a table, whose price is already paid."""

    whole: Book
    part: int

    def charge(self, charge: Charge, /) -> int:
        detail = f"{charge.detail}; rho {float(charge.rho):.6g} of part {self.part}, paid for by the split"
        return self.whole.charge(replace(charge, rho=Fraction(0), detail=detail))

    def check_noise(self, *, secret: bool) -> None:
        self.whole.check_noise(secret=secret)

    def kept(self, entry: int, /, *request: Any) -> None:
        """Parts are drawn anew in every run, so what was released of one is not used again."""

    def keep(self, answer: Any, entry: int, /, *request: Any) -> None:
        """See `kept`."""


# What releases cost.


def gaussian_rho(sensitivity: Number, stddev: Number) -> Fraction:
    """Return the rho of Gaussian noise on a vector of that L2 sensitivity: sensitivity^2 / (2 stddev^2), rounded up."""
    return _up((positive("sensitivity", sensitivity) / positive("stddev", stddev)) ** 2 / 2)


def exponential_rho(epsilon: Number) -> Fraction:
    """Return the rho of an exponential mechanism exp(epsilon * score / (2 * sensitivity)): epsilon^2 / 8, rounded up.

    Its privacy loss lies in an interval of width epsilon, which gives epsilon^2/8-zCDP (Cesar, Rogers 2021).
    Gaussian DP has no price for it: runs that choose are accounted as "zcdp".
    """
    return _up(positive("epsilon", epsilon) ** 2 / 8)


def stddev_for(rho: Number, sensitivity: Number = 1, releases: int = 1) -> float:
    """Return the smallest stddev at which `releases` Gaussian releases of that sensitivity cost at most `rho`."""
    if releases < 1:
        raise BudgetError(f"{releases} releases asked for; it must be at least 1.")
    share = positive("rho", rho) / releases
    if share < Fraction(1, _GRAIN):
        raise BudgetError(
            f"rho is {float(share):g} per release; below 2^-100 no noise is wide enough. Release less often."
        )
    # Positive floats have the order of their bit patterns, so the smallest is found by bisection of those.
    guess = float(positive("sensitivity", sensitivity)) / math.sqrt(2 * share)
    low, high = _pattern(guess / 2), _pattern(guess * 2)
    while high - low > 1:
        middle = (low + high) // 2
        fits = gaussian_rho(sensitivity, _float_of(middle)) <= share
        low, high = (low, middle) if fits else (middle, high)
    return _float_of(high)


# Gaussian DP.


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    delta = Q(epsilon/mu - mu/2) - exp(epsilon) * Q(epsilon/mu + mu/2), where Q is the normal upper tail. Above
    LARGEST_EPSILON the second term, then costly to compute, is left out: still an upper bound.
    """
    positive("mu", mu)
    if not 0 <= epsilon < math.inf:
        raise BudgetError(f"epsilon is {epsilon:g}; delta is defined for a finite epsilon of at least 0.")
    bits, low, high = 64, Fraction(0), Fraction(1)
    while (high - low) * 2**60 > high and bits < 2048:
        bits *= 2
        low, high = _delta_bounds(mu, epsilon, bits)
    return min(1.0, float_up(high))


def gdp_rho(epsilon: float, delta: float) -> Fraction:
    """Return the largest mu^2 / 2 for which mu-GDP implies (epsilon, delta)-DP, rounded down."""
    target = math.log(check_delta(delta))
    low = high = math.sqrt(2 * epsilon)
    while log_gaussian_delta(low, epsilon) > target:
        low /= 2
    while log_gaussian_delta(high, epsilon) <= target:
        high *= 2
    mu = root(lambda m: log_gaussian_delta(m, epsilon) - target, low, high)
    step = _STEP
    while gaussian_delta(mu, epsilon) > delta:
        mu, step = mu * (1 - step), 2 * step
    return _down(Fraction(mu) ** 2 / 2)


def _delta_bounds(mu: float, epsilon: float, bits: int) -> Bounds:
    """Return bounds of the curve, 2^-bits apart.

    The second term is below 1, so a relative error of exp(epsilon) is an absolute one of the term at most.
    """
    ratio, half = Fraction(epsilon) / Fraction(mu), Fraction(mu) / 2
    low, high = upper_tail(ratio - half, bits + 2)
    if epsilon > LARGEST_EPSILON:
        return low, high
    second_low, second_high = upper_tail(ratio + half, bits + 2 + math.ceil(1.45 * epsilon))
    digits = decimal_digits(bits) + 6
    with localcontext(context(digits)):
        power = Fraction(decimal_of(Fraction(epsilon)).exp())
    error = Fraction(10000, 10**digits)
    return low - power * (1 + error) * second_high, high - power * (1 - error) * second_low


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the log of the curve in floats. delta = phi(a) (R(a) - R(b)), R = Q / phi, as phi(a) = e^eps phi(b)."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:
        return math.log(_ndtr(-a) - math.exp(epsilon + _log_ndtr(-b)))
    ratio = (_erfcx(a / math.sqrt(2)) - _erfcx(b / math.sqrt(2))) / 2
    return -a * a / 2 + math.log(ratio) if ratio > 0 else -math.inf


# Zero-concentrated DP. With t = alpha - 1 and L = log(1/delta), proposition 12 reads, for every t > 0,
#     epsilon = rho * (1 + t) + (L - log(1 + t)) / t + log(t / (1 + t)).
# Each t gives a true bound, so floats may choose t and only this formula needs care.


def zcdp_rho(epsilon: float, delta: float) -> Fraction:
    """Return the largest rho whose conversion gives (epsilon, delta)-DP, rounded down.

    Solved for rho, the formula is largest where (L - log(1 + t)) * (2 t + 1) / t^2 + log(t / (1 + t)) = epsilon, whose
    left side decreases in t.
    """
    log_delta = -math.log(check_delta(delta))

    def excess(s: float) -> float:
        t, grown = math.exp(s), math.log1p(math.exp(s))
        return (log_delta - grown) * (2 * t + 1) / t**2 + s - grown - epsilon

    t = math.exp(root(excess, -60.0, log_delta + 1))
    with localcontext(context(DIGITS)):
        rest = Fraction(zcdp_rest(t, delta))
    return _down((Fraction(epsilon) - rest - SLACK) / (1 + Fraction(t)))


def zcdp_rest(t: float, delta: float) -> Decimal:
    """Return the part of the conversion that does not depend on rho, in the decimal context in force."""
    exact = Decimal(t)
    grown = (1 + exact).ln()
    return (-Decimal(delta).ln() - grown) / exact + exact.ln() - grown


# Checks and rounding.


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon`, or raise a BudgetError with its limits."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is {epsilon:g}; it must lie between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}. "
            "Usual values are 0.1 (strong privacy) to 10 (weak)."
        )
    return epsilon


def check_delta(delta: float) -> float:
    """Return `delta`, or raise a BudgetError with its limits."""
    if not SMALLEST_DELTA <= delta < 1:
        raise BudgetError(
            f"delta is {delta:g}; it must be at least {SMALLEST_DELTA:g} and below 1. "
            "Choose it well below one over the number of people, such as 1e-9."
        )
    return delta


def positive(name: str, value: Number) -> Fraction:
    if not 0 < value < math.inf:
        raise BudgetError(f"{name} is {float(value):g}; it must be a positive finite number.")
    return Fraction(value)


def root(f: Callable[[float], float], low: float, high: float) -> float:
    return float(_optimize.brentq(f, low, high, xtol=1e-30, rtol=1e-14, maxiter=1000))


def _up(x: Fraction) -> Fraction:
    return Fraction(math.ceil(x * _GRAIN), _GRAIN)


def _down(x: Fraction) -> Fraction:
    return Fraction(math.floor(x * _GRAIN), _GRAIN)


def _pattern(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _float_of(pattern: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", pattern))[0])
