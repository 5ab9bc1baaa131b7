"""The exponential mechanism, exact: one candidate, chosen with probability exponential in its score.

A uniform U from the operating system's entropy picks a place in the running sum of the weights. Floating point decides
when every boundary between candidates is further away than its error bound; otherwise the sum is formed again in
decimal arithmetic, with more bits of U, until it decides. So the distribution is exact for the scores as given, and the
scores are exact too: they stay whole numbers with a public weight and a public offset, never rounded to floats. A
sensitivity therefore needs no margin for rounding, however large the scores are.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.noise import BitSource, bit_source
from lookalike.privacy.kernel.normal import context, decimal_digits, decimal_of

Floats = NDArray[np.float64]

_FLOAT_ERROR = 2.0**-50
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
            return scores, sizes * _FLOAT_ERROR + 2.0**-1000

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
