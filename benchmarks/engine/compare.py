"""Times the engine against mbi 2.0.0, one core each, CPU seconds: prints a table, appends to results/engine.jsonl.

    python benchmarks/engine.py [--mbi-venv FOLDER] [--only NAME,...] [--rounds 30]

(a) from new measurements to the loss that mbi reached (it is asked for the noise floor and advances by 50 steps at a
time), planning or compiling included; (b) per marginal call after warming up;
(c) memory: the peak minus what was resident after imports. mbi runs in an environment of its own, made on the first
run, and is always waited for (block_until_ready). Every figure comes from a fresh process pinned to one core. mbi's
are slow to get and do not change: those in the results file are taken from there (--again measures them anew).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from engine_cases import Case, cases, growing, memory_baseline, peak_mb

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "engine.jsonl"
# A negative number leaves the choice of the core to the system.
CORE = int(os.environ.get("ENGINE_BENCHMARK_CORE", "0"))
FIT = ("adult-chain", "nltcs-40x4", "acs-40x4", "adult-20x3")


def ours_per_call(case: Case, variant: str) -> dict:
    """CPU milliseconds of one evaluation of all marginals.

    Variants: the two executors on the same plan, and "without": no numba at all, so that the plan is another too.
    """
    if variant == "without":
        os.environ["LOOKALIKE_NUMBA"] = "0"
    else:
        import numba  # noqa: F401 - the baseline of the memory is after all imports, as it is for the other library
    executor = "numba" if variant == "numba" else "numpy"
    from lookalike.schema.domain import Domain
    from lookalike.tables.contraction import Network
    from lookalike.tables.cost import plan_cost
    from lookalike.tables.planner import make_plan

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


def ours_fit(case: Case, warm=None, target: float | None = None) -> tuple[dict, object]:
    """Mirror descent to the noise floor (or to a given loss); CPU seconds with planning."""
    from lookalike.estimate.graphical import GraphicalModel
    from lookalike.estimate.mirror_descent import mirror_parameters
    from lookalike.estimate.problem import Problem
    from lookalike.schema.domain import Domain
    from lookalike.tables.measurement import NoisyMarginal

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


def ours_growing(rounds: int, targets: list[float]) -> dict:
    """A model grown by one attribute set per round, each to the loss the other library reached."""
    lines, model = [], None
    for case, target in zip(growing(rounds), targets, strict=False):
        line, model = ours_fit(case, model, target)
        lines.append(line)
    return {"rounds": lines, "fit_cpu_seconds": sum(line["fit_cpu_seconds"] for line in lines)}


def worker(task: str, name: str, detail: str) -> None:
    if task == "call":
        found = ours_per_call(cases()[name], detail)
    elif task == "fit":
        found, _ = ours_fit(cases()[name], target=float(detail))
        found["peak_mb"] = peak_mb()
    else:
        found = ours_growing(int(name), json.loads(detail))
    sys.stdout.write(json.dumps(found) + "\n")


def run(python: str, script: str, *arguments: str) -> dict:
    """The JSON line of a fresh process on one core."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [python, str(HERE / script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=(lambda: os.sched_setaffinity(0, {CORE})) if CORE >= 0 else None,
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def mbi_python(folder: Path) -> str:
    """The interpreter of an environment that holds mbi, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "mbi==2.0.0"], check=True)
    return str(python)


def largest_difference(one: dict, two: dict) -> float:
    return max(float(np.abs(np.array(one[key]) - np.array(two[key])).max()) for key in one.keys() & two.keys())


def record(**fields: object) -> None:
    fields |= {
        "benchmark": "engine",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": platform.machine(),
    }
    with RESULTS.open("a", encoding="utf-8") as out:
        out.write(json.dumps({key: fields[key] for key in sorted(fields)}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbi-venv", type=Path, default=Path(tempfile.gettempdir()) / "mbi-venv")
    parser.add_argument("--only", default=",".join([*cases(), "growing"]))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--most-seconds", type=float, default=900.0, help="CPU seconds for mbi's growing models")
    parser.add_argument("--again", action="store_true", help="measure mbi even where the results file has figures")
    parser.add_argument("--mbi-alone", action="store_true", help="only measure mbi")
    parser.add_argument("--worker", nargs=3)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(*arguments.worker)
        return
    theirs = partial(mbi_figures, mbi_python(arguments.mbi_venv), again=arguments.again)
    for name in arguments.only.split(","):
        if name == "growing":
            other = theirs("growing", str(arguments.rounds), str(arguments.most_seconds))
            if not arguments.mbi_alone:
                compare_growing(other, arguments.rounds)
            continue
        found = {task: theirs(task, name) for task in ("call", "fit") if task == "call" or name in FIT}
        if not arguments.mbi_alone:
            compare_calls(found["call"], name)
        if name in FIT and not arguments.mbi_alone:
            compare_fits(found["fit"], name)


def mbi_figures(python: str, *arguments: str, again: bool) -> dict:
    """What mbi needs for one task: from the results file if it is there, else measured and added to it."""
    case = " ".join(arguments)
    lines = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []
    known = [line["mbi"] for line in lines if line.get("task") == "mbi" and line["case"] == case]
    if known and not again:
        return known[-1]
    found = run(python, "engine_mbi.py", *arguments)
    record(task="mbi", case=case, mbi=found)
    return found


def compare_calls(other: dict, name: str) -> None:
    check = other.pop("check", {})
    for executor in ("numba", "numpy", "without"):
        mine = run(sys.executable, "engine.py", "--worker", "call", name, executor)
        difference = largest_difference(mine.pop("check"), check) if check else None
        ratio = other.get("ms_per_call", np.nan) / mine["ms_per_call"]
        print(f"{name:12s} {executor}: {mine['ms_per_call']:.4g} ms a call, mbi x{ratio:.1f}", mine, other, flush=True)
        record(task="call", case=name, executor=executor, ours=mine, mbi=other, ratio=ratio, difference=difference)


def compare_fits(other: dict, name: str) -> None:
    mine = run(sys.executable, "engine.py", "--worker", "fit", name, str(other["loss"]))
    ratio = other.get("fit_cpu_seconds", np.nan) / mine["fit_cpu_seconds"]
    print(f"{name:12s} fit: {mine['fit_cpu_seconds']:.3g} CPU seconds, mbi x{ratio:.0f}", mine, other, flush=True)
    record(task="fit", case=name, ours=mine, mbi=other, ratio=ratio)


def compare_growing(other: dict, rounds: int) -> None:
    targets = [line["loss"] for line in other["rounds"]]
    mine = run(sys.executable, "engine.py", "--worker", "growing", str(rounds), json.dumps(targets))
    ratio = other["fit_cpu_seconds"] / mine["fit_cpu_seconds"]
    print(f"{len(targets)} growing models: {mine['fit_cpu_seconds']:.3g} CPU seconds, mbi x{ratio:.0f}", flush=True)
    record(task="growing", case=f"{len(targets)} models", ours=mine, mbi=other, ratio=ratio)


if __name__ == "__main__":
    main()
