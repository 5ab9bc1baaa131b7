"""Facts in a few words, and schema files with comments that say the same as those without."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.explained import explained
from lookalike.schema.hints import Hints
from lookalike.schema.schema import Schema

EXAMPLE = Path(__file__).parents[3] / "examples" / "admissions.yaml"


def undeclared(*names: str) -> Schema:
    return Schema(tuple(Undeclared(name) for name in names))


@pytest.mark.parametrize(
    ("hint", "kind"),
    [("integer", Integer), ("number", Continuous), ("category", Categorical), ("boolean", Categorical),
     ("date", Datetime), ("datetime", Datetime), ("date:%d.%m.%Y", Datetime), ("id", Identifier), ("any", Undeclared)],
)  # fmt: skip
def test_types(hint: str, kind: type) -> None:
    column = Hints(types=(f"x={hint}",)).applied(undeclared("x"))["x"]
    assert type(column) is kind
    assert "missing" in column.open_facts
    if ":" in hint:
        assert column.format == "%d.%m.%Y"


@pytest.mark.parametrize(
    ("hint", "kind", "low", "high"),
    [
        ("0:120", Continuous, 0.0, 120.0),
        ("-5:5", Continuous, -5.0, 5.0),
        ("0.5:2", Continuous, 0.5, 2.0),
        ("2020-01-01:2020-12-31", Datetime, "2020-01-01", "2020-12-31"),
        ("2020-01-01 10:00:00..2020-01-02 10:00:00", Datetime, "2020-01-01T10:00:00", "2020-01-02T10:00:00"),
    ],
)
def test_ranges_decide_the_kind_of_a_column_that_has_none(hint: str, kind: type, low: object, high: object) -> None:
    column = Hints(ranges=(f"x={hint}",)).applied(undeclared("x"))["x"]
    assert type(column) is kind
    assert (column.minimum, column.maximum) == (low, high)
    assert "bounds" not in column.open_facts
    assert column.fact("bounds") == "public"


def test_a_range_keeps_the_type_that_a_hint_gives() -> None:
    hints = Hints(types=("x=number", "d=date:%d/%m/%Y"), ranges=("x=0:10", "d=01/02/2020..03/02/2020"))
    schema = hints.applied(undeclared("x", "d"))
    assert isinstance(schema["x"], Continuous)
    assert schema["d"].minimum == "2020-02-01"


def test_values_may_hold_commas_in_quotes_and_names_equals_signs() -> None:
    schema = Hints(values=('a=b="x, y",z',), identifiers=("a",)).applied(undeclared("a", "a=b"))
    assert schema["a=b"].values == ("x, y", "z")
    assert isinstance(schema["a"], Identifier)


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (Hints(types=("x",)), "has no equals sign"),
        (Hints(types=("y=integer",)), "names column 'y'; the columns are x"),
        (Hints(types=("x=float",)), "must be one of integer, number"),
        (Hints(types=("x=integer:%d",)), "must be one of"),
        (Hints(ranges=("x=5",)), "LOW:HIGH"),
        (Hints(ranges=("x=10:0",)), r"minimum 10\.0 above maximum 0\.0"),
        (Hints(ranges=("x=a:b",)), "Give a finite number"),
        (Hints(values=("x=",)), "between commas"),
        (Hints(values=("x=F,F",)), "twice"),
        (Hints(identifiers=("y",)), "No column 'y'"),
    ],
)
def test_mistakes_name_the_value_and_the_remedy(hints: Hints, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        hints.applied(undeclared("x"))


@pytest.mark.parametrize("schema", [Schema.load(EXAMPLE), undeclared("a", "b: #", "c\nd", "- x")], ids=["full", "open"])
def test_comments_change_nothing(schema: Schema, tmp_path: Path) -> None:
    text = explained(schema)
    assert yaml.safe_load(text) == yaml.safe_load(schema.to_yaml())
    (tmp_path / "s.yaml").write_text(text)
    assert Schema.load(tmp_path / "s.yaml") == schema
    assert text.count("#") > 3 * len(schema.columns)


def test_comments_say_where_facts_come_from() -> None:
    hints = Hints(ranges=("age=0:120",), identifiers=("name",))
    text = explained(hints.applied(undeclared("age", "name", "note")))
    assert "# age - bounds: declared, costs nothing; bins, missing, decimals: still to be found" in text
    assert "# name - made up anew in every row" in text
    assert "type: any  # found by a run; or declare" in text
    assert "(by its name perhaps an integer from 0 to 120)" in explained(undeclared("patientAge"))
