"""PrivSyn's figures: GUM without noise, accuracy on the papers' tables, ablations, a wide table, and GUM against MCF.

    python -m benchmarks.papers privsyn gum       all 105 pairs of adult without noise: error by sweep, CPU seconds
    python -m benchmarks.papers privsyn accuracy  epsilon 1, 80 % split, 5 repeats: 3-way and 5-way distances
    python -m benchmarks.papers privsyn wide      200 columns x 100,000 rows of made data: CPU seconds, memory, error
    python -m benchmarks.papers privsyn mcf       GUM against min-cost flow, small tables without noise
    python -m benchmarks.papers privsyn document  writes the tables of docs/reproductions/privsyn.md

One JSON line per run is appended to benchmarks/results/privsyn.jsonl. Runs use reproducible noise and are NOT PRIVATE.
Distances are total variation, mean over 300 random k-way marginals of a fixed seed, between the rows that were
synthesised and as many sampled rows as the noisy total says.
"""

from __future__ import annotations

import itertools
import json
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import REPRODUCTIONS, Line, append, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.engine.cases import counts_of
from benchmarks.runs import marginal_distance, table_of
from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.pipeline import synthesize
from lookalike.sampling.raking import independent_rows
from lookalike.sampling.row_update import GumSchedule, flow_rows, mean_l1, update_rows
from lookalike.schema.domain import Domain, cell_numbers

RESULTS, DOCUMENT = results_of("privsyn"), REPRODUCTIONS / "privsyn.md"
PAPER = {"score_share": 0.1, "oneway_share": 0.1, "noise_weight": 1.0, "combine": "cliques", "start": "independent"}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"score": "indif", **PAPER},
    "paper, residual score": PAPER,
    "default with independent start": {"start": "independent"},
    "default with pairs only": {"combine": "pairs"},
}
COMPARED, REPEATS = ("default", "paper"), 5
GOALS = {"adult": (0.10, 0.24), "nltcs": (0.07, 0.12), "acs": (0.0167, 0.0386), "br2000": (0.053, 0.14)}


def load(name: str) -> tuple[np.ndarray, Domain]:
    """Integer codes and domain of a benchmark table."""
    rows, schema = table_of(name)
    codes = [rows[column].to_numpy() for column in schema.domain.names]
    return np.asfortranarray(np.column_stack(codes), np.int32), schema.domain


def all_pairs(codes: np.ndarray, domain: Domain) -> ConsistentMarginals:
    """The exact pairs of a table."""
    pairs = tuple(itertools.combinations(domain.names, 2))
    tables = tuple(
        counts_of(codes, [domain.position(name) for name in pair], domain.shape(pair)).astype(float) for pair in pairs
    )
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


def store(run: str, **numbers: object) -> None:
    """Store and print the numbers of one run."""
    line = {"date": time.strftime("%Y-%m-%d"), "run": run, **numbers}
    append(RESULTS, line)
    print(json.dumps(line), flush=True)


def run_gum() -> None:
    """GUM on the exact pairs of adult: error and CPU seconds by number of sweeps."""
    codes, domain = load("adult")
    targets = all_pairs(codes, domain)
    rng = np.random.default_rng(0)
    start = independent_rows(targets, len(codes), rng)
    store("gum", sweeps=0, mean_l1=mean_l1(start, targets), distinct=len(np.unique(start, axis=0)))
    for sweeps in (2, 5, 10, 20, 50):
        began = time.process_time()
        rows = update_rows(start, targets, np.random.default_rng(1), GumSchedule(sweeps))
        seconds = time.process_time() - began
        store(
            "gum",
            sweeps=sweeps,
            mean_l1=round(mean_l1(rows, targets), 5),
            cpu_seconds=round(seconds, 2),
            rows_kept=len(rows) == len(codes),
            in_domain=bool((rows.max(axis=0) < domain.sizes).all() and rows.min() >= 0),
            distinct=len(np.unique(rows, axis=0)),
        )


