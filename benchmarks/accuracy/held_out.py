"""All methods on tables that had no part in choosing any setting: a confirmation, not a search.

    python -m benchmarks.accuracy held_out build
    python -m benchmarks.accuracy held_out run [--methods mst aim] [--tables crashes flights] [--epsilons 1 0.1]
    python -m benchmarks.accuracy held_out document

`build` writes the tables of held_out_tables.py; `run` appends one JSON line per run to
benchmarks/results/held_out.jsonl and never repeats a run that is there; `document` writes the generated parts of
docs/held_out.md from them. 80 % of the rows are synthesised, delta is 1e-5, distances are means over 300 random
marginals between those rows and as many synthetic rows as the noisy count says. A run is given up after three minutes
of processor time; that is a result, too. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from benchmarks.accuracy.held_out_tables import TABLES, build, table_of
from benchmarks.common import DOCS, Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.runs import Key, limited, method_rows, results_in, run_on, show_progress, spread, too_long
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary

RESULTS = results_of("held_out")
BEFORE = results_of("held_out_before")
"""Runs of mosaic on the second group of tables, made when these were fixed and never repeated."""
DOCUMENT = DOCS / "held_out.md"
EPSILONS = (0.1, 1.0, 3.2)
METHODS = ("independent", "mst", "aim", "privmrf", "privsyn", "ppsyn", "mosaic", "resample")
JUDGED = "mosaic"
MAX_CPU_SECONDS = 180

Cells = dict[Key, tuple[float, float, int]]


def run_one(job: Job) -> Result:
    """Numbers of one run, or that it took too long; called in a process of its own."""
    return limited(lambda: run_on(*table_of(job.table), job), MAX_CPU_SECONDS)


def methods_in(results: list[Line]) -> list[str]:
    """The methods that were run, in the order of the page."""
    return [method for method in METHODS if any(line["method"] == method for line in results)]


def distances(results: list[Line], table: str) -> list[str]:
    """3-way and 5-way distances with standard errors, one row per method, one column per epsilon."""
    three, five, long = summary(results, "tvd.3"), summary(results, "tvd.5"), too_long(results)

    def cell(key: Key) -> str:
        if key in three:
            return f"{_with_error(three[key])} / {_with_error(five[key])} ({three[key][2]})"
        return f"over {MAX_CPU_SECONDS} s" if key in long else ""

    return method_rows(methods_in(results), {f"epsilon {e:g}": (table, e) for e in EPSILONS}, cell)


def _with_error(cell: tuple[float, float, int]) -> str:
    mean, error, runs = cell
    return f"{mean:.4f}" + (f" ±{error:.4f}" if runs > 1 else "")


def costs(results: list[Line]) -> list[str]:
    """Mean processor seconds and largest memory at epsilon 1, one row per method, one column per table."""
    seconds = summary([line for line in results if "tvd" in line], "cpu_seconds")

    def cell(key: Key) -> str:
        own = [line["peak_mb"] for line in results if (line["table"], line["method"], line["epsilon"]) == key]
        taken = f"{seconds[key][0]:.1f}" if key in seconds else f"over {MAX_CPU_SECONDS}"
        return f"{taken} s, {max(own):.0f} MB" if own else ""

    methods = methods_in([line for line in results if line["epsilon"] == 1])
    return method_rows(methods, {table: (table, 1.0) for table in TABLES}, cell)


def verdict(results: list[Line]) -> list[str]:
    """The judged method against the best other one, per table and epsilon: ratio of distances, and their difference.

    A difference counts as clear where it is more than two standard errors of the difference of the two means.
    """
    three, five = ({k: v for k, v in summary(results, f"tvd.{n}").items() if k[1] != "resample"} for n in (3, 5))
    if not any(method == JUDGED for _, method, _ in three):
        return [f"`{JUDGED}` has not been run on these tables yet."]
    heads = [head for order in (3, 5) for head in (f"{order}-way: {JUDGED}", "best other", "ratio")]
    rows = []
    for table in TABLES:
        for epsilon in EPSILONS:
            found = [_against(cells, table, epsilon) for cells in (three, five)]
            if all(found):
                rows.append([table, f"{epsilon:g}", *(cell for cells in found for cell in cells)])
    return markdown(["table", "epsilon", *heads], rows)


def _against(cells: Cells, table: str, epsilon: float) -> list[str]:
    """The distance of the judged method, the best other one, and their ratio; nothing where one was not run."""
    others = {key: cell for key, cell in cells.items() if (key[0], key[2]) == (table, epsilon) and key[1] != JUDGED}
    own = cells.get((table, JUDGED, epsilon))
    if own is None or not others:
        return []
    best = min(others, key=lambda key: others[key][0])
    mean, error, _ = others[best]
    doubt = 2 * math.hypot(own[1], error)
    clear = "" if abs(own[0] - mean) > doubt else " (not clear)"
    return [f"{own[0]:.4f}", f"{best[1]} {mean:.4f}", f"{own[0] / mean:.2f}{clear}"]


def gains(before: list[Line], after: list[Line]) -> list[str]:
    """Mean distances of the judged method before and after its last changes, and the mean ratio over all tables."""
    rows: list[list[str]] = []
    ratios: dict[tuple[float, int], list[float]] = {}
    for table in dict.fromkeys(line["table"] for line in before):
        for epsilon in EPSILONS:
            row = [table, f"{epsilon:g}"]
            for order in (3, 5):
                old, new = (summary(lines, f"tvd.{order}").get((table, JUDGED, epsilon)) for lines in (before, after))
                if old is None or new is None:
                    continue
                row += [spread(old), spread(new), f"{new[0] / old[0]:.3f}"]
                ratios.setdefault((epsilon, order), []).append(new[0] / old[0])
            rows += [row] if len(row) == 8 else []
    for epsilon in EPSILONS:
        means = [_mean_with_error(ratios.get((epsilon, order), [])) for order in (3, 5)]
        if all(means):
            rows.append(["mean of the ratios", f"{epsilon:g}", "", "", means[0], "", "", means[1]])
    heads = [f"{order}-way {column}" for order in (3, 5) for column in ("before", "after", "ratio")]
    return markdown(["table", "epsilon", *heads], rows)


def _mean_with_error(values: Sequence[float]) -> str:
    """The mean and its standard error; nothing of fewer than two values."""
    if len(values) < 2:
        return ""
    return f"{fmean(values):.3f} ± {stdev(values) / math.sqrt(len(values)):.3f}"


def document(results: list[Line]) -> None:
    """Replace the generated parts of the page."""
    shown = [line for table in TABLES for line in (f"### {table}", "", *distances(results, table), "")]
    parts = {"verdict": verdict(results), "distances": shown, "costs": costs(results)}
    replace_parts(DOCUMENT, {**parts, "gains": gains(results_in(BEFORE), results)})


def build_tables(names: Sequence[str]) -> None:
    """Write the tables that are missing, and print the shape of each."""
    for name in names:
        build(name)
        rows, schema = table_of(name)
        print(f"{name}: {rows.num_rows} rows, {rows.num_columns} columns of {list(schema.domain.sizes)} values")


def run(tables: Sequence[str], methods: Sequence[str], epsilons: Sequence[float], repeats: int) -> None:
    """Run what is missing, except repeats of what took too long once."""
    for repeat in range(1, repeats + 1):
        long = too_long(results_in(RESULTS))
        listed = jobs_of(tables, methods, epsilons, repeat, train_share=0.8)
        chosen = [job for job in listed if (job.table, job.method, job.epsilon) not in long]
        run_jobs(chosen, run_one, RESULTS, progress=show_progress)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "build", "run", "document")
    add_grid(parser, tables=TABLES, methods=METHODS, epsilons=EPSILONS, repeats=3)
    given = parser.parse_args(arguments)
    if given.action == "document":
        document(results_in(RESULTS))
        return
    build_tables(given.tables)
    if given.action == "run":
        run(given.tables, given.methods, given.epsilons, given.repeats)
