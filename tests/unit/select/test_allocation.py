"""Budgets and noise against the corrected formulas: variance 1/(2 rho_i), shares c^(2/3), error S^1.5/sqrt(pi rho)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from lookalike.select.allocation import allocate, expected_noise_error, gaussian_stddev

CELLS = [4, 30, 600, 25]


def total_error(rhos: np.ndarray) -> float:
    return float(sum(c * math.sqrt(2 / math.pi) * gaussian_stddev(r) for c, r in zip(CELLS, rhos, strict=True)))


def test_the_variance_of_a_marginal_is_one_over_two_rho() -> None:
    assert gaussian_stddev(0.03) ** 2 == pytest.approx(1 / (2 * 0.03))


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
    assert expected_noise_error(CELLS, 0.4) == pytest.approx(total_error(allocate(CELLS, 0.4)))
