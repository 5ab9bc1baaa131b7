"""Columns of numbers and times: how texts and schema files write them, clock times as numbers, months, times of day."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import encode, encode_column
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.conditions import parse_question
from lookalike.schema.constraints import AtLeast, constraint_of
from lookalike.schema.decode import decode_column, drawn_numbers, repaired
from lookalike.schema.enforce import broken_rows
from lookalike.schema.fields import column_of, field_of
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft

MARKERS = ("", "unknown", ">1M", "N/A")
BOUNDS = {"minimum": 0, "maximum": 5000, "bins": 5, "storage": "string"}
COLUMNS = [
    Continuous("x", decimals=2, prefix="$", thousands=",", **BOUNDS),
    Continuous("x", decimals=2, suffix="\u202f€", thousands="\u00a0", comma=True, **BOUNDS),
    Continuous("x", suffix=" %", plus=True, **BOUNDS),
    Integer("x", thousands=".", suffix=" Kč", **BOUNDS),
    Integer("x", width=6, **BOUNDS),
    Integer("x", clock=True, **{**BOUNDS, "maximum": 2400}),
    Datetime("x", format="%d %b %Y", minimum="2014-01-01", maximum="2015-01-01", bins=5, storage="string"),
    Datetime("x", format="%Y-%m", minimum="2014-01", maximum="2016-03", bins=5, storage="string"),
    Datetime("x", format="%-I:%M %p", bins=5, storage="string"),
    Datetime("x", format="%H:%M:%S.%3f", minimum="09:00", maximum="17:30:00.250", bins=5, storage="string"),
    Datetime("x", format="%Y-%m-%dT%H:%M:%S%:z", zone="+01:00", minimum="2014-01-01", maximum="2014-02-01", bins=5,
             storage="string"),
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: getattr(column, "format", "") or str(column.minimum))
def test_values_made_up_in_a_bin_are_read_in_it_again_and_words_come_back(column):
    column = replace(column, missing=MARKERS)
    codes = np.repeat(np.arange(column.size), 40)
    texts = decode_column(column, codes, rng=np.random.default_rng(0))
    assert encode_column(column, texts).tolist() == codes.tolist()
    assert set(texts.to_pylist()) > {None, "unknown", ">1M", "N/A"}


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: getattr(column, "format", "") or str(column.minimum))
def test_facts_of_writing_come_back_from_a_schema_file(column, tmp_path):
    column = replace(column, missing=MARKERS)
    assert column_of(field_of(column), "field 1", None) == column
    Schema((column,)).save(tmp_path / "x.yaml")
    assert Schema.load(tmp_path / "x.yaml")["x"] == column


@pytest.mark.parametrize(
    ("question", "share"),
    [("x = '>1M'", 0.25), ("x is missing", 0.5), ("x >= '$2,500.00'", 0.25), ("x in (unknown, 'N/A')", 0.25)],
)
def test_questions_may_name_words_and_values_as_they_are_written(question, share):
    column = Continuous("x", decimals=2, prefix="$", thousands=",", minimum=0, maximum=4999.99, bins=2,
                        missing=("unknown", ">1M"), storage="string")  # fmt: skip
    table = pa.table({"x": ["$1.00", "$2,500.00", "unknown", ">1M"]})
    schema = Schema((replace(column, missing=("unknown", ">1M", "N/A")),))
    counts = np.bincount(encode(schema, table)[:, 0], minlength=schema["x"].size)
    assert float((parse_question(question, schema).weights * counts).sum() / 4) == share


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"prefix": "5$"}, "prefix"),
        ({"prefix": " $"}, "prefix"),
        ({"suffix": "% "}, "suffix"),
        ({"suffix": "-"}, "suffix"),
        ({"prefix": "x" * 21}, "prefix"),
        ({"thousands": "_"}, "groupChar"),
        ({"thousands": "."}, "thousands and decimals"),
        ({"thousands": ",", "comma": True}, "thousands and decimals"),
    ],
)
def test_signs_that_could_be_taken_for_digits_are_refused(facts, what):
    with pytest.raises(SchemaError, match=what):
        Continuous("x", minimum=0, maximum=1, **facts)


def test_clock_times_as_numbers_are_never_invalid():
    column = Integer("x", minimum=0, maximum=2400, bins=100, clock=True, rounding=((1, 0.5), (5, 0.3), (60, 0.2)))
    codes = np.repeat(np.arange(column.size), 50)
    values = decode_column(column, codes, rng=np.random.default_rng(0))
    assert (values.to_numpy() % 100 < 60).all()
    assert encode_column(column, values).tolist() == codes.tolist()
    with pytest.raises(SchemaError, match="clock times from -5"):
        Integer("x", minimum=-5, maximum=2400, clock=True)
    with pytest.raises(SchemaError, match="above maximum"):
        Integer("x", minimum=1270, maximum=1290, clock=True)


@given(st.lists(st.integers(1, 2399), unique=True, max_size=30), st.integers(0, 59))
def test_any_bins_of_clock_times_hold_one_and_keep_the_codes_of_all(edges, minute):
    bins = tuple(sorted({0, *edges}))
    column = Integer("x", minimum=0, maximum=2400, bins=bins, shape=tuple((edge, 1.0) for edge in bins), clock=True)
    first, last = column.tick_ranges()
    assert (first <= last).all()
    assert (first % 100 < 60).all()
    assert (last % 100 < 60).all()
    times = np.arange(24) * 100 + minute
    wide = Integer("x", minimum=0, maximum=2400, bins=bins)
    same = encode_column(wide, pa.array(times))[:, None] == encode_column(wide, pa.array(times))
    assert ((encode_column(column, pa.array(times))[:, None] == encode_column(column, pa.array(times))) == same).all()


def test_rules_keep_clock_times_valid():
    columns = tuple(Integer(name, minimum=0, maximum=2359, bins=48, clock=True) for name in "ab")
    schema = Schema(columns, constraints=(AtLeast("b", "a", strict=True),))
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 48, 3000), rng.integers(0, 48, 3000)]).astype(np.int32)
    codes, numbers = repaired(schema, codes, drawn_numbers(schema, codes, rng), rng)
    assert not broken_rows(schema, codes, numbers).any()
    assert all((values % 100 < 60).all() for values in numbers.values())


def test_months_and_years_are_the_only_values_of_their_formats():
    month = Datetime("x", format="%b %Y", minimum="2014-01-10", maximum="2015-06-15", bins=100)
    assert (month.minimum, month.maximum, month.size) == ("2014-02-01", "2015-06-01", 17)
    cut = Datetime(
        "x", format="%Y-%m", minimum="2014-01", maximum="2014-12", bins=("2014-01-01", "2014-03-05", "2014-03-20")
    )
    assert cut.bins == ("2014-01-01", "2014-04-01")
    year = Datetime("x", format="%Y", minimum="1990-01-01", maximum="1999-12-31", bins=10, storage="string")
    assert encode_column(year, pa.array(["1990", "1999"])).tolist() == [0, 9]


def test_times_of_day_have_the_bounds_of_a_day_and_a_type_of_their_own():
    column = Datetime("x", format="%H:%M", bins=24)
    assert (column.minimum, column.maximum, column.size, column.field_type) == ("00:00", "23:59", 24, "time")
    assert column_of({"name": "x", "type": "time", "format": "%H:%M", "dp": {"bins": 24}}, "", ()) == column
    with pytest.raises(SchemaError, match="time of day"):
        replace(column, maximum="2014-01-01")
    with pytest.raises(SchemaError, match="23:59"):
        replace(column, maximum="noon")


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
def test_times_of_day_may_be_stored_as_such(kind):
    table = pa.table({"x": pa.array([3600, 7200, None], pa.int32()).cast(pa.time32("s")).cast(kind)})
    drafted = draft(table.schema)["x"]
    assert isinstance(drafted, Datetime)
    assert "bounds" not in drafted.open_facts
    column = Datetime("x", format="%H:%M:%S", missing=("",), bins=24, storage=str(kind))
    codes = encode(Schema((column,)), table)[:, 0]
    assert codes.tolist() == [1, 2, 24]
    back = decode_column(column, codes, rng=np.random.default_rng(0))
    assert back.type == kind
    assert encode_column(column, back).tolist() == codes.tolist()
    with pytest.raises(SchemaError, match="stored as"):
        encode(Schema((Datetime("x", minimum="2014-01-01", maximum="2014-01-02"),)), table)


@pytest.mark.parametrize("storage", ["int64", "int32", "string", "large_string"])
def test_made_up_numbers_that_identify_have_the_width_of_the_pattern(storage):
    column = Identifier("x", pattern="#####", storage=storage)
    values = [
        str(value) for value in decode_column(column, np.zeros(3000, int), rng=np.random.default_rng(0)).to_pylist()
    ]
    assert {len(value) for value in values} == {5}
    assert not any(value.startswith("0") for value in values)
    assert len(set(values)) == 3000


@pytest.mark.parametrize("pair", [("False", "True"), ("NO", "YES"), ("n", "Y"), ("f", "t")])
def test_booleans_keep_their_texts(pair):
    entry = {"name": "x", "type": "boolean", "falseValues": [pair[0]], "trueValues": [pair[1]]}
    column = column_of({**entry, "constraints": {"required": True}, "dp": {"storage": "string"}}, "", None)
    assert column == Categorical("x", values=pair, outside="absorb", storage="string")
    texts = pa.array([*pair, pair[1]])
    assert decode_column(column, encode_column(column, texts), rng=np.random.default_rng(0)).equals(texts)


def test_affixes_do_not_disturb_columns_that_are_no_text():
    column = Continuous("x", decimals=2, prefix="$", thousands=",", minimum=0, maximum=9999, bins=3)
    for kind in ("double", "decimal128(10, 2)"):
        stored = replace(column, storage=kind)
        values = decode_column(stored, np.array([0, 1, 2]), rng=np.random.default_rng(0))
        assert encode_column(stored, values).tolist() == [0, 1, 2]


def test_rules_keep_months():
    columns = (
        Datetime("end", format="%Y-%m", minimum="2014-01", maximum="2015-12", bins=24),
        Datetime("start", format="%Y-%m", minimum="2014-01", maximum="2015-12", bins=24),
    )
    schema = Schema(columns, constraints=(constraint_of({"always": "end >= start"}, 1),))
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 24, (500, 2)).astype(np.int32)
    codes, numbers = repaired(schema, codes, drawn_numbers(schema, codes, rng), rng)
    assert not broken_rows(schema, codes, numbers).any()


@pytest.mark.parametrize(
    ("facts", "labels"),
    [
        ({"bins": (-1.296, -0.6, 0), "decimals": 5, "minimum": -1.296}, ["-1.3 to -0.6", "-0.6 to 0", "0 to 1"]),
        ({"bins": (0.1, 0.25, 0.35), "decimals": 2, "minimum": 0.1}, ["0.1 to 0.24", "0.25 to 0.34", "0.35 to 1"]),
        ({"bins": (0, 0.001, 0.5), "decimals": 3, "minimum": 0}, ["0", "0.001 to 0.5", "0.5 to 1"]),
    ],
)  # fmt: skip
def test_labels_of_many_decimals_end_where_the_next_bin_begins(facts, labels):
    assert Continuous("x", maximum=1, **facts).labels() == labels
