"""Draws the example table: 20,000 simulated hospital admissions. No real person is in it."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

ROWS = 20_000
SEED = 20_240_611

REGIONS = ("Harbour", "Old town", "Hills", "Coast, north", "Coast, south", "Lake side", "Valley", "Abroad")
REGION_SHARES = (0.24, 0.19, 0.15, 0.12, 0.11, 0.09, 0.08, 0.02)
CLINICS = ("0017", "0042", "0108", "0230", "1004")
WARDS = ("Medicine", "Surgery", "Maternity", "Paediatrics", "Geriatrics", "Day clinic", "Intensive care")
TRIAGE = ("1 immediate", "2 very urgent", "3 urgent", "4 standard", "5 not urgent")
DIAGNOSES = (
    "circulation", "respiration", "digestion", "injury", "tumour", "nerves", "infection", "pregnancy and birth",
    "kidneys", "bones and joints", "mind", "eye and ear", "skin", "metabolism", "check-up",
)  # fmt: skip
# Rows: wards; columns: diagnoses. Relative weights, made up.
DIAGNOSIS_WEIGHTS = np.array(
    [
        [9, 8, 6, 1, 4, 4, 6, 0, 4, 2, 3, 1, 2, 5, 1],
        [2, 1, 7, 9, 7, 1, 1, 0, 3, 9, 0, 3, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 95, 2, 0, 1, 0, 0, 2, 0],
        [0, 9, 5, 6, 1, 3, 9, 0, 1, 2, 1, 4, 2, 2, 2],
        [9, 7, 3, 6, 3, 6, 4, 0, 4, 5, 4, 1, 1, 4, 1],
        [1, 1, 6, 2, 5, 1, 0, 0, 2, 4, 1, 9, 4, 1, 9],
        [9, 8, 2, 7, 2, 4, 6, 0, 2, 0, 0, 0, 0, 2, 0],
    ],
    dtype=float,
)
# Rows: wards; columns: triage, immediate first.
TRIAGE_WEIGHTS = np.array(
    [[2, 12, 38, 36, 12], [3, 14, 33, 37, 13], [2, 10, 40, 43, 5], [2, 12, 36, 38, 12],
     [2, 14, 42, 34, 8], [0, 0, 3, 37, 60], [45, 38, 15, 2, 0]],
    dtype=float,
)  # fmt: skip
STAY_MEANS = np.array([4.5, 5.0, 2.6, 2.2, 9.5, 0.0, 7.0])
DAY_COSTS = np.array([610.0, 890.0, 720.0, 650.0, 560.0, 480.0, 2350.0])


def draw_rows(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One category per row of `weights`."""
    steps = np.cumsum(weights, axis=1)
    return (rng.random(len(steps))[:, None] * steps[:, -1:] > steps).sum(axis=1)


