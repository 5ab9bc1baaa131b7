"""Bins from noisy counts of cells: which cells hold rows, single values, tails, rounding. No data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery import binning
from lookalike.discovery.binning import Grid, Rows
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
    occupied = binning.occupied(noisy_grid(values, np.arange(0, 100), 99, 20.0), rows)
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
    occupied = binning.occupied(grid, Rows(3000.0, 144.0))
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
    occupied = binning.occupied(exact_grid(counts, 100.0), Rows(30_000.0, 100.0**2))
    assert (place in occupied.edges) == reached
    assert {38, 39, 40} <= set(occupied.edges.tolist())


def test_a_change_of_sign_needs_a_clear_cell():
    edges = np.arange(-20, 21)
    for deviations, reached in ((3.8, False), (4.2, True)):
        counts = np.zeros(41)
        counts[20:30] = 10_000.0
        counts[19] = deviations * 100.0
        occupied = binning.occupied(exact_grid(counts, 100.0, edges, 20), Rows(100_000.0, 0.0))
        assert (occupied.edges[0] == -1) == reached


def test_rows_far_away_are_kept_where_the_rest_is_not_nearly_all():
    counts = np.zeros(120)
    counts[[40, 80]] = 520.0, 420.0
    occupied = binning.occupied(exact_grid(counts, 100.0), Rows(2000.0, 100.0**2))
    assert {40, 80} <= set(occupied.edges.tolist())


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_does_not_stand_out(seed):
    counts = np.random.default_rng(seed).normal(0, 10.0, 300)
    assert not binning.visible(counts, np.full(300, 10.0), binning.SURE).any()


def test_an_end_is_extended_only_where_rows_are_known_to_be_beyond_it():
    classes = exact_grid(np.array([0.0, 0.0, 900.0, 50.0, 0.0]), 10.0, np.array([0, 10, 20, 40, 100]), 999)
    grid = classes.part(2, 2)
    longer = binning.extended(grid, classes, (0.0, 10.0), (55.0, 10.0))
    assert longer.edges.tolist() == [20, 40]
    assert longer.high == 99
    assert longer.counts.tolist() == [900.0, 55.0]
    assert binning.extended(grid, classes, (0.0, 10.0), (20.0, 10.0)) is grid


def test_empty_ends_of_a_cell_that_was_cut_up_are_dropped():
    grid = binning.split(exact_grid(np.array([4000.0]), 10.0, np.array([0]), 99), np.array([10]))
    counts = np.array([0.0, 0.0, 1000, 1000, 1000, 1000, 0, 0, 0, 0])
    cut = binning.trimmed(binning.refined(exact_grid(np.array([4000.0]), 10.0, np.array([0]), 99), grid, counts, 10.0))
    assert (cut.edges[0], cut.high) == (20, 59)


def test_combined_counts_agree_with_the_cell_they_were_cut_from():
    old = exact_grid(np.array([1000.0, 0.0]), 10.0, np.array([0, 64]), 64)
    finer = binning.split(old, np.array([64, 64]))
    assert len(finer.edges) == 65
    merged = binning.refined(old, finer, np.append(np.full(64, 10.0), 3.0), 10.0)
    assert merged.counts[:64].sum() == pytest.approx((64 * 1000 + 640) / 65)
    assert merged.counts[64] == pytest.approx(1.5)
    assert merged.variance_of(np.arange(65) < 64) == pytest.approx(100 * 64 / 65)


def test_single_values_stay_apart_and_the_rest_is_joined_again():
    old = exact_grid(np.array([2000.0]), 10.0, np.array([0]), 99)
    counts = np.full(100, 10.0)
    counts[50] = 1010.0
    grid = binning.with_values_apart(binning.refined(old, binning.split(old, np.array([100])), counts, 10.0))
    assert grid.edges.tolist() == [0, 50, 51]
    assert grid.counts == pytest.approx([500, 1010, 490], rel=0.02)


def test_values_that_were_counted_are_cells_of_floats():
    grid = Grid.of(np.array([0.0, 10.0]), 20.0, np.array([1000.0, 500.0]), np.full(2, 100.0), 0)
    found = binning.with_spikes(grid, {0.0: 800.0, 12.5: 100.0, 99.0: 50.0}, 10.0)
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
    assert binning.listed_values(exact_grid(counts, 10.0), Rows(float(counts.sum()), 100.0)) is None


def test_the_density_falls_within_a_wide_piece_as_around_it():
    edges, weights = np.array([1, 10, 100]), np.array([900.0, 90.0, 9.0])
    cut, parts = binning.smoothed(edges, weights, 999, 1)
    assert set(edges.tolist()) <= set(cut.tolist())
    for low, high, weight in ((1, 10, 900.0), (10, 100, 90.0), (100, 1000, 9.0)):
        own = (cut >= low) & (cut < high)
        assert parts[own].sum() == pytest.approx(weight)
        density = parts[own] / np.diff(np.append(cut[own], high))
        assert np.all(np.diff(density) < 0)


def test_a_heavy_tail_goes_on_and_a_light_one_does_not():
    edges, weights = np.array([1, 10, 100, 1000]), np.array([6000.0, 3000.0, 900.0, 100.0])
    longer, more, high = binning.with_tail(edges, weights, 9999, 1, (40.0, 10.0))
    assert longer.tolist() == [1, 10, 100, 1000, 10_000]
    assert high > 10_000
    assert 0 < more[-1] <= 50.0
    assert binning.with_tail(edges, weights, 9999, 1, (0.0, 0.0))[2] == 9999
    assert binning.with_tail(np.array([50, 60, 70]), np.full(3, 100.0), 79, 1, (100.0, 10.0))[2] == 79


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
