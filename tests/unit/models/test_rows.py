"""The rows model: its marginals, its samples, its parts, and GUM on any method's noisy marginals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.models.archive import stored_model
from lookalike.models.rows import GumRows, gum_model
from lookalike.sampling.row_update import GumSchedule, GumSettings
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4, "d": 2})
STARTS = [
    GumSettings(),
    GumSettings(start="tree"),
    GumSettings(start="independent", schedule=GumSchedule()),
    GumSettings.of_flows(),
    GumSettings(append=False),
]


def measured(stddev: float, cliques: list[tuple[str, ...]] | None = None) -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    full = rng.dirichlet(np.full(DOMAIN.cells(), 0.4)).reshape(DOMAIN.sizes) * 3000
    found = []
    for clique in cliques or list(combinations(DOMAIN.names, 2)):
        table = full.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))
        found.append(NoisyMarginal(clique, table + rng.normal(0, stddev, table.shape), stddev))
    return found


@pytest.mark.parametrize("settings", STARTS, ids=lambda s: f"{s.start}-{s.updates}-{s.append}")
@pytest.mark.parametrize("cliques", [None, [("a", "b"), ("b", "c"), ("c", "d")], [("a",), ("b", "c", "d")]])
def test_rows_fit_the_measured_marginals(settings: GumSettings, cliques: list[tuple[str, ...]] | None) -> None:
    measurements = measured(1.0, cliques)
    model = gum_model(DOMAIN, measurements, rng=np.random.default_rng(1), settings=settings)
    assert len(model.codes) == round(model.total)
    for measurement in measurements:
        found = model.marginal(measurement.attrs)
        assert found.sum() == pytest.approx(model.total)
        assert np.abs(found - measurement.values).sum() < 0.06 * model.total


def test_columns_without_any_measurement_are_even() -> None:
    model = gum_model(DOMAIN, measured(1.0, [("a", "b")]), rng=np.random.default_rng(0))
    assert np.ptp(model.marginal(("d",))) < 3


def test_sample_gives_the_rows_or_makes_as_many_as_wanted() -> None:
    model = gum_model(DOMAIN, measured(5.0), rng=np.random.default_rng(1))
    same = model.sample(len(model.codes), np.random.default_rng(2))
    np.testing.assert_array_equal(np.unique(same, axis=0), np.unique(model.codes, axis=0))
    for rows in (0, 1, 777, 10_000):
        codes = model.sample(rows, np.random.default_rng(3))
        assert codes.shape == (rows, 4)
        assert codes.dtype == np.int32
        np.testing.assert_array_equal(codes, model.sample(rows, np.random.default_rng(3)))
        assert rows == 0 or (codes.min() >= 0 and (codes.max(axis=0) < DOMAIN.sizes).all())


def test_parts_give_the_model_back() -> None:
    settings = GumSettings(start="tree", schedule=GumSchedule(sweeps=3))
    model = gum_model(DOMAIN, measured(5.0), rng=np.random.default_rng(1), settings=settings)
    meta, arrays = taken_apart(model)
    again = stored_model(Stored(meta, arrays))
    assert isinstance(again, GumRows)
    assert again.settings == settings
    np.testing.assert_array_equal(again.codes, model.codes)
    np.testing.assert_array_equal(
        again.sample(50, np.random.default_rng(0)), model.sample(50, np.random.default_rng(0))
    )
