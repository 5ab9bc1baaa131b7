"""DP-WGAN and PATE-GAN beside independent columns and columns of equal shares, on two of the papers' tables.

    python benchmarks/gans.py run [--methods 'dp-wgan;pate-gan'] [--tables nltcs,adult] [--epsilons 1,3.2]
    python benchmarks/gans.py document

`run` appends one JSON line per run to benchmarks/results/gans.jsonl and never repeats a run that is there; `document`
writes the tables of docs/reproductions/gans.md from them. 80 % of the rows are synthesised, delta is 1e-5, distances
are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy count says.
`uniform` draws every value of every column alike and looks at nothing but the schema and the number of rows. NOT
PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import accuracy
from lookalike.evaluate.compare import Job, Result, judge_method, summary
from page import Page, costs

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "gans.jsonl"
DOCUMENT = HERE.parent / "docs" / "reproductions" / "gans.md"
TABLES = ("nltcs", "adult")
EPSILONS = (1.0, 3.2)
UNIFORM = "uniform"
METHODS = ("dp-wgan", "pate-gan", "independent", UNIFORM)


def synthesize(rows: pa.Table, *, method: str, seed: int, **arguments: Any) -> Any:
    """A release by a method of the package, or uniform rows."""
    if method != UNIFORM:
        return accuracy.synthesize(rows, method=method, seed=seed, **arguments)
    domain, rng = arguments["schema"].domain, np.random.default_rng(seed)
    columns = {name: rng.integers(0, domain.size(name), rows.num_rows) for name in domain.names}
    return accuracy.Reference(pa.table(columns))


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    rows, schema = accuracy.table_of(job.table)
    numbers = judge_method(job, table=rows, schema=schema, synthesize=synthesize)
    if math.isinf(float(str(numbers["epsilon_spent"]))):
        numbers["epsilon_spent"] = None
    return numbers


def distances(results: list[Result]) -> list[str]:
    """1-way / 2-way / 3-way / 5-way distances, one row per method, one column per table and epsilon."""
    ways = [summary(results, f"tvd.{k}") for k in (1, 2, 3, 5)]
    keys = [(table, epsilon) for table in TABLES for epsilon in EPSILONS]
    head = " | ".join(f"{table}, {epsilon:g}" for table, epsilon in keys)
    text = [f"| method | {head} |", "|---|" + "---|" * len(keys)]
    for method in METHODS:
        cells = []
        for table, epsilon in keys:
            key = (table, method, epsilon)
            cells.append(" / ".join(f"{way[key][0]:.4f}" for way in ways) if key in ways[0] else "")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def parts(results: list[Result]) -> dict[str, list[str]]:
    """The generated parts of the page."""
    return {"distances": distances(results), "costs": costs(results, TABLES, METHODS[:3])}


if __name__ == "__main__":
    Page(TABLES, METHODS, EPSILONS, 1, RESULTS, DOCUMENT, run_one, parts).main(__doc__)
