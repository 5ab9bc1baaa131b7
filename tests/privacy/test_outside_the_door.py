"""What must not happen outside the door: spending that is not found again, and plans that look at rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from lookalike import synthesize
from lookalike.cli.main import app
from lookalike.inputs import as_ledger
from lookalike.privacy.kernel import door, mechanisms
from lookalike.privacy.row_level import seeded_rows as geometric
from lookalike.schema.schema import Schema
from lookalike.sources import frames, open


def small_table(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(pa.table({"a": [0, 1, 1, 0]}), path)
    return path


def spend(table: Any) -> None:
    synthesize(table, schema={"a": 2}, method="independent", epsilon=0.5)


def test_tables_of_the_same_name_have_ledgers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    one, other = small_table(tmp_path / "one" / "t.csv"), small_table(tmp_path / "other" / "t.csv")
    spend(one)
    assert as_ledger(None, one).spent()[0] == pytest.approx(0.5)
    assert as_ledger(None, other).spent() == (0.0, 0.0)
    spend(other)
    assert [len(as_ledger(None, table).runs()) for table in (one, other)] == [1, 1]


def test_a_table_has_one_ledger_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    table = small_table(tmp_path / "one" / "t.csv")
    (tmp_path / "link.csv").symlink_to(table)
    monkeypatch.chdir(tmp_path / "one")
    names: list[Any] = [table, str(table), "t.csv", Path("../one/t.csv"), tmp_path / "link.csv"]
    for name in names:
        spend(name)
    assert [len(as_ledger(None, name).runs()) for name in names] == [len(names)] * len(names)
    assert as_ledger(None, table).spent()[0] == pytest.approx(0.5 * len(names))


# Plans.


def large_table(path: Path) -> pa.Table:
    """A table of several MB, in a file of its own."""
    table = pa.table({name: np.random.default_rng(i).integers(0, 2**40, 300_000) for i, name in enumerate("ab")})
    pyarrow.csv.write_csv(table, path) if path.suffix == ".csv" else pyarrow.parquet.write_table(table, path)
    return table


def bytes_read() -> int:
    """How much this process has read from files so far."""
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


READERS = (frames.read_table, open.read, door.with_capped_persons, door.open_table, open.MemorySource)
DRAWS = (mechanisms.rounded_gaussian, geometric.two_sided_geometric)


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads rows or draws noise ends the test, wherever the package has it by name."""

    def forbidden(*_: Any, **__: Any) -> None:
        pytest.fail("the table was read")

    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "lookalike":
            for key, value in list(vars(module).items()):
                if any(value is reader for reader in READERS + DRAWS):
                    monkeypatch.setattr(module, key, forbidden)


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not tell how much is read")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_plan_with_a_schema_does_not_read_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    path, schema = tmp_path / f"t.{kind}", tmp_path / "schema.yaml"
    large_table(path)
    Schema.from_sizes({"a": 2, "b": 3}).save(schema)
    invoke("plan", str(path), "--schema", str(schema))  # whatever is loaded once is loaded now
    forbid_reading(monkeypatch)
    before = bytes_read()
    said = invoke("plan", str(path), "--schema", str(schema))
    assert bytes_read() - before < 500_000 < path.stat().st_size / 4
    path.write_bytes(b"no table at all")
    assert invoke("plan", str(path), "--schema", str(schema)) == said


def test_a_plan_without_a_schema_reads_names_and_types_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    path = tmp_path / "t.parquet"
    table = large_table(path)
    said = invoke("plan", str(path))
    forbid_reading(monkeypatch)
    before = bytes_read() if os.path.exists("/proc/self/io") else 0
    assert invoke("plan", str(path)) == said
    if before:
        assert bytes_read() - before < 500_000
    pyarrow.parquet.write_table(table.slice(0, 3), path)
    assert invoke("plan", str(path)) == said
