"""Does error fall as the budget grows? Four methods from epsilon 0.05 to 100 on all benchmark tables.

    python -m benchmarks.accuracy sweep run [--methods mosaic] [--tables skips adult] [--epsilons 1 10] [--repeats 1]
    python -m benchmarks.accuracy sweep document

`run` appends one JSON line per run to benchmarks/results/sweep.jsonl and never repeats a run that is there: the table
with skip patterns and `mosaic` come first. `document` writes docs/sweep.md. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals. A run is given up after five minutes of processor time; that is a
result, too. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from benchmarks import runs
from benchmarks.accuracy import held_out_tables
from benchmarks.accuracy.skips_table import skips
from benchmarks.common import DOCS, Line, add_grid, markdown, parser_of, replace_parts, results_of
from benchmarks.runs import Key, limited, results_in, run_on, show_progress, too_long
from lookalike.evaluate.compare import Job, Result, run_jobs, summary
from lookalike.schema.schema import Schema

RESULTS = results_of("sweep")
DOCUMENT = DOCS / "sweep.md"
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.2, 10.0, 32.0, 100.0)
METHODS = ("mosaic", "privsyn", "privmrf", "aim")
TABLES = ("skips", *runs.TABLES, *held_out_tables.TABLES)
MAX_CPU_SECONDS = 300
NOISE_IN_ONE_RUN = 0.1
"""A rise of less than this part of the error cannot be distinguished from noise where a cell has one run."""


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of a table."""
    if name == "skips":
        codes, sizes = skips()
        return pa.table(codes), Schema.from_sizes(sizes)
    return runs.table_of(name) if name in runs.TABLES else held_out_tables.table_of(name)


def run_one(job: Job) -> Result:
    """Numbers of one run, what the fit explains of its measurements among them; called in a process of its own."""
    kept: list[Any] = []

    def synthesize(*positional: Any, **arguments: Any) -> Any:
        kept.append(runs.synthesize(*positional, **arguments))
        return kept[0]

    def run() -> Result:
        return {**run_on(*table_of(job.table), job, synthesize), "misfit": _misfit(kept[0])}

    return limited(run, MAX_CPU_SECONDS)


def _misfit(release: Any) -> dict[str, object]:
    """The worst column and the worst set: reduced chi-square and excess, and how many measurements are announced."""
    found = release.fitted.diagnosis()
    numbers: dict[str, object] = {"announced": len(found.unexplained)}
    for kind, several in (("column", False), ("set", True)):
        own = [m for m in found.misfits if (len(m.attrs) > 1) == several]
        if own:
            chi, excess = max(m.chi_square for m in own), max(m.excess for m in own)
            numbers[kind] = {"chi_square": round(chi, 3), "excess": round(excess, 5)}
    return numbers


def listed(tables: list[str], methods: list[str], epsilons: list[float], repeats: int) -> list[Job]:
    """All runs of the first repeat before those of others; `mosaic` on all tables first, then the others."""
    return [
        Job(table, method, epsilon, 1e-5, repeat, 0.8)
        for repeat in range(repeats)
        for group in ([m for m in methods if m == "mosaic"], [m for m in methods if m != "mosaic"])
        for table in tables
        for method in group
        for epsilon in epsilons
    ]


def distances(results: list[Line], measure: str) -> list[str]:
    """One row per table and method, one column per epsilon."""
    cells, long = summary(results, measure), too_long(results)

    def cell(key: Key) -> str:
        if key not in cells:
            return f"over {MAX_CPU_SECONDS} s" if key in long else ""
        mean, _, count = cells[key]
        return f"{mean:.4f}" + (f" ({count})" if count > 1 else "")

    pairs = [(table, method) for table in TABLES for method in METHODS]
    rows = [[*pair, *(cell((*pair, epsilon)) for epsilon in EPSILONS)] for pair in pairs]
    return markdown(["table", "method", *(f"{e:g}" for e in EPSILONS)], [row for row in rows if any(row[2:])])


def rises(results: list[Line]) -> list[str]:
    """Where the 3-way distance is larger at the next larger budget, by more than noise may explain."""
    cells = summary(results, "tvd.3")
    text: list[str] = []
    for table in TABLES:
        for method in METHODS:
            own = [(e, cells[table, method, e]) for e in EPSILONS if (table, method, e) in cells]
            for (low, before), (high, after) in pairwise(own):
                rise, doubt = after[0] - before[0], 2 * math.hypot(*(_doubt(cell) for cell in (before, after)))
                if rise > doubt:
                    text.append(f"* {table}, {method}: {before[0]:.4f} at {low:g}, {after[0]:.4f} at {high:g}")
    return text or ["None."]


def _doubt(cell: tuple[float, float, int]) -> float:
    """Standard error of a mean; of a single run, half of what cannot be distinguished from noise."""
    mean, error, count = cell
    return error if count > 2 else 0.5 * NOISE_IN_ONE_RUN * mean


def misfits(results: list[Line]) -> list[str]:
    """Per method and epsilon: the largest excess of a column and of a set over all tables, and what was announced."""
    rows = []
    for method in METHODS:
        for epsilon in EPSILONS:
            chosen = [line for line in results if (line["method"], line["epsilon"]) == (method, epsilon)]
            own = [line["misfit"] for line in chosen if "misfit" in line]
            if own:
                column, joint = (max((m[k]["excess"] for m in own if k in m), default=0.0) for k in ("column", "set"))
                announced = sum(m["announced"] > 0 for m in own)
                rows.append([method, f"{epsilon:g}", len(own), f"{column:.4f}", f"{joint:.4f}", announced])
    return markdown(["method", "epsilon", "runs", "worst column", "worst set", "runs with a notice"], rows)


def document(results: list[Line]) -> None:
    """Replace the generated parts of the page."""
    parts = {
        "three": distances(results, "tvd.3"), "one": distances(results, "tvd.1"), "rises": rises(results),
        "misfits": misfits(results), "seconds": distances(results, "cpu_seconds"),
    }  # fmt: skip
    replace_parts(DOCUMENT, parts)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=TABLES, methods=METHODS, epsilons=EPSILONS, repeats=1)
    given = parser.parse_args(arguments)
    if given.action == "document":
        document(results_in(RESULTS))
        return
    for table in given.tables:
        if table in held_out_tables.TABLES:
            held_out_tables.build(table)
    jobs = listed(given.tables, given.methods, given.epsilons, given.repeats)
    run_jobs(jobs, run_one, RESULTS, progress=show_progress)
