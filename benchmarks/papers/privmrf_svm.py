"""SVM misclassification of PrivMRF's section 5 by budget: all methods (Figure 5), its parameters (Figures 1b to 3b).

    python -m benchmarks.papers privmrf_svm run [--tables nltcs] [--methods privmrf-paper mst] [--epsilons 0.8]
    python -m benchmarks.papers privmrf_svm document

`run` appends one JSON line per run to benchmarks/results/privmrf_svm.jsonl and never repeats a run that is there. As in
the paper an SVM predicts each column from all others, is trained on synthetic rows and tested on the fifth of the real
rows that was not synthesised. Repeats are random splits, the same as on the other pages, so that distances are measured
in the same runs; the folds of the paper are in svm_folds.py. `resample`, real rows drawn with replacement, stands for
the classifier without privacy. `document` writes a part of docs/reproductions/privmrf.md and its plots. NOT PRIVATE:
the numbers compare with real rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks import runs
from benchmarks.common import Line, add_grid, parser_of, replace_parts, results_of
from benchmarks.papers import privmrf
from benchmarks.runs import method_rows, results_in, show_progress, spread
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary
from lookalike.evaluate.report import comparison_chart

RESULTS = results_of("privmrf_svm")
DOCUMENT = privmrf.DOCUMENT
TABLES = ("nltcs", "br2000")
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
REPEATS = 5
METHODS = ("privmrf", privmrf.PAPER, "mst", "aim", "pb-pgm-paper", "privbayes-paper", "bsg-paper", "bsg", "dp-copula")
METHODS += ("dp-wgan", "independent", "resample")
DRAWN = ("privmrf", *(privmrf.PAPER, *privmrf.PAPERS_RIVALS), "resample")
"""The methods of the plots, which have eight colours."""
STUDY = tuple(name for choices in privmrf.STUDY.values() for name in choices)


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    os.environ[runs.SVM_SWITCH] = "1"
    return runs.run_on(*runs.table_of(job.table), job, privmrf.synthesize)


def jobs(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int) -> list[Job]:
    """The comparison of methods, then the paper's parameters on nltcs."""
    compared = jobs_of(tables, methods, epsilons, repeats, train_share=0.8)
    studied = jobs_of(["nltcs"], list(STUDY), EPSILONS, repeats, train_share=0.8)
    return compared + (studied if "nltcs" in tables else [])


def parts(results: list[Line]) -> dict[str, list[str]]:
    """Figure 5 by table, and the parameter study: mean SVM error, its standard error and the number of runs."""
    cells, text = summary(results, "svm_error"), list[str]()
    for table in TABLES:
        drawn = [line for method in DRAWN for line in results if line["method"] == method]
        plot = DOCUMENT.with_name(f"privmrf-{table}-svm.svg")
        plot.write_text(comparison_chart(drawn, "svm_error", table), encoding="utf-8")
        columns = {f"{e:g}": (table, e) for e in EPSILONS}
        rows = method_rows(METHODS, columns, lambda key: spread(cells.get(key)))
        text += [f"{table}:", "", f"![{table}, SVM]({plot.name})", "", *rows, ""]
    return {"svm": text, "svm-parameters": study_rows(results)}


def study_rows(results: list[Line]) -> list[str]:
    """SVM errors of the paper's parameters on nltcs, by budget."""
    cells = summary(results, "svm_error")
    columns = {f"{e:g}": ("nltcs", e) for e in EPSILONS}
    return method_rows((*STUDY, "resample"), columns, lambda key: spread(cells.get(key)), "setting")


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=TABLES, methods=METHODS, epsilons=EPSILONS, repeats=REPEATS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=show_progress, isolated=not given.together)
    else:
        replace_parts(DOCUMENT, parts(results_in(RESULTS)))
