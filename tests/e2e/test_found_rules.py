"""Rules that a run finds, from the command line: planned, charged, kept by every row, written down, and turned off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lookalike.schema.schema import Schema

from .conftest import Call

SCHEMA = """
fields:
- {name: hour, type: integer, constraints: {minimum: 0, maximum: 23, required: true}, dp: {bins: 24}}
- {name: minute, type: integer, constraints: {minimum: 0, maximum: 59, required: true}, dp: {bins: 12}}
- {name: clock, type: integer, constraints: {minimum: 0, maximum: 2359, required: true}, dp: {bins: 16}}
- {name: day, type: date, constraints: {minimum: 2023-01-01, maximum: 2024-12-31, required: true}, dp: {bins: month}}
- {name: weekday, type: integer, constraints: {minimum: 1, maximum: 7, required: true}, dp: {bins: 7}}
"""


@pytest.fixture
def clocks(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    hour, minute = rng.integers(5, 24, 6000), rng.integers(0, 60, 6000)
    day = pd.Series(np.datetime64("2023-01-01") + rng.integers(0, 700, 6000))
    columns = {"hour": hour, "minute": minute, "clock": 100 * hour + minute, "day": day.dt.strftime("%Y-%m-%d")}
    pd.DataFrame({**columns, "weekday": day.dt.day_of_week + 1}).to_csv(tmp_path / "clocks.csv", index=False)
    (tmp_path / "clocks.yaml").write_text(SCHEMA)
    return tmp_path / "clocks.csv"


def test_rules_are_found_kept_and_written_down(call: Call, clocks: Path, tmp_path: Path) -> None:
    out, model, page = tmp_path / "out.csv", tmp_path / "m.lookalike", tmp_path / "page.html"
    schema = ("--schema", clocks.with_suffix(".yaml"), "--method", "mst", "--epsilon", 4)
    made = call("synth", clocks, *schema, "--rules", "-o", out, "--model", model, "--report", page)
    assert made.code == 0, made.err
    assert "discover: rules" in made.err
    assert "always: clock = 100*hour + minute" in made.err
    assert "clock = 100*hour + minute" in page.read_text()
    rows = pd.read_csv(out)
    assert (rows.clock == 100 * rows.hour + rows.minute).all()
    assert (pd.to_datetime(rows.day).dt.day_of_week + 1 == rows.weekday).all()
    assert rows.weekday.value_counts(normalize=True).between(0.1, 0.2).all()
    more = tmp_path / "more.csv"
    assert call("sample", model, "-o", more, "--rows", 200).code == 0
    again = pd.read_csv(more)
    assert (again.clock == 100 * again.hour + again.minute).all()
    refused = call("query", model, "count where clock > 1200")
    assert refused.code == 2
    assert "computed from others" in refused.err


def test_the_search_is_in_the_plan_and_can_be_turned_off(call: Call, clocks: Path, tmp_path: Path) -> None:
    steps = {}
    for options in ((), ("--no-rules",)):
        listed = json.loads(call("plan", clocks, "--json", *options).out)["steps"]
        steps[options] = {step["step"]: step["rho"] for step in listed}
    assert 0 < steps[()]["discover: rules"] <= 0.031 * sum(steps[()].values())
    assert "discover: rules" not in steps[("--no-rules",)]
    made = call("synth", clocks, "--no-rules", "--method", "independent", "-o", tmp_path / "out.csv")
    assert made.code == 0
    assert "discover: rules" not in made.err


def test_a_schema_with_rules_that_were_found_is_a_schema(call: Call, clocks: Path, tmp_path: Path) -> None:
    from lookalike import load

    common = ("--method", "independent", "--epsilon", 4, "-o", tmp_path / "out.csv")
    model = tmp_path / "m.lookalike"
    assert (
        call("synth", clocks, "--schema", clocks.with_suffix(".yaml"), "--rules", *common, "--model", model).code == 0
    )
    load(model).schema.save(tmp_path / "found.yaml")
    found = Schema.load(tmp_path / "found.yaml")
    assert found["clock"].derived
    assert {rule.provenance for rule in found.constraints} == {"measured"}
    made = call("synth", clocks, "--schema", tmp_path / "found.yaml", *common)
    assert made.code == 0, made.err
    assert "discover: rules" not in made.err
    rows = pd.read_csv(tmp_path / "out.csv")
    assert (rows.clock == 100 * rows.hour + rows.minute).all()
    judged = call("evaluate", clocks, tmp_path / "out.csv", "--schema", tmp_path / "found.yaml", "--json")
    assert judged.code == 0, judged.err
    assert [rule["synth"] for rule in json.loads(judged.out)["rules"]] == [0] * len(found.constraints)
