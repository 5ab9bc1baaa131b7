"""Conversions between (epsilon, delta) and the internal budget: right to many digits, and never in our favour."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from lookalike.errors import BudgetError
from lookalike.privacy.composition import epsilon_spent, gaussian_epsilon, zcdp_epsilon
from lookalike.privacy.kernel.accounting import (
    Accounting,
    Budget,
    exponential_rho,
    gaussian_delta,
    gaussian_rho,
    stddev_for,
)

EPSILONS = [1e-4, 0.01, 0.1, 1.0, 3.2, 8.0, 20.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-5, 0.01, 0.3]
MIXED: list[Accounting] = ["gdp", "zcdp"]


def spent(budget: Budget, part: Fraction) -> float:
    """Epsilon of charges that add up to this part of the budget."""
    return epsilon_spent(part * budget.rho, budget.delta, budget.accounting)


def exact_delta(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """The Gaussian mechanism's curve by mpmath, with digits to spare for its cancellation."""
    with mpmath.workdps(150):
        ratio, half, e = epsilon / mpmath.mpf(mu), mpmath.mpf(mu) / 2, mpmath.mpf(epsilon)
        return mpmath.ncdf(half - ratio) - mpmath.exp(e) * mpmath.ncdf(-half - ratio)


def mu_of(rho: Fraction) -> mpmath.mpf:
    with mpmath.workdps(150):
        return mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)


def zcdp_formula(rho: float, delta: float, t: np.ndarray) -> np.ndarray:
    """Canonne, Kamath, Steinke, solved for epsilon, at alpha = 1 + t."""
    return rho * (1 + t) + (-math.log(delta) - np.log1p(t)) / t + np.log(t) - np.log1p(t)


@pytest.mark.parametrize(
    ("epsilon", "gdp", "zcdp"), [(0.1, 0.00053, 0.00043), (1.0, 0.0359, 0.0306), (3.2, 0.290, 0.252)]
)
def test_known_values(epsilon: float, gdp: float, zcdp: float) -> None:
    assert float(Budget(epsilon, 1e-5, "gdp").rho) == pytest.approx(gdp, rel=0.01)
    assert float(Budget(epsilon, 1e-5, "zcdp").rho) == pytest.approx(zcdp, rel=0.01)


# Gaussian DP.


