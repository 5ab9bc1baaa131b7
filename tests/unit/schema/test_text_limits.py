"""Limits of patterns and formats, with which every row is written, and of max_rows."""

from __future__ import annotations

import pytest

from lookalike.errors import SchemaError
from lookalike.schema.schema import Schema


@pytest.mark.parametrize(
    "field",
    [
        {"name": "a", "type": "string", "dp": {"pattern": "#" * 300_000}},
        {"name": "a", "type": "string", "dp": {"pattern": "x" * 300_000}},
        {"name": "a", "type": "date", "format": "%Y-%m-%d" + "%j" * 200_000},
        {"name": "a", "type": "string", "dp": {"pattern": "n-####", "person": True, "max_rows": 10**8}},
    ],
    ids=["pattern", "pattern without places", "format", "rows per person"],
)
def test_fields_that_would_fill_the_memory_are_refused(field: dict[str, object]) -> None:
    """300,000 places of a pattern took 1 GB for 400 rows, and a long format of times never ended."""
    with pytest.raises(SchemaError, match="at most") as caught:
        Schema.from_dict({"fields": [field]})
    assert len(str(caught.value)) < 500
