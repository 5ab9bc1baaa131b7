"""Reads tables from files and from pandas, polars and Arrow frames, and makes frames of the same kind.

Inside, every table is an Arrow table. Messages name places and limits, never a value of the table.

The columns of pandas and polars frames become Arrow arrays by their dtypes alone: names and types are public, values
are not, so no value may decide a type. A pandas column of objects is text, whatever it holds; so is a column of
categories, whose list is private. A dtype that cannot be read is refused by name.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, SchemaError
from lookalike.schema.schema import check_names
from lookalike.schema.storage import with_values
from lookalike.sources.base import Place
from lookalike.sources.csvfiles import CsvStyle
from lookalike.sources.files import TableFile, file_structure, read_file

_NUMPY_KINDS = "biufMm"
_NULLABLE = (
    "boolean",
    "Float32",
    "Float64",
    *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)),
)
CATEGORY = "category"


@dataclass(frozen=True, slots=True)
class TableForm:
    """The kind and format of a table, so that another can be written the same way. Public: names and types only.

    Attributes:
        kind: a kind of file of `files.py`, pandas, polars or arrow.
        csv: delimiter and line ends of a CSV file.
        dtypes: dtype of each column of a pandas or polars frame, by name; of a pandas category column only that it is
            one, for its dtype holds the list of categories.
        names: names of pandas columns that are not texts, such as numbers, by the texts that stand for them.
    """

    kind: str
    csv: CsvStyle = field(default_factory=CsvStyle)
    dtypes: dict[str, Any] = field(default_factory=dict, compare=False)
    names: dict[str, Any] = field(default_factory=dict, compare=False)


def read_table(source: Any) -> tuple[pa.Table, TableForm]:
    """The Arrow table and the form of a path or of a pandas, polars or Arrow frame. It may have no rows.

    Raises:
        InputError: the file cannot be read as a table, or there are no columns.
    """
    if isinstance(source, str | os.PathLike):
        table, kind, style = read_file(TableFile.at(source))
        table, form = _plain(table), TableForm(kind, csv=style)
    else:
        table, form = _read_frame(source)
    _check_columns(table.schema)
    return table, form


def read_structure(source: Any) -> pa.Schema:
    """Names, order and storage types of a table's columns, which are public, without its rows.

    Of a file of texts only the header is read, of other files only the types.
    """
    if isinstance(source, Place):
        types = source.structure()
    elif isinstance(source, str | os.PathLike):
        types = _plain_schema(file_structure(TableFile.at(source)))
    else:
        types = _read_frame(source, rows=False)[0].schema
    _check_columns(types)
    return types


def _check_columns(types: pa.Schema) -> None:
    try:
        check_names(types.names, "The table")
    except SchemaError as error:
        raise InputError(str(error)) from None
    if not types.names:
        raise InputError("The table has no columns; it needs at least 1.")


def _read_frame(frame: Any, *, rows: bool = True) -> tuple[pa.Table, TableForm]:
    """The table and form of a frame; with `rows=False` no value of it is used."""
    if isinstance(frame, pa.Table):
        return _plain(frame if rows else frame.slice(0, 0)), TableForm("arrow")
    try:
        wrapped: Any = nw.from_native(frame, pass_through=False)
    except TypeError:
        raise InputError(
            f"Cannot read a table from {type(frame).__name__}. Give a path, or a pandas, polars or Arrow table."
        ) from None
    except nw.exceptions.DuplicateError:
        raise InputError("The table has two columns of the same name. Rename one of the two.") from None
    wrapped = wrapped if rows else wrapped.head(0)
    if isinstance(wrapped, nw.LazyFrame):
        wrapped = wrapped.collect()
    if wrapped.implementation.is_pandas_like():
        plain, names = _with_texts_as_names(_with_index(wrapped.to_pandas()))
        table, dtypes = pandas_table(plain)
        return table, TableForm("pandas", dtypes=dtypes, names=names)
    if wrapped.implementation.is_polars():
        table, dtypes = polars_table(wrapped.to_native())
        return table, TableForm("polars", dtypes=dtypes)
    return _plain(wrapped.to_arrow()), TableForm("arrow")


def index_columns(frame: Any) -> list[str]:
    """The levels of a pandas index that are kept as columns: those with a name, and times. Row numbers are not."""
    index = getattr(frame, "index", None)
    if index is None or not hasattr(frame, "reset_index"):
        return []
    if index.nlevels > 1 or index.name is not None or getattr(index.dtype, "kind", "") == "M":
        unnamed = ["index"] if index.nlevels == 1 else [f"level_{i}" for i in range(index.nlevels)]
        return [str(new if name is None else name) for name, new in zip(index.names, unnamed, strict=True)]
    return []


def is_spark_frame(table: Any) -> bool:
    """Whether an object is a DataFrame of Spark. Nothing is imported for it."""
    return type(table).__module__.startswith("pyspark.sql") and hasattr(table, "mapInArrow")


def _with_index(frame: Any) -> Any:
    kept = index_columns(frame)
    for name in set(kept) & set(map(str, frame.columns)):
        raise InputError(f"The index has the name of a column, {name!r}. Rename the index, or drop it.")
    return frame.reset_index() if kept else frame


def _with_texts_as_names(frame: Any) -> tuple[Any, dict[str, Any]]:
    """The frame with texts as names, and the original names that were not texts."""
    names = {str(name): name for name in frame.columns if not isinstance(name, str)}
    if any(not isinstance(name, int | np.integer) for name in names.values()):
        raise InputError("The table has a column whose name is not a text or a whole number. Rename the columns.")
    if not names:
        return frame, {}
    texts = [str(name) for name in frame.columns]
    if len(set(texts)) < len(texts):
        raise InputError("The table has two columns whose names read the same as texts. Rename one of the two.")
    return frame.set_axis(texts, axis=1), names


def _plain(table: pa.Table) -> pa.Table:
    """The table without metadata, which may hold an index, statistics or lists of values."""
    return pa.Table.from_arrays(table.columns, schema=_plain_schema(table.schema))


def _plain_schema(types: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in types])


def pandas_table(frame: Any) -> tuple[pa.Table, dict[str, Any]]:
    """A pandas frame as an Arrow table, and the dtypes in which its columns can go back.

    A dtype of categories holds their private list, so only its name is kept.
    """
    import pandas as pd

    arrays: dict[str, Any] = {}
    dtypes: dict[str, Any] = {}
    for name in frame.columns:
        series = frame[name]
        categorical = isinstance(series.dtype, pd.CategoricalDtype)
        arrays[name] = _category_array(series) if categorical else _pandas_array(name, series)
        dtypes[name] = CATEGORY if categorical else series.dtype
    return pa.table(arrays), dtypes


def _pandas_array(name: str, series: Any) -> Any:
    import pandas as pd

    dtype = series.dtype
    if getattr(dtype, "kind", "") == "m":  # a length of time is a number of seconds
        return pa.array(series.dt.total_seconds(), pa.float64(), from_pandas=True)
    python_texts = isinstance(dtype, pd.StringDtype) and dtype.storage == "python"
    if dtype == np.dtype(object) or python_texts:
        return text_array(series.tolist())
    known = dtype.kind in _NUMPY_KINDS if isinstance(dtype, np.dtype) else dtype.name in _NULLABLE
    if not known and not isinstance(dtype, pd.StringDtype | pd.DatetimeTZDtype | pd.ArrowDtype):
        raise _refused(name, dtype.name if isinstance(dtype, np.dtype) else type(dtype).__name__)
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise _refused(name, dtype.name) from None
    return array.cast(pa.large_string()) if isinstance(dtype, pd.StringDtype) else array


def _category_array(series: Any) -> pa.DictionaryArray:
    """The texts of the categories that occur. The Arrow type shows neither number nor type of the categories."""
    codes = series.cat.codes.to_numpy().astype(np.int64)
    texts = text_array(series.cat.categories.tolist()).take(pa.array(codes, mask=codes < 0)).dictionary_encode()
    return pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary, ordered=bool(series.cat.ordered))


def text_array(values: Iterable[Any]) -> pa.Array:
    """Each value's text, null where it has none; no value's text depends on another value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = [value if type(value) is str else _text(value) for value in values]
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        # A lone surrogate, which UTF-8 cannot encode, is written as its number.
        clean = [text and text.encode("utf-8", "backslashreplace").decode() for text in texts]
        return pa.array(clean, pa.large_string())


