"""Malformed tables. A file that has no header of names is refused with one message. Whatever its rows are, it is read.

Never a traceback, and no message holds a value of the table.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from .conftest import Call

GOOD = "a,b\n1,x\n2,y\n"
SECRET = "SECRET"


def packed(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


REFUSED = {
    "no bytes": (b"", "is empty"),
    "a line end": (b"\n", "is empty"),
    "blanks": (b"   \n \t \n", "is empty"),
    "BOM and nothing else": (codecs.BOM_UTF8, "is empty"),
    "open quote in the header": (b'"a,b\n1,2\n', "quotation marks"),
    "utf-16 with BOM": (f"a,b\n1,{SECRET}\n".encode("utf-16"), "UTF-16"),
    "utf-16 big-endian with BOM": (codecs.BOM_UTF16_BE + "a,b\n1,2\n".encode("utf-16-be"), "UTF-16"),
    "utf-16 without BOM": ("a,b\n1,2\n".encode("utf-16-le"), "first line of .* has a NUL byte"),
    "utf-32": ("a,b\n1,2\n".encode("utf-32"), "UTF-16|NUL byte"),
    "NUL in the header": (b"a\0,b\n1,2\n", "first line of .* has a NUL byte"),
    "latin-1 in the header": ("a,é\n1,2\n".encode("latin-1"), "first line of .* is not UTF-8"),
    "two columns of a name": (b"a,a\n1,2\n", "two columns named 'a'"),
    "two columns without name": (b",\n1,2\n", "two columns named ''"),
    "too many columns": (b",".join(b"c%d" % i for i in range(100_000)) + b"\n", "100,000 columns"),
    "binary": (bytes(range(256)) * 10, "NUL byte|not UTF-8"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "NUL byte|not UTF-8"),
    "a spreadsheet": (b"PK\x03\x04\x14\0\x06\0", "NUL byte|not UTF-8"),
    "a zipped table": (gzip.compress(GOOD.encode()), "NUL byte|not UTF-8"),
    "a Parquet file": (packed(pa.table({"a": [1]})), "NUL byte|not UTF-8"),
}
"""What is wrong with the header, which is public."""

READ = {
    "plain": GOOD.encode(),
    "BOM": codecs.BOM_UTF8 + GOOD.encode(),
    "no final line end": GOOD.strip().encode(),
    "carriage returns and line feeds": GOOD.replace("\n", "\r\n").encode(),
    "blank lines between rows": b"a,b\n\n1,x\n\n2,y\n",
    "carriage returns alone": GOOD.replace("\n", "\r").encode(),
    "header without rows": b"a,b\n",
    "header without line end": b"a,b",
    "semicolons": GOOD.replace(",", ";").encode(),
    "one column": b"a\n1\n2\n",
    "one row": b"a,b\n1,x\n",
    "one constant": b"a\n" + b"5\n" * 30,
    "all missing": b"a,b\n,\n,\n",
    "mixed types": b"a,b\n1,x\ntwo,2024-01-01\n3.5,\n",
    "numbers as text": b'a,b\n"1","2"\n"3","4"\n',
    "huge numbers": b"a\n" + b"9" * 400 + b"\n1e999\n-1e999\n",
    "nan and inf": b"a\nnan\ninf\n-inf\n1\n",
    "days that do not exist": b"a\n2024-02-30\n2023-13-01\n0000-00-00\n",
    "quotes and line ends in values": b'a,b\n"say ""hi""","two\nlines"\n1,2\n',
    "a long value": b"a,b\n" + b"x" * 100_000 + b",1\n",
    "names with spaces and signs": 'a b,"c,d",é\n1,2,3\n'.encode(),
    "control characters": b"a,b\n\x01\x02,\x1b[31m\n",
    "emoji": "a\n😀\n👩‍👩‍👧\n".encode(),
    "formulas": b"a\n=1+1\n@SUM(A1)\n",
    "short row": f"a,b\n1,2\n{SECRET}\n".encode(),
    "long row": f"a,b\n1,2,{SECRET}\n".encode(),
    "short last row": f"a,b,c\n1,2,3\n4,{SECRET}".encode(),
    "row in the middle": b"a,b\n" + b"1,2\n" * 5000 + b"1\n" + b"1,2\n" * 5000,
    "comma in a number": b'a,b\n"1",2\n1,234,5\n',
    "open quote at the end": f'a,b\n1,"{SECRET}\n'.encode(),
    "open quote in the middle": f'a,b\n"{SECRET},2\n3,4\n'.encode(),
    "inches": b'a,b\n1,5" pipe\n',
    "latin-1": f"a,b\n1,{SECRET}\xe9\n".encode("latin-1"),
    "windows-1252": b"a,b\n1,\x93quoted\x94\n",
    "shift-jis": "a,b\n1,東京\n".encode("shift-jis"),
    "half a character": "a,b\n1,é".encode()[:-1],
    "NUL in a value": f"a,b\n1,{SECRET}\0\n".encode(),
    "nothing but NUL": b"a,b\n\0\0\0",
}
"""What is odd or broken in the rows."""

