"""Means, quantiles and correlations with intervals: against the table they came from, over repeated noise."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.measurements import NoisyMarginal
from lookalike.models.answers import answer_question
from lookalike.models.graphical import fit
from lookalike.models.intervals import ErrorBars
from lookalike.models.statistics import Places, _raised
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema

ROWS, STDDEV = 3000, 15.0
SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=20, missing=("",)),
        Integer("children", minimum=0, maximum=4, bins=5),
        Categorical("sex", ("F", "M"), outside="absorb"),
        Datetime("day", minimum="2020-01-01", maximum="2020-12-31", bins="month"),
    )
)
PAIRS = (("age", "sex"), ("age", "children"), ("children", "sex"))


def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    sex = rng.integers(0, 2, ROWS)
    age = np.clip(rng.normal(35 + 15 * sex, 15, ROWS), 0, 99).astype(int)
    children = np.clip(rng.poisson(age / 30), 0, 4)
    day = rng.integers(0, 366, ROWS)
    return {"age": age, "children": children, "sex": sex, "day": day, "missing": rng.random(ROWS) < 0.1}


TABLE = table()
KNOWN = ~TABLE["missing"]
MONTHS = np.searchsorted(SCHEMA["day"].edges, TABLE["day"] + 18262, side="right") - 1
CODES = np.column_stack([np.where(KNOWN, TABLE["age"] // 5, 20), TABLE["children"], TABLE["sex"], MONTHS])


def release(rng: np.random.Generator) -> tuple[object, ErrorBars]:
    """A model and its error bars from noisy counts of all columns and three of the pairs."""
    domain, found = SCHEMA.domain, []
    for attrs in [*((name,) for name in domain.names), *PAIRS]:
        places = [domain.position(name) for name in attrs]
        counts = np.histogramdd(CODES[:, places], [np.arange(domain.size(name) + 1) - 0.5 for name in attrs])[0]
        found.append(NoisyMarginal(attrs, np.rint(counts + rng.normal(0, STDDEV, counts.shape)), STDDEV))
    return fit(domain, found, iterations=40), ErrorBars(domain, found)


age, women = TABLE["age"], TABLE["sex"] == 0
TRUTHS = {
    "mean of age": age[KNOWN].mean(),
    "mean of age where sex = F": age[KNOWN & women].mean(),
    "mean of children where sex = M": TABLE["children"][~women].mean(),
    "mean of age where age >= 33": age[KNOWN & (age >= 33)].mean(),
    "mean of day": 18262 + TABLE["day"].mean(),
    "median of age": np.median(age[KNOWN]),
    "quantile 0.9 of children": np.quantile(TABLE["children"], 0.9),
    "correlation of age and children": np.corrcoef(age[KNOWN], TABLE["children"][KNOWN])[0, 1],
    "count where age >= 33": (KNOWN & (age >= 33)).sum(),
    "mean of children where day < 2020-06-15": TABLE["children"][TABLE["day"] < 166].mean(),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list]:
    found: dict[str, list] = {text: [] for text in TRUTHS}
    rng = np.random.default_rng(11)
    for _ in range(60):
        model, bars = release(rng)
        for text in TRUTHS:
            found[text].append(answer_question(text, SCHEMA, model, bars).rows[0][1])
    return found


@pytest.mark.parametrize("text", TRUTHS)
def test_intervals_hold_the_truth(answers, text):
    held = np.mean([a.low <= TRUTHS[text] <= a.high for a in answers[text]])
    assert held >= 0.82
    assert all(a.low <= a.value <= a.high for a in answers[text])


def test_exactly_measured_means_have_exact_intervals(answers):
    found = answers["mean of children where sex = M"]
    truth = TRUTHS["mean of children where sex = M"]
    assert {a.basis for a in found} == {"measured"}
    assert np.mean([a.low <= truth <= a.high for a in found]) < 1
    widths = np.array([a.high - a.low for a in found])
    errors = np.array([a.value - truth for a in found])
    assert np.std(errors) < widths.mean() / 2


def test_bases(answers):
    assert answers["mean of age"][0].basis == "binned"
    assert answers["count where age >= 33"][0].basis == "binned"
    assert answers["mean of children where day < 2020-06-15"][0].basis == "bounded"


def test_values_are_near_the_truth(answers):
    for text, near in (("mean of age", 1.0), ("median of age", 2.0), ("correlation of age and children", 0.1)):
        assert np.mean([a.value for a in answers[text]]) == pytest.approx(TRUTHS[text], abs=near)


def test_group_by_table_as_csv():
    model, bars = release(np.random.default_rng(0))
    found = answer_question("mean of day by sex", SCHEMA, model, bars)
    records = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [record["sex"] for record in records] == ["F", "M"]
    assert records[0]["mean of day"].startswith("2020-")
    assert records[0]["low"] <= records[0]["mean of day"] <= records[0]["high"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean of sex", "needs? numbers"),
        ("mean of nothing", "No column 'nothing'"),
        ("90% quantile of age", "starts with '90%', which is not a statistic. Ask for instance"),
        ("sum of age", "starts with 'sum'"),
        ("quantile 90 of age", "between 0 and 1"),
        ("quantile many of age", "between 0 and 1"),
        ("correlation of age", "two columns"),
        ("correlation of age and age", "twice"),
        ("mean of age by age", "twice"),
        ("mean of", "ends too early"),
    ],
)
def test_questions_that_cannot_be_answered(text, message):
    model, bars = release(np.random.default_rng(0))
    with pytest.raises(InputError, match=message):
        answer_question(text, SCHEMA, model, bars)


def test_a_column_may_be_called_mean():
    schema = Schema((Integer("mean", minimum=0, maximum=9, bins=10), Integer("median", minimum=0, maximum=1, bins=2)))
    noise = [NoisyMarginal((c.name,), np.full(c.size, 50.0), 1.0) for c in schema.columns]
    model, bars = fit(schema.domain, noise, iterations=5), ErrorBars(schema.domain, noise)
    assert answer_question("mean >= 5", schema, model, bars).statistic == "count"
    assert answer_question("mean of mean", schema, model, bars).rows[0][1].value == pytest.approx(4.5, abs=0.5)


def test_groups_without_rows_are_left_out():
    model, bars = release(np.random.default_rng(0))
    found = answer_question("mean of age where age < 1 and age >= 99", SCHEMA, model, bars)
    assert found.rows == ()
    assert found.left_out == 1
    assert found.to_csv().startswith("mean of age,low,high")


def test_places_follow_the_shape_of_a_column():
    column = Continuous("x", minimum=0, maximum=10, bins=[0, 4], shape=((0, 3.0), (2, 1.0), (4, 0.0)))
    places = Places.of(column)
    assert places.low.tolist() == [0, 4]
    assert places.high.tolist() == [4, 10]
    assert places.mean.tolist() == [1.5, 7]


@pytest.mark.parametrize("seed", range(20))
def test_correlation_bound_holds_for_any_place_within_bins(seed):
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 6, (200, 2)) * 1.0
    centres[:, 1] = np.where(rng.random(200) < 0.7, centres[:, 0], centres[:, 1])
    values = centres + rng.uniform(-0.5, 0.5, centres.shape) * rng.integers(0, 2)
    binned, true = np.corrcoef(centres.T)[0, 1], np.corrcoef(values.T)[0, 1]
    ratios = [0.5 / centres[:, i].std() for i in range(2)]
    assert -_raised(-binned, ratios) <= true <= _raised(binned, ratios)
