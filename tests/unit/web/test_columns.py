"""Rows of the schema form become columns and back; what the form does not show is kept; mistakes are explained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Column, Identifier, Ordinal, Undeclared
from lookalike.web.columns import Row, column_of, kind_of, origins, row_from

DRAFT = Undeclared("x")
COLUMNS: list[Column] = [
    DRAFT,
    Integer("x", minimum=0, maximum=9, bins=(0, 3, 7)),
    Continuous("x", minimum=0.5, maximum=9, decimals=2, bins=4, missing=("", "NA")),
    Datetime("x", minimum="2020-01-01", maximum="2021-12-31", format="%d.%m.%Y", bins="month"),
    Categorical("x", values=("a", "b, c", 'say "d"'), hierarchy=((("g", ("a", "b, c")), ("h", ('say "d"',))),)),
    Ordinal("x", values=("low", "high"), missing=("?",)),
    Categorical("x", values=("false", "true")),
    Categorical("x"),
    Identifier("x", pattern="p-####"),
    Identifier("x", person=True, max_rows=3),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{type(column).__name__}-{kind_of(column)}")
def test_a_row_that_changes_nothing_keeps_every_fact(column: Column) -> None:
    row = Row.of(column)
    assert column_of(row, column, "string") is column
    assert row_from(row.to_json()) == row


def test_bins_of_an_imported_schema_outlive_a_change_of_the_missing_markers() -> None:
    column = COLUMNS[1]
    changed = column_of(replace(Row.of(column), missing="markers", markers="empty, -"), column, "string")
    assert isinstance(changed, Integer)
    assert (changed.bins, changed.missing) == ((0, 3, 7), ("", "-"))


@pytest.mark.parametrize(
    ("row", "kind", "facts"),
    [
        (Row("integer", "0", "120"), Integer, {"minimum": 0, "maximum": 120}),
        (Row("number", "-1.5", "2"), Continuous, {"minimum": -1.5}),
        (Row("date", "2020-01-01", "2020-12-31", form="%d.%m.%Y"), Datetime, {"format": "%d.%m.%Y"}),
        (Row("category", listed='F, M, "x, y"'), Categorical, {"values": ("F", "M", "x, y")}),
        (Row("category", listed="lo,hi", in_order="on"), Ordinal, {"values": ("lo", "hi")}),
        (Row("category"), Categorical, {"values": None}),
        (Row("boolean"), Categorical, {"values": ("false", "true")}),
        (Row("id"), Identifier, {"person": False}),
        (Row("person"), Identifier, {}),
        (Row("integer", missing="never"), Integer, {"missing": ()}),
        (Row("id", missing="markers", markers="NA"), Identifier, {"missing": ("NA",)}),
    ],
)
def test_a_filled_row_is_the_declared_column(row: Row, kind: type[Column], facts: dict[str, object]) -> None:
    column = column_of(row, DRAFT, "string")
    assert type(column) is kind
    for name, value in facts.items():
        assert getattr(column, name) == value
    assert ("missing" in column.open_facts) == (row.missing == "open")


@pytest.mark.parametrize(
    ("row", "storage", "told"),
    [
        (Row("integer", "5", ""), "string", "one end of its range"),
        (Row("integer", "ten", "20"), "string", "'ten'"),
        (Row("integer", "9", "1"), "string", "'x'"),
        (Row("category", listed="a,,b"), "string", "empty value"),
        (Row("category", listed="a,a"), "string", "'a' twice"),
        (Row("any", missing="markers"), "string", "no marker"),
        (Row("date", "2020", "2021"), "string", "'x'"),
        (Row("date"), "int64", "stored as int64"),
        (Row("time"), "string", "times of day"),
    ],
)
def test_mistakes_name_the_column_and_the_remedy(row: Row, storage: str, told: str) -> None:
    with pytest.raises(SchemaError, match="'x'") as caught:
        column_of(row, DRAFT, storage)
    assert told in str(caught.value)


def test_choices_that_do_not_exist_are_refused() -> None:
    for values in ({"kind": "script"}, {"missing": "perhaps"}):
        with pytest.raises(SchemaError):
            row_from(values)


def test_every_fact_has_an_origin() -> None:
    assert origins(DRAFT, DRAFT) == [("type", "open"), ("missing", "open")]
    name = Identifier("user_id", provenance={"missing": "open"})
    assert origins(name, name)[0] == ("kind", "name")
    declared = column_of(Row("integer", "0", "9", missing="never"), DRAFT, "string")
    assert dict(origins(declared, DRAFT)) == {
        "kind": "declared",
        "bounds": "declared",
        "bins": "open",
        "missing": "declared",
    }
