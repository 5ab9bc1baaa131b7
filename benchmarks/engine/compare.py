"""Times the engine against mbi 2.0.0, one core each, CPU seconds: prints a table, appends to results/engine.jsonl.

    python -m benchmarks.engine compare [--mbi-venv FOLDER] [--only NAME ...] [--rounds 30]

(a) from new measurements to the loss that mbi reached (it is asked for the noise floor and advances by 50 steps at a
time), planning or compiling included; (b) per marginal call after warming up;
(c) memory: the peak minus what was resident after imports. mbi runs in an environment of its own, made on the first
run, and is always waited for (block_until_ready). Every figure comes from a fresh process pinned to one core. mbi's
are slow to get and do not change: those in the results file are taken from there (--again measures them anew).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Line, append, in_fresh_process, parser_of, results_of, stored
from benchmarks.engine.cases import Case, cases, growing, memory_baseline, peak_mb

RESULTS = results_of("engine")
# A negative number leaves the choice of the core to the system.
CORE = int(os.environ.get("ENGINE_BENCHMARK_CORE", "0"))
FIT = ("adult-chain", "nltcs-40x4", "acs-40x4", "adult-20x3")


def ours_per_call(case: Case, variant: str) -> Line:
    """CPU milliseconds of one evaluation of all marginals.

    Variants: the two executors on the same plan, and "without": no numba at all, so that the plan is another too.
    """
    from lookalike import guards

    if variant == "without":
        guards.NUMBA = False
    else:
        import numba  # noqa: F401 - the baseline of the memory is after all imports, as it is for the other library
    executor = "numba" if variant == "numba" else "numpy"
    from lookalike.engine.contraction import Network
    from lookalike.engine.cost import plan_cost
    from lookalike.engine.planner import make_plan
    from lookalike.schema.domain import Domain

    domain = Domain(case.names, case.sizes)
    cliques = [names for names, _ in case.measurements()]
    rng = np.random.default_rng(2)
    tables = {c: rng.normal(size=domain.shape(c)) for c in cliques}
    warm = make_plan(domain, cliques[:2])
    Network(warm, executor=executor).sweep(np.zeros(sum(domain.cells(leaf) for leaf in warm.leaves)))
    before = memory_baseline()
    start = time.process_time()
    plan = make_plan(domain, cliques)
    plan_seconds = time.process_time() - start
    network = Network(plan, executor=executor)
    potentials = np.concatenate([network.pack(i, tables[leaf]) for i, leaf in enumerate(plan.leaves)])
    network.sweep(potentials)
    build_seconds = time.process_time() - start
    times: list[float] = []
    batch = 1
    while len(times) < 5 or (sum(times) * batch < 2.0 and len(times) < 2000):
        start = time.process_time()
        for _ in range(batch):
            network.sweep(potentials)
        times.append((time.process_time() - start) / batch)
        batch = max(1, min(1000, int(2e-3 / max(times[-1], 1e-7))))
    check = {
        ",".join(leaf): network.unpack(i, network.marginals).ravel()[:10].tolist() for i, leaf in enumerate(plan.leaves)
    }
    return {
        "ms_per_call": 1e3 * float(np.median(times)),
        "plan_ms": 1e3 * plan_seconds,
        "build_ms": 1e3 * build_seconds,
        "predicted_ms": 1e3 * plan_cost(plan).seconds_per_call,
        "predicted_mb": plan_cost(plan).memory_mb,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "check": check,
    }


def ours_fit(case: Case, warm: Any = None, target: float | None = None) -> tuple[Line, Any]:
    """Mirror descent to the noise floor (or to a given loss); CPU seconds with planning."""
    from lookalike.fitting.maximum_entropy import Problem, mirror_parameters
    from lookalike.measurements import NoisyMarginal
    from lookalike.models.graphical import GraphicalModel
    from lookalike.schema.domain import Domain

    noisy = [NoisyMarginal(names, values, case.sigma) for names, values in case.measurements()]
    start = time.process_time()
    domain = Domain(case.names, case.sizes)
    warm_plan = warm.plan if warm is not None else None
    problem = Problem(domain, noisy, total=None, zeros=None, warm_plan=warm_plan, calls=500)
    first = problem.start_from(warm.potentials) if warm is not None else np.zeros(problem.queries.size)
    floor = 0.5 * problem.queries.size
    stop_at = 1.0 if target is None else min(1.0, target / floor)
    losses = [np.inf]
    theta = mirror_parameters(problem, first, iterations=3000, stop_at=stop_at, callback=lambda _, x: losses.append(x))
    model = GraphicalModel(
        domain, problem.potentials(theta), problem.total, problem.network.plan, network=problem.network
    )
    seconds = time.process_time() - start
    return {"fit_cpu_seconds": seconds, "loss": losses[-1], "floor": floor, "calls": problem.calls}, model


def ours_growing(rounds: int, targets: list[float]) -> Line:
    """A model grown by one column set per round, each to the loss the other library reached."""
    lines, model = [], None
    for case, target in zip(growing(rounds), targets, strict=False):
        line, model = ours_fit(case, model, target)
        lines.append(line)
    return {"rounds": lines, "fit_cpu_seconds": sum(line["fit_cpu_seconds"] for line in lines)}


def worker(task: str, name: str, detail: str) -> None:
    """Print the figures of one task of ours; runs in a process of its own."""
    if task == "call":
        found = ours_per_call(cases()[name], detail)
    elif task == "fit":
        found, _ = ours_fit(cases()[name], target=float(detail))
        found["peak_mb"] = peak_mb()
    else:
        found = ours_growing(int(name), json.loads(detail))
    sys.stdout.write(json.dumps(found) + "\n")


def run(*command: str, python: str = sys.executable) -> Line:
    """The JSON line that a command of this folder prints in a fresh process on one core."""
    pinned = (lambda: os.sched_setaffinity(0, {CORE})) if CORE >= 0 else None
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    return in_fresh_process("benchmarks.engine", *command, python=python, environment=alone, preexec_fn=pinned)


def mbi_python(folder: Path) -> str:
    """The interpreter of an environment that holds mbi, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "mbi==2.0.0"], check=True)
    return str(python)


