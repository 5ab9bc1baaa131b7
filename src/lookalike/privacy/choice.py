"""The exponential mechanism, exact: one candidate, chosen with probability exponential in its score.

A uniform U from the operating system's entropy picks a place in the running sum of the weights. Floating point decides
when every boundary between candidates is further away than its error bound; otherwise the sum is formed again in
decimal arithmetic, with more bits of U, until it decides. So the law is exact, for the scores as given.
"""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.errors import BudgetError
from lookalike.privacy.noise import BitSource, bit_source
from lookalike.privacy.normal import context, decimal_digits, decimal_of


def exponential_mechanism(
    scores: ArrayLike, epsilon: float, sensitivity: float, *, insecure_rng: np.random.Generator | None = None
) -> int:
    """Index i of a candidate, with P(i) proportional to exp(epsilon * scores[i] / (2 * sensitivity)).

    If no score moves by more than `sensitivity` between neighbours, the choice satisfies pure epsilon-DP (McSherry,
    Talwar 2007) and epsilon^2/8-zCDP (Cesar, Rogers 2021), the charge of `budget.exponential_rho`.

    Args:
        scores: one number per candidate, taken as exact; higher is better.
        epsilon: positive.
        sensitivity: largest change of any one score, positive.
        insecure_rng: for benchmarks that must repeat: bits come from it and the result is NOT PRIVATE.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores have shape {values.shape}; pass one number per candidate, at least one")
    if not np.isfinite(values).all():
        raise ValueError("scores hold a value that is not finite; leave such candidates out before the choice")
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if not 1e-100 < value < 1e100:
            raise BudgetError(f"The {name} of a choice is {value:g}; it must be positive and finite, 1e-100 to 1e100.")
    return _choose(values, Fraction(epsilon) / (2 * Fraction(sensitivity)), bit_source(insecure_rng))


def _choose(scores: NDArray[np.float64], rate: Fraction, bits: BitSource) -> int:
    """The candidate at U in (m, m+1) * 2^-64 of the total weight, in floats where they suffice.

    Weights are relative to the best, which has 1. Each is off by less than 2^-49: its exponent x by 4 roundings, where
    |x| * exp(x) < 1/2, and the exponential by 4 units in the last place. Summation adds n * 2^-53 of the total, so a
    boundary is within n * 2^-48 of the total and U times the total within (n + 1) * 2^-48; the margin is twice the sum.
    """
    m = int.from_bytes(bits(8), "little")
    with np.errstate(over="ignore", under="ignore"):
        boundaries = np.cumsum(np.exp((scores - scores.max()) * float(rate)))
    total = float(boundaries[-1])
    place = (m + 0.5) * 2.0**-64 * total
    margin = (scores.size + 1) * 2.0**-46 * total
    chosen = int(np.searchsorted(boundaries, place, side="right"))
    if chosen < scores.size:
        above_last = chosen == 0 or place - float(boundaries[chosen - 1]) > margin
        below_next = chosen == scores.size - 1 or float(boundaries[chosen]) - place > margin
        if above_last and below_next:
            return chosen
    return _choose_exactly(scores, rate, m, bits)


def _choose_exactly(scores: NDArray[np.float64], rate: Fraction, m: int, bits: BitSource) -> int:
    """As `_choose`, in decimals: with u = 10^-digits, weights are off by 2u each, sums by n * u of the total."""
    best = Fraction(float(scores.max()))
    exponents = [(Fraction(float(score)) - best) * rate for score in scores]
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
