"""SVM misclassification on five folds, as in PPSyn's Figure 6, on its tables at all of its budgets.

    python -m benchmarks.papers ppsyn_folds run [--tables adult-100] [--methods aim] [--epsilons 0.5]
    python -m benchmarks.papers ppsyn_folds document

As `svm_folds` does for PrivMRF's Figure 5, with the tables, methods and budgets of `ppsyn`, and SVMs for the columns of
two values; runs are stored in benchmarks/results/ppsyn_folds.jsonl. `document` writes a part of
docs/reproductions/ppsyn.md and its plots. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import Line, add_grid, parser_of, replace_parts, results_of
from benchmarks.papers import ppsyn
from benchmarks.papers.svm_folds import FOLDS, REAL, STORED_AS, figure_of, run_fold
from benchmarks.runs import results_in, show_progress
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs

RESULTS = results_of("ppsyn_folds")
DOCUMENT = ppsyn.DOCUMENT


def run_one(job: Job) -> Result:
    """SVM errors of one fold; called in a process of its own."""
    rows, schema = ppsyn.table_of(job.table)
    domain, (method, settings) = schema.domain, ppsyn.SETTINGS.get(job.method, (job.method, {}))
    targets = [name for name in domain.names if domain.size(name) <= ppsyn.SVM_VALUES]
    return run_fold(job, rows, schema, targets, **{"method": method, **settings})


def jobs(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int = FOLDS) -> list[Job]:
    """The folds of the classifier without privacy, then those of the methods."""
    folds = min(repeats, FOLDS)
    listed = jobs_of(tables, [REAL], [STORED_AS], folds, train_share=0.8)
    return listed + jobs_of(tables, methods, epsilons, folds, train_share=0.8)


def figure(results: list[Line]) -> list[str]:
    """Figure 6 by table."""
    text = list[str]()
    for table in ppsyn.TABLES:
        plot = DOCUMENT.with_name(f"ppsyn-{table}-folds.svg")
        text += [f"{table}:", "", *figure_of(results, table, ppsyn.COMPARED, ppsyn.EPSILONS, plot)]
    return text


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=ppsyn.TABLES, methods=ppsyn.COMPARED, epsilons=ppsyn.EPSILONS, repeats=FOLDS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=show_progress, isolated=not given.together)
    else:
        replace_parts(DOCUMENT, {"folds": figure(results_in(RESULTS))})