def largest_difference(one: Line, two: Line) -> float:
    """The largest difference of two results that list numbers under the same names."""
    return max(float(np.abs(np.array(one[key]) - np.array(two[key])).max()) for key in one.keys() & two.keys())


def record(**fields: object) -> None:
    """Store the figures of one task with the date and the kind of processor."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    fields |= {"benchmark": "engine", "when": when, "cpu": platform.machine()}
    append(RESULTS, {key: fields[key] for key in sorted(fields)})


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--mbi-venv", type=Path, default=Path(tempfile.gettempdir()) / "mbi-venv")
    parser.add_argument("--only", nargs="+", default=[*cases(), "growing"])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--max-seconds", type=float, default=900.0, help="CPU seconds for mbi's growing models")
    parser.add_argument("--again", action="store_true", help="measure mbi even where the results file has figures")
    parser.add_argument("--mbi-alone", action="store_true", help="only measure mbi")
    parser.add_argument("--worker", nargs=3)
    given = parser.parse_args(arguments)
    if given.worker:
        worker(*given.worker)
        return
    theirs = partial(mbi_figures, mbi_python(given.mbi_venv), again=given.again)
    for name in given.only:
        if name == "growing":
            other = theirs("growing", str(given.rounds), str(given.max_seconds))
            if not given.mbi_alone:
                compare_growing(other, given.rounds)
            continue
        found = {task: theirs(task, name) for task in ("call", "fit") if task == "call" or name in FIT}
        if not given.mbi_alone:
            compare_calls(found["call"], name)
        if name in FIT and not given.mbi_alone:
            compare_fits(found["fit"], name)


def mbi_figures(python: str, *arguments: str, again: bool) -> Line:
    """What mbi needs for one task: from the results file if it is there, else measured and added to it."""
    case = " ".join(arguments)
    known = [line["mbi"] for line in stored(RESULTS) if line.get("task") == "mbi" and line["case"] == case]
    if known and not again:
        return known[-1]
    found = run("mbi_worker", *arguments, python=python)
    record(task="mbi", case=case, mbi=found)
    return found


def compare_calls(other: Line, name: str) -> None:
    """Time one evaluation of all marginals in every variant of ours, and store it beside mbi's."""
    check = other.pop("check", {})
    for executor in ("numba", "numpy", "without"):
        mine = run("compare", "--worker", "call", name, executor)
        difference = largest_difference(mine.pop("check"), check) if check else None
        ratio = other.get("ms_per_call", np.nan) / mine["ms_per_call"]
        print(f"{name:12s} {executor}: {mine['ms_per_call']:.4g} ms a call, mbi x{ratio:.1f}", mine, other, flush=True)
        record(task="call", case=name, executor=executor, ours=mine, mbi=other, ratio=ratio, difference=difference)


def compare_fits(other: Line, name: str) -> None:
    """Time a fit to the loss that mbi reached, and store it beside mbi's."""
    mine = run("compare", "--worker", "fit", name, str(other["loss"]))
    ratio = other.get("fit_cpu_seconds", np.nan) / mine["fit_cpu_seconds"]
    print(f"{name:12s} fit: {mine['fit_cpu_seconds']:.3g} CPU seconds, mbi x{ratio:.0f}", mine, other, flush=True)
    record(task="fit", case=name, ours=mine, mbi=other, ratio=ratio)


def compare_growing(other: Line, rounds: int) -> None:
    """Time the models that grow by one column set each, and store them beside mbi's."""
    targets = [line["loss"] for line in other["rounds"]]
    mine = run("compare", "--worker", "growing", str(rounds), json.dumps(targets))
    ratio = other["fit_cpu_seconds"] / mine["fit_cpu_seconds"]
    print(f"{len(targets)} growing models: {mine['fit_cpu_seconds']:.3g} CPU seconds, mbi x{ratio:.0f}", flush=True)
    record(task="growing", case=f"{len(targets)} models", ours=mine, mbi=other, ratio=ratio)
