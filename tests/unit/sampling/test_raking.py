"""Raking: the cell equation is solved, exact targets are fitted, noise bends less, weights never collapse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.raking import Raking, rake, raked_rows, soft_log_ratio
from lookalike.sampling.row_update import mean_l1
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 3, "b": 3, "c": 3})
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))


def pair_targets(full: np.ndarray, stddev: float = 0.0) -> ConsistentMarginals:
    tables = tuple(full.sum(axis=axis) for axis in (2, 1, 0))
    return ConsistentMarginals(DOMAIN, PAIRS, tables, (stddev,) * 3, float(full.sum()))


@settings(max_examples=200, deadline=None)
@given(st.floats(-50, 1e5), st.floats(0.01, 1e5), st.floats(0, 500))
def test_the_cell_equation_is_solved_within_its_limits(wanted: float, count: float, pull: float) -> None:
    (f,) = soft_log_ratio(np.array([wanted]), np.array([count]), pull)
    if abs(f) < 6:
        assert count * np.exp(f) + pull * f == pytest.approx(wanted, rel=1e-6, abs=1e-6 * (count + pull))
    else:
        assert np.sign(f) == np.sign(wanted - count * np.exp(f) - pull * f)


def test_empty_cells_keep_factor_one() -> None:
    np.testing.assert_array_equal(soft_log_ratio(np.array([5.0]), np.array([0.0]), 1.0), [0.0])


def test_exact_targets_that_no_tree_has_are_fitted() -> None:
    full = np.random.default_rng(0).gamma(0.5, 100, (3, 3, 3))
    targets = pair_targets(full)
    codes, fit = raked_rows(targets, 20_000, np.random.default_rng(1), Raking(sweeps=30))
    assert fit.carried
    assert mean_l1(codes, targets) < 0.01


def test_the_weighted_pool_has_the_smoothed_targets_and_more_noise_means_less_bending() -> None:
    full = np.random.default_rng(2).gamma(0.5, 100, (3, 3, 3))
    pool = np.random.default_rng(3).integers(0, 3, (30_000, 3)).astype(np.int32)
    spreads = []
    for stddev in (0.0, 30.0, 300.0):
        fit = rake(pair_targets(full, stddev), pool, Raking(sweeps=200))
        weighted = np.zeros((3, 3))
        np.add.at(weighted, (pool[:, 0], pool[:, 1]), fit.weights * full.sum() / len(pool))
        np.testing.assert_allclose(weighted, fit.smoothed.tables[0], atol=0.02 * full.sum())
        spreads.append(float(np.log(fit.weights).std()))
    assert spreads[0] > spreads[1] > spreads[2]


def test_weights_are_flattened_when_too_few_rows_would_carry_them() -> None:
    full = np.full((3, 3, 3), 0.01)
    full[0, 0, 0] = 1000.0
    pool = np.random.default_rng(4).integers(0, 3, (2700, 3)).astype(np.int32)
    fit = rake(pair_targets(full), pool, Raking(), min_effective=1000)
    assert not fit.carried
    assert fit.weights.sum() ** 2 / (fit.weights**2).sum() >= 1000


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="smoothing"):
        Raking(smoothing=-1.0)
    with pytest.raises(ValueError, match="pool_factor"):
        Raking(pool_factor=0)
