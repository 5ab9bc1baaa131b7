"""DP-Copula on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import LookalikeError
from lookalike.models.copula import GaussianCopula
from lookalike.pipeline import synthesize
from lookalike.release import Release

SIZES = {"a": 20, "b": 20, "c": 2, "d": 5}
TRUE = np.array([[1.0, 0.8, -0.5, 0.0], [0.8, 1.0, -0.4, 0.0], [-0.5, -0.4, 1.0, 0.3], [0.0, 0.0, 0.3, 1.0]])


def run(rows: int, epsilon: float, **settings) -> Release:
    normals = np.random.default_rng(0).multivariate_normal(np.zeros(4), TRUE, rows)
    ranks = np.argsort(np.argsort(normals, axis=0), axis=0) / rows
    frame = pa.table({name: (ranks[:, i] * size).astype(np.int32) for i, (name, size) in enumerate(SIZES.items())})
    noise = np.random.default_rng(5)
    return synthesize(
        frame, schema=SIZES, epsilon=epsilon, delta=1e-6, method="dp-copula", seed=1, insecure_rng=noise, **settings
    )


@pytest.mark.parametrize("margin_share", [0.2, 0.5])
def test_finds_the_correlations_of_ordered_columns(margin_share: float) -> None:
    model = run(20_000, 2.0, margin_share=margin_share).fitted.model
    assert isinstance(model, GaussianCopula)
    np.testing.assert_allclose(model.correlation, TRUE, atol=0.06)


def test_hardly_any_budget_still_gives_a_correlation_matrix() -> None:
    model = run(50, 0.01).fitted.model
    assert isinstance(model, GaussianCopula)
    assert np.linalg.eigvalsh(model.correlation).min() > 0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_refuses_settings_that_make_no_sense(share: float) -> None:
    with pytest.raises(LookalikeError):
        run(10, 1.0, margin_share=share)
