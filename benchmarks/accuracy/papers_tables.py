"""Accuracy of every method on the papers' tables: marginal distances, SVM error, processor seconds, peak memory.

    python benchmarks/accuracy.py run --methods aim,mst --tables adult,nltcs --epsilons 0.1,1 --repeats 3
    python benchmarks/accuracy.py table --measure tvd.3
    python benchmarks/accuracy.py plot --measure tvd.3 --out tvd3.svg

One JSON line per run goes to benchmarks/results/accuracy.jsonl; runs that are there already are not repeated. Each run
is a process of its own. Two references cost no budget and have no guarantee: `resample` (rows drawn from the real table
with replacement: about the best to hope for) and `shuffled` (every column shuffled: exact 1-ways, no association).
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from lookalike.evaluate.compare import Job, jobs_of, judge_method, read_results, run_jobs, table_rows
from lookalike.report.comparison import comparison_chart
from lookalike.schema.schema import Schema

DATA = Path(os.environ.get("LOOKALIKE_BENCHMARK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "results" / "accuracy.jsonl"
TABLES = ("nltcs", "acs", "adult", "br2000")
REFERENCES = ("resample", "shuffled")


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of a benchmark table."""
    return pyarrow.csv.read_csv(DATA / f"{name}.csv"), Schema.from_domain_json(DATA / f"{name}-domain.json")


@dataclass(frozen=True)
class Reference:
    """What a run gives back, for the references that are no methods."""

    rows: pa.Table
    spent: Any = field(default_factory=lambda: SimpleNamespace(epsilon_spent=math.inf))


def synthesize(rows: pa.Table, *, method: str, seed: int, **arguments: Any) -> Any:
    """A release by a method of the package, or one of the references."""
    rng = np.random.default_rng([seed, 1])
    if method == "resample":
        return Reference(rows.take(rng.integers(0, rows.num_rows, rows.num_rows)))
    if method == "shuffled":
        columns = [column.take(rng.permutation(rows.num_rows)) for column in rows.columns]
        return Reference(pa.table(columns, names=rows.column_names))
    import lookalike

    return lookalike.synthesize(rows, method=method, seed=seed, **arguments)


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    rows, schema = table_of(job.table)
    svm = bool(os.environ.get("LOOKALIKE_BENCHMARK_SVM"))
    numbers = judge_method(job, table=rows, schema=schema, synthesize=synthesize, svm=svm)
    if math.isinf(float(str(numbers["epsilon_spent"]))):
        numbers["epsilon_spent"] = None
    return numbers


def show_progress(done: int, total: int, job: Job, line: dict[str, object] | None) -> None:
    if line is not None:
        outcome = line.get("error") or "took too long"
        if "tvd" in line:
            outcome = f"tvd {line['tvd']} in {line['cpu_seconds']} CPU s, {line['peak_mb']} MB"
        print(f"[{done}/{total}] {job.table} {job.method} eps {job.epsilon:g} #{job.repeat}: {outcome}", flush=True)


def print_table(rows: list[dict[str, object]]) -> None:
    """Rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(str(row.get(name, "")) for name in names) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table", "plot"))
    parser.add_argument("--methods", default=",".join(REFERENCES))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default="0.1,0.2,0.4,0.8,1.6,3.2")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--train-share", type=float, default=1.0, help="0.8 as in PrivMRF's SVM experiment")
    parser.add_argument("--svm", action="store_true", help="also the mean SVM error over all attributes (minutes)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--measure", default="tvd.3")
    parser.add_argument("--out", type=Path, default=Path("accuracy.svg"))
    given = parser.parse_args()
    if given.action == "run":
        if given.svm:
            os.environ["LOOKALIKE_BENCHMARK_SVM"] = "1"
        jobs = jobs_of(
            given.tables.split(","),
            given.methods.split(","),
            [float(e) for e in given.epsilons.split(",")],
            given.repeats,
            delta=given.delta,
            train_share=given.train_share,
        )
        lines = run_jobs(jobs, run_one, given.results, progress=show_progress)
        print_table(table_rows(lines, given.measure))
    elif given.action == "table":
        print_table(table_rows(read_results(given.results), given.measure))
    else:
        given.out.write_text(comparison_chart(read_results(given.results), given.measure), encoding="utf-8")
        print(given.out)


if __name__ == "__main__":
    main()
