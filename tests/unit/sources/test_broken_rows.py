"""Rows of a CSV file that are not as CSV demands: each is read as `read_csv` says, and changes no other row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.sources.csvfiles import read_csv

SOUND = [("1", "x"), ("2", 'a "b", c'), ("3", None)]
BEFORE, AFTER = b'1,x\n2,"a ""b"", c"\n', b"3,\n"
BROKEN = {
    b"4\n": ("4", None),
    b"4,y,z,,\n": ("4", "y"),
    b",,,\n": (None, None),
    b'"4,5",y,"z\n"\n': ("4,5", "y"),
    b'"4","a\nb""",\n': ("4", 'a\nb"'),
    b" \n": (" ", None),
    b'"4,y\n': ('"4', "y"),
    b'4,"y\n': ("4", '"y'),
    b'4,"y ""z""\n': ("4", '"y ""z""'),
    b'4,5" pipe\n': ("4", '5" pipe'),
    b'"4"5"6,y\n': ('45"6', "y"),
    b"\xff4,\xc3\n": ("\ufffd4", "\ufffd"),
    b"4,\xe6\x9d\n": ("4", "\ufffd"),
    b"\0,y\0\n": ("\0", "y\0"),
    b"4\r,\ry\n": ("4\r", "\ry"),
}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=ascii)
@pytest.mark.parametrize("line", BROKEN, ids=ascii)
def test_a_broken_line_is_one_row_and_changes_no_other(line: bytes, line_end: bytes) -> None:
    data = (b"a,b\n" + BEFORE + line + AFTER).replace(b"\n", line_end)
    table, _ = read_csv(data, "t.csv")
    rows = list(zip(*table.to_pydict().values(), strict=True))
    expected = tuple(text and text.replace("\n", line_end.decode()) for text in BROKEN[line])
    assert sorted(rows, key=repr) == sorted([*SOUND, expected], key=repr)


@pytest.mark.parametrize(
    ("data", "rows"),
    [(b"a\n", []), (b"a\n\n", [None]), (b'a\n"\n1\n', ['"', "1"]), (b"a\n1,2\n\n3", [None, "3", "1"])],
)
def test_one_column(data: bytes, rows: list[str | None]) -> None:
    assert read_csv(data, "t.csv")[0].column(0).to_pylist() == rows


def test_a_quotation_mark_that_a_later_line_closes_makes_one_row_of_the_lines_between() -> None:
    table, _ = read_csv(b'a,b\n1,"x\n2,y\n3,z"\n4,w\n', "t.csv")
    assert table.to_pydict() == {"a": ["1", "4"], "b": ["x\n2,y\n3,z", "w"]}


HEADERS = st.sampled_from([b"a\n", b"a,b\n", b"a;b\r\n", b"a\tb\tc\r", b"\xef\xbb\xbfa|b\n"])


@given(HEADERS, st.lists(st.sampled_from([bytes([byte]) for byte in b'ab,;\t|"\n\r\0\xff\x1e0\x1f'])).map(b"".join))
def test_whatever_follows_the_header_is_read(header: bytes, rows: bytes) -> None:
    table, _ = read_csv(header + rows, "t.csv")
    table.validate(full=True)


@given(st.binary())
def test_any_bytes_after_the_header_are_read(rows: bytes) -> None:
    assert read_csv(b"a,b\n" + rows, "t.csv")[0].num_rows <= rows.count(b"\n") + 1
