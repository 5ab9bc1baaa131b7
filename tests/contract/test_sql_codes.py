"""Expressions of PostgreSQL give exactly the codes of the codec, for columns and probes of every kind."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.classes import Affixes, Offsets, ValueClasses
from lookalike.schema.codec import encode_column, encode_columns
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.constraints import AtLeast, ClockSum, Constraint, Determines, Parts, Sum
from lookalike.schema.probes import Comparison, GridProbe, HourLate, Roundness, RowProbe, RuleProbe, ValueAndMissing
from lookalike.schema.schema import Schema
from lookalike.schema.text_forms import FORMS
from lookalike.schema.times import written
from lookalike.sources.sql.engines import ServerTable
from tests.databases import in_postgres

NUMBERS = [
    "1",
    "+1",
    "-1",
    "01",
    " 5 ",
    "5.",
    "1.5",
    ".5",
    "1e3",
    "1E-3",
    "1e400",
    "-1e400",
    "1e-400",
    "abc",
    "",
    "NA",
    "1,234",
    "1 234",
    "--5",
    "12345678901234567",
    "999999999999999999",
    "9" * 22,
    "2.0",
    "2.5",
    "\u00a05",
    "5\u2003",
    "1_000",
    "0x10",
    "inf",
    "nan",
    "1e99999",
    "\u0661",
    "5\n",
    "\t5",
    "1.2.3",
    "-0",
    "1e",
    "e5",
    "+.5e2",
    None,
    *(repr(random.Random(i).uniform(-100, 100)) for i in range(50)),
    *map(str, range(-5, 120, 3)),
]
MONEY = [
    "$5",
    "-$5",
    "$-5",
    "$ 5",
    "5",
    "$1,234.50",
    "1,234",
    "12,34",
    "$1234",
    "USD5",
    "5$",
    "$1,23",
    "$.5",
    "+$5",
    None,
]
TEXTS = ["a", "b", "B", "a ", "", "NA", None, "é", "ß", "日本", "'", "\\", "zz", "abc", "%s"]
FLOATS = [0.0, -0.0, 0.1 + 0.2, 0.3, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), None, 5.0, 2.5, 1.25,
          123456.789, 1e16, *(random.Random(i).gauss(0, 10) for i in range(50))]  # fmt: skip
WHOLE = [*range(-200, 3000, 37), None, 2**62, -(2**62), 9999, 99]
DATES = [*(dt.date(2020, 1, 1) + dt.timedelta(days=i * 7) for i in range(-5, 70)), None, dt.date(1, 1, 1)]
STAMPS = [
    *(dt.datetime(2020, 1, 1) + dt.timedelta(minutes=i * 997, microseconds=i) for i in range(-50, 300)),
    None,
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31),
    dt.datetime(2000, 5, 5, 5),
    dt.datetime(2000, 5, 5, 5, 0, 1),
]
CLOCKS = [*(dt.time(i % 24, i % 60, 0, i) for i in range(100)), None, dt.time(5), dt.time(5, 5), dt.time(5, 5, 5)]
DAYS = ["2020-01-05", "2020-1-5", "2020-001-5", "20-1-5", "02020-1-5", "2020-02-30", "2020-13-1", "2020-0-1",
        "2020-1-0", "2020-01-32", "2020-01-05x", "2020- 1-5", "0000-01-01", " 2020-05-05 ", "9999-12-31", None, "NA",
        "2020/01/05",
        "05 Jan 2020", "5 JANUARY 2020", "31 Feb 2020", "29 feb 2020", "29 Feb 2021", "5 Foo 2020", "05  Jan 2020",
        "20200105", "2020105", "202015", "2020 1 5", "2020-01-05 1:2:3", "2020-01-05 23:59:60", "2020-01-0501:02:03",
        "2020-06-05\t01:02:03", "01/05/20 12:30 AM", "1/5/20 1:30 pm", "13/5/20 1:30 pm", "1/5/69 1:30 pm",
        "2/30/20 1:30 pm", "2020-01-05T01:02:03+01:00", "2020-06-05T01:02:03Z", "2019-12-31T23:30:00Z"]  # fmt: skip
YEAR: dict[str, Any] = {"minimum": "2020-01-01", "maximum": "2020-12-31", "missing": ("NA", "")}
WRITTEN = [
    written(np.array([random.Random(f"{form.format}{i}").randrange(-(10**15), 2 * 10**15)]), form.format, dt.UTC)[
        0
    ].as_py()
    for form in FORMS
    if form.family == "time"
    for i in range(2)
]
FORMED = [
    *NUMBERS,
    *MONEY,
    *TEXTS,
    *DAYS,
    *WRITTEN,
    "unknown",
    "true",
    " NA ",
    "007",
    "1.234.567,8",
    "1.234.567",
    "1 234,5",
    "5%",
    "-5 %",
    "+5,5%",
    "€ 1.234,50",
    "kr5",
    "5 kr",
    "1'234.5",
    "99/99/9999",
    "24:00",
    "x" * 50,
    "Jan 2020",
    "1\u202f234,5",
    "-",
    ".",
    "10:20:30.123456",
    "a longer text with words",
    *(f"{7.0**k:,.2f}" for k in range(12)),
]
BASE = Integer("x", minimum=0, maximum=100, bins=7)
MOMENT = Datetime("x", minimum="2020-01-01", maximum="2020-12-31", bins=50, format="%Y-%m-%d %H:%M:%S")

CASES: dict[str, tuple[Column, pa.DataType, Sequence[Any]]] = {
    "texts of whole numbers": (replace(BASE, missing=("NA", "")), pa.string(), NUMBERS),
    "texts of whole numbers, never missing": (BASE, pa.string(), NUMBERS),
    "texts of decimals": (Continuous("x", minimum=-10, maximum=100, bins=13, missing=("NA",)), pa.string(), NUMBERS),
    "texts of money": (
        Continuous("x", minimum=-10, maximum=10000, bins=50, prefix="$", thousands=",", missing=("",)),
        pa.string(),
        MONEY,
    ),
    "decimal commas": (
        Continuous("x", minimum=-10, maximum=10000, bins=50, thousands=".", comma=True, suffix=" €", missing=("",)),
        pa.string(),
        ["1.234,5 €", "1234,5", "1.234", "5 €", "5€", "12.34", ",5", "5,"],
    ),
    "a list": (
        Categorical("x", values=("a", "b", "é", "'", "\\", "abc", "zz", "日本", "q"), missing=("NA", "")),
        pa.string(),
        TEXTS,
    ),
    "a long list": (
        Categorical("x", values=tuple(f"v{i}" for i in range(500)), missing=("",), outside="absorb"),
        pa.string(),
        [*(f"v{i}" for i in range(-3, 510)), None],
    ),
    "a list of numbers": (
        Categorical("x", values=("1", "2", "30"), missing=("99",)),
        pa.int32(),
        [1, 2, 30, 99, None, 5, -1],
    ),
    "a list of booleans": (Categorical("x", values=("true", "false"), missing=("",)), pa.bool_(), [True, False, None]),
    "a list of dates": (Categorical("x", values=("2020-01-01", "2020-01-08"), missing=("",)), pa.date32(), DATES),
    "a list of floats": (Categorical("x", values=("0.3", "2.5"), missing=("",)), pa.float64(), FLOATS),
    "identifiers": (Identifier("x", missing=("NA", "")), pa.string(), TEXTS),
    "floats": (Continuous("x", minimum=0, maximum=5, bins=(0, 0.3, 1, 2.5), missing=("",)), pa.float64(), FLOATS),
    "floats, never missing": (Continuous("x", minimum=0, maximum=5, bins=(0, 0.3, 1, 2.5)), pa.float64(), FLOATS),
    "whole floats": (Integer("x", minimum=0, maximum=5, bins=6, missing=("",)), pa.float64(), FLOATS),
    "small floats": (
        Continuous("x", minimum=0, maximum=5, decimals=1, bins=50, missing=("",)),
        pa.float32(),
        [*(k / 10 for k in range(51)), 1.25, None],
    ),
    "more than 256 bins": (Integer("x", minimum=0, maximum=2999, bins=3000, missing=("",)), pa.int64(), WHOLE),
    "decimals": (
        Continuous("x", minimum=0, maximum=5, bins=(0, 0.3, 1, 2.5), missing=("",)),
        pa.decimal128(10, 2),
        [*(Decimal(k).scaleb(-2) for k in range(-9, 600, 5)), None],
    ),
    "dates": (Datetime("x", bins="month", **YEAR), pa.date32(), DATES),
    "timestamps": (Datetime("x", bins=50, format="%Y-%m-%d %H:%M", **YEAR), pa.timestamp("us"), STAMPS),
    "instants": (
        Datetime("x", bins=50, format="%Y-%m-%d %H:%M", zone="UTC", **YEAR),
        pa.timestamp("us", tz="UTC"),
        [stamp and stamp.replace(tzinfo=dt.UTC) for stamp in STAMPS],
    ),
    "times of day": (Datetime("x", format="%H:%M", bins=24, missing=("",)), pa.time64("us"), CLOCKS),
    **{
        f"texts of times {format}": (Datetime("x", bins=20, format=format, **YEAR), pa.string(), DAYS)
        for format in ("%Y-%m-%d", "%Y%m%d", "%Y-%m-%d %H:%M:%S", "%d %b %Y", "%m/%d/%y %I:%M %p")
    },
    "texts of instants": (
        Datetime("x", bins=20, format="%Y-%m-%dT%H:%M:%S%:z", zone="Europe/Paris", **YEAR),
        pa.string(),
        DAYS,
    ),
    "classes of whole numbers": (ValueClasses("x", kind="whole"), pa.int64(), WHOLE),
    "classes of floats": (ValueClasses("x", kind="float"), pa.float64(), FLOATS),
    "classes of timestamps": (ValueClasses("x", kind="stamp"), pa.timestamp("us"), STAMPS),
    "classes of dates": (ValueClasses("x", kind="stamp"), pa.date32(), DATES),
    "classes of times of day": (ValueClasses("x", kind="clock"), pa.time64("us"), CLOCKS),
    "classes of booleans": (ValueClasses("x", kind="other"), pa.bool_(), [True, False, None]),
    "classes of texts": (ValueClasses("x", kind="text"), pa.string(), FORMED),
    "affixes": (Affixes("x"), pa.string(), FORMED),
    "offsets": (Offsets("x"), pa.string(), FORMED),
    "cells": (GridProbe("x", base=BASE, edges=np.array([-np.inf, 0.0, 10.0, 50.0])), pa.string(), NUMBERS),
    "cells of times": (
        GridProbe("x", base=MOMENT, edges=np.array([-np.inf, 1577836800.0, 1577923200.5])),
        pa.timestamp("us"),
        STAMPS,
    ),
    "rounding of texts": (Roundness("x", base=BASE, steps=(1, 5, 10, 50)), pa.string(), NUMBERS),
    "rounding of numbers": (Roundness("x", base=BASE, steps=(1, 5, 10, 50)), pa.int64(), WHOLE),
    "rounding of clock times": (
        Roundness("x", base=Integer("x", minimum=0, maximum=2359, clock=True), steps=(1, 5, 15)),
        pa.int64(),
        WHOLE,
    ),
    "rounding of months": (
        Roundness("x", base=Datetime("x", minimum="2020-01", maximum="2021-12", format="%Y-%m"), steps=(1, 3, 12)),
        pa.string(),
        ["2020-01", "2020-4", "2021-07", "1970-01", "1969-12", "0001-03", "x", None],
    ),
    "rounding of years": (
        Roundness(
            "x", base=Datetime("x", minimum="1950-01-01", maximum="2021-01-01", format="in %Y"), steps=(1, 5, 10)
        ),
        pa.string(),
        ["in 2020", "in 1960", "in 1955", "in 1951", "1970", None],
    ),
    "rounding of decimals": (
        Roundness("x", base=Continuous("x", minimum=0, maximum=100, decimals=2), steps=(1, 5, 10, 50)),
        pa.float64(),
        FLOATS,
    ),
    "rounding of times": (Roundness("x", base=MOMENT, steps=(1, 60, 3600, 86400)), pa.timestamp("us"), STAMPS),
}


def codes_of(columns: Sequence[Column], table: pa.Table, folder: Any) -> list[list[int]]:
    """The codes of every row, in the order of the column `row`, as the server computes them."""
    scanner = in_postgres(table, folder).scanner()
    assert isinstance(scanner, ServerTable)
    session = scanner._rows.session
    given = ", ".join(scanner.code(column) for column in columns)
    rows = session.fetch(f'SELECT {given} FROM {session.table} AS t ORDER BY "row"')
    scanner.close()
    return [list(row) for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_the_server_gives_the_codes_of_the_codec(name: str, tmp_path: Any) -> None:
    column, kind, values = CASES[name]
    table = pa.table({"row": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, kind)})
    found = [code for (code,) in codes_of([column], table, tmp_path)]
    wanted = encode_column(column, table.column("x")).tolist()
    assert found == wanted, [(v, f, w) for v, f, w in zip(values, found, wanted, strict=True) if f != w][:10]


# Probes of rows.

SECONDS = Datetime("when", minimum="2020-01-01", maximum="2020-12-31", format="%Y-%m-%d %H:%M:%S", missing=("",))
COLUMNS: dict[str, Column] = {
    "when": SECONDS,
    "later": replace(SECONDS, name="later"),
    "hour": Integer("hour", minimum=0, maximum=23, bins=24, missing=("",)),
    "month": Integer("month", minimum=1, maximum=12, bins=12),
    "days": Integer("days", minimum=0, maximum=9, bins=10, missing=("",)),
    "more": Integer("more", minimum=0, maximum=9, bins=10, missing=("",)),
    "total": Integer("total", minimum=0, maximum=18, bins=19, missing=("",)),
    "departure": Integer("departure", minimum=0, maximum=2359, bins=4, missing=("",)),
    "arrival": Integer("arrival", minimum=0, maximum=2400, bins=4, missing=("",)),
    "one": Continuous("one", minimum=0, maximum=1, bins=4, missing=("",)),
    "two": Continuous("two", minimum=0, maximum=1, bins=4),
    "price": Continuous("price", minimum=0, maximum=9, bins=9, decimals=2, missing=("",)),
    "letter": Categorical("letter", values=("a", "b"), missing=("",)),
    "code": Categorical("code", values=("1", "2"), missing=("",)),
}


def rows() -> pa.Table:
    rng = random.Random(0)
    number, base = 400, dt.datetime(2020, 1, 1)

    def some(make: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else make() for _ in range(number)]

    when = some(lambda: base + dt.timedelta(seconds=rng.randrange(-(10**6), 4 * 10**7)))
    days, more = some(lambda: rng.randrange(-1, 11)), some(lambda: rng.randrange(10))
    departure = some(lambda: rng.choice([-1, 0, 959, 1230, 2359, 2400, 10**15]))
    near = [w and w + dt.timedelta(seconds=rng.randrange(-2, 3)) for w in when]
    return pa.table(
        {
            "row": pa.array(range(number), pa.int64()),
            "when": pa.array(when, pa.timestamp("us")),
            "later": pa.array(near, pa.timestamp("us")),
            "hour": pa.array([w and (w.hour + rng.randrange(2)) for w in when], pa.int64()),
            "month": pa.array([w and w.month for w in when], pa.int32()),
            "days": pa.array(days, pa.int64()),
            "more": pa.array(more, pa.int64()),
            "total": pa.array(
                [None if d is None or m is None else d + m for d, m in zip(days, more, strict=True)], pa.int64()
            ),
            "departure": pa.array(departure, pa.int64()),
            "arrival": pa.array([d and d + rng.choice([0, 1, 41, -2359, 2400]) for d in departure], pa.int64()),
            "one": pa.array(some(lambda: rng.choice([0.5, rng.random(), float("inf"), float("nan")])), pa.float64()),
            "two": pa.array(some(lambda: rng.choice([0.5, rng.random()])), pa.float64()),
            "price": pa.array(some(lambda: rng.choice([1.0, 2.5, 3.999, 1e300])), pa.float64()),
            "letter": pa.array(some(lambda: rng.choice("abc")), pa.string()),
            "code": pa.array(some(lambda: rng.choice("123")), pa.string()),
        }
    )


def rule(*rules: Constraint, **changes: Any) -> RuleProbe:
    names = dict.fromkeys(name for one in rules for name in one.columns)
    columns = tuple(replace(COLUMNS[name], **changes.get(name, {})) for name in names)
    return RuleProbe("row probe", schema=Schema(columns, rules))


def pair(kind: type[RowProbe], one: str, two: str) -> RowProbe:
    return kind("row probe", schema=Schema((COLUMNS[one], COLUMNS[two])))


PROBES: dict[str, RowProbe] = {
    "comparison of times": pair(Comparison, "when", "later"),
    "comparison of floats": pair(Comparison, "one", "two"),
    "comparison of texts": pair(Comparison, "letter", "code"),
    "hours late": pair(HourLate, "when", "hour"),
    "value and missing": pair(ValueAndMissing, "letter", "days"),
    "at least": rule(AtLeast("later", "when")),
    "more": rule(AtLeast("one", "two", strict=True)),
    "sum": rule(Sum("total", ("days", "more"))),
    "computed sum": rule(Sum("total", ("days", "more")), total={"derived": True}),
    "sum with factors": rule(Sum("total", ("days", "more"), (2, 1))),
    "times of day": rule(ClockSum("arrival", "departure", "days")),
    "computed time of day": rule(ClockSum("arrival", "departure", "days"), arrival={"derived": True}),
    "times of day with decimals": rule(ClockSum("total", "price", "days")),
    "sum of prices": rule(Sum("price", ("days", "more"))),
    "parts": rule(Parts("when", (("month", "month"), ("hour", "hour")))),
    "parts in a zone": rule(Parts("when", (("month", "month"), ("hour", "hour")), zone="America/New_York")),
    "weekday": rule(Parts("when", (("weekday", "days"), ("weekday from Sunday 1", "more")))),
    "determines": rule(Determines("letter", "code", (("a", "1"), ("b", "2")))),
    "determines a number": rule(Determines("letter", "days", (("a", "1"), ("b", "2")))),
}


@pytest.mark.parametrize("name", PROBES)
def test_the_server_gives_the_classes_of_rows(name: str, tmp_path: Any) -> None:
    probe, table = PROBES[name], rows()
    found = [code for (code,) in codes_of([probe], table, tmp_path)]
    assert found == encode_columns([probe], table)[:, 0].tolist()
