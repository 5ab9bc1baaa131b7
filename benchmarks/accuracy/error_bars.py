"""How often error bars hold the true count: whole runs of a method on a papers' table, intervals compared with the
data.

    python benchmarks/error_bars.py run --table nltcs --method mst --epsilon 1 --runs 200
    python benchmarks/error_bars.py table

One JSON line per run goes to benchmarks/results/error_bars.jsonl: the share of intervals that hold, and their mean
width in counts, for cells of measured 1-way and 2-way marginals, for sums of cells of measured pairs, and for cells
of pairs that were not measured. Nominal level 90 %.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import lookalike
from lookalike.schema.domain import Clique, Domain
from lookalike.schema.schema import Schema

DATA = Path(os.environ.get("LOOKALIKE_BENCHMARK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "results" / "error_bars.jsonl"
LEVEL = 0.9
UNMEASURED_PAIRS = 4


def one_run(rows: pa.Table, schema: Schema, method: str, epsilon: float, seed: int) -> dict[str, list[float]]:
    """For each kind of count: share of intervals that hold the truth, mean width, number of intervals."""
    release = lookalike.synthesize(rows, schema=schema, epsilon=epsilon, method=method, seed=seed)
    domain, model, rng = schema.domain, release.model, np.random.default_rng([seed, 3])
    codes = np.column_stack([rows[name].to_numpy() for name in domain.names])
    bars = release.fitted.error_bars()
    measured = sorted({m.attrs for m in bars.measurements if m.groups is None})
    unmeasured = [c for c in combinations(domain.names, 2) if not any(set(c) <= set(m) for m in measured)]
    chosen = [unmeasured[i] for i in rng.permutation(len(unmeasured))[:UNMEASURED_PAIRS]]
    found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for attrs in [*measured, *chosen]:
        truth, answers = exact(codes, domain, attrs), np.asarray(model.marginal(attrs))
        low, high, basis = bars.marginal(attrs, answers, model.total, LEVEL)
        kind = f"{len(attrs)}-way cells, {basis}"
        found[kind] += list(
            zip(((low <= truth) & (truth <= high)).ravel().tolist(), (high - low).ravel().tolist(), strict=True)
        )
        if len(attrs) > 1 and basis == "measured":
            weights = (rng.random(truth.shape) < 0.5).astype(float)
            answer = bars.answer(attrs, weights, float((weights * answers).sum()), model.total, LEVEL)
            held = answer.low <= float((weights * truth).sum()) <= answer.high
            found[f"sums of {len(attrs)}-way cells, measured"].append((held, answer.high - answer.low))
    return {kind: [*np.mean(pairs, axis=0).round(4).tolist(), len(pairs)] for kind, pairs in found.items()}


def exact(codes: np.ndarray, domain: Domain, attrs: Clique) -> np.ndarray:
    """True counts of a marginal."""
    counts = np.zeros(domain.shape(attrs))
    np.add.at(counts, tuple(codes[:, domain.position(name)] for name in attrs), 1)
    return counts


def print_table(lines: list[dict]) -> None:
    """Coverage over all runs by table, method, epsilon and kind of count, as a Markdown table."""
    groups: dict[tuple, list[list[float]]] = defaultdict(list)
    for line in lines:
        for kind, numbers in line["kinds"].items():
            groups[line["table"], line["method"], line["epsilon"], kind].append(numbers)
    print("| table | method | epsilon | counts | runs | intervals | coverage | mean width |")
    print("|---|---|---|---|---|---|---|---|")
    for (table, method, epsilon, kind), runs in groups.items():
        held, width, sizes = np.array(runs).T
        share, mean = np.average(held, weights=sizes), np.average(width, weights=sizes)
        cells = (table, method, f"{epsilon:g}", kind, len(runs), f"{sizes.sum():,.0f}", f"{share:.1%}", f"{mean:,.0f}")
        print("| " + " | ".join(map(str, cells)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--table", default="nltcs")
    parser.add_argument("--method", default="mst")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.action == "run":
        rows = pyarrow.csv.read_csv(DATA / f"{given.table}.csv")
        schema = Schema.from_domain_json(DATA / f"{given.table}-domain.json")
        for seed in range(given.runs):
            start = time.process_time()
            kinds = one_run(rows, schema, given.method, given.epsilon, seed)
            line = {"table": given.table, "method": given.method, "epsilon": given.epsilon, "run": seed, "kinds": kinds}
            line["cpu_seconds"] = round(time.process_time() - start, 2)
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print_table([json.loads(text) for text in given.results.read_text().splitlines()])


if __name__ == "__main__":
    main()
