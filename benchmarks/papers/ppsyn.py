"""The experiments of PPSyn (partition-based private data synthesis), section 5, on Adult and BR2000.

    python -m benchmarks.papers ppsyn run [--parts compare eta printed loans] [--tables adult-100] [--methods aim]
    python -m benchmarks.papers ppsyn document

`run` appends one JSON line per run to benchmarks/results/ppsyn.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/ppsyn.md and its plots from them. `adult-100` is Adult as published,
with 100 equally wide bins per numeric column between bounds that anybody could name. 80 % of the rows are synthesised,
the rest tests the SVMs; delta is 1e-5. Noise is from the operating system, so repeats differ. NOT PRIVATE: the numbers
compare with real rows.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks import runs
from benchmarks.common import (
    DATA,
    REPRODUCTIONS,
    Line,
    add_grid,
    markdown,
    parser_of,
    replace_parts,
    results_of,
    stored,
)
from benchmarks.papers import loans_table, ppsyn_printed
from benchmarks.runs import Key, method_rows, results_in, show_progress, spread
from lookalike.evaluate.classifiers import svm_errors
from lookalike.evaluate.compare import Job, Result, jobs_of, peak_mb, run_jobs, summary
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques, range_errors
from lookalike.evaluate.real_data import split_rows
from lookalike.evaluate.report import comparison_chart
from lookalike.report.charts import lines
from lookalike.report.page import standalone
from lookalike.schema import codec
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema

RESULTS, BUDGETS = results_of("ppsyn"), results_of("ppsyn_budgets")
DOCUMENT = REPRODUCTIONS / "ppsyn.md"
TABLES = ("adult", "br2000", "adult-100")
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
RIVALS = ("aim", "mst", "privmrf", "privmrf-paper")
PAPER = "ppsyn-paper"
COMPARED = ("ppsyn", *RIVALS, PAPER)
PARTS = ("compare", "eta", "printed-eta", "workload", "printed", "loans")
REPEATS = 5
RANGES = ((3, 210), (5, 37))
SVM_VALUES = 2
"""Columns with at most so many values are the SVMs' targets."""

NUMERIC = {
    "age": (0, 99),
    "fnlwgt": (0, 1_500_000),
    "educational-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_999),
    "hours-per-week": (0, 99),
}
"""Bounds that do not come from the table: two digits, five digits, the 16 levels of schooling, a weight of millions."""
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm "
    "Bachelors Masters Prof-school Doctorate",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "gender": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
    "income": "<=50K >50K",
}
"""The lists of the table's own documentation."""

