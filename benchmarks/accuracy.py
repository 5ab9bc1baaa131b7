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
import csv
import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import lookalike
from lookalike.evaluate.compare import Job, jobs_of, peak_mb, read_results, run_jobs, table_rows
from lookalike.evaluate.marginals import marginal_distances
from lookalike.schema.domain import Domain

DATA = Path(os.environ.get("LOOKALIKE_BENCHMARK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parent / "results" / "accuracy.jsonl"
TABLES = ("nltcs", "acs", "adult", "br2000")
REFERENCES = ("resample", "shuffled")


def load(name: str) -> tuple[np.ndarray, Domain]:
    """Integer codes and domain of a benchmark table."""
    domain = Domain.of(json.loads((DATA / f"{name}-domain.json").read_text()))
    with (DATA / f"{name}.csv").open() as file:
        header = next(csv.reader(file))
        codes = np.loadtxt(file, delimiter=",", dtype=np.int32)
    return np.asfortranarray(codes[:, [header.index(column) for column in domain.names]]), domain


def split(codes: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to synthesise and rows to test classifiers on, by a fixed seed; (all, all) for a share of 1."""
    if share == 1:
        return codes, codes
    order = np.random.default_rng([seed, 80]).permutation(len(codes))
    cut = round(share * len(codes))
    return codes[order[:cut]], codes[order[cut:]]


def generate(job: Job, codes: np.ndarray, domain: Domain) -> np.ndarray:
    """Codes of a synthetic table by the job's method."""
    rng = np.random.default_rng([job.repeat, 1])
    if job.method == "resample":
        return codes[rng.integers(0, len(codes), len(codes))]
    if job.method == "shuffled":
        return np.column_stack([rng.permutation(column) for column in codes.T])
    table = pa.table({name: codes[:, i] for i, name in enumerate(domain.names)})
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    release = lookalike.synthesize(
        table, schema=sizes, epsilon=job.epsilon, delta=job.delta, method=job.method, seed=job.repeat
    )
    return np.column_stack([release.table[name].to_numpy() for name in domain.names])


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    codes, domain = load(job.table)
    train, test = split(codes, job.train_share, job.repeat)
    wall, cpu = time.perf_counter(), time.process_time()
    synth = generate(job, train, domain)
    numbers: dict[str, object] = {
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "peak_mb": peak_mb(),
        "rows": len(synth),
    }
    distances = {k: marginal_distances(train, synth, domain, k) for k in range(1, min(5, len(domain)) + 1)}
    numbers["tvd"] = {str(k): round(result.mean, 6) for k, result in distances.items()}
    numbers["tvd_worst"] = {str(k): round(result.worst, 6) for k, result in distances.items()}
    if os.environ.get("LOOKALIKE_BENCHMARK_SVM"):
        from lookalike.evaluate.classifiers import svm_errors

        numbers["svm_error"] = round(float(np.mean(list(svm_errors(synth, test, domain).values()))), 6)
    return numbers


def show_progress(done: int, total: int, job: Job, line: dict[str, object] | None) -> None:
    if line is not None:
        outcome = line.get("error") or f"tvd {line['tvd']} in {line['cpu_seconds']} CPU s, {line['peak_mb']} MB"
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
        from lookalike.report.charts import comparison_chart

        given.out.write_text(comparison_chart(read_results(given.results), given.measure), encoding="utf-8")
        print(given.out)


if __name__ == "__main__":
    main()
