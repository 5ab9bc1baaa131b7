"""PrivSyn's figures: GUM without noise, accuracy on the papers' tables, ablations, a wide table, and GUM against MCF.

    python benchmarks/privsyn.py gum         all 105 pairs of adult without noise: error by sweep, CPU seconds
    python benchmarks/privsyn.py accuracy    epsilon 1, 80 % split, 3 repeats: 3-way and 5-way distances
    python benchmarks/privsyn.py wide        200 columns x 100,000 rows of made data: CPU seconds, memory, distances
    python benchmarks/privsyn.py mcf         GUM against min-cost flow, small tables without noise
    python benchmarks/privsyn.py table       means of the stored accuracy runs as a Markdown table

One JSON line per run is appended to benchmarks/results/privsyn.jsonl. Runs use reproducible noise and are NOT PRIVATE.
Distances are total variation, mean over 300 random k-way marginals of a fixed seed, between the rows that were
synthesised and as many sampled rows as the noisy total says.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.generate.initial_rows import independent_rows
from lookalike.generate.min_cost_flow import flow_rows
from lookalike.generate.row_update import GumSchedule, mean_l1, update_rows
from lookalike.pipeline import synthesize
from lookalike.schema.cells import cell_numbers, counted
from lookalike.schema.domain import Domain

DATA = Path(os.environ.get("LOOKALIKE_BENCHMARK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "results" / "privsyn.jsonl"
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "score": "indif",
        "score_share": 0.1,
        "oneway_share": 0.1,
        "noise_weight": 1.0,
        "combine": "cliques",
        "start": "independent",
    },
    "paper, residual score": {
        "score_share": 0.1,
        "oneway_share": 0.1,
        "noise_weight": 1.0,
        "combine": "cliques",
        "start": "independent",
    },
    "default with independent start": {"start": "independent"},
    "default with pairs only": {"combine": "pairs"},
}
GOALS = {"adult": (0.10, 0.24), "nltcs": (0.07, 0.12), "acs": (0.0167, 0.0386), "br2000": (0.053, 0.14)}


def load(name: str) -> tuple[np.ndarray, Domain]:
    """Integer codes and domain of a benchmark table."""
    domain = Domain.of(json.loads((DATA / f"{name}-domain.json").read_text()))
    with (DATA / f"{name}.csv").open() as file:
        header = next(csv.reader(file))
        codes = np.loadtxt(file, delimiter=",", dtype=np.int32)
    return np.asfortranarray(codes[:, [header.index(column) for column in domain.names]]), domain


def counts(codes: np.ndarray, domain: Domain, clique: tuple[str, ...]) -> np.ndarray:
    return counted(domain, codes, clique)


def all_pairs(codes: np.ndarray, domain: Domain) -> ConsistentMarginals:
    """The exact pairs of a table."""
    pairs = tuple(itertools.combinations(domain.names, 2))
    tables = tuple(counts(codes, domain, pair) for pair in pairs)
    return ConsistentMarginals(domain, pairs, tables, (0.0,) * len(pairs), float(len(codes)))


def distance(real: np.ndarray, synth: np.ndarray, domain: Domain, k: int) -> float:
    """Mean total variation distance over 300 random k-way marginals."""
    rng = np.random.default_rng(k)
    chosen = {tuple(sorted(rng.choice(len(domain), k, replace=False))) for _ in range(300)}
    found = []
    for columns in sorted(chosen):
        both = np.concatenate([cell_numbers(table, columns, domain.sizes) for table in (real, synth)])
        _, cells = np.unique(both, return_inverse=True)
        p = np.bincount(cells[: len(real)], minlength=cells.max() + 1) / len(real)
        q = np.bincount(cells[len(real) :], minlength=cells.max() + 1) / len(synth)
        found.append(np.abs(p - q).sum() / 2)
    return float(np.mean(found))


def store(line: dict[str, Any]) -> None:
    line = {"date": time.strftime("%Y-%m-%d"), **line}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def run_gum() -> None:
    codes, domain = load("adult")
    targets = all_pairs(codes, domain)
    rng = np.random.default_rng(0)
    start = independent_rows(targets, len(codes), rng)
    store({"run": "gum", "sweeps": 0, "mean_l1": mean_l1(start, targets), "distinct": len(np.unique(start, axis=0))})
    for sweeps in (2, 5, 10, 20, 50):
        began = time.process_time()
        rows = update_rows(start, targets, np.random.default_rng(1), GumSchedule(sweeps))
        seconds = time.process_time() - began
        inside = bool((rows.max(axis=0) < domain.sizes).all() and rows.min() >= 0)
        store(
            {
                "run": "gum",
                "sweeps": sweeps,
                "mean_l1": round(mean_l1(rows, targets), 5),
                "cpu_seconds": round(seconds, 2),
                "rows_kept": len(rows) == len(codes),
                "in_domain": inside,
                "distinct": len(np.unique(rows, axis=0)),
            }
        )


def run_accuracy(tables: list[str], variants: list[str], repeats: int, epsilon: float) -> None:
    for table, variant, repeat in itertools.product(tables, variants, range(repeats)):
        codes, domain = load(table)
        order = np.random.default_rng([repeat, 80]).permutation(len(codes))
        train = np.asfortranarray(codes[order[: round(0.8 * len(codes))]])
        frame = pd.DataFrame(train, columns=list(domain.names))
        began = time.process_time()
        release = synthesize(
            frame,
            schema=dict(zip(domain.names, domain.sizes, strict=True)),
            epsilon=epsilon,
            method="privsyn",
            seed=repeat,
            insecure_rng=np.random.default_rng(repeat),
            **VARIANTS[variant],
        )
        seconds = time.process_time() - began
        synth = np.asfortranarray(release.table[list(domain.names)].to_numpy().astype(np.int32))
        store(
            {
                "run": "accuracy",
                "table": table,
                "epsilon": epsilon,
                "variant": variant,
                "repeat": repeat,
                "tvd3": round(distance(train, synth, domain, 3), 5),
                "tvd5": round(distance(train, synth, domain, 5), 5),
                "goal": GOALS[table],
                "cpu_seconds": round(seconds, 2),
                "rows": len(synth),
            }
        )


def made_table(columns: int, rows: int, seed: int) -> tuple[np.ndarray, Domain]:
    """Columns of 2 to 8 values, each a noisy mix of two earlier columns near it: known dependencies, many cycles."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, columns)
    codes = np.empty((rows, columns), np.int32, order="F")
    for i, size in enumerate(sizes):
        value = rng.integers(0, size, rows)
        for _ in range(min(i, 2)):
            parent = int(rng.integers(max(0, i - 10), i))
            linked = rng.random(rows) < 0.4
            value[linked] = codes[linked, parent] * int(size) // int(sizes[parent])
        codes[:, i] = value
    return codes, Domain(tuple(f"c{i}" for i in range(columns)), tuple(int(size) for size in sizes))


