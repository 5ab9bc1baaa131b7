"""Kind, format and missing markers of a column, decided from noisy counts of classes of values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery.forms import Histogram, decided, detail_facts, open_detail, text_forms, with_habits
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


def test_columns_of_which_little_is_seen_are_read_as_the_others_are_written():
    column = Undeclared("x", storage="string")
    clear = counted(column, ["7.0"] * 500, 20.0)
    noisy = counted(column, ["3.0"] * 50 + ["1.234"] * 75, 20.0)
    alone = with_habits([noisy], 100.0)[0]
    assert {form.name for form in text_forms(alone)} != {"whole.0"}
    *_, among = with_habits([clear] * 40 + [noisy], 100.0)
    assert (among.usual, among.default) == (("whole.0",), "whole.0")
    assert {form.name for form in text_forms(among)} == {"whole.0"}
    nothing = with_habits([clear] * 40 + [counted(column, [], 20.0)], 100.0)[-1]
    assert {form.name for form in text_forms(nothing)} == {"whole.0"}


def test_a_column_that_holds_values_but_no_texts_is_numbers():
    column, texts = Undeclared("x", storage="string"), [f"text {k}" for k in range(500)]
    numbers, words, few = ([str(k) for k in range(500)], texts, texts[:20])
    read = [with_habits([counted(column, values, 25.0)], 500.0)[0].default for values in (numbers, words)]
    assert read == ["whole", "text"]
    assert with_habits([counted(column, few, 25.0)], 20.0)[0].default == "text"
