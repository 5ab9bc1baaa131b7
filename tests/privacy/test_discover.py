"""Private discovery: what it finds, what it must not tell, what it costs."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from lookalike.discovery.discover import Discovery
from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.kernel.thresholds import passing, threshold, threshold_price, threshold_probability
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.storage import draft
from lookalike.sources.frames import read_structure

ROWS = 4000


def make_table(rows=ROWS):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows).astype(str),
            "pay": [f"{value:.2f}" for value in rng.gamma(4, 600, rows)],
            "town": rng.choice(["Ox, north", 'Ely "old"', "Rye"], rows, p=[0.5, 0.3, 0.2]),
            "seen": (np.datetime64("2023-01-01") + rng.integers(0, 365, rows)).astype(str),
            "note": [f"patient {i} said so" for i in range(rows)],
            "smokes": rng.choice(["yes", "no", "?"], rows, p=[0.3, 0.5, 0.2]),
        }
    )


def discovered(table, epsilon=4.0, seed=0, neighbours=None):
    schema = draft(read_structure(table))
    search = Discovery(share=0.3)
    budget = search.budget(schema, epsilon, 1e-5, "gdp")
    run = Ledger(None, "t").begin(
        method="m", schema="s", budget=budget, neighbours=neighbours or Neighbours(), noise=REPRODUCIBLE
    )
    door = open_table(
        table, None, budget, run, neighbours=neighbours or Neighbours(), insecure_rng=np.random.default_rng(seed)
    )
    return search.fill(door).schema, run.summary(), search.plan(schema, budget), budget


def test_kinds_values_bounds_and_markers_are_found():
    schema, _, _, _ = discovered(make_table())
    assert not schema.open_facts
    kinds = [Integer, Continuous, Categorical, Datetime, Identifier, Categorical]
    assert [type(column) for column in schema.columns] == kinds
    assert schema["town"].values == ("Ox, north", 'Ely "old"', "Rye")
    assert schema["smokes"].missing == ("?",)
    assert schema["smokes"].values == ("no", "yes")
    assert schema["age"].missing == ()
    # A block of noise may add a cell or two below, in which there are few values.
    assert 5 <= schema["age"].minimum <= 22
    assert 85 <= schema["age"].maximum <= 96
    assert schema["pay"].decimals == 2
    assert schema["seen"].format == "%Y-%m-%d"
    assert all(column.fact("missing") == "measured" for column in schema.columns)


def test_all_charges_are_planned_and_within_the_share():
    _, summary, plan, budget = discovered(make_table())
    allowed = {step: rho for step, _, rho, _ in plan}
    spent: dict[str, float] = {}
    for charge in summary.charges:
        spent[charge.step] = spent.get(charge.step, 0.0) + float(charge.rho)
    assert set(spent) <= set(allowed)
    assert all(rho <= allowed[step] * (1 + 1e-9) for step, rho in spent.items())
    assert sum(spent.values()) <= 0.3 * float(budget.rho) * (1 + 1e-9)
    assert 0 < sum(charge.delta for charge in summary.charges) <= budget.threshold_delta


LONERS = {
    "new category": {"town": "SECRET"},
    "extreme number": {"age": "123456789012345678901234567890"},
    "negative number": {"pay": "-987654321.1234567"},
    "new maximum": {"age": "117"},
    "no number": {"age": "SECRET"},
    "lone null": {"age": None},
    "lone marker": {"pay": "N/A"},
    "far date": {"seen": "1066-10-14"},
    "no date": {"seen": "SECRET"},
    "nothing at all": dict.fromkeys(["age", "pay", "town", "seen", "note", "smokes"]),
}


@pytest.mark.parametrize("case", LONERS)
def test_one_person_leaves_no_trace(case):
    """Whatever one row holds, the run goes through and no fact of the row is told."""
    table = make_table(1500)
    row = {**table.iloc[0].to_dict(), **LONERS[case]}
    schema, _, _, _ = discovered(pd.concat([table, pd.DataFrame([row])], ignore_index=True), seed=1)
    text = schema.to_yaml()
    for value in LONERS[case].values():
        assert value is None or not re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.])", text)
    assert schema["age"].missing == ()
    assert schema["pay"].missing == ()
    assert schema["age"].maximum < 117


def test_values_of_one_person_pass_the_threshold_no_more_often_than_paid_for():
    """Exact tails for every way in which k rows can be spread over new values."""
    stddev, probability = 7.3, 1e-6
    for rows in (1, 2, 5):
        for least in (1, 10):
            check_tails(rows, least, stddev, probability)


def check_tails(rows, least, stddev, probability):
    """Values that fewer than `least` others hold, to which a person adds: on the other table none of them is known."""
    limit = threshold(stddev, probability, Neighbours(max_rows_per_person=rows), least)
    for parts in range(1, rows + 1):
        for split in itertools.combinations(range(1, rows), parts - 1):
            counts = least - 1 + np.diff([0, *split, rows])
            # A rounded count reaches the limit where the unrounded one is at most half below it.
            passes = norm.sf((np.ceil(limit) - 0.5 - counts) / stddev).sum()
            assert passes <= probability


def test_threshold_is_not_wastefully_high():
    limit = threshold(10.0, 1e-6, Neighbours())
    assert norm.sf((np.ceil(limit) - 1.5 - 1) / 10.0) > 0.5e-6


def test_price_and_probability_are_inverse_and_safe():
    for epsilon in (0.01, 1.0, 10.0):
        probability = threshold_probability(1e-6, epsilon)
        assert threshold_price(probability, epsilon) <= 1e-6
        assert threshold_price(probability, epsilon) > 0.999e-6


def test_the_tables_own_order_does_not_show():
    assert list(passing(["b", "a", "c"], np.array([5, 9, 5]), 5.0)) == ["a", "b", "c"]


def test_thresholds_cannot_overdraw_delta():
    table = make_table(200)
    budget = Budget(1.0, 1e-5, "gdp", 1e-7)
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    door = open_table(table, None, budget, run, neighbours=Neighbours())
    with pytest.raises(BudgetExceededError, match="threshold delta"):
        door.frequent(["town"], 100.0, 1e-7, step="x")
    assert run.summary().charges == ()


def test_delta_kept_for_thresholds_is_not_spent_twice():
    whole, less = Budget(1.0, 1e-5, "gdp"), Budget(1.0, 1e-5, "gdp", 5e-6)
    assert less.rho < whole.rho
    assert epsilon_spent(less.rho, 5e-6, "gdp") == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetError, match="threshold_delta"):
        Budget(1.0, 1e-5, "gdp", 1e-5)


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"share": 1.0}, {"delta_share": 2.0}, {"max_bins": 1}])
def test_settings_out_of_range(settings):
    with pytest.raises(BudgetError):
        Discovery(**settings)


def test_more_rows_per_person_cost_more_noise():
    one = discovered(make_table(500))[1].charges
    many = discovered(make_table(500), neighbours=Neighbours(max_rows_per_person=4))[1].charges
    thresholds = [[c.detail for c in charges if c.mechanism == "threshold"] for charges in (one, many)]
    limits = [float(details[0].split("threshold ")[1]) for details in thresholds]
    assert limits[1] > 3.5 * limits[0]
