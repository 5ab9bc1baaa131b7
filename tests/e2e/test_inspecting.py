"""Inspect, then go on from what was found; strict runs: through the command line and the library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lookalike
from lookalike.discovery.discover import Discovery
from lookalike.errors import DoubtfulError, SchemaError
from lookalike.inspecting import COLUMNS
from lookalike.privacy.journal import journals_of
from lookalike.privacy.ledger import Ledger
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import RARE_TEXTS

from .conftest import Call


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    sex, age = rng.choice(["F", "M"], 3000, p=[0.7, 0.3]), rng.integers(18, 90, 3000)
    path = tmp_path / "people.csv"
    pd.DataFrame({"sex": sex, "age": age, "note": [f"text {i * 7919 % 3000}" for i in range(3000)]}).to_csv(
        path, index=False
    )
    return path


def ledger_of(call: Call, table: Path) -> dict:
    return json.loads(call("ledger", table, "--json").out)


def test_a_run_goes_on_from_an_inspection_and_both_are_in_the_ledger(call: Call, people: Path, tmp_path: Path) -> None:
    found, out = tmp_path / "found.yaml", tmp_path / "o.csv"
    outcome = call("inspect", people, "-e", 3, "--write-schema", found)
    assert outcome.code == 0, outcome.err
    assert "too few of them are frequent): note" in outcome.out
    assert f"'lookalike synth TABLE --schema {found}' uses it without paying again." in outcome.out
    schema = Schema.load(found)
    assert not schema.open_facts
    assert schema["sex"].fact("values") == "measured"
    known = {counts.column: counts for counts in schema.known_counts}
    assert abs(known["sex"].counts[schema["sex"].values.index("F")] - 2100) < 8 * known["sex"].stddev + 100
    again = call("synth", people, "--schema", found, "-o", out, "-m", "independent", "-e", 1)
    assert again.code == 0, again.err
    book = ledger_of(call, people)
    assert [run["method"] for run in book["runs"]] == ["inspect", "independent"]
    assert book["epsilon"] == 4.0
    assert all(not charge["step"].startswith("discover") for charge in book["runs"][1]["charges"])
    assert len(out.read_text().splitlines()) > 2500


def test_json_of_an_inspection(call: Call, people: Path) -> None:
    facts = json.loads(call("inspect", people, "-e", 3, "--json").out)
    assert [column["column"] for column in facts["columns"]] == ["sex", "age", "note"]
    assert facts["columns"][0]["values or range"] == "F, M"
    assert [(entry["column"], entry["reason"]) for entry in facts["unseen"] if entry["column"]] == [
        ("note", RARE_TEXTS)
    ]
    assert facts["epsilon_of_all_runs"] == facts["epsilon"] == 3.0


def test_inspected_counts_make_a_later_run_more_precise(people: Path) -> None:
    frame = pd.read_csv(people)[["sex", "age"]]
    noise = np.random.default_rng(5)
    found = lookalike.inspect(frame, epsilon=20.0, insecure_rng=noise)
    assert COLUMNS in found.spent.by_step()
    assert float(found.spent.rho) <= float(Discovery().budget(Schema.from_sizes({"a": 2}), 20.0, 1e-5, "gdp").rho)
    given = {"epsilon": 0.05, "method": "independent", "insecure_rng": noise, "seed": 1}
    errors = {True: [], False: []}
    for _ in range(6):
        for known in errors:
            schema = found.schema if known else found.schema.with_counts([])
            made = lookalike.synthesize(frame, schema=schema, **given).table
            errors[known].append(abs((made["sex"] == "F").mean() - (frame["sex"] == "F").mean()))
    assert np.mean(errors[True]) < 0.03
    assert np.mean(errors[True]) < np.mean(errors[False])


def test_nothing_open_is_refused_uncharged(people: Path, tmp_path: Path) -> None:
    frame, book = pd.DataFrame({"a": [0, 1] * 50}), Ledger(tmp_path / "l.jsonl", "t")
    with pytest.raises(SchemaError, match="nothing to inspect"):
        lookalike.inspect(frame, schema={"a": 2}, ledger=book)
    assert book.runs() == []


def test_a_strict_run_stops_with_its_own_exit_code_and_counts_what_it_spent(
    call: Call, people: Path, tmp_path: Path
) -> None:
    out, found = tmp_path / "o.csv", tmp_path / "found.yaml"
    outcome = call("synth", people, "-o", out, "-e", 3, "--strict", "--write-schema", found)
    assert outcome.code == 3
    assert "too few of them are frequent): note" in outcome.err
    assert "No row was made. The run counts with epsilon" in outcome.err
    assert not out.exists()
    book = ledger_of(call, people)
    (run,) = book["runs"]
    assert run["status"] == "stopped"
    assert 0 < book["epsilon"] < 3.0
    assert book["delta"] == pytest.approx(1e-5)
    assert all(charge["step"].startswith("discover") for charge in run["charges"])
    assert journals_of(Path(book["ledger"])) == {}
    assert "Strict runs that stopped count with what they had spent" in call("ledger", people).out
    # What was paid for is not lost: declare what is in doubt, and go on.
    go_on = ("--schema", found, "--id", "note", "-o", out, "-m", "independent", "--strict", "--no-rules")
    again = call("synth", people, *go_on)
    assert again.code == 0, again.err
    assert ledger_of(call, people)["epsilon"] == pytest.approx(book["epsilon"] + 1.0)


def test_a_strict_run_says_so_in_json(call: Call, people: Path, tmp_path: Path) -> None:
    outcome = call("synth", people, "-o", tmp_path / "o.csv", "-e", 3, "--strict", "--json")
    assert outcome.code == 3
    facts = json.loads(outcome.out)
    assert facts["stopped"] is True
    assert facts["epsilon_counted"] == facts["epsilon_of_all_runs"] < 3.0
    assert facts["unseen"][-1]["column"] == "note"
    assert facts["unseen"][-1]["declare"] == "--values note=A,B"


def test_strict_runs_in_the_library(people: Path) -> None:
    frame, book = pd.read_csv(people), Ledger(None, "t")
    strict = Discovery(strict=True)
    with pytest.raises(DoubtfulError) as caught:
        lookalike.synthesize(frame, epsilon=3.0, discovery=strict, ledger=book)
    assert caught.value.counted == book.spent()[0] < 3.0
    assert not caught.value.schema.open_facts
    assert {counts.column for counts in caught.value.schema.known_counts} >= {"sex", "age"}
    sound = lookalike.synthesize(
        frame[["sex", "age"]], epsilon=3.0, method="independent", discovery=strict, ledger=book, rows=10
    )
    assert book.runs()[1].epsilon_counted == 3.0
    assert book.runs()[1].delta_counted == pytest.approx(1e-5)
    assert sound.spent.delta == pytest.approx(0.75e-5)
