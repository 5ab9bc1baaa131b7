"""Draws many rows from models of the engine's benchmark: CPU seconds, seconds, memory; adds to results/engine.jsonl.

    python -m benchmarks.scale rows [--rows 10000000] [--only adult-20x3 acs-40x4] [--threads 1 2]

Memory is the peak of a fresh process with all rows held. One thread means LOOKALIKE_THREADS=1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.common import Line, in_fresh_process, parser_of
from benchmarks.engine.cases import cases, counts_of, memory_baseline, peak_mb
from benchmarks.engine.compare import record


def draw(name: str, rows: int) -> Line:
    """Fits a model shortly and draws rows; `distance` is how far they are from it in the worst of five marginals."""
    from lookalike.measurements import NoisyMarginal
    from lookalike.models.graphical import fit
    from lookalike.schema.domain import Domain

    case = cases()[name]
    domain = Domain(case.names, case.sizes)
    noisy = [NoisyMarginal(names, values, case.sigma) for names, values in case.measurements()]
    model = fit(domain, noisy, iterations=50)
    before = memory_baseline()
    cpu, wall = time.process_time(), time.perf_counter()
    codes = model.sample(rows, np.random.default_rng(0))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = peak_mb()
    worst = 0.0
    for attrs in model.cliques[:5]:
        counts = counts_of(codes, [domain.position(name) for name in attrs], domain.shape(attrs)) / rows
        worst = max(worst, 0.5 * float(np.abs(counts - model.marginal(attrs) / model.total).sum()))
    return {"cpu_seconds": cpu, "seconds": wall, "peak_mb": peak, "peak_mb_before": before, "distance": worst}


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="+", default=["adult-20x3", "acs-40x4"])
    parser.add_argument("--threads", nargs="+", default=["1", "2"])
    parser.add_argument("--worker", action="store_true")
    given = parser.parse_args(arguments)
    if given.worker:
        sys.stdout.write(json.dumps(draw(given.only[0], given.rows)) + "\n")
        return
    for name in given.only:
        for threads in given.threads:
            command = ("benchmarks.scale", "rows", "--worker", "--only", name, "--rows", str(given.rows))
            found = in_fresh_process(*command, environment={"LOOKALIKE_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"})
            print(name, threads, "threads:", found, flush=True)
            if "error" not in found:
                record(task="rows", case=name, rows=given.rows, threads=int(threads), ours=found)