@pytest.mark.parametrize("mu", [1e-4, 0.02, 0.3, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_delta_is_rounded_up_and_tight(mu: float, epsilon: float) -> None:
    exact = exact_delta(mu, epsilon)
    got = gaussian_delta(mu, epsilon)
    assert got >= exact
    assert got <= exact * (1 + 1e-14) or got < 1e-300


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gdp_budget_is_the_largest(epsilon: float, delta: float) -> None:
    rho = Budget(epsilon, delta, "gdp").rho
    assert exact_delta(mu_of(rho), epsilon) <= delta
    assert exact_delta(mu_of(rho * Fraction(10**9 + 1, 10**9)), epsilon) > delta


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 15.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_epsilon_is_the_smallest(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert exact_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert exact_delta(mu, epsilon * (1 - 1e-9)) > delta
    else:
        assert exact_delta(mu, 0.0) <= delta


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 0.01, 1.0, 6.0])
def test_delta_at_the_edge_of_epsilon_zero(mu: float) -> None:
    """Here floats cannot tell whether epsilon 0 suffices; the checked answer is 0 or next to it."""
    delta = gaussian_delta(mu, 0.0)
    assert gaussian_epsilon(mu, max(delta, gaussian_delta(1e-9, 0.0))) == 0.0
    for below in (math.nextafter(delta, 0.0), delta * (1 - 1e-9)):
        epsilon = gaussian_epsilon(mu, below)
        assert 0 < epsilon < 1e-6
        assert exact_delta(mu, epsilon) <= below


def test_rounding_the_noise_keeps_the_curve() -> None:
    """The hockey-stick divergence of the rounded Gaussian from its shift by one never exceeds the Gaussian's delta."""
    k = np.arange(-200, 201)
    for stddev in (0.4, 1.0, 5.0):
        mass = special.ndtr((k + 0.5) / stddev) - special.ndtr((k - 0.5) / stddev)
        for epsilon in (0.1, 1.0, 2.0):
            divergence = np.maximum(0, mass[:-1] - math.exp(epsilon) * mass[1:]).sum()
            assert 0.1 * gaussian_delta(1 / stddev, epsilon) < divergence <= gaussian_delta(1 / stddev, epsilon) + 1e-15


def test_far_overspent_still_has_an_epsilon() -> None:
    """Cheaper bounds take over beyond epsilon 1000; they stay above the truth and close to it."""
    epsilon = gaussian_epsilon(60.0, 1e-6)
    assert exact_delta(60.0, epsilon) <= 1e-6
    assert exact_delta(60.0, epsilon * 0.999) > 1e-6
    assert gaussian_epsilon(1e4, 1e-6) == pytest.approx(5e7, rel=0.01)


# zCDP.


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.03, 0.5, 5.0, 60.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_epsilon_matches_a_grid_search(rho: float, delta: float) -> None:
    t = np.geomspace(1e-4, 1e7, 400_001)
    best = max(0.0, float(zcdp_formula(rho, delta, t).min()))
    got = zcdp_epsilon(rho, delta)
    assert got <= best * (1 + 1e-10) + 1e-12
    assert got >= best * (1 - 1e-7) - 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_budget_is_the_largest(epsilon: float, delta: float) -> None:
    """Above the exact infimum over alpha nothing is claimed; a billionth more rho would already pass epsilon."""
    rho = Budget(epsilon, delta, "zcdp").rho

    def conversion(amount: Fraction) -> mpmath.mpf:
        with mpmath.workdps(60):
            r, big = mpmath.mpf(amount.numerator) / amount.denominator, -mpmath.log(delta)
            top = mpmath.sqrt(big / r)
            t = mpmath.findroot(lambda t: r * t * t + mpmath.log(1 + t) - big, (top / 2, top), solver="secant")
            return r * (1 + t) + (big - mpmath.log(1 + t)) / t + mpmath.log(t / (1 + t))

    assert conversion(rho) <= epsilon
    assert conversion(rho * Fraction(10**9 + 1, 10**9)) > epsilon
    assert zcdp_epsilon(rho, delta) >= conversion(rho)


# Both.


@pytest.mark.parametrize("accounting", MIXED)
def test_more_epsilon_or_delta_gives_more_budget(accounting: Accounting) -> None:
    table = np.array([[float(Budget(e, d, accounting).rho) for d in DELTAS] for e in EPSILONS])
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_exact_gaussian_accounting_is_never_worse_than_zcdp(epsilon: float, delta: float) -> None:
    assert Budget(epsilon, delta, "zcdp").rho < Budget(epsilon, delta, "gdp").rho


@settings(max_examples=150, deadline=None)
@given(
    epsilon=st.floats(0.01, 20.0),
    exponent=st.floats(-12, -2),
    accounting=st.sampled_from(MIXED),
    part=st.fractions(0, 1),
)
def test_round_trip(epsilon: float, exponent: float, accounting: Accounting, part: Fraction) -> None:
    budget = Budget(epsilon, 10**exponent, accounting)
    assert epsilon_spent(budget.rho, budget.delta, accounting) == pytest.approx(epsilon, rel=1e-9)
    assert spent(budget, part) <= spent(budget, Fraction(1))
    assert spent(budget, Fraction(2)) > epsilon


@pytest.mark.parametrize("accounting", MIXED)
def test_a_conversion_takes_milliseconds(accounting: Accounting) -> None:
    start = time.process_time()
    for epsilon in (0.01, 1.0, 20.0):
        for delta in (1e-12, 1e-5):
            epsilon_spent(Budget(epsilon, delta, accounting).rho, delta, accounting)
    assert (time.process_time() - start) / 12 < 0.02


@pytest.mark.parametrize("accounting", MIXED)
@pytest.mark.parametrize("epsilon", [1e-6, 1000.0])
@pytest.mark.parametrize("delta", [1e-100, 1 - 1e-9])
def test_corners_do_not_fail(accounting: Accounting, epsilon: float, delta: float) -> None:
    budget = Budget(epsilon, delta, accounting)
    assert budget.rho > 0
    assert 0 <= spent(budget, Fraction(1)) <= epsilon * (1 + 1e-9)


# Charges.


def test_charges_are_rounded_up_to_a_fixed_denominator() -> None:
    for charge, exact in (
        (gaussian_rho(1, 3.7), 1 / (2 * Fraction(3.7) ** 2)),
        (gaussian_rho(2.5, 1e9), Fraction(2.5) ** 2 / (2 * Fraction(10**18))),
        (exponential_rho(0.1), Fraction(0.1) ** 2 / 8),
    ):
        assert 0 <= charge - exact < Fraction(1, 2**100)
        assert 2**100 % charge.denominator == 0


@settings(max_examples=100, deadline=None)
@given(
    rho=st.floats(1e-20, 1e3),
    sensitivity=st.floats(0.01, 1e3),
    releases=st.integers(1, 10_000),
)
def test_stddev_is_the_smallest_that_fits(rho: float, sensitivity: float, releases: int) -> None:
    stddev = stddev_for(rho, sensitivity, releases)
    assert releases * gaussian_rho(sensitivity, stddev) <= Fraction(rho)
    assert releases * gaussian_rho(sensitivity, math.nextafter(stddev, 0.0)) > Fraction(rho)


# What is refused.


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-9, 1e6])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=r"epsilon is .*; it must lie between 1e-06 and 1000\. Usual values"):
        Budget(epsilon, 1e-5, "gdp")


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, 2.0, math.nan, math.inf])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(BudgetError, match=r"delta is .*; it must be at least 1e-100 and below 1\. Choose"):
        Budget(1.0, delta, "zcdp")


