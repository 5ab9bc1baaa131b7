"""Attacks that no other test notices: each test here fails when the plant that its docstring names is put in."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from lookalike import synthesize
from lookalike.errors import BudgetError, BudgetExceededError, InputError, OutOfDomainError, SchemaError
from lookalike.privacy.accountant import Accountant
from lookalike.privacy.budget import Budget
from lookalike.privacy.door import GuardedTable, open_table
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger
from lookalike.privacy.neighbours import Neighbours
from lookalike.privacy.reading import reading
from lookalike.privacy.rows import OccurringCells
from lookalike.schema.schema import Schema

TABLE, SIZES = pa.table({"a": [0, 1, 1], "b": [2, 2, 0]}), {"a": 2, "b": 3}


def door_to(budget: Budget, ledger: Ledger | None = None, **more: object) -> GuardedTable:
    ledger = ledger or Ledger(None, "t")
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    return open_table(TABLE, Schema.from_sizes(SIZES), budget, run, neighbours=Neighbours(), **more)  # type: ignore[arg-type]


# delta that is spent once.


def test_a_histogram_leaves_the_delta_of_thresholds_alone() -> None:
    """Plant: `OccurringCells` takes all of delta, of which discovery has spent a part on thresholds."""
    budget = Budget(1.0, 1e-5, "gdp", threshold_delta=9e-6)
    settled = OccurringCells(("a",), 0.3).settled(Schema.from_sizes(SIZES).domain, budget, Fraction(0), Neighbours())
    mu = 1 / settled.stddev
    gaussian = norm.sf(1 / mu - mu / 2) - math.e * norm.sf(1 / mu + mu / 2)
    lone = (1 + math.e) * norm.sf((math.ceil(settled.threshold) - 1.5) / settled.stddev)
    assert 0.5e-6 < gaussian + lone <= 1e-6


def test_parts_are_refused_after_anything_was_spent() -> None:
    """Plant: `Accountant.split` without its check; each part's budget is computed from the whole budget."""
    door = door_to(Budget(1.0, 1e-5, "gdp"))
    door.measure([("a",)], door.stddev_for(door.remaining / 2), step="m")
    with pytest.raises(BudgetError, match="only be split before anything is spent"):
        door.parts((0.5, 0.5), step="p")


# What an error carries.


@pytest.mark.parametrize(
    ("error", "refused"), [(OutOfDomainError("a", "rule", "remedy"), ()), (InputError("no table"), InputError)]
)
@pytest.mark.parametrize("chained", [False, True])
def test_errors_that_are_shown_carry_no_other_error(error: Exception, refused: type, chained: bool) -> None:
    """Plant: `reading` leaves cause and context, whose frames and words hold private values."""
    budget = Budget(1.0, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours())

    def read() -> None:
        try:
            raise ValueError("a private value")
        except ValueError as private:
            if chained:
                raise error from private
            raise error  # noqa: B904 - the context is what is tested

    with pytest.raises(type(error)) as caught:
        reading(Accountant(budget, run), read, refused=refused)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "read" not in [entry.name for entry in caught.traceback]


# Noise that can be repeated.


def test_the_door_refuses_reproducible_noise_in_a_run_that_began_with_secret_noise() -> None:
    """Else a release that is NOT PRIVATE passes under a cap and leaves no mark in the ledger."""
    ledger, budget = Ledger(None, "t"), Budget(1.0, 1e-5, "gdp")
    ledger.set_cap(2.0)
    with pytest.raises(BudgetError, match="insecure_rng"):
        door_to(budget, ledger, insecure_rng=np.random.default_rng(0))
    assert ledger.spent() == (0.0, 0.0)
    uncapped = Ledger(None, "t")
    run = uncapped.begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), noise=REPRODUCIBLE)
    schema, rng = Schema.from_sizes(SIZES), np.random.default_rng(0)
    door = open_table(TABLE, schema, budget, run, neighbours=Neighbours(), insecure_rng=rng)
    door.measure([("a",)], 10.0, step="m")
    assert uncapped.spent()[0] == math.inf


# What is wrong for public reasons costs nothing.


@pytest.mark.parametrize("kind", [pa.decimal128(38, 38), pa.decimal256(76, 16), pa.decimal128(5, -3)], ids=str)
def test_types_with_too_many_decimals_are_refused_before_anything_is_charged(kind: pa.DataType) -> None:
    """Once they were refused when the bounds had been found, after the whole budget was spent."""
    ledger = Ledger(None, "t")
    with pytest.raises(SchemaError, match="decimals"):
        synthesize(pa.table({"c": pa.nulls(50, kind)}), epsilon=1.0, method="independent", ledger=ledger)
    assert ledger.spent() == (0.0, 0.0)


def test_a_refused_charge_leaves_the_budget_as_it_was() -> None:
    door = door_to(Budget(1.0, 1e-5, "gdp"))
    before = door.remaining
    with pytest.raises(BudgetExceededError):
        door.measure([("a",)], 1e-2, step="m")
    assert door.remaining == before
