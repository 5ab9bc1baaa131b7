"""Noisy counts in schema files: kept, left out when their column changes, refused when they make no sense."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Integer
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.explained import save_explained
from lookalike.schema.hints import Hints
from lookalike.schema.schema import MAX_COUNTS_IN_ALL, Schema, fingerprint_of

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=(0, 30, 60), provenance={"bins": "measured"}),
        Categorical("sex", ("F", "M"), missing=("?",)),
        Continuous("pay", minimum=0.0, maximum=1e6, bins=4, decimals=2),
        Identifier("name"),
    )
)
COUNTS = [("age", 12.3456, [1.23456, -7.0, 3.0]), ("sex", 2.0, [5.0, 6.0, 0.5, 1.0]), ("name", 0.02, [9.87654])]


def test_counts_come_back_from_a_file(tmp_path: Path) -> None:
    schema = SCHEMA.with_counts(COUNTS)
    save_explained(schema, tmp_path / "s.yaml")
    again = Schema.load(tmp_path / "s.yaml")
    assert again.counts == schema.counts == again.known_counts
    assert again.fingerprint() == schema.fingerprint() != SCHEMA.fingerprint()
    assert [known.counts for known in again.counts] == [(1.23, -7.0, 3.0), (5.0, 6.0, 0.5, 1.0), (9.87654,)]
    assert "# Under counts: noisy counts" in (tmp_path / "s.yaml").read_text()


def test_a_changed_column_loses_its_counts_and_no_other() -> None:
    schema = SCHEMA.with_counts(COUNTS)
    swapped = schema.with_columns([Categorical("sex", ("M", "F"), missing=("?",))])
    assert [known.column for known in swapped.known_counts] == ["age", "name"]
    ranged = Hints(ranges=("age=0:120",)).applied(schema)
    assert ranged["age"].open_facts == ("bins",)
    assert [known.column for known in ranged.known_counts] == ["sex", "name"]
    stored = schema.with_columns(replace(column, storage="string") for column in schema.columns)
    assert len(stored.known_counts) == 3


def test_counts_of_a_column_that_is_gone_are_left_out() -> None:
    content = SCHEMA.with_counts(COUNTS).to_dict()
    content["fields"] = content["fields"][1:]
    assert [known.column for known in Schema.from_dict(content).counts] == ["sex", "name"]


def entry(**changes: Any) -> dict[str, Any]:
    content = SCHEMA.to_dict()
    content["dp"]["counts"] = {"age": {"of": "x", "stddev": 1.0, "counts": [1.0, 2.0, 3.0], **changes}}
    return content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stddev": 0}, "holds '0'"),
        ({"stddev": "nan"}, "holds 'nan'"),
        ({"stddev": [1.0]}, "list or mapping"),
        ({"counts": []}, "list of 1 to"),
        ({"counts": "12"}, "list of 1 to"),
        ({"counts": [1.0, "inf"]}, "holds 'inf'"),
        ({"counts": [1e16]}, "between -1e+15 and 1e+15"),
        ({"counts": [[1.0]]}, "list or mapping"),
        ({"counts": [0] * 100_001}, "list of 1 to"),
        ({"more": 1}, "exactly the keys"),
    ],
)
def test_senseless_counts_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema.from_dict(entry(**changes))
    assert "Remove the entry" in str(caught.value)


def test_a_file_of_too_many_counts_is_refused() -> None:
    names = [f"c{i}" for i in range(4)]
    content = Schema(tuple(Integer(name, minimum=0, maximum=9) for name in names)).to_dict()
    long = {"of": "x", "stddev": 1, "counts": [1] * (MAX_COUNTS_IN_ALL // 3)}
    content["dp"]["counts"] = dict.fromkeys(names, long)
    with pytest.raises(SchemaError, match="more than 200,000 counts"):
        Schema.from_dict(content)
    content["dp"]["counts"] = [1]
    with pytest.raises(SchemaError, match="one entry per column"):
        Schema.from_dict(content)


@given(st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=3), st.floats(1e-3, 1e9))
def test_rounding_stays_far_below_the_noise(counts: list[float], stddev: float) -> None:
    (known,) = SCHEMA.with_counts([("age", stddev, counts)]).counts
    assert all(abs(a - b) <= 0.01 * stddev for a, b in zip(known.counts, counts, strict=True))
    assert known.of == fingerprint_of(SCHEMA["age"])
