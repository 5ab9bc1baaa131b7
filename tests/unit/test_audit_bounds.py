"""Bounds that are wrong no more often than they say, by exact enumeration of all outcomes."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from lookalike.audit import epsilon_shown, gaussian_epsilon_shown, rate_bounds
from lookalike.privacy.epsilon import gaussian_epsilon

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
