"""Columns of pandas and polars frames as Arrow arrays, by their dtypes alone.

Names and types are public, values are not: so no value may decide a type. A pandas column of objects is text, whatever
stands in it; so is a column of categories, whose list is private. A dtype that cannot be read is refused by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.schema.storage import with_values

_NUMPY_KINDS = "biufMm"
_NULLABLE = (
    "boolean",
    *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)),
    "Float32",
    "Float64",
)
CATEGORY = "category"


def pandas_table(frame: Any) -> tuple[pa.Table, dict[str, Any]]:
    """A pandas frame as an Arrow table, and the dtypes in which its columns can go back.

    A dtype of categories holds their list, so it is not kept: its name is.
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
    """Texts of those categories that occur. The number and the type of the categories do not show in the Arrow type."""
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
        # Half a pair of surrogates, which UTF-8 does not have, is written as its number.
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


def pandas_frame(table: pa.Table, dtypes: dict[str, Any]) -> Any:
    """The Arrow table as a pandas frame with these dtypes; a category column gets the categories of the Arrow table."""
    import pandas as pd

    frame: Any = table.to_pandas()
    for name, dtype in dtypes.items():
        if name not in frame.columns or frame[name].dtype == dtype:
            continue
        if isinstance(dtype, pd.ArrowDtype):
            frame[name] = pd.array(table.column(name).cast(dtype.pyarrow_dtype), dtype=dtype)
        elif not isinstance(dtype, str):
            frame[name] = frame[name].astype(dtype)
    return frame


def polars_table(frame: Any) -> tuple[pa.Table, dict[str, Any]]:
    """A polars frame as an Arrow table, and its dtypes.

    The list of an Enum belongs to its dtype, so it is public; the list of a Categorical does not.
    """
    import polars

    fields, arrays, dtypes = [], [], {}
    for name, dtype in frame.schema.items():
        try:
            array = frame[name].to_arrow() if dtype != polars.Object else None
        except (pa.ArrowException, NotImplementedError):
            array = None
        if array is None:
            raise _refused(name, str(dtype.base_type()))
        field = pa.field(name, array.type)
        fields.append(with_values(field, dtype.categories.to_list()) if isinstance(dtype, polars.Enum) else field)
        arrays.append(array)
        dtypes[name] = dtype
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), dtypes


def polars_frame(table: pa.Table, dtypes: dict[str, Any]) -> Any:
    """The Arrow table as a polars frame with these dtypes."""
    import polars

    frame: Any = polars.from_arrow(table)
    for name, dtype in dtypes.items():
        if name not in frame.columns or frame.schema[name] == dtype:
            continue
        texts = frame[name].cast(polars.String) if isinstance(dtype, polars.Enum) else None
        # A schema of one's own may make other values than the Enum has: they stay texts.
        if texts is None:
            frame = frame.with_columns(polars.col(name).cast(dtype))
        elif set(texts.drop_nulls().unique()) <= set(dtype.categories):
            frame = frame.with_columns(texts.cast(dtype))
    return frame


def _refused(name: str, dtype: str) -> InputError:
    remedy = "Convert it to a dtype of texts, numbers, times or booleans, or drop it."
    return InputError(f"Column {name!r} has dtype {dtype}, which cannot be read. {remedy}")
