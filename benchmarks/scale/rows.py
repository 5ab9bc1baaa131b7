"""Draws many rows from models of the engine's benchmark: CPU seconds, seconds, memory; adds to results/engine.jsonl.

    python benchmarks/engine_rows.py [--rows 10000000] [--only adult-20x3,acs-40x4] [--threads 1,2]

Memory is the peak of a fresh process with all rows held. One thread means LOOKALIKE_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

from engine import record
from engine_cases import cases, memory_baseline, peak_mb


def draw(name: str, rows: int) -> dict:
    """Fits a model shortly and draws rows; `distance` is how far they are from it in the worst of five marginals."""
    from lookalike.estimate import fit
    from lookalike.schema.domain import Domain
    from lookalike.tables.measurement import NoisyMarginal

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
        shape = domain.shape(attrs)
        flat = np.ravel_multi_index([codes[:, domain.position(name)] for name in attrs], shape)
        counts = np.bincount(flat, minlength=int(np.prod(shape))) / rows
        worst = max(worst, 0.5 * float(np.abs(counts - model.marginal(attrs).ravel() / model.total).sum()))
    return {"cpu_seconds": cpu, "seconds": wall, "peak_mb": peak, "peak_mb_before": before, "distance": worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", default="adult-20x3,acs-40x4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        sys.stdout.write(json.dumps(draw(arguments.only, arguments.rows)) + "\n")
        return
    for name in arguments.only.split(","):
        for threads in arguments.threads.split(","):
            done = subprocess.run(
                [sys.executable, __file__, "--worker", "--only", name, "--rows", str(arguments.rows)],
                env=os.environ | {"LOOKALIKE_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout.strip().splitlines()[-1])
            print(name, threads, "threads:", found, flush=True)
            record(task="rows", case=name, rows=arguments.rows, threads=int(threads), ours=found)


if __name__ == "__main__":
    main()
