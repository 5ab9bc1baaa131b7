"""The privacy statement: follows its JSON Schema, says what the ledger says, and every change of it is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lookalike
from lookalike.cli.main import app
from lookalike.errors import InputError, LedgerError
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.statement import (
    differences,
    neighbours_of,
    open_ledger,
    read_statement,
    schema_faults,
    statement_of,
    statement_schema,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release with discovered facts, its ledger after two more runs, its statement and its stored model."""
    folder = tmp_path_factory.mktemp("statement")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 90, 800), "sex": rng.choice(["F", "M"], 800)})
    frame.to_csv(folder / "t.csv", index=False)
    book = Ledger(folder / "l.jsonl", str(folder / "t.csv"))
    lookalike.synthesize(folder / "t.csv", method="independent", epsilon=0.5, ledger=book)
    release = lookalike.synthesize(folder / "t.csv", epsilon=1.0, method="mst", ledger=book)
    lookalike.synthesize(folder / "t.csv", method="independent", epsilon=0.5, ledger=book)
    statement = statement_of(release.fitted, book, title="T", issuer="I", contact="C")
    release.fitted.save(folder / "m.lookalike")
    return folder, statement


def test_statement_follows_its_schema(made):
    _, statement = made
    text = json.dumps(statement, allow_nan=False)
    assert list(schema_faults(json.loads(text), statement_schema(), "it")) == []
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(statement_schema())
    jsonschema.validate(json.loads(text), statement_schema())


def test_the_schema_on_the_pages_is_the_one_in_the_package():
    shipped = (ROOT / "src/lookalike/statement_schema.json").read_text()
    assert (ROOT / "docs/statement_schema.json").read_text() == shipped


def test_statement_says_what_was_done(made):
    _, statement = made
    assert statement["ledger"]["run"] == 2
    assert statement["guarantee"]["holds"]
    assert statement["guarantee"]["mu_allowed"] ** 2 / 2 == pytest.approx(statement["guarantee"]["rho_allowed"])
    assert statement["noise"]["source"] == "system entropy"
    assert {"column": "sex", "fact": "values", "provenance": "measured"} in statement["public"]["facts"]
    for one in statement["mechanisms"]:
        assert one["sensitivity"]["value"] in (None, pytest.approx(1.0, rel=1e-4))
    assert statement["schema"]["declared"] != statement["schema"]["released"]


def test_statement_ledger_and_model_agree(made):
    folder, statement = made
    assert differences(statement, folder / "l.jsonl", lookalike.load(folder / "m.lookalike")) == []


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("guarantee", "epsilon"), 0.7, "epsilon: the statement says 0.7, the ledger 1.0"),
        (("guarantee", "delta"), 1e-7, "delta"),
        (("guarantee", "holds"), False, "whether the guarantee holds"),
        (("guarantee", "rho_charged"), "1/1000", "sum of rho"),
        (("unit", "neighbours"), "replacing one row", "neighbours"),
        (("noise", "source"), "reproducible", "source of noise"),
        (("mechanisms", 0, "rho"), "1/100000", "rho of charge 1"),
        (("mechanisms", 1, "detail"), "stddev 99", "detail of charge 2"),
        (("schema", "declared"), "0" * 64, "declared schema"),
        (("schema", "released"), "0" * 64, "released schema"),
        (("ledger", "run"), 1, "method: the statement says 'mst', the ledger 'independent'"),
        (("ledger", "run"), 9, "no run 9"),
        (("method", "asked"), "aim", "method"),
    ],
)
def test_every_change_is_found(made, place, value, message):
    folder, statement = made
    changed = copy.deepcopy(statement)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    found = differences(changed, folder / "l.jsonl", lookalike.load(folder / "m.lookalike"))
    assert any(message in text for text in found), found


def test_a_dropped_charge_and_another_model_are_found(made, tmp_path):
    folder, statement = made
    changed = copy.deepcopy(statement)
    changed["mechanisms"].pop()
    assert any("number of charges" in text for text in differences(changed, folder / "l.jsonl"))
    other = lookalike.synthesize(folder / "t.csv", epsilon=2.0, method="mst", ledger=tmp_path / "other.jsonl")
    found = differences(statement, folder / "l.jsonl", other.fitted)
    assert any("the model 2.0" in text for text in found)
    with pytest.raises(InputError, match="no run with the charges"):
        statement_of(other.fitted, open_ledger(folder / "l.jsonl"))


def test_what_is_no_statement_or_ledger_is_refused(made, tmp_path):
    folder, statement = made
    (tmp_path / "a.json").write_text("no json")
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "c.json").write_text(json.dumps({**statement, "unit": 3}))
    for name, message in (("a", "not a JSON"), ("b", "has no 'format'"), ("c", "unit is a int"), ("d", "Cannot read")):
        with pytest.raises(InputError, match=message):
            read_statement(tmp_path / f"{name}.json")
    with pytest.raises(LedgerError, match="not a ledger"):
        open_ledger(tmp_path / "a.json")
    lines = (folder / "l.jsonl").read_text()
    (tmp_path / "l.jsonl").write_text(lines.replace('"epsilon":1.0', '"epsilon":0.9'))
    (tmp_path / "l.jsonl.head").write_text((folder / "l.jsonl.head").read_text())
    with pytest.raises(LedgerError):
        differences(statement, tmp_path / "l.jsonl")


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2, 17])
def test_neighbours_are_read_back(relation, rows):
    one = Neighbours(relation, rows)
    assert neighbours_of(one.describe()) == one


def test_command_line(made, tmp_path):
    folder, _ = made
    run = CliRunner()
    files = ["-o", str(tmp_path / "o.csv"), "--model", str(tmp_path / "m.lookalike"), "--ledger", str(tmp_path / "l")]
    named = ["--report", str(tmp_path / "r.html"), "--statement", str(tmp_path / "s.json"), "--title", "My table"]
    named += ["--issuer", "The Office", "--contact", "ask@office.example"]
    made_now = run.invoke(app, ["synth", str(folder / "t.csv"), "--method", "independent", *files, *named])
    assert made_now.exit_code == 0, made_now.output
    page = (tmp_path / "r.html").read_text()
    assert all(text in page for text in ("My table", "The Office", "ask@office.example"))
    checked = [
        "verify",
        str(tmp_path / "s.json"),
        "--ledger",
        str(tmp_path / "l"),
        "--model",
        str(tmp_path / "m.lookalike"),
    ]
    agreed = run.invoke(app, checked)
    assert agreed.exit_code == 0
    assert "agree" in agreed.output
    text = (tmp_path / "s.json").read_text()
    (tmp_path / "s.json").write_text(text.replace('"epsilon": 1.0', '"epsilon": 0.1'))
    differing = run.invoke(app, [*checked, "--json"])
    assert differing.exit_code == 1
    assert json.loads(differing.stdout)["agree"] is False
