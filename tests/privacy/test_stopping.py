"""Strict runs that stop count with what they spent: the ledger's numbers, and the claim behind them on a small run."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from lookalike.errors import BudgetExceededError
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import Budget, Charge, Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.run import REPRODUCIBLE, Run
from lookalike.privacy.stopping import STOPPED, stop_delta, stopped_epsilon

DELTA = 1e-3
ASIDE = stop_delta(DELTA)
BUDGET = Budget(1.0, DELTA - ASIDE, "gdp")


def begun(book: Ledger, **more: object) -> Run:
    given = {"method": "mst", "schema": "s", "budget": BUDGET, "neighbours": Neighbours(), "stop_delta": ASIDE}
    return book.begin(**{**given, **more})


def charge(run: Run, share: Fraction) -> None:
    run.charge(Charge("discover: classes of values", "gaussian", 1, BUDGET.rho * share))


def excess(mu: tuple[float, float], stop: float, counts: tuple[float, float], sign: int) -> float:
    """The smallest delta with which a run of two steps has a privacy loss of at most what it counts with.

    Step one releases a normal number of mean 0 or mu1. The run stops if that is above `stop`, and counts with the first
    epsilon; else it releases another one of mean 0 or mu2 and counts with the second. `sign` tells which table it is.
    """
    first = np.linspace(-12, 12, 200_001)
    width = first[1] - first[0]
    mean, other = (mu, (0.0, 0.0)) if sign > 0 else ((0.0, 0.0), mu)
    p, q = norm.pdf(first - mean[0]), norm.pdf(first - other[0])
    stopped = np.maximum(p - math.exp(counts[0]) * q, 0.0)[first > stop].sum() * width
    # Given the first number, the second has p * norm(mean2) against e^epsilon q * norm(other2): monotone in it.
    gap, ratio = mean[1] - other[1], np.log(p) - np.log(q)
    limit = (counts[1] - ratio + (mean[1] ** 2 - other[1] ** 2) / 2) / gap
    above = np.where(gap > 0, norm.sf(limit - mean[1]), norm.cdf(limit - mean[1]))
    above_other = np.where(gap > 0, norm.sf(limit - other[1]), norm.cdf(limit - other[1]))
    goes_on = np.maximum(p * above - math.exp(counts[1]) * q * above_other, 0.0)[first <= stop].sum() * width
    return float(stopped + goes_on)


MU = (math.sqrt(2 * 0.3 * BUDGET.rho), math.sqrt(2 * 0.7 * BUDGET.rho))
STOPS = np.linspace(-4, 4, 33)


def test_what_stopped_and_finished_runs_count_with_holds_on_a_small_run() -> None:
    counts = (stopped_epsilon(BUDGET, BUDGET.rho * Fraction(3, 10), ASIDE), BUDGET.epsilon)
    assert counts[0] < counts[1]
    for sign in (1, -1):
        for stop in STOPS:
            assert excess(MU, float(stop), counts, sign) <= DELTA * (1 + 1e-6)


def test_without_delta_set_aside_the_smaller_epsilon_would_be_false() -> None:
    """The epsilon of the charges alone, at the run's own delta: the test above would notice it."""
    naive = (epsilon_spent(BUDGET.rho * Fraction(3, 10), BUDGET.delta, "gdp"), BUDGET.epsilon)
    assert max(excess(MU, float(stop), naive, sign) for sign in (1, -1) for stop in STOPS) > BUDGET.delta * 1.01


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(89, 100), Fraction(1)])
def test_levels_cover_what_was_spent(share: Fraction) -> None:
    counted = stopped_epsilon(BUDGET, BUDGET.rho * share, ASIDE)
    level = Fraction(max(math.ceil(share * 10), 1), 10)
    assert level >= share
    assert counted == min(1.0, epsilon_spent(BUDGET.rho * level, ASIDE / 9, "gdp")) if level < 1 else counted == 1.0
    assert stopped_epsilon(BUDGET, BUDGET.rho * share, 0.0) == 1.0


def test_the_ledger_counts_a_stopped_run_and_frees_the_rest(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "l.jsonl", "t")
    book.set_cap(1.5)
    run = begun(book)
    charge(run, Fraction(1, 5))
    assert book.spent() == (1.0, DELTA)  # as long as it is open, or if it fails
    counted = run.stop()
    assert 0.3 < counted < 0.8
    again = Ledger(tmp_path / "l.jsonl", "t")
    assert again.spent() == (counted, DELTA)
    assert [(entry.status, entry.epsilon_counted) for entry in again.runs()] == [(STOPPED, counted)]
    second = begun(again) if counted <= 0.5 else None
    if second is None:
        with pytest.raises(BudgetExceededError):
            begun(again)


def test_only_strict_private_runs_count_for_less() -> None:
    book = Ledger(None, "t")
    plain = begun(book, stop_delta=0.0)
    charge(plain, Fraction(1, 5))
    assert plain.stop() == 1.0
    seeded = begun(book, noise=REPRODUCIBLE)
    charge(seeded, Fraction(1, 5))
    assert math.isinf(seeded.stop())
    failed = begun(book)
    charge(failed, Fraction(1, 5))
    failed.end("failed")
    assert book.runs()[2].epsilon_counted == 1.0
    assert book.runs()[2].delta_counted == DELTA
    nothing = begun(book)
    nothing.stop()
    assert book.runs()[3].epsilon_counted == 0.0
    claimed = replace(book.runs()[0], stopped=0.1, stop_delta=0.0)  # a line that says so proves nothing without a delta
    assert (claimed.status, claimed.epsilon_counted) == ("stopped", 1.0)
