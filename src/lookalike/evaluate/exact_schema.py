"""A schema from exact rows, in whose values and bins a real and a synthetic table are compared. NOT PRIVATE."""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.discovery import forms
from lookalike.schema.arrays import texts_of, to_numbers
from lookalike.schema.binned import Binned, Continuous
from lookalike.schema.columns import Categorical, Column, Identifier, measured
from lookalike.schema.probes import form_probe
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft

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
    if {"type", "missing", "decimals"} & set(column.open_facts):
        probe = form_probe(column)
        counts = np.bincount(probe.codes(array), minlength=probe.size).astype(float)
        column, _ = forms.decided(column, probe, counts, stddev=1e-9)
    if isinstance(column, Categorical) and "values" in column.open_facts:
        column = _with_values(column, array)
    if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
        column = _with_bins(column, array)
    return measured(column, *column.open_facts)


def _with_values(column: Categorical, array: pa.Array) -> Column:
    """The column with its most frequent values; an identifier where most values occur once."""
    counted = pc.value_counts(texts_of(array).drop_null()).to_pylist()
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
