"""Comparison of tables that stay where they are: the same numbers as by rows, where counts give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from lookalike.cli.main import app
from lookalike.errors import InputError
from lookalike.evaluate.evaluation import Evaluation
from lookalike.evaluate.marginals import CountedPair
from lookalike.evaluate.real_data import evaluate
from lookalike.evaluate.report import internal_report
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources.open import MemorySource
from tests.databases import in_duckdb, in_postgres

SCHEMA = Schema(
    (
        Categorical("sex", values=("F", "M"), missing=("",), outside="other"),
        Integer("age", minimum=0, maximum=99, bins=10, outside="clamp"),
        Integer("score", minimum=0, maximum=9, bins=10, outside="clamp"),
        Categorical("city", values=("A", "B", "C"), outside="other"),
    )
)


def people(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 120, rows)
    drawn = {
        "sex": pa.array([["F", "M", "X", None][i] for i in rng.integers(0, 4, rows)], pa.string()),
        "age": pa.array(age, pa.int64()),
        "score": pa.array(np.minimum(age // 12 + rng.integers(0, 3, rows), 9), pa.int64()),
        "city": pa.array(rng.choice(["A", "B", "C"], rows, p=[0.5, 0.3, 0.2]).tolist(), pa.string()),
    }
    return pa.table(drawn)


REAL, SYNTH = people(1, 3000), people(2, 2000)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are taken for files larger than memory."""
    monkeypatch.setattr("lookalike.sources.open.MAX_BYTES_IN_MEMORY", 0)


def check_equal(found: Evaluation, by_rows: Evaluation) -> None:
    assert found["rows"] == by_rows["rows"]
    assert found["histograms"] == by_rows["histograms"]
    for order in ("1", "2", "3"):
        one, two = found["marginals"][order], by_rows["marginals"][order]
        assert one["mean"] == pytest.approx(two["mean"], rel=1e-9)
        assert [x["attrs"] for x in one["worst_sets"]] == [x["attrs"] for x in two["worst_sets"]]
    for name in ("real", "synth", "distances"):
        assert np.allclose(found["association"][name], by_rows["association"][name], atol=2e-6)
    assert found["association"]["pair_trends"]["mean"] == pytest.approx(by_rows["association"]["pair_trends"]["mean"])
    shapes = found["association"]["column_shapes"]["columns"]
    assert shapes == pytest.approx(by_rows["association"]["column_shapes"]["columns"])


def test_large_files_are_compared_by_counts(tmp_path: Path, streamed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows = evaluate(REAL, SYNTH, SCHEMA)
    parquet.write_table(REAL, tmp_path / "real.parquet", row_group_size=500)
    csv.write_csv(SYNTH.select(["city", "age", "score", "sex"]), str(tmp_path / "synth.csv"))
    monkeypatch.setattr("lookalike.evaluate.real_data.read_table", None)  # nothing is read at once
    found = evaluate(tmp_path / "real.parquet", tmp_path / "synth.csv", SCHEMA)
    check_equal(found, by_rows)
    assert "copies" not in found
    assert all(isinstance(cell, str) for row in found.table() for cell in row)
    assert "Compared by counts" in internal_report(found)


@pytest.mark.parametrize("put", [in_duckdb, in_postgres])
def test_tables_of_databases_are_compared_by_counts(put: Any, tmp_path: Path) -> None:
    check_equal(evaluate(put(REAL, tmp_path), SYNTH, SCHEMA), evaluate(REAL, SYNTH, SCHEMA))


def test_the_command_line_compares_tables_of_a_database(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    one, two = in_duckdb(REAL, tmp_path), in_duckdb(SYNTH, tmp_path)
    names = ["--table", one.name, "--synth-table", two.name, "--schema", str(tmp_path / "s.yaml")]
    done = CliRunner().invoke(app, ["evaluate", one.where, two.where, *names, "--report", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    assert "3-way marginals" in done.output
    assert len(list(tmp_path.glob("r*.html"))) == 1


def test_what_needs_rows_is_refused(tmp_path: Path) -> None:
    table = in_duckdb(REAL, tmp_path)
    with pytest.raises(InputError, match="needs a schema"):
        evaluate(table, SYNTH)
    for asked in ({"group_by": "sex"}, {"target": "sex"}, {"questions": ("count where age > 3",)}, {"svm": True}):
        with pytest.raises(InputError, match="need single rows"):
            evaluate(table, SYNTH, SCHEMA, **asked)
    with pytest.raises(InputError, match="rows to test on need single rows"):
        evaluate(table, SYNTH, SCHEMA, holdout=REAL)
    with pytest.raises(InputError, match="second table has no rows"):
        evaluate(table, SYNTH.slice(0, 0), SCHEMA)


def test_many_marginals_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookalike.evaluate.marginals.MAX_COUNTED_CELLS", 60)
    codes = np.random.default_rng(0).integers(0, 2, (50, 4))
    domain = Schema.from_sizes({"a": 5, "b": 6, "c": 7, "d": 2}).domain
    asked: list[int] = []

    class Noted(MemorySource):
        def counts(self, cliques: Any) -> Any:
            asked.append(sum(domain.cells(clique) for clique in cliques))
            return super().counts(cliques)

    pair = CountedPair(Noted(domain, codes), MemorySource(domain, codes))
    sets = [("a", "b"), ("c",), ("b", "c"), ("a",), ("d",)]
    assert pair.distances(sets).tolist() == [0.0] * 5
    assert asked[1:] == [37, 49]
