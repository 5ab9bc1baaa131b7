"""Tables of Spark: where they live, what is refused, what is read once, and what is never shown."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

import lookalike as la
from lookalike.cli.main import app
from lookalike.errors import InputError, RunStoppedError, SchemaError, SourceError
from lookalike.inputs import as_ledger, table_identity
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources.base import View
from lookalike.sources.blocks import BLOCK_ROWS, Counting, Packing, joined, sums
from lookalike.sources.clusters import SparkTable, check_new
from lookalike.sources.databases import write_into
from tests.spark import frame_of, session

pytestmark = pytest.mark.xdist_group("spark")

PEOPLE = pa.table({"sex": ["F", "M", "M"] * 40, "age": pa.array([30, 40, 50] * 40, pa.int64())})
SCHEMA = Schema((Categorical("sex", values=("F", "M")), Integer("age", minimum=0, maximum=99, bins=10)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two Parquet files, for a table of Spark."""
    session()
    (tmp_path / "people").mkdir()
    for i in range(2):
        parquet.write_table(PEOPLE, tmp_path / "people" / f"part-{i}.parquet")
    return tmp_path / "people"


def test_a_frame_of_spark_is_released_where_it_is(tmp_path: Path) -> None:
    release = la.synthesize(frame_of(PEOPLE), schema=SCHEMA, method="mst", ledger=tmp_path / "l.jsonl", epsilon=50.0)
    assert release.table.schema.names == ["sex", "age"]
    assert abs(release.table.num_rows - 120) < 10
    assert release.table.column("sex").to_pylist().count("M") > 60


@pytest.mark.slow  # discovery asks about ten times, and each job takes Spark half a second
def test_the_command_line_reads_a_path_and_discovers(folder: Path, tmp_path: Path) -> None:
    asked = [
        "synth",
        "local[2]",
        "--table",
        str(folder),
        "-m",
        "independent",
        "-e",
        "50",
        "-o",
        str(tmp_path / "o.csv"),
    ]
    found = CliRunner().invoke(app, [*asked, "--ledger", str(tmp_path / "l.jsonl")])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "o.csv").read_text().startswith("sex,age\n")


def test_one_table_has_one_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "link").symlink_to(folder)
    spelled = [str(folder), "./people/", f"file://{folder}", "./link"]
    assert {SparkTable(session(), name).identity for name in spelled} == {table_identity(folder)}
    assert as_ledger(None, SparkTable("local[2]", "./people")).path == as_ledger(None, folder).path


def test_ledgers_of_the_catalogue(folder: Path) -> None:
    spark = session()
    spark.sql(f"CREATE TABLE visits USING parquet LOCATION '{folder}'")
    spark.sql("CREATE VIEW older AS SELECT * FROM visits WHERE age > 35")
    spark.sql("CREATE TEMPORARY VIEW here AS SELECT * FROM visits")
    try:
        assert {SparkTable(spark, name).identity for name in ("visits", "Default.VISITS")} == {str(folder)}
        assert SparkTable(spark, "older").identity == "spark:spark_catalog.default.older"
        assert SparkTable(spark, "here").identity is None
        scanner = SparkTable(spark, "older", ("sex",)).scanner()
        assert scanner.structure.names == ["age"]
        assert scanner.scan(View.of(SCHEMA.columns[1:]), [("age",)])[0].tolist()[3:6] == [0, 80, 80]
        scanner.close()
    finally:
        for what in ("VIEW here", "VIEW older", "TABLE visits"):
            spark.sql(f"DROP {what}")


def test_what_is_refused_before_anything_is_spent(folder: Path) -> None:
    spark = session()
    refused = {
        ("spark", "people"): "not an address of Spark",
        (spark, " "): "No table of Spark was named",
        (spark, "nobody"): "Cannot read the table 'nobody' of Spark",
        (spark, str(folder / "nothing")): "Check its name or path",
        (spark, "people/*.parquet"): "is a pattern",
        (spark, "data/people.csv.gz"): "holds texts",
        (spark.range(3).selectExpr("id", "rand() AS noise"), ""): "rows would differ in every pass",
        (spark.range(3).selectExpr("array(id) AS ids"), ""): "Column 'ids' holds neither",
    }
    for (where, name), message in refused.items():
        with pytest.raises(InputError, match=message):
            SparkTable(where, name).structure()
    with pytest.raises(InputError, match="no column 'salary' to drop"):
        SparkTable(spark, str(folder), ("salary",)).structure()
    with pytest.raises(InputError, match="looks at single rows"):
        la.synthesize(frame_of(PEOPLE), schema=SCHEMA, method="dp-wgan")
    strict = Schema((Categorical("sex", values=("F",), outside="error"), SCHEMA.columns[1]))
    with pytest.raises(SchemaError, match="outside: error"):
        la.synthesize(frame_of(PEOPLE), schema=strict, method="independent")


def test_executors_without_the_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lookalike.sources import blocks, clusters

    def absent(batches: Any) -> Any:
        raise ModuleNotFoundError("lookalike")

    table = SparkTable(frame_of(PEOPLE))
    monkeypatch.setattr(clusters, "_CHECKED", set())
    monkeypatch.setattr(blocks, "own_version", absent)
    with pytest.raises(InputError, match="executors of Spark cannot import lookalike"):
        table.scanner()


