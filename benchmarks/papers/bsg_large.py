"""The experiments of bsg.py at the size of the paper's table, on a simulated one of the shape of ACS 2013.

The American Community Survey is not at hand. Its eleven columns are those of Adult, with more values: rows of Adult are
drawn with replacement until there are as many as in the paper's Table 2, ages and hours are moved a little, and values
of education, occupation and relationship are split by other columns to the numbers of values of its Table 1. So the
dependences are Adult's, and not those of a network. NOT PRIVATE, like everything here.
"""

from __future__ import annotations

import time
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow.csv

from benchmarks.common import DATA
from benchmarks.papers import bsg
from benchmarks.runs import marginal_distance
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.row_level.seed_price import SeedTest
from lookalike.privacy.row_level.seeded_rows import SeededRows
from lookalike.schema.domain import Domain

ROWS = 1_494_974
SIZES = bsg.SIZES
"""The paper's Table 1."""
LEARNT, SEEDS, OTHERS = 560_000, 735_000, 100_000
"""Rows for structure and parameters together, for seeds, and for the test and for 'other reals' each: section 6.1."""
METHODS = ("bsg", "bsg-paper")
VARIANTS: dict[str, dict[str, Any]] = {
    "drawn parameters, Gaussian noise": {},
    "means, Gaussian noise": {"parameters": "means"},
    "drawn parameters, Laplace noise": {"noise": "laplace"},
}
"""Settings of `bsg-paper`: as it is by default, and with what the paper has or has not."""
AREAS = (
    "United-States",
    "Puerto-Rico Outlying-US(Guam-USVI-etc)",
    "Canada",
    "Mexico Cuba Jamaica Haiti Dominican-Republic El-Salvador Guatemala Honduras Nicaragua Columbia Ecuador Peru "
    "Trinadad&Tobago",
    "Philippines India China Japan Vietnam Taiwan Iran Hong Thailand Laos Cambodia",
    "Germany England Italy Poland Portugal Greece France Ireland Yugoslavia Hungary Scotland Holand-Netherlands",
    "South",
)
"""Areas of birth; all others, and unknown ones, are the eighth."""
MARRIED = {"Married-civ-spouse": 0, "Married-AF-spouse": 0, "Widowed": 1, "Divorced": 2, "Separated": 3,
           "Married-spouse-absent": 3, "Never-married": 4}  # fmt: skip


