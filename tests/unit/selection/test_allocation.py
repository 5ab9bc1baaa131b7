"""Budgets and noise against the corrected formulas: variance 1/(2 rho_i), shares c^(2/3), error S^1.5/sqrt(pi rho)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from lookalike.selection.steps import EXPECTED_ABS, allocate, noise_error, top_up

CELLS = [4, 30, 600, 25]


def total_error(rhos: np.ndarray) -> float:
    return float(sum(c * EXPECTED_ABS * math.sqrt(1 / (2 * r)) for c, r in zip(CELLS, rhos, strict=True)))


def test_shares_add_up_and_minimise_the_expected_error() -> None:
    shares = allocate(CELLS, 0.4)
    assert shares.sum() == pytest.approx(0.4)
    numeric = optimize.minimize(
        lambda logs: total_error(0.4 * np.exp(logs) / np.exp(logs).sum()), np.zeros(len(CELLS)), method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 10_000},
    )  # fmt: skip
    assert total_error(shares) <= numeric.fun * (1 + 1e-9)
    assert total_error(shares) == pytest.approx(numeric.fun, rel=1e-4)


def test_closed_form_of_the_expected_error() -> None:
    weight = float((np.array(CELLS) ** (2 / 3)).sum())
    assert noise_error(weight, 0.4) == pytest.approx(total_error(allocate(CELLS, 0.4)))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(1e-4, 10.0))
def test_top_up_spends_all_and_comes_nearest_to_shares_by_weight(count: int, seed: int, rho: float) -> None:
    rng = np.random.default_rng(seed)
    weights, spent = rng.uniform(0.1, 5.0, count), rng.uniform(0.0, 3.0, count) * rng.integers(0, 2, count)
    added = top_up(weights, spent, rho)
    assert added.sum() == pytest.approx(rho)
    assert (added >= 0).all()
    level = ((spent + added) / weights)[added > 0]
    # Additions that would have been tiny are left out, so shares by weight hold to a thousandth of the mean addition.
    slack = 2e-3 * rho / weights.min()
    assert np.ptp(level) <= slack
    assert (spent / weights >= level.max() - slack)[added == 0].all()