def _text(value: Any) -> str | None:
    """`str` of a value, for booleans as schemas write them. None, NaN, NaT and what Python cannot write are null."""
    import pandas as pd

    try:
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return None
        return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
    except Exception:  # noqa: BLE001 - an object may raise anything, and its row must not stop a run
        return None


def polars_table(frame: Any) -> tuple[pa.Table, dict[str, Any]]:
    """A polars frame as an Arrow table, and its dtypes.

    The list of an Enum belongs to its dtype, so it is public; the list of a Categorical does not.
    """
    import polars

    fields, arrays, dtypes = [], [], {}
    for name, dtype in frame.schema.items():
        try:
            series = frame[name]
            if isinstance(dtype, polars.Duration):  # a number of seconds
                series = series.dt.total_microseconds() / 1e6
            array = series.to_arrow() if dtype != polars.Object else None
        except (pa.ArrowException, NotImplementedError):
            array = None
        if array is None:
            raise _refused(name, str(dtype.base_type()))
        field = pa.field(name, array.type)
        fields.append(with_values(field, dtype.categories.to_list()) if isinstance(dtype, polars.Enum) else field)
        arrays.append(array)
        dtypes[name] = dtype
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), dtypes


def _refused(name: str, dtype: str) -> InputError:
    remedy = "Convert it to a dtype of texts, numbers, times or booleans, or drop it."
    return InputError(f"Column {name!r} has dtype {dtype}, which cannot be read. {remedy}")


