"""Merged values are spread back exactly in marginals and proportionally in rows."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.models.archive import stored_model
from lookalike.models.refine import RefinedModel, split_shares
from lookalike.models.rows import RowsModel, gum_model
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart

FINE, COARSE = Domain.of({"a": 2, "b": 5}), Domain.of({"a": 2, "b": 3})
KEPT = {"b": np.array([0, 2, 1, 2, 2])}
COUNTS = {"b": np.array([500.0, 30.0, 400.0, 10.0, -5.0])}


def coarse_model() -> RowsModel:
    table = np.array([[300.0, 150.0, 10.0], [200.0, 250.0, 90.0]])
    return gum_model(COARSE, [NoisyMarginal(("a", "b"), table, 0.1)], rng=np.random.default_rng(0))


def test_marginals_expand_by_the_shares() -> None:
    coarse = coarse_model()
    model = RefinedModel.of(FINE, coarse, KEPT, COUNTS)
    assert model.domain == FINE
    assert model.total == coarse.total
    narrow, wide = coarse.marginal(("a", "b")), model.marginal(("b", "a"))
    assert wide.shape == (2, 5)
    np.testing.assert_allclose(wide[:, 0], narrow[:, 0])
    np.testing.assert_allclose(wide[:, 1], 0.75 * narrow[:, 2])
    np.testing.assert_allclose(wide[:, 4], 0.0)
    np.testing.assert_allclose(wide.sum(axis=1), model.marginal(("a",)))


def test_rows_have_the_marginals_and_stay_in_the_fine_domain() -> None:
    model = RefinedModel.of(FINE, coarse_model(), KEPT, COUNTS)
    codes = model.sample(1000, np.random.default_rng(1))
    assert codes.shape == (1000, 2)
    assert np.abs(np.bincount(codes[:, 1], minlength=5) - model.marginal(("b",))).max() <= 2


def test_parts_give_the_model_back() -> None:
    model = RefinedModel.of(FINE, coarse_model(), KEPT, COUNTS)
    again = stored_model(Stored(*taken_apart(model)))
    np.testing.assert_allclose(again.marginal(("a", "b")), model.marginal(("a", "b")))


def test_nothing_merged_gives_the_model_itself() -> None:
    coarse = coarse_model()
    assert RefinedModel.of(COARSE, coarse, {}, {}) is coarse


def test_values_without_any_count_share_evenly() -> None:
    np.testing.assert_allclose(split_shares(np.array([0, 1, 1]), np.array([5.0, -1.0, 0.0])), [1.0, 0.5, 0.5])


def test_a_map_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="map does not fit"):
        RefinedModel(FINE, coarse_model(), {}, {})
    with pytest.raises(ValueError, match="add up to 1"):
        RefinedModel(FINE, coarse_model(), KEPT, {"b": np.full(5, 0.5)})