def test_rows_are_read_once_for_all_passes_over_a_view(tmp_path: Path) -> None:
    reads = tmp_path / "reads"

    def noted(batches: Any) -> Any:
        with reads.open("a") as file:
            file.write("read\n")
        yield from batches

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = frame_of(PEOPLE).mapInArrow(noted, "sex string, age long")
    scanner = SparkTable(frame).scanner()
    view = View.of(SCHEMA.columns)
    for columns in (("sex",), ("age",), ("sex", "age")):
        assert scanner.scan(view, [columns])[0].sum() == 120
    assert len(reads.read_text().splitlines()) == 2  # one for each partition
    assert [blocks.storageLevel.useMemory for *_, blocks in scanner._packed] == [True]  # type: ignore[attr-defined]
    held = scanner._packed[0][-1]  # type: ignore[attr-defined]
    scanner.close()
    assert not held.storageLevel.useMemory


def test_a_table_that_changes_ends_the_run_uncharged(folder: Path, tmp_path: Path) -> None:
    scanner = SparkTable(session(), str(folder)).scanner()
    view = View.of(SCHEMA.columns)
    assert scanner.scan(view, [("sex",)])[0].sum() == 240
    parquet.write_table(PEOPLE, folder / "part-2.parquet")
    with pytest.raises(SourceError, match="changed while the run read them"):
        scanner.scan(view, [("sex",)])
    scanner.close()


def test_a_value_that_stops_spark_is_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Spark quotes the value in its error; the run is charged and ends with the constant message."""
    secret = pa.table({"age": ["30"] * 119 + ["my secret"]})
    frame = frame_of(secret).selectExpr("CAST(age AS INT) AS age")
    ledger = tmp_path / "l.jsonl"
    with pytest.raises(RunStoppedError) as caught:
        la.synthesize(frame, schema=Schema(SCHEMA.columns[1:]), method="independent", ledger=ledger)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "my secret" not in str(caught.value) + "".join(capfd.readouterr()) + ledger.read_text()
    assert '"stopped"' in ledger.read_text()


# Rows written through Spark.


@pytest.fixture(scope="module")
def fitted() -> la.FittedModel:
    return la.synthesize(PEOPLE, schema=SCHEMA, method="mst", rows=10).fitted


@pytest.mark.parametrize("method", ["mst", "privsyn"])
def test_executors_make_the_rows_that_would_be_made_here(method: str, tmp_path: Path) -> None:
    """In parts that are drawn apart, and of a model that is its rows."""
    made = la.synthesize(PEOPLE, schema=SCHEMA, method=method, rows=10).fitted
    write_into(made.parts(250, 100, seed=4), session(), str(tmp_path / "made"))
    files = sorted((tmp_path / "made").glob("*.parquet"))
    wanted = pa.concat_tables(made.batches(250, 100, seed=4))
    assert pa.concat_tables(map(parquet.read_table, files)).cast(wanted.schema).equals(wanted)
    with pytest.raises(InputError, match="exists already"):
        made.write_into(session(), str(tmp_path / "made"), 5)


def test_a_table_of_the_catalogue_is_written_by_the_command_line(fitted: la.FittedModel, tmp_path: Path) -> None:
    spark = session()
    fitted.save(tmp_path / "m.lookalike")
    asked = ["sample", str(tmp_path / "m.lookalike"), "-o", "local[2]", "--out-table", "made_rows", "--rows", "7"]
    try:
        assert CliRunner().invoke(app, asked).exit_code == 0
        assert spark.table("made_rows").count() == 7
        assert "exists already" in str(CliRunner().invoke(app, asked).exception)
    finally:
        spark.sql("DROP TABLE made_rows")


def test_a_failed_job_leaves_nothing_behind(tmp_path: Path) -> None:
    parts = [PEOPLE, PEOPLE.select(["sex"])]  # the second has too few columns
    for name in (str(tmp_path / "made"), "half_made"):
        with pytest.raises(InputError, match="Cannot write"):
            write_into(parts, session(), name)
        check_new(session(), name)
    assert list(tmp_path.iterdir()) == []


# What the executors do, without Spark.


def test_blocks_hold_the_codes_of_many_rows() -> None:
    """More rows than one block has, codes of two bytes, and more cells than one piece has."""
    rng, number = np.random.default_rng(3), BLOCK_ROWS + 5000
    columns = (Integer.coded("a", 300), Integer.coded("b", 40))
    table = pa.table({c.name: pa.array(rng.integers(0, c.size, number), pa.int64()) for c in columns})
    blocks = list(Packing(columns, table.schema).packed(table.to_batches(10_000)))
    assert [batch.column("rows")[0].as_py() for batch in blocks] == [70_000, number - 70_000]
    domain = View.of(columns).domain
    task = Counting(domain, domain, (("a", "b"), ()), {})
    counts = joined(sums([part for block in blocks for part in task.counted([block])]), 12_001)
    expected = np.histogram2d(*(table.column(name).to_numpy() for name in "ab"), bins=(range(301), range(41)))[0]
    assert np.array_equal(counts[:-1].reshape(300, 40), expected)
    assert counts[-1] == number


def test_a_fault_on_an_executor_has_one_text() -> None:
    task = Packing(SCHEMA.columns, pa.schema([("sex", pa.int64())]))
    with pytest.raises(RuntimeError) as caught:
        list(task.packed(pa.table({"sex": ["my secret"]}).to_batches()))
    assert str(caught.value) == "a block of rows could not be read"
    assert caught.value.__context__ is None
