"""The mechanisms, exact: noise rounded to integers, the exponential mechanism, and the bounds that both rest on.

Randomness is bits of the operating system's entropy, assumed uniform. Floating point decides a draw only where its
error bound leaves no doubt. Otherwise more bits are drawn and compared in decimal arithmetic of whatever precision that
takes. So every distribution is the stated one, and nothing is added to delta. Not protected: the rare draws that need
more bits take longer than others, so an adversary must not be able to time single draws.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError

Bounds = tuple[Fraction, Fraction]
"""A lower and an upper bound of a real number."""
BitSource = Callable[[int], bytes]
"""Returns a given number of random bytes."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Proven bounds. Arithmetic is Python's `decimal`, whose +, -, *, /, sqrt and exp are correctly rounded at any
# precision, so the error of each result follows from counting operations. Floats only ever make a first guess.

_GUARD_DIGITS = 12


def decimal_digits(bits: int) -> int:
    """Return a number of decimal digits that is at least as fine as `bits` binary ones."""
    return bits * 302 // 1000 + 1


def context(digits: int) -> Context:
    """Return decimal arithmetic with relative error at most 10^-digits per operation, whatever the caller's is."""
    traps = [InvalidOperation, DivisionByZero, Overflow]
    return Context(prec=digits + 1, rounding=ROUND_HALF_EVEN, Emin=-(10**8), Emax=10**8, traps=traps)


