"""Comparisons of methods at several epsilons, with repeats, stored as one JSON line per run. NOT PRIVATE.

Every run has a fresh process, so that CPU seconds and peak memory are those of the run alone. Lines are appended as
runs finish, and runs that already have a line are not repeated: an interrupted comparison continues.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import InputError, LookalikeWarning
from lookalike.evaluate.classifiers import svm_errors
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques, range_errors
from lookalike.schema import codec
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema

Result = dict[str, object]
"""One line of results: the fields of the job, the numbers of its run, `cpu_seconds`, `peak_mb`; or `error`."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a comparison; equal jobs are the same run.

    Attributes:
        table: name of the table in results.
        method: name of the method.
        epsilon: privacy budget.
        delta: probability with which the bound epsilon may fail.
        repeat: number of the repetition, also the seed of the split and of sampling (not of the noise).
        train_share: share of the rows to synthesise; the rest is for testing classifiers.
    """

    table: str
    method: str
    epsilon: float
    delta: float = 1e-5
    repeat: int = 0
    train_share: float = 1.0

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InputError(f"Epsilon {self.epsilon} is not positive; give for instance 1.")
        if not 0 < self.train_share <= 1:
            raise InputError(f"The share of rows to train on is {self.train_share}; it must be in (0, 1], such as 0.8.")

    def __str__(self) -> str:
        return f"{self.method}, epsilon {self.epsilon:g}, run {self.repeat + 1}"


def jobs_of(
    tables: Iterable[str],
    methods: Iterable[str],
    epsilons: Iterable[float],
    repeats: int = 1,
    *,
    delta: float = 1e-5,
    train_share: float = 1.0,
) -> list[Job]:
    """Return all jobs, ordered so that every method has its first repeat before any has its second."""
    tables, methods, epsilons = list(tables), list(methods), list(epsilons)
    return [
        Job(table, method, float(epsilon), delta, repeat, train_share)
        for repeat in range(repeats)
        for table in tables
        for epsilon in epsilons
        for method in methods
    ]


def read_results(path: str | Path) -> list[Result]:
    """Return the lines of a results file, without an incomplete last line; an empty list if there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    results: list[Result] = []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise InputError(f"{path} line {number} is not JSON; correct or delete that line.") from None
    return results


def run_jobs(
    jobs: Sequence[Job],
    run: Callable[[Job], Mapping[str, object]],
    results: str | Path,
    *,
    progress: Callable[[int, int, Job, Result | None], None] | None = None,
    isolated: bool = True,
) -> list[Result]:
    """Run the jobs that `results` does not hold, append one line for each, and return the lines of all `jobs`.

    Args:
        jobs: the runs, from `jobs_of`.
        run: returns the numbers of a job. It must be picklable, for a fresh process. An exception that it raises is
            stored as `error`; such runs are repeated next time.
        results: the JSONL file.
        progress: called with (runs done, number of runs, job, None) before and (.., job, line) after every run.
        isolated: False runs in this process, which starts faster; peak memory is then that of all runs together.
    """
    path = Path(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    _end_last_line(path)
    found = {job: line for line in read_results(path) if "error" not in line and (job := _job_of(line)) is not None}
    for number, job in enumerate(jobs):
        if job in found:
            continue
        if progress:
            progress(number, len(jobs), job, None)
        line = _isolated(run, job) if isolated else _measured(run, job)
        found[job] = line
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if progress:
            progress(number + 1, len(jobs), job, line)
    return [found[job] for job in jobs]


def judge_method(
    job: Job,
    *,
    table: Any,
    schema: Schema,
    synthesize: Callable[..., Any],
    discover: bool = False,
    svm: bool = False,
    attacks: bool = False,
) -> Result:
    """Synthesise a share of the table as the job says, and return measures of the outcome.

    The ledger of the run is in memory: nothing of a comparison may be released, so nothing counts as spent.

    Args:
        job: method, budget and repeat.
        table: a path, or a pandas, polars or Arrow table.
        schema: the columns in whose values and bins the tables are compared.
        synthesize: `lookalike.synthesize`, or a function with its arguments.
        discover: let each run discover its schema inside its budget; else methods are given `schema`.
        svm: also compute the mean error of a linear SVM over all columns, as in PrivMRF (slow).
        attacks: also attack each release, with the rows that were not synthesised as control.
    """
    from lookalike.evaluate.real_data import arrow_rows, split_rows

    if attacks and job.train_share == 1:
        raise InputError("Attacks need rows that are not synthesised as control; use --train-share, such as 0.5.")
    train, test = split_rows(arrow_rows(table), job.train_share, job.repeat)
    wall, cpu = time.perf_counter(), time.process_time()
    budget = {"epsilon": job.epsilon, "delta": job.delta}
    given = None if discover else schema
    with warnings.catch_warnings():
        # What single runs could not see shows in their measures; hundreds of notices would hide the table of results.
        warnings.simplefilter("ignore", LookalikeWarning)
        release = synthesize(train, schema=given, **budget, method=job.method, seed=job.repeat)
    numbers: Result = {
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "peak_mb": peak_mb(),
        "rows": release.rows.num_rows,
        "epsilon_spent": release.spent.epsilon_spent,
    }
    real, synth, unseen = (codec.encode(schema, rows) for rows in (train, release.rows, test))
    numbers |= measures(real, synth, unseen, schema.domain, svm)
    return {**numbers, "attacks": gains(release, train, test)} if attacks else numbers


def gains(release: Any, train: Any, test: Any) -> Result:
    """Return what attacks on a release gain on its rows over others: the best area under the curve that membership
    attacks reach, what epsilon allows of it, and the excess risks of disclosure. NOT PRIVATE."""
    from lookalike.evaluate.real_data import Attacks, attacked

    found = attacked(train, test, release.rows, release.schema, Attacks(model=release.fitted))
    best = max(found["membership"], key=lambda one: one["auc"])
    risks = {one["name"]: one.get("risk") for one in found["disclosure"] if not one["worst"]}
    return {"auc": best["auc"], "auc_by": best["name"], "auc_most": best["auc_most"], **risks}


def measures(real: np.ndarray, synth: np.ndarray, test: np.ndarray, domain: Domain, svm: bool = False) -> Result:
    """Return distances of 1- to 5-way marginals, errors of range queries and, with `svm`, the mean SVM error."""
    pair = TablePair(real, synth, domain)
    found = {k: distances_of(pair, random_cliques(domain, k)) for k in range(1, min(5, len(domain)) + 1)}
    numbers: Result = {
        "tvd": {str(k): round(result.mean, 6) for k, result in found.items()},
        "tvd_worst": {str(k): round(result.worst, 6) for k, result in found.items()},
        "ranges": {
            str(k): range_errors(pair, k, sets).mean_squared for k, sets in ((3, 210), (5, 37)) if k <= len(domain)
        },
    }
    if svm:
        numbers["svm_error"] = round(float(np.mean(list(svm_errors(synth, test, domain).values()))), 6)
    return numbers


def summary(results: Iterable[Result], measure: str) -> dict[tuple[str, str, float], tuple[float, float, int]]:
    """Return mean, standard error of the mean (nan for one run) and number of runs by (table, method, epsilon).

    `measure` names a number of the lines; "tvd.3" takes entry "3" of the dictionary "tvd".
    """
    groups: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for line in results:
        value: object = line
        for part in measure.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, int | float):
            groups[str(line["table"]), str(line["method"]), float(line["epsilon"])].append(float(value))  # pyright: ignore[reportArgumentType]
    return {key: _mean_and_error(values) for key, values in groups.items()}


