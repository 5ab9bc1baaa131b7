"""Kind, format and missing markers of a column, decided from noisy counts of classes of values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery import forms
from lookalike.discovery.forms import Histogram, class_grid, decided, detail_facts, open_detail
from lookalike.discovery.grids import Grid
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.classes import Affixes, Offsets, class_probe
from lookalike.schema.codec import encode_column
from lookalike.schema.columns import Categorical, Column, Identifier, Undeclared
from lookalike.schema.text_forms import AFFIXES, OFFSETS

ODD = ["", None, "\x00", "😀", "9" * 50, "-1e400", "nan", "inf", "2024-02-30", "31/12/2024", " 7 ", "a,b", "0x10"]


def counted(column: Column, values: list, noise: float, kind: pa.DataType | None = None) -> Histogram:
    """The exact counts of the classes of a column's values, said to have this noise."""
    probe = class_probe(column)
    codes = encode_column(probe, pa.array(values, type=kind or pa.string()))
    return Histogram(probe, np.bincount(codes, minlength=probe.size).astype(float), noise)


def decide(values: list, noise: float = 1.0) -> tuple[Column, dict[str, float]]:
    column = Undeclared("x", storage="string")
    histogram = counted(column, values, noise)
    detail = open_detail(column, histogram)
    facts = {}
    if detail is not None:
        codes = encode_column(detail, pa.array(values, type=pa.string()))
        facts = detail_facts(detail, np.bincount(codes, minlength=detail.size).astype(float), noise)
    return decided(column, histogram, facts)


@pytest.mark.parametrize(
    ("values", "kind", "facts"),
    [
        (["1", "22", "?"], Integer, {"missing": ("?",)}),
        (["1.50", "2.25"], Continuous, {"decimals": 2, "least_decimals": None}),
        (["1.5", "2.25", "3"], Continuous, {"decimals": 2, "least_decimals": 0}),
        (["1.123456789", "2.5"], Continuous, {"decimals": None}),
        (["1.0", "22.0", ""], Continuous, {"decimals": 0, "least_decimals": 1}),
        (["1.0", "2.5"], Continuous, {"decimals": 1, "least_decimals": None}),
        (["1.0", "2.25"], Continuous, {"decimals": 2, "least_decimals": 1}),
        (["1.0", "2"], Integer, {}),
        (["1,50", "2,25", "3"], Continuous, {"decimals": 2, "least_decimals": 0, "comma": True}),
        (["1,5", "2,5"], Continuous, {"decimals": 1, "least_decimals": None, "comma": True}),
        (["1,5", "2.5"], Categorical, {}),
        (["007", "042"], Categorical, {}),
        (["1,234", "12,345,678"], Integer, {"thousands": ","}),
        (["$1.50", "$22.75", "unknown"], Continuous, {"prefix": "$", "decimals": 2, "missing": ("unknown",)}),
        (["1,50 €", "2,75 €"], Continuous, {"suffix": " €", "decimals": 2, "comma": True}),
        (["15%", "3%"], Integer, {"suffix": "%"}),
        (["2024-01-05", ""], Datetime, {"format": "%Y-%m-%d", "missing": ("",)}),
        (["05/06/2024", "25/12/2024"], Datetime, {"format": "%d/%m/%Y"}),
        (["05/06/2024", "12/25/2024"], Datetime, {"format": "%m/%d/%Y"}),
        (["2024-01-05 10:30", "2024-01-05 10:31"], Datetime, {"format": "%Y-%m-%d %H:%M", "resolution": "minute"}),
        (["2024-01-05T10:30:00+02:00"] * 2, Datetime, {"zone": "+02:00", "resolution": "second"}),
        (["09:30", "23:59"], Datetime, {"format": "%H:%M", "clock": True}),
        (["yes", "no", "NA", "?"], Categorical, {"missing": ("?", "NA")}),
        (["red", "unknown"], Categorical, {"missing": ()}),
        (["1", "two"], Categorical, {}),
    ],
)
def test_kinds_by_how_values_are_written(values, kind, facts):
    column, absent = decide(values * 100)
    assert type(column) is kind
    assert {name: getattr(column, name) for name in facts} == facts
    assert absent == dict.fromkeys(column.missing, 100.0)


def test_a_single_odd_value_changes_nothing():
    plain, absent = decide(["1"] * 1000, noise=20.0)
    for odd in ODD:
        assert decide(["1"] * 1000 + [odd], noise=20.0) == (plain, absent)


@pytest.mark.parametrize("values", [["$5.00"], ["2024-01-05T10:30:00+02:00"]])
def test_a_single_odd_value_asks_no_other_question(values):
    column = Undeclared("x", storage="string")
    asked = open_detail(column, counted(column, values * 1000, 20.0))
    assert isinstance(asked, Affixes | Offsets)
    for odd in ODD:
        assert open_detail(column, counted(column, [*(values * 1000), odd], 20.0)) == asked


def test_money_in_no_currency_that_stands_out_is_text():
    many = [f"{prefix}7.50{suffix}" for prefix, suffix in AFFIXES[:-1] if "%" not in suffix]
    assert type(decide(many, noise=1.0)[0]) is Categorical


def test_noise_alone_has_no_markers_and_no_details():
    rng = np.random.default_rng(0)
    column = Undeclared("x", storage="string")
    probe = class_probe(column)
    for _ in range(20):
        histogram = Histogram(probe, rng.normal(0, 10.0, probe.size), 10.0)
        assert decided(column, histogram, {})[0].missing == ()
        assert detail_facts(Offsets("x"), rng.normal(0, 10.0, len(OFFSETS)), 10.0) == {}


def test_typed_columns():
    floats = Continuous("x", storage="double", provenance={"decimals": "open", "missing": "open"})
    tenths = [k / 10 for k in range(500)]
    column, absent = decided(floats, counted(floats, [*tenths, *[None] * 100], 1.0, pa.float64()), {})
    assert (column.decimals, column.missing, absent) == (1, ("",), {"": 100.0})
    thirds, _ = decided(floats, counted(floats, [k / 3 for k in range(500)], 1.0, pa.float64()), {})
    assert thirds.decimals is None
    stamps = Datetime("x", storage="timestamp[us]", resolution="microsecond", provenance={"missing": "open"})
    hours = [3_600_000_000 * k for k in range(500)]
    assert decided(stamps, counted(stamps, hours, 1.0, pa.timestamp("us")), {})[0].resolution == "hour"


def test_identifiers_get_as_many_digits_as_their_own():
    column = Identifier("x", storage="int64", provenance={"missing": "open"})
    found, _ = decided(column, counted(column, [1_234_500 + k for k in range(500)], 1.0, pa.int64()), {})
    assert found.pattern == "#######"


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
        day = forms.clock_grid(Integer("x"), grid)
        assert day is not None
        assert day.high == 2359
    assert forms.clock_grid(Integer("x"), whole_numbers(100)) is None
    assert forms.clock_grid(Integer("x"), whole_numbers(60, 2999, late=5000.0)) is None
    assert forms.clock_grid(Continuous("x", decimals=0), whole_numbers(60)) is None
