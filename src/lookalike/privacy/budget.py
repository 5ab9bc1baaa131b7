"""(epsilon, delta) to the internal budget and back, with every rounding against us.

Three ways of accounting, each with one additive unit, so that a run's total is the sum of its charges:

* ``gdp``: all releases are Gaussian. Unit rho = mu^2 / 2, where mu^2 adds up (Dong, Roth, Su 2022), and the exact curve
  of the Gaussian mechanism gives epsilon and delta (Balle, Wang 2018, theorem 8).
* ``zcdp``: Gaussian, exponential and pure mechanisms mixed. Unit rho of zero-concentrated DP (Bun, Steinke 2016), with
  the conversion of Canonne, Kamath, Steinke (2020, proposition 12).
* ``pure``: delta is 0 and epsilons add up. The home of two-sided geometric noise alone.

Floats find an answer; decimal arithmetic with proven bounds then checks it, and moves it to the safe side. Charges are
fractions with denominator 2^100: sums of them are exact and stay small.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal, cast

from scipy import optimize, special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError
from lookalike.privacy.normal import Bounds, context, decimal_digits, decimal_of, float_up, upper_tail

Number = int | float | Fraction
Accounting = Literal["gdp", "zcdp", "pure"]
ACCOUNTINGS: tuple[Accounting, ...] = ("gdp", "zcdp", "pure")

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1000.0
SMALLEST_DELTA = 1e-100

_GRAIN = 2**100
_STEP = 1e-12
_SMALLEST_MU = 1e-9
_DIGITS, _SLACK = 60, Fraction(1, 10**35)

_special, _optimize = cast(Any, special), cast(Any, optimize)
_erfcx: Callable[[float], float] = _special.erfcx
_ndtr: Callable[[float], float] = _special.ndtr
_log_ndtr: Callable[[float], float] = _special.log_ndtr


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend: epsilon and delta for the outside, one exact number for the accountant.

    Attributes:
        epsilon: between 1e-6 and 1000.
        delta: probability with which the epsilon bound may fail, 1e-100 to below 1; 0 for accounting "pure".
        accounting: "gdp", "zcdp" or "pure", see the module.
        threshold_delta: part of delta that is kept for noisy thresholds; the charges' rho gets the rest.
        total: what charges may add up to, in `unit`, rounded down.

    >>> budget = Budget(1.0, 1e-5, "gdp")
    >>> round(float(budget.rho), 4), budget.spent(budget.rho / 4) < 0.5
    (0.0359, True)
    """

    epsilon: float
    delta: float
    accounting: Accounting
    threshold_delta: float = 0.0
    total: Fraction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.accounting not in ACCOUNTINGS:
            raise BudgetError(f"accounting is {self.accounting!r}; it must be one of {', '.join(ACCOUNTINGS)}.")
        check_epsilon(self.epsilon)
        if self.accounting == "pure":
            if self.delta != 0:
                raise BudgetError(f"delta is {self.delta:g} under pure accounting; set it to 0, or choose 'zcdp'.")
            total = _down(Fraction(self.epsilon))
        else:
            check_delta(self.delta)
            if not 0 <= self.threshold_delta < self.delta:
                raise BudgetError(f"threshold_delta is {self.threshold_delta:g}; it must be below delta.")
            rho = gdp_rho if self.accounting == "gdp" else zcdp_rho
            total = rho(self.epsilon, self.delta - self.threshold_delta)
        object.__setattr__(self, "total", total)

    @property
    def unit(self) -> str:
        return "epsilon" if self.accounting == "pure" else "rho"

    @property
    def rho(self) -> Fraction:
        """`total`, where its unit is rho."""
        if self.accounting == "pure":
            raise BudgetError("A pure budget has no rho; choose accounting 'zcdp' to release Gaussian noise.")
        return self.total

    def spent(self, charges: Fraction) -> float:
        """Epsilon, at this delta, of charges with that sum, rounded up; within `total` never above `epsilon`."""
        epsilon = epsilon_spent(charges, self.delta - self.threshold_delta, self.accounting)
        return min(epsilon, self.epsilon) if charges <= self.total else epsilon


