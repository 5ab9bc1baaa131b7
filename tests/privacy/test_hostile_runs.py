"""Whole runs with one strange row and without it: the same exit code, streams and files, up to numbers.

Every column of the row is strange at once. `test_hostile_rows.py` goes through many more values, below whole runs.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pytest
from hypothesis import HealthCheck, given, settings

import lookalike
from lookalike.cli import main as cli

from .hostile import TEXTS, array_of, csv_texts

pytestmark = pytest.mark.filterwarnings("error", "ignore::lookalike.errors.LookalikeWarning")

ROWS = 2000
DECLARED = """
fields:
- {name: ward, type: string, constraints: {enum: [north, south]}}
- {name: grade, type: string, categoriesOrdered: true, constraints: {required: true, enum: [low, high]}}
- {name: smokes, type: boolean, constraints: {required: true}}
- {name: age, type: integer, constraints: {required: true, minimum: 0, maximum: 99}}
- {name: weight, type: number, missingValues: ["?"], constraints: {minimum: 0, maximum: 200}, dp: {decimals: 1}}
- {name: share, type: number, constraints: {minimum: 0, maximum: 1}}
- {name: born, type: date, constraints: {minimum: 1950-01-01, maximum: 2020-12-31}}
- {name: seen, type: datetime, format: "%Y-%m-%dT%H:%M:%S%z", constraints: {minimum: 2024-01-01, maximum: 2024-12-31},
   dp: {zone: Europe/Paris}}