OTHER = {
    "damaged Parquet": ("t.parquet", packed(pa.table({"a": [1]}))[:-9], "damaged"),
    "text as Parquet": ("t.parquet", GOOD.encode(), "damaged"),
    "Parquet of lists": ("t.parquet", packed(pa.table({"a": [[1]]})), "stored as list"),
    "text as Feather": ("t.feather", GOOD.encode(), "damaged"),
    "text as gzip": ("t.csv.gz", GOOD.encode(), "gzip"),
    "half a gzip": ("t.csv.gz", gzip.compress(GOOD.encode() * 100)[:-20], "gzip"),
    "another suffix": ("t.xlsx", GOOD.encode(), "suffix"),
}


def check_refused(outcome, out: Path, message: str) -> None:
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert SECRET not in outcome.err + outcome.out
    assert outcome.err.count("Error: ") == 1
    assert re.search(message, outcome.err), outcome.err
    assert not out.exists()


def test_there_are_fifty() -> None:
    assert len(REFUSED) + len(READ) + len(OTHER) >= 50


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_one_message(call: Call, tmp_path: Path, case: str) -> None:
    data, message = REFUSED[case]
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    table.write_bytes(data)
    check_refused(call("synth", table, "-o", out), out, message)


@pytest.mark.parametrize("case", OTHER)
def test_other_files_refused_with_one_message(call: Call, tmp_path: Path, case: str) -> None:
    name, data, message = OTHER[case]
    table, out = tmp_path / name, tmp_path / "out.csv"
    table.write_bytes(data)
    check_refused(call("synth", table, "-o", out), out, message)


@pytest.mark.parametrize("case", READ)
def test_odd_but_read(call: Call, tmp_path: Path, case: str) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    table.write_bytes(READ[case])
    outcome = call("synth", table, "-o", out, "--method", "independent")
    assert outcome.code == 0, outcome.err
    assert SECRET not in outcome.err + outcome.out
    assert out.exists()


def test_carriage_returns_alone_are_kept(call: Call, tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    table.write_bytes(b"a,b\r" + b"1,x\r2,y\r" * 200)
    assert call("synth", table, "-o", out, "--epsilon", 10, "--method", "independent").code == 0
    made = out.read_bytes()
    assert b"\n" not in made
    lines = made.decode().split("\r")
    assert (lines[0], lines[-1]) == ("a,b", "")
    assert all(line.count(",") == 1 for line in lines[1:-1])
    assert lines.count("1,x") > 20


def test_a_parquet_file_without_rows_goes_through(call: Call, tmp_path: Path) -> None:
    table, out = tmp_path / "t.parquet", tmp_path / "out.parquet"
    table.write_bytes(packed(pa.table({"a": pa.array([], pa.int64())})))
    assert call("synth", table, "-o", out).code == 0
    assert parquet.read_schema(out).field("a").type == pa.int64()


def test_mixed_types_against_a_schema(call: Call, tmp_path: Path) -> None:
    table, schema, out = tmp_path / "t.csv", tmp_path / "s.yaml", tmp_path / "out.csv"
    table.write_text(f"a\n1\n{SECRET}\n")
    rules = "{name: a, type: integer, constraints: {minimum: 0, maximum: 9, required: true}DP}"
    schema.write_text("fields:\n- " + rules.replace("DP", ", dp: {outside: error}"))
    refused = call("synth", table, "-o", out, "--schema", schema)
    check_refused(refused, out, "Column 'a' holds a value outside the schema")
    schema.write_text("fields:\n- " + rules.replace("DP", ""))
    assert call("synth", table, "-o", out, "--schema", schema).code == 0
    assert SECRET not in out.read_text()
