"""Times mbi, in an environment of its own that need not hold this package. Started by compare; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.engine.cases import Case, cases, growing, memory_baseline, peak_mb

MAX_CPU_SECONDS = 90.0


def per_call(case: Case) -> dict[str, Any]:
    """CPU milliseconds of one marginal call after compiling, blocked until the result is there."""
    import jax  # pyright: ignore[reportMissingImports]
    from mbi import CliqueVector, Domain, Factor, marginal_oracles  # pyright: ignore[reportMissingImports]

    domain = Domain(case.names, case.sizes)
    cliques = [names for names, _ in case.measurements()]
    rng = np.random.default_rng(2)
    tables = {c: Factor(domain.project(c), rng.normal(size=domain.project(c).shape)) for c in cliques}
    potentials = CliqueVector(domain, tuple(cliques), tables)
    before = memory_baseline()
    oracle = jax.jit(marginal_oracles.default_oracle(cliques, domain, has_constraints=False))
    start = time.process_time()
    result = jax.block_until_ready(oracle(potentials, 1.0))
    compile_seconds = time.process_time() - start
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 2.0 and len(times) < 2000):
        start = time.process_time()
        jax.block_until_ready(oracle(potentials, 1.0))
        times.append(time.process_time() - start)
    sums = {",".join(c): [round(float(x), 9) for x in np.asarray(result[c].values).ravel()[:10]] for c in cliques}
    return {
        "ms_per_call": 1e3 * float(np.median(times)),
        "compile_cpu_seconds": compile_seconds,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "check": sums,
    }


def loss_of(case: Case, model: Any) -> float:
    """Half the squared differences from the noisy counts, in variances of the noise."""
    return sum(
        0.5 * float(((np.asarray(model[c].values) - y) ** 2).sum()) / case.sigma**2 for c, y in case.measurements()
    )


def fit(case: Case, warm: Any = None) -> tuple[dict[str, Any], Any]:
    """Mirror descent in blocks of 50 steps until the loss is at the noise floor; CPU seconds with compiling."""
    import jax  # pyright: ignore[reportMissingImports]
    from mbi import Domain, LinearMeasurement, estimation, marginal_loss  # pyright: ignore[reportMissingImports]

    start = time.process_time()
    domain = Domain(case.names, case.sizes)
    measured = [LinearMeasurement(y.ravel(), c, case.sigma) for c, y in case.measurements()]
    floor = 0.5 * sum(y.size for _, y in case.measurements())
    estimator = estimation.MirrorDescent()
    total = estimation.minimum_variance_unbiased_total(measured)
    loss_fn = marginal_loss.from_linear_measurements(measured, domain)
    state = estimator._init(domain, loss_fn, total, warm_start=warm)
    state = jax.tree.map(jax.numpy.copy, state)
    blocks, loss = 0, np.inf
    while loss > floor and time.process_time() - start < MAX_CPU_SECONDS and blocks < 40:
        state = jax.block_until_ready(estimator._multi_step(state, loss_fn, total, ()))
        blocks += 1
        loss = loss_of(case, state.mu)
    model = jax.block_until_ready(estimator._finalize(state, total))
    seconds = time.process_time() - start
    return {"fit_cpu_seconds": seconds, "loss": loss, "floor": floor, "steps": 50 * blocks}, model


def main(arguments: Sequence[str]) -> None:
    task, name = arguments[:2]
    if task == "call":
        found = per_call(cases()[name])
    elif task == "fit":
        found, _ = fit(cases()[name])
        found["peak_mb"] = peak_mb()
    else:
        found: dict[str, Any] = {"rounds": []}
        model, start = None, time.process_time()
        for case in growing(int(name)):
            line, model = fit(case, model)
            found["rounds"].append(line)
            if time.process_time() - start > float(arguments[2]):
                break
        found["fit_cpu_seconds"] = sum(line["fit_cpu_seconds"] for line in found["rounds"])
    sys.stdout.write(json.dumps(found) + "\n")
