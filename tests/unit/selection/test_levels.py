"""Levels of hierarchies by noisy counts, on cases small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.selection.grouping import _pair_cells, coarse_maps, merged_oneways, spread_counts, within_groups
from lookalike.selection.pricing import EffectiveCells

LEVELS = [np.arange(100) // 5, np.arange(100) // 25]


@pytest.mark.parametrize(("limit", "groups"), [(1e9, 100), (10_000, 100), (9_999, 20), (400, 20), (399, 4), (1, 4)])
def test_the_finest_level_that_fits_is_taken_else_the_coarsest(limit: float, groups: int) -> None:
    maps = coarse_maps({"x": LEVELS}, {"x": np.full(100, 1e9)}, 1.0, limit)
    assert (int(maps["x"].max()) + 1 if "x" in maps else 100) == groups


def test_values_that_nobody_has_do_not_count() -> None:
    counts = np.zeros(100)
    counts[::20] = 1e6
    assert coarse_maps({"x": LEVELS}, {"x": counts}, 1.0, 25.0) == {}


def test_cells_of_a_column_with_its_like_are_those_of_the_table() -> None:
    rng = np.random.default_rng(0)
    for stddev in (0.1, 3.0, 200.0, 1e6):
        counts = rng.exponential(50.0, 30) * (rng.random(30) < 0.7)
        wanted = EffectiveCells({"a": counts, "b": counts}, counts.sum(), stddev)(("a", "b"))
        assert _pair_cells(counts, stddev) == pytest.approx(wanted)
    assert _pair_cells(np.zeros(4), 1.0) == 1.0


def test_counts_of_groups() -> None:
    fine = NoisyMarginal(("x",), np.array([1.0, 2.0, 3.0, 4.0]), 2.0)
    other = NoisyMarginal(("y",), np.array([5.0, 5.0]), 1.0)
    merged = merged_oneways([fine, other], {"x": np.array([0, 0, 1, 1])})
    assert merged[0].values.tolist() == [3.0, 7.0]
    assert merged[0].stddev == pytest.approx(2.0 * 2**0.5)
    assert merged[1] is other


def test_values_are_spread_evenly_where_counts_are_noise_and_by_counts_where_they_are_not() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 50)
    true = np.concatenate([np.full(50, 100.0), np.where(np.arange(50) == 3, 20_000.0, 10.0)])
    noisy = NoisyMarginal(("x",), true + rng.normal(0, 60.0, 100), 60.0)
    spread = within_groups(noisy, groups)
    assert (spread >= 0).all()
    assert spread[:50].std() < 0.5 * noisy.values[:50].std()
    assert spread[53] == pytest.approx(20_000, rel=0.02)
    assert np.abs(spread - true)[:50].sum() < 0.6 * np.abs(np.maximum(noisy.values, 0) - true)[:50].sum()
    assert set(spread_counts([noisy], {"x": groups})) == {"x"}
    assert spread_counts([noisy], {}) == {}
