"""Hints instead of a schema file, formats by suffix, standard input and output, the five lines at the end."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from lookalike.forecast import LONG_RUN, Forecast, Resources
from lookalike.privacy.ledger import Ledger
from lookalike.release import load
from lookalike.schema.schema import Schema

from .conftest import Call


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    lines = ["person,age,sex,town,notes"]
    for i in range(800):
        lines.append(f"P{i},{rng.integers(18, 90)},{'FM'[i % 2]},{['Rye', 'Ox', 'Ely'][i % 3]},text {i * 7919 % 800}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


HINTS = ("--range", "age=0:120", "--values", "sex=F,M", "--type", "town=category", "--id", "person", "--drop", "notes")


def test_hints_reach_run_plan_and_draft(call: Call, people: Path, tmp_path: Path) -> None:
    out, found = tmp_path / "o.csv", tmp_path / "found.yaml"
    outcome = call("synth", people, "-o", out, "-e", 3, "-m", "mst", *HINTS, "--write-schema", found)
    assert outcome.code == 0, outcome.err
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["person", "age", "sex", "town"]
    assert all(row[0].startswith("id-") for row in rows[1:])
    schema = Schema.load(found)
    assert schema["sex"].fact("values") == "public"
    assert schema["town"].fact("values") == "measured"
    assert set(schema["town"].values) == {"Rye", "Ox", "Ely"}
    assert "# town - values, missing: found by a run inside its budget" in found.read_text()
    again = call("synth", people, "-o", out, "--drop", "notes", "--schema", found, "-m", "independent")
    assert again.code == 0, again.err
    planned = json.loads(call("plan", people, *HINTS, "--json").out)
    assert {column["attrs"][0] for column in planned["forecast"]["columns"]} >= {"age", "sex", "town"}
    assert "every type is open" in call("schema", people).err
    assert "every type is open" not in call("schema", people, *HINTS).err
    drafted = call("schema", people, *HINTS).out
    assert "maximum: 120" in drafted
    assert "notes" not in drafted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--drop", "nothing"), "no column 'nothing' to drop"),
        (("--type", "age=float"), "must be one of integer"),
        (("--range", "nothing=0:1"), "names column 'nothing'"),
        (("--encoding", "klingon"), "no encoding 'klingon'"),
        (("--delimiter", "ab"), "one ASCII character"),
    ],
)
@pytest.mark.parametrize("command", ["synth", "plan", "schema"])
def test_wrong_hints_cost_nothing(
    call: Call, people: Path, tmp_path: Path, command: str, options: tuple[str, str], message: str
) -> None:
    out = ("-o", tmp_path / "o.csv") if command == "synth" else ()
    outcome = call(command, people, *out, *options)
    assert outcome.code == 2
    assert message in outcome.err
    assert json.loads(call("ledger", people, "--json").out)["runs"] == []


def test_a_file_in_another_encoding_with_another_delimiter(call: Call, tmp_path: Path) -> None:
    path, out = tmp_path / "t.txt", tmp_path / "o.jsonl.gz"
    rows = "".join(f"{'für' if i % 2 else 'nein'}^{i % 40}\n" for i in range(900))
    path.write_bytes(f"größe^n\n{rows}".encode("latin-1"))
    # In one of a hundred runs noise shows decimals or a missing marker, which is not what is tested here.
    how = ("--encoding", "latin-1", "--delimiter", "^", "--type", "n=integer")
    outcome = call("synth", path, "-o", out, "-e", 4, "-m", "independent", *how)
    assert outcome.code == 0, outcome.err
    made = [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]
    assert {"für", "nein"} <= {row["größe"] for row in made} <= {"für", "nein", "other"}
    assert {type(row["n"]) for row in made} <= {int, type(None)}


def test_semicolons_are_kept_and_results_are_utf_8(call: Call, tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "o.csv"
    rows = "".join(f"{'für' if i % 2 else 'nein'};{i % 40}\n" for i in range(900))
    path.write_bytes(f"größe;n\n{rows}".encode("latin-1"))
    how = ("--encoding", "latin-1", "--delimiter", ";")
    outcome = call("synth", path, "-o", out, "-e", 4, "-m", "independent", *how)
    assert outcome.code == 0, outcome.err
    made = out.read_text(encoding="utf-8").splitlines()
    assert made[0] == "größe;n"
    assert all(line.split(";")[0] in ("für", "nein", "other") for line in made[1:])
    assert "--encoding" in call("evaluate", path, out).err
    judged = call("evaluate", path, out, "--holdout", path, "--json", *how)
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["rows"]["real"] == 900
    results = tmp_path / "c.NOT-PRIVATE.jsonl"
    runs = ("--methods", "independent", "--epsilons", 1, "--repeats", 1, "--results", results)
    assert call("compare", path, *runs, *how).code == 0
    assert "error" not in json.loads(results.read_text())


def test_standard_input_and_output(call: Call, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def given() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(people.read_bytes())))

    given()
    refused = call("synth", "-", "-o", tmp_path / "o.csv")
    assert refused.code == 2
    assert "Give --ledger" in refused.err
    given()
    ledger = tmp_path / "l.jsonl"
    outcome = call("synth", "-", "-o", tmp_path / "o.csv", "--ledger", ledger, "-m", "independent", *HINTS)
    assert outcome.code == 0, outcome.err
    assert len((tmp_path / "o.csv").read_text().splitlines()) > 500
    assert len(Ledger(ledger, f"ledger:{ledger.resolve()}").runs()) == 1


def test_rows_alone_go_to_standard_output(people: Path, tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "lookalike", "synth", str(people), "-o", "-", "-m", "independent", *HINTS]
    done = subprocess.run([*command, "--ledger", str(tmp_path / "l.jsonl")], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "person,age,sex,town"
    assert all(len(line.split(",")) == 4 for line in lines)
    assert "Method: independent." in done.stderr


def test_five_lines_at_the_end(call: Call, people: Path, tmp_path: Path) -> None:
    assert call("ledger", people, "--cap", 5).code == 0
    out, model = tmp_path / "o.csv", tmp_path / "m.lookalike"
    outcome = call("synth", people, "-o", out, "-e", 2, "--model", model, *HINTS[:-2])
    lines = outcome.out.replace("\n  ", "; ").splitlines()
    assert [line.split(":")[0] for line in lines] == ["Rows", "Method", "Spent", "Not seen", "Files"]
    assert re.match(r"Rows: \d+ of 5 columns", lines[0])
    assert lines[1] == "Method: mosaic, chosen by auto."
    assert "Left: epsilon 3 of the cap of 5" in lines[2]
    assert "identifiers, by name or declaration (made up): person" in lines[3]
    assert "too few of them are frequent): notes" in lines[3]
    assert str(out) in lines[4]
    assert f"model {model}" in lines[4]
    assert load(model).spent.chosen == "mosaic"
    facts = json.loads(call("synth", people, "-o", out, "-e", 1, "--json", *HINTS).out)
    assert (facts["method"], facts["chosen"]) == ("auto", "mosaic")
    assert facts["cap"] == 5
    assert facts["not_seen"]["the values of identifiers, by name or declaration (made up)"] == ["person"]


def test_a_long_run_says_so_before_it_spends(
    call: Call, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Forecast("mosaic", Resources(50_000, 1800.0, 2.0, 100.0, 2.0), [], [], 0, [])
    monkeypatch.setattr("lookalike.forecast.forecast", lambda *_, **__: long)
    run = ("synth", people, "-m", "independent", *HINTS)
    for how in ((), ("--json",)):
        outcome = call(*run, "-o", tmp_path / "o.csv", *how)
        assert "about 30 minutes for 50,000 rows. Faster: --method mst" in outcome.err
    assert json.loads(outcome.out)["rows"] > 0
    alone = call(*run, "-o", "-", "--json")
    assert json.loads(alone.err)["out"] == "-"  # nothing but JSON, since rows go to standard output
    assert LONG_RUN == 600


def test_resume_finishes_what_an_interrupt_left(
    call: Call, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, model = tmp_path / "o.csv", tmp_path / "m.lookalike"
    run = ("synth", people, "-o", out, "--model", model, "-m", "mst", "--rows", 50, *HINTS)
    with monkeypatch.context() as patched:
        patched.setattr("lookalike.release.FittedModel.save", interrupted)
        stopped = call(*run)
        assert stopped.code == 130
        assert "'lookalike resume TABLE' finishes it" in " ".join(stopped.err.split())
    assert not model.exists()
    assert "which 'lookalike resume' finishes at no further cost: 1" in call("ledger", people).out
    (charged,) = json.loads(call("ledger", people, "--json").out)["runs"]
    outcome = call("resume", people)
    assert outcome.code == 0, outcome.err
    assert "Rows: 50 of 4 columns" in outcome.out
    assert load(model).schema.names == ("person", "age", "sex", "town")
    assert json.loads(call("ledger", people, "--json").out)["runs"] == [charged]
    nothing = call("resume", people)
    assert nothing.code == 2
    assert "no run of this table was interrupted" in nothing.err


def test_a_run_on_standard_input_is_resumed_with_the_same_input(
    call: Call, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = people.read_text().replace(",", "^").encode("latin-1")
    ledger, out = tmp_path / "l.jsonl", tmp_path / "o.csv"
    run = ("synth", "-", "-o", out, "--ledger", ledger, "-m", "mst", "--delimiter", "^", *HINTS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with monkeypatch.context() as patched:
        patched.setattr("lookalike.release.Release.write", interrupted)
        assert call(*run).code == 130
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    outcome = call("resume", "-", "--ledger", ledger)
    assert outcome.code == 0, outcome.err
    assert out.read_text().startswith("person^age^sex^town\n")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_numbers_of_rows_are_those_after_bounding(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("who,ward\n" + "".join(f"p{i % 100},{'AB'[i % 2]}\n" for i in range(1000)))
    options = ("--person", "who", "--max-rows-per-person", 3, "-e", 8, "--values", "ward=A,B")
    said = "At most 3 rows of each person (who) are used"
    assert said in call("plan", path, *options).out
    outcome = call("synth", path, "-o", tmp_path / "o.csv", "-m", "independent", *options)
    assert outcome.code == 0, outcome.err
    rows = int(re.match(r"Rows: (\d+) of", outcome.out)[1])
    assert 250 < rows < 350
    assert said in outcome.out


def test_several_tables_are_written_beside_the_first(call: Call, people: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "o.csv", tmp_path / "m.lookalike"
    outcome = call("synth", people, "-o", out, "-m", "mst", *HINTS, "--tables", 3, "--model", model, "--json")
    assert outcome.code == 0, outcome.err
    drawn = [tmp_path / f"o-{i}.csv" for i in (1, 2, 3)]
    assert json.loads(outcome.out)["tables"] == [str(path) for path in drawn]
    heads = {path.read_text().splitlines()[0] for path in (out, *drawn)}
    assert heads == {"person,age,sex,town"}
    assert len({path.read_text() for path in (out, *drawn)}) == 4
    more = call("sample", model, "-o", tmp_path / "n.csv", "--tables", 2, "--seed", 3)
    assert more.code == 0, more.err
    assert (tmp_path / "n-1.csv").is_file()
    assert (tmp_path / "n-2.csv").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tables", 1), "at least 2 tables"),
        (("--tables", 3, "-m", "privbayes"), "Choose one of auto, mosaic"),
        (("--tables", 3, "-m", "mst", "--generator", "gum"), "generator model"),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused_before_anything_is_spent(
    call: Call, people: Path, tmp_path: Path, options, message
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    outcome = call("synth", people, "-o", tmp_path / "o.csv", *HINTS, "--ledger", ledger, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("o.sas7bdat", "can only be read. Write an .xpt file"),
        ("o.dta", "'home town' contains a space"),
        ("o.sav", "'home town' contains a space"),
    ],
)
def test_a_format_that_cannot_hold_the_table_is_refused_before_anything_is_spent(
    call: Call, tmp_path: Path, name: str, message: str
) -> None:
    pytest.importorskip("pyreadstat")
    path = tmp_path / "t.csv"
    path.write_text("home town,b\n" + "Ox,1\nEly,2\n" * 50)
    outcome = call("synth", path, "-o", tmp_path / name, "-m", "independent")
    assert outcome.code == 2
    assert message in outcome.err
    assert json.loads(call("ledger", path, "--json").out)["runs"] == []


def test_a_run_with_persons_is_resumed(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The continuation keeps the column and the maximum of the persons, which the resuming command does not name."""
    path, out, page = tmp_path / "visits.csv", tmp_path / "o.csv", tmp_path / "o.html"
    path.write_text("who,ward\n" + "".join(f"p{i % 100},{'AB'[i % 2]}\n" for i in range(1000)))
    options = ("--person", "who", "--max-rows-per-person", 3, "-e", 8, "-m", "mst", "--report", page)
    with monkeypatch.context() as patched:
        patched.setattr("lookalike.synthesizers.mst.MST.fit", interrupted)  # after discovery, before anything else
        assert call("synth", path, "-o", out, *options).code == 130
    (charged,) = json.loads(call("ledger", path, "--json").out)["runs"]
    outcome = call("resume", path)
    assert outcome.code == 0, outcome.err
    assert "At most 3 rows of each person (who) are used" in outcome.out
    assert 250 < len(out.read_text().splitlines()) < 350
    assert "At most 3 rows of each person were used" in page.read_text()
    (finished,) = json.loads(call("ledger", path, "--json").out)["runs"]
    assert finished["charges"][: len(charged["charges"])] == charged["charges"]
    assert finished["epsilon_counted"] == charged["epsilon_counted"] == 8
