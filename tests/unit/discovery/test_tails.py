"""How far rows reach beyond the cells that stand out."""

from __future__ import annotations

import numpy as np

from lookalike.discovery.grids import Grid, Rows
from lookalike.discovery.tails import beside_one, beyond


def whole(counts: dict[int, float], last: int = 1000, noise: float = 60.0) -> Grid:
    """Cells of 0 to 12 one by one, then up to 1,000, with these counts."""
    edges = np.array([*range(13), 20, 50, 100, 200, 500])
    rows = np.array([counts.get(edge, 0.0) for edge in edges.tolist()])
    return Grid.of(edges, last, rows, np.full(len(edges), noise**2), 1)


def test_zeros_alone_are_a_flag_unless_the_counts_say_otherwise():
    rows = Rows(5000.0, 900.0)
    way, expected = beside_one(whole({0: 4980.0, 1: 15.0}), 0, rows)
    assert (way, len(expected)) == (1, 1)
    assert 10 < expected[0] < 500
    few = Rows(500_000.0, 900.0)
    way, expected = beside_one(whole({0: 500_000.0}), 0, few)
    assert len(expected) == 0, "with so little noise a flag of 0.2 % of the rows would be seen"


def test_other_values_alone_are_constants_unless_the_counts_say_otherwise():
    rows = Rows(5000.0, 900.0)
    assert len(beside_one(whole({11: 5010.0}), 11, rows)[1]) == 0
    way, expected = beside_one(whole({11: 4500.0, 12: 500.0}), 11, rows)
    assert (way, len(expected)) == (1, 1)


def test_amounts_beside_zero_are_found_by_their_sum():
    counts = {0: 4400.0, 50: 200.0, 100: 200.0, 200: 200.0}
    way, expected = beside_one(whole(counts), 0, Rows(5000.0, 900.0))
    assert way == 1
    assert len(expected) >= 15
    assert expected[-3:].sum() > 0.5 * expected.sum()


def test_tails_go_on_where_rows_do():
    steps = np.round(np.geomspace(10, 100_000, 25))
    falling = 3000 * np.exp(-0.35 * np.arange(24))
    grid = Grid.of(steps[:-1].astype(int), 99_999, falling, np.full(24, 60.0**2), 1)
    rows = Rows(float(falling.sum()), 900.0)
    ended = Grid.of(grid.edges, grid.high, np.where(np.arange(24) < 9, falling, 0.0), grid.variances, 1)
    fewer = Rows(float(ended.counts.sum()), 900.0)
    assert len(beyond(grid, 0, 8, 1, rows)) > len(beyond(ended, 0, 8, 1, fewer))
