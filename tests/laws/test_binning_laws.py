"""Laws of the arithmetic on grids: whatever the counts are, totals are kept and bins can be used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lookalike.discovery import binning, ranges
from lookalike.discovery import grids as cells
from lookalike.discovery.grids import Grid, Rows

COUNTS = st.floats(-50.0, 5000.0, allow_nan=False)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Cells of whole numbers or of floats with noisy counts."""
    unit = draw(st.sampled_from([0, 1]))
    start = draw(st.integers(-1000, 1000))
    widths = draw(st.lists(st.integers(1, 500), min_size=1, max_size=12))
    edges = start + np.concatenate([[0], np.cumsum(widths[:-1])]).astype(np.int64 if unit else np.float64)
    high = start + sum(widths) - unit
    counts = np.array(draw(st.lists(COUNTS, min_size=len(widths), max_size=len(widths))))
    variance = draw(st.floats(1.0, 400.0))
    return Grid.of(edges, high if unit else float(high), counts, np.full(len(widths), variance), unit)


@st.composite
def cut_up(draw: st.DrawFn) -> tuple[Grid, Grid, Grid]:
    """A grid, its cells cut up, and these with counts of their own."""
    grid = draw(grids())
    parts = draw(st.lists(st.integers(1, 8), min_size=len(grid.edges), max_size=len(grid.edges)))
    finer = cells.split(grid, np.array(parts))
    counts = draw(st.lists(COUNTS, min_size=len(finer.edges), max_size=len(finer.edges)))
    return grid, finer, cells.refined(grid, finer, np.array(counts), draw(st.floats(1.0, 30.0)))


def _uneven() -> tuple[Grid, Grid, Grid]:
    """A cell whose last part is a single number beside uneven parts of several."""
    old = Grid.of(np.array([0, 7]), 37, np.zeros(2), np.ones(2), 1)
    finer = cells.split(old, np.array([1, 6]))
    return old, finer, cells.refined(old, finer, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]), 1.0)


@given(cut_up())
def test_cells_are_cut_up_within_their_bounds(grids: tuple[Grid, Grid, Grid]):
    old, finer, _ = grids
    assert np.all(np.diff(finer.edges) > 0)
    assert finer.high == old.high
    assert set(old.edges.tolist()) <= set(finer.edges.tolist())
    assert np.array_equal(np.searchsorted(old.edges, finer.edges, side="right") - 1, finer.parents)
    assert np.isclose(finer.widths.sum(), old.widths.sum())


@given(cut_up())
def test_refined_totals_are_less_noisy_than_both_that_they_come_from(grids: tuple[Grid, Grid, Grid]):
    old, _, new = grids
    for parent in range(len(old.edges)):
        own = new.parents == parent
        assert new.variance_of(own) <= old.variances[parent] * (1 + 1e-9)
        assert new.variance_of(own) <= own.sum() * new.variances[own].max() * (1 + 1e-9)


@given(grids(), st.lists(COUNTS, min_size=60, max_size=60), st.floats(1.0, 30.0))
def test_refined_totals_lie_between_both_counts(grid: Grid, counts: list[float], stddev: float):
    finer = cells.split(grid, np.full(len(grid.edges), 5))
    own = np.array(counts[: len(finer.edges)])
    totals = np.bincount(finer.parents, cells.refined(grid, finer, own, stddev).counts)
    sums = np.bincount(finer.parents, own)
    assert np.all(totals >= np.minimum(sums, grid.counts) - 1e-6)
    assert np.all(totals <= np.maximum(sums, grid.counts) + 1e-6)


@given(grids(), st.floats(1.0, 30.0))
def test_refined_counts_that_agree_are_kept(grid: Grid, stddev: float):
    finer = cells.split(grid, np.full(len(grid.edges), 4))
    parts = np.bincount(finer.parents)
    new = cells.refined(grid, finer, (grid.counts / parts)[finer.parents], stddev)
    assert np.bincount(new.parents, new.counts) == pytest.approx(grid.counts, abs=1e-6)


@example(_uneven())
@given(cut_up())
def test_joined_cells_keep_the_totals_of_the_cells_that_were_cut_up(grids: tuple[Grid, Grid, Grid]):
    old, _, new = grids
    joined = binning.with_values_apart(new)
    assert joined.counts.sum() == pytest.approx(new.counts.sum(), abs=1e-6)
    sums = np.bincount(new.parents, new.counts)
    back = np.searchsorted(old.edges, joined.edges, side="right") - 1
    assert np.bincount(back, joined.counts, len(old.edges)) == pytest.approx(sums, abs=1e-6)
    assert joined.high == old.high


