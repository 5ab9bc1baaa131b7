"""Declared rules hold in every row of every method, and in the model itself where a method takes them in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import SchemaError
from lookalike.pipeline import synthesize
from lookalike.release import Release
from lookalike.schema.binned import Datetime, Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.constraints import AtLeast, Constraint, Determines, Never, Sum
from lookalike.schema.enforce import aligned, structural_zeros
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS

from .quick import quick

REPAIRED_ONLY = {
    "privsyn", "bsg", "privbayes", "priview", "dp-copula", "rap", "fem", "dualquery", "dp-wgan", "pate-gan",
    "bsg-paper", "privbayes-paper", "rap-paper", "fem-paper", "dualquery-paper",
}  # fmt: skip
"""Methods whose models make impossible rows too, which generation then repairs."""

COLUMNS = (
    Categorical("grade", values=("low", "mid", "high"), outside="absorb"),
    Integer("grade number", minimum=0, maximum=2, bins=3),
    Datetime("start", minimum="2024-01-01", maximum="2024-02-29", bins=4, resolution="day", format="%Y-%m-%d"),
    Datetime("end", minimum="2024-01-01", maximum="2024-03-31", bins=4, resolution="day", format="%Y-%m-%d"),
    Integer("days", minimum=0, maximum=30, bins=3),
    Categorical("sex", values=("F", "M"), outside="absorb"),
)
RULES: tuple[Constraint, ...] = (
    Determines("grade", "grade number", (("low", "0"), ("mid", "1"), ("high", "2"))),
    AtLeast("end", "start"),
    Sum("end", ("start", "days")),
    Never("sex = M and grade = low"),
)


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(5)
    grade = rng.integers(0, 3, count)
    start, days = np.datetime64("2024-01-01") + rng.integers(0, 59, count), rng.integers(0, 31, count)
    return pa.table(
        {
            "grade": np.array(["low", "mid", "high"])[grade],
            "grade number": grade,
            "start": start.astype(str),
            "end": (start + days).astype(str),
            "days": days,
            "sex": np.where(grade == 0, "F", np.where(rng.random(count) < 0.5, "F", "M")),
        }
    )


def release(method: str, epsilon: float) -> Release:
    schema = aligned(Schema(COLUMNS, RULES))
    rng = np.random.default_rng(6)
    return synthesize(
        rows(400), schema=schema, method=method, epsilon=epsilon, seed=1, insecure_rng=rng, **quick(method)
    )


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("epsilon", [0.05, 2.0])
def test_no_row_breaks_a_rule(method: str, epsilon: float) -> None:
    made = release(method, epsilon)
    table = made.rows.to_pandas()
    assert len(table) == made.fitted.rows
    assert (table["grade"].map({"low": 0, "mid": 1, "high": 2}) == table["grade number"]).all()
    start, end = (table[name].astype("datetime64[s]") for name in ("start", "end"))
    assert (end >= start).all()
    assert ((end - start).dt.days == table["days"]).all()
    assert not ((table["sex"] == "M") & (table["grade"] == "low")).any()


@pytest.mark.parametrize("method", [name for name in METHODS if name not in REPAIRED_ONLY])
def test_the_model_itself_knows_what_is_impossible(method: str) -> None:
    made = release(method, 0.5)
    model, domain = made.fitted.model, made.schema.domain
    codes = model.sample(500, np.random.default_rng(2))
    zeros = structural_zeros(made.schema)
    assert set(zeros) == {("grade", "grade number"), ("start", "end"), ("grade", "sex")}
    for attrs, table in zeros.items():
        assert not table[tuple(codes[:, domain.position(name)] for name in attrs)].any()
        assert model.marginal(attrs)[table].sum() == pytest.approx(0.0, abs=1e-9)


def test_a_rule_that_forbids_every_row_is_refused_before_anything_is_spent() -> None:
    schema = aligned(Schema(COLUMNS, (Never("sex = M or sex = F"),)))
    with pytest.raises(SchemaError, match="forbids every row"):
        synthesize(rows(50), schema=schema, method="independent", ledger=None)