def run_wide(columns: int, rows: int) -> None:
    codes, domain = made_table(columns, rows, 0)
    frame = pd.DataFrame(codes, columns=list(domain.names))
    began = time.process_time()
    release = synthesize(
        frame,
        schema=dict(zip(domain.names, domain.sizes, strict=True)),
        epsilon=1.0,
        method="privsyn",
        seed=0,
        insecure_rng=np.random.default_rng(0),
        progress=lambda message, _: print(f"{time.process_time() - began:.1f} CPU s: {message}", flush=True),
    )
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    synth = np.asfortranarray(release.table[list(domain.names)].to_numpy().astype(np.int32))
    rng = np.random.default_rng(1)
    shuffled = np.asfortranarray(np.column_stack([rng.permutation(column) for column in codes.T]))
    linked = [(i, j) for i in range(columns) for j in range(i)]
    gaps = sorted(linked, key=lambda pair: -_gap(codes, domain, pair))[: 2 * columns]
    store(
        {
            "run": "wide",
            "columns": columns,
            "rows": rows,
            "cpu_seconds": round(seconds, 1),
            "peak_mb": round(peak),
            "tvd3": round(distance(codes, synth, domain, 3), 5),
            "tvd3_of_shuffled_columns": round(distance(codes, shuffled, domain, 3), 5),
            "dependent_pairs": round(float(np.mean([_pair_distance(codes, synth, domain, pair) for pair in gaps])), 5),
            "dependent_pairs_of_shuffled_columns": round(
                float(np.mean([_pair_distance(codes, shuffled, domain, pair) for pair in gaps])), 5
            ),
        }
    )


