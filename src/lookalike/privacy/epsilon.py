"""Converts charges back to epsilon, for reports and audits. No release depends on it."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import (
    DIGITS,
    SLACK,
    Accounting,
    Number,
    check_delta,
    gaussian_delta,
    log_gaussian_delta,
    positive,
    root,
    zcdp_rest,
)
from lookalike.privacy.kernel.normal import context, float_up

_SMALLEST_MU = 1e-9
_STEP = 1e-12


def epsilon_spent(charges: Fraction, delta: float, accounting: Accounting) -> float:
    """Return the epsilon, at `delta`, of charges with that sum of rho, rounded up."""
    if charges < 0:
        raise BudgetError(f"Charges of {float(charges):g} are negative; pass the sum of what was released.")
    if charges == 0:
        return 0.0
    if accounting == "zcdp":
        return zcdp_epsilon(charges, delta)
    mu = math.sqrt(2 * charges)
    while Fraction(mu) ** 2 < 2 * charges:
        mu = math.nextafter(mu, math.inf)
    return gaussian_epsilon(mu, delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    positive("mu", mu)
    check_delta(delta)
    # Below this, floats give no first guess; a larger mu is on the safe side.
    mu = max(mu, _SMALLEST_MU)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    target, top = math.log(delta), mu * mu
    while log_gaussian_delta(mu, top) > target:
        top *= 2
    found = log_gaussian_delta(mu, 0.0) > target
    epsilon = root(lambda e: log_gaussian_delta(mu, e) - target, 0.0, top) if found else 0.0
    step = _STEP
    while gaussian_delta(mu, epsilon) > delta:
        epsilon, step = epsilon + step * max(epsilon, mu * _STEP), 2 * step
    return epsilon


def zcdp_epsilon(rho: Number, delta: float) -> float:
    """Return the smallest epsilon for which rho-zCDP is converted to (epsilon, delta)-DP, rounded up.

    The conversion's derivative in t vanishes where rho * t^2 + log(1 + t) = log(1/delta), which has one root.
    """
    exact, log_delta = positive("rho", rho), -math.log(check_delta(delta))
    size = float(exact)
    t = root(lambda t: size * t * t + math.log1p(t) - log_delta, 0.0, 2 * math.sqrt(log_delta / size))
    with localcontext(context(DIGITS)):
        epsilon = Fraction(zcdp_rest(t, delta)) + exact * (1 + Fraction(t))
    return float_up(max(Fraction(0), epsilon + SLACK))
