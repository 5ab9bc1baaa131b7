"""Questions in words become weights of cells; nothing is evaluated as code."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.errors import InputError, ModelTooLargeError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.conditions import parse_question
from lookalike.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=10),
        Categorical("sex", ("F", "M"), missing=("?",), outside="absorb"),
        Ordinal("education level", ("low", "mid", "high"), outside="absorb"),
        Continuous("weight", minimum=0, maximum=1, bins=4, missing=("",)),
        Continuous("fee", minimum=0, maximum=10, bins=4, decimals=2),
        Datetime("day", minimum="2020-01-01", maximum="2020-12-31", bins="month"),
        Categorical("ward", ("north", "south"), outside="other"),
    )
)
AGES = np.arange(10) * 10


@pytest.mark.parametrize(
    ("text", "attrs", "weights"),
    [
        ("count", (), 1.0),
        ("count where age >= 30", ("age",), (AGES >= 30) * 1.0),
        ("age >= 30", ("age",), (AGES >= 30) * 1.0),
        ("COUNT WHERE age < 30 OR age >= 90", ("age",), (AGES < 30) | (AGES >= 90)),
        ("age > 33 and age <= 35", ("age",), np.eye(10)[3] * 0.2),
        ("age between 33 and 42", ("age",), [0, 0, 0, 0.7, 0.3, 0, 0, 0, 0, 0]),
        ("age = 33", ("age",), np.eye(10)[3] * 0.1),
        ("age in (30, 31, 45)", ("age",), [0, 0, 0, 0.2, 0.1, 0, 0, 0, 0, 0]),
        ("sex = F", ("sex",), [1, 0, 0]),
        ("sex <> 'F'", ("sex",), [0, 1, 1]),
        ("sex = ?", ("sex",), [0, 0, 1]),
        ("sex is missing", ("sex",), [0, 0, 1]),
        ("sex is not missing", ("sex",), [1, 1, 0]),
        ("sex not in (F, M)", ("sex",), [0, 0, 1]),
        ("`education level` >= mid", ("education level",), [0, 1, 1]),
        ('"education level" < high and not "education level" = low', ("education level",), [0, 1, 0]),
        ("weight < 0.3 or weight is missing", ("weight",), [1, 0.2, 0, 0, 1]),
        ("fee between 1 and 2.51", ("fee",), [150 / 250, 2 / 250, 0, 0]),
        ("fee > 2.499", ("fee",), [0, 1, 1, 1]),
        ("day >= 2020-02-15 and day < 2020-03-01", ("day",), np.eye(12)[1] * 15 / 29),
        ("ward = other", ("ward",), [0, 0, 1]),
    ],
)
def test_weights_of_one_column(text, attrs, weights):
    question = parse_question(text, SCHEMA)
    assert question.attrs == attrs
    np.testing.assert_allclose(question.weights, weights, atol=1e-12)
    assert question.exact == bool(np.all(np.isin(np.asarray(weights, dtype=float), (0, 1))))


def test_logic_over_columns_equals_logic_over_cells():
    question = parse_question("not (sex = F and age < 20) or (ward = north and sex = M)", SCHEMA)
    assert question.attrs == ("age", "sex", "ward")
    age, sex, ward = np.indices((10, 3, 3))
    expected = ~((sex == 0) & (age < 2)) | ((ward == 0) & (sex == 1))
    np.testing.assert_array_equal(question.weights, expected)


def test_breakdown_keeps_its_columns():
    question = parse_question("count by sex, age where ward = south", SCHEMA)
    assert question.by == ("age", "sex")
    assert question.attrs == ("age", "sex", "ward")
    assert question.weights.shape == (10, 3, 3)
    assert question.weights.sum() == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age >", "ends too early"),
        ("age >= many", "'many' is not a value of column 'age'"),
        ("nobody = 1", "the columns are age"),
        ("sex < F", "no order"),
        ("sex = X", "'X' is not among"),
        ("'education level' > huge", "'huge' is not among"),
        ("age = 3 )", r"should end before .\)"),
        ("(age = 3", r"'\)' is expected"),
        ("age ! 3", "cannot be read from '! 3'"),
        ("age 3", "a comparison is expected"),
        ("age = (", "A value is expected"),
        ("age between 3", "two values"),
        ("sex is female", "'missing' or 'not missing'"),
        ("__import__('os').system('true')", "No column '__import__'"),
        ("not " * 60 + "age = 3", "nested"),
        ("(" * 5000, "nested"),
    ],
)
def test_refuses_with_a_remedy(text, message):
    with pytest.raises(InputError, match=message):
        parse_question(text, SCHEMA)


def test_refuses_too_many_cells_before_allocating():
    wide = Schema(tuple(Integer(f"x{i}", minimum=0, maximum=999, bins=1000) for i in range(6)))
    with pytest.raises(ModelTooLargeError, match="fewer columns"):
        parse_question(" and ".join(f"x{i} < 5" for i in range(6)), wide)
