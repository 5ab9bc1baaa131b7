"""The commands that judge or query a release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Call


def test_report_query_and_evaluate(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    out, model, page = tmp_path / "out.csv", tmp_path / "m.lookalike", tmp_path / "out.html"
    made = call("synth", table, "--domain", domain, "-e", 5, "-m", "mst", "-o", out, "--model", model, "--report", page)
    assert made.code == 0, made.err
    text = page.read_text(encoding="utf-8")
    assert "What is guaranteed" in text
    assert 'class="whisker"' in text
    assert len(text) < 1_000_000

    asked = call("query", model, "count by d where a = 1", "--json")
    answers = json.loads(asked.out)
    real = np.loadtxt(table, delimiter=",", skiprows=1)
    for row in answers["rows"]:
        true = np.sum((real[:, 0] == 1) & (real[:, 3] == int(row["values"]["d"])))
        assert row["low"] <= row["value"] <= row["high"]
        assert row["low"] - 30 < true < row["high"] + 30
    means = call("query", model, "mean of a by d", "-o", tmp_path / "means.csv")
    assert means.code == 0
    header, *lines = (tmp_path / "means.csv").read_text().splitlines()
    assert header.startswith("d,mean of a,low,high,level,basis")
    assert lines
    assert call("query", model, "quantile 2 of a").code == 2
    printed = call("query", model, "count where a = 1")
    assert "90% interval" in printed.out
    assert len(json.loads(call("ledger", table, "--json").out)["runs"]) == 1

    judged = call("evaluate", table, out, "--domain", domain, "--group-by", "a", "--ask", "count where b = 2", "--json")
    numbers = json.loads(judged.out)
    assert numbers["private"] is False
    assert numbers["questions"][0]["real"] == np.sum(real[:, 1] == 2)
    assert numbers["marginals"]["2"]["mean"] < 0.2
    shown = call("evaluate", table, out, "--domain", domain, "--report", tmp_path / "inside.html")
    assert "NOT PRIVATE" in shown.out
    assert "NOT PRIVATE" in (tmp_path / "inside.NOT-PRIVATE.html").read_text(encoding="utf-8")


def test_a_release_is_judged_without_a_schema(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "out.csv", tmp_path / "m.lookalike"
    assert call("synth", table, "--domain", domain, "-e", 20, "-m", "mst", "-o", out, "--model", model).code == 0
    found = {}
    for name, given in (("drafted", ()), ("model", ("--model", model)), ("domain", ("--domain", domain))):
        judged = call("evaluate", table, out, *given, "--json")
        assert judged.code == 0, judged.err
        assert ("NOT PRIVATE" in judged.err) == (name == "drafted")
        found[name] = json.loads(judged.out)["marginals"]["2"]["mean"]
    assert found["model"] == found["domain"] == pytest.approx(found["drafted"], abs=1e-9)
    results = tmp_path / "r.jsonl"
    compared = call("compare", table, "--methods", "mst", "--epsilons", "9", "--repeats", 1, "--results", results)
    assert compared.code == 0, compared.err
    assert "error" not in json.loads(results.read_text())
    assert len(json.loads(call("ledger", table, "--json").out)["runs"]) == 1


def test_attacks_on_a_release(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    lines = table.read_text().splitlines(keepends=True)
    used, rest = tmp_path / "used.csv", tmp_path / "rest.csv"
    used.write_text("".join(lines[: len(lines) // 2]))
    rest.write_text("".join([lines[0], *lines[len(lines) // 2 :]]))
    out, model, page = tmp_path / "out.csv", tmp_path / "m.lookalike", tmp_path / "in.html"
    made = call("synth", used, "--domain", domain, "-e", 1, "-m", "mst", "-o", out, "--model", model)
    assert made.code == 0, made.err
    common = ("evaluate", used, out, "--attacks", "--holdout", rest)
    shown = call(*common, "--model", model, "--shadows", 1, "--report", page)
    assert shown.code == 0, shown.err
    assert "shadow models" in shown.out
    assert "Attacks" in (tmp_path / "in.NOT-PRIVATE.html").read_text(encoding="utf-8")
    numbers = json.loads(call(*common, "--domain", domain, "--epsilon", 1, "--json").out)
    assert numbers["private"] is False
    # Gaussian DP is known of a model alone; epsilon and delta allow more.
    assert numbers["attacks"]["guarantee"] == {"epsilon": 1.0, "delta": 1e-5, "mu": None}
    copied = json.loads(call("evaluate", used, used, "--attacks", "--control", rest, "--json").out)["attacks"]
    assert copied["closest"]["to_members"] == 0
    refused = call("evaluate", used, out, "--attacks")
    assert (refused.code, "--holdout" in refused.err) == (2, True)
    assert len(json.loads(call("ledger", used, "--json").out)["runs"]) == 1, "shadow models spend nothing"


def test_only_columns_of_both_tables_are_compared(call: Call, table: Path, tmp_path: Path) -> None:
    less = tmp_path / "less.csv"
    np.savetxt(
        less, np.loadtxt(table, delimiter=",", skiprows=1)[:, :2], fmt="%d", delimiter=",", header="a,b", comments=""
    )
    numbers = json.loads(call("evaluate", table, less, "--json").out)
    assert numbers["marginals"]["2"]["mean"] == 0
    assert set(numbers["left_out"]) == set(table.read_text().split()[0].split(",")) - {"a", "b"}
    less.write_text("q\n1\n")
    assert "no column in common" in call("evaluate", table, less).err


def test_compare_resumes_and_spends_nothing(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    common = ("compare", table, "--domain", domain, "--methods", "independent", "--results", results)
    first = call(*common, "--epsilons", "1", "--repeats", 1)
    assert first.code == 0, first.err
    assert "NOT PRIVATE" in first.out
    again = call(*common, "--epsilons", "1,9", "--repeats", 1, "--json", "--report", tmp_path / "page.html")
    lines = json.loads(again.out)
    assert [line["epsilon"] for line in lines] == [1.0, 9.0]
    assert len(results.read_text().splitlines()) == 2
    assert all(line["private"] is False and "error" not in line for line in lines)
    assert "polyline" in (tmp_path / "page.NOT-PRIVATE.html").read_text(encoding="utf-8")
    assert json.loads(call("ledger", table, "--json").out)["runs"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("query", "nowhere.lookalike", "count"), "no model file"),
        (("evaluate", "{table}", "{domain}"), "no known suffix"),
        (("evaluate", "{table}", "{table}", "--domain", "{domain}", "--model", "m.lookalike"), "one of them"),
        (("evaluate", "{table}", "{table}", "--domain", "{domain}", "--group-by", "x"), "No column 'x'"),
        (
            ("evaluate", "{table}", "{table}", "--domain", "{domain}", "--ask", "count where a > z"),
            "'z' is not a value of column 'a'",
        ),
        (("compare", "{table}", "--domain", "{domain}", "--methods", "mst", "--epsilons", "one"), "0.1,1,3"),
        (("compare", "{table}", "--domain", "{domain}", "--methods", "mst,magic"), "There is no method 'magic'"),
    ],
)
def test_mistakes_end_in_one_paragraph(call: Call, table: Path, domain: Path, arguments, message: str) -> None:
    outcome = call(*(str(a).format(table=table, domain=domain) for a in arguments))
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err
