"""Every command line on the pages runs, in the order of its page, on a small table."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pytest

from lookalike.evaluate import compare
from lookalike.release import FittedModel

from .conftest import Call

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if "laboratory" not in page.parts)]
BLOCK = re.compile(r"^[ ]*```(?:\w*)\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The arguments of every line of a code block that calls the command line."""
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines()]
    called = [line.strip().removeprefix("$ ") for line in lines]
    # Pages name servers that are not there; test_databases.py here and tests/contract run such commands on real ones.
    absent = ("postgresql://db.example", "spark://node", "local[*]")
    called = [line for line in called if not any(server in line for server in absent)]
    return [shlex.split(line, comments=True)[1:] for line in called if line.startswith("lookalike ")]


SHORTER = {"audit": ("--runs", 6), "compare": ("--repeats", 1)}
"""What makes slow commands fast: a later option takes the place of an earlier one."""
SCHEMA = """
fields:
- {name: name, type: string, dp: {pattern: 'N##@@'}}
- {name: age, type: integer, constraints: {required: true, minimum: 0, maximum: 120}}
- {name: sex, type: string, constraints: {required: true, enum: [F, M]}}
- {name: income, type: string, constraints: {required: true, enum: ['<=50K', '>50K']}}
- {name: price, type: number, constraints: {required: true, minimum: 0, maximum: 200}, dp: {decimals: 2}}
- {name: visit, type: date, constraints: {required: true, minimum: 2023-01-01, maximum: 2023-12-31}}
- {name: hours, type: integer, constraints: {required: true, minimum: 0, maximum: 99}}
"""


def write_people(path: Path) -> None:
    rng = np.random.default_rng(4)
    lines = ["name,age,sex,income,price,visit,hours"]
    for i in range(400):
        age, sex = int(rng.integers(18, 90)), rng.choice(["F", "M"])
        income = ">50K" if rng.random() < age / 120 else "<=50K"
        day = np.datetime64("2023-01-01") + int(rng.integers(0, 300))
        lines.append(f"N{i % 90},{age},{sex},{income},{rng.gamma(2, 20):.2f},{day},{rng.integers(10, 60)}")
    path.write_text("\n".join(lines) + "\n")


def write_databases(place: Path) -> None:
    """The table as `admissions` in a file of SQLite and one of DuckDB."""
    header, *rows = [line.split(",") for line in (place / "people.csv").read_text().splitlines()]
    typed = "name TEXT, age INTEGER, sex TEXT, income TEXT, price DOUBLE PRECISION, visit DATE, hours INTEGER"
    for database in (sqlite3.connect(place / "clinic.db"), duckdb.connect(place / "clinic.duckdb")):
        database.execute(f"CREATE TABLE admissions ({typed})")
        database.executemany(f"INSERT INTO admissions VALUES ({', '.join('?' * len(header))})", rows)
        database.commit()
        database.close()


@pytest.fixture
def folder(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages take for granted: a table, a schema, a stored model, the examples."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(place)
    monkeypatch.setattr(compare, "_isolated", compare._measured)  # no process for each run
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)  # the page ends at once
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    (place / "FOLDER").mkdir()
    write_people(place / "people.csv")
    header, *rows = (place / "people.csv").read_text().splitlines(keepends=True)
    (place / "used.csv").write_text("".join([header, *rows[:300]]))
    (place / "rest.csv").write_text("".join([header, *rows[300:]]))
    (place / "people.yaml").write_text(SCHEMA)
    write_databases(place)
    run = ("synth", "people.csv", "--schema", "people.yaml", "-m", "mst", "-o", "synthetic.csv")
    made = call(*run, "--model", "model.lookalike", "--statement", "statement.json", "--ledger", "LEDGER")
    assert made.code == 0, made.err
    with monkeypatch.context() as patched:  # a run that can be resumed
        patched.setattr(FittedModel, "save", interrupted)
        assert call(*run, "--model", "again.lookalike").code == 130
    return place


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name == "audits.md" else [])
        for page in PAGES
        if commands(page)
    ],
)
def test_every_command_line_of_a_page_runs(page: Path, folder: Path, call: Call) -> None:
    for arguments in commands(page):
        outcome = call(*arguments, *SHORTER.get(arguments[0], ()))
        assert outcome.code == 0, f"lookalike {shlex.join(arguments)}\n{outcome.err}"


def test_command_lines_are_found() -> None:
    found = {arguments[0] for arguments in commands(ROOT / "README.md")}
    assert {"synth", "plan", "schema", "ledger", "sample", "query", "methods", "audit", "evaluate", "compare"} <= found
