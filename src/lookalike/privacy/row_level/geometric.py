"""Two-sided geometric (discrete Laplace) noise, drawn exactly, as the Gaussian noise of the kernel is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction

import numpy as np

from lookalike.privacy.kernel.noise import Floats, Integers, bit_source, checked_scale, draw
from lookalike.privacy.kernel.normal import Bounds, context, decimal_digits, decimal_of


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
