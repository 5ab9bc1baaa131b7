"""A made-up survey with skip patterns: columns that determine each other, structural zeros, up to 52 values a column.

It looks like a labour force survey: who is under age or out of work is "not applicable" in ten columns at once, who has
not moved in four; detailed codes determine major groups; born abroad is mostly not at all. Tables of this kind are
hard for fits on weighted rows, because few rows are near any cell of a wide set. The generator was varied until
`mosaic` went wrong on it, so its figures are those of a table that settings were chosen on.
"""

from __future__ import annotations

import numpy as np

SEED = 1_994
NOT_APPLICABLE = 0
"""The code of "not applicable" in every column that has one."""

Coded = tuple[dict[str, np.ndarray], dict[str, int]]


def skips(rows: int = 48_000, seed: int = SEED, widest: int = 52) -> Coded:
    """Codes by column, and the number of values of every column.

    Args:
        rows: how many rows.
        seed: of the generator.
        widest: values of the widest column; the other wide ones shrink in proportion.
    """
    rng = np.random.default_rng(seed)
    wide = {name: max(4, round(widest * size / 52)) for name, size in _WIDE.items()}
    codes = _people(rng, rows, wide)
    codes |= _work(rng, codes, wide)
    codes |= _moves(rng, codes, wide)
    codes |= _origin(rng, codes, wide)
    sizes = {name: wide.get(name) or _SIZES[name] for name in codes}
    return codes, sizes


_WIDE = {
    "industry": 52, "occupation": 47, "previous_state": 51, "household": 38, "born": 43, "mother_born": 43,
    "major_industry": 24, "major_occupation": 15,
}  # fmt: skip
_SIZES = {
    "age": 18, "sex": 2, "race": 5, "education": 17, "marital": 7, "enrolled": 3, "summary": 8, "status": 8, "class": 9,
    "union": 3, "weeks": 12, "tax": 6, "moved": 3, "previous_region": 6, "migration": 10,
    "citizenship": 5,
}  # fmt: skip


def _people(rng: np.random.Generator, rows: int, wide: dict[str, int]) -> dict[str, np.ndarray]:
    """Age and what depends on it: school, marriage, the place in the household."""
    weights = np.array([8, 8, 8, 7, 7, 7, 8, 8, 7, 6, 5, 4, 4, 4, 3, 3, 2, 1.0])
    age = rng.choice(18, rows, p=weights / weights.sum())
    sex, race = rng.integers(0, 2, rows), _skewed(rng, rows, 5, 1.4)
    child, young = age < 3, (age >= 3) & (age < 6)
    education = np.where(child, NOT_APPLICABLE, 1 + _by(rng, 2 * np.minimum(age, 8) + sex, 18, 16, 1.5))
    marital = np.where(child, NOT_APPLICABLE, 1 + _by(rng, age, 18, 6, 2.0))
    enrolled = np.where(young, 1 + (rng.random(rows) < 0.6), NOT_APPLICABLE)
    household = _by(rng, age * 7 + marital, 18 * 7, wide["household"], 2.5)
    groups = _groups(rng, wide["household"], 8)
    return {
        "age": age, "sex": sex, "race": race, "education": education, "marital": marital, "enrolled": enrolled,
        "household": household, "summary": groups[household],
    }  # fmt: skip


