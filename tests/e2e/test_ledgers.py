"""Ledgers by the command line and the library: to which table they belong, and what counts as infinite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.errors import BudgetExceededError
from lookalike.privacy.ledger import Ledger
from tests.e2e.conftest import Call

SEEDED = ("--method", "bsg", "--set", "omega=2", "--set", "seeded_rows=20", "--set", "test=deterministic")


def strict(text: str) -> Any:
    """Parse standard JSON, without Infinity and NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_two_ledgers_whose_names_share_a_stem(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    run = ("synth", table, "--domain", domain, "--method", "mst", "--epsilon", 3.2, "--json")
    for number in range(2):
        for name in ("runs-3.2-a", "runs-3.2-b"):
            outcome = call(*run, "-o", tmp_path / f"{name}-{number}.csv", "--ledger", tmp_path / name)
            assert (outcome.code, outcome.err) == (0, "")
    for name in ("runs-3.2-a", "runs-3.2-b"):
        shown = strict(call("ledger", table, "--ledger", tmp_path / name, "--json").out)
        assert [run["status"] for run in shown["runs"]] == ["done", "done"]
        assert shown["epsilon"] == pytest.approx(6.4)
        assert (tmp_path / f"{name}.head").exists()
    assert not (tmp_path / "runs-3.head").exists()


def test_a_cut_ledger_is_refused(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    book = tmp_path / "runs-3.2-a"
    run = ("synth", table, "--domain", domain, "--method", "mst", "--ledger", book)
    assert call(*run, "-o", tmp_path / "1.csv").code == 0
    book.write_bytes(b"".join(book.read_bytes().splitlines(keepends=True)[:-2]))
    outcome = call(*run, "-o", tmp_path / "2.csv")
    assert outcome.code == 2
    assert "lines are missing" in outcome.err


def test_a_release_without_noise_is_infinite_on_the_screen_and_in_json(
    call: Call, table: Path, domain: Path, tmp_path: Path
) -> None:
    run = ("synth", table, "--domain", domain, *SEEDED)
    made = call(*run, "-o", tmp_path / "1.csv", "--json")
    assert made.code == 0
    assert strict(made.out)["epsilon_spent"] == "infinite"
    assert strict(made.out)["private"] is False
    assert "NOT PRIVATE" in call(*run, "-o", tmp_path / "2.csv").out
    shown = call("ledger", table)
    assert shown.code == 0
    assert "Total: epsilon infinite" in shown.out
    assert "none: NOT PRIVATE" in shown.out
    listed = strict(call("ledger", table, "--json").out)
    assert listed["epsilon"] == "infinite"
    assert [(run["epsilon_counted"], run["noise"], run["private"]) for run in listed["runs"]] == [
        ("infinite", "none", False)
    ] * 2
    assert "epsilon infinite" in call("plan", table, "--domain", domain).out


def test_a_cap_refuses_a_release_without_noise_before_anything_is_read(
    call: Call, table: Path, domain: Path, tmp_path: Path
) -> None:
    assert call("ledger", table, "--cap", 100).code == 0
    table.write_text("not a table any more")  # a refused run must not even notice
    refused = call("synth", table, "--domain", domain, *SEEDED, "-o", tmp_path / "1.csv")
    assert refused.code == 2
    assert "NOT PRIVATE (noise: none)" in refused.err
    assert "test='randomised'" in refused.err
    listed = strict(call("ledger", table, "--json").out)
    assert (listed["epsilon"], listed["runs"]) == (0.0, [])


def test_private_runs_say_where_their_noise_comes_from(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "1.csv")
    assert "Spent: epsilon 1, delta 1e-05, hiding adding or removing one row." in outcome.out
    (run,) = strict(call("ledger", table, "--json").out)["runs"]
    assert (run["noise"], run["private"], run["epsilon_counted"]) == ("system entropy", True, 1.0)
    assert "system entropy" in call("ledger", table).out


# The same through the library.

SIZES = {"a": 3, "b": 2}
TABLE = pa.table({"a": [0, 1, 2, 2] * 20, "b": [0, 1, 1, 0] * 20})


@pytest.mark.parametrize(
    ("noise", "options"),
    [
        ("reproducible", {"method": "mst", "insecure_rng": np.random.default_rng(0)}),
        ("none", {"method": "bsg", "omega": 1, "seeded_rows": 5, "k": 2, "test": "deterministic"}),
    ],
)
def test_runs_without_secret_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "book"
    release = la.synthesize(TABLE, schema=SIZES, ledger=Ledger(path, "t"), seed=0, **options)
    assert not release.spent.private
    (run,) = Ledger(path, "t").runs()
    assert (run.noise, run.private, run.epsilon_counted) == (noise, False, float("inf"))
    assert f'"noise":"{noise}"' in path.read_text()

    capped = Ledger(tmp_path / "capped", "t")
    capped.set_cap(50.0)
    opened: list[object] = []
    monkeypatch.setattr("lookalike.privacy.kernel.door.read", lambda *given, **_: opened.append(given))
    with pytest.raises(BudgetExceededError, match="infinite epsilon"):
        la.synthesize(TABLE, schema=SIZES, ledger=capped, seed=0, **options)
    assert opened == []
    assert capped.runs() == []


def test_a_total_of_runs_that_hide_different_things_says_so(
    call: Call, table: Path, domain: Path, tmp_path: Path
) -> None:
    run = ("synth", table, "--domain", domain, "--method", "independent", "--ledger", tmp_path / "l", "--json")
    for number in range(2):
        assert call(*run, "-o", tmp_path / f"{number}.csv").code == 0
    assert "different things" not in call("ledger", table, "--ledger", tmp_path / "l").out
    assert call(*run, "--max-rows-per-person", 3, "-o", tmp_path / "3.csv").code == 0
    shown = " ".join(call("ledger", table, "--ledger", tmp_path / "l").out.split())
    assert (
        "hide different things (adding or removing one row; adding or removing one person with up to 3 rows)" in shown
    )
