"""Proven bounds of the normal distribution's tail, for exact noise and safe accounting.

Arithmetic is Python's `decimal`, whose +, -, *, /, sqrt and exp are correctly rounded at any precision, so the error of
each result follows from counting operations. Floats only ever make a first guess, in `noise` and in `accounting`.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from functools import lru_cache

Bounds = tuple[Fraction, Fraction]
"""A lower and an upper bound of a real number."""

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
