"""A carriage return in a value ends no line, though Python and pandas write it without quotation marks."""

from __future__ import annotations

import csv
import io

import pytest

from lookalike.sources.csvfiles import read_csv

VALUES = ["a\rb", "\r\rx", 'say "\r"', "\x1e0\x1f", "\x1e", "a\r\nb", "x,\ry"]


@pytest.mark.parametrize("value", VALUES, ids=ascii)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=ascii)
def test_a_carriage_return_within_a_value_is_kept(value: str, line_end: str) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator=line_end).writerows([["c", "d"], ["x", "1"], [value, "2"], ["\x1e", "3"]])
    table, style = read_csv(stream.getvalue().encode(), "t.csv")
    assert table.to_pydict() == {"c": ["x", value, "\x1e"], "d": ["1", "2", "3"]}
    assert style.line_end == line_end


@pytest.mark.parametrize("value", ["a\nb", "x\n\ny", "x,\ny"], ids=ascii)
def test_a_line_feed_within_a_value_is_kept_where_lines_end_with_carriage_returns(value: str) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r").writerows([["c", "d"], ["x", "1"], [value, "2"]])
    assert read_csv(stream.getvalue().encode(), "t.csv")[0].to_pydict() == {"c": ["x", value], "d": ["1", "2"]}


def test_line_ends_may_be_mixed_and_a_last_carriage_return_belongs_to_its_line_end() -> None:
    table, _ = read_csv(b"c,d\nx,1\r\ny,2\n\r,\r\n", "t.csv")
    assert table.to_pydict() == {"c": ["x", "y", "\r"], "d": ["1", "2", None]}
