"""Rows under a condition that cuts a bin, and the noisy tables of a run as files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.errors import InputError
from lookalike.models.archive import INDEX, write_noisy_tables
from lookalike.release import FittedModel
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=119, bins=6),
        Continuous("pay", minimum=0, maximum=100, bins=4, decimals=1),
        Datetime("day", minimum="2020-01-01", maximum="2020-12-31", bins=4),
        Categorical("sex", ("F", "M"), outside="absorb"),
    )
)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    rng = np.random.default_rng(0)
    n = 4000
    table = pa.table(
        {
            "age": rng.integers(0, 120, n),
            "pay": np.round(rng.random(n) * 100, 1),
            "day": pa.array(np.datetime64("2020-01-01") + rng.integers(0, 366, n)).cast(pa.date32()),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n)],
        }
    )
    return la.synthesize(table, schema=SCHEMA, epsilon=20.0, method="mst", rows=1).fitted


@pytest.mark.parametrize(
    ("where", "share", "holds"),
    [
        ("age >= 65", 55 / 120, lambda row: row["age"] >= 65),
        ("age >= 65 and sex = F", 55 / 240, lambda row: row["age"] >= 65 and row["sex"] == "F"),
        ("age = 33 or pay < 12.5", 0.13, lambda row: row["age"] == 33 or row["pay"] < 12.5),
        ("not (age between 10 and 99)", 30 / 120, lambda row: not 10 <= row["age"] <= 99),
        ("day <= '2020-02-29'", 60 / 366, lambda row: str(row["day"]) <= "2020-02-29"),
        ("pay > 99", 0.01, lambda row: row["pay"] > 99),
    ],
)
def test_every_row_satisfies_a_condition_that_cuts_a_bin(fitted: FittedModel, where: str, share: float, holds) -> None:
    rows = fitted.sample_arrow(300, seed=1, where=where).to_pylist()
    assert len(rows) == 300
    assert all(holds(row) for row in rows)
    by_default = fitted.sample_arrow(seed=1, where=where).num_rows
    assert by_default == pytest.approx(share * fitted.rows, rel=0.3)


def test_values_within_a_cut_bin_are_spread_as_always(fitted: FittedModel) -> None:
    ages = np.array(fitted.sample_arrow(3000, seed=2, where="age >= 65").column("age").to_pylist())
    counts = np.bincount(ages, minlength=120)[65:]
    assert counts.min() > 20
    assert counts.max() < 110


def test_a_condition_that_nothing_satisfies_is_refused(fitted: FittedModel) -> None:
    with pytest.raises(InputError, match="share of"):
        fitted.sample_arrow(10, where="age >= 65 and age < 65")
    with pytest.raises(InputError, match="share of"):
        fitted.sample_arrow(10, where="pay > 99.95 and age = 3 and day = '2020-01-01'")


def test_noisy_tables_with_their_variances(fitted: FittedModel, tmp_path: Path) -> None:
    index, *paths = fitted.write_noisy_tables(tmp_path / "new" / "tables")
    assert len(paths) == len(fitted.measurements)
    with index.open() as stream:
        listed = list(csv.DictReader(stream))
    assert [row["file"] for row in listed] == [path.name for path in paths]
    with paths[0].open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["age"] for row in rows][:2] == SCHEMA["age"].labels()[:2]
    assert [float(row["count"]) for row in rows] == fitted.measurements[0].values.tolist()
    assert {float(row["variance"]) for row in rows} == {fitted.measurements[0].stddev ** 2}


def test_groups_and_contrasts_say_what_they_are(fitted: FittedModel, tmp_path: Path) -> None:
    from lookalike.measurements import NoisyMarginal

    grouped = NoisyMarginal(("sex", "sex")[:1], np.array([7.0]), 2.0, groups=np.array([0, 0]))
    contrasts = NoisyMarginal(("sex",), np.array([-1.0, 1.0]), 2.0, contrasts=(2,))
    _, one, two = write_noisy_tables(tmp_path, SCHEMA, [grouped, contrasts])
    assert one.read_text().splitlines() == ["sex,group,count of group,variance", "F,0,7.0,4.0", "M,0,7.0,4.0"]
    assert two.read_text().splitlines()[:2] == ["sex,contrast,variance", "F,-1.0,4.0"]
    assert "contrast" in (tmp_path / INDEX).read_text()
    with pytest.raises(InputError, match="no noisy tables"):
        write_noisy_tables(tmp_path, SCHEMA, [])
