"""Runs of methods on benchmark tables, and pages that compare them: `run` stores runs, `document` writes the page."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.common import DATA, Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.engine.cases import counts_of
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, read_results, run_jobs, summary
from lookalike.schema.schema import Schema

TABLES = ("nltcs", "acs", "adult", "br2000")
"""The papers' tables."""
SVM_SWITCH = "LOOKALIKE_BENCHMARK_SVM"
"""Environment variable under which runs also measure the mean SVM error."""

Key = tuple[str, str, float]
"""Table, method and epsilon."""


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of one of the papers' tables."""
    return pyarrow.csv.read_csv(DATA / f"{name}.csv"), Schema.from_domain_json(DATA / f"{name}-domain.json")


@dataclass(frozen=True)
class Reference:
    """The result of a run of a reference, which is no method: it costs no budget and has no guarantee."""

    rows: pa.Table
    spent: Any = field(default_factory=lambda: SimpleNamespace(epsilon_spent=math.inf))


def synthesize(rows: pa.Table, *, method: str, seed: int, **arguments: Any) -> Any:
    """A release by a method of the package or one of three references.

    `resample` draws rows from the real table with replacement, a bootstrap (docs/references.md); `shuffled` shuffles
    every column, so that 1-way marginals are exact and nothing is associated; `uniform` draws every value alike.
    """
    rng = np.random.default_rng(seed if method == "uniform" else [seed, 1])
    if method == "resample":
        return Reference(rows.take(rng.integers(0, rows.num_rows, rows.num_rows)))
    if method == "shuffled":
        columns = [column.take(rng.permutation(rows.num_rows)) for column in rows.columns]
        return Reference(pa.table(columns, names=rows.column_names))
    if method == "uniform":
        domain = arguments["schema"].domain
        return Reference(pa.table({n: rng.integers(0, domain.size(n), rows.num_rows) for n in domain.names}))
    import lookalike

    return lookalike.synthesize(rows, method=method, seed=seed, **arguments)


def run_one(job: Job) -> Result:
    """Numbers of one run on a papers' table; called in a process of its own."""
    return run_on(*table_of(job.table), job)


def run_on(rows: pa.Table, schema: Schema, job: Job, synthesize: Callable[..., Any] = synthesize) -> Result:
    """Numbers of one run; a reference has spent no epsilon."""
    svm = bool(os.environ.get(SVM_SWITCH))
    numbers = judge_method(job, table=rows, schema=schema, synthesize=synthesize, svm=svm)
    if math.isinf(float(str(numbers["epsilon_spent"]))):
        numbers["epsilon_spent"] = None
    return numbers


class TooLongError(Exception):
    """A run used up its processor time."""


def limited(run: Callable[[], Result], max_cpu_seconds: int) -> Result:
    """The numbers of a run, or that this process has used more than so many seconds of processor time."""

    def give_up(number: int, frame: FrameType | None) -> NoReturn:
        raise TooLongError

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, give_up)
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_seconds, hard))
    try:
        return run()
    except TooLongError:
        return {"over_cpu_seconds": max_cpu_seconds}
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def too_long(results: Iterable[Line]) -> set[Key]:
    """The table, method and epsilon of runs that were given up."""
    return {(line["table"], line["method"], line["epsilon"]) for line in results if "over_cpu_seconds" in line}


def show_progress(done: int, total: int, job: Job, line: Result | None) -> None:
    """Print what a finished run found."""
    if line is not None:
        shown = [name for name in ("tvd", "tvd16", "ranges", "svm_error", "over_cpu_seconds") if name in line]
        found = [f"{name} {line[name]}" for name in (*shown, "cpu_seconds", "peak_mb")]
        outcome = line.get("error") or ", ".join(found)
        print(f"[{done}/{total}] {job.table} {job.method} eps {job.epsilon:g} #{job.repeat}: {outcome}", flush=True)


def marginal_distance(real: np.ndarray, synth: np.ndarray, columns: Sequence[int], shape: Sequence[int]) -> float:
    """The total variation distance of one marginal of two tables of codes."""
    first, second = (counts_of(codes, columns, shape) / len(codes) for codes in (real, synth))
    return float(np.abs(first - second).sum() / 2)


def results_in(path: Path) -> list[Line]:
    """The stored runs of a grid that did not fail."""
    return [cast(Line, line) for line in read_results(path) if "error" not in line]


@dataclass(frozen=True)
class Page:
    """A grid of runs and the document that shows them.

    Attributes:
        tables: the tables of the grid.
        methods: its methods.
        epsilons: its budgets.
        repeats: runs per cell, unless given otherwise.
        results: name of the file where runs are stored.
        document: the page.
        parts: the generated parts of the page, from the stored results.
    """

    tables: Sequence[str]
    methods: Sequence[str]
    epsilons: Sequence[float]
    repeats: int
    results: str
    document: Path
    parts: Callable[[list[Line]], Mapping[str, Iterable[str]]]

    def main(self, module: str, description: str | None, arguments: Sequence[str]) -> None:
        """Run the command line of the page."""
        parser, results = parser_of(module, description, "run", "document"), results_of(self.results)
        add_grid(parser, tables=self.tables, methods=self.methods, epsilons=self.epsilons, repeats=self.repeats)
        given = parser.parse_args(arguments)
        if given.action == "run":
            jobs = jobs_of(given.tables, given.methods, given.epsilons, given.repeats, train_share=0.8)
            run_jobs(jobs, run_one, results, progress=show_progress)
        else:
            replace_parts(self.document, self.parts(results_in(results)))


def method_rows(
    methods: Iterable[str], columns: Mapping[str, tuple[str, float]], cell: Callable[[Key], str], first: str = "method"
) -> list[str]:
    """A Markdown table with one row per method, and one column per title of a table and an epsilon."""
    rows = [[method, *(cell((table, method, epsilon)) for table, epsilon in columns.values())] for method in methods]
    return markdown([first, *columns], rows)


def spread(cell: Sequence[float] | None, scale: float = 1.0, digits: int = 4) -> str:
    """Mean, standard error and number of runs of a cell of a summary."""
    if cell is None:
        return ""
    error = f" ± {scale * cell[1]:.{digits}f}" if cell[2] > 1 else ""
    return f"{scale * cell[0]:.{digits}f}{error} ({cell[2]:.0f})"


def three_and_five(results: list[Line]) -> Callable[[Key], str]:
    """A function that gives the cell of a table: means of the 3-way and 5-way distances, and the number of runs."""
    three, five = summary(results, "tvd.3"), summary(results, "tvd.5")
    return lambda key: f"{three[key][0]:.4f} / {five[key][0]:.4f} ({three[key][2]})" if key in three else ""


def costs(results: list[Line], tables: Sequence[str], methods: Sequence[str]) -> list[str]:
    """The largest processor seconds and memory of any run, per table and method, as a Markdown table."""

    def cell(table: str, method: str) -> str:
        own = [line for line in results if line["table"] == table and line["method"] == method]
        seconds, memory = (max((line[name] for line in own), default=0.0) for name in ("cpu_seconds", "peak_mb"))
        return f"{seconds:.1f} s, {memory:.0f} MB" if own else ""

    return markdown(["method", *tables], [[method, *(cell(table, method) for table in tables)] for method in methods])
