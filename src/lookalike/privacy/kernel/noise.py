"""Integer noise from the operating system's entropy, with exactly the stated distribution.

A draw is a sign and a magnitude. The magnitude is a decreasing function of a uniform V in (0, 1/2), of which 63 random
bits say in which interval (m, m+1) * 2^-64 it lies. Floating point gives the magnitude before rounding at the middle
of that interval, with a bound on how far that is from its value at any point of the interval. Where a rounding boundary
lies within the bound (in about 1e-13 * stddev of the draws), more bits are drawn, and V is compared with the exact
probability of the tail in arithmetic of whatever precision that takes. So the distribution is exact: nothing is added
to delta.

Assumed: the system's entropy is uniform, and `scipy.special.ndtri` keeps within FLOAT_ERROR, which tests check against
mpmath on the machine at hand. Not protected: the rare refined draws take longer than others, so an adversary must not
be able to time single draws.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.normal import Bounds, float_up, upper_tail

BitSource = Callable[[int], bytes]
"""Gives that many random bytes."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SMALLEST_SCALE = 1e-3
LARGEST_SCALE = 1e12

FLOAT_ERROR = 2.0**-44
"""Bound, in units of the scale, on the error of the float magnitude at a given V, V's own rounding to a float included.

Gaussian: two roundings of V move -Phi^-1(V) by at most sqrt(pi/2) * 2^-52, as its slope in log(V) is at most
sqrt(pi/2); ndtri adds its error (2.7e-15 at most in tests, V in (2^-65, 1/2)) and one more rounding of at most 9.3:
in all 4e-15. Other distributions that are drawn here must keep within the bound, 5.7e-14, too.
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
