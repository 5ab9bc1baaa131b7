"""SVM misclassification on five folds, as in PrivMRF's Figure 5, on all four of its tables.

    python -m benchmarks.papers svm_folds run [--tables nltcs] [--methods privmrf-paper bsg-paper] [--epsilons 0.8]
    python -m benchmarks.papers svm_folds document

`run` appends one JSON line per run to benchmarks/results/svm_folds.jsonl and never repeats a run that is there. As in
the paper an SVM predicts each column from all others, is trained on synthetic rows and tested on the fifth of the real
rows that was not synthesised; repeats are the five folds, so that every row is tested on once. `real`, the training
rows themselves, is the classifier without privacy. Nothing else is measured, since SVMs take most of the time.
`document` writes a part of docs/reproductions/privmrf.md. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.common import Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.papers import privmrf
from benchmarks.runs import method_rows, results_in, show_progress, spread, synthesize, table_of
from lookalike.errors import LookalikeWarning
from lookalike.evaluate.classifiers import svm_errors
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary
from lookalike.schema import codec

RESULTS = results_of("svm_folds")
DOCUMENT = privmrf.DOCUMENT
TABLES = privmrf.TABLES
EPSILONS = (0.8,)
FOLDS = 5
METHODS = ("privmrf", privmrf.PAPER, *privmrf.PAPERS_RIVALS)
PARTNERS = ("a4", "a12")
"""Two columns of br2000, of 16 values each, that go together."""
REAL, STORED_AS = "real", 1.0
"""The classifier without privacy, and the epsilon that its runs are stored with."""


def split_fold(rows: pa.Table, fold: int) -> tuple[pa.Table, pa.Table]:
    """All rows but one of five parts of a shuffled table, and that part."""
    parts = np.array_split(np.random.default_rng(80).permutation(rows.num_rows), FOLDS)
    rest = np.concatenate([part for number, part in enumerate(parts) if number != fold])
    return rows.take(rest), rows.take(parts[fold])


def run_one(job: Job) -> Result:
    """SVM errors of one fold; called in a process of its own."""
    rows, schema = table_of(job.table)
    train, test = split_fold(rows, job.repeat)
    start, synth = time.process_time(), train
    if job.method != REAL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LookalikeWarning)
            budget = {"epsilon": job.epsilon, "delta": job.delta}
            synth = synthesize(train, schema=schema, **budget, method=job.method, seed=job.repeat).rows
    spent = round(time.process_time() - start, 3)
    errors = svm_errors(codec.encode(schema, synth), codec.encode(schema, test), schema.domain)
    numbers: Result = {"cpu_seconds": spent, "svm_error": round(float(np.mean(list(errors.values()))), 6)}
    return {**numbers, "svm_errors": {name: round(error, 6) for name, error in errors.items()}}


def jobs(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int = FOLDS) -> list[Job]:
    """The folds of the classifier without privacy, then those of the methods."""
    folds = min(repeats, FOLDS)
    listed = jobs_of(tables, [REAL], [STORED_AS], folds, train_share=0.8)
    return listed + jobs_of(tables, methods, epsilons, folds, train_share=0.8)


def rows_of(results: list[Line]) -> list[str]:
    """Figure 5: mean SVM error over folds, its standard error and the number of folds."""
    cells = summary(results, "svm_error")
    cells |= {(table, REAL, e): cell for (table, name, _), cell in cells.items() if name == REAL for e in EPSILONS}
    columns = {f"{table}, {e:g}": (table, e) for table in TABLES for e in EPSILONS}
    return method_rows((*METHODS, REAL), columns, lambda key: spread(cells.get(key)))


def column_rows(results: list[Line]) -> list[str]:
    """Mean errors on br2000: of its two columns of 16 values that go together, and of all others."""
    rows = []
    for method in ("privmrf", privmrf.PAPER, "pb-pgm-paper", "privbayes-paper", REAL):
        own = [line["svm_errors"] for line in results if (line["table"], line["method"]) == ("br2000", method)]
        others = [error for errors in own for name, error in errors.items() if name not in PARTNERS]
        shown = [np.mean([errors[name] for errors in own]) for name in PARTNERS] if own else []
        rows.append([method, *(f"{value:.3f}" for value in shown), f"{np.mean(others):.3f}" if own else ""])
    return markdown(["method", *PARTNERS, "mean of all others"], rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=TABLES, methods=METHODS, epsilons=EPSILONS, repeats=FOLDS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=show_progress, isolated=not given.together)
    else:
        results = results_in(RESULTS)
        replace_parts(DOCUMENT, {"svm-folds": rows_of(results), "svm-columns": column_rows(results)})
