"""Files that are read in batches: the same rows as from memory, in every kind of file, and faults of files."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError, SourceError
from lookalike.forecast import passes_of
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.door import kept_rows
from lookalike.schema.codec import encode_column
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.schema import Schema
from lookalike.sources import csvfiles, streams
from lookalike.sources import open as opening
from lookalike.sources.base import View
from lookalike.sources.counting import Lookups, codes_of
from lookalike.sources.files import TableFile
from lookalike.sources.frames import TableForm, read_structure, read_table
from lookalike.sources.open import MemoryTable
from lookalike.sources.streams import FileTable, _tables
from lookalike.sources.writing import write_table

COLUMN = Categorical("a", missing=("",), values=("x", "y"), outside="other")


def streamed(path: Path) -> FileTable:
    file = TableFile(path)
    return FileTable(file.parts(), read_structure(file), TableForm(file.kind))


def rows_of(tables: list[pa.Table]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


@settings(max_examples=200)
@given(
    st.text(alphabet='ab,"\n\r', max_size=60),
    st.sampled_from(["a,b\n", "a,b\r\n", '"a",b\n', "a,b\r"]),
    st.integers(4, 30),
)
def test_a_csv_file_in_parts_has_the_rows_that_it_has_at_once(text: str, header: str, size: int) -> None:
    data = (header + text).encode()
    start = csvfiles._HEADER_BLOCK
    csvfiles._HEADER_BLOCK = 4
    whole, _ = csvfiles.read_csv(data, "f.csv")
    parts = [table for table, _ in csvfiles.read_parts(io.BytesIO(data), "f.csv", None, ["a", "b"], size)]
    csvfiles._HEADER_BLOCK = start
    assert rows_of(parts) == rows_of([whole])


def test_a_quotation_mark_that_is_never_closed_holds_up_some_bytes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvfiles, "MAX_PART_BYTES", 200)
    monkeypatch.setattr(csvfiles, "_HEADER_BLOCK", 8)
    data = b"a,b\n" + b"1,2\n" * 30 + b'"3,4\n' + b"5,6\n" * 300
    parts = [table for table, _ in csvfiles.read_parts(io.BytesIO(data), "f.csv", None, ["a", "b"], 40)]
    assert rows_of(parts) == {("1", "2"): 30, ('"3', "4"): 1, ("5", "6"): 300}
    assert max(table.num_rows for table in parts) < 100


@pytest.mark.parametrize("end", ["gz", "zst", "bz2", "zip"])
def test_packed_csv_files_are_streamed(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.csv.{end}"
    write_table(pa.table({"a": ["x", "y", "", "z"] * 1000}), path)
    assert streamed(path).scan(View.of((COLUMN,)), [("a",)])[0].tolist() == [1000, 1000, 1000, 1000]


def test_large_files_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": ["x"] * 10}), path)
    assert isinstance(opening.read(path).engine, MemoryTable)
    monkeypatch.setattr(opening, "MAX_BYTES_IN_MEMORY", 10)
    assert isinstance(opening.read(path).engine, FileTable)
    assert isinstance(opening.read(path, single_rows=True).engine, MemoryTable)


def test_densely_packed_files_are_judged_by_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "t.parquet", 20_000
    parquet.write_table(pa.table({"a": pa.array([1] * rows, pa.int8()), "b": pa.array([2] * rows, pa.int8())}), path)
    assert path.stat().st_size < 2 * rows
    monkeypatch.setattr(opening, "MAX_BYTES_IN_MEMORY", 8 * rows)
    assert isinstance(opening.read(path).engine, MemoryTable)
    monkeypatch.setattr(opening, "MAX_BYTES_IN_MEMORY", 8 * rows - 1)
    assert isinstance(opening.read(path).engine, FileTable)


def test_a_pass_over_a_parquet_file_holds_a_row_group_not_the_file(tmp_path: Path) -> None:
    """Arrow would keep all bytes that were read until the end of the pass."""
    path, numbers = tmp_path / "t.parquet", np.random.default_rng(0).integers(0, 2**62, 1_000_000)
    parquet.write_table(pa.table({"a": numbers}), path, row_group_size=20_000)
    before, held = pa.total_allocated_bytes(), []
    for table, _ in _tables(TableFile(path), ["a"]):
        held.append(pa.total_allocated_bytes() - before - table.nbytes)
    assert len(held) > 5
    assert max(held) < path.stat().st_size / 4


def test_batches_of_wide_tables_have_fewer_rows(tmp_path: Path) -> None:
    """As many in every pass, whichever columns it reads: the rows that are kept of persons are known by batch."""
    path, rows = tmp_path / "t.parquet", 50_000
    parquet.write_table(pa.table({f"c{i}": np.zeros(rows, np.int8) for i in range(500)}), path)
    parts = [[t.num_rows for t, _ in _tables(TableFile(path), names)] for names in (["c0"], ["c1", "c2", "c3"])]
    assert parts[0] == parts[1]
    assert sum(parts[0]) == rows
    assert max(parts[0]) * 500 < 1 << 24


def test_folders_and_patterns_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        parquet.write_table(pa.table({"a": ["x"] * (i + 1)}), folder / f"part-{i}.parquet")
    for place in (folder, folder / "*.parquet"):
        assert read_table(place)[0].num_rows == 6
        assert streamed(place).scan(View.of((COLUMN,)), [()])[0] == 6
        assert TableFile(place).place == folder
    assert read_table(folder / "part-[12].parquet")[0].num_rows == 5
    parquet.write_table(pa.table({"b": [1]}), folder / "part-9.parquet")
    with pytest.raises(InputError, match=r"part-9\.parquet has other columns"):
        read_structure(folder)


def test_a_folder_without_parquet_or_with_columns_in_its_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory without Parquet files"):
        read_table(tmp_path)
    (tmp_path / "year=2020").mkdir()
    parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "year=2020" / "p.parquet")
    with pytest.raises(InputError, match="names of folders"):
        read_table(tmp_path)


def test_a_file_that_changes_or_vanishes_during_a_run_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\nsecret\n")
    table, asked = streamed(path), View.of((COLUMN,))
    table.scan(asked, [("a",)])
    path.write_text("a\nsecret\nsecret\n")
    with pytest.raises(SourceError, match=r"t\.csv changed while") as changed:
        table.scan(asked, [("a",)])
    path.unlink()
    with pytest.raises(SourceError, match="any more") as gone:
        table.scan(asked, [("a",)])
    assert "secret" not in f"{changed.value}{gone.value}"


def test_a_pass_says_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": ["x"] * 3000}), path)
    seen: list[float] = []
    FileTable([TableFile(path)], read_structure(path), TableForm("parquet"), seen.append).value_counts("a")
    assert seen == [1.0]


@pytest.mark.parametrize("held", [3, 50, 10_000])
def test_persons_are_capped_in_bounded_memory(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows are held at a time, every person keeps as many rows as from memory."""
    monkeypatch.setattr(streams, "MAX_HELD", held)
    rng = np.random.default_rng(held)
    people = [None if p < 3 else f"p{p}" for p in rng.integers(0, 40, 300)]
    batches = [pa.array(people[i : i + 70], pa.string()) for i in range(0, 300, 70)]
    person = Identifier("who", missing=("",), person=True, max_rows=4)
    found = np.concatenate(streams.rows_of_persons(lambda: batches, person, kept_rows))
    kept = Counter(who for who, repeats in zip(people, found, strict=True) if repeats)
    all_rows = Counter(people)
    assert kept == {who: n if who is None else min(n, 4) for who, n in all_rows.items()}
    assert all(n == (1 if who is None else kept[who]) for who, n in zip(people, found, strict=True) if n)