- {name: note, type: string, dp: {pattern: "n-####"}}
- {name: patient, type: string, dp: {pattern: "p-####", person: true, max_rows: 2, repeats: [1, 1]}}
"""


def usual_rows() -> list[dict[str, str]]:
    rng = np.random.default_rng(0)
    return [
        {
            "ward": ("north", "south")[rng.integers(2)],
            "grade": ("low", "high")[rng.integers(2)],
            "smokes": ("true", "false")[rng.integers(2)],
            "age": str(rng.integers(100)),
            "weight": f"{rng.integers(400, 1200) / 10}",
            "share": repr(float(rng.random())),
            "born": f"19{rng.integers(50, 100)}-0{rng.integers(1, 10)}-1{rng.integers(10)}",
            "seen": f"2024-0{rng.integers(1, 10)}-1{rng.integers(10)}T10:00:0{rng.integers(10)}+0100",
            "note": f"n-{rng.integers(10**6)}",
            "patient": f"p-{i // 2}",
        }
        for i in range(ROWS)
    ]


USUAL = usual_rows()


class Runs:
    """Runs of the command line in a folder of their own, and what each shows apart from numbers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "200")

    def of_csv(self, value: str | None, *options: str, line: bytes = b"") -> dict[str, Any]:
        """The run on a CSV file, with a row that holds the value in all columns, or with a line written as it is."""
        self._clean()
        with open(self.folder / "table.csv", "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(USUAL[0])
            writer.writerows(row.values() for row in USUAL)
            if value is not None:
                writer.writerow([value] * len(USUAL[0]))
        if line:
            header, *rows = (self.folder / "table.csv").read_bytes().splitlines(keepends=True)
            rows.insert(ROWS // 2, line)
            (self.folder / "table.csv").write_bytes(header + b"".join(rows))
        return self._shown("table.csv", "out.csv", *options)

    def of_feather(self, table: pa.Table) -> dict[str, Any]:
        self._clean()
        feather.write_feather(table, str(self.folder / "table.arrow"))
        # Three of the columns are equal: which of the rules between them are printed is a matter of noise.
        return self._shown("table.arrow", "out.parquet", "--no-rules")

    def _clean(self) -> None:
        for path in self.folder.iterdir():
            if path.suffix != ".yaml":
                path.unlink()

    def _shown(self, table: str, out: str, *options: str) -> dict[str, Any]:
        files = ("--ledger", "ledger.jsonl", "--report", "page.html", "--model", "model.lookalike")
        arguments = ["synth", table, "-o", out, *files, "--epsilon", "6", "--method", "independent", *options]
        self.monkeypatch.setattr(sys, "argv", ["lookalike", *arguments])
        printed, notes = io.StringIO(), io.StringIO()
        with redirect_stdout(printed), redirect_stderr(notes), pytest.raises(SystemExit) as ended:
            cli.main()
        streams = [
            re.sub(r"[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?%?|[\s]+", "#", _without_findings(stream.getvalue()))
            for stream in (printed, notes)
        ]
        return {"code": ended.value.code, "streams": streams, "files": sorted(p.name for p in self.folder.iterdir())}


def _without_findings(text: str) -> str:
    """What is printed but for findings: which of them there are follows from noisy answers, and differs between runs.

    That these answers are all they depend on is checked by replaying answers: see test_methods_replayed.py.
    """
    return re.sub(r"(?m)^(Not seen:|Rules found).*\n(  .*\n)*", "", text)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    (tmp_path / "schema.yaml").write_text(DECLARED)
    return Runs(tmp_path, monkeypatch)


PERSONS = ("--person", "patient", "--max-rows-per-person", "2", "--epsilon", "14")
# Discovery at this epsilon tells what nearly all rows hold, and nothing of a single one.
OPTIONS = {"declared": ("--schema", "schema.yaml"), "discovered": (), "persons": PERSONS}
STRANGE = (
    "",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-1400",
    "1e308",
    "1e400",
    "\x1b[31m\u202e",
    "x" * 200_000,
)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_strange_row_of_a_csv_file_does_not_show(runs: Runs, options: str) -> None:
    without = runs.of_csv(None, *OPTIONS[options])
    assert without["code"] == 0, without
    for value in STRANGE if options != "persons" else STRANGE[:2]:
        assert runs.of_csv(value, *OPTIONS[options]) == without, value[:40]


BROKEN = {
    "a short row": b"north,low\n",
    "a long row": b"north" + b",low" * 50 + b"\n",
    "no field": b" \n",
    "an open quote": b'north,"low,true,5,50.0\n',
    "an open quote in the last field": b'north,low,true,5,50.0,0.5,1960-01-11,,n-1,"p\n',
    "an open quote around doubled ones": b'"north ""x"" ,low\n',
    "text after a quote": b'"north"x"y,low"\n',
    "not UTF-8": b"\xff\xfe,\xc3,\x93quoted\x94\n",
    "half a character before a line end": b"north,\xe6\x9d\n",
    "NUL": b"\0,\0\0\n",
    "carriage returns": b"north\r,low\r\r\n",
    "two megabytes": b"x" * 2_000_000 + b"\n",
}


@pytest.mark.parametrize("options", ["declared", pytest.param("discovered", marks=pytest.mark.slow)])
def test_a_broken_line_of_a_csv_file_does_not_show(runs: Runs, options: str) -> None:
    without = runs.of_csv(None, *OPTIONS[options])
    assert without["code"] == 0, without
    for name, line in BROKEN.items():
        assert runs.of_csv(None, *OPTIONS[options], line=line) == without, name


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_many_strange_rows_of_csv_files_do_not_show(runs: Runs, options: str) -> None:
    without = runs.of_csv(None, *OPTIONS[options])
    for value in TEXTS:
        assert runs.of_csv(value, *OPTIONS[options]) == without, value[:40]

    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(csv_texts())
    def every(value: str) -> None:
        assert runs.of_csv(value, *OPTIONS[options]) == without

    every()


def typed(high: bool | None) -> pa.Table:
    """The rows with types, and one more with the largest or smallest value of each; none where `high` is None."""
    texts = pa.Table.from_pylist(USUAL).select(["ward", "age", "weight", "share", "born", "patient"])
    days = texts["born"].cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    columns: dict[str, pa.ChunkedArray] = {
        "ward": texts["ward"],
        "smokes": pc.equal(texts["ward"], "north"),
        "age": texts["age"].cast(pa.int64()),
        "code": texts["age"].cast(pa.uint64()),
        "weight": texts["weight"].cast(pa.float64()),
        "share": texts["share"].cast(pa.float32()),
        "money": texts["age"].cast(pa.decimal128(38, 2)),
        "born": texts["born"].cast(pa.date32()),
        "seconds": pc.multiply(days, 86_400).cast(pa.timestamp("s")),
        "local": pc.multiply(days, 86_400 * 10**6).cast(pa.timestamp("us", tz="Europe/Paris")),
        "nanos": pc.multiply(days, 86_400 * 10**9).cast(pa.timestamp("ns")),
        "patient": texts["patient"],
    }
    if high is not None:
        columns = {name: _with_extreme(column.combine_chunks(), high) for name, column in columns.items()}
    columns["ward"] = columns["ward"].dictionary_encode()
    return pa.table(columns)


def _with_extreme(array: pa.Array, high: bool) -> pa.Array:
    kind = array.type
    value: Any = {
        "bool": None,
        "string": b"\xff\0" if high else b"",
        "float": float("inf") if high else -1e-45,
        "double": 1.7e308 if high else float("nan"),
        "uint64": 2**64 - 1 if high else 0,
        "decimal128(38, 2)": Decimal("9" * 36) if high else Decimal("-" + "9" * 36),
        "date32[day]": 2**31 - 1 if high else -(2**31),
    }.get(str(kind), 2**63 - 1 if high else -(2**63))
    return pa.concat_arrays([array, array_of(kind, [value])])


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_strange_row_of_a_typed_file_does_not_show(
    runs: Runs, in_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_batches:
        monkeypatch.setattr("lookalike.sources.open.MAX_BYTES_IN_MEMORY", 0)
    without = runs.of_feather(typed(None))
    assert without["code"] == 0, without
    for high in (True, False):
        assert runs.of_feather(typed(high)) == without


@pytest.mark.parametrize("high", [True, False])
def test_a_strange_row_of_a_frame_does_not_show(high: bool) -> None:
    pytest.importorskip("pandas")
    steps = []
    for extreme in (None, high):
        columns = ["age", "code", "weight", "share", "seconds", "nanos", "local"]
        frame = typed(extreme).select(columns).to_pandas(timestamp_as_object=False, safe=False)
        release = lookalike.synthesize(frame, epsilon=6.0, method="independent")
        steps.append({charge.step for charge in release.spent.charges})
    assert steps[0] == steps[1]
