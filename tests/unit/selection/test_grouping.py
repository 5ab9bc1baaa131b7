"""Partitions of counts: groups cover every cell once, errors are what they say, paths run from coarse to fine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lookalike.selection.grouping import (
    by_mass,
    halved_axis,
    halved_boxes,
    merged_neighbours,
    partition_path,
    split_boxes,
    visible_groups,
)

COUNTS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), elements=st.floats(0, 1000, allow_nan=False)
)


def spread_error(counts: np.ndarray, groups: np.ndarray) -> float:
    return sum(np.abs(counts[groups == g] - counts[groups == g].mean()).sum() for g in np.unique(groups))


@given(COUNTS)
def test_every_partition_covers_all_cells_and_has_its_stated_error(counts: np.ndarray) -> None:
    path = partition_path(counts)
    for count in range(1, len(path.errors) + 1):
        groups = path.partition(count)
        assert groups.shape == counts.shape
        assert set(np.unique(groups)) == set(range(count))
        assert path.errors[count - 1] == pytest.approx(spread_error(counts, groups), abs=1e-6)


@given(hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 100)))
def test_merging_keeps_neighbours_together_and_ends_in_one_group(counts: np.ndarray) -> None:
    path = merged_neighbours(counts)
    assert len(path.errors) == len(counts)
    assert path.errors[-1] == 0
    for count in range(1, len(counts) + 1):
        groups = path.partition(count)
        assert (np.diff(groups) != 0).sum() == count - 1


def test_equal_neighbours_are_merged_first() -> None:
    groups = merged_neighbours(np.array([5.0, 5.0, 9.0, 0.0])).partition(3)
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3


def test_boxes_find_a_dense_corner() -> None:
    counts = np.zeros((6, 8))
    counts[:2, :3] = 100.0
    path = split_boxes(counts, 48)
    assert len(path.errors) <= 4
    assert path.errors[-1] == pytest.approx(0)


def test_cheapest_follows_the_papers_formula() -> None:
    counts = np.array([50.0, 48.0, 10.0, 11.0, 0.0, 1.0])
    path = merged_neighbours(counts)
    count, price = path.cheapest(100.0, 0.7)
    prices = [
        (k + 1) ** 2 / (math.pi * (70 - error) ** 2) if error < 70 else math.inf for k, error in enumerate(path.errors)
    ]
    assert price == pytest.approx(min(prices))
    assert count == 1 + int(np.argmin(prices))
    assert path.cheapest(0.0, 0.7)[1] == math.inf


def test_less_noise_affords_more_groups() -> None:
    counts = np.random.default_rng(0).gamma(0.3, 100, (12, 12))
    path = split_boxes(counts, 144)
    chosen = [path.finest_worthwhile(stddev) for stddev in (1000.0, 100.0, 10.0, 1.0)]
    assert chosen == sorted(chosen)
    assert chosen[-1] > chosen[0]


def test_axes_are_ordered_by_mass() -> None:
    counts = np.array([[1.0, 5.0], [2.0, 8.0], [0.0, 1.0]])
    assert [order.tolist() for order in by_mass(counts)] == [[1, 0, 2], [1, 0]]


@given(COUNTS, st.integers(1, 30))
def test_halved_boxes_cover_every_cell_with_at_most_so_many_boxes(counts: np.ndarray, most: int) -> None:
    groups = halved_boxes(counts, most)
    assert set(np.unique(groups)) == set(range(min(most, counts.size)))
    for group in range(groups.max() + 1):
        inside = np.argwhere(groups == group)
        volume = np.prod(inside.max(axis=0) - inside.min(axis=0) + 1)
        assert volume == len(inside), "a group is a box"


def test_halved_boxes_share_the_mass_and_leave_heavy_cells_alone() -> None:
    counts = np.ones((40, 40))
    sums = np.bincount(halved_boxes(counts, 16).ravel(), counts.ravel())
    assert sums.tolist() == [100.0] * 16
    counts[7, 30] = 10_000
    groups = halved_boxes(counts, 16)
    assert (groups == groups[7, 30]).sum() == 1


@given(COUNTS, st.integers(0, 2))
def test_an_axis_in_halves_keeps_the_sums_of_the_others(counts: np.ndarray, axis: int) -> None:
    axis %= counts.ndim
    coarse, halves = halved_axis(counts, axis)
    assert coarse.shape == tuple(2 if i == axis else size for i, size in enumerate(counts.shape))
    assert coarse.sum(axis=axis) == pytest.approx(counts.sum(axis=axis))
    assert halves.tolist() == sorted(halves.tolist())
    expected = counts.compress(halves == 1, axis=axis).sum(axis=axis)
    assert coarse.take(1, axis=axis) == pytest.approx(expected)


def test_bins_of_one_axis_are_intervals_of_equal_mass() -> None:
    counts = np.r_[np.full(10, 10.0), np.full(100, 1.0)]
    groups = halved_boxes(counts, 2)
    assert groups.tolist() == [0] * 10 + [1] * 100


def test_groups_hold_what_can_be_seen() -> None:
    """No two cells that can be seen share a group, rare ones do; without rare cells there are no groups."""
    counts = np.outer([500.0, 300.0, 4.0, 3.0, 2.0], [0.6, 0.39, 0.005, 0.005])
    groups = visible_groups(counts, 30.0)
    assert groups is not None
    sums = np.bincount(groups.ravel(), counts.ravel())
    assert len(sums) < counts.size / 2
    heavy = groups[counts > 100]
    assert len(np.unique(heavy)) == heavy.size == 4
    assert visible_groups(np.full((4, 4), 100.0), 30.0) is None
