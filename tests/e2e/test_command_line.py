"""The command line as a person uses it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lookalike.privacy.kernel import door
from lookalike.synthesizers import METHODS

from .conftest import Call


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def shape(text: str) -> str:
    """Digits and letters as classes, the rest as it is: the format of a value."""
    return "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text)


def test_synth_writes_a_table_like_the_input(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    outcome = call("synth", table, "--domain", domain, "--epsilon", 5, "--method", "mst", "-o", out)
    assert outcome.code == 0, outcome.err
    assert "Spent: epsilon 5, delta 1e-05" in outcome.out
    assert "Plan: mst" in outcome.err
    made = rows_of(out)
    assert list(made[0]) == ["a", "b", "c", "d"]
    assert 500 < len(made) < 700
    assert {row["c"] for row in made} <= set("01234")
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_rows_seed_model_and_sample(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.lookalike"
    common = ("--domain", domain, "--method", "mst", "--rows", 77, "--seed", 5)
    assert call("synth", table, *common, "-o", tmp_path / "out.csv", "--model", model).code == 0
    assert len(rows_of(tmp_path / "out.csv")) == 77
    for name in ("one.csv", "two.csv"):
        outcome = call("sample", model, "-o", tmp_path / name, "--rows", 50, "--seed", 1)
        assert outcome.code == 0
        assert "no budget was spent" in outcome.out
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    assert len(json.loads(call("ledger", table, "--json").out)["runs"]) == 1


@pytest.mark.parametrize("method", ["mst", "mosaic"])
def test_sample_under_a_condition(call: Call, table: Path, domain: Path, tmp_path: Path, method: str) -> None:
    model, out = tmp_path / "m.lookalike", tmp_path / "w.csv"
    run = ("synth", table, "--domain", domain, "-e", 10, "-m", method, "-o", tmp_path / "o.csv", "--model", model)
    assert call(*run).code == 0
    assert call("sample", model, "-o", out, "--rows", 90, "--where", "a = 1 and c >= 3").code == 0
    made = rows_of(out)
    assert len(made) == 90
    assert all(row["a"] == "1" and row["c"] in "34" for row in made)
    assert call("sample", model, "-o", out, "--where", "d = 0").code == 0
    assert 200 < len(rows_of(out)) < 400  # about half of 600
    refused = call("sample", model, "-o", out, "--where", "a = 7")
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_json_output_is_all_that_goes_to_standard_output(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    outcome = call("synth", table, "--domain", domain, "-m", "mst", "-o", tmp_path / "o.csv", "--json")
    bill = json.loads(outcome.out)
    assert bill["epsilon_spent"] == pytest.approx(1.0, rel=1e-9)
    assert bill["epsilon_spent"] <= 1.0
    assert bill["private"] is True
    assert outcome.err == ""


def test_plan_and_ledger_agree(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    planned = json.loads(call("plan", table, "--domain", domain, "--method", "mst", "--json").out)
    assert call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "o.csv").code == 0
    (run,) = json.loads(call("ledger", table, "--json").out)["runs"]
    charged: dict[str, float] = {}
    for charge in run["charges"]:
        charged[charge["step"]] = charged.get(charge["step"], 0.0) + charge["rho"]
    assert charged == pytest.approx({step["step"]: step["rho"] for step in planned["steps"]}, rel=1e-9)


def test_cap_lets_two_runs_pass_and_refuses_the_third_unread(
    call: Call, table: Path, domain: Path, tmp_path: Path
) -> None:
    assert call("ledger", table, "--cap", 2).code == 0
    run = ("synth", table, "--domain", domain, "--method", "mst", "--epsilon", 0.9)
    assert call(*run, "-o", tmp_path / "1.csv").code == 0
    assert call(*run, "-o", tmp_path / "2.csv").code == 0
    table.write_text("not a table any more")  # a refused run must not even notice
    third = call(*run, "-o", tmp_path / "3.csv")
    assert third.code == 2
    assert "0.2 is left" in third.err
    assert not (tmp_path / "3.csv").exists()
    shown = call("ledger", table)
    assert shown.out.count("done") == 2
    assert "left 0.2" in shown.out


def test_methods_lists_what_was_corrected(call: Call) -> None:
    listed = json.loads(call("methods", "--json").out)
    assert set(listed) == set(METHODS)
    assert all(entry["corrected"] and entry["paper"] for entry in listed.values())
    shown = call("methods").out
    assert "corrected" in shown
    ours, papers = shown.split("Variants that follow a paper")
    for name, entry in listed.items():
        assert entry["is_paper_variant"] == name.endswith("-paper")
        assert f"\n{name}  " in (papers if entry["is_paper_variant"] else ours)


def test_settings_reach_the_method(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    run = ("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "o.csv")
    outcome = call(*run, "--set", "oneway_share=0.5")
    assert outcome.code == 0
    assert re.search(r"one-way marginals .* 50\.0%", outcome.err)
    refused = call(*run, "--set", "nonsense=1")
    assert refused.code == 2
    assert "oneway_share" in refused.err


@pytest.mark.parametrize(("method", "generator"), [("mst", "gum"), ("aim", "gum"), ("mosaic", "gum"), ("mst", "mcf")])
def test_rows_of_any_method_by_row_updates(
    call: Call, table: Path, domain: Path, tmp_path: Path, method: str, generator: str
) -> None:
    run = ("synth", table, "--domain", domain, "-e", 10, "-m", method, "-o", tmp_path / "o.csv")
    assert call(*run, "--generator", generator, "--model", tmp_path / "m.lookalike").code == 0
    made = rows_of(tmp_path / "o.csv")
    alike = sum(row["a"] == row["b"] for row in made) / len(made)
    assert 0.6 < alike < 0.95  # the pair is in the method's marginals: 80 % of the real rows agree
    assert call("sample", tmp_path / "m.lookalike", "-o", tmp_path / "s.csv", "--rows", 40).code == 0
    refused = call(*run, "--generator", "magic")
    assert refused.code == 2
    assert "gum" in refused.err


def test_parquet_in_and_out(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    given = arrow_csv.read_csv(table)
    parquet.write_table(given, tmp_path / "t.parquet")
    out = tmp_path / "o.parquet"
    assert call("synth", tmp_path / "t.parquet", "--domain", domain, "--method", "mst", "-o", out).code == 0
    assert parquet.read_table(out).schema.equals(given.schema)


def test_the_example_keeps_types_formats_and_missing_markers(call: Call, tmp_path: Path) -> None:
    examples = Path(__file__).parents[2] / "examples"
    out = tmp_path / "o.csv"
    schema = examples / "admissions.yaml"
    assert call("synth", examples / "admissions.csv", "--schema", schema, "-m", "mst", "-o", out).code == 0
    real, made = rows_of(examples / "admissions.csv"), rows_of(out)
    assert list(made[0]) == list(real[0])
    assert abs(len(made) - len(real)) < 0.05 * len(real)
    for name in ("admitted", "discharged", "clinic", "temperature"):
        assert {shape(row[name]) for row in made} <= {shape(row[name]) for row in real}, name


def test_a_fresh_process_prints_no_progress_when_piped(table: Path, domain: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "LOOKALIKE_LEDGERS": str(tmp_path)}
    command = [sys.executable, "-m", "lookalike", "synth", table, "--domain", domain, "-m", "independent", "-o"]
    done = subprocess.run([*command, tmp_path / "o.csv"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "reading" not in done.stderr


def test_version_and_help(call: Call) -> None:
    assert call("--version").out.startswith("lookalike ")
    for command in ("synth", "sample", "plan", "methods", "ledger"):
        assert call(command, "--help").code == 0


def test_help_loads_no_numeric_libraries() -> None:
    program = "import sys, lookalike.cli.main; print({'numpy', 'scipy', 'pyarrow', 'numba', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_audit_passes_and_says_what_it_could_have_shown(call: Call) -> None:
    outcome = call("audit", "independent", "--runs", 9, "--case", "declared columns")
    assert outcome.code == 0, outcome.err
    assert "Nothing contradicts epsilon 1" in outcome.out
    assert "raise --runs" in outcome.out
    found = json.loads(call("audit", "mst", "--runs", 6, "--case", "the first row", "--json").out)
    assert not found["broken"]
    assert found["cases"]["the first row"]["runs"] == 4


def test_audit_of_a_broken_guarantee_ends_with_1(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "rounded_gaussian", lambda stddev, shape, **_: np.zeros(shape, dtype=np.int64))
    options = ("--runs", 45, "--case", "declared columns", "--epsilon", 0.2)
    outcome = call("audit", "independent", *options)
    assert outcome.code == 1
    assert "BROKEN" in outcome.out


def test_audit_of_what_is_not_there(call: Call) -> None:
    assert "at least 6" in call("audit", "mst", "--runs", 2).err
    assert "the cases are" in call("audit", "mst", "--case", "nobody").err


def test_plan_says_what_to_expect(call: Call, table: Path, domain: Path) -> None:
    outcome = call("plan", "--domain", domain, "--method", "mst", "--rows", 600, "--pair", "a,b")
    assert outcome.code == 0
    assert "rows misplaced" in outcome.out
    assert "a, b" in outcome.out
    assert "%" in outcome.out
    planned = json.loads(call("plan", table, "--person", "a", "--max-rows-per-person", 3, "--json").out)
    assert "discover: rows per person" in {step["step"] for step in planned["steps"]}
    assert planned["forecast"]["columns"][0]["distance"] is None
    assert "up to 3 rows" in call("plan", table, "--person", "a", "--max-rows-per-person", 3).out


def test_plan_fits_a_narrow_terminal(domain: Path) -> None:
    """Tables keep to the width that is asked for; texts are left to the terminal."""
    command = [sys.executable, "-m", "lookalike", "plan", "--domain", str(domain), "--rows", "600"]
    width: dict[str, int] = {}
    for columns in ("70", "100"):
        environment = {**os.environ, "COLUMNS": columns, "FORCE_COLOR": "1"}  # as on a terminal
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
        width[columns] = max(len(line) for line in lines if line.startswith(("┏", "┃", "│")))
    assert width["70"] <= 70 < width["100"] <= 100
