"""Cells and texts of spreadsheets and statistics files that their libraries cannot read: they stop no run.

One such value used to make the library refuse the whole file, uncharged and with a message: the presence of one row
showed without noise.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lookalike.pipeline import synthesize
from lookalike.privacy.ledger import Ledger
from lookalike.sources.frames import read_table

openpyxl = pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")

SCHEMA = {
    "fields": [
        {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 5}},
        {"name": "s", "type": "string", "constraints": {"enum": ["abcd", "mnop"]}, "dp": {"outside": "other"}},
    ]
}
BYTES = (b"\xff\xfe\xfd\xfc", b"\xc3(\xa0\xa1", b"\xed\xa0\x80\x80", b"\x81\x8d\x8f\x90")
CELLS = {
    "not a number": '<c r="B9" t="n"><v>nan</v></c>',
    "a text as a number": '<c r="B9" t="n"><v>abc</v></c>',
    "no day": '<c r="B9" t="d"><v>2020-13-45</v></c>',
    "an unknown text": '<c r="B9" t="s"><v>99999</v></c>',
    "no truth value": '<c r="B9" t="b"><v>x</v></c>',
    "no place": '<c r="9" t="n"><v>7</v></c>',
    "five thousand digits": f'<c r="B9" t="n"><v>{"9" * 5000}</v></c>',
}
WRITERS: dict[str, Callable[[pd.DataFrame, str], object]] = {
    ".dta": pyreadstat.write_dta,
    ".old.dta": lambda frame, path: pyreadstat.write_dta(frame, path, version=12),
    ".sav": pyreadstat.write_sav,
    ".xpt": pyreadstat.write_xport,
}


def run(path: Path) -> None:
    book = Ledger(None, "t")
    made = synthesize(path, schema=SCHEMA, method="independent", ledger=book)
    assert made.rows.num_rows
    assert [run.status for run in book.runs()] == ["done"]


@pytest.mark.parametrize("end", WRITERS)
@pytest.mark.parametrize("spoiled", BYTES)
def test_texts_of_statistics_files_in_no_encoding(tmp_path: Path, end: str, spoiled: bytes) -> None:
    whole, broken = tmp_path / f"whole{end}", tmp_path / f"broken{end}"
    WRITERS[end](pd.DataFrame({"a": [1.0, 2.0] * 10, "s": ["abcd", "mnop"] * 9 + ["abcd", "last"]}), str(whole))
    data = whole.read_bytes()
    assert data.count(b"last") == 1
    broken.write_bytes(data.replace(b"last", spoiled))
    (before, _), (after, _) = read_table(whole), read_table(broken)
    assert after.slice(0, 19).equals(before.slice(0, 19)), "other rows are read as before"
    assert after.num_rows == 20
    run(broken)


def test_texts_of_statistics_files_keep_their_letters(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "s": ["Größe", "naïve €"]})
    for end in (".dta", ".sav", ".xpt"):
        WRITERS[end](frame, str(tmp_path / f"t{end}"))
        assert read_table(tmp_path / f"t{end}")[0].column("s").to_pylist() == ["Größe", "naïve €"]
    old = tmp_path / "t.old.dta"
    WRITERS[".old.dta"](frame.assign(s=["Gro-e", "x"]), str(old))
    old.write_bytes(old.read_bytes().replace(b"Gro-e", "Größe".encode("cp1252").ljust(5, b"\0")))
    assert read_table(old)[0].column("s").to_pylist()[0].startswith("Größ")


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_cells_that_cannot_be_read_are_empty(tmp_path: Path, cell: str) -> None:
    book, whole, broken = openpyxl.Workbook(), tmp_path / "whole.xlsx", tmp_path / "broken.xlsx"
    for row in (["a", "s"], *([i % 3, "abcd"] for i in range(8))):
        book.active.append(row)
    book.save(whole)
    with zipfile.ZipFile(whole) as parts, zipfile.ZipFile(broken, "w") as spoiled:
        for name in parts.namelist():
            data = parts.read(name)
            if name.endswith("sheet1.xml"):
                last = data.rfind(b'<c r="B9"')
                data = data[:last] + cell.encode() + data[data.find(b"</row>", last) :]
            spoiled.writestr(name, data)
    rows = read_table(broken)[0].to_pylist()
    assert rows[:7] == [{"a": str(i % 3), "s": "abcd"} for i in range(7)]
    assert rows[7]["a"] == "1"
    run(broken)
