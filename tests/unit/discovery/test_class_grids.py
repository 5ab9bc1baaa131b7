"""Cells of the number line with the rows of the classes of a column's values."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.discovery.class_grids import class_grid, clock_grid
from lookalike.discovery.forms import Histogram
from lookalike.discovery.grids import Grid
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.classes import class_probe
from tests.unit.discovery.test_forms import counted


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", "int64", "string"])
def test_class_grids_have_only_numbers_that_the_type_can_hold(kind: str) -> None:
    column = Integer("x", storage=kind)
    probe = class_probe(column)
    grid = class_grid(column, Histogram(probe, np.zeros(probe.size), 1.0))
    low, high = (-(2**63), 2**63 - 1) if kind == "string" else (np.iinfo(kind).min, np.iinfo(kind).max)
    assert grid.high == min(2**61, high)
    assert max(low, -(2**61)) <= grid.edges[0] <= max(low, -(2**58))
    assert (np.diff(grid.edges) > 0).all()


def test_class_grids_cover_all_that_a_type_can_hold():
    for base in (Integer("x", storage="int64"), Continuous("x", storage="double"), Continuous("x", decimals=2)):
        probe = class_probe(base)
        grid = class_grid(base, Histogram(probe, np.zeros(probe.size), 1.0))
        assert np.all(np.diff(grid.edges) > 0)
        assert grid.edges[0] <= -(2**49)
        assert grid.high >= 2**51
    years = class_grid(Datetime("x", resolution="second"), counted(Datetime("x"), [], 1.0))
    assert np.all(np.diff(years.edges) > 0)
    assert years.edges[0] < 0 < years.high


def test_class_grids_hold_the_rows_of_all_forms_of_a_number():
    texts = ["7"] * 300 + ["7.5"] * 400 + ["12.25"] * 200 + ["-3"] * 100
    column = Continuous("x", decimals=2, least_decimals=0, storage="string")
    grid = class_grid(column, counted(column, texts, 1.0))
    assert grid.counts.sum() == pytest.approx(1000)
    at = np.searchsorted(grid.edges, [700, 1225, -300], side="right") - 1
    assert grid.counts[at].tolist() == [700, 200, 100]


def whole_numbers(minutes: int, high: int = 2399, late: float = 0.0) -> Grid:
    """Counts of all numbers of a day whose minutes are below a limit, and of later ones in one cell."""
    edges = np.append(np.arange(0, 2200), [2200, 2400] if high >= 2400 else [2200])
    counts = np.where(edges % 100 < minutes, 50.0, 0.0)
    counts[edges >= 2200] = 0.0
    counts[edges >= 2400] = late
    return Grid.of(edges, high, counts, np.full(len(edges), 4.0), 1)


def test_whole_numbers_are_clock_times_where_no_minutes_are_beyond_59():
    for grid in (whole_numbers(60), whole_numbers(60, 2999), whole_numbers(60, 2999, late=3.0)):
        day = clock_grid(Integer("x"), grid)
        assert day is not None
        assert day.high == 2359
    assert clock_grid(Integer("x"), whole_numbers(100)) is None
    assert clock_grid(Integer("x"), whole_numbers(60, 2999, late=5000.0)) is None
    assert clock_grid(Continuous("x", decimals=0), whole_numbers(60)) is None


def test_class_grids_count_round_numbers_far_from_where_most_rows_are():
    texts = ["7.25"] * 5000 + ["2000"] * 30 + ["3000.5"] * 20
    column = Continuous("x", decimals=2, least_decimals=0, storage="string")
    grid = class_grid(column, counted(column, texts, 10.0))
    at = np.searchsorted(grid.edges, [200_000, 300_050], side="right") - 1
    assert grid.counts[at].tolist() == [30, 20]
    assert (grid.variances[at] > 100).all()


def test_a_day_of_which_noise_shows_no_clock_time_alone_has_no_rows_there():
    edges = np.array([0, 60, 100, 160, 200, 260, 300, 360])
    counts = np.array([400.0, 20.0, 400.0, 0.0, 400.0, 0.0, 400.0, 0.0])
    grid = Grid.of(edges, 399, counts, np.full(8, 25.0), 1)
    day = clock_grid(Integer("at"), grid)
    assert day is not None
    assert day.counts.tolist() == [400.0, 0.0, 400.0, 0.0, 400.0, 0.0, 400.0, 0.0]
