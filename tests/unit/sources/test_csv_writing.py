"""CSV files are written as Python's `csv` writes them, and large tables in parts."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.sources.csvfiles import CsvStyle, as_texts, write_csv
from lookalike.sources.frames import read_table
from lookalike.sources.writing import write_tables

FIELDS = st.none() | st.text(alphabet="ab,;\"'\n\r\t é=-1", max_size=6)


@settings(max_examples=200)
@given(
    st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(FIELDS, min_size=width, max_size=width), max_size=6)),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_texts_are_quoted_as_python_quotes_them(rows: list[list[str | None]], delimiter: str, line_end: str) -> None:
    names = [f"n{delimiter}{i}" for i in range(len(rows[0]) if rows else 2)]
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    table = pa.table([pa.array(list(column), pa.string()) for column in columns], names=names)
    made, wanted = io.BytesIO(), io.StringIO(newline="")
    write_csv([table], made, CsvStyle(delimiter, line_end))
    writer = csv.writer(wanted, delimiter=delimiter, lineterminator=line_end)
    writer.writerow(names)
    writer.writerows(zip(*map(as_texts, table.columns), strict=True))
    assert made.getvalue().decode() == wanted.getvalue()


TABLES = [pa.table({"a": [i, i + 1], "b": ["x", None]}) for i in range(3)]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.zst", "t.parquet", "t.feather", "t.jsonl"])
def test_tables_are_written_one_after_the_other(tmp_path: Path, name: str) -> None:
    write_tables(iter(TABLES), tmp_path / name)
    assert [str(n) for n in read_table(tmp_path / name)[0].column("a").to_pylist()] == list("011223")


def test_each_table_can_be_a_file_of_its_own(tmp_path: Path) -> None:
    write_tables(iter(TABLES), tmp_path / "people" / "part-*.parquet")
    assert [path.name for path in sorted((tmp_path / "people").iterdir())] == [
        f"part-0000{i}.parquet" for i in range(3)
    ]
    assert read_table(tmp_path / "people")[0] == pa.concat_tables(TABLES)
    with pytest.raises(InputError, match="exists already"):
        write_tables(TABLES, tmp_path / "people" / "part-*.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "people/part-*.csv"])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    def tables():
        yield TABLES[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="the disk is full"):
        write_tables(tables(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_compressed_and_plain_hold_the_same(tmp_path: Path) -> None:
    for name in ("t.csv", "t.csv.gz"):
        write_tables(TABLES, tmp_path / name)
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == (tmp_path / "t.csv").read_bytes()
    write_tables(TABLES, tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").num_rows == 6