def decimal_of(x: Fraction) -> Decimal:
    """Return `x` rounded once to the precision of the context in force."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def float_up(x: Fraction) -> float:
    """Return the smallest float that is not below `x`, so that noise is never less than was paid for.

    >>> float_up(Fraction(0.1) * 3) > 0.1 * 3 - 1e-16, Fraction(float_up(Fraction(1, 3))) >= Fraction(1, 3)
    (True, True)
    """
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def upper_tail(x: Fraction, bits: int) -> Bounds:
    """Return bounds of Q(x) = P(Z > x) for a standard normal Z, at most 2^-bits apart.

    For x >= 0 by Q(x) = 1/2 - phi(x) * (x + x^3/3 + x^5/(3*5) + x^7/(3*5*7) + ...), in which all terms are positive.
    Error, in units u = 10^-working digits: y = x^2 is off by u of itself, so the n-th term by less than (4n + 2)u of
    itself, the sum of N terms by (6N + 4)u, exp(-y/2) by (2y + 1)u, the root and the three last operations by 8u; the
    sum stops when the next terms at least halve each time and the last is below u. As phi times the sum is below 1/2,
    the total stays under (6N + 2y + 20)u, which the guard digits cover a million times over.

    >>> low, high = upper_tail(Fraction(1), 100)
    >>> float(low), high - low < Fraction(1, 2**100)
    (0.15865525393145705, True)
    """
    if x < 0:
        low, high = upper_tail(-x, bits)
        return 1 - high, 1 - low
    digits = decimal_digits(bits) + 1
    if x * x >= 5 * digits:
        # Q(x) <= exp(-x^2/2)/2, and 5/2 is more than log(10).
        return Fraction(0), Fraction(1, 10**digits)
    working = digits + _GUARD_DIGITS
    with localcontext(context(working)):
        y = decimal_of(x * x)
        smallest = Decimal(1).scaleb(-working)
        term = total = decimal_of(x)
        odd = 1
        while term > smallest * total or 2 * y > odd:
            odd += 2
            term = term * y / odd
            total += term
        central = total * (-y / 2).exp() / (2 * _pi(working)).sqrt()
    middle = Fraction(1, 2) - Fraction(central)
    error = Fraction(6 * odd + 200 * digits, 10**working)
    return max(Fraction(0), middle - error), middle + error


@lru_cache(maxsize=32)
def _pi(digits: int) -> Decimal:
    """Pi within 10^-digits, by Machin's formula in integers: 16 arccot(5) - 4 arccot(239)."""
    unit = 10 ** (digits + _GUARD_DIGITS)

    def arccot(n: int) -> int:
        power, total, odd, sign = unit // n, 0, 1, 1
        while power:
            total += sign * (power // odd)
            power //= n * n
            odd, sign = odd + 2, -sign
        return total

    with localcontext(context(digits + 2)):
        return Decimal(16 * arccot(5) - 4 * arccot(239)) / unit


# Noise. A draw is a sign and a magnitude, a decreasing function of a uniform V in (0, 1/2), of which 63 random bits say
# in which interval (m, m+1) * 2^-64 it lies. Floating point gives the magnitude before rounding at the middle of that
# interval, with a bound on how far that is from its value at any point of the interval. Where a rounding boundary lies
# within the bound (in about 1e-13 * stddev of the draws), more bits are drawn, and V is compared with the exact tail.

SMALLEST_SCALE = 1e-3
LARGEST_SCALE = 1e12

FLOAT_ERROR = 2.0**-44
"""Bound, in units of the scale, on the error of the float magnitude at a given V, V's own rounding to a float included.

Gaussian: two roundings of V move -Phi^-1(V) by at most sqrt(pi/2) * 2^-52, as its slope in log(V) is at most
sqrt(pi/2); ndtri adds its error (2.7e-15 at most in tests, V in (2^-65, 1/2)) and one more rounding of at most 9.3:
in all 4e-15, assumed of the machine at hand and checked against mpmath by tests. Other distributions that are drawn
here must keep within the bound, 5.7e-14, too.
"""

_CHUNK = 1 << 16
_ndtri: Callable[[Floats], Floats] = cast(Any, special).ndtri


def rounded_gaussian(
    stddev: float | Fraction, size: int | tuple[int, ...], *, insecure_rng: np.random.Generator | None = None
) -> Integers:
    """Return independent draws of round(stddev * Z), Z standard normal: the continuous Gaussian rounded to integers.

    Added to integer counts it is post-processing of the Gaussian mechanism, round(count + z) = count + round(z), so the
    exact Gaussian-DP curve holds with this `stddev`. (Its own variance is larger, by about 1/12.)

    Args:
        stddev: standard deviation before rounding, 1e-3 to 1e12. A product or quotient is given as a fraction, which is
            exact; the next larger float is used, so that the noise is never less than was paid for.
        size: number of draws, or shape.
        insecure_rng: for benchmarks that must repeat: bits come from it and the result is NOT PRIVATE.
    """
    return draw(Gaussian(checked_scale("stddev", stddev)), size, bit_source(insecure_rng))


class Distribution(Protocol):
    """A symmetric distribution of an integer K, by its positive tail."""

    @property
    def scale(self) -> float: ...

    def magnitude(self, v: Floats) -> Floats:
        """Return |K| before rounding to the nearest integer, as a function of V, within scale * FLOAT_ERROR."""
        ...

    def tail(self, k: int, bits: int) -> Bounds:
        """Return bounds of P(K >= k) for k >= 1, at most 2^-bits apart. |K| >= k exactly when V is below it."""
        ...


@dataclass(frozen=True, slots=True)
class Gaussian:
    """round(scale * Z): P(K >= k) = Q((k - 1/2) / scale)."""

    scale: float

    def magnitude(self, v: Floats) -> Floats:
        return -self.scale * _ndtri(v)

    def tail(self, k: int, bits: int) -> Bounds:
        return upper_tail(Fraction(2 * k - 1, 2) / Fraction(self.scale), bits)


def draw(distribution: Distribution, size: int | tuple[int, ...], bits: BitSource) -> Integers:
    """Return independent draws, in chunks that fit the processor's cache."""
    result = np.empty(size, dtype=np.int64)
    flat = result.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        words = np.frombuffer(bits(8 * part.size), dtype="<u8")
        magnitudes = _magnitudes(distribution, (words >> np.uint64(1)).astype(np.int64), bits)
        sign = (words & np.uint64(1)).astype(np.int64)
        part[:] = (magnitudes ^ -sign) + sign
    return result


def _magnitudes(distribution: Distribution, m: Integers, bits: BitSource) -> Integers:
    """Return |K| for V in (m, m+1) * 2^-64.

    A V in that interval differs from its middle v in log(V) by at most 1/(2m) <= (3/4) * 2^-64 / v for m >= 1, and the
    magnitude's slope in log(V) is at most scale * sqrt(pi/2). The last 2^-50 covers the arithmetic of this function.
    """
    v: Floats = (m.astype(np.float64) + 0.5) * 2.0**-64
    x = distribution.magnitude(v)
    nearest = np.rint(x)
    reach = distribution.scale * (FLOAT_ERROR + 2.0**-64 / v) + 2.0**-50
    result = nearest.astype(np.int64)
    for i in np.flatnonzero((np.abs(x - nearest) + reach >= 0.5) | (m == 0)):
        result[i] = _Refined(distribution, int(m[i]), 64, bits).magnitude(max(0, int(result[i])))
    return result


@dataclass(slots=True)
class _Refined:
    """One draw whose V, in (m, m+1) * 2^-known, needs more bits."""

    distribution: Distribution
    m: int
    known: int
    bits: BitSource

    def magnitude(self, guess: int) -> int:
        """Return |K| by search from a guess: the largest k that V reaches, where every V reaches 0."""
        low, high, step = guess, guess + 1, 1
        while not self._reaches(low):
            low, high, step = max(0, low - step), low, 2 * step
        while self._reaches(high):
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._reaches(middle) else (low, middle)
        return low

    def _reaches(self, k: int) -> bool:
        """Return whether V < P(K >= k), with as many further bits as that takes."""
        if k == 0:
            return True
        while True:
            low, high = self.distribution.tail(k, self.known + 8)
            if self.m + 1 <= low * 2**self.known:
                return True
            if self.m >= high * 2**self.known:
                return False
            self.m = self.m << 64 | int.from_bytes(self.bits(8), "little")
            self.known += 64


def bit_source(insecure_rng: np.random.Generator | None) -> BitSource:
    """Return system entropy, unless a benchmark passes a generator."""
    return os.urandom if insecure_rng is None else insecure_rng.bytes


def checked_scale(name: str, value: float | Fraction) -> float:
    if not SMALLEST_SCALE <= value <= LARGEST_SCALE:
        raise BudgetError(
            f"The noise's {name} is {float(value):g}; it must lie between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}. "
            "Choose an epsilon for which it does."
        )
    return float_up(Fraction(value))


# The exponential mechanism: one candidate, chosen with probability exponential in its score. A uniform U picks a place
# in the running sum of the weights. Floating point decides when every boundary between candidates is further away than
# its error bound; otherwise the sum is formed again in decimals, with more bits of U, until it decides. Scores are
# exact too: they stay whole numbers with a public weight and a public offset, never rounded to floats. A sensitivity
# therefore needs no margin for rounding, however large the scores are.

_SCORE_ERROR = 2.0**-50
"""Bound on the error of a weighted score in floats, relative to |weight| * (|score| + |offset|); see `floats`."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScores:
    """Exact scores weight_i * (number_i / resolution - offset_i).

    Attributes:
        numbers: integers, or floats that are taken as exact. Private.
        weights: public, finite.
        offsets: public, finite.
        resolution: positive integer.
    """

    numbers: np.ndarray
    weights: Floats
    offsets: Floats
    resolution: int = 1

    def floats(self) -> tuple[Floats, Floats]:
        """Return the scores in floats, and a bound on the error of each.

        With u = 2^-53, a = number / resolution and o = offset: the number as a float is off by a factor within 1 +- u,
        the quotient by another, the difference and the product by one each. So the score is off by at most
        |weight| * (2u |a| + 2u |a - o|) and terms in u^2, which is below |weight| * (|a| + |o|) * 5u. The bound is 8u
        of it as computed, whose own roundings take less than the difference. 2^-1000 covers what products below the
        smallest normal float lose; no rate up to 1e200 brings it near the margin of `_choose`.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            exact = self.numbers.astype(np.float64) / self.resolution
            scores = self.weights * (exact - self.offsets)
            sizes = np.abs(self.weights) * (np.abs(exact) + np.abs(self.offsets))
            return scores, sizes * _SCORE_ERROR + 2.0**-1000

    def fractions(self) -> list[Fraction]:
        """Return the scores themselves."""
        parts = zip(self.numbers.tolist(), self.weights.tolist(), self.offsets.tolist(), strict=True)
        return [Fraction(w) * (Fraction(number) / self.resolution - Fraction(o)) for number, w, o in parts]


def exponential_mechanism(
    scores: WeightedScores,
    epsilon: float,
    sensitivity: float | Fraction,
    *,
    insecure_rng: np.random.Generator | None = None,
) -> int:
    """Return the index i of a candidate, with P(i) proportional to exp(epsilon * scores[i] / (2 * sensitivity)).

    If no score moves by more than `sensitivity` between neighbours, the choice satisfies pure epsilon-DP (McSherry,
    Talwar 2007) and epsilon^2/8-zCDP (Cesar, Rogers 2021), the charge of `accounting.exponential_rho`.

    Args:
        scores: one per candidate; higher is better.
        epsilon: positive.
        sensitivity: largest change of any one score, positive.
        insecure_rng: for benchmarks that must repeat: bits come from it and the result is NOT PRIVATE.
    """
    for values in (scores.numbers, scores.weights, scores.offsets):
        if values.ndim != 1 or values.size == 0 or values.size != scores.numbers.size:
            raise ValueError(f"scores have shape {values.shape}; pass one number per candidate, at least one")
        if not np.isfinite(values).all():
            raise ValueError("scores hold a value that is not finite; leave such candidates out before the choice")
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if not 1e-100 < value < 1e100:
            raise BudgetError(f"The {name} of a choice is {value}; it must be positive and finite, 1e-100 to 1e100.")
    return _choose(scores, Fraction(epsilon) / (2 * Fraction(sensitivity)), bit_source(insecure_rng))


def largest_weight(weights: Floats, offsets: Floats) -> Fraction:
    """Return max|weight|, by which a sensitivity grows; refuse, uncharged, numbers that make no choice."""
    largest = float(np.abs(weights).max(initial=0.0))
    if weights.shape != offsets.shape or not (1e-50 < largest < 1e50 and np.isfinite(offsets).all()):
        raise BudgetError(
            f"The weights of a choice have shape {weights.shape} and reach {largest:g}, its offsets have shape "
            f"{offsets.shape}; give a finite number of each per candidate, the largest weight from 1e-50 to 1e50."
        )
    return Fraction(largest)


def _choose(scores: WeightedScores, rate: Fraction, bits: BitSource) -> int:
    """Return the candidate at U in (m, m+1) * 2^-64 of the total weight, in floats where they suffice.

    Weights are relative to the best score in floats, a shift that changes no probability. An exponent x is off by its
    score's error times the rate, k, and by 4 roundings of itself. The latter move exp(x) by less than 2^-50, as
    |x| * exp(x) < 1/2, and the exponential function adds 4 units in the last place: 2^-49 in all. The former moves it
    by at most exp(x + k) - exp(x - k) <= 2 k exp(x + k). Summation adds n * 2^-53 of the total, which is 1 or more. So
    a boundary is within `doubt` + n * 2^-48 of the total, U times the total within that and 2^-48; the margin is twice
    the sum. Where scores are so large that floats say nothing, k and the margin are large too, and decimals decide.
    """
    m = int.from_bytes(bits(8), "little")
    values, errors = scores.floats()
    if not (np.isfinite(values).all() and np.isfinite(errors).all()):
        return _choose_exactly(scores.fractions(), rate, m, bits)
    with np.errstate(over="ignore", under="ignore"):
        exponents, k = (values - values.max()) * float(rate), errors * float(rate)
        boundaries = np.cumsum(np.exp(exponents))
        doubt = float((2 * k * np.exp(exponents + k)).sum())
    total = float(boundaries[-1])
    place = (m + 0.5) * 2.0**-64 * total
    margin = 4 * doubt + (values.size + 1) * 2.0**-46 * total
    chosen = int(np.searchsorted(boundaries, place, side="right"))
    if chosen < values.size:
        above_last = chosen == 0 or place - float(boundaries[chosen - 1]) > margin
        below_next = chosen == values.size - 1 or float(boundaries[chosen]) - place > margin
        if above_last and below_next:
            return chosen
    return _choose_exactly(scores.fractions(), rate, m, bits)


def _choose_exactly(scores: list[Fraction], rate: Fraction, m: int, bits: BitSource) -> int:
    """As `_choose`, in decimals: with u = 10^-digits, weights are off by 2u each, sums by n * u of the total."""
    best = max(scores)
    exponents = [(score - best) * rate for score in scores]
    last, known = len(exponents) - 1, 64
    while True:
        digits = decimal_digits(known) + len(str(last)) + 3
        with localcontext(context(digits)):
            boundaries = list(accumulate(decimal_of(exponent).exp() for exponent in exponents))
            unit = boundaries[-1] / 2**known
            low, high = m * unit, (m + 1) * unit
            margin = boundaries[-1] * Decimal(5 * (last + 3)).scaleb(-digits)
            chosen = min(last, bisect_right(boundaries, low))
            above_last = chosen == 0 or low - boundaries[chosen - 1] > margin
            below_next = chosen == last or boundaries[chosen] - high > margin
        if above_last and below_next:
            return chosen
        m, known = m << 64 | int.from_bytes(bits(8), "little"), known + 64