ETAS = tuple(round(0.1 * tenths, 1) for tenths in range(3, 11))
ETA_TABLES, ETA_EPSILONS, PRINTED_ETAS = ("br2000", "adult"), (0.1, 0.5), (0.3, 0.5, 0.7, 0.9, 1.0)
WORKLOADS = (2, 3, 4, 5)
WORKLOAD_METHODS = ("ppsyn", "aim")
LOANS, LOANS_METHODS, LOANS_EPSILON = "loans", ("mst", "privmrf", "ppsyn", "aim"), 0.1
PRINTED, PRINTED_TABLES, PRINTED_EPSILONS = "printed, NOT PRIVATE", ("br2000", "adult"), (0.1, 0.5)
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {PAPER: (PAPER, {"workload": "all-2way"})}
SETTINGS |= {f"{name}, eta {eta:g}": (name, {"eta": eta}) for name in ("ppsyn", PRINTED) for eta in ETAS}
SETTINGS |= {f"{name}, {k}-way": (name, {"workload": f"all-{k}way"}) for name in WORKLOAD_METHODS for k in WORKLOADS}


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and public schema of a table."""
    if name == LOANS:
        codes, sizes = loans_table.loans()
        return pa.table(codes), Schema.from_sizes(sizes)
    if name != "adult-100":
        return runs.table_of(name)
    rows = pyarrow.csv.read_csv(DATA / "adult-raw.csv")
    columns = []
    for column in rows.column_names:
        if column in NUMERIC:
            low, high = NUMERIC[column]
            columns.append(Integer(column, minimum=low, maximum=high, bins=min(100, high - low + 1)))
        else:
            columns.append(Categorical(column, tuple(CATEGORIES[column].split()), outside="absorb"))
    return rows, Schema(tuple(columns))


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    rows, schema = table_of(job.table)
    train, test = split_rows(rows, job.train_share, job.repeat)
    method, settings = SETTINGS.get(job.method, (job.method, {}))
    start = time.process_time()
    synthesize = ppsyn_printed.synthesize if method == PRINTED else runs.synthesize
    release = synthesize(
        train, schema=schema, epsilon=job.epsilon, delta=job.delta, method=method, seed=job.repeat, **settings
    )
    numbers: Result = {
        "cpu_seconds": round(time.process_time() - start, 3),
        "peak_mb": peak_mb(),
        "rows": release.rows.num_rows,
        "epsilon_spent": None if method == PRINTED else release.spent.epsilon_spent,
    }
    real, synth, unseen = (codec.encode(schema, part) for part in (train, release.rows, test))
    return {**numbers, **measures(real, synth, unseen, schema.domain, everything=job.method in COMPARED)}


def measures(real: np.ndarray, synth: np.ndarray, test: np.ndarray, domain: Domain, *, everything: bool) -> Result:
    """The paper's three errors: mean distance of marginals, mean squared error of skewed range queries, SVM error.

    Runs that vary a setting leave out the SVMs, and take fewer of the larger marginals: both take longer than a run.
    """
    pair = TablePair(real, synth, domain)
    numbers: Result = {
        "tvd": {
            str(k): round(distances_of(pair, random_cliques(domain, k, 300 if everything or k < 4 else 100)).mean, 6)
            for k in range(1, 6)
        },
        "ranges": {str(k): range_errors(pair, k, sets, skewed=True).mean_squared for k, sets in RANGES},
    }
    if everything:
        targets = [name for name in domain.names if domain.size(name) <= SVM_VALUES]
        errors = svm_errors(synth, test, domain, targets)
        numbers["svm_error"] = round(float(np.mean(list(errors.values()))), 6)
        numbers["svm_errors"] = {name: round(error, 6) for name, error in errors.items()}
    return numbers


def eta_names(method: str) -> dict[float, str]:
    """The names of runs of a method by eta; the printed one has 0.7 unless named otherwise."""
    if method == "ppsyn":
        return {eta: f"ppsyn, eta {eta:g}" for eta in ETAS}
    return {eta: PRINTED if eta == ppsyn_printed.ETA else f"{PRINTED}, eta {eta:g}" for eta in PRINTED_ETAS}


def jobs(
    parts: Iterable[str], tables: Iterable[str], methods: Iterable[str], epsilons: Iterable[float], repeats: int
) -> list[Job]:
    """Runs of the named parts: figures 3 to 6, figures 7 and 8 (eta), figure 9 (dimension of the workload), the
    printed algorithm, and LOANS."""
    tables, epsilons = list(tables), list(epsilons)
    sets = [f"{name}, {k}-way" for k in WORKLOADS for name in WORKLOAD_METHODS]
    own, printed = (eta_names(name) for name in ("ppsyn", PRINTED))
    studied = [name for name in ETA_TABLES if name in tables]
    grids: dict[str, tuple[Sequence[str], Iterable[str], Sequence[float]]] = {
        "compare": (tables, methods, epsilons),
        "workload": (["br2000"], sets, [0.1]),
        "eta": (studied, own.values(), ETA_EPSILONS),
        "printed-eta": (studied, printed.values(), ETA_EPSILONS[:1]),
        "loans": ([LOANS], LOANS_METHODS, [LOANS_EPSILON]),
        "printed": ([name for name in PRINTED_TABLES if name in tables], [PRINTED, PAPER], PRINTED_EPSILONS),
    }
    listed = [job for part in parts for job in jobs_of(*grids[part], repeats, train_share=0.8)]
    return list(dict.fromkeys(listed))


# The document.


def comparison_rows(results: list[Line], table: str, measure: str, scale: float, digits: int) -> list[str]:
    """One row per method, one column per epsilon: mean, standard error, number of runs; best in bold."""
    cells = {key: value for key, value in summary(results, measure).items() if key[0] == table}
    epsilons = sorted({key[2] for key in cells})
    best = {epsilon: min(value[0] for key, value in cells.items() if key[2] == epsilon) for epsilon in epsilons}

    def cell(key: Key) -> str:
        shown = spread(cells.get(key), scale, digits)
        return f"**{shown}**" if shown and cells[key][0] == best[key[2]] else shown

    methods = [name for name in COMPARED if any(key[1] == name for key in cells)]
    return method_rows(methods, {f"{epsilon:g}": (table, epsilon) for epsilon in epsilons}, cell)


MEASURES = (
    ("tvd.3", "Workload error: mean distance of 300 random 3-way marginals", 1.0, 4),
    ("ranges.3", "Mean squared error of 3-dimensional range queries, in units of 1e-6", 1e6, 1),
    ("ranges.5", "Mean squared error of 5-dimensional range queries, in units of 1e-6", 1e6, 1),
    ("svm_error", "Mean SVM error on the columns of two values", 1.0, 4),
    ("cpu_seconds", "Processor seconds", 1.0, 1),
)


def comparison_part(results: list[Line]) -> list[str]:
    """Tables and plots of figures 3 to 6."""
    compared = [line for line in results if line["method"] in COMPARED]
    text = []
    for table in TABLES:
        text += [f"### {table}", ""]
        for measure, title, scale, digits in MEASURES:
            rows = comparison_rows(compared, table, measure, scale, digits)
            if measure != "cpu_seconds":
                plot = DOCUMENT.parent / f"ppsyn-{table}-{measure.replace('.', '')}.svg"
                plot.write_text(comparison_chart(compared, measure, table), encoding="utf-8")
                text += [f"![{table}, {measure}]({plot.name})", ""]
            text += [f"{title}:", "", *rows, ""]
    return text


def eta_part(results: list[Line]) -> list[str]:
    """Figures 7 and 8."""
    text, series = list[list[str]](), dict[str, dict[str, list[tuple[float, float, float]]]]()
    grid = [(method, table, e) for method in ("ppsyn", PRINTED) for table in ETA_TABLES for e in ETA_EPSILONS]
    for measure, title, scale, digits in (
        ("tvd.3", "workload error", 1.0, 4),
        ("ranges.3", "range query error", 1e6, 1),
    ):
        cells, series[title] = summary(results, measure), {}
        for method, table, epsilon in grid:
            found = {eta: cells.get((table, name, epsilon)) for eta, name in eta_names(method).items()}
            points = [(eta, cell[0], cell[1]) for eta, cell in found.items() if cell]
            if len(points) > 1:
                shown = [spread(found.get(eta), scale, digits) for eta in ETAS]
                text.append([f"{method}, {table}, {epsilon:g}: {title}", *shown])
                series[title][f"{method}, {table}, {epsilon:g}"] = points
        plot = DOCUMENT.parent / f"ppsyn-eta-{measure.replace('.', '')}.svg"
        plot.write_text(standalone(lines(series[title], x_title="eta", y_title=title, title=title)), encoding="utf-8")
    rows = markdown(["", *(f"{eta:g}" for eta in ETAS)], text)
    return ["![eta](ppsyn-eta-tvd3.svg) ![eta](ppsyn-eta-ranges3.svg)", "", *rows]


def workload_part(results: list[Line]) -> list[str]:
    """Figure 9: the distance of d-way marginals when d-way marginals are the workload."""
    series = {}
    for method in (*WORKLOAD_METHODS, "mst", "privmrf"):
        points = []
        for k in WORKLOADS:
            name = f"{method}, {k}-way" if method in WORKLOAD_METHODS else method
            cell = summary(results, f"tvd.{k}").get(("br2000", name, 0.1))
            points += [(float(k), *cell)] if cell else []
        series[method] = points
    drawn = {method: [point[:3] for point in points] for method, points in series.items()}
    chart = lines(drawn, x_title="dimension of the workload", y_title="workload error", title="workload")
    (DOCUMENT.parent / "ppsyn-workload.svg").write_text(standalone(chart), encoding="utf-8")
    rows = [[method, *(spread(cell) for _, *cell in points)] for method, points in series.items()]
    text = markdown(["method", *(f"{k}-way" for k in WORKLOADS)], rows)
    return ["![dimension of the workload](ppsyn-workload.svg)", "", *text]


def printed_part(results: list[Line]) -> list[str]:
    """The printed algorithm beside the repaired one and others: workload error, runs in brackets."""
    cells = summary(results, "tvd.3")
    columns = {f"{table}, {e:g}": (table, e) for table in PRINTED_TABLES for e in PRINTED_EPSILONS}
    return method_rows((PRINTED, PAPER, "ppsyn", "aim"), columns, lambda key: spread(cells.get(key)))


def loans_part(results: list[Line]) -> list[str]:
    """Errors on the simulated table of the shape of LOANS."""
    found = [(title, scale, digits, summary(results, measure)) for measure, title, scale, digits in MEASURES]
    rows = []
    for title, scale, digits, cells in found:
        keys = [(LOANS, method, LOANS_EPSILON) for method in LOANS_METHODS]
        if any(key in cells for key in keys):
            rows.append([title, *(spread(cells.get(key), scale, digits) for key in keys)])
    return markdown(["", *LOANS_METHODS], rows)


def store_budgets() -> None:
    """Store numbers of groups of the hours worked per week, and the budget that each requires, from true counts."""
    hours = pyarrow.csv.read_csv(DATA / "adult-raw.csv")["hours-per-week"].to_numpy()
    counts = np.bincount(hours, minlength=100)[1:].astype(float)
    points = ppsyn_printed.budgets(counts, float(np.abs(counts - counts.mean()).sum()))
    BUDGETS.write_text("".join(json.dumps({"groups": groups, "rho": rho}) + "\n" for groups, rho in points))


def required_budgets() -> list[tuple[int, float]]:
    """The stored numbers of groups with their budgets."""
    return [(line["groups"], line["rho"]) for line in stored(BUDGETS)]


def budgets_part() -> list[str]:
    """Figure 2: the budget that a number of groups of the hours worked per week requires."""
    points = required_budgets()
    best = min(points, key=lambda point: point[1])
    series = {"required rho": [(float(groups), 1e9 * rho, math.nan) for groups, rho in points[:20]]}
    chart = lines(series, x_title="number of groups", y_title="rho, in 1e-9", title="Figure 2")
    (DOCUMENT.parent / "ppsyn-figure2.svg").write_text(standalone(chart), encoding="utf-8")
    shown = sorted({points[0], best, *points[:: len(points) // 6], points[-1]})
    rows = [["required rho, in 1e-9", *(f"{1e9 * rho:.2f}" for _, rho in shown)]]
    text = markdown(["number of groups", *(str(groups) for groups, _ in shown)], rows)
    return ["![Figure 2](ppsyn-figure2.svg)", "", *text, "", f"Smallest at {best[0]} groups of {points[-1][0]} cells."]


def document(results: list[Line]) -> None:
    """Replace the generated parts of the document, and the plots."""
    parts = {
        "comparison": comparison_part(results),
        "eta": eta_part(results),
        "workload": workload_part(results),
        "printed": printed_part(results),
        "budgets": budgets_part(),
        "loans": loans_part(results),
    }
    replace_parts(DOCUMENT, parts)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--parts", nargs="+", default=list(PARTS))
    add_grid(parser, tables=TABLES, methods=COMPARED, epsilons=EPSILONS, repeats=REPEATS)
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.parts, given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=show_progress)
        if "printed" in given.parts:
            store_budgets()
    else:
        document(results_in(RESULTS))
