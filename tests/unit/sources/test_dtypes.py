"""The type of a frame's column follows from its dtype, whatever its cells hold."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lookalike.errors import InputError, SchemaError
from lookalike.schema.storage import draft
from lookalike.sources.frames import read_structure, read_table, to_frame

TEXT = pa.large_string()
CATEGORY = pa.dictionary(pa.int32(), TEXT)


class Silent:
    """An object that cannot be written."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


CELLS = st.one_of(
    st.none(), st.sampled_from([np.nan, pd.NA, pd.NaT, Decimal("sNaN"), np.datetime64("NaT"), Silent(), 10**5000]),
    st.text(st.characters()), st.binary(max_size=5), st.booleans(), st.integers(), st.floats(), st.complex_numbers(),
    st.decimals(), st.fractions(), st.uuids(), st.dates(), st.times(), st.timedeltas(),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC])), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.tuples(st.integers(), st.text(max_size=2)),
    st.sampled_from([np.float32("nan"), np.int8(3), np.bool_(True), np.array([1, 2]), pd.Interval(0, 1), object]),
)  # fmt: skip
USUAL: list[list[Any]] = [
    ["a", "b"], [Decimal("1.50"), Decimal("20.25")], [None, None], [1, 2], [True, None], [b"x", b"y"],
    [dt.date(2024, 1, 1), None], [],
]  # fmt: skip


def objects(values: list[Any]) -> pd.Series:
    """A column of objects, each as it is: also those that pandas would take apart."""
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return pd.Series(column, dtype=object)


@given(st.sampled_from(USUAL), CELLS)
@example([Decimal("1.50")], Decimal("12345678901.125"))
@example([None, None], "text")
@example(["a"], b"bytes")
@example(["a"], "\ud800")
@example([1, 2], [3])
def test_a_cell_of_an_object_column_changes_no_type_and_no_other_cell(usual: list[Any], cell: Any) -> None:
    before, after = (pd.DataFrame({"o": objects(values)}) for values in (usual, [*usual, cell]))
    assert read_structure(before) == read_structure(after) == pa.schema([("o", TEXT)])
    (one, form), (two, _) = read_table(before), read_table(after)
    assert one.schema == two.schema == read_structure(before)
    assert two.column("o").to_pylist()[: len(usual)] == one.column("o").to_pylist()
    back = to_frame(two, form)["o"]
    assert back.dtype == object
    assert all(value is None or isinstance(value, str) or value != value for value in back)


@given(st.sampled_from(USUAL[:4]), st.one_of(st.none(), st.text(max_size=5), st.integers(), st.dates(), st.fractions()))
def test_a_new_category_changes_no_type_and_no_other_cell(usual: list[Any], cell: Any) -> None:
    before, after = (pd.DataFrame({"c": objects(v).astype("category")}) for v in (usual, [*usual, cell]))
    (one, form), (two, other) = read_table(before), read_table(after)
    assert one.schema == two.schema == read_structure(before) == read_structure(after) == pa.schema([("c", CATEGORY)])
    assert repr(form) == repr(other)
    assert two.column("c").to_pylist()[: len(usual)] == one.column("c").to_pylist()
    assert isinstance(to_frame(two, form)["c"].dtype, pd.CategoricalDtype)


def test_the_number_of_categories_does_not_show_in_the_type() -> None:
    few, many = (pd.DataFrame({"c": pd.Categorical([str(i) for i in range(n)])}) for n in (3, 70_000))
    assert read_table(few)[0].schema == read_table(many)[0].schema == pa.schema([("c", CATEGORY)])


def test_the_texts_of_objects() -> None:
    given = [None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.datetime64("NaT"), Silent(), True, np.bool_(False), b"x"]
    given += [Decimal("1.50"), dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 12), 7, 2.5, "NA", "", (1, "a"), "\ud800"]
    texts = [None] * 7 + ["true", "false", "b'x'"]
    texts += ["1.50", "2024-05-01", "2024-05-01 12:00:00", "7", "2.5", "NA", "", "(1, 'a')", "\\ud800"]
    assert read_table(pd.DataFrame({"o": objects(given)}))[0].column("o").to_pylist() == texts


