"""Every experiment of every paper in one go, with a prediction of its time first.

    python -m benchmarks.papers run [--parts ppsyn privmrf] [--repeats 5] [--predict]

Runs that are stored in benchmarks/results are not repeated and each is stored as it ends, so that the command may be
killed and continues where it stopped. Runs come in the order of their predicted time multiplied by how many runs their
cell has with them: quick ones first, and second runs of slow methods before fifth ones.
The prediction adds up processor seconds, measuring included, of stored runs of the same cell; where there are none, of
the same method and table, of the same method, of the same part. `--repeats` is the number of runs per cell; without it,
every part has its own. `--predict` prints the prediction and runs nothing. NOT PRIVATE.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks import runs
from benchmarks.common import Line, parser_of, results_of, stored
from benchmarks.papers import (
    bsg,
    extremes,
    gans,
    ppsyn,
    ppsyn_folds,
    privbayes,
    privmrf,
    privmrf_svm,
    privmrf_wide,
    privsyn,
    queries,
    svm_folds,
)
from benchmarks.runs import Key, show_progress
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs
from lookalike.synthesizers import METHODS

MEASURING = 3.0
"""Processor seconds of starting and measuring a run, where no stored run of its table says them."""


@dataclass(frozen=True)
class Run:
    """A run that is not stored yet.

    Attributes:
        part: the sub-command that makes it.
        repeat: how many runs of its cell come before it.
        seconds: processor seconds that it is predicted to take.
        start: makes and stores it.
    """

    part: str
    repeat: int
    seconds: float
    start: Callable[[], object]


@dataclass(frozen=True)
class InFreshProcess:
    """Runs a job in a process that has imported everything and done nothing else; adds its processor seconds.

    The process ends by itself, at the latest with its job, should this one be killed.
    """

    run: Callable[[Job], Result]

    def __call__(self, job: Job) -> Result:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__])
        answer, end = context.Pipe(duplex=False)
        process = context.Process(target=send_numbers, args=(end, self.run, job), daemon=True)
        process.start()
        end.close()
        try:
            return answer.recv()
        except EOFError:
            return {"error": "the process ended without a result, perhaps for lack of memory"}
        finally:
            process.join()


def send_numbers(end: Connection, run: Callable[[Job], Result], job: Job) -> None:
    """Send the numbers of a run, and the processor seconds of its process up to the end."""
    try:
        numbers = {**run(job), "job_seconds": round(time.process_time(), 2)}
    except Exception as error:  # noqa: BLE001 (a failed run is a result; the others continue)
        numbers = {"error": f"{type(error).__name__}: {error}"}
    with suppress(BrokenPipeError):  # whoever asked was killed
        end.send(numbers)


def runs_of(
    part: str, jobs: Sequence[Job], run: Callable[[Job], Result], path: Path, known: Sequence[Line] | None = None
) -> Iterator[Run]:
    """The jobs of a part that are not stored, as many of each cell as its stored runs leave.

    `known` are the runs that count, where there are others than those of the part's own file.
    """
    own = [line for line in stored(path) if "error" not in line]
    lines = own if known is None else known
    found = {(*cell_of(line), line["repeat"]) for line in own}
    counts = Counter(cell_of(line) for line in lines)
    wanted = Counter((job.table, job.method, job.epsilon) for job in jobs)
    for job in jobs:
        cell = (job.table, job.method, job.epsilon)
        if (*cell, job.repeat) in found or counts[cell] >= wanted[cell]:
            continue
        start = lambda job=job: run_jobs([job], InFreshProcess(run), path, progress=show_progress, isolated=False)  # noqa: E731
        yield Run(part, counts[cell], predicted(lines, *cell), start)
        counts[cell] += 1


def cell_of(line: Line) -> Key:
    """Table, method and epsilon of a stored run."""
    return line["table"], line["method"], line["epsilon"]


def predicted(lines: Sequence[Line], table: str, method: str, epsilon: float) -> float:
    """Processor seconds of a run: the median of the stored runs that are most like it."""
    alike = (
        lambda line: cell_of(line) == (table, method, epsilon),
        lambda line: (line["table"], line["method"]) == (table, method),
        lambda line: line["method"] == method,
        lambda line: True,
    )
    for same in alike:
        own = [line["cpu_seconds"] for line in lines if same(line) and "cpu_seconds" in line]
        if own:
            return float(np.median(own)) + measuring(lines, table)
    return 60.0


def measuring(lines: Sequence[Line], table: str) -> float:
    """Processor seconds of all but the synthesis in runs on a table."""
    own = [
        line["job_seconds"] - line["cpu_seconds"] for line in lines if line["table"] == table and "job_seconds" in line
    ]
    return float(np.median(own)) if own else MEASURING


# The parts.


def bsg_runs(repeats: int | None) -> Iterator[Run]:
    """The experiments of the plausible-deniability paper."""
    lines = stored(bsg.RESULTS)
    found = {(line["experiment"], line["repeat"]) for line in lines}
    for name in (*bsg.EXPERIMENTS, *bsg.LARGE):
        for repeat in range(bsg.repeats_of(name, repeats or bsg.REPEATS)):
            if (name, repeat) not in found:
                known = [line["cpu_seconds"] for line in lines if line["experiment"] == name] or [60.0]
                start = lambda name=name, repeat=repeat: bsg.run([name], repeat + 1)  # noqa: E731
                yield Run("bsg", repeat, float(np.median(known)), start)


def privsyn_runs(repeats: int | None) -> Iterator[Run]:
    """The experiments of PrivSyn: those without noise once, accuracy several times."""
    lines = stored(privsyn.RESULTS)
    for name in ("gum", "wide"):
        if all(line["run"] != name for line in lines):
            yield Run("privsyn", 0, 60.0, lambda name=name: privsyn.main([name]))
    flows = {(line["table"], line["method"], line["sweeps"]) for line in lines if line["run"] == "mcf"}
    wanted = [(table, method, n) for table in privsyn.MCF_TABLES for method, ns in privsyn.SWEEPS.items() for n in ns]
    for one in [one for one in wanted if one not in flows]:
        yield Run("privsyn", 0, 5.0, lambda one=one: privsyn.store_mcf(*one))
    done = [line for line in lines if line["run"] == "accuracy"]
    found = {(line["table"], line["variant"], line["repeat"]) for line in done if line["epsilon"] == 1}
    for repeat in range(repeats or privsyn.REPEATS):
        for table in privsyn.GOALS:
            for variant in privsyn.COMPARED:
                if (table, variant, repeat) not in found:
                    start = lambda t=table, v=variant, r=repeat: privsyn.store_accuracy(t, v, r, 1.0)  # noqa: E731
                    known = [{**line, "method": line["variant"]} for line in done]
                    yield Run("privsyn", repeat, predicted(known, table, variant, 1.0), start)


def job_runs(repeats: int | None) -> Iterator[Run]:
    """The parts whose runs are jobs of a comparison."""
    for module, name in ((gans, "gans"), (privbayes, "privbayes"), (queries, "queries")):
        grid = jobs_of(module.TABLES, module.METHODS, module.EPSILONS, repeats or module.REPEATS, train_share=0.8)
        yield from runs_of(name, grid, runs.run_one, results_of(name))
    jobs = privmrf.jobs(privmrf.PARTS, privmrf.TABLES, privmrf.EPSILONS, repeats or privmrf.REPEATS)
    yield from runs_of("privmrf", jobs, privmrf.run_one, privmrf.RESULTS, privmrf.compared_runs())
    shown, count = privmrf_wide.METHODS[:2], repeats or privmrf_wide.REPEATS
    jobs = jobs_of(privmrf_wide.TABLES, shown, privmrf_wide.EPSILONS, count, train_share=0.8)
    yield from runs_of("privmrf_wide", jobs, privmrf_wide.run_one, privmrf_wide.RESULTS)
    count = repeats or privmrf_svm.REPEATS
    jobs = privmrf_svm.jobs(privmrf_svm.TABLES, privmrf_svm.METHODS, privmrf_svm.EPSILONS, count)
    yield from runs_of("privmrf_svm", jobs, privmrf_svm.run_one, privmrf_svm.RESULTS)
    jobs = svm_folds.jobs(svm_folds.TABLES, svm_folds.METHODS, svm_folds.EPSILONS)
    yield from runs_of("svm_folds", jobs, svm_folds.run_one, svm_folds.RESULTS)
    jobs = svm_folds.jobs(ppsyn.TABLES, ppsyn.COMPARED, ppsyn.EPSILONS)
    yield from runs_of("ppsyn_folds", jobs, ppsyn_folds.run_one, ppsyn_folds.RESULTS)
    jobs = ppsyn.jobs(ppsyn.PARTS, ppsyn.TABLES, ppsyn.COMPARED, ppsyn.EPSILONS, repeats or ppsyn.REPEATS)
    yield from runs_of("ppsyn", jobs, ppsyn.run_one, ppsyn.RESULTS)
    methods = [name for name in METHODS if name != "auto"]
    jobs = jobs_of(extremes.TABLES, methods, extremes.EPSILONS, repeats or extremes.REPEATS)
    yield from runs_of("extremes", jobs, extremes.run_one, extremes.RESULTS)


def exact_numbers() -> Iterator[Run]:
    """Numbers of the pages that no noise is in, and that take seconds."""
    for part, path, start in (
        ("privmrf", privmrf.PAIRS, privmrf.store_pairs),
        ("ppsyn", ppsyn.BUDGETS, ppsyn.store_budgets),
    ):
        if not path.exists():
            yield Run(part, 0, 5.0, start)


def missing(repeats: int | None = None, parts: Sequence[str] | None = None) -> list[Run]:
    """All runs that are not stored, in the order in which they are made."""
    listed = [*exact_numbers(), *bsg_runs(repeats), *privsyn_runs(repeats), *job_runs(repeats)]
    chosen = [one for one in listed if parts is None or one.part in parts]
    return sorted(chosen, key=lambda one: one.seconds * (one.repeat + 1))


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--parts", nargs="+", help="the papers' sub-commands, such as ppsyn")
    parser.add_argument("--repeats", type=int, help="runs per cell; else 5 of PrivMRF, PPSyn and BSG, 3 of others")
    parser.add_argument("--predict", action="store_true", help="print the prediction and run nothing")
    given = parser.parse_args(arguments)
    listed = missing(given.repeats, given.parts)
    for part in sorted({one.part for one in listed}):
        own = [one.seconds for one in listed if one.part == part]
        print(f"{part}: {len(own)} runs are missing, about {sum(own):,.0f} CPU s", flush=True)
    print(f"in all about {sum(one.seconds for one in listed) / 60:,.0f} CPU minutes", flush=True)
    for one in listed if not given.predict else []:
        one.start()
