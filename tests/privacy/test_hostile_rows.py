"""Whatever one row holds: no exception, no warning, no other row's code changes, and a run looks as it would without.

Values are those of `hostile.py`, in every kind of column, declared and discovered, typed and as text.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookalike.discovery import class_grids, forms
from lookalike.discovery.search import _grid_probe
from lookalike.schema.bins import Binned
from lookalike.schema.classes import Affixes, Offsets, class_probe
from lookalike.schema.codec import bind, encode_column
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.domain import Domain
from lookalike.schema.probes import Roundness, RowsPerPerson
from lookalike.schema.schema import Schema
from lookalike.sources.frames import TableForm
from lookalike.sources.open import MemorySource, MemoryTable, OpenedTable, ReadTable

from .hostile import CASES, GROUPS, Case


def questions(column: Column) -> list[Column]:
    """All that is ever asked about the rows of a column: its codes, or the probes of discovery."""
    classes = class_probe(column)
    asked: list[Column] = [classes]
    if classes.kind == "text":
        asked += [Affixes("x"), Offsets("x")]
    if not column.open_facts:
        asked.append(column)
    if isinstance(column, Identifier):
        asked.append(RowsPerPerson("x", base=replace(column, person=True, max_rows=2, repeats=())))
    if isinstance(column, Binned):
        empty = forms.Histogram(classes, np.zeros(classes.size), 1.0)
        asked.append(_grid_probe(column, class_grids.class_grid(column, empty)))
        asked.append(Roundness("x", base=column, steps=(1, 5, 10, 1000)))
    return asked


def check(case: Case, values: list[object]) -> None:
    """Values get codes of their own and change nobody else's."""
    with np.errstate(all="raise"):
        bound = bind(Schema((case.column,)), pa.schema([("x", case.kind)]))
        usual, hostile, own = case.array(), case.array(*values), len(case.usual)
        for asked in questions(bound["x"]):
            before, after = encode_column(asked, usual), encode_column(asked, hostile)
            assert after.min() >= 0, case.name
            assert after.max() < asked.size, case.name
            if not isinstance(asked, RowsPerPerson):
                assert after[:own].tolist() == before.tolist(), case.name
        read = ReadTable(MemoryTable(pa.table({"x": hostile}), TableForm("arrow")))
        assert read.encoded(bound).source.domain.names == (() if case.column.open_facts else ("x",))
        if isinstance(bound["x"], Categorical):
            one, both = counted(bound, usual), counted(bound, hostile)
            assert all(0 <= both[text] - count <= len(values) for text, count in one.items()), case.name


def counted(bound: Schema, array: pa.Array) -> dict[str, int]:
    table = pa.table({"x": array})
    opened = OpenedTable(
        MemorySource(Domain((), ()), np.empty((0, 0))),
        bound,
        TableForm("arrow"),
        MemoryTable(table, TableForm("arrow")),
    )
    texts, counts = opened.value_counts("x")
    return dict(zip(texts, counts.tolist(), strict=True))


def check_group(group: str, examples: int, least: int, most: int) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
    @given(st.lists(GROUPS[group], min_size=least, max_size=most))
    def every(values: list[object]) -> None:
        for case in CASES:
            if case.group == group:
                check(case, values)

    every()


@pytest.mark.parametrize("group", GROUPS)
def test_every_value_has_a_code(group: str) -> None:
    check_group(group, 3, 1, 15)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_hundreds_of_values_have_codes(group: str) -> None:
    check_group(group, 25, 20, 20)


@pytest.mark.parametrize("value", ["x" * 1_000_000, "7" * 1_000_000, "1e" + "9" * 1_000_000])
def test_a_very_long_text_has_a_code(value: str) -> None:
    for case in CASES:
        if case.kind == pa.string():
            check(case, [value])