def epsilon_spent(charges: Fraction, delta: float, accounting: Accounting) -> float:
    """Epsilon at `delta` of charges with that sum, rounded up."""
    if charges < 0:
        raise BudgetError(f"Charges of {float(charges):g} are negative; pass the sum of what was released.")
    if charges == 0:
        return 0.0
    if accounting == "pure":
        return float_up(charges)
    if accounting == "zcdp":
        return zcdp_epsilon(charges, delta)
    mu = math.sqrt(2 * charges)
    while Fraction(mu) ** 2 < 2 * charges:
        mu = math.nextafter(mu, math.inf)
    return gaussian_epsilon(mu, delta)


# What releases cost.


def gaussian_rho(sensitivity: Number, stddev: Number) -> Fraction:
    """rho of Gaussian noise on a vector of that L2 sensitivity: sensitivity^2 / (2 stddev^2), rounded up."""
    return _up((_positive("sensitivity", sensitivity) / _positive("stddev", stddev)) ** 2 / 2)


def exponential_rho(epsilon: Number) -> Fraction:
    """rho of an exponential mechanism exp(epsilon * score / (2 * sensitivity)): epsilon^2 / 8, rounded up.

    Its privacy loss lies in an interval of width epsilon, whence epsilon^2/8-zCDP (Cesar, Rogers 2021). It has no cost
    in Gaussian DP: runs that choose are accounted as "zcdp".
    """
    return _up(_positive("epsilon", epsilon) ** 2 / 8)


def pure_rho(epsilon: Number) -> Fraction:
    """rho of any mechanism with pure epsilon, such as two-sided geometric noise: epsilon^2 / 2, rounded up."""
    return _up(_positive("epsilon", epsilon) ** 2 / 2)


def geometric_epsilon(sensitivity: Number, scale: Number) -> Fraction:
    """Pure epsilon of two-sided geometric noise on integers of that L1 sensitivity: their ratio, rounded up."""
    return _up(_positive("sensitivity", sensitivity) / _positive("scale", scale))


def stddev_for(rho: Number, sensitivity: Number = 1, releases: int = 1) -> float:
    """The smallest float at which `releases` Gaussian releases of that sensitivity cost at most `rho` together."""
    if releases < 1:
        raise BudgetError(f"{releases} releases asked for; it must be at least 1.")
    share = _positive("rho", rho) / releases
    if share < Fraction(1, _GRAIN):
        raise BudgetError(f"rho is {float(share):g} per release; below 2^-100 nothing can be told. Release less often.")
    # Positive floats have the order of their bit patterns, so the smallest is found by bisection of those.
    guess = float(_positive("sensitivity", sensitivity)) / math.sqrt(2 * share)
    low, high = _pattern(guess / 2), _pattern(guess * 2)
    while high - low > 1:
        middle = (low + high) // 2
        fits = gaussian_rho(sensitivity, _float_of(middle)) <= share
        low, high = (low, middle) if fits else (middle, high)
    return _float_of(high)


# Gaussian DP.


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Smallest delta for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    delta = Q(epsilon/mu - mu/2) - exp(epsilon) * Q(epsilon/mu + mu/2), where Q is the normal upper tail. Above
    LARGEST_EPSILON the second term, then costly to compute, is left out: still an upper bound.
    """
    _positive("mu", mu)
    if not 0 <= epsilon < math.inf:
        raise BudgetError(f"epsilon is {epsilon:g}; delta is defined for a finite epsilon of at least 0.")
    bits, low, high = 64, Fraction(0), Fraction(1)
    while (high - low) * 2**60 > high and bits < 2048:
        bits *= 2
        low, high = _delta_bounds(mu, epsilon, bits)
    return min(1.0, float_up(high))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    _positive("mu", mu)
    check_delta(delta)
    # Below this floats cannot even guess; a larger mu is the safe side.
    mu = max(mu, _SMALLEST_MU)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    target, top = math.log(delta), mu * mu
    while _log_delta(mu, top) > target:
        top *= 2
    epsilon = _root(lambda e: _log_delta(mu, e) - target, 0.0, top) if _log_delta(mu, 0.0) > target else 0.0
    step = _STEP
    while gaussian_delta(mu, epsilon) > delta:
        epsilon, step = epsilon + step * max(epsilon, mu * _STEP), 2 * step
    return epsilon


def gdp_rho(epsilon: float, delta: float) -> Fraction:
    """Largest mu^2 / 2 for which mu-GDP implies (epsilon, delta)-DP, rounded down."""
    target = math.log(check_delta(delta))
    low = high = math.sqrt(2 * epsilon)
    while _log_delta(low, epsilon) > target:
        low /= 2
    while _log_delta(high, epsilon) <= target:
        high *= 2
    mu = _root(lambda m: _log_delta(m, epsilon) - target, low, high)
    step = _STEP
    while gaussian_delta(mu, epsilon) > delta:
        mu, step = mu * (1 - step), 2 * step
    return _down(Fraction(mu) ** 2 / 2)


def _delta_bounds(mu: float, epsilon: float, bits: int) -> Bounds:
    """Bounds of the curve, 2^-bits apart.

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


