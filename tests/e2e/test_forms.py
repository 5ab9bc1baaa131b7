"""Money, percents, English dates, times of day, clock numbers and words among numbers, through the command line."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from .conftest import Call

ROWS = 3000
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
EPSILON = 20

SCHEMA = """
fields:
- {name: price, type: number, groupChar: ",", constraints: {minimum: 0, maximum: 900000},
   missingValues: [unknown, ">1M"], dp: {prefix: $, decimals: 2, bins: 10}}
- {name: cost, type: number, groupChar: ".", decimalChar: ",",
   constraints: {minimum: 0, maximum: 90000, required: true}, dp: {suffix: " EUR", decimals: 2, bins: 10}}
- {name: share, type: number, constraints: {minimum: 0, maximum: 100, required: true}, dp: {suffix: "%", decimals: 1}}
- {name: count, type: integer, groupChar: " ", constraints: {minimum: 0, maximum: 9999, required: true}}
- {name: change, type: integer, constraints: {minimum: -50, maximum: 50, required: true}, dp: {plus: true}}
- {name: clinic, type: integer, constraints: {minimum: 0, maximum: 9999, required: true}, dp: {width: 4}}
- {name: day, type: date, format: "%d %b %Y", constraints: {minimum: 2014-01-01, maximum: 2014-12-31},
   missingValues: ["not reported", "N/A"], dp: {bins: month}}
- {name: month, type: date, format: "%Y-%m", constraints: {minimum: 2014-01, maximum: 2016-12, required: true}}
- {name: at, type: time, format: "%H:%M:%S", constraints: {required: true}, dp: {bins: 24}}
- {name: tea, type: time, format: "%-I:%M %p", constraints: {required: true}, dp: {bins: 24}}
- {name: seen, type: datetime, format: "%Y-%m-%dT%H:%M:%S%:z", dp: {zone: "+01:00"},
   constraints: {minimum: 2014-01-01, maximum: 2014-12-31, required: true}}
- {name: departs, type: integer, constraints: {minimum: 0, maximum: 2359}, missingValues: ["-"], dp: {clock: true}}
- {name: late, type: boolean, falseValues: ["No"], trueValues: ["Yes"], constraints: {required: true}}
- {name: case, type: integer, dp: {pattern: "#######"}, constraints: {required: true}}
"""

FORMS = {
    "price": r"\$(\d{1,3}(,\d{3})*)\.\d{2}|unknown|>1M",
    "cost": r"\d{1,3}(\.\d{3})*,\d{2} EUR",
    "share": r"\d{1,3}\.\d%",
    "count": r"\d{1,3}( \d{3})*",
    "change": r"[+-]\d{1,2}",
    "clinic": r"\d{4}",
    "day": rf"\d{{2}} ({'|'.join(MONTHS)}) 2014|not reported|N/A",
    "month": r"201[456]-(0[1-9]|1[0-2])",
    "at": r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d",
    "tea": r"([1-9]|1[0-2]):[0-5]\d [AP]M",
    "seen": r"2014-\d\d-\d\dT\d\d:\d\d:\d\d\+01:00",
    "departs": r"(\d|[1-5]\d|\d{1,2}[0-5]\d)|-",
    "late": "Yes|No",
    "case": r"[1-9]\d{6}",
}


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    path = tmp_path / "prices.csv"
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(FORMS)
        for _ in range(ROWS):
            rows.writerow(_row(rng))
    return path


def _row(rng: np.random.Generator) -> list[str]:
    price, number = rng.exponential(150_000), rng.integers(0, 5000)
    hour, minute, second = rng.integers(6, 22), rng.integers(0, 60), rng.integers(0, 60)
    month, day = rng.integers(1, 13), rng.integers(1, 29)
    word = rng.random()
    return [
        "unknown" if word < 0.1 else ">1M" if word < 0.2 else f"${price:,.2f}",
        f"{price / 10:,.2f} EUR".translate(str.maketrans(",.", ".,")),
        f"{100 * rng.random():.1f}%",
        f"{number:,}".replace(",", " "),
        f"{rng.integers(-20, 21):+d}",
        f"{number:04d}",
        "not reported" if word < 0.05 else "N/A" if word > 0.95 else f"{day:02d} {MONTHS[month - 1]} 2014",
        f"{rng.integers(2014, 2017)}-{month:02d}",
        f"{hour:02d}:{minute:02d}:{second:02d}",
        f"{(hour - 1) % 12 + 1}:{minute:02d} {'AM' if hour < 12 else 'PM'}",
        f"2014-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}+01:00",
        "-" if word < 0.1 else str(100 * hour + minute),
        "Yes" if price > 150_000 else "No",
        str(rng.integers(10**6, 10**7)),
    ]


def _columns(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as stream:
        rows = list(csv.reader(stream))
    return dict(zip(rows[0], [list(values) for values in zip(*rows[1:], strict=True)], strict=True))


def test_declared_forms_are_written_as_they_were(call: Call, prices: Path, tmp_path: Path) -> None:
    schema, out, model = tmp_path / "schema.yaml", tmp_path / "out.csv", tmp_path / "m.lookalike"
    schema.write_text(SCHEMA)
    done = call(
        "synth", prices, "--schema", schema, "--method", "mst", "--epsilon", EPSILON, "-o", out, "--model", model
    )
    assert done.code == 0, done.err
    made = _columns(out)
    for name, form in FORMS.items():
        odd = [value for value in made[name] if not re.fullmatch(form, value)]
        assert not odd, (name, odd[:3])
    words = np.array(made["price"])
    assert abs(np.mean(words == "unknown") - 0.1) < 0.02
    assert abs(np.mean(words == ">1M") - 0.1) < 0.02
    asked = call("query", model, "count where price = '>1M'", "--json")
    assert asked.code == 0, asked.err
    dear = call("query", model, "count where price >= '$450,000.00' and departs >= 1200", "--json")
    assert dear.code == 0, dear.err


def test_forms_that_are_not_declared_are_found(call: Call, prices: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = call("synth", prices, "--method", "independent", "--epsilon", EPSILON, "-o", out)
    assert done.code == 0, done.err
    made = _columns(out)
    for name in ("share", "count", "change", "month", "at", "tea", "late"):
        odd = [value for value in made[name] if not re.fullmatch(FORMS[name], value)]
        assert not odd, (name, odd[:3])
        assert name == "late" or len(set(made[name])) > 15, name