def _work(rng: np.random.Generator, known: dict[str, np.ndarray], wide: dict[str, int]) -> dict[str, np.ndarray]:
    """Work and what only those who work are asked: eight columns that are "not applicable" together."""
    age, education = known["age"], known["education"]
    rows = len(age)
    status = np.where(age < 3, NOT_APPLICABLE, 1 + _by(rng, age * 2 + known["sex"], 36, 7, 1.6))
    working = (status > 0) & (status < 5)
    occupation = 1 + _by(rng, education * 2 + known["sex"], 34, wide["occupation"] - 1, 1.5)
    industry = 1 + _by(rng, occupation, wide["occupation"], wide["industry"] - 1, 2.5)
    kind = 1 + _by(rng, industry, wide["industry"], 8, 2.0)
    weeks = 1 + _by(rng, status * 18 + age, 8 * 18, 11, 1.6)
    union = 1 + (rng.random(rows) < np.where(rng.random(wide["industry"]) < 0.2, 0.5, 0.03)[industry])
    asked = working & (rng.random(rows) < 0.25)
    major_industry = 1 + _groups(rng, wide["industry"], wide["major_industry"] - 1)[industry]
    major_occupation = 1 + _groups(rng, wide["occupation"], wide["major_occupation"] - 1)[occupation]
    return {
        "status": status,
        "class": np.where(working, kind, NOT_APPLICABLE),
        "industry": np.where(working, industry, NOT_APPLICABLE),
        "major_industry": np.where(working, major_industry, NOT_APPLICABLE),
        "occupation": np.where(working, occupation, NOT_APPLICABLE),
        "major_occupation": np.where(working, major_occupation, NOT_APPLICABLE),
        "weeks": np.where(working, weeks, NOT_APPLICABLE),
        "union": np.where(asked, union, NOT_APPLICABLE),
        "tax": np.where(working | (rng.random(rows) < 0.2), 1 + _by(rng, known["marital"], 7, 5, 2.0), NOT_APPLICABLE),
    }


def _moves(rng: np.random.Generator, known: dict[str, np.ndarray], wide: dict[str, int]) -> dict[str, np.ndarray]:
    """Where people lived a year ago; "not applicable" for nearly all."""
    rows = len(known["age"])
    moved = np.where(rng.random(rows) < 0.5, NOT_APPLICABLE, 1 + (rng.random(rows) < 0.17))
    state = 1 + _skewed(rng, rows, wide["previous_state"] - 1, 0.8)
    state = np.where(moved == 2, state, NOT_APPLICABLE)
    region = np.where(moved == 2, 1 + _groups(rng, wide["previous_state"], 5)[state], NOT_APPLICABLE)
    migration = np.where(moved == 2, 2 + _by(rng, region, 6, 8, 1.5), np.minimum(moved, 1))
    return {"moved": moved, "previous_state": state, "previous_region": region, "migration": migration}


def _origin(rng: np.random.Generator, known: dict[str, np.ndarray], wide: dict[str, int]) -> dict[str, np.ndarray]:
    """Countries of birth of a person and of the mother, and the citizenship that follows from them."""
    rows, race = len(known["age"]), known["race"]
    foreign = rng.random(rows) < np.array([0.05, 0.08, 0.5, 0.3, 0.15])[race]
    mother = np.where(foreign, 1 + _by(rng, race, 5, wide["mother_born"] - 1, 2.0), 0)
    same = rng.random(rows) < 0.6
    abroad = foreign & (rng.random(rows) < 0.7)
    born = np.where(abroad, np.where(same, mother, 1 + _by(rng, race, 5, wide["born"] - 1, 2.0)), 0)
    citizenship = np.where(born == 0, (mother > 0) & (rng.random(rows) < 0.02), 2 + (rng.random(rows) < 0.4))
    citizenship = np.where((born == 1) & (rng.random(rows) < 0.9), 4, citizenship)
    return {"mother_born": mother, "born": born, "citizenship": citizenship.astype(np.int64)}


def _skewed(rng: np.random.Generator, rows: int, size: int, power: float) -> np.ndarray:
    """Values in proportion to 1 / rank^power."""
    weights = 1.0 / np.arange(1, size + 1) ** power
    return rng.choice(size, rows, p=weights / weights.sum())


def _by(rng: np.random.Generator, given: np.ndarray, states: int, size: int, spread: float) -> np.ndarray:
    """Values drawn from a random skewed distribution of their own for each state of `given`."""
    weights = np.exp(spread * rng.normal(size=(states, size))) / np.arange(1, size + 1)
    upto = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    return np.minimum((rng.random(len(given))[:, None] > upto[given]).sum(axis=1), size - 1)


def _groups(rng: np.random.Generator, size: int, groups: int) -> np.ndarray:
    """The group of each of `size` values: neighbours belong together."""
    cuts = np.sort(rng.choice(np.arange(1, size), groups - 1, replace=False))
    return np.digitize(np.arange(size), cuts)