@cache
def simulated(rows: int = ROWS) -> np.ndarray:
    """Codes of the simulated table, columns as in `SIZES`."""
    rng, raw = np.random.default_rng(2013), pyarrow.csv.read_csv(DATA / "adult-raw.csv").to_pandas()
    raw = raw.iloc[rng.integers(0, len(raw), rows)].reset_index(drop=True)
    age = np.clip(raw["age"].to_numpy() + rng.integers(-2, 3, rows), 17, 96) - 17
    moved = np.where(rng.random(rows) < 0.3, rng.integers(-5, 6, rows), 0)
    areas = {country: area for area, countries in enumerate(AREAS) for country in countries.split()}
    old, schooling = age // 10, _numbers(raw["education"])
    columns = {
        "age": age,
        "workclass": _numbers(raw["workclass"].replace("?", "Private")),
        "education": _split(schooling, old, 24, rng),
        "marital": raw["marital-status"].map(MARRIED).to_numpy(),
        "occupation": _split(_numbers(raw["occupation"].replace("?", "Other-service")), schooling // 2, 25, rng),
        "relationship": _split(_numbers(raw["relationship"]), old, 18, rng),
        "race": _numbers(raw["race"]),
        "sex": _numbers(raw["gender"]),
        "hours": np.clip(raw["hours-per-week"].to_numpy() + moved, 0, 99),
        "birth": raw["native-country"].map(areas).fillna(7).to_numpy(),
        "income": _numbers(raw["income"]),
    }
    return np.asfortranarray(np.column_stack([columns[name] for name in SIZES]).astype(np.int32))


def _numbers(texts: Any) -> np.ndarray:
    """Codes of texts, the commonest first."""
    order = {text: code for code, text in enumerate(texts.value_counts().index)}
    return texts.map(order).to_numpy()


def _split(codes: np.ndarray, by: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Split the commonest values, again and again, in shares that depend on another column, until there are `size`."""
    made, values = codes.copy(), int(codes.max()) + 1
    for new in range(values, size):
        shares = rng.random(int(by.max()) + 1)
        own = made == (new - values) % values
        made[own & (rng.random(len(made)) < shares[by])] = new
    return made


def parted(repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Domain]:
    """Rows to learn from, seeds, other real rows, rows to test on."""
    codes = simulated()
    codes = codes[np.random.default_rng([repeat, 13]).permutation(len(codes))]
    ends = np.cumsum([0, LEARNT, SEEDS, OTHERS, OTHERS]) * len(codes) // ROWS
    parts = [codes[a:b] for a, b in pairwise(ends)]
    return parts[0], parts[1], parts[2], parts[3], Domain.of(SIZES)


def large_shape(repeat: int) -> dict[str, Any]:
    """Rows, possible and distinct rows, and the share of the higher income (Table 2)."""
    codes = simulated()
    return {
        "rows": len(codes),
        "columns": codes.shape[1],
        "possible": int(np.prod([float(size) for size in SIZES.values()])),
        "distinct": len(np.unique(codes, axis=0)),
        "values": [int(column.max()) + 1 for column in codes.T],
        "income": float(codes[:, -1].mean()),
    }


def large_models(repeat: int) -> dict[str, Any]:
    """Share of right guesses by column, as in `bsg.models`, of both variants."""
    train, _, _, test, domain = parted(repeat)
    return bsg.accuracies(train, test[:2000], domain, repeat, METHODS)


def large_distances(repeat: int) -> dict[str, Any]:
    """Total variation distance of every column and every pair from other real rows; 300,000 rows of each table."""
    train, seeds, others, _, domain = parted(repeat)
    rng, rows = np.random.default_rng([repeat, 3]), min(300_000, len(train))
    tables = {"reals": train[:rows], "marginals": bsg.learn(train, domain, repeat, method="independent")}
    for method in METHODS:
        tables[f"omega 11, {method}"] = bsg.learn(train, domain, repeat, method=method)
    network = tables["omega 11, bsg"]
    for omega in bsg.OMEGAS[1:]:
        tables[f"omega {omega}"] = bsg.seeded(network, seeds, domain, omega, rows, repeat)
    answer: dict[str, Any] = {}
    for name, table in tables.items():
        codes = table if isinstance(table, np.ndarray) else table.sample(rows, rng)
        for ways in (1, 2):
            chosen = combinations(range(len(domain)), ways)
            found = [marginal_distance(codes, others, c, [domain.sizes[i] for i in c]) for c in chosen]
            answer[f"{name}/{ways}"] = [round(value, 5) for value in found]
    return answer


def large_variants(repeat: int) -> dict[str, Any]:
    """Distances of columns and pairs from other real rows, by setting of the paper's variant."""
    train, _, others, _, domain = parted(repeat)
    rng, answer = np.random.default_rng([repeat, 3]), dict[str, Any]()
    for name, settings in VARIANTS.items():
        codes = bsg.learn(train, domain, repeat, method="bsg-paper", **settings).sample(300_000, rng)
        for ways in (1, 2):
            chosen = combinations(range(len(domain)), ways)
            found = [marginal_distance(codes, others, c, [domain.sizes[i] for i in c]) for c in chosen]
            answer[f"{name}/{ways}"] = float(np.mean(found))
    return answer


def large_private(repeat: int) -> dict[str, Any]:
    """Accuracy on income, plain and by output perturbation, for each lambda and for two numbers of rows (Table 4)."""
    train, _, _, test, domain = parted(repeat)
    rng, answer = np.random.default_rng([repeat, 19]), dict[str, Any]()
    asked, truth = bsg.prepared(test[:30_000], domain)
    for rows in (27_000, min(LEARNT, len(train))):
        features, signs = bsg.prepared(train[:rows], domain)
        for regularisation in (1e-3, 1e-4, 1e-5, 1e-6):
            weights = bsg.erm(features, signs, regularisation, "LR")
            noisy = [weights + bsg.noise(len(weights), 2 / (rows * regularisation), rng) for _ in range(5)]
            right = [float(np.mean(np.where(asked @ w > 0, 1.0, -1.0) == truth)) for w in (weights, *noisy)]
            answer[f"{rows}/{regularisation:g}"] = {"plain": right[0], "output": float(np.mean(right[1:]))}
    return answer


def large_speed(repeat: int) -> dict[str, Any]:
    """CPU seconds to learn from and to release rows from seeds, k = 50 and omega 9, system entropy included."""
    codes, domain = simulated(), Domain.of(SIZES)
    start = time.process_time()
    network = bsg.learn(codes, domain, repeat)
    answer: dict[str, Any] = {"rows": len(codes), "learning": round(time.process_time() - start, 2)}
    counted = NoisyMarginal((), np.array(float(len(codes))), 1.0)
    for rows in (10_000, 100_000, 1_000_000):
        request = SeededRows(network, rows, (2,), SeedTest(bsg.K, 1.0, seeded_share=0.999), counted)
        start = time.process_time()
        request.release(codes, domain, None)
        answer[str(rows)] = round(time.process_time() - start, 3)
    return answer