@given(cut_up(), st.integers(2, 20), st.floats(0.0, 500.0))
def test_pieces_cover_the_range_and_bins_begin_with_pieces(
    grids: tuple[Grid, Grid, Grid], count: int, min_weight: float
):
    _, _, grid = grids
    edges, weights = binning.pieces_of(grid, Rows(max(float(grid.counts.sum()), 1.0), 100.0))
    assert edges[0] == grid.edges[0]
    assert np.all(np.diff(edges) > 0)
    assert set(edges.tolist()) <= set(grid.edges.tolist())
    assert np.all(weights >= 0)
    bins = binning.bins_of(edges, weights, count, min_weight)
    assert bins[0] == edges[0]
    assert set(bins.tolist()) <= set(edges.tolist())
    assert np.all(np.diff(bins) > 0)
    cut, parts = binning.smoothed(edges, weights, grid.high, grid.unit)
    assert set(edges.tolist()) <= set(cut.tolist())
    assert np.all(np.diff(cut) > 0)
    assert cut[-1] < grid.high + max(grid.unit, 1e-9)
    assert np.add.reduceat(parts, np.searchsorted(cut, edges)) == pytest.approx(weights, abs=1e-6)


@given(cut_up(), st.floats(0.0, 2000.0), st.floats(1.0, 2500.0))
def test_ends_only_add_cells_of_the_grid_and_rows(grids: tuple[Grid, Grid, Grid], rows: float, variance: float):
    old, _, fine = grids
    ended = ranges.with_ends(fine, Rows(rows, variance))
    assert np.all(np.diff(ended.edges) > 0)
    assert set(ended.edges.tolist()) <= set(fine.edges.tolist())
    assert ended.edges[-1] <= ended.high <= fine.high
    first, last = ranges.held_surely(cells.joined(fine))
    outside = (ended.edges < old.edges[first]) | (ended.edges >= old.ends[last])
    assert np.all(ended.counts[outside] >= 0)
    assert np.all(np.isfinite(ended.counts))
    assert np.all(ended.variances > 0)


@given(st.integers(1, 40), st.integers(0, 200), st.integers(40, 100), st.sampled_from([3.5, 4.0, 5.0]), st.booleans())
def test_a_planted_block_is_visible_and_nothing_far_from_it(
    size: int, start: int, after: int, limit: float, thin: bool
):
    counts = np.zeros(start + size + after)
    # A block has a run of a power of two within it that begins at a multiple of half its own length.
    counts[start : start + size] = 4 * limit / np.sqrt(size) if thin else 2 * limit
    found = cells.visible(counts, np.ones(len(counts)), limit)
    assert found[start : start + size].any()
    if not thin:
        assert found[start : start + size].all()
        assert not np.delete(found, np.arange(start, start + size)).any()


@given(st.sets(st.integers(0, 60), min_size=1, max_size=9), st.integers(100, 5000))
def test_a_list_of_values_makes_only_listed_values(places: set[int], rows: int):
    counts = np.zeros(61)
    counts[sorted(places)] = rows
    grid, total = Grid.of(np.arange(61), 60, counts, np.full(61, 25.0), 1), Rows(float(rows * len(places)), 25.0)
    values = binning.listed_values(grid, total)
    assert values is not None
    assert set(np.flatnonzero(values).tolist()) == places
    edges, weights = binning.pieces_of(grid, total)
    grid, edges, weights = binning.without_empty_ends(grid, edges, weights)
    assert set(edges[weights > 0].tolist()) == places
    ends = np.append(edges[1:], grid.high + 1)
    assert np.all((ends - edges)[weights > 0] == 1)


@given(cut_up())
def test_trimmed_and_occupied_are_parts_of_the_grid(grids: tuple[Grid, Grid, Grid]):
    _, _, grid = grids
    rows = Rows(max(float(grid.counts.sum()), 1.0), 100.0)
    whole = (0, len(grid.edges) - 1)
    for first, last in (ranges.trimmed(grid, *whole, low=True, high=True), ranges.occupied(grid, rows)):
        assert 0 <= first <= last < len(grid.edges)


@given(
    edges=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8, unique=True),
    further=st.floats(0, 1e300),
    beside=st.booleans(),
    rows=st.integers(0, 2**32),
)
def test_pieces_of_any_floats_can_be_cut_up(edges: list[float], further: float, beside: bool, rows: int) -> None:
    """Also neighbouring floats and the smallest ones: parts rise, hold the edges of all pieces, and all of the rows."""
    starts = np.unique(np.append(edges, np.nextafter(edges[0], np.inf)) if beside else np.array(edges))
    high = max(float(starts[-1] + further), float(np.nextafter(starts[-1], np.inf)))
    weights = np.maximum(np.random.default_rng(rows).normal(20, 30, len(starts)), 0.0)
    cut, parts = binning.smoothed(starts, weights, high, 0)
    assert (np.diff(cut) > 0).all()
    assert np.isin(starts, cut).all()
    assert (parts >= 0).all()
    assert parts.sum() == pytest.approx(weights.sum())
