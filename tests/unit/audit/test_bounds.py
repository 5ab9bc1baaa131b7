"""Bounds that are wrong no more often than they say, by exact enumeration of all outcomes."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from lookalike.audit.bounds import (
    Promised,
    epsilon_shown,
    gaussian_epsilon_shown,
    guesses_epsilon,
    guesses_p_value,
    number_of_guesses,
    rate_bounds,
    rho_shown,
    runs_to_show,
)
from lookalike.privacy.composition import gaussian_epsilon

RUNS, FAILURE = 25, 0.05
HITS = np.arange(RUNS + 1)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.2, 0.5, 0.9, 1.0])
def test_rates_are_missed_no_more_often_than_said(rate):
    low, high = rate_bounds(HITS, RUNS, FAILURE)
    chances = binom.pmf(HITS, RUNS, rate)
    assert chances[low > rate].sum() <= FAILURE
    assert chances[high < rate].sum() <= FAILURE
    assert (low <= HITS / RUNS).all()
    assert (high >= HITS / RUNS).all()


@pytest.mark.parametrize(("epsilon", "delta", "other"), [(0.5, 0.0, 0.3), (1.0, 0.01, 0.1), (0.1, 0.0, 0.9)])
def test_epsilon_is_overstated_no_more_often_than_said(epsilon, delta, other):
    rate = min(1.0, np.exp(epsilon) * other + delta)
    wrong = sum(
        binom.pmf(here, RUNS, rate) * binom.pmf(there, RUNS, other)
        for here in HITS
        for there in HITS
        if epsilon_shown(here, there, RUNS, delta=delta, failure=FAILURE) > epsilon
    )
    assert wrong <= FAILURE


def test_gaussian_epsilon_is_overstated_no_more_often_than_said():
    mu, delta = 1.0, 1e-5
    other, rate = norm.sf(0.7), norm.sf(0.7 - mu)
    limit = gaussian_epsilon(mu, delta)
    shown = np.array(
        [
            [gaussian_epsilon_shown(i, j, RUNS, delta=delta, threshold_delta=0.0, failure=FAILURE) for j in HITS]
            for i in HITS
        ]
    )
    chances = np.outer(binom.pmf(HITS, RUNS, rate), binom.pmf(HITS, RUNS, other))
    assert 0 < chances[shown > limit].sum() <= FAILURE


def test_the_gaussian_claim_says_more():
    plain = epsilon_shown(150, 60, 200, delta=1e-5, failure=1e-3)
    gaussian = gaussian_epsilon_shown(150, 60, 200, delta=1e-5, threshold_delta=1e-6, failure=1e-3)
    assert gaussian > 2 * plain > 0


def test_nothing_shows_nothing():
    assert epsilon_shown(0, 0, 50, delta=0.0, failure=0.1) == 0
    assert epsilon_shown(3, 40, 50, delta=0.0, failure=0.1) == 0
    assert gaussian_epsilon_shown(50, 50, 50, delta=1e-5, threshold_delta=0.0, failure=0.1) == 0
    assert epsilon_shown(1, 0, 50, delta=0.5, failure=0.1) == 0


# The strengths of Gaussian DP and zCDP, and guesses about inserted rows.


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_rho_is_overstated_no_more_often_than_said(mu):
    """The Gaussian mechanism of mu is (mu^2 / 2)-zCDP, so an event of it may rarely show more."""
    rates = norm.cdf(mu / 2), norm.cdf(-mu / 2)
    shown = np.array([[rho_shown(i, j, RUNS, failure=FAILURE) for j in HITS] for i in HITS])
    chances = np.outer(binom.pmf(HITS, RUNS, rates[0]), binom.pmf(HITS, RUNS, rates[1]))
    assert chances[shown > mu**2 / 2].sum() <= FAILURE


def test_a_claim_that_is_used_up_is_shown_in_part_and_never_in_full():
    for kind in ("gdp", "zcdp", "pure"):
        promised = Promised(kind, 0.8, 1e-5)
        assert promised.expected(200, 1e-3) < promised.expected(20_000, 1e-3) < 0.8
    assert 0.79 < Promised("gdp", 0.8, 1e-5).expected(10**7, 1e-3) < 0.8
    runs = runs_to_show(Promised("gdp", 0.8, 1e-5), 0.7, 1e-3)
    assert Promised("gdp", 0.8, 1e-5).expected(runs, 1e-3) >= 0.7 * 0.8


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_randomized_response_is_guessed_no_better_than_the_bound_says(epsilon):
    """Pure DP: the coins themselves, each kept with probability e^epsilon / (1 + e^epsilon), attain the bound."""
    rate = 1 / (1 + np.exp(-epsilon))
    shown = np.array([guesses_epsilon(RUNS, RUNS, int(v), 0.0, FAILURE) for v in HITS])
    assert binom.pmf(HITS, RUNS, rate)[shown > epsilon].sum() <= FAILURE


def test_delta_weakens_guesses_as_the_theorem_says():
    """A release that shows all coins with probability delta, and nothing otherwise, is (0, delta)-private."""
    rows, delta = 12, 0.002
    for correct in range(7, rows + 1):
        chance = delta + (1 - delta) * binom.sf(correct - 1, rows, 0.5)
        assert guesses_p_value(rows, rows, correct, 0.0, delta) >= chance * (1 - 1e-12)
    assert guesses_p_value(rows, rows, rows, 0.0, delta) < 0.02


def test_the_number_of_guesses_is_chosen_from_public_numbers():
    assert number_of_guesses(300, 0.9, 1e-5, 1e-3) == number_of_guesses(300, 0.9, 1e-5, 1e-3)
    assert 2 <= number_of_guesses(50, 0.1, 1e-5, 1e-3) <= 50
