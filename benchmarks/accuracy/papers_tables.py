"""Accuracy of every method on the papers' tables: marginal distances, SVM error, processor seconds, peak memory.

    python -m benchmarks.accuracy papers_tables run --methods aim mst --tables adult nltcs --epsilons 0.1 1 --repeats 3
    python -m benchmarks.accuracy papers_tables table --measure tvd.3
    python -m benchmarks.accuracy papers_tables plot --measure tvd.3 --out tvd3.svg
    python -m benchmarks.accuracy papers_tables document

One JSON line per run goes to benchmarks/results/accuracy.jsonl; runs that are there already are not repeated. Each run
is a process of its own. `resample` and `shuffled` are references, see `benchmarks.runs.synthesize`. `document` writes
the tables of README.md and of docs/mosaic.md from the stored runs with a training share of 0.8.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import DOCS, ROOT, Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.runs import SVM_SWITCH, TABLES, Key, method_rows, results_in, run_one, show_progress
from lookalike.evaluate.compare import Result, jobs_of, read_results, run_jobs, summary, table_rows
from lookalike.evaluate.report import comparison_chart

RESULTS = results_of("accuracy")
REFERENCES = ("resample", "shuffled")
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
GOALS = {
    ("nltcs", 0.1): "0.0283 / 0.0617",
    ("nltcs", 1.0): "0.0045 / 0.0125",
    ("nltcs", 3.2): "0.0032 / 0.0077",
    ("acs", 1.0): "0.0036 / 0.0080",
    ("adult", 0.1): "0.107 / 0.227",
    ("adult", 1.0): "0.0410 / 0.120",
    ("adult", 3.2): "0.034 / 0.109",
    ("br2000", 0.1): "0.066",
    ("br2000", 1.0): "0.0235 / 0.078",
}
SVM_GOALS = {"nltcs": 0.1361, "acs": 0.1085, "adult": 0.2564, "br2000": 0.3017}
"""What mosaic was to reach: 3-way / 5-way distances, and SVM errors at epsilon 1."""


def benchmark_section(results: list[Line]) -> list[str]:
    """Mean distances and processor seconds at epsilon 1, one row per method, one column per table."""
    three, five, cpu = (summary(results, measure) for measure in ("tvd.3", "tvd.5", "cpu_seconds"))
    tables = sorted({table for table, _, epsilon in three if epsilon == 1})
    methods = sorted({method for _, method, epsilon in three if epsilon == 1})

    def cell(key: Key) -> str:
        return f"{three[key][0]:.4f} / {five[key][0]:.4f}, {cpu[key][0]:.0f} s" if key in three else ""

    return [
        "Mean total variation distance of 300 random 3-way / 5-way marginals between the training rows and as many",
        "synthetic rows (lower is better), and CPU seconds on one core; epsilon 1, delta 1e-5, 80 % of the rows; mean",
        "of stored runs in [benchmarks/results](benchmarks/results). `resample` is a bootstrap of the",
        "training rows, no privacy at all; a [fresh sample](docs/references.md) is further away.",
        "",
        *method_rows(methods, {table: (table, 1.0) for table in tables}, cell),
    ]


def mosaic_section(results: list[Line]) -> list[str]:
    """All budgets of mosaic with the goals set for it, one row per table and epsilon."""
    lines = [line for line in results if line["method"] == "mosaic"]
    names = ("tvd.3", "tvd.5", "svm_error", "cpu_seconds", "peak_mb")
    three, five, svm, cpu, memory = (summary(lines, name) for name in names)
    rows = []
    for key in sorted(three, key=lambda key: (key[2], key[0])):
        table, _, epsilon = key
        mean, spread, runs = three[key]
        plus = f" ±{spread:.4f}" if runs > 1 else ""
        error = f"{svm[key][0]:.4f} ({SVM_GOALS.get(table, '')}, {svm[key][2]})" if key in svm else ""
        cells = [f"{mean:.4f}{plus} / {five[key][0]:.4f}", GOALS.get((table, epsilon), ""), error]
        rows.append([table, f"{epsilon:g}", runs, *cells, f"{cpu[key][0]:.0f}", f"{memory[key][0]:.0f}"])
    heads = ("table", "epsilon", "runs", "3-way / 5-way", "goal", "SVM error (goal, runs)", "CPU s", "MB")
    return markdown(heads, rows)


def document() -> None:
    """Write the generated parts of README.md and docs/mosaic.md."""
    results = [line for line in results_in(RESULTS) if line.get("train_share") == 0.8]
    replace_parts(ROOT / "README.md", {"benchmark": benchmark_section(results)})
    replace_parts(DOCS / "mosaic.md", {"benchmark": mosaic_section(results)})


def print_table(results: list[Result], measure: str) -> None:
    """Print one row per table and method, one column per epsilon, as a Markdown table."""
    rows = table_rows(results, measure)
    names = list(dict.fromkeys(name for row in rows for name in row))
    print("\n".join(markdown(names, [[row.get(name, "") for name in names] for row in rows])))


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "table", "plot", "document")
    add_grid(parser, tables=TABLES, methods=REFERENCES, epsilons=EPSILONS, repeats=1)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--train-share", type=float, default=1.0, help="0.8 as in PrivMRF's SVM experiment")
    parser.add_argument("--svm", action="store_true", help="also the mean SVM error over all attributes (minutes)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--measure", default="tvd.3")
    parser.add_argument("--out", type=Path, default=Path("accuracy.svg"))
    given = parser.parse_args(arguments)
    if given.action == "run":
        if given.svm:
            os.environ[SVM_SWITCH] = "1"
        grid = given.tables, given.methods, given.epsilons, given.repeats
        jobs = jobs_of(*grid, delta=given.delta, train_share=given.train_share)
        print_table(run_jobs(jobs, run_one, given.results, progress=show_progress), given.measure)
    elif given.action == "table":
        print_table(read_results(given.results), given.measure)
    elif given.action == "plot":
        given.out.write_text(comparison_chart(read_results(given.results), given.measure), encoding="utf-8")
        print(given.out)
    else:
        document()
