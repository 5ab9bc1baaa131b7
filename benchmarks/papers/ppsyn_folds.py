"""SVM misclassification on five folds, as in PPSyn's Figure 6, on its tables at all of its budgets.

    python -m benchmarks.papers ppsyn_folds run [--tables adult-100] [--methods aim] [--epsilons 0.5]
    python -m benchmarks.papers ppsyn_folds document

As `svm_folds` does for PrivMRF's Figure 5, with the tables, methods and budgets of `ppsyn`, and SVMs for the columns of
two values; runs are stored in benchmarks/results/ppsyn_folds.jsonl. `document` writes a part of
docs/reproductions/ppsyn.md and its plots. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import Line, parser_of, replace_parts, results_of
from benchmarks.papers import ppsyn
from benchmarks.papers.svm_folds import figure_of, run_fold, run_folds
from benchmarks.runs import results_in
from lookalike.evaluate.compare import Job, Result

RESULTS = results_of("ppsyn_folds")
DOCUMENT = ppsyn.DOCUMENT


def run_one(job: Job) -> Result:
    """SVM errors of one fold; called in a process of its own."""
    rows, schema = ppsyn.table_of(job.table)
    domain, (method, settings) = schema.domain, ppsyn.SETTINGS.get(job.method, (job.method, {}))
    targets = [name for name in domain.names if domain.size(name) <= ppsyn.SVM_VALUES]
    return run_fold(job, rows, schema, targets, **{"method": method, **settings})


def figure(results: list[Line]) -> list[str]:
    """Figure 6 by table."""
    text = list[str]()
    for table in ppsyn.TABLES:
        plot = DOCUMENT.with_name(f"ppsyn-{table}-folds.svg")
        text += [f"{table}:", "", *figure_of(results, table, ppsyn.COMPARED, ppsyn.EPSILONS, plot)]
    return text


def main(arguments: Sequence[str]) -> None:
    grid = {"tables": ppsyn.TABLES, "methods": ppsyn.COMPARED, "epsilons": ppsyn.EPSILONS}
    parser = parser_of(__name__, __doc__, "run", "document")
    if run_folds(parser, arguments, run_one, RESULTS, **grid):
        replace_parts(DOCUMENT, {"folds": figure(results_in(RESULTS))})