def _pair(codes: np.ndarray, domain: Domain, pair: tuple[int, int]) -> np.ndarray:
    return counted(domain, codes, [domain.names[i] for i in pair]) / len(codes)


def _pair_distance(real: np.ndarray, synth: np.ndarray, domain: Domain, pair: tuple[int, int]) -> float:
    return float(np.abs(_pair(real, domain, pair) - _pair(synth, domain, pair)).sum() / 2)


def _gap(codes: np.ndarray, domain: Domain, pair: tuple[int, int]) -> float:
    table = _pair(codes, domain, pair)
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def run_mcf() -> None:
    for table, columns, rows in (("nltcs", 8, 10_000), ("adult", 6, 10_000), ("br2000", 8, 10_000)):
        codes, domain = load(table)
        codes = codes[np.random.default_rng(0).permutation(len(codes))]
        domain = domain.project(domain.names[:columns])
        targets = all_pairs(np.asfortranarray(codes[:rows, :columns]), domain)
        start = independent_rows(targets, rows, np.random.default_rng(0))
        for method, sweeps in itertools.product(("gum", "mcf"), (1, 5, 20)):
            began = time.process_time()
            rng = np.random.default_rng(1)
            if method == "gum":
                made = update_rows(start, targets, rng, GumSchedule(sweeps))
            else:
                made = flow_rows(start, targets, rng, sweeps=sweeps)
            store(
                {
                    "run": "mcf",
                    "table": table,
                    "columns": columns,
                    "rows": rows,
                    "method": method,
                    "sweeps": sweeps,
                    "mean_l1_at_start": round(mean_l1(start, targets), 5),
                    "mean_l1": round(mean_l1(made, targets), 5),
                    "tvd3": round(distance(codes[:rows, :columns], made, domain, 3), 5),
                    "cpu_seconds": round(time.process_time() - began, 2),
                }
            )


def print_table() -> None:
    runs: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["run"] == "accuracy":
            runs.setdefault((line["table"], line["epsilon"], line["variant"]), []).append(line)
    print("| table | epsilon | variant | 3-way | 5-way | goal | CPU s | repeats |\n|---|---|---|---|---|---|---|---|")
    for (table, epsilon, variant), lines in sorted(runs.items()):
        three, five, seconds = (np.mean([line[key] for line in lines]) for key in ("tvd3", "tvd5", "cpu_seconds"))
        goal = " / ".join(str(value) for value in GOALS[table]) if epsilon == 1 else ""
        print(
            f"| {table} | {epsilon:g} | {variant} | {three:.4f} | {five:.4f} | {goal} | {seconds:.1f} | {len(lines)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("gum", "accuracy", "wide", "mcf", "table"))
    parser.add_argument("--tables", default=",".join(GOALS))
    parser.add_argument("--variants", default=",".join(["default", "paper"]))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    if given.action == "gum":
        run_gum()
    elif given.action == "accuracy":
        run_accuracy(given.tables.split(","), given.variants.split(","), given.repeats, given.epsilon)
    elif given.action == "wide":
        run_wide(given.columns, given.rows)
    elif given.action == "mcf":
        run_mcf()
    else:
        print_table()


if __name__ == "__main__":
    main()
