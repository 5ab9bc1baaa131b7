"""Files of every format and compression, in and out; what decides names, types and errors is public."""

from __future__ import annotations

import datetime
import io
import pickle
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from lookalike.errors import InputError, MissingExtraError
from lookalike.sources import office
from lookalike.sources.csvfiles import CsvStyle
from lookalike.sources.files import TableFile, kind_of_path
from lookalike.sources.frames import read_structure, read_table
from lookalike.sources.writing import write_table

TEXTS = pa.table({"town": ["Rye", None, 'a "b", c'], "age": ["31", "007", "4.50"], "ok": ["true", "false", None]})
NOON = datetime.datetime(2020, 1, 2, 12, 30)
TYPED = pa.table(
    {
        "town": ["Rye", None, "Ox"],
        "age": pa.array([1.5, None, -3.0]),
        "seen": pa.array([NOON, None, datetime.datetime(1950, 1, 1)], pa.timestamp("us")),
    }
)
PACKINGS = ("", ".gz", ".bz2", ".zst", ".zip")


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("end", [".csv", ".tsv", ".txt", ".jsonl"])
def test_texts_survive_any_suffix_and_compression(tmp_path: Path, end: str, packing: str) -> None:
    path = tmp_path / f"t{end}{packing}"
    write_table(TEXTS, path)
    table, form = read_table(path)
    assert table.equals(TEXTS)
    assert form.kind == ("jsonl" if end == ".jsonl" else "csv")
    assert read_structure(path) == TEXTS.schema
    assert not list(tmp_path.glob(".*"))


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """Neither the time nor the name of a temporary file is in a compressed file."""
    for packing in PACKINGS:
        one, two = tmp_path / f"t.csv{packing}", tmp_path / "d" / f"t.csv{packing}"
        two.parent.mkdir(exist_ok=True)
        write_table(TEXTS, one)
        write_table(TEXTS, two)
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("packing", PACKINGS[1:])
def test_a_compressed_file_that_ends_early_is_refused_without_a_reason(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"t.csv{packing}"
    write_table(pa.table({"a": [str(n * n % 977) for n in range(3000)]}), path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="not a complete"):
        read_table(path)


def test_a_zip_file_holds_one_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(InputError, match="holds 2 files"):
        read_table(tmp_path / "t.zip")


def test_tabs_follow_the_suffix_and_other_delimiters_the_table(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n")
    (tmp_path / "t.csv").write_text("a;b\n1;2\n")
    for name, out, expected in (
        ("t.tsv", "o.csv", "a,b\n"),
        ("t.tsv", "o.tsv.gz", "a\tb\n"),
        ("t.csv", "o.csv", "a;b\n"),
        ("t.csv", "o.tsv", "a\tb\n"),
        ("t.csv", "o.txt", "a;b\n"),
    ):
        table, form = read_table(tmp_path / name)
        write_table(table, tmp_path / out, csv=form.csv)
        with TableFile(tmp_path / out).opened() as stream:
            assert stream.read().decode().startswith(expected), (name, out)


@pytest.mark.parametrize("mark", [" ", "^", ":", "\x01"])
def test_any_delimiter_can_be_named(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(f'a{mark}"b{mark}c"\n1{mark}2\n3\n')
    table, form = read_table(TableFile(path, delimiter=mark))
    assert table.to_pydict() == {"a": ["1", "3"], f"b{mark}c": ["2", None]}
    assert form.csv == CsvStyle(mark)
    assert read_structure(TableFile(path, delimiter=mark)).names == table.column_names


@pytest.mark.parametrize("mark", ['"', "\n", "ab", "", "é"])
def test_what_cannot_separate_is_refused(mark: str) -> None:
    with pytest.raises(InputError, match="one ASCII character"):
        TableFile(Path("t.csv"), delimiter=mark)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_an_encoding_can_be_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\nä,1\n".encode(encoding))
    with pytest.raises(InputError, match="--encoding"):
        read_structure(path)
    file = TableFile(path, encoding=encoding)
    assert read_structure(file).names == ["größe", "b"]
    assert read_table(file)[0].to_pydict() == {"größe": ["ä"], "b": ["1"]}
    with pytest.raises(InputError, match="no encoding"):
        TableFile(path, encoding="utf-99")


def test_bytes_that_the_encoding_does_not_have_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n\x81\x8d,1\nx,2\n")
    table, _ = read_table(TableFile(path, encoding="cp1252"))
    assert table.column("b").to_pylist() == ["1", "2"]


def test_dropped_columns_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        write_table(TEXTS, tmp_path / name)
        file = TableFile(tmp_path / name, dropped=("age",))
        assert read_table(file)[0].column_names == read_structure(file).names == ["town", "ok"]
        with pytest.raises(InputError, match="no column 'nothing' to drop"):
            read_structure(TableFile(tmp_path / name, dropped=("nothing",)))


def test_standard_input_is_read_once_and_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_table(TYPED, tmp_path / "t.parquet")
    stored = (tmp_path / "t.parquet").read_bytes()
    for content, names in ((b"a,b\nsecret,2\n", ["a", "b"]), (stored, TYPED.column_names)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        file = TableFile.of_standard_input()
        assert read_structure(file).names == read_table(file)[0].column_names == names
        assert "secret" not in repr(file)
        with pytest.raises(TypeError, match="private rows"):
            pickle.dumps(file)


def test_standard_output_gets_csv(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_table(TEXTS, "-")
    assert capfdbinary.readouterr().out.startswith(b"town,age,ok\nRye,31,true\n")


# JSON lines.


def test_only_the_first_of_json_lines_can_be_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'{"a": 1.50, "b": "x", "c": true}\n{"b": null, "d": 9}\n\nnonsense\n[1]\n'
        b'{"a": {"k": [1]}, "b": "\xff", "c": NaN}\n'
    )
    table, _ = read_table(path)
    assert table.to_pydict() == {
        "a": ["1.50", None, None, None, '{"k": ["1"]}'],
        "b": ["x", None, None, None, "\ufffd"],
        "c": ["true", None, None, None, "NaN"],
    }
    for first in (b"", b"[1]\n", b"nonsense\n", b"{}\n"):
        path.write_bytes(first)
        with pytest.raises(InputError, match="first line"):
            read_structure(path)


def test_numbers_of_json_lines_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_table(TEXTS, path, numbers=["age", "ok"])
    lines = path.read_text().splitlines()
    assert lines[0] == '{"town": "Rye", "age": 31, "ok": true}'
    assert lines[1] == '{"town": null, "age": "007", "ok": false}'
    assert lines[2].startswith('{"town": "a \\"b\\", c", "age": 4.50')


# Excel, Stata, SAS, SPSS.


def test_cells_of_a_sheet_are_texts_each_by_itself(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (
        ["a", "b", "c"],
        [5, "=1+1", datetime.datetime(2020, 1, 2)],
        [2.5, None, True],
        [datetime.datetime(2020, 1, 2, 3, 4, 5)],
        [None, None, None],
        ["x", "y", "z", "surplus"],
    ):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table, form = read_table(tmp_path / "t.xlsx")
    assert table.column("a").to_pylist() == ["5", "2.5", "2020-01-02 03:04:05", "x"]
    assert table.column("c").to_pylist() == ["2020-01-02", "true", None, "z"]
    assert form.kind == "excel"
    assert read_structure(tmp_path / "t.xlsx") == table.schema


def test_a_sheet_gets_numbers_and_no_formulas(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    write_table(pa.table({"n": ["1", "2.5", None], "t": ["=1+1", "007", "x"]}), tmp_path / "t.xlsx", numbers=["n"])
    rows = list(openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows())
    assert [[cell.value for cell in row] for row in rows[1:]] == [[1, "=1+1"], [2.5, "007"], [None, "x"]]
    assert rows[1][1].data_type == "s"


@pytest.mark.parametrize("end", [".xlsx", ".dta", ".sav"])
def test_numbers_that_are_no_texts_keep_their_decimals(tmp_path: Path, end: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyreadstat")
    path = tmp_path / f"t{end}"
    write_table(pa.table({"n": [0.75, -1.5, None]}), path, numbers=["n"])
    read = {".xlsx": pandas.read_excel, ".dta": pandas.read_stata, ".sav": pandas.read_spss}[end]
    assert read(path)["n"].tolist()[:2] == [0.75, -1.5]


def test_a_sheet_gets_the_days_and_times_that_it_can_hold(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    given = ["2020-01-31", "2020-01-31 12:30:00", "1850-01-01", "31.01.2020", "2020-13-01", None]
    write_table(pa.table({"t": given, "u": given}), tmp_path / "t.xlsx", times=["t"])
    cells = [row[0].value for row in openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows(min_row=2)]
    days = [datetime.datetime(2020, 1, 31), datetime.datetime(2020, 1, 31, 12, 30)]
    assert cells[:2] == days
    assert cells[2:5] == given[2:5]
    assert read_table(tmp_path / "t.xlsx")[0].column("t").to_pylist() == given[:5]


def test_whole_numbers_of_stata_stay_whole(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyreadstat")
    columns = {"n": pa.array([1, None, 3], pa.int32()), "t": ["7", "8", None], "large": [2**31, 1, 2]}
    write_table(pa.table(columns), tmp_path / "t.dta", numbers=["n", "t"])
    assert read_structure(tmp_path / "t.dta").types == [pa.int32(), pa.int32(), pa.float64()]
    assert pandas.read_stata(tmp_path / "t.dta")["large"].tolist() == [2**31, 1, 2]


@pytest.mark.parametrize("end", [".dta", ".sav", ".zsav", ".xpt"])
def test_files_of_statistics_programs_survive(tmp_path: Path, end: str) -> None:
    pytest.importorskip("pyreadstat")
    path = tmp_path / f"t{end}"
    write_table(TYPED, path)
    table, _ = read_table(path)
    assert table.equals(TYPED)
    assert read_structure(path) == TYPED.schema
    one = tmp_path / f"one{end}"
    write_table(TYPED.slice(0, 1), one)
    assert read_structure(one) == read_table(one)[0].schema == TYPED.schema


def test_sas_tables_can_only_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only be read"):
        write_table(TYPED, tmp_path / "t.sas7bdat")


@pytest.mark.parametrize("name", ["t.xlsx", "t.dta", "t.sav", "t.xpt", "t.sas7bdat", "t.parquet", "t.feather"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"secret " * 99)
    for read in (read_table, read_structure):
        with pytest.raises(InputError, match="cannot be read as") as error:
            read(tmp_path / name)
        assert "secret" not in str(error.value)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(office, "import_module", missing)
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(MissingExtraError, match=r"lookalike\[formats\]"):
        read_table(tmp_path / "t.xlsx")


def test_unknown_suffixes_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"\.jsonl.*\.sav.*\.zst"):
        kind_of_path(Path("t.docx"))
    with pytest.raises(InputError, match="no known suffix"):
        kind_of_path(Path("t.parquet.gz"))
