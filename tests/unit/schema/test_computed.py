"""Columns that rules compute: sums with factors, parts of times, values by a table. They have one code."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import InputError, SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import encode
from lookalike.schema.columns import Categorical
from lookalike.schema.conditions import parse_question
from lookalike.schema.constraints import ClockSum, Determines, Parts, Sum, constraint_of, rule_text
from lookalike.schema.decode import decode
from lookalike.schema.enforce import check_rules, structural_zeros
from lookalike.schema.parts import FIRST, LAST, PARTS, from_zone, in_zone, part_of, with_parts
from lookalike.schema.schema import Schema

EPOCH = datetime(1970, 1, 1)
DATE = (("year", "year"), ("month", "month"), ("day", "day"))
COLUMNS = (
    Integer("year", minimum=2013, maximum=2013, bins=1),
    Integer("month", minimum=1, maximum=12, bins=12),
    Integer("day", minimum=1, maximum=31, bins=31),
    Integer("hour", minimum=0, maximum=23, bins=24, missing=("",)),
    Integer("minute", minimum=0, maximum=59, bins=60),
    Integer("clock", minimum=0, maximum=2400, bins=16, missing=("",)),
    Datetime("when", minimum="2013-01-01", maximum="2014-01-01", bins="month", format="%Y-%m-%dT%H:%M:%SZ",
             missing=("",)),
    Integer("weekday", minimum=0, maximum=6, bins=7),
    Categorical("from", values=("A", "B"), outside="other"),
    Categorical("to", values=("X", "Y", "Z"), outside="absorb"),
    Integer("miles", minimum=0, maximum=999, bins=4),
)  # fmt: skip
MILES = Determines(
    ("from", "to"),
    "miles",
    tuple(((a, b), str(10 * i)) for i, (a, b) in enumerate(zip("AABBAB", "XYXYZZ", strict=True))),
)


def schema_of(*rules, derived=()):
    columns = [replace(column, derived=column.name in derived) for column in COLUMNS]
    return Schema(tuple(columns), rules)


def made(schema, rows=2000):
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, column.size, rows) for column in schema.columns])
    return decode(schema, codes, rng=rng).to_pandas()


def test_a_sum_with_factors_is_computed_and_missing_where_a_term_is():
    schema = schema_of(Sum("clock", ("hour", "minute"), (100, 1)), derived=("clock",))
    assert schema.domain.size("clock") == 1
    rows = made(schema)
    known = rows[rows.hour.notna()]
    assert 500 < len(known) < len(rows)
    assert (known.clock == 100 * known.hour + known.minute).all()
    assert rows[rows.hour.isna()].clock.isna().all()


def test_a_time_of_day_is_computed_across_midnight_and_from_a_computed_one():
    delay = Integer("delay", minimum=-200, maximum=1500, bins=17, missing=("",))
    late = Integer("late", minimum=1, maximum=2400, bins=24, missing=("",), derived=True)
    rules = (ClockSum("late", "clock", "delay"), Sum("clock", ("hour", "minute"), (100, 1)))
    schema = Schema((*schema_of(derived=()).columns[:5], replace(COLUMNS[5], derived=True), delay, late), rules)
    rows = made(schema)
    known = rows[rows.hour.notna() & rows.delay.notna()]
    assert rows.late.notna().tolist() == (rows.hour.notna() & rows.delay.notna()).tolist()
    after = (60 * known.hour + known.minute + known.delay) % (24 * 60)
    assert (known.late == np.where(after == 0, 2400, 100 * (after // 60) + after % 60)).all()
    assert (60 * known.hour + known.minute + known.delay).between(0, 1439).mean() < 0.9


def test_a_time_of_day_that_is_modelled_is_set_as_well():
    rows = made(
        schema_of(ClockSum("clock", "hour", "minute"))
    )  # hours read as clocks: 3 is three minutes past midnight
    both = rows[rows.clock.notna() & rows.hour.notna()]
    after = both.hour + both.minute
    assert (both.clock == 100 * (after // 60) + after % 60).all()
    assert rows.clock.isna().any()


@pytest.mark.parametrize("wrong", [("when", "clock", "minute"), ("clock", "from", "minute")])
def test_times_of_day_are_whole_numbers(wrong):
    with pytest.raises(SchemaError, match="needs whole numbers"):
        check_rules(schema_of(ClockSum(*wrong)))
    with pytest.raises(SchemaError, match="needs whole numbers"):  # as where discovery finds the kind of a column
        made(schema_of(ClockSum(*wrong)))


def test_a_time_is_computed_from_its_parts_in_a_zone():
    rule = Parts("when", (*DATE, ("hour", "hour"), ("weekday", "weekday")), "America/New_York")
    schema = schema_of(rule, derived=("when", "weekday"))
    rows = made(schema)
    assert rows.when.isna().tolist() == rows.hour.isna().tolist()
    known = rows[rows.when.notna()]
    local = pd.to_datetime(known.when, utc=True).dt.tz_convert("America/New_York").dt
    for part in ("year", "month", "day", "hour"):
        assert (getattr(local, part) == known[part]).all(), part
    assert (local.day_of_week == known.weekday).all()
    assert known.day.nunique() == 31
    assert structural_zeros(schema)[("month", "day")].sum() == 3 + 4  # February of 2013, though not of 2014
    assert encode(schema, pa.Table.from_pandas(rows))[:, 6].max() == 0


def test_fine_parts_are_set_and_coarse_ones_follow():
    rule = Parts("when", (("month", "month"), ("weekday", "weekday"), ("hour", "hour")))
    rows = made(schema_of(rule, derived=("month",)))
    known = rows[rows.when.notna()]
    local = pd.to_datetime(known.when, utc=True).dt
    assert (local.month == known.month).all()
    assert (local.day_of_week == known.weekday).all()
    both = known.hour.notna()
    assert (local.hour[both] == known.hour[both]).all()
    assert rows.month.nunique() == 12


def test_two_columns_determine_a_third():
    schema = schema_of(MILES, derived=("miles",))
    rows = made(schema)
    wanted = {key: int(value) for key, value in MILES.table}
    listed = [key in wanted for key in zip(rows["from"], rows.to, strict=True)]
    assert 500 < sum(listed) < len(rows)  # the catch-all of `from` is not listed
    assert all(
        wanted[row["from"], row.to] == row.miles for _, row in rows.iterrows() if (row["from"], row.to) in wanted
    )
    free = made(schema_of(MILES))
    assert all(
        wanted[row["from"], row.to] == row.miles for _, row in free.iterrows() if (row["from"], row.to) in wanted
    )


def test_rules_survive_the_file(tmp_path):
    rules = (
        Sum("clock", ("hour", "minute"), (100, 1), provenance="measured"),
        Parts("when", DATE, "America/New_York", provenance="measured"),
        replace(MILES, provenance="measured"),
        ClockSum("clock", "year", "minute"),
    )
    schema = schema_of(*rules, derived=("clock", "when", "miles"))
    schema.save(tmp_path / "s.yaml")
    assert Schema.load(tmp_path / "s.yaml") == schema
    assert rule_text(rules[0]) == "always: clock = 100*hour + minute"
    assert "America/New_York" in rule_text(rules[1])
    assert rule_text(rules[3]) == "clock: clock is minute minutes after year"
    check_rules(schema)


@pytest.mark.parametrize(
    "entry",
    [
        {"parts": {"of": "when"}}, {"parts": {"of": "when", "century": "year"}}, {"parts": "when"},
        {"parts": {"of": "when", "zone": "Mars", "year": "year"}}, {"always": "a = 0*b"}, {"always": "2*a = b"},
        {"determines": {"from": ["a", "b"], "to": "c", "table": [["x", "y"]]}},
        {"determines": {"from": ["a"], "to": "c", "table": {"x": "y"}}},
        {"clock": {"of": "a", "from": "b"}}, {"clock": {"of": "a", "from": "a", "minutes": "b"}}, {"clock": "a"},
        {"never": "a = 1", "provenance": "open"}, {"never": "a = 1", "always": "a = b"},
    ],
)  # fmt: skip
def test_faulty_entries_are_refused(entry):
    with pytest.raises(SchemaError):
        constraint_of(entry, 1)


def test_derived_needs_a_rule_and_is_not_asked_about():
    with pytest.raises(SchemaError, match="no rule computes it"):
        schema_of(derived=("clock",))
    with pytest.raises(SchemaError, match="needs a time and whole numbers"):
        check_rules(schema_of(Parts("year", (("month", "month"),))))
    schema = schema_of(MILES, derived=("miles",))
    with pytest.raises(InputError, match="computed from others"):
        parse_question("count where miles > 10", schema)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_parts_are_those_of_the_calendar(when):
    micros = np.array([(when - EPOCH) // timedelta(microseconds=1)])
    wanted = {
        "year": when.year, "quarter": (when.month + 2) // 3, "month": when.month, "day": when.day,
        "day of year": when.timetuple().tm_yday, "weekday": when.weekday(), "weekday from 1": when.isoweekday(),
        "weekday from Sunday": when.isoweekday() % 7, "weekday from Sunday 1": when.isoweekday() % 7 + 1,
        "hour": when.hour, "minute": when.minute, "second": when.second, "clock": when.hour * 100 + when.minute,
        "date": when.year * 10_000 + when.month * 100 + when.day,
    }  # fmt: skip
    assert {part: int(part_of(micros, part)[0]) for part in PARTS} == wanted
    settable = ("year", "month", "day", "hour", "minute", "second")
    assert with_parts(np.array([0]), {p: np.array([wanted[p]]) for p in settable})[0] == micros[0] // 10**6 * 10**6


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.sampled_from(["", "America/New_York", "+05:30"]))
def test_no_time_is_too_far_for_parts(micros, zone):
    values = np.array(micros)
    with np.errstate(all="raise"):
        wall = in_zone(values, zone)
        for part, (low, high) in PARTS.items():
            found = part_of(wall, part)
            assert found.min() >= low
            assert found.max() <= high
        back = from_zone(with_parts(wall, {"day": values, "hour": values, "year": values}), zone)
    assert back.min() >= FIRST - 2 * 10**11
    assert back.max() <= LAST + 2 * 10**11


def test_values_of_bins():
    months = Integer("m", minimum=1, maximum=3, bins=3)
    assert months.single_values().tolist() == [1, 2, 3]
    assert Integer("m", minimum=1, maximum=4, bins=3).single_values() is None
    shape = ((5, 2.0), (6, 0.0), (70, 1.0), (71, 0.0))
    assert Integer("m", minimum=5, maximum=99, bins=(5, 70), shape=shape).single_values().tolist() == [5, 70]
    spread = ((5, 2.0), (7, 0.0), (70, 1.0), (71, 0.0))
    assert Integer("m", minimum=5, maximum=99, bins=(5, 70), shape=spread).single_values() is None
    prices = ((0.5, 1.0), (0.51, 0.0), (2.0, 1.0), (2.01, 0.0))
    listed = Continuous("p", minimum=0.5, maximum=3, decimals=2, bins=(0.5, 2.0), shape=prices)
    assert listed.single_values().tolist() == [50, 200]
    assert Continuous("p", minimum=0.5, maximum=3).single_values() is None
