"""Multiplicative weights: fits exact marginals, keeps what it is not told, survives noise larger than the table."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements.marginals import NoisyMarginal
from lookalike.models.dense import multiplicative_weights
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c"), (2, 3, 2))
TOTAL = 500.0


def uniform() -> np.ndarray:
    return np.full(DOMAIN.sizes, 1.0 / DOMAIN.cells())


def test_exact_marginals_are_met_after_many_passes() -> None:
    truth = np.random.default_rng(0).exponential(1.0, DOMAIN.sizes)
    truth *= TOTAL / truth.sum()
    known = [NoisyMarginal(("a", "b"), truth.sum(axis=2), 1.0), NoisyMarginal(("b", "c"), truth.sum(axis=0), 1.0)]
    table = multiplicative_weights(DOMAIN, uniform(), known, TOTAL, replays=4000)
    assert table.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(TOTAL * table.sum(axis=2), truth.sum(axis=2), atol=0.5)
    np.testing.assert_allclose(TOTAL * table.sum(axis=0), truth.sum(axis=0), atol=0.5)


def test_one_update_is_the_rule_of_the_paper() -> None:
    counts = np.array([400.0, 100.0])
    table = multiplicative_weights(DOMAIN, uniform(), [NoisyMarginal(("a",), counts, 1.0)], TOTAL, replays=1)
    factors = np.exp((counts - 250.0) / (2 * TOTAL))
    np.testing.assert_allclose(table.sum(axis=(1, 2)), factors / factors.sum())
    np.testing.assert_allclose(table / table.sum(axis=(1, 2), keepdims=True), 1 / 6)


def test_noise_beyond_the_table_leaves_finite_probabilities() -> None:
    wild = NoisyMarginal(("a", "c"), np.array([[1e9, -1e9], [3.0, -4e8]]), 1e9)
    table = multiplicative_weights(DOMAIN, uniform(), [wild], 1.0, replays=50)
    assert np.isfinite(table).all()
    assert table.sum() == pytest.approx(1.0)