def to_frame(table: pa.Table, form: TableForm) -> Any:
    """The table as a frame of the given form: pandas, polars, else Arrow."""
    if form.kind == "pandas":
        frame = _pandas_frame(table, form.dtypes)
        return frame.rename(columns=form.names) if form.names else frame
    return _polars_frame(table, form.dtypes) if form.kind == "polars" else table


def _pandas_frame(table: pa.Table, dtypes: dict[str, Any]) -> Any:
    """The Arrow table as a pandas frame with these dtypes; a category column gets the categories of the Arrow table."""
    import pandas as pd

    frame: Any = table.to_pandas()
    for name, dtype in dtypes.items():
        if name not in frame.columns or frame[name].dtype == dtype:
            continue
        if isinstance(dtype, pd.ArrowDtype):
            frame[name] = pd.array(table.column(name).cast(dtype.pyarrow_dtype), dtype=dtype)
        elif getattr(dtype, "kind", "") == "m":
            frame[name] = pd.to_timedelta(frame[name].astype(float), unit="s").astype(dtype)
        elif not isinstance(dtype, str):
            frame[name] = frame[name].astype(dtype)
    return frame


def _polars_frame(table: pa.Table, dtypes: dict[str, Any]) -> Any:
    """The Arrow table as a polars frame with these dtypes."""
    import polars

    frame: Any = polars.from_arrow(table)
    for name, dtype in dtypes.items():
        if name not in frame.columns or frame.schema[name] == dtype:
            continue
        texts = frame[name].cast(polars.String) if isinstance(dtype, polars.Enum) else None
        if isinstance(dtype, polars.Duration):
            ticks = (polars.col(name) * 1e6).round(0).cast(polars.Int64).cast(polars.Duration("us"))
            frame = frame.with_columns(ticks.cast(dtype))
            continue
        # With another schema, values may occur that the Enum does not have: they stay texts.
        if texts is None:
            frame = frame.with_columns(polars.col(name).cast(dtype))
        elif set(texts.drop_nulls().unique()) <= set(dtype.categories):
            frame = frame.with_columns(texts.cast(dtype))
    return frame
