"""SVM misclassification of PrivMRF's section 5: its parameters (Figures 1b to 3b) and all methods (Figure 5).

    python -m benchmarks.papers privmrf_svm run [--tables nltcs] [--methods privmrf-paper mst] [--epsilons 0.8]
    python -m benchmarks.papers privmrf_svm document

`run` appends one JSON line per run to benchmarks/results/privmrf_svm.jsonl and never repeats a run that is there. As in
the paper an SVM predicts each binary column from all others, is trained on synthetic rows and tested on the fifth of
the real rows that was not synthesised: repeats are folds of random splits. `resample`, real rows drawn with
replacement, stands for the classifier without privacy. `document` writes a part of docs/reproductions/privmrf.md.
NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks import runs
from benchmarks.common import Line, add_grid, parser_of, replace_parts, results_of
from benchmarks.papers import privmrf
from benchmarks.runs import method_rows, results_in, show_progress
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary

RESULTS = results_of("privmrf_svm")
DOCUMENT = privmrf.DOCUMENT
TABLES = ("nltcs", "br2000", "adult", "acs")
EPSILONS = (0.2, 0.8, 3.2)
REPEATS = 5
METHODS = ("privmrf", privmrf.PAPER, "mst", "aim", "pb-pgm-paper", "privbayes-paper", "bsg-paper", "bsg", "dp-copula")
METHODS += ("dp-wgan", "independent", "resample")
STUDIED, STUDY = 0.8, tuple(name for choices in privmrf.STUDY.values() for name in choices)


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    os.environ[runs.SVM_SWITCH] = "1"
    return runs.run_on(*runs.table_of(job.table), job, privmrf.synthesize)


def jobs(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int) -> list[Job]:
    """The comparison of methods, then the paper's parameters on nltcs at one budget."""
    compared = jobs_of(tables, methods, epsilons, repeats, train_share=0.8)
    studied = jobs_of(["nltcs"], list(STUDY), [STUDIED], repeats, train_share=0.8)
    return compared + (studied if "nltcs" in tables else [])


def cell_of(results: list[Line]) -> dict[tuple[str, str, float], str]:
    """Mean SVM error, its standard error and the number of runs of every cell."""
    return {
        key: f"{mean:.4f}" + (f" ± {error:.4f} ({count})" if count > 1 else " (1)")
        for key, (mean, error, count) in summary(results, "svm_error").items()
    }


def parts(results: list[Line]) -> dict[str, list[str]]:
    """Figure 5 by table, and the parameter study."""
    cells, text = cell_of(results), list[str]()
    for table in TABLES:
        columns = {f"{e:g}": (table, e) for e in EPSILONS if any(key[0] == table and key[2] == e for key in cells)}
        shown = [m for m in METHODS if any((table, m, e) in cells for e in EPSILONS)]
        if shown:
            text += [f"{table}:", "", *method_rows(shown, columns, lambda key: cells.get(key, "")), ""]
    study = [name for name in STUDY if ("nltcs", name, STUDIED) in cells]
    column = {f"epsilon {STUDIED:g}": ("nltcs", STUDIED)}
    return {"svm": text, "svm-parameters": method_rows(study, column, lambda key: cells.get(key, ""), "setting")}


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
