"""When to stop fitting: distance of fitted to true marginals, by stopping rule. NOT PRIVATE: reads the true counts.

python -m benchmarks.engine stopping TABLE.csv DOMAIN.json [--seeds 2]
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import Line, append, parser_of, results_of
from benchmarks.engine.cases import counts_of, random_sets
from lookalike.fitting.maximum_entropy import Problem, dual_parameters, mirror_parameters
from lookalike.measurements import NoisyMarginal
from lookalike.schema.domain import Domain

RESULTS = results_of("engine")
RULES = [("mirror", stop) for stop in (1.1, 1.0, 0.96, 0.9, 0.8)] + [("dual", penalty) for penalty in (0.1, 0.5, 2.0)]


def distance(domain: Domain, codes: np.ndarray, sigma: float, rule: tuple[str, float], seed: int) -> Line:
    """Mean total variation distance to the true marginals, calls and CPU seconds of one fit."""
    rng = np.random.default_rng(seed)
    sets = [tuple(domain.names[i] for i in clique) for clique in random_sets(domain.sizes, 20, 3, 8e6)]
    truths, noisy = [], []
    for clique in sets:
        shape = domain.shape(clique)
        truths.append(counts_of(codes, [domain.position(name) for name in clique], shape))
        noisy.append(NoisyMarginal(clique, truths[-1] + rng.normal(0.0, sigma, shape), sigma))
    problem = Problem(domain, noisy, total=None, zeros=None, calls=1000)
    start, zero = time.process_time(), np.zeros(problem.queries.size)
    if rule[0] == "mirror":
        theta = mirror_parameters(problem, zero, iterations=1500, stop_at=rule[1])
    else:
        theta = dual_parameters(problem, zero, penalty=rule[1], iterations=200)
    problem.evaluate(theta)
    errors = []
    for number, truth in enumerate(truths):
        found = problem.answers[problem.queries.slices[number]] / problem.total
        errors.append(0.5 * np.abs(found - problem.queries.pack(number, truth / len(codes))).sum())
    loss = 0.5 * float((((problem.answers - problem.observed) / problem.sigma) ** 2).sum())
    return {
        "tvd": float(np.mean(errors)),
        "calls": problem.calls,
        "cpu_seconds": time.process_time() - start,
        "loss_over_floor": loss / (0.5 * problem.queries.size),
    }


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("domain", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args(arguments)
    domain = Domain.of(json.loads(given.domain.read_text()))
    codes = np.loadtxt(given.table, delimiter=",", skiprows=1, dtype=np.int64)
    for sigma in (40.0, 200.0):
        for rule in RULES:
            runs = [distance(domain, codes, sigma, rule, seed) for seed in range(given.seeds)]
            line = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            print(f"sigma {sigma:g} {rule[0]} {rule[1]:g}: {line}", flush=True)
            append(RESULTS, {"benchmark": "engine", "task": "stopping", "sigma": sigma, "rule": rule, **line})
