"""Made-up tables on which error bars are compared with the truth: rare values, persons, small budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Identifier, Ordinal
from lookalike.schema.schema import Schema


@dataclass(frozen=True)
class Case:
    """A table and how it is synthesised.

    Attributes:
        frame: makes the table.
        schema: its public facts; None where everything is discovered.
        method: the method.
        epsilon: the budget.
        options: further arguments of `lookalike.synthesize`.
    """

    frame: Callable[[], pd.DataFrame]
    schema: Schema | None
    method: str
    epsilon: float
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def shop() -> pd.DataFrame:
    """Sales: 150 articles of which few are common, prices with a long tail, dates; nothing about it is declared."""
    rng, rows = np.random.default_rng(1), 6000
    article = np.minimum(rng.zipf(1.4, rows), 150)
    price = np.round(np.exp(rng.normal(2 + article / 80, 0.7, rows)), 2)
    region = rng.choice(["north", "south", "east", "west", "isles"], rows, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D")
    returned = np.where(rng.random(rows) < 0.02 + 0.1 * (region == "isles") + price / 200, "yes", "no")
    quantity = 1 + rng.poisson(30 / (3 + price))
    texts = [f"A{number:03d}" for number in article]
    columns = {"article": texts, "price": price, "quantity": quantity, "region": region, "day": day}
    return pd.DataFrame({**columns, "returned": returned})


def visits() -> pd.DataFrame:
    """Visits of persons who came one to three times."""
    rng, persons = np.random.default_rng(2), 2500
    times = rng.choice([1, 2, 3], persons, p=[0.6, 0.25, 0.15])
    person = np.repeat(np.arange(persons), times)
    age = np.clip(rng.gamma(4, 12, persons), 0, 99).astype(int)[person]
    sex = rng.choice(["F", "M"], persons)[person]
    rows = len(person)
    nights = rng.poisson(1 + age / 25)
    ward = np.where(age > 70, "geriatrics", rng.choice(["medicine", "surgery", "children"], rows, p=[0.6, 0.3, 0.1]))
    urgent = np.where(rng.random(rows) < 0.2 + nights / 30, "yes", "no")
    frame = {"person": person, "age": age, "sex": sex, "nights": np.minimum(nights, 30), "ward": ward, "urgent": urgent}
    return pd.DataFrame(frame)


VISITS = Schema(
    (
        Identifier("person", pattern="######", person=True, max_rows=3),
        Integer("age", minimum=0, maximum=99, bins=20),
        Categorical("sex", ("F", "M"), outside="absorb"),
        Integer("nights", minimum=0, maximum=30, bins=31),
        Categorical("ward", ("medicine", "surgery", "children", "geriatrics"), outside="absorb"),
        Categorical("urgent", ("no", "yes"), outside="absorb"),
    )
)


def survey() -> pd.DataFrame:
    """A questionnaire with correlated answers from 1 to 5, two of them rare."""
    rng, rows = np.random.default_rng(3), 8000
    mood = rng.normal(0, 1, rows)
    answers = {
        f"q{i}": np.clip(np.round(3 + mood * (0.3 + 0.15 * i) + rng.normal(0, 1.2 - 0.1 * i, rows)), 1, 5).astype(int)
        for i in range(6)
    }
    group = rng.choice(["a", "b", "c"], rows, p=[0.7, 0.29, 0.01])
    return pd.DataFrame(
        {**answers, "group": group, "happy": np.where(mood + rng.normal(0, 0.5, rows) > 1, "yes", "no")}
    )


SURVEY = Schema(
    (
        *(Integer(f"q{i}", minimum=1, maximum=5, bins=5) for i in range(6)),
        Categorical("group", ("a", "b", "c"), outside="absorb"),
        Ordinal("happy", ("no", "yes"), outside="absorb"),
    )
)


def register() -> pd.DataFrame:
    """Small whole numbers, each counted by itself, in few rows: medians are unsure by several values."""
    rng, rows = np.random.default_rng(4), 1500
    group = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    age = np.clip(rng.normal(45 + 8 * (group == "c"), 18, rows), 0, 99).astype(int)
    return pd.DataFrame(
        {"age": age, "group": group, "member": np.where(age + rng.normal(0, 20, rows) > 50, "yes", "no")}
    )


REGISTER = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=100),
        Categorical("group", ("a", "b", "c"), outside="absorb"),
        Categorical("member", ("no", "yes"), outside="absorb"),
    )
)

CASES = {
    "shop, discovered": Case(shop, None, "auto", 1.0),
    "visits of persons": Case(visits, VISITS, "auto", 1.0, {"neighbours": Neighbours(max_rows_per_person=3)}),
    "survey, contrasts": Case(survey, SURVEY, "auto", 0.3),
    "survey, tree": Case(survey, SURVEY, "mst", 1.0),
    "register of single values": Case(register, REGISTER, "mst", 1.0),
}
