"""A schema from exact rows, in whose values and bins a real and a synthetic table are compared. NOT PRIVATE."""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.arrays import texts_of, to_numbers
from lookalike.schema.binned import Binned, Continuous
from lookalike.schema.columns import NULL, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.form_columns import column_of, detail_of, markers_of
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft, is_text
from lookalike.schema.text_forms import AFFIXES, FORMS, OFFSETS, Form, affix_of, form_of, offset_of

MAX_VALUES, MAX_BINS = 100, 16
"""Values of a category and bins of a number that are compared; rarer values are compared as `other`."""


def exact_schema(rows: pa.Table) -> Schema:
    """Return the schema that fits these rows: kinds, formats, frequent values and quantiles. NOT PRIVATE."""
    drafted = draft(rows.schema)
    columns = [
        _filled(replace(column, storage=str(rows.schema.field(column.name).type)), rows.column(column.name))
        for column in drafted.columns
    ]
    # The synthetic table may be stored in other types, such as the texts of a CSV file.
    return Schema(tuple(replace(column, storage="") for column in columns))


def _filled(column: Column, values: pa.ChunkedArray) -> Column:
    array = values.combine_chunks()
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    texts = texts_of(array)
    forms = {FORMS[i]: float(n) for i, n in enumerate(np.bincount(form_of(texts), minlength=len(FORMS))) if n}
    if isinstance(column, Undeclared):
        column = _kind(column.name, texts, forms)
    missing = markers_of(forms, words=isinstance(column, Binned)) if is_text(array.type) else ()
    missing = tuple(dict.fromkeys((*([NULL] if array.null_count else []), *missing)))
    if not isinstance(column, Categorical) or not set(missing) & set(column.values or ()):
        column = replace(column, missing=missing)
    if isinstance(column, Categorical) and column.values is None:
        column = _with_values(column, texts)
    if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
        column = _with_bins(column, array)
    return measured(column, *column.open_facts)


def _kind(name: str, texts: pa.Array, forms: dict[Form, float]) -> Column:
    """A number, time or category, by how most of the texts are written."""
    facts: dict[str, Any] = {}
    detail = detail_of(forms) if forms else ""
    if detail == "affix":
        common = int(np.argmax(np.bincount(affix_of(texts), minlength=len(AFFIXES))[:-1]))
        facts = dict(zip(("prefix", "suffix"), AFFIXES[common], strict=True))
    elif detail == "offset":
        facts = {"zone": OFFSETS[int(np.argmax(np.bincount(offset_of(texts), minlength=len(OFFSETS))[:-1]))]}
    values = {form: count for form, count in forms.items() if form.family not in ("missing", "word")}
    return (column_of(name, forms, **facts) if values else None) or Categorical(name)


def _with_values(column: Categorical, texts: pa.Array) -> Column:
    """The column with its most frequent values; an identifier where most values occur once."""
    counted = pc.value_counts(texts.drop_null()).to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in counted if entry["values"] not in column.missing}
    if len(counts) > max(MAX_VALUES, sum(counts.values()) // 2):
        return Identifier(column.name, missing=column.missing)
    names = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_VALUES] or ["none"]
    return measured(column, "values", values=tuple(names), outside="other")


def _with_bins(column: Binned, array: pa.Array) -> Binned:
    """The column with its bounds, and bins that hold about as many rows each."""
    numbers, readable = to_numbers(column, array)
    numbers = numbers[readable]
    if isinstance(column, Continuous):
        numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        numbers = np.zeros(1, dtype=np.int64)
    cuts = np.quantile(numbers, np.arange(MAX_BINS) / MAX_BINS, method="lower")
    edges = [column.external(edge) for edge in np.unique(cuts).tolist()]
    bounds = {"minimum": edges[0], "maximum": column.external(numbers.max().item())}
    return measured(column, "bounds", "bins", **bounds, bins=tuple(edges), outside="clamp")