def table_rows(results: Iterable[Result], measure: str) -> list[dict[str, object]]:
    """Return a row per table and method with a text per epsilon, for printing; a star marks the best method."""
    cells = summary(results, measure)
    rows = []
    for table in dict.fromkeys(key[0] for key in cells):
        methods = list(dict.fromkeys(key[1] for key in cells if key[0] == table))
        epsilons = sorted({key[2] for key in cells if key[0] == table})
        best = {e: min(cells[table, m, e][0] for m in methods if (table, m, e) in cells) for e in epsilons}
        for method in methods:
            row: dict[str, object] = {"table": table, "method": method}
            for epsilon in epsilons:
                mean, error, _ = cells.get((table, method, epsilon), (math.nan, math.nan, 0))
                star = "*" if mean == best[epsilon] else ""
                plus_minus = "" if math.isnan(error) else f" ±{_figures(error)}"
                row[f"{epsilon:g}"] = "" if math.isnan(mean) else f"{_figures(mean)}{star}{plus_minus}"
            rows.append(row)
    return rows


def _figures(value: float) -> str:
    """Return a number with four decimals, or with three figures where these are too few or too many.

    >>> _figures(0.1226), _figures(0.000134), _figures(223.2)
    ('0.1226', '0.000134', '223')
    """
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 10 else f"{value:.3g}"


def _mean_and_error(values: list[float]) -> tuple[float, float, int]:
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan, len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values)), len(values)


def _job_of(line: Result) -> Job | None:
    names = Job.__dataclass_fields__
    return Job(**{name: line[name] for name in names}) if all(name in line for name in names) else None  # pyright: ignore[reportArgumentType]


def _isolated(run: Callable[[Job], Mapping[str, object]], job: Job) -> Result:
    # 'spawn' starts a new interpreter: memory of this process does not count as memory of the run.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(_measured, run, job).result()
        except BrokenProcessPool:
            return {**asdict(job), "error": "the process ended without a result, perhaps for lack of memory"}


def _measured(run: Callable[[Job], Mapping[str, object]], job: Job) -> Result:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        numbers = dict(run(job))
    except Exception as error:  # noqa: BLE001 (a failed run is a result; the others continue)
        numbers = {"error": f"{type(error).__name__}: {error}"}
    line = {**asdict(job), "private": False, **numbers}
    line.setdefault("cpu_seconds", round(time.process_time() - cpu, 3))
    line.setdefault("wall_seconds", round(time.perf_counter() - wall, 3))
    line.setdefault("peak_mb", peak_mb())
    return line


def peak_mb() -> float | None:
    """Return the peak resident memory of this process in megabytes, or None on systems without /proc.

    Not from getrusage, which also counts the memory of the parent at the moment of the fork.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        return None
    return None


def _end_last_line(path: Path) -> None:
    """Remove a last line that a crash cut short, so that the next line starts on a new line."""
    if path.exists() and (text := path.read_text(encoding="utf-8")) and not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
