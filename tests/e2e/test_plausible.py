"""Discovery on made-up tables, over many seeds: nothing implausible is made, and what cannot be seen is said.

Noise is reproducible here, so that a failure is the change's and not the day's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from lookalike.discovery.discover import Discovery, Found
from lookalike.errors import LookalikeWarning
from lookalike.inputs import as_schema
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger
from lookalike.schema.binned import Datetime, Number
from lookalike.schema.columns import Column
from lookalike.schema.unseen import Unseen, merged, unseen

FACTOR = 20.0
"""Numbers beyond this many times the true ones are implausible. Bounds within it may be guesses, and are said to."""


def made_up(rows: int, seed: int) -> pd.DataFrame:
    """Numbers of many kinds, dates and towns, all written as text."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(0, 90, rows),
        "flag": (rng.random(rows) < 0.3).astype(int),
        "visits": rng.poisson(0.7, rows),
        "price": np.round(np.exp(rng.normal(4, 1, rows)), 2),
        "weight": rng.normal(70, 12, rows),
        "temp": np.round(rng.normal(8, 9, rows), 1),
        "year": rng.integers(1990, 2021, rows),
        "day": np.datetime64("2015-01-01") + rng.integers(0, 1200, rows),
        "zeros": np.where(rng.random(rows) < 0.5, 0.0, rng.gamma(2, 50, rows)),
        "rare": np.where(rng.random(rows) < 0.95, "NA", rng.integers(1, 50, rows).astype(str)),
        "gain": np.where(rng.random(rows) < 0.92, 0, np.exp(rng.normal(8, 1, rows)).astype(int)),
        "town": rng.choice(["Rye", "Ox", "Ely", "Wye"], rows, p=[0.4, 0.3, 0.2, 0.1]),
    }
    return pd.DataFrame({name: pd.Series(values).astype(str) for name, values in columns.items()})


NUMBERS = ("age", "flag", "visits", "price", "weight", "temp", "year", "zeros", "gain")


@dataclass(frozen=True)
class Seen:
    """What discovery made of one table."""

    frame: pd.DataFrame
    found: Found
    unseen: tuple[Unseen, ...]

    def doubted(self, name: str) -> bool:
        return any(entry.column == name and entry.is_doubt for entry in self.unseen)

    def beyond(self, column: Column) -> float:
        """How many times the true ones the numbers of a column are, or the true range the distance of its times."""
        if isinstance(column, Datetime):
            low, high = (np.datetime64(str(bound)[:10], "D").astype(int) for bound in (column.minimum, column.maximum))
            true = np.array(self.frame[column.name], "datetime64[D]").astype(int)
            return max(true.min() - low, high - true.max(), 0) / (true.max() - true.min())
        assert isinstance(column, Number), column
        true = pd.to_numeric(self.frame[column.name], errors="coerce").abs().max()
        return max(abs(column.internal(bound)) for bound in (column.minimum, column.maximum)) / max(true, 1.0)


def look(rows: int, epsilon: float, seed: int) -> Seen:
    frame = made_up(rows, seed)
    schema, search = as_schema(None, frame), Discovery()
    budget = search.budget(schema, epsilon, 1e-5, "gdp")
    given = {"method": "m", "schema": "s", "budget": budget, "neighbours": Neighbours(), "noise": REPRODUCIBLE}
    run = Ledger(None, "t").begin(**given)
    rng = np.random.default_rng(seed)
    door = open_table(frame, schema, budget, run, neighbours=Neighbours(), insecure_rng=rng)
    found = search.fill(door)
    return Seen(frame, found, merged(found.notes, unseen(schema, found.schema)))


@pytest.mark.parametrize(
    ("rows", "epsilon", "seeds"),
    [
        pytest.param(2000, 1.0, 12, marks=pytest.mark.slow),
        (2000, 0.3, 8),
        pytest.param(20_000, 1.0, 6, marks=pytest.mark.slow),
    ],
)
def test_numbers_stay_numbers_near_the_true_ones(rows: int, epsilon: float, seeds: int) -> None:
    for seed in range(seeds):
        seen = look(rows, epsilon, seed)
        for column in (seen.found.schema[name] for name in (*NUMBERS, "day")):
            assert isinstance(column, Datetime if column.name == "day" else Number), (seed, column)
            assert seen.beyond(column) < FACTOR, (seed, column.name, column.minimum, column.maximum)
            if seen.beyond(column) > 5:
                assert seen.doubted(column.name), (seed, column.name, column.minimum, column.maximum)


def test_of_a_tiny_table_nothing_implausible_is_made_and_doubts_are_told() -> None:
    for seed in range(6):
        seen = look(120, 0.5, seed)
        assert any(entry.column is None for entry in seen.unseen)
        guessed = [column for column in seen.found.schema.columns if seen.doubted(column.name)]
        assert len(guessed) >= 3, seed
        for column in seen.found.schema.columns:
            if isinstance(column, Number):
                assert max(abs(float(column.minimum)), abs(float(column.maximum))) < 1e6, (seed, column.name)
            elif isinstance(column, Datetime):
                assert "1900" < str(column.minimum) < str(column.maximum) < "2101", (seed, column.name)


def test_values_of_the_output_lie_in_what_was_seen_and_notices_are_warnings() -> None:
    frame = made_up(1500, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = synthesize(frame, epsilon=1.0, method="independent", seed=1, insecure_rng=np.random.default_rng(1))
    told = [str(warning.message) for warning in caught if issubclass(warning.category, LookalikeWarning)]
    doubts = [entry for entry in release.unseen if entry.is_doubt]
    assert any(entry.column == "rare" for entry in doubts), release.unseen
    for reason in {entry.reason for entry in release.unseen}:
        assert sum(reason in line for line in told) == 1
    assert len([line for line in told if line.startswith("Not seen: ")]) <= 9
    for column in release.schema.columns:
        if isinstance(column, Number) and not column.missing:
            values = pd.to_numeric(release.table[column.name])
            assert values.between(float(column.minimum), float(column.maximum)).all()