def draw_people(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ages with many old people and some births, and sexes."""
    part = rng.choice(4, ROWS, p=(0.09, 0.16, 0.33, 0.42))
    ages = np.choose(
        part, (rng.gamma(1.3, 4.0, ROWS), rng.normal(31, 6, ROWS), rng.uniform(18, 70, ROWS), rng.normal(74, 10, ROWS))
    )
    return np.clip(ages, 0, 104).astype(int), rng.random(ROWS) < 0.52


def draw_wards(age: np.ndarray, female: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    weights = np.tile(np.array([34.0, 27.0, 0.0, 0.0, 0.0, 17.0, 5.0]), (ROWS, 1))
    weights[:, 2] = np.where(female & (age >= 14) & (age <= 50), 70 * np.exp(-(((age - 31) / 7.5) ** 2)), 0)
    weights[age < 16] = (0, 8, 0, 75, 0, 12, 3)
    weights[:, 4] = np.where(age >= 65, 12 + (age - 65) * 1.5, 0)
    return draw_rows(weights, rng)


def draw_days(ward: np.ndarray, triage: np.ndarray, age: np.ndarray, rng: np.random.Generator):
    """Admission days with winter peaks and fewer on weekends; stays that grow with urgency and age."""
    calendar = np.arange(np.datetime64("2022-01-01"), np.datetime64("2025-01-01"))
    year = (calendar - calendar.astype("datetime64[Y]")).astype(int) / 365.25
    weekend = (calendar.astype(int) + 3) % 7 >= 5
    shares = (1 + 0.25 * np.cos(2 * np.pi * (year - 0.05))) * np.where(weekend, 0.7, 1.0)
    admitted = rng.choice(calendar, ROWS, p=shares / shares.sum())
    mean = STAY_MEANS[ward] * (1.5 - 0.15 * triage) * (0.8 + age / 180)
    stay = np.minimum(rng.negative_binomial(1.6, 1.6 / (1.6 + mean + 1e-9)), 60)
    return admitted, np.where(ward == 5, 0, stay)


def measure_bodies(age: np.ndarray, female: np.ndarray, diagnosis: np.ndarray, rng: np.random.Generator):
    fever = np.isin(diagnosis, (1, 6))
    temperature = np.clip(rng.normal(36.8 + 0.9 * fever, 0.4 + 0.4 * fever), 34.0, 41.9)
    grown = 1 - np.exp(-age / 8.0)
    weight = np.clip((4 + grown * np.where(female, 65, 77)) * rng.lognormal(0, 0.17, ROWS), 1.5, 199.9)
    systolic = np.clip(95 + 0.55 * age + 6 * (diagnosis == 0) + rng.normal(0, 14, ROWS), 60, 239)
    heaped = np.where(rng.random(ROWS) < 0.8, 10 * np.round(systolic / 10), np.round(systolic)).astype(int)
    return temperature, weight, np.clip(heaped, 60, 239)


def make_table(rng: np.random.Generator) -> dict[str, list[str]]:
    """The table's columns as texts, in order."""
    age, female = draw_people(rng)
    ward = draw_wards(age, female, rng)
    diagnosis = draw_rows(DIAGNOSIS_WEIGHTS[ward], rng)
    triage = draw_rows(TRIAGE_WEIGHTS[ward], rng)
    region = rng.choice(len(REGIONS), ROWS, p=REGION_SHARES)
    clinic = draw_rows(1.0 + 6.0 * (np.arange(5)[None, :] == (region % 5)[:, None]), rng)
    admitted, stay = draw_days(ward, triage, age, rng)
    temperature, weight, systolic = measure_bodies(age, female, diagnosis, rng)
    cost = DAY_COSTS[ward] * (0.7 + stay) * rng.lognormal(0, 0.25, ROWS)
    smoker = (rng.random(ROWS) < np.where(age < 12, 0, 0.19 + 0.06 * ~female)).astype(int)
    risk = 0.0005 * np.exp(age / 22.0) * np.where(ward == 6, 7, 1) * np.where(ward == 5, 0, 1)
    outcome = np.where(rng.random(ROWS) < risk, 2, np.where(rng.random(ROWS) < 0.06 + 0.1 * (ward == 6), 1, 0))
    unknown_smoker = (rng.random(ROWS) < 0.12) & (age >= 12)
    return {
        "sex": ["F" if is_female else "M" for is_female in female],
        "age": [str(value) for value in age],
        "region": [REGIONS[i] for i in region],
        "clinic": [CLINICS[i] for i in clinic],
        "ward": [WARDS[i] for i in ward],
        "triage": [TRIAGE[i] for i in triage],
        "diagnosis": [DIAGNOSES[i] for i in diagnosis],
        "admitted": [str(day) for day in admitted],
        "discharged": [str(day) for day in admitted + stay],
        "stay_days": [str(value) for value in stay],
        "temperature": _blank([f"{value:.1f}" for value in temperature], 0.06, "NA", rng),
        "systolic": _blank([str(value) for value in systolic], 0.09, "?", rng),
        "weight_kg": _blank([f"{value:.1f}" for value in weight], 0.15, "", rng),
        "smoker": ["?" if hidden else ("no", "yes")[i] for hidden, i in zip(unknown_smoker, smoker, strict=True)],
        "cost": [f"{value:.2f}" for value in np.minimum(cost, 249_999.99)],
        "outcome": [("home", "moved", "died")[i] for i in outcome],
    }


def _blank(values: list[str], share: float, marker: str, rng: np.random.Generator) -> list[str]:
    return [marker if hidden else value for value, hidden in zip(values, rng.random(ROWS) < share, strict=True)]


def main(path: Path) -> None:
    columns = make_table(np.random.default_rng(SEED))
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "admissions.csv")