def test_other_refusals() -> None:
    with pytest.raises(BudgetError, match=r"one of gdp, zcdp\."):
        Budget(1.0, 1e-5, "rdp")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BudgetError, match="stddev is 0; it must be a positive finite number"):
        gaussian_rho(1, 0.0)
    with pytest.raises(BudgetError, match="sensitivity is nan"):
        gaussian_rho(math.nan, 1.0)
    with pytest.raises(BudgetError, match="0 releases"):
        stddev_for(1.0, 1, 0)
    with pytest.raises(BudgetError, match="Release less often"):
        stddev_for(1e-30, 1, 10)
    with pytest.raises(BudgetError, match="negative"):
        epsilon_spent(Fraction(-1), 1e-5, "gdp")
    with pytest.raises(BudgetError, match="epsilon is -1"):
        gaussian_delta(1.0, -1.0)


# A second opinion.


@pytest.mark.parametrize(("stddevs", "epsilon"), [((3.0,), 1.0), ((5.0, 20.0, 20.0), 0.8), ((1.0,) * 8, 15.0)])
def test_privacy_loss_distributions_agree(stddevs: tuple[float, ...], epsilon: float) -> None:
    """dp-accounting composes numerically and rounds up, so it must lie just above the exact curve."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    composed = pld.from_gaussian_mechanism(stddevs[0], value_discretization_interval=1e-3)
    for stddev in stddevs[1:]:
        composed = composed.compose(pld.from_gaussian_mechanism(stddev, value_discretization_interval=1e-3))
    rho = sum((gaussian_rho(1, stddev) for stddev in stddevs), Fraction(0))
    ours = epsilon_spent(rho, 1e-6, "gdp")
    theirs = composed.get_epsilon_for_delta(1e-6)
    assert ours <= theirs <= ours * 1.001
    assert gaussian_delta(math.sqrt(2 * rho), epsilon) == pytest.approx(
        composed.get_delta_for_epsilon(epsilon), rel=1e-2
    )
    assert zcdp_epsilon(rho, 1e-6) > ours
