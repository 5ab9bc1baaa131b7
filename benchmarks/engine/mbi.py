"""The other side of engine.py: times mbi, in an environment of its own. Started by engine.py; prints one JSON line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from engine_cases import Case, cases, growing, memory_baseline, peak_mb

MOST_CPU_SECONDS = 90.0


def per_call(case: Case) -> dict:
    """CPU milliseconds of one marginal call after compiling, blocked until the result is there."""
    import jax
    from mbi import CliqueVector, Domain, Factor, marginal_oracles

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


def loss_of(case: Case, model) -> float:
    return sum(
        0.5 * float(((np.asarray(model[c].values) - y) ** 2).sum()) / case.sigma**2 for c, y in case.measurements()
    )


def fit(case: Case, warm=None, least_blocks: int = 1) -> tuple[dict, object]:
    """Mirror descent in blocks of 50 steps until the loss is at the noise floor; CPU seconds with compiling."""
    import jax
    from mbi import Domain, LinearMeasurement, estimation, marginal_loss

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
    while loss > floor and time.process_time() - start < MOST_CPU_SECONDS and blocks < 40:
        state = jax.block_until_ready(estimator._multi_step(state, loss_fn, total, ()))
        blocks += 1
        loss = loss_of(case, state.mu)
    model = jax.block_until_ready(estimator._finalize(state, total))
    seconds = time.process_time() - start
    return {"fit_cpu_seconds": seconds, "loss": loss, "floor": floor, "steps": 50 * blocks}, model


def main() -> None:
    task, name = sys.argv[1:3]
    if task == "call":
        found = per_call(cases()[name])
    elif task == "fit":
        found, _ = fit(cases()[name])
        found["peak_mb"] = peak_mb()
    else:
        found = {"rounds": []}
        model, start = None, time.process_time()
        for case in growing(int(name)):
            line, model = fit(case, model)
            found["rounds"].append(line)
            if time.process_time() - start > float(sys.argv[3]):
                break
        found["fit_cpu_seconds"] = sum(line["fit_cpu_seconds"] for line in found["rounds"])
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
