"""`plan` and `schema` read names and types of a table and no row of it, whatever kind of file it is."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from lookalike.errors import InputError
from lookalike.sources import csvfiles, files, frames
from lookalike.sources import open as opening
from lookalike.sources.frames import read_structure
from lookalike.sources.writing import write_table

from .conftest import Call

HEADER = b"town,age\n"
BIG, MOST = 2_000_000, 500_000
KINDS = ("t.csv", "t.csv.gz", "t.parquet", "t.feather")


def big_table(folder: Path, name: str) -> Path:
    """A table of several megabytes that do not compress; the dictionary of towns takes most of them."""
    path = folder / name
    noise = np.random.default_rng(0).bytes(BIG)
    towns = pa.array([noise[i : i + 100].hex() for i in range(0, BIG, 100)]).dictionary_encode()
    ages = pa.array(np.frombuffer(noise[: 8 * len(towns)], np.int64))
    write_table(pa.table({"town": towns, "age": ages}), path)
    assert path.stat().st_size > 3 * MOST
    return path


def bytes_read() -> int:
    """Bytes that this process has read so far, by whatever means but memory maps."""
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the operating system does not count bytes read")
@pytest.mark.parametrize("name", KINDS)
def test_few_bytes_are_read(call: Call, tmp_path: Path, name: str) -> None:
    path, schema = big_table(tmp_path, name), tmp_path / "schema.yaml"
    assert call("schema", path, "-o", schema).code == 0
    for command in (("plan", path), ("schema", path), ("plan", path, "--schema", schema)):
        assert call(*command).code == 0  # what is imported on the way is read by now
        before = bytes_read()
        outcome = call(*command)
        read = bytes_read() - before
        assert outcome.code == 0, outcome.err
        assert read < MOST, f"{command} read {read:,} bytes"


@pytest.mark.parametrize("command", ["plan", "schema"])
@pytest.mark.parametrize("name", KINDS)
def test_no_function_that_reads_rows_is_called(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    path = tmp_path / name
    write_table(pa.table({"town": ["Ox"], "age": [3]}), path)
    assert call(command, path).code == 0  # files of the package itself are read by now
    called: list[str] = []

    def spy(where: object, name: str) -> None:
        real: Callable[..., object] = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, **k: (called.append(name), real(*a, **k))[1])

    readers = [(frames, "read_table"), (files, "read_csv"), (opening, "read_table"), (parquet, "read_table")]
    readers += [(csvfiles, "read_csv"), (feather, "read_table"), (arrow_csv, "read_csv"), (parquet, "ParquetDataset")]
    readers += [(Path, "read_bytes"), (Path, "read_text"), (pa, "memory_map")]
    for where, what in readers:
        spy(where, what)
    assert call(command, path).code == 0
    assert called == []
    frames.read_table(path)
    assert called


def broken_files() -> dict[str, tuple[str, bytes]]:
    """Files of which something after the names is broken."""
    rows = b"Ox,30\n" * 20_000
    packed = gzip.compress(HEADER + rows)
    broken = {
        "ragged": ("t.csv", HEADER + rows + b"Rye\n1,2,3\n"),
        "NUL": ("t.csv", HEADER + rows + b"\0,1\n"),
        "not UTF-8": ("t.csv", HEADER + rows + b"\xff\xfe,1\n"),
        "open quote": ("t.csv", HEADER + rows + b'"Rye,1\n'),
        "broken at once": ("t.csv", HEADER + b'\xff"\0,,,,\n' * 1000),
        "cut gzip": ("t.csv.gz", packed[: len(packed) // 2]),
    }
    stored = io.BytesIO()
    with gzip.GzipFile(fileobj=stored, mode="wb", compresslevel=0) as stream:
        stream.write(HEADER + rows)
    broken["gzip checksum"] = ("t.csv.gz", stored.getvalue()[:-8] + b"\xff" * 8)
    table = pa.table({"town": pa.array(["Ox", "Rye"] * 20_000).dictionary_encode(), "age": np.arange(40_000)})
    for name, write in (("t.parquet", parquet.write_table), ("t.feather", feather.write_feather)):
        stream = io.BytesIO()
        write(table, stream, compression="uncompressed" if name == "t.feather" else "snappy")
        data = bytearray(stream.getvalue())
        data[2000:12_000] = b"\xff" * 10_000
        broken[f"rows of {name}"] = (name, bytes(data))
    return broken


BROKEN = broken_files()


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_in_the_rows_does_not_show(call: Call, tmp_path: Path, case: str) -> None:
    name, data = BROKEN[case]
    (tmp_path / "good").mkdir()
    good, bad = tmp_path / "good" / name, tmp_path / name
    kind = pa.string() if ".csv" in name else pa.dictionary(pa.int32(), pa.string())
    write_table(pa.table({"town": pa.array([], kind), "age": pa.array([], pa.int64())}), good)
    bad.write_bytes(data)
    for command in ("schema", "plan"):
        one, two = call(command, good), call(command, bad)
        assert (one.code, one.err) == (two.code, two.err)
        assert one.code == 0
        assert one.out.replace(str(good), "") == two.out.replace(str(bad), "")
    if name == "t.csv":
        assert frames.read_table(bad)[0].column_names == ["town", "age"]
    elif "checksum" not in case and "feather" not in case:
        with pytest.raises(InputError):
            frames.read_table(bad)


def test_the_header_of_a_pipe_is_enough(tmp_path: Path) -> None:
    """Nothing follows the header and the pipe stays open: reading on would never end."""
    path = tmp_path / "t.csv"
    os.mkfifo(path)
    done = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(b'"town\n')
            pipe.write(b'and land",age\n')
            done.wait(10)

    writer = threading.Thread(target=write)
    writer.start()
    names = read_structure(path).names
    done.set()
    writer.join()
    assert names == ["town\nand land", "age"]


HEADERS = {
    "plain": (b"a,b\n1,2\n", ["a", "b"]),
    "no line end": (b"a,b", ["a", "b"]),
    "BOM and CRLF": (b"\xef\xbb\xbfa,b\r\n1,2\r\n", ["a", "b"]),
    "CR": (b"a;b\r1;2\r", ["a", "b"]),
    "quoted": (b'"a,""x""",b\n1,2\n', ['a,"x"', "b"]),
    "line end in a name": (b'"a\nx"\tb\n1\t2\n', ["a\nx", "b"]),
    "quote within a name": (b'5"|6"\n1|2\n', ['5"', '6"']),
    "names as long as two blocks": (b"%b,b\n1,2\n" % (b"a" * 33_000), ["a" * 33_000, "b"]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_the_header_is_read_as_the_table_is(tmp_path: Path, case: str) -> None:
    data, names = HEADERS[case]
    for path, stored in ((tmp_path / "t.csv", data), (tmp_path / "t.csv.gz", gzip.compress(data))):
        path.write_bytes(stored)
        table, _ = frames.read_table(path)
        assert read_structure(path) == table.schema
        assert table.column_names == names
        assert table.num_rows == int(case != "no line end")


@pytest.mark.parametrize("start", [b"a" * 2_000_000, b'"a\n' + b"b,c\n" * 500_000, b"a," * 1_000_000])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_header_without_end_is_refused(tmp_path: Path, start: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(start, 1) if name.endswith("gz") else start)
    with pytest.raises(InputError, match=r"does not end within 1,048,576 bytes\. Begin the file with a line of column"):
        read_structure(path)


@pytest.mark.parametrize(
    "data", [b"", b"\n1,2\n", b"  \n", b"a,a\n", b"a\0,b\n", b"\xff,b\n", "a,b\n".encode("utf-16")]
)
def test_bad_headers_are_refused_as_before_a_run(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    messages = []
    for read in (read_structure, frames.read_table):
        with pytest.raises(InputError) as caught:
            read(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_second_person_column_is_refused(call: Call, tmp_path: Path) -> None:
    table, schema = tmp_path / "t.csv", tmp_path / "s.yaml"
    table.write_text("who,house\na,b\n")
    who = "fields:\n- {name: who, type: string, dp: {pattern: '####', person: true}}\n"
    schema.write_text(who + "- {name: house, type: string, dp: {pattern: '####'}}\n")
    for command in (("plan", table), ("synth", table, "-o", tmp_path / "o.csv")):
        refused = call(*command, "--schema", schema, "--person", "house")
        assert refused.code != 0
        assert "2 columns have 'person: true': 'who', 'house'; the limit is 1" in refused.err.replace("\n", " ")
        assert call(*command, "--schema", schema, "--person", "who").code == 0
