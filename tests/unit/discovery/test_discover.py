"""What discovery finds in made-up tables without a schema, end to end; and the counts that methods use again."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import lookalike
from lookalike.discovery.discover import Discovery, Found
from lookalike.discovery.found_columns import Answers
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import encode_columns
from lookalike.schema.columns import Categorical
from lookalike.schema.hints import Hints
from lookalike.schema.storage import draft
from lookalike.selection.steps import measure_columns

ROWS = 4000


def table() -> pa.Table:
    """Columns in the forms that files of strangers have; every number is made up."""
    rng = np.random.default_rng(5)
    minutes = (rng.normal(14 * 60, 150, ROWS)).clip(0, 24 * 60 - 1).astype(int)
    zips = rng.choice(["02139", "02140", "10001", "94110"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    amounts = np.where(rng.random(ROWS) < 0.6, 0.0, rng.lognormal(6, 1, ROWS))
    return pa.table(
        {
            "clock": [f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes],
            "price": [f"${price:,.2f}" for price in rng.gamma(3, 400, ROWS)],
            "rate": [f"{rate:.1f}%" for rate in rng.uniform(0, 40, ROWS)],
            "year": rng.integers(1962, 2019, ROWS),
            "zip": zips,
            "gain": amounts,
        }
    )


@pytest.fixture(scope="module")
def made() -> pa.Table:
    noise = np.random.default_rng(0)
    return lookalike.synthesize(table(), epsilon=8.0, method="independent", seed=1, insecure_rng=noise).table


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("clock", r"([01]\d|2[0-3]):[0-5]\d"),
        ("price", r"\$\d{1,3}(,\d{3})*\.\d\d"),
        ("rate", r"\d{1,2}\.\d%"),
        ("year", r"(19[4-9]\d|20[0-2]\d)"),
        ("zip", r"02139|02140|10001|94110"),
    ],
)
def test_values_are_made_in_their_form(made: pa.Table, name: str, form: str):
    values = [str(value) for value in made[name].to_pylist()]
    assert [value for value in values if not re.fullmatch(form, value)] == []
    assert len(set(values)) > 3


def test_numbers_are_made_where_the_table_has_them(made: pa.Table):
    real = table()
    years = np.array(made["year"])
    assert np.mean((years >= 1962) & (years <= 2018)) > 0.95
    prices = [np.array([float(text[1:].replace(",", "")) for text in t["price"].to_pylist()]) for t in (made, real)]
    assert np.median(prices[0]) == pytest.approx(np.median(prices[1]), rel=0.1)


def test_whole_numbers_that_are_clock_times_stay_so():
    """The gap after 59 minutes is seen where there are many rows."""
    minutes = np.random.default_rng(0).normal(14 * 60, 150, 20_000).clip(0, 24 * 60 - 1).astype(int)
    real = minutes // 60 * 100 + minutes % 60
    noise = np.random.default_rng(0)
    release = lookalike.synthesize(pa.table({"at": real}), epsilon=4.0, method="independent", insecure_rng=noise)
    made = np.array(release.table["at"])
    assert np.all(made % 100 < 60)
    assert made.max() <= 2359
    assert np.median(made) == pytest.approx(np.median(real), abs=60)


def test_a_column_of_many_zeros_keeps_them(made: pa.Table):
    gain = np.array(made["gain"])
    assert np.mean(gain == 0.0) == pytest.approx(0.6, abs=0.05)
    assert gain.min() >= 0.0
    positive = gain[gain > 0]
    assert 250 < np.median(positive) < 650
    assert len(np.unique(positive)) > 0.9 * len(positive)


def opened(rows: pa.Table, seed: int) -> tuple[GuardedTable, Discovery]:
    search = Discovery()
    budget = search.budget(draft(rows.schema), 4.0, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), noise=REPRODUCIBLE)
    rng = np.random.default_rng(seed)
    return open_table(rows, None, budget, run, neighbours=Neighbours(), insecure_rng=rng), search


@pytest.fixture(scope="module")
def found() -> list[Found]:
    rows = table()
    searches = [opened(rows, seed) for seed in range(8)]
    return [search.fill(door) for door, search in searches]


def test_kinds_are_found(found: list[Found]):
    for result in found:
        kinds = [Datetime, Continuous, Continuous, Integer, Categorical, Continuous]
        assert [type(column) for column in result.schema.columns] == kinds
        assert result.schema["clock"].clock
        assert result.schema["price"].prefix == "$"
        assert result.schema["rate"].suffix == "%"
        assert result.schema["zip"].outside == "absorb"
        assert not result.schema.open_facts


def test_known_counts_are_those_of_the_codes_and_not_biased(found: list[Found]):
    """The error of every count of every column, in its own standard deviations, over several discoveries."""
    rows, errors = table(), list[np.ndarray]()
    for result in found:
        codes = encode_columns(result.schema.columns, rows)
        places = {name: i for i, name in enumerate(result.schema.names)}
        assert [marginal.attrs[0] for marginal in result.known] == [c.name for c in result.schema.columns]
        for marginal in result.known:
            size = result.schema[marginal.attrs[0]].size
            assert marginal.values.shape == (size,)
            exact = np.bincount(codes[:, places[marginal.attrs[0]]], minlength=size)
            errors.append((marginal.values - exact) / marginal.stddev)
    flat = np.concatenate(errors)
    assert abs(flat.mean()) < 0.25
    assert np.sqrt(np.mean(flat**2)) < 2.0


def test_what_is_known_is_used_by_methods(found: list[Found]):
    """Counts of columns have less noise than what was paid for them after discovery."""
    rows, (door, search) = table(), opened(table(), 0)
    result = search.fill(door)
    rho = float(door.budget.rho) * 0.001
    exact = encode_columns(result.schema.columns, rows)
    known = {m.attrs[0]: m for m in measure_columns(door.encoded(result.schema, result.known), rho, step="columns")}
    alone = {m.attrs[0]: m for m in measure_columns(door.encoded(result.schema), rho, step="columns")}
    distances = {"known": 0.0, "alone": 0.0}
    for i, name in enumerate(result.schema.names):
        assert known[name].stddev < alone[name].stddev
        truth = np.bincount(exact[:, i], minlength=result.schema[name].size)
        distances["known"] += float(np.abs(known[name].values - truth).sum())
        distances["alone"] += float(np.abs(alone[name].values - truth).sum())
    assert distances["known"] < 0.5 * distances["alone"]


def test_large_tables_spend_less_of_their_budget():
    """A smaller part is enough where the noise is small beside the rows; what is left is the method's."""
    rows, spent = table().select(["clock", "year", "zip"]), []
    for part in (rows.slice(0, 150), pa.concat_tables([rows] * 5)):
        door, search = opened(part, 0)
        search.fill(door)
        spent.append(1 - door.remaining / float(door.budget.rho))
    assert spent[1] < 0.8 * spent[0]
    assert spent[0] <= Discovery().share


