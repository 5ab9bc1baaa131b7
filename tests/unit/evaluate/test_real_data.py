"""The schema of exact rows: kinds, frequent values, bounds and bins of what is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lookalike.evaluate.real_data import MAX_BINS, MAX_VALUES, exact_schema
from lookalike.schema import codec
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Identifier

ROWS = 400


def texts() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": [str(n) for n in rng.integers(0, 99, ROWS)],
            "price": [f"{x:.2f}" for x in rng.gamma(2, 9, ROWS)],
            "day": [f"{1 + n % 28:02d}.{1 + n % 12:02d}.2023" for n in range(ROWS)],
            "sex": ["FM?"[n % 3] for n in range(ROWS)],
            "town": [f"t{n % 150}" for n in range(ROWS)],
            "note": [f"text {n}" for n in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.string()),
        }
    )


def test_kinds_values_and_bins_are_those_of_the_rows() -> None:
    schema = exact_schema(texts())
    assert not schema.open_facts
    kinds = {"age": Integer, "price": Continuous, "day": Datetime, "sex": Categorical, "note": Identifier}
    assert {name: type(schema[name]) for name in kinds} == kinds
    assert schema["sex"].missing == ("?",)
    assert schema["sex"].values == ("F", "M")
    assert len(schema["town"].values) == MAX_VALUES
    assert (schema["age"].minimum, schema["age"].regular) == (0, MAX_BINS)


def test_the_rows_are_spread_evenly_over_the_bins_and_all_can_be_encoded() -> None:
    rows = texts()
    schema = exact_schema(rows)
    counts = np.bincount(codec.encode(schema, rows)[:, 1], minlength=schema["price"].size)
    assert counts[: schema["price"].regular].min() > 0
    assert counts.max() < 3 * ROWS / MAX_BINS


def test_typed_columns_and_texts_of_the_same_values_give_the_same_codes() -> None:
    typed = pa.table({"n": [1, 5, 9, 9] * 20, "x": [0.5, None, 2.25, 1.0] * 20, "b": [True, False, True, None] * 20})
    as_text = pa.table(
        {
            "n": [str(n) for n in typed["n"].to_pylist()],
            "x": [None if x is None else str(x) for x in typed["x"].to_pylist()],
            "b": [None if b is None else str(b).lower() for b in typed["b"].to_pylist()],
        }
    )
    schema = exact_schema(typed)
    assert np.array_equal(codec.encode(schema, typed), codec.encode(schema, as_text))
