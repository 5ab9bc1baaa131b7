"""Tables in and out: formats and dtypes survive, bad files give one clear message without a value of the table."""

import gzip
import os
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lookalike.errors import InputError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import bind, encode
from lookalike.schema.columns import Categorical
from lookalike.schema.decode import decode
from lookalike.schema.schema import Schema
from lookalike.sources import frames, writing
from lookalike.sources.frames import read_table, to_frame
from lookalike.sources.writing import write_table

SECRET = "SECRET"
SCHEMA = Schema(
    (
        Integer("i", minimum=0, maximum=9, bins=10),
        Continuous("f", minimum=0, maximum=1, decimals=2, bins=101, missing=("",)),
        Categorical("c", values=("x", "y"), missing=("",), outside="absorb"),
        Categorical("b", values=("false", "true")),
        Datetime("t", minimum="2024-01-01", maximum="2024-12-31", bins=366, missing=("",)),
    )
)


def through_codes(table: pa.Table) -> pa.Table:
    bound = bind(SCHEMA, table.schema)
    return decode(bound, encode(SCHEMA, table), rng=np.random.default_rng(0))


def pandas_frames():
    plain = pd.DataFrame(
        {
            "i": np.array([1, 2, 9], dtype="int32"),
            "f": [0.25, np.nan, 1.0],
            "c": pd.Categorical(["x", None, "y"], categories=["x", "y"]),
            "b": [True, False, True],
            "t": pd.to_datetime(["2024-01-01", None, "2024-12-31"]).tz_localize("Europe/Paris"),
        },
        index=[7, 8, 9],
    )
    nullable = plain.astype({"i": "Int64", "f": "Float64", "b": "boolean", "c": "object"})
    return [plain, nullable]


@pytest.mark.parametrize("frame", pandas_frames(), ids=["numpy dtypes", "nullable dtypes"])
def test_pandas_dtypes_survive(frame):
    table, form = read_table(frame)
    back = to_frame(through_codes(table), form)
    assert form.kind == "pandas"
    pd.testing.assert_frame_equal(back, frame.reset_index(drop=True))


def test_polars_dtypes_survive():
    frame = pl.DataFrame(
        {
            "i": [1, 2, 9],
            "f": [0.25, None, 1.0],
            "c": ["x", None, "y"],
            "b": [True, False, True],
            "t": [date(2024, 1, 1), None, date(2024, 12, 31)],
        },
        schema_overrides={"i": pl.UInt8, "f": pl.Float32, "c": pl.Categorical},
    )
    table, form = read_table(frame)
    back = to_frame(through_codes(table), form)
    assert back.schema == frame.schema
    assert back.equals(frame)
    assert read_table(frame.lazy())[0].equals(table)


def arrow_table():
    return pa.table(
        {
            "i": pa.array([1, 2, 9], pa.int8()),
            "f": pa.array([0.25, None, 1.0], pa.float32()),
            "c": pa.array(["x", None, "y"], pa.large_string()),
            "b": pa.array([True, False, True]),
            "t": pa.array(
                [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(2024, 5, 1, tzinfo=UTC)], pa.timestamp("ms", tz="UTC")
            ),
        }
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.feather"])
def test_typed_files_survive(tmp_path, name):
    write_table(arrow_table(), tmp_path / name)
    table, _ = read_table(tmp_path / name)
    assert table.equals(arrow_table())
    write_table(through_codes(table), tmp_path / ("again." + name))
    assert read_table(tmp_path / ("again." + name))[0].equals(arrow_table())
    assert to_frame(table, frames.TableForm("arrow")) is table


CSV = "i,f,c,b,t\n1,0.25,x,true,2024-01-01\n2,,,false,\n9,1.00,y,true,2024-12-31\n"


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace("i,", '"i",', 1),
    ],
    ids=["plain", "crlf", "bom", "semicolons", "tabs", "quoted name"],
)
def test_csv_text_survives(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    table, form = read_table(path)
    write_table(through_codes(table), path, csv=form.csv)
    assert path.read_bytes().decode() == text.replace('"', "")


def test_gzipped_csv(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    table, _ = read_table(path)
    write_table(table, path)
    assert gzip.decompress(path.read_bytes()).decode() == CSV


def test_fields_with_separators_quotes_and_line_ends(tmp_path):
    values = ["a,b", 'say "hi"', "two\nlines", " padded ", "", None]
    table = pa.table({"name, with comma": values, "n": ["1"] * 6})
    write_table(table, tmp_path / "t.csv")
    back, _ = read_table(tmp_path / "t.csv")
    assert back.column(0).to_pylist() == [value or None for value in values]
    assert back.column_names == table.column_names


def test_one_column_with_empty_fields(tmp_path):
    write_table(pa.table({"a": ["x", None, "y"]}), tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv")[0].to_pydict() == {"a": ["x", None, "y"]}


BAD_FILES = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n  \n", "is empty"),
    "open quote": (f'a,"b\n1,{SECRET}\n'.encode(), "odd number of quotation marks"),
    "latin-1": (f"a,é\n1,{SECRET}\n".encode("latin-1"), "first line of .* is not UTF-8 text"),
    "nul": (f"a,\0\n1,{SECRET}\n".encode(), "first line of .* has a NUL byte"),
    "utf-16": (f"a,b\n1,{SECRET}\n".encode("utf-16"), "UTF-16"),
    "twice": (f"a,a\n1,{SECRET}\n".encode(), "two columns named 'a'"),
    "wide": (",".join(f"c{i}" for i in range(100_000)).encode() + b"\n", "100,000 columns; the limit is 10,000"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_csv(tmp_path, case):
    data, message = BAD_FILES[case]
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_paths_that_do_not_exist_or_are_no_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path / "dir.csv")
    with pytest.raises(InputError, match="no known suffix"):
        read_table(tmp_path / "table.xls")


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.csv.gz"])
def test_damaged_files(tmp_path, name):
    path = tmp_path / name
    write_table(arrow_table(), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=str(path)):
        read_table(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=str(path)):
        read_table(path)


def test_objects_that_are_no_tables():
    for thing in (3, [1, 2], {"a": [1]}, None):
        with pytest.raises(InputError, match="Cannot read a table from"):
            read_table(thing)
    with pytest.raises(InputError, match="no columns"):
        read_table(pa.table({}))
    # Whether a table has rows is private.
    assert read_table(pd.DataFrame({"a": []}))[0].num_rows == 0
    with pytest.raises(InputError, match="read the same"):
        read_table(pd.DataFrame([[1, 2]], columns=pd.Index([1, "1"], dtype=object)))


def test_parquet_metadata_is_dropped(tmp_path):
    table = pa.table({"a": [1]}).replace_schema_metadata({"note": SECRET})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")[0].schema.metadata is None


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_csv", full)
    with pytest.raises(InputError, match="the disk is full"):
        write_table(pa.table({"a": [1]}), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_path_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="Cannot write"):
        write_table(pa.table({"a": [1]}), tmp_path / "none" / "out.csv")
    Path(tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match="Cannot write"):
        write_table(pa.table({"a": [1]}), tmp_path / "dir.csv")
    assert os.listdir(tmp_path) == ["dir.csv"]
