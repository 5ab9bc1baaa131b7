"""SVM misclassification on five folds, as in PrivMRF's Figure 5, on all four of its tables at all six of its budgets.

    python -m benchmarks.papers svm_folds run [--tables nltcs] [--methods privmrf-paper bsg-paper] [--epsilons 0.8]
    python -m benchmarks.papers svm_folds document

`run` appends one JSON line per run to benchmarks/results/svm_folds.jsonl and never repeats a run that is there. As in
the paper an SVM predicts each column from all others, is trained on synthetic rows and tested on the fifth of the real
rows that was not synthesised; repeats are the five folds, so that every row is tested on once. `real`, the training
rows themselves, is the classifier without privacy. Nothing else is measured, since SVMs take most of the time.
`document` writes a part of docs/reproductions/privmrf.md and plots. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.papers import privmrf
from benchmarks.runs import method_rows, results_in, show_progress, spread, synthesize, table_of
from lookalike.errors import LookalikeWarning
from lookalike.evaluate.classifiers import svm_errors
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary
from lookalike.evaluate.report import comparison_chart
from lookalike.schema import codec
from lookalike.schema.schema import Schema

RESULTS = results_of("svm_folds")
DOCUMENT = privmrf.DOCUMENT
TABLES = privmrf.TABLES
EPSILONS = privmrf.EPSILONS
FOLDS = 5
METHODS = ("privmrf", privmrf.PAPER, *privmrf.PAPERS_RIVALS)
PARTNERS = ("a4", "a12")
"""Two columns of br2000, of 16 values each, that go together."""
SHOWN_AT = 0.8
"""The budget at which they are shown."""
REAL, STORED_AS = "real", 1.0
"""The classifier without privacy, and the epsilon that its runs are stored with."""


def split_fold(rows: pa.Table, fold: int) -> tuple[pa.Table, pa.Table]:
    """All rows but one of five parts of a shuffled table, and that part."""
    parts = np.array_split(np.random.default_rng(80).permutation(rows.num_rows), FOLDS)
    rest = np.concatenate([part for number, part in enumerate(parts) if number != fold])
    return rows.take(rest), rows.take(parts[fold])


def run_one(job: Job) -> Result:
    """SVM errors of one fold; called in a process of its own."""
    return run_fold(job, *table_of(job.table))


def run_fold(job: Job, rows: pa.Table, schema: Schema, targets: Sequence[str] | None = None, **settings: Any) -> Result:
    """SVM errors of these columns, or of all, on one fold of a table, after a method with these settings."""
    train, test = split_fold(rows, job.repeat)
    start, synth = time.process_time(), train
    if job.method != REAL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LookalikeWarning)
            arguments = {"method": job.method, "epsilon": job.epsilon, "delta": job.delta, **settings}
            synth = synthesize(train, schema=schema, seed=job.repeat, **arguments).rows
    spent = round(time.process_time() - start, 3)
    errors = svm_errors(codec.encode(schema, synth), codec.encode(schema, test), schema.domain, targets)
    numbers: Result = {"cpu_seconds": spent, "svm_error": round(float(np.mean(list(errors.values()))), 6)}
    return {**numbers, "svm_errors": {name: round(error, 6) for name, error in errors.items()}}


def jobs(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int = FOLDS) -> list[Job]:
    """The folds of the classifier without privacy, then those of the methods."""
    folds = min(repeats, FOLDS)
    listed = jobs_of(tables, [REAL], [STORED_AS], folds, train_share=0.8)
    return listed + jobs_of(tables, methods, epsilons, folds, train_share=0.8)


def at_every_budget(results: Iterable[Line], epsilons: Sequence[float]) -> list[Line]:
    """The runs, those of the classifier without privacy once for each budget."""
    return [
        {**line, "epsilon": e} for line in results for e in (epsilons if line["method"] == REAL else [line["epsilon"]])
    ]


def figure_of(
    results: list[Line], table: str, methods: Sequence[str], epsilons: Sequence[float], plot: Path
) -> list[str]:
    """Mean SVM error over folds by method and budget, its standard error and the number of folds, with a plot."""
    shown = at_every_budget((line for line in results if line["method"] in (*methods, REAL)), epsilons)
    plot.write_text(comparison_chart(shown, "svm_error", table), encoding="utf-8")
    cells, columns = summary(shown, "svm_error"), {f"{e:g}": (table, e) for e in epsilons}
    rows = method_rows((*methods, REAL), columns, lambda key: spread(cells.get(key)))
    return [f"![{table}, SVM on folds]({plot.name})", "", *rows, ""]


def figure(results: list[Line]) -> list[str]:
    """Figure 5 by table."""
    text = list[str]()
    for table in TABLES:
        plot = DOCUMENT.with_name(f"privmrf-{table}-folds.svg")
        text += [f"{table}:", "", *figure_of(results, table, METHODS, EPSILONS, plot)]
    return text


def column_rows(results: list[Line]) -> list[str]:
    """Mean errors on br2000 at one budget: of its two columns of 16 values that go together, and of all others."""
    rows = []
    for method in ("privmrf", privmrf.PAPER, "pb-pgm-paper", "privbayes-paper", REAL):
        runs = [line for line in results if (line["table"], line["method"]) == ("br2000", method)]
        own = [line["svm_errors"] for line in runs if line["epsilon"] == SHOWN_AT or method == REAL]
        others = [error for errors in own for name, error in errors.items() if name not in PARTNERS]
        shown = [np.mean([errors[name] for errors in own]) for name in PARTNERS] if own else []
        rows.append([method, *(f"{value:.3f}" for value in shown), f"{np.mean(others):.3f}" if own else ""])
    return markdown(["method", *PARTNERS, "mean of all others"], rows)


def run_folds(
    parser: ArgumentParser, arguments: Sequence[str], run_one: Callable[[Job], Result], results: Path, **grid: Any
) -> bool:
    """Make the runs of a grid that are not stored yet, if asked to run; return whether to write the page instead."""
    add_grid(parser, **grid, repeats=FOLDS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, results, progress=show_progress, isolated=not given.together)
    return given.action == "document"


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    if run_folds(parser, arguments, run_one, RESULTS, tables=TABLES, methods=METHODS, epsilons=EPSILONS):
        results = results_in(RESULTS)
        replace_parts(DOCUMENT, {"svm-folds": figure(results), "svm-columns": column_rows(results)})