PANDAS_TYPES = {
    "int8": pa.int8(), "float16": pa.float16(), "bool": pa.bool_(), "Int64": pa.int64(), "boolean": pa.bool_(),
    "Float32": pa.float32(), "str": TEXT, "string[python]": TEXT, "string[pyarrow]": TEXT, "object": TEXT,
    "datetime64[s]": pa.timestamp("s"), "datetime64[ns, Europe/Paris]": pa.timestamp("ns", "Europe/Paris"),
    "category": CATEGORY, pd.CategoricalDtype(ordered=True): pa.dictionary(pa.int32(), TEXT, ordered=True),
    pd.ArrowDtype(pa.decimal128(5, 2)): pa.decimal128(5, 2), pd.ArrowDtype(pa.int64()): pa.int64(),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), PANDAS_TYPES.items(), ids=str)
def test_pandas_dtypes_have_one_type_each(dtype: Any, kind: pa.DataType) -> None:
    usual: list[Any] = ["2024-01-01"] if "datetime" in str(dtype) else [1]
    usual = [Decimal(1)] if "decimal" in str(dtype) else ["a"] if kind == TEXT else usual
    for values in ([], usual, [None] if dtype not in ("int8", "bool") else []):
        frame = pd.DataFrame({"c": pd.Series(values, dtype=dtype)})
        table, form = read_table(frame)
        assert table.schema == read_structure(frame) == pa.schema([("c", kind)])
        assert to_frame(table, form)["c"].dtype.name == frame["c"].dtype.name


POLARS_TYPES = {
    pl.String: TEXT, pl.Categorical: pa.dictionary(pa.uint32(), TEXT), pl.Null: pa.null(), pl.UInt8: pa.uint8(),
    pl.Decimal(9, 2): pa.decimal128(9, 2), pl.Date: pa.date32(), pl.Datetime("ms"): pa.timestamp("ms"),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), POLARS_TYPES.items(), ids=str)
def test_polars_dtypes_have_one_type_each(dtype: Any, kind: pa.DataType) -> None:
    for values in ([], [None]):
        frame = pl.DataFrame({"c": pl.Series(values, dtype=dtype)})
        table, form = read_table(frame)
        assert table.schema == read_structure(frame) == read_structure(frame.lazy()) == pa.schema([("c", kind)])
        assert to_frame(table, form).schema == frame.schema


REFUSED = {
    "PeriodDtype": lambda: pd.Series(pd.period_range("2024", periods=2)),
    "IntervalDtype": lambda: pd.Series(pd.interval_range(0, 2)),
    "SparseDtype": lambda: pd.Series(pd.arrays.SparseArray([41, 0])),
    "complex128": lambda: pd.Series([1j, 2]),
    "float128": lambda: pd.Series(np.array([1, 2], dtype=np.longdouble)),
    "Object": lambda: pl.Series([object(), object()], dtype=pl.Object),
    "Int128": lambda: pl.Series([1, 2], dtype=pl.Int128),
}


@pytest.mark.parametrize("dtype", REFUSED)
@pytest.mark.parametrize("rows", [0, 2])
def test_other_dtypes_are_refused_by_name_with_or_without_rows(dtype: str, rows: int) -> None:
    series: Any = REFUSED[dtype]()[:rows]
    frame = pd.DataFrame({"odd": series}) if isinstance(series, pd.Series) else pl.DataFrame({"odd": series})
    for read in (read_table, read_structure):
        with pytest.raises(InputError, match=f"Column 'odd' has dtype {dtype}, which cannot be read. Convert it"):
            read(frame)


@pytest.mark.parametrize(
    "series",
    [pl.Series([[1]]), pl.Series([{"a": 1}]), pl.Series([b"x"])],
    ids=lambda series: str(series.dtype.base_type()),
)
def test_types_of_no_kind_of_column_are_refused_by_the_draft(series: pl.Series) -> None:
    for rows in (0, 1):
        with pytest.raises(SchemaError, match=r"Column 'odd' is stored as .* Convert it"):
            draft(read_structure(pl.DataFrame({"odd": series[:rows]})))


def test_names_that_are_no_texts_or_occur_twice() -> None:
    with pytest.raises(InputError, match="name is not a text or a whole number"):
        read_structure(pd.DataFrame({("a", "b"): [1]}))
    for read in (read_table, read_structure):
        with pytest.raises(InputError, match="two columns"):
            read(pd.DataFrame([[1, 2]], columns=["a", "a"]))