def _log_delta(mu: float, epsilon: float) -> float:
    """log of the curve in floats. phi(a) = exp(epsilon) * phi(b), so delta = phi(a) * (R(a) - R(b)), R = Q / phi."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:
        return math.log(_ndtr(-a) - math.exp(epsilon + _log_ndtr(-b)))
    ratio = (_erfcx(a / math.sqrt(2)) - _erfcx(b / math.sqrt(2))) / 2
    return -a * a / 2 + math.log(ratio) if ratio > 0 else -math.inf


# Zero-concentrated DP. With t = alpha - 1 and L = log(1/delta), proposition 12 reads, for every t > 0,
#     epsilon = rho * (1 + t) + (L - log(1 + t)) / t + log(t / (1 + t)).
# Each t gives a true bound, so floats may choose t and only this formula needs care.


def zcdp_epsilon(rho: Number, delta: float) -> float:
    """Smallest epsilon for which the conversion gives (epsilon, delta)-DP from rho-zCDP, rounded up.

    Its derivative in t vanishes where rho * t^2 + log(1 + t) = L, which has one root.
    """
    exact, log_delta = _positive("rho", rho), -math.log(check_delta(delta))
    size = float(exact)
    t = _root(lambda t: size * t * t + math.log1p(t) - log_delta, 0.0, 2 * math.sqrt(log_delta / size))
    with localcontext(context(_DIGITS)):
        epsilon = Fraction(_conversion(t, delta)) + exact * (1 + Fraction(t))
    return float_up(max(Fraction(0), epsilon + _SLACK))


def zcdp_rho(epsilon: float, delta: float) -> Fraction:
    """Largest rho whose conversion gives (epsilon, delta)-DP, rounded down.

    Solved for rho, the formula is largest where (L - log(1 + t)) * (2 t + 1) / t^2 + log(t / (1 + t)) = epsilon, whose
    left side decreases in t.
    """
    log_delta = -math.log(check_delta(delta))

    def excess(s: float) -> float:
        t, grown = math.exp(s), math.log1p(math.exp(s))
        return (log_delta - grown) * (2 * t + 1) / t**2 + s - grown - epsilon

    t = math.exp(_root(excess, -60.0, log_delta + 1))
    with localcontext(context(_DIGITS)):
        rest = Fraction(_conversion(t, delta))
    return _down((Fraction(epsilon) - rest - _SLACK) / (1 + Fraction(t)))


def _conversion(t: float, delta: float) -> Decimal:
    """The part of the conversion that does not depend on rho, in the decimal context in force."""
    exact = Decimal(t)
    grown = (1 + exact).ln()
    return (-Decimal(delta).ln() - grown) / exact + exact.ln() - grown


# Checks and rounding.


def check_epsilon(epsilon: float) -> float:
    """`epsilon`, or a BudgetError that says what may stand there."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon is {epsilon:g}; it must lie between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}. "
            "Usual values are 0.1 (strong privacy) to 10 (weak)."
        )
    return epsilon


def check_delta(delta: float) -> float:
    """`delta`, or a BudgetError that says what may stand there."""
    if not SMALLEST_DELTA <= delta < 1:
        raise BudgetError(
            f"delta is {delta:g}; it must be at least {SMALLEST_DELTA:g} and below 1. "
            "Choose it well below one over the number of people, such as 1e-9."
        )
    return delta


def _positive(name: str, value: Number) -> Fraction:
    if not 0 < value < math.inf:
        raise BudgetError(f"{name} is {float(value):g}; it must be a positive finite number.")
    return Fraction(value)


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    return float(_optimize.brentq(f, low, high, xtol=1e-30, rtol=1e-14, maxiter=1000))


def _up(x: Fraction) -> Fraction:
    return Fraction(math.ceil(x * _GRAIN), _GRAIN)


def _down(x: Fraction) -> Fraction:
    return Fraction(math.floor(x * _GRAIN), _GRAIN)


def _pattern(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _float_of(pattern: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", pattern))[0])
