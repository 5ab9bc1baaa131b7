"""Made-up populations with known regressions, on which intervals from synthetic tables are compared with the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lookalike.schema.binned import Integer
from lookalike.schema.schema import Schema

Rows = Callable[[int, np.random.Generator], pd.DataFrame]


@dataclass(frozen=True)
class Case:
    """A population, what is estimated, and how its tables are made.

    Attributes:
        rows: draws so many rows of the population.
        schema: its public facts.
        number: rows of the private table.
        method: the method.
        epsilon: the budget.
        amount: outcome of the linear regression, whose mean is estimated as well.
        event: outcome (0 or 1) of the logistic regression, whose proportion is estimated as well.
        covariates: of both regressions; the proportion is also estimated where the last of them is 1.
    """

    rows: Rows
    schema: Schema
    number: int
    method: str
    epsilon: float
    amount: str
    event: str
    covariates: tuple[str, ...]


def _happens(rng: np.random.Generator, log_odds: np.ndarray) -> np.ndarray:
    return (rng.random(log_odds.size) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)


def wages(number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Employees: hourly wages by schooling, age and sex; membership in a union."""
    sex, region = rng.integers(0, 2, number), rng.integers(0, 5, number)
    age = rng.integers(20, 65, number)
    school = np.clip(np.round(3 + rng.normal(0, 1.3, number) - (age - 42) / 40), 0, 6).astype(np.int64)
    wage = np.exp(2.2 + 0.13 * school + 0.008 * (age - 42) - 0.15 * sex + 0.03 * region + rng.normal(0, 0.35, number))
    union = _happens(rng, -1.5 + 0.03 * (age - 42) + 0.15 * school + 0.25 * region - 0.4 * sex)
    wage = np.clip(np.round(wage), 2, 41).astype(np.int64)
    return pd.DataFrame({"age": age, "school": school, "region": region, "sex": sex, "wage": wage, "union": union})


WAGES = Schema(
    (
        Integer("age", minimum=20, maximum=64, bins=9),
        Integer("school", minimum=0, maximum=6, bins=7),
        Integer("region", minimum=0, maximum=4, bins=5),
        Integer("sex", minimum=0, maximum=1, bins=2),
        Integer("wage", minimum=2, maximum=41, bins=20),
        Integer("union", minimum=0, maximum=1, bins=2),
    )
)


def patients(number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Patients: days in hospital and readmission, by four conditions that go together, severity and treatment."""
    frailty = rng.normal(0, 1, number)
    conditions = {f"condition{i}": _happens(rng, -1.2 + 0.3 * i + 0.9 * frailty) for i in range(3)}
    severity = np.clip(np.round(2 + frailty + rng.normal(0, 1, number)), 0, 4).astype(np.int64)
    treated = _happens(rng, -0.5 + 0.5 * (severity - 2))
    burden = sum(conditions.values()) + severity
    days = np.clip(rng.poisson(1 + 0.7 * burden * (1 - 0.2 * treated)), 0, 14)
    again = _happens(rng, -2.2 + 0.35 * severity + 0.6 * conditions["condition0"] - 0.5 * treated)
    return pd.DataFrame({**conditions, "severity": severity, "days": days, "again": again, "treated": treated})


PATIENTS = Schema(
    (
        *(Integer(f"condition{i}", minimum=0, maximum=1, bins=2) for i in range(3)),
        Integer("severity", minimum=0, maximum=4, bins=5),
        Integer("days", minimum=0, maximum=14, bins=15),
        Integer("again", minimum=0, maximum=1, bins=2),
        Integer("treated", minimum=0, maximum=1, bins=2),
    )
)

_WAGES = ("wage", "union", ("age", "school", "region", "sex"))
_PATIENTS = ("days", "again", ("severity", "condition0", "condition1", "condition2", "treated"))
CASES = {
    "wages, mosaic, epsilon 1": Case(wages, WAGES, 10_000, "mosaic", 1.0, *_WAGES),
    "patients, mosaic, epsilon 1": Case(patients, PATIENTS, 5_000, "mosaic", 1.0, *_PATIENTS),
    "patients, mosaic, epsilon 0.3": Case(patients, PATIENTS, 5_000, "mosaic", 0.3, *_PATIENTS),
    "patients, mst, epsilon 1": Case(patients, PATIENTS, 5_000, "mst", 1.0, *_PATIENTS),
}