@pytest.mark.parametrize(("method", "most"), [("mst", 2), ("aim", 8)])
def test_methods_make_few_passes(method: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact counts are kept, so that a method that asks again reads no row. The plan tells what was counted before."""
    rng, passes, rows_of = np.random.default_rng(0), [], FileTable._checked
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 2}
    table = pa.table({name: pa.array(rng.integers(0, size, 1000), pa.int64()) for name, size in sizes.items()})
    parquet.write_table(table, tmp_path / "t.parquet")
    monkeypatch.setattr("lookalike.sources.open.MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(FileTable, "_checked", lambda self, names: passes.append(names) or rows_of(self, names))
    synthesize(tmp_path / "t.parquet", schema=sizes, method=method, ledger=tmp_path / "l.jsonl", rows=10)
    assert 1 <= len(passes) <= most
    assert passes_of(method, discovers=False) <= most


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16()])
def test_lookups_are_kept_from_batch_to_batch(kind: pa.DataType) -> None:
    """Batches of other ranges, with and without null, and values that are codes already, have the codec's codes."""
    listed = Categorical("a", missing=("",), values=("3", "1", "7"), outside="other", storage=str(kind))
    same = Schema.from_sizes({"a": 9}).columns[0]
    lookups: Lookups = {}
    for values in ([1, 3, 7, 5], [1, 3, 7, 5], [None, 3, 7, 1], [8, 0, 2, 4], [100, 1, None, 2]):
        array = pa.array(values * 1000, kind)
        for column in (listed, replace(same, name="b")):
            found = codes_of(column, array, lookups)
            assert found.tolist() == encode_column(column, array).tolist()
    assert {name for name, _, _ in lookups} == {"a", "b"}
