"""A schema from exact rows, in whose values and bins a real and a synthetic table are compared. NOT PRIVATE."""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.arrays import texts_of, to_numbers
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.columns import NULL, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.probes import COMMA_FORMS, MARKERS, NUMBER_FORMS, TIME_FORMS
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft, is_text

MAX_VALUES, MAX_BINS = 100, 16
"""Values of a category and bins of a number that are compared; rarer values are compared as `other`."""
_MOSTLY = 0.95
"""Share of the texts that must be written as numbers, or as times of one format, to make the column one."""


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
    absent = tuple(m for m in MARKERS if m and is_text(array.type) and pc.any(pc.equal(texts, m)).as_py())
    missing = (NULL, *absent) if array.null_count else absent
    if isinstance(column, Undeclared):
        column = _kind(column.name, texts.filter(pc.invert(pc.is_in(texts, pa.array(MARKERS)))).drop_null())
    if not isinstance(column, Categorical) or not set(missing) & set(column.values or ()):
        column = replace(column, missing=missing)
    if isinstance(column, Categorical) and column.values is None:
        column = _with_values(column, texts)
    if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
        column = _with_bins(column, array)
    return measured(column, *column.open_facts)


def _kind(name: str, texts: pa.Array) -> Column:
    """A number, time or category, by how most of the texts are written."""
    shares = {form: _share(texts, pattern) for form, pattern in {**NUMBER_FORMS, **COMMA_FORMS, **TIME_FORMS}.items()}
    for comma, forms in ((False, NUMBER_FORMS), (True, {"whole": "", **COMMA_FORMS})):
        if max(shares[form] for form in forms) > 0 and _all_shares(texts, forms) >= _MOSTLY and not shares["padded"]:
            places = [int(form.split()[1]) for form in forms if form[-1].isdigit() and " " in form and shares[form]]
            if shares["whole"] >= _MOSTLY:
                return Integer(name)
            return Continuous(name, decimals=max(places, default=None), comma=comma)
    times = {form: share for form, share in shares.items() if form in TIME_FORMS}
    clocks = {form.removeprefix("either:") for form in times if form.startswith("either:") and times[form]}
    for clock in clocks:  # days up to 12 can be read day-first and month-first: the others decide
        for form in (f"%d/%m/%Y{clock}", f"%m/%d/%Y{clock}"):
            times[form] += times[f"either:{clock}"]
    best = max((form for form in times if not form.startswith("either:")), key=lambda form: times[form])
    if times[best] >= _MOSTLY:
        return Datetime(name, format=best, zone="UTC" if "z" in best else "")
    return Categorical(name)


def _share(texts: pa.Array, pattern: str) -> float:
    """The share of texts that a pattern matches."""
    return pc.mean(pc.match_substring_regex(texts, f"^\\s*({pattern})\\s*$").cast(pa.float64())).as_py() or 0.0


def _all_shares(texts: pa.Array, forms: Iterable[str]) -> float:
    """The share of texts that any of the forms matches."""
    patterns = {**NUMBER_FORMS, **COMMA_FORMS}
    return _share(texts, "|".join(patterns[form] for form in forms))


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
