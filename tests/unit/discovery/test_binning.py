"""Bins from noisy counts of cells: which cells hold rows, single values, tails, rounding. No data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery import binning, grids, ranges
from lookalike.discovery.grids import Grid, Rows
from lookalike.schema.binned import Integer
from lookalike.schema.draw import draw_numbers
from lookalike.schema.probes import Roundness


def exact_grid(counts: np.ndarray, stddev: float, edges: np.ndarray | None = None, high: float | None = None) -> Grid:
    """A grid of these counts, said to have this noise; of single numbers from zero if no edges are given."""
    edges = np.arange(len(counts)) if edges is None else edges
    last = len(counts) - 1 if high is None else high
    return Grid.of(edges, last, np.asarray(counts, dtype=float), np.full(len(counts), stddev**2), 1)


def noisy_grid(values: np.ndarray, edges: np.ndarray, high: float, stddev: float, seed: int = 0) -> Grid:
    counts = np.bincount(np.searchsorted(edges, values, side="right") - 1, minlength=len(edges))
    return exact_grid(counts + np.random.default_rng(seed).normal(0, stddev, len(edges)), stddev, edges, high)


def test_spikes_are_separate_pieces_and_empty_ends_are_dropped():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.integers(20, 60, 8000), np.full(3000, 40)])
    rows = Rows(11_000.0, 400.0)
    grid = noisy_grid(values, np.arange(0, 100), 99, 20.0)
    occupied = grid.part(*ranges.occupied(grid, rows))
    assert abs(occupied.edges[0] - 20) <= 1
    assert abs(occupied.high - 59) <= 1
    edges, weights = binning.pieces_of(occupied, rows)
    at = edges.tolist().index(40)
    assert edges[at + 1] == 41
    assert abs(weights[at] - 3200) < 100
    bins = binning.bins_of(edges, weights, 8, 100.0)
    assert 41 in bins
    assert {39, 40} & set(bins.tolist())
    assert 6 <= len(bins) <= 12


@pytest.mark.parametrize("seed", range(20))
def test_rows_thinly_spread_over_many_cells_are_not_cut_down_to_the_one_that_stands_out(seed):
    values = np.random.default_rng(seed).integers(100, 200, 3000)
    grid = noisy_grid(values, np.arange(0, 400), 399, 12.0, seed)
    occupied = grid.part(*ranges.occupied(grid, Rows(3000.0, 144.0)))
    inside = (values >= occupied.edges[0]) & (values <= occupied.high)
    assert inside.mean() > 0.8


@pytest.mark.parametrize(
    ("place", "deviations", "reached"),
    [(90, 4.2, False), (90, 6.0, True), (42, 3.8, True), (36, 3.8, True), (10, 4.2, False), (10, 6.0, True)],
)
def test_a_range_reaches_an_isolated_cell_only_where_it_is_significant(place, deviations, reached):
    counts = np.zeros(120)
    counts[38:41] = 10_000.0
    counts[place] = deviations * 100.0
    grid = exact_grid(counts, 100.0)
    occupied = grid.part(*ranges.occupied(grid, Rows(30_000.0, 100.0**2)))
    assert (place in occupied.edges) == reached
    assert {38, 39, 40} <= set(occupied.edges.tolist())


def test_a_change_of_sign_needs_a_clear_cell():
    edges = np.arange(-20, 21)
    for deviations, reached in ((3.8, False), (4.2, True)):
        counts = np.zeros(41)
        counts[20:30] = 10_000.0
        counts[19] = deviations * 100.0
        grid = exact_grid(counts, 100.0, edges, 20)
        occupied = grid.part(*ranges.occupied(grid, Rows(100_000.0, 0.0)))
        assert (occupied.edges[0] == -1) == reached


def test_rows_far_away_are_kept_where_the_rest_is_not_nearly_all():
    counts = np.zeros(120)
    counts[[40, 80]] = 520.0, 420.0
    grid = exact_grid(counts, 100.0)
    occupied = grid.part(*ranges.occupied(grid, Rows(2000.0, 100.0**2)))
    assert {40, 80} <= set(occupied.edges.tolist())


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_does_not_stand_out(seed):
    counts = np.random.default_rng(seed).normal(0, 10.0, 300)
    assert not grids.visible(counts, np.full(300, 10.0), grids.SURE).any()


def tail_grid(values: np.ndarray, noise: float, seed: int) -> Grid:
    """Noisy counts of numbers in cells whose edges are 1, 1.5, 2, 3, 4, 5, 7 times the powers of ten."""
    edges = np.array([0, *(round(d * 10.0**p) for p in range(8) for d in (1, 1.5, 2, 3, 4, 5, 7))])
    return noisy_grid(values, np.unique(edges), 10**8 - 1, noise, seed)


def test_rows_of_a_heavy_tail_that_no_cell_shows_are_expected_beyond_the_range():
    ratios = []
    for seed in range(20):
        values = (100 * (1 + np.random.default_rng(seed).pareto(1.2, 20_000))).astype(int)
        grid, rows = tail_grid(values, 60.0, seed), Rows(20_000.0, 900.0)
        ended, (_, last) = ranges.with_ends(grid, rows), ranges.held_surely(grid)
        assert ended.high >= grid.ends[last + 1] - 1
        ratios.append(ended.high / np.quantile(values, 0.999))
    assert 1 / 4 < np.median(ratios) < 4
    assert max(ratios) < 10


@pytest.mark.parametrize("seed", range(10))
def test_a_range_that_ends_at_once_is_hardly_extended(seed):
    values = np.random.default_rng(seed).integers(1000, 10_000, 20_000)
    ended = ranges.with_ends(tail_grid(values, 60.0, seed), Rows(20_000.0, 900.0))
    assert ended.edges[0] >= 700
    assert ended.high < 20_000


@pytest.mark.parametrize("seed", range(10))
def test_a_flag_that_hardly_stands_out_is_the_value_next_to_the_only_one(seed):
    values = np.repeat([0, 1], [5800, 200])
    grid = noisy_grid(values, np.arange(-5, 40), 39, 50.0, seed)
    ended = ranges.with_ends(grid, Rows(6000.0, 900.0))
    assert ended.edges[0] == 0
    assert 1 <= ended.high <= 3
    assert 50 < ended.counts[1:].sum() < 400


def test_a_constant_column_stays_constant_in_nearly_all_runs():
    made = []
    for seed in range(40):
        grid = noisy_grid(np.full(6000, 7), np.arange(-5, 40), 39, 50.0, seed)
        made.append(ranges.with_ends(grid, Rows(6000.0 + np.random.default_rng(seed).normal(0, 30), 900.0)))
    assert sum(len(grid.edges) > 1 for grid in made) <= 8
    assert all(abs(grid.edges[0] - 7) <= 1 for grid in made)


def test_ranges_of_log_normal_numbers_end_near_their_outermost_thousandth():
    ratios = []
    for seed in range(20):
        values = np.exp(np.random.default_rng(seed).normal(6, 1.5, 10_000)).astype(int)
        ended = ranges.with_ends(tail_grid(values, 50.0, seed), Rows(10_000.0, 625.0))
        ratios.append(ended.high / np.quantile(values, 0.999))
    assert 1 / 2 < np.median(ratios) < 2
    assert sum(1 / 3 < ratio < 3 for ratio in ratios) >= 15


def test_amounts_beside_zeros_that_no_cell_shows_are_made_at_their_size():
    found = []
    for seed in range(20):
        amounts = np.exp(np.random.default_rng(seed).normal(5, 0.7, 900)).astype(int)
        values = np.append(np.zeros(19_100, dtype=int), amounts)
        grid, rows = tail_grid(values, 90.0, seed), Rows(20_000.0, 900.0)
        ended = ranges.with_ends(grid, rows)
        found.append(1 / 3 < ended.high / np.quantile(values, 0.999) < 3)
        assert 500 < ended.counts[1:].sum() < 1300
    assert sum(found) >= 12


@pytest.mark.parametrize("seed", range(10))
def test_a_flag_that_is_seen_has_no_third_value(seed):
    grid = noisy_grid(np.repeat([0, 1], [2700, 300]), np.arange(-5, 40), 39, 30.0, seed)
    assert ranges.with_ends(grid, Rows(3000.0, 225.0)).high == 1


def test_few_amounts_beside_zeros_are_no_list_of_the_smallest():
    edges = np.array([0, 1, 2, 3, 4, 30, 100, 300])
    counts = np.array([5960.0, 2, 1, 1, 3, 8, 15, 10])
    modelled = np.append(30.0, counts[1:] / 4) ** 2
    amounts = Grid.of(edges, 999, counts, modelled, 1)
    assert binning.listed_values(amounts, Rows(6000.0, 900.0)) is None
    small = Grid.of(edges, 999, counts[[0, 6, 5, 7, 1, 2, 3, 4]], modelled[[0, 6, 5, 7, 1, 2, 3, 4]], 1)
    values = binning.listed_values(small, Rows(6000.0, 900.0))
    assert values is not None
    assert values.tolist() == [True] * 4 + [False] * 4


def test_where_nothing_can_be_seen_numbers_are_small_and_plausible():
    edges = np.array([-(10**6), -1, 0, 1, 100, 2000, 10**9])
    grid = exact_grid(np.array([90.0, 80.0, 5.0, 10.0, 30.0, 60.0, 95.0]), 50.0, edges, 10**12)
    assert ranges.held_surely(grid) == (4, 4)
    assert ranges.held_surely(dataclasses.replace(grid, tick=0.001)) == (5, 5)


def test_empty_ends_of_a_cell_that_was_cut_up_are_dropped():
    old = exact_grid(np.array([4000.0]), 10.0, np.array([0]), 99)
    counts = np.array([0.0, 0.0, 1000, 1000, 1000, 1000, 0, 0, 0, 0])
    grid = grids.refined(old, grids.split(old, np.array([10])), counts, 10.0)
    cut = grid.part(*ranges.trimmed(grid, 0, 9, low=True, high=True))
    assert (cut.edges[0], cut.high) == (20, 59)
    assert ranges.trimmed(grid, 0, 9, low=False, high=True) == (0, 5)


def test_combined_counts_agree_with_the_cell_they_were_cut_from():
    old = exact_grid(np.array([1000.0, 0.0]), 10.0, np.array([0, 64]), 64)
    finer = grids.split(old, np.array([64, 64]))
    assert len(finer.edges) == 65
    merged = grids.refined(old, finer, np.append(np.full(64, 10.0), 3.0), 10.0)
    assert merged.counts[:64].sum() == pytest.approx((64 * 1000 + 640) / 65)
    assert merged.counts[64] == pytest.approx(1.5)
    assert merged.variance_of(np.arange(65) < 64) == pytest.approx(100 * 64 / 65)


def test_single_values_stay_apart_and_the_rest_is_joined_again():
    old = exact_grid(np.array([2000.0]), 10.0, np.array([0]), 99)
    counts = np.full(100, 10.0)
    counts[50] = 1010.0
    grid = binning.with_values_apart(grids.refined(old, grids.split(old, np.array([100])), counts, 10.0))
    assert grid.edges.tolist() == [0, 50, 51]
    assert grid.counts == pytest.approx([500, 1010, 490], rel=0.02)


def test_values_that_were_counted_are_cells_of_floats():
    grid = Grid.of(np.array([0.0, 10.0]), 20.0, np.array([1000.0, 500.0]), np.full(2, 100.0), 0)
    found = grids.with_spikes(grid, {0.0: 800.0, 12.5: 100.0, 99.0: 50.0}, 10.0)
    cells = dict(zip(found.edges.tolist(), found.counts.tolist(), strict=True))
    assert cells[0.0] == 800.0
    assert cells[12.5] == 100.0
    assert found.counts.sum() == pytest.approx(1500.0)
    assert found.high == 20.0


def test_a_column_of_few_values_makes_only_these():
    counts = np.zeros(100)
    counts[[5, 10, 60]] = 3000.0, 1000.0, 500.0
    grid, rows = exact_grid(counts, 10.0), Rows(4500.0, 100.0)
    values = binning.listed_values(grid, rows)
    assert values is not None
    assert np.flatnonzero(values).tolist() == [5, 10, 60]
    edges, weights = binning.pieces_of(grid, rows)
    made = {edge for edge, weight in zip(edges.tolist(), weights.tolist(), strict=True) if weight > 0}
    assert made == {5, 10, 60}
    assert {6, 11, 61} <= set(edges.tolist())


def test_a_column_with_other_rows_is_no_list_of_values():
    counts = np.full(100, 30.0)
    counts[[5, 10, 60]] = 3000.0, 1000.0, 500.0
    assert binning.listed_values(exact_grid(counts, 40.0), Rows(float(counts.sum()), 100.0)) is None


def test_the_density_falls_within_a_wide_piece_as_around_it():
    edges, weights = np.array([1, 10, 100]), np.array([900.0, 90.0, 9.0])
    cut, parts = binning.smoothed(edges, weights, 999, 1)
    assert set(edges.tolist()) <= set(cut.tolist())
    for low, high, weight in ((1, 10, 900.0), (10, 100, 90.0), (100, 1000, 9.0)):
        own = (cut >= low) & (cut < high)
        assert parts[own].sum() == pytest.approx(weight)
        density = parts[own] / np.diff(np.append(cut[own], high))
        assert np.all(np.diff(density) < 0)


def test_rounding_shares_are_found_and_reproduced():
    rng = np.random.default_rng(0)
    column = Integer("x", minimum=1, maximum=10_000, bins=1, rounding=((1, 0.2), (10, 0.5), (100, 0.3)))
    drawn = draw_numbers(column, np.zeros(40_000, dtype=int), rng)
    codes = Roundness("x", base=column, steps=(1, 5, 10, 50, 100)).codes(pa.array(drawn))
    counts = np.bincount(codes, minlength=6)[:-1] + rng.normal(0, 20, 5)
    found = dict(binning.rounding_of((1, 5, 10, 50, 100), counts, 20.0))
    assert found[1] == pytest.approx(0.2, abs=0.02)
    assert found[10] == pytest.approx(0.5, abs=0.02)
    assert found[100] == pytest.approx(0.3, abs=0.02)
    even = Roundness("x", base=column, steps=(1, 5)).codes(pa.array(rng.integers(1, 9999, 9999)))
    assert binning.rounding_of((1, 5), np.bincount(even, minlength=3)[:-1].astype(float), 5.0) == ()


def test_cells_within_a_run_keep_their_counts_as_far_as_these_stand_out():
    edges, noise = np.arange(0, 60, 10), np.full(6, 30.0**2)
    uneven = Grid.of(edges, 59, np.array([10.0, 20.0, 95.0, 110.0, 15.0, 5.0]), noise, 1)
    even = Grid.of(edges, 59, np.array([40.0, 50.0, 45.0, 38.0, 42.0, 40.0]), noise, 1)
    _, weights = binning.pieces_of(uneven, Rows(255.0, 1.0))
    assert weights.sum() == pytest.approx(255.0)
    assert 10.0 < weights[0] < 42.5 < weights[3] < 110.0
    _, weights = binning.pieces_of(even, Rows(255.0, 1.0))
    assert np.ptp(weights) < 1e-9


def test_the_end_of_a_range_falls_as_steeply_as_its_rows_demand():
    edges, weights = np.array([7000, 10000, 10100, 10200]), np.array([200.0, 1000.0, 2000.0, 1000.0])
    cut, parts = binning.smoothed(edges, weights, 10_299, 1)
    assert parts.sum() == pytest.approx(weights.sum())
    inside = cut < 10_000
    assert parts[inside].sum() == pytest.approx(200.0)
    assert parts[inside & (cut < 9700)].sum() < 10.0
    even = binning.smoothed(edges, np.array([20_000.0, 1000.0, 2000.0, 1000.0]), 10_299, 1)
    assert even[0].tolist() == edges.tolist()