def released(codes: np.ndarray, domain: Domain, seed: int, **settings: Any) -> tuple[np.ndarray, float]:
    """Codes of a release by privsyn with reproducible noise, and its CPU seconds."""
    frame = pd.DataFrame(codes, columns=list(domain.names))
    sizes, noise = dict(zip(domain.names, domain.sizes, strict=True)), np.random.default_rng(seed)
    began = time.process_time()
    release = synthesize(frame, schema=sizes, method="privsyn", seed=seed, insecure_rng=noise, **settings)
    seconds = time.process_time() - began
    return np.asfortranarray(release.table[list(domain.names)].to_numpy().astype(np.int32)), seconds


def run_accuracy(tables: Sequence[str], variants: Sequence[str], repeats: int, epsilon: float) -> None:
    """Store runs of variants of the method that are not stored yet."""
    found = [line for line in stored(RESULTS) if line["run"] == "accuracy"]
    known = {(line["table"], line["variant"], line["repeat"], line["epsilon"]) for line in found}
    for table, variant, repeat in itertools.product(tables, variants, range(repeats)):
        if (table, variant, repeat, epsilon) not in known:
            store_accuracy(table, variant, repeat, epsilon)


def store_accuracy(table: str, variant: str, repeat: int, epsilon: float) -> None:
    """Store distances of 3-way and 5-way marginals of one variant of the method on 80 % of the rows."""
    codes, domain = load(table)
    order = np.random.default_rng([repeat, 80]).permutation(len(codes))
    train = np.asfortranarray(codes[order[: round(0.8 * len(codes))]])
    synth, seconds = released(train, domain, repeat, epsilon=epsilon, **VARIANTS[variant])
    store(
        "accuracy",
        table=table,
        epsilon=epsilon,
        variant=variant,
        repeat=repeat,
        tvd3=round(distance(train, synth, domain, 3), 5),
        tvd5=round(distance(train, synth, domain, 5), 5),
        goal=GOALS[table],
        cpu_seconds=round(seconds, 2),
        rows=len(synth),
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
    """CPU seconds, memory and distances on a wide table of made data, beside those of shuffled columns."""
    codes, domain = made_table(columns, rows, 0)
    began = time.process_time()

    def progress(message: str, _: object) -> None:
        print(f"{time.process_time() - began:.1f} CPU s: {message}", flush=True)

    synth, seconds = released(codes, domain, 0, epsilon=1.0, progress=progress)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng = np.random.default_rng(1)
    shuffled = np.asfortranarray(np.column_stack([rng.permutation(column) for column in codes.T]))
    linked = [(i, j) for i in range(columns) for j in range(i)]
    dependent = sorted(linked, key=lambda pair: -_gap(codes, domain, pair))[: 2 * columns]

    def of_pairs(made: np.ndarray) -> float:
        found = [marginal_distance(codes, made, pair, [domain.sizes[i] for i in pair]) for pair in dependent]
        return round(float(np.mean(found)), 5)

    store(
        "wide",
        columns=columns,
        rows=rows,
        cpu_seconds=round(seconds, 1),
        peak_mb=round(peak),
        tvd3=round(distance(codes, synth, domain, 3), 5),
        tvd3_of_shuffled_columns=round(distance(codes, shuffled, domain, 3), 5),
        dependent_pairs=of_pairs(synth),
        dependent_pairs_of_shuffled_columns=of_pairs(shuffled),
    )


def _gap(codes: np.ndarray, domain: Domain, pair: tuple[int, int]) -> float:
    """How far a pair of columns is from independence."""
    table = counts_of(codes, pair, [domain.sizes[i] for i in pair]) / len(codes)
    return float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


MCF_TABLES = {"nltcs": 8, "adult": 6, "br2000": 8}
"""Numbers of columns on which GUM is compared with flows."""
MCF_ROWS = 10_000
SWEEPS = {"gum": (1, 5, 20, 100, 500), "mcf": (1, 5, 20)}
"""Numbers of sweeps; those of GUM reach the time of the flows."""


def run_mcf() -> None:
    """GUM against min-cost flow on the exact pairs of small tables; what is stored is not repeated."""
    lines = [line for line in stored(RESULTS) if line["run"] == "mcf"]
    found = {(line["table"], line["method"], line["sweeps"]) for line in lines}
    for table, method in itertools.product(MCF_TABLES, SWEEPS):
        for sweeps in SWEEPS[method]:
            if (table, method, sweeps) not in found:
                store_mcf(table, method, sweeps)


def store_mcf(table: str, method: str, sweeps: int) -> None:
    """Store the error that GUM or flows leave after a number of sweeps."""
    codes, domain = load(table)
    codes = codes[np.random.default_rng(0).permutation(len(codes))][:MCF_ROWS, : MCF_TABLES[table]]
    domain = domain.project(domain.names[: MCF_TABLES[table]])
    targets = all_pairs(np.asfortranarray(codes), domain)
    start = independent_rows(targets, len(codes), np.random.default_rng(0))
    began, rng = time.process_time(), np.random.default_rng(1)
    if method == "gum":
        made = update_rows(start, targets, rng, GumSchedule(sweeps))
    else:
        made = flow_rows(start, targets, rng, sweeps=sweeps)
    seconds = time.process_time() - began
    store(
        "mcf",
        table=table,
        columns=len(domain),
        rows=len(codes),
        method=method,
        sweeps=sweeps,
        mean_l1_at_start=round(mean_l1(start, targets), 5),
        mean_l1=round(mean_l1(made, targets), 5),
        tvd3=round(distance(codes, made, domain, 3), 5),
        cpu_seconds=round(seconds, 2),
    )


def mcf_rows(lines: list[Line]) -> list[str]:
    """The stored comparison of GUM with flows, by table and CPU seconds."""
    own = [line for line in lines if line["run"] == "mcf"]
    own.sort(key=lambda line: (list(MCF_TABLES).index(line["table"]), line["method"], line["sweeps"]))
    heads = ("table", "columns", "method", "sweeps", "mean L1 at start", "mean L1", "3-way", "CPU s")
    names = ("table", "columns", "method", "sweeps", "mean_l1_at_start", "mean_l1", "tvd3", "cpu_seconds")
    return markdown(heads, [[line[name] for name in names] for line in own])


def table_of_means(lines: list[Line]) -> list[str]:
    """Means of the stored accuracy runs, one row per table, epsilon and variant."""
    runs: dict[tuple[str, float, str], list[Line]] = {}
    for line in lines:
        if line["run"] == "accuracy":
            runs.setdefault((line["table"], line["epsilon"], line["variant"]), []).append(line)
    rows = []
    for (table, epsilon, variant), own in sorted(runs.items()):
        three, five, seconds = (np.mean([line[key] for line in own]) for key in ("tvd3", "tvd5", "cpu_seconds"))
        goal = " / ".join(str(value) for value in GOALS[table]) if epsilon == 1 else ""
        rows.append([table, f"{epsilon:g}", variant, f"{three:.4f}", f"{five:.4f}", goal, f"{seconds:.1f}", len(own)])
    return markdown(("table", "epsilon", "variant", "3-way", "5-way", "goal", "CPU s", "repeats"), rows)


def document() -> None:
    """Write the tables of the page."""
    lines = stored(RESULTS)
    replace_parts(DOCUMENT, {"accuracy": table_of_means(lines), "mcf": mcf_rows(lines)})


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "gum", "accuracy", "wide", "mcf", "document")
    parser.add_argument("--tables", nargs="+", default=list(GOALS))
    parser.add_argument("--variants", nargs="+", default=list(COMPARED))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args(arguments)
    actions = {
        "gum": run_gum,
        "accuracy": lambda: run_accuracy(given.tables, given.variants, given.repeats, given.epsilon),
        "wide": lambda: run_wide(given.columns, given.rows),
        "mcf": run_mcf,
        "document": document,
    }
    actions[given.action]()
