"""Doubts about a finished discovery, each from evidence made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lookalike.discovery.doubts import Evidence, doubts
from lookalike.discovery.forms import Histogram
from lookalike.discovery.grids import Grid
from lookalike.schema.binned import Datetime, Integer
from lookalike.schema.classes import class_probe
from lookalike.schema.columns import Categorical, Column, Undeclared
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import BOUNDS, GUESSED, HIDDEN, NOTHING, SMALL

BEFORE = Undeclared("x", storage="string")
STDDEV = 10.0


def grid(edges: list[int], high: int, counts: list[float]) -> Grid:
    return Grid.of(np.array(edges), high, np.array(counts, float), np.full(len(edges), STDDEV**2), 1)


def evidence(after: Column, cells: Grid | None, *, form: str = "whole", rows: float = 1000.0, **more: Any) -> Evidence:
    """A column of `rows` rows, all in one class of a form, and these cells."""
    histogram = Histogram(class_probe(BEFORE), np.zeros(class_probe(BEFORE).regular), STDDEV)
    histogram.of(form)[:1] = rows
    grids = {} if cells is None else {"x": cells}
    known = Evidence(
        before=Schema((BEFORE,)), after=Schema((after,)), rows=rows, rows_stddev=1.0, signal=500.0,
        histograms={"x": histogram}, classes=grids, grids=grids, found={}, noise={"x": STDDEV}, absent={},
    )  # fmt: skip
    return replace(known, **more)


def integer(low: int, high: int) -> Integer:
    return Integer("x", minimum=low, maximum=high, bins=1, provenance={"bounds": "measured"})


def reasons(known: Evidence) -> list[str]:
    return [entry.reason for entry in doubts(known)]


SOUND = grid([0, 10, 20], 29, [300.0, 400.0, 300.0])


def test_a_column_that_is_seen_raises_no_doubt() -> None:
    assert reasons(evidence(integer(0, 29), SOUND)) == []


def test_a_small_table_is_a_doubt_about_the_table() -> None:
    (found,) = doubts(evidence(integer(0, 29), SOUND, signal=20.0))
    assert (found.reason, found.column) == (SMALL, None)
    assert "20%" in found.done


def test_a_form_that_does_not_stand_out_makes_the_kind_a_guess() -> None:
    (found,) = doubts(evidence(integer(0, 29), SOUND, rows=30.0))
    assert found.reason == NOTHING
    assert found.done == "taken as integer from 0 to 29"
    assert found.declare == "--type x=number"


def test_declared_kinds_are_no_guess_but_their_ranges_may_be() -> None:
    flat = grid([0, 10, 20], 29, [12.0, 3.0, 20.0])
    known = evidence(integer(0, 29), flat, rows=30.0, before=Schema((integer(0, 29),)))
    assert reasons(known) == [GUESSED]


def test_bounds_far_beyond_the_rows_are_doubtful() -> None:
    far = grid([0, 10, 20, 30], 1499, [300.0, 400.0, 280.0, 35.0])
    assert reasons(evidence(integer(0, 1499), far)) == [BOUNDS]
    supported = grid([0, 10, 20, 1000], 1499, [300.0, 300.0, 200.0, 200.0])
    assert reasons(evidence(integer(0, 1499), supported)) == []


def test_bounds_of_times_are_compared_with_their_width() -> None:
    start = 16_436  # days from 1970 to 2015
    days = grid([start, start + 365, start + 730], start + 20_000, [500.0, 460.0, 30.0])
    known = Datetime("x", minimum="2015-01-01", maximum="2069-10-04", bins=2, provenance={"bounds": "measured"})
    assert reasons(evidence(known, days, form="%Y-%m-%d")) == [BOUNDS]


@pytest.mark.parametrize(("found", "expected"), [(700.0, [HIDDEN]), (985.0, [])])
def test_constant_columns_with_rows_left_over_hide_something(found: float, expected: list[str]) -> None:
    assert reasons(evidence(integer(1, 1), grid([1], 1, [found]))) == expected
    one = Categorical("x", ("a",), outside="absorb", provenance={"values": "measured"})
    assert reasons(evidence(one, None, form="text", found={"x": {"a": found}})) == expected