def test_rows_are_left_over_only_beyond_the_noise_of_the_number_of_rows_too():
    """Else a list that holds all values gets an `other` wherever the number of rows is too large by chance."""
    found = {"x": {"low": 1000.0, "high": 1000.0}}
    answers = Answers(rows=2050.0, rows_variance=20.0**2, found=found, noise={"x": 5.0})
    assert answers.left_over("x") == pytest.approx(50 / np.sqrt(400 + 2 * 25))


def test_budgets_keep_a_part_of_delta_only_where_values_may_have_to_be_found():
    numbers = draft(pa.schema([("n", pa.int64())]))
    texts = draft(pa.schema([("t", pa.string())]))
    search = Discovery()
    assert search.budget(numbers, 1.0, 1e-5, "gdp") == Budget(1.0, 1e-5, "gdp", 0.0)
    assert search.budget(texts, 1.0, 1e-5, "gdp").threshold_delta == pytest.approx(0.3e-5)


def test_numbers_with_a_declared_range_keep_their_decimals_and_zeros():
    """Whole bounds do not make numbers whole, and declared bounds are not doubted."""
    rng = np.random.default_rng(3)
    rain = np.where(rng.random(ROWS) < 0.55, 0.0, rng.gamma(0.7, 8.0, ROWS).clip(0.1, 90))
    real = pa.table({"rain": [f"{amount:.1f}" for amount in rain]})
    schema = Hints(ranges=("rain=0:100",)).applied(draft(real.schema))
    noise = np.random.default_rng(0)
    release = lookalike.synthesize(real, schema=schema, epsilon=4.0, method="independent", seed=1, insecure_rng=noise)
    texts = release.table["rain"].to_pylist()
    assert all(re.fullmatch(r"\d+\.\d", text) for text in texts)
    made = np.array([float(text) for text in texts])
    assert np.mean(made == 0) == pytest.approx(np.mean(rain == 0), abs=0.05)
    assert np.median(made) == 0
    assert not [entry for entry in release.unseen if entry.column == "rain"]
