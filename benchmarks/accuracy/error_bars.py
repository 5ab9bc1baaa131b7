"""How often error bars hold the true count: whole runs of a method on a papers' table, compared with the data.

    python -m benchmarks.accuracy error_bars run --table nltcs --method mst --epsilon 1 --runs 200
    python -m benchmarks.accuracy error_bars table

One JSON line per run goes to benchmarks/results/error_bars.jsonl: the share of intervals that hold, and their mean
width in counts, for cells of measured 1-way and 2-way marginals, for sums of cells of measured pairs, and for cells
of pairs that were not measured. Nominal level 90 %.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

import lookalike
from benchmarks.common import Line, append, markdown, parser_of, results_of, stored
from benchmarks.engine.cases import counts_of
from benchmarks.runs import table_of
from lookalike.schema.schema import Schema

RESULTS = results_of("error_bars")
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
        truth = counts_of(codes, [domain.position(name) for name in attrs], domain.shape(attrs))
        answers = np.asarray(model.marginal(attrs))
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


def table(lines: list[Line]) -> list[str]:
    """Coverage over all runs by table, method, epsilon and kind of count, as a Markdown table."""
    groups: dict[tuple[str, str, float, str], list[list[float]]] = defaultdict(list)
    for line in lines:
        for kind, numbers in line["kinds"].items():
            groups[line["table"], line["method"], line["epsilon"], kind].append(numbers)
    rows = []
    for (name, method, epsilon, kind), runs in groups.items():
        held, width, sizes = np.array(runs).T
        share, mean = np.average(held, weights=sizes), np.average(width, weights=sizes)
        cells = (f"{sizes.sum():,.0f}", f"{share:.1%}", f"{mean:,.0f}")
        rows.append((name, method, f"{epsilon:g}", kind, len(runs), *cells))
    return markdown(("table", "method", "epsilon", "counts", "runs", "intervals", "coverage", "mean width"), rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "table")
    parser.add_argument("--table", default="nltcs")
    parser.add_argument("--method", default="mst")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.action == "run":
        rows, schema = table_of(given.table)
        for seed in range(given.runs):
            start = time.process_time()
            kinds = one_run(rows, schema, given.method, given.epsilon, seed)
            line = {"table": given.table, "method": given.method, "epsilon": given.epsilon, "run": seed, "kinds": kinds}
            append(given.results, {**line, "cpu_seconds": round(time.process_time() - start, 2)})
    print("\n".join(table(stored(given.results))))
