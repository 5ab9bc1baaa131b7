"""The Gaussian copula: thresholds and correlations are the inverse of sampling."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.models.copula import GaussianCopula, Grades, grades, nearest_correlation, normal_correlation
from lookalike.schema.domain import Domain

MARGINS = (np.array([0.5, 0.2, 0.3]), np.array([0.9, 0.1]), np.full(20, 0.05), np.array([0.0, 0.7, 0.0, 0.3]))
DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 20, 4))


def copula(correlation: float) -> GaussianCopula:
    matrix = np.full((4, 4), correlation)
    np.fill_diagonal(matrix, 1.0)
    return GaussianCopula(DOMAIN, 1000.0, MARGINS, matrix)


def test_rows_have_the_margins_and_no_value_of_probability_zero() -> None:
    codes = copula(0.5).sample(200_000, np.random.default_rng(0))
    for i, margin in enumerate(MARGINS):
        found = np.bincount(codes[:, i], minlength=len(margin)) / len(codes)
        np.testing.assert_allclose(found, margin, atol=0.006)
        assert (found[margin == 0] == 0).all()


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.4, 0.9])
def test_the_mean_product_of_grades_gives_the_correlation_back_whatever_the_ties(correlation: float) -> None:
    """Standard errors: products are at most 1 and there are 400,000 rows, so 0.02 is more than six of them."""
    codes = copula(correlation).sample(400_000, np.random.default_rng(1))
    columns = [Grades.of(margin, 64) for margin in MARGINS]
    for i in range(4):
        for j in range(i):
            product = (columns[i].values[codes[:, i]] * columns[j].values[codes[:, j]]).mean()
            assert normal_correlation(columns[i], columns[j], product) == pytest.approx(correlation, abs=0.03)


def test_products_beyond_reach_give_the_strongest_correlation() -> None:
    column = Grades.of(MARGINS[2], 64)
    assert normal_correlation(column, column, 2.0) == pytest.approx(0.98)
    assert normal_correlation(column, column, -2.0) == pytest.approx(-0.98)


@pytest.mark.parametrize("margin", [*MARGINS, np.ones(1), np.array([1.0, 0.0])])
def test_grades_rise_within_one(margin: np.ndarray) -> None:
    found = grades(margin, 64)
    assert (np.diff(found) >= 0).all()
    assert np.abs(found).max() <= 1
    np.testing.assert_array_equal(found * 64, np.rint(found * 64))


def test_the_nearest_correlation_is_one_and_keeps_one() -> None:
    rng = np.random.default_rng(0)
    broken = np.clip(rng.normal(0, 1, (6, 6)), -0.98, 0.98)
    broken = (broken + broken.T) / 2
    np.fill_diagonal(broken, 1.0)
    mended = nearest_correlation(broken)
    np.testing.assert_allclose(np.diag(mended), 1.0)
    assert np.linalg.eigvalsh(mended).min() > 0
    sound = copula(0.4).correlation
    np.testing.assert_allclose(nearest_correlation(sound), sound, atol=1e-12)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="margins"):
        GaussianCopula(DOMAIN, 1.0, MARGINS[:3], np.eye(4))
    with pytest.raises(ValueError, match="correlations"):
        GaussianCopula(DOMAIN, 1.0, MARGINS, np.eye(3))
