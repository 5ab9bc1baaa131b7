"""The measures of benchmarks/real_tables on made-up columns, for which the right answers are known."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.real_tables import document, downstream, rules, run, show, tables
from benchmarks.real_tables.kinds import column_of, named_as, number_of, texts_of, time_of
from benchmarks.real_tables.measures import (
    cells_of,
    column_measures,
    correlation_difference,
    distance,
    range_off,
    shape_of,
    table_measures,
    varies,
    width_ratio,
)


def texts(*values: object) -> np.ndarray:
    return np.array([str(value) for value in values], dtype=object)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12), ("-1.5e3", -1500), ("$221,900.00", 221900), ("201.727,27 EUR", 201727.27), ("15.6%", 15.6),
        ("1,234", 1234), ("($5.00)", -5), (".5", 0.5), ("£ 7", 7),
    ],
)  # fmt: skip
def test_numbers_are_read(text: str, number: float) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize("text", ["", "nan", "inf", "1,23,4", "12a", "1 2", "2014-01-01", "N12", "--1", "17-000003"])
def test_other_texts_are_no_numbers(text: str) -> None:
    assert np.isnan(number_of(text))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2013-01-01T10:00:00Z", "2013-01-01T10:00:00"), ("2012/01/02", "2012-01-02"), ("13 Oct 2014", "2014-10-13"),
        ("9/30/1990 0:00:00", "1990-09-30"), ("0014-11-18 15:40:26+00:00", "0014-11-18T15:40:26"),
        ("Mar-2018", "2018-03-01"), ("02:02:23", "1970-01-01T02:02:23"),
    ],
)  # fmt: skip
def test_times_are_read(text: str, moment: str) -> None:
    assert time_of(text) == np.datetime64(moment, "s").astype(np.int64)


@pytest.mark.parametrize("text", ["2012-13-01", "31 Foo 2014", "25:00", "soon", "2012"])
def test_other_texts_are_no_times(text: str) -> None:
    assert np.isnan(time_of(text))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("number", [*range(95), *["unknown"] * 5, "NA"]),
        ("category", [*range(94), *["unknown"] * 6] * 9),
        ("time", ["2012/01/02", "", "2012/01/03"]),
        ("boolean", ["TRUE", "False", "NA"]),
        ("text", [f"row {i}" for i in range(40)]),
        ("category", [f"row {i % 20}" for i in range(40)]),
        ("category", ["", "NA"]),
    ],
)
def test_the_kind_of_a_column_is_told_from_its_values(kind: str, values: list[object]) -> None:
    assert column_of(texts(*values)).kind == kind


def test_categories_are_compared_by_value_and_all_markers_are_one_value() -> None:
    real, made = column_of(texts("a", "a", "b", "NA")), column_of(texts("a", "b", "c", ""), "category")
    assert distance(*cells_of(real, made)) == pytest.approx(0.25)


def test_numbers_are_compared_in_quantiles() -> None:
    real = column_of(texts(*range(1600)))
    assert distance(*cells_of(real, real)) == 0
    lower_half = column_of(texts(*range(800)), "number")
    assert distance(*cells_of(real, lower_half)) == pytest.approx(0.5)
    assert distance(*cells_of(real, column_of(texts("x", "y"), "number"))) == pytest.approx(1)


def test_frequent_values_of_numbers_are_cells_of_their_own() -> None:
    real = column_of(texts(*[0] * 50, *range(1, 51)))
    near_zero = column_of(texts(*["0.0001"] * 50, *range(1, 51)), "number")
    assert distance(*cells_of(real, near_zero)) == pytest.approx(0.5)
    assert distance(*cells_of(real, column_of(texts(*["0.0"] * 50, *range(1, 51)), "number"))) == 0


def test_columns_that_vary_need_a_minority_of_five_percent_and_a_hundred_rows() -> None:
    assert varies(column_of(texts(*[0] * 1900, *[1] * 100)))
    assert not varies(column_of(texts(*[0] * 1901, *[1] * 99)))
    assert not varies(column_of(texts(*[0] * 1901, *[1] * 100)))
    assert varies(column_of(texts(*[0] * 1900, *["NA"] * 100)))


def test_widths_of_ranges() -> None:
    real = column_of(texts(*range(1001)))
    assert width_ratio(real, column_of(texts(*range(0, 4004, 4)), "number")) == pytest.approx(4)
    assert width_ratio(real, column_of(texts(*range(5000, 6001)), "number")) == 0
    assert width_ratio(real, column_of(texts("NA", ""), "number")) == 0
    year = column_of(texts(2013, 2013))
    assert width_ratio(year, year) == 1
    assert width_ratio(year, column_of(texts(*range(2008, 2015)), "number")) == np.inf
    assert width_ratio(real, column_of(texts(5, 5), "number")) == 0
    assert range_off({"width": 3.1})
    assert not range_off({"width": 3.0})
    assert not range_off({"width": 0.3333}), "a third, stored with four digits"
    assert range_off({"width": 0.3332})
    assert not range_off({"width": None})


def test_numbers_that_become_text_are_told_apart_from_a_range_that_is_off() -> None:
    real = column_of(texts(*range(100)))
    line = column_measures(real, column_of(texts(*[f"x{i}" for i in range(100)]), "number"))
    assert line["text"]
    assert line["width"] is None
    assert line["oneway"] == 1


def test_correlations_count_constants_as_uncorrelated_and_skip_what_is_constant_in_reality() -> None:
    numbers = texts(*range(100))
    real = {"a": column_of(numbers), "b": column_of(numbers), "same": column_of(texts(*[1] * 100))}
    made = {"a": column_of(numbers), "b": column_of(texts(*[3] * 100), "number"), "same": column_of(numbers, "number")}
    assert correlation_difference(real, made) == (pytest.approx(1), 1)
    assert correlation_difference(real, real) == (pytest.approx(0), 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("12", "1234", True), ("12", "12.0", False), ("1.25", "123.37", True), ("1.123456", "0.9999", True),
        ("2012/01/02", "2012-01-02", False), ("$1,234.00", "$9,876.00", True), ("N14228", "N5", True),
        ("TRUE", "true", False),
    ],
)  # fmt: skip
def test_shapes_of_texts(one: str, other: str, same: bool) -> None:
    assert (shape_of(one) == shape_of(other)) is same


def test_a_table_against_itself_has_no_faults() -> None:
    real = {"n": texts(*range(200)), "c": texts(*["x", "y"] * 100), "t": texts(*[f"id {i}" for i in range(200)])}
    line = table_measures(real, real)
    assert [line[name] for name in ("made_constant", "made_text", "range_off", "oneway", "missing")] == [0, 0, 0, 0, 0]
    assert (line["rows"], line["columns"], line["numbers"], line["compared"], line["shapes"]) == (
        [200, 200],
        3,
        1,
        2,
        1,
    )


def test_tables_are_written_as_exports_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pd.DataFrame({"price": [221900.0, None], "rate": [15.6, 7], "sold": ["2014-10-13", "2015-01-02"]})
    source.to_csv(tmp_path / "sales.tsv", sep="\t", index=False)
    forms = {"price": tables.money, "rate": tables.percent, "sold": tables.day_in_words}
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(tables, "folder_of", lambda package: tmp_path)
    monkeypatch.setitem(tables.TABLES, "sales", tables.Origin("shop", "sales.tsv", forms))
    tables.write("sales")
    expected = 'price,rate,sold\n"$221,900.00",15.6%,13 Oct 2014\n,7%,02 Jan 2015\n'
    assert tables.file_of("sales").read_text() == expected
    with pytest.raises(SystemExit, match="build"):
        tables.file_of("none")


def test_row_numbers_are_left_out_and_names_of_rows_stay() -> None:
    numbered = pd.DataFrame({"rownames": [1, 2], "n": [3.0, None], "x": [0.5, 1.0]})
    written = tables.without_row_numbers(numbered).to_csv(index=False, na_rep="NA")
    assert written == "n,x\n3,0.5\nNA,1.0\n"
    assert "rownames" in tables.without_row_numbers(pd.DataFrame({"rownames": ["Ann", "Bo"]}))


def test_columns_are_matched_by_place() -> None:
    assert list(named_as({"": texts(1), "b": texts(2)}, {"x": texts(3), "b": texts(4)})) == ["", "b"]
    with pytest.raises(ValueError, match="1 columns, the real one 2"):
        named_as({"a": texts(1), "b": texts(2)}, {"a": texts(1)})


FLIGHTS = {
    "year": texts(2013, 2013, 2013), "month": texts(1, 7, 1), "day": texts(1, 1, 2), "hour": texts(5, 23, 6),
    "minute": texts(15, 0, 30), "sched_dep_time": texts(515, 2300, 631), "distance": texts(100, 100, 7),
    "origin": texts("EWR", "EWR", "EWR"), "dest": texts("IAH", "IAH", "IAH"),
    "time_hour": texts("2013-01-01T10:00:00Z", "2013-07-02T03:00:00Z", "2013-01-01T10:00:00Z"),
}  # fmt: skip


def test_rules_of_flights() -> None:
    found = rules.flights(FLIGHTS)
    assert found == {
        "clock": 0.6667, "date": 0.6667, "distances_per_route": 2, "one_distance": 0.6667, "years": 1
    }  # fmt: skip


def test_a_classifier_learns_from_made_rows() -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=500)
    real = {"x": texts(*inputs), "k": texts(*["u", "v"] * 250), "y": texts(*(inputs > 0).astype(int))}
    train, test = downstream.split(real)
    assert (len(train["x"]), len(test["x"])) == (400, 100)
    target = downstream.Target("y", lambda text: text == "1")
    assert (downstream.auc(train, train, test, target) or 0) > 0.95
    assert downstream.auc(train, train | {"y": texts(*[0] * 400)}, test, target) is None


def test_a_run_is_stored_shown_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "weather.csv", tmp_path / "out.jsonl"
    table.write_text("rain,sky\n" + "".join(f"{i % 7},{'sun' if i % 3 else 'NA'}\n" for i in range(1200)))
    monkeypatch.setattr(run, "file_of", lambda name: tmp_path / f"{name}.csv")
    words = ["--label", "x", "--tables", "weather", "--method", "resample", "--out", str(out)]
    words += ["--epsilons", "0.3", "--keep", str(tmp_path / "kept")]
    run.main(words)
    run.main(words)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 1
    assert (lines[0]["label"], lines[0]["rows"], lines[0]["made_constant"]) == ("x", [1200, 1200], 0)
    assert texts_of(table)["sky"][0] == "NA"
    assert len(texts_of(tmp_path / "kept" / "x-table-weather-0.3-resample-0.csv")["sky"]) == 1200
    show.main(["--out", str(out), "--columns"])
    shown = capsys.readouterr().out
    assert "weather" in shown
    assert "1 tables" in shown


def test_a_run_that_passes_its_limit_is_repeated_with_the_fast_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(table: Path, out: Path, epsilon: float, method: str, limit: int) -> dict[str, object]:
        return {"method": method, "cpu_seconds": 9.0, "exit": 0 if method == "mst" else -signal.SIGXCPU}

    monkeypatch.setattr(run, "synth", slow)
    done = run.synth_in_time(tmp_path, tmp_path, 1.0, "auto", 9)
    assert done == {"method": "mst", "cpu_seconds": 9.0, "exit": 0, "stopped_after": 9.0}


def test_notes_are_what_is_no_plan() -> None:
    assert run.notes("Plan: auto\n┏━━┓\n│ x │\n└──┘\n\nMade-up texts: a.\n") == ["Made-up texts: a."]


def test_the_command_itself_is_run(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a\n" + "1\n2\n" * 500)
    done = run.synth(table, tmp_path / "out.csv", 1.0, "independent", 100)
    assert done["exit"] == 0
    assert set(texts_of(tmp_path / "out.csv")) == {"a"}
    failed = run.synth(tmp_path / "none.csv", tmp_path / "out.csv", 1.0, "independent", 100)
    assert failed["exit"]
    assert failed["notes"]


def test_the_page_says_what_the_stored_runs_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "real_tables.md"
    page.write_text(document.PAGE.read_text())
    stored = page.read_text()
    monkeypatch.setattr(document, "PAGE", page)
    document.main([])
    assert page.read_text() == stored


def test_stored_notes_name_no_paths_of_a_traceback() -> None:
    traced = 'Traceback (most recent call last):\n  File "/home/me/x.py", line 1\nTypeError: no\n'
    printed = f"Plan: auto\nRows: 5\n{traced}"
    assert run.notes(printed) == ["Rows: 5", "TypeError: no"]
