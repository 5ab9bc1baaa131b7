"""Does error fall as the budget grows? Four methods from epsilon 0.05 to 100 on all benchmark tables.

    python benchmarks/held_out_tables.py
    python benchmarks/sweep.py run [--methods mosaic] [--tables skips,adult] [--epsilons 1,10] [--repeats 1]
    python benchmarks/sweep.py document

`run` appends one JSON line per run to benchmarks/results/sweep.jsonl and never repeats a run that is there: the table
with skip patterns and `mosaic` come first. `document` writes docs/sweep.md. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals. A run is given up after five minutes of processor time; that is a
result, too. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import argparse
import math
import resource
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

import accuracy
import held_out_tables
from held_out import TooLongError, give_up
from lookalike.evaluate.compare import Job, Result, judge_method, read_results, run_jobs, summary
from lookalike.schema.schema import Schema
from skips_table import skips
from tables import replace_parts

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sweep.jsonl"
DOCUMENT = HERE.parent / "docs" / "sweep.md"
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.2, 10.0, 32.0, 100.0)
METHODS = ("mosaic", "privsyn", "privmrf", "aim")
TABLES = ("skips", *accuracy.TABLES, *held_out_tables.TABLES)
MOST_CPU_SECONDS = 300
NOISE_IN_ONE_RUN = 0.1
"""A rise of less than this part of the error is not told from noise where a cell has one run."""


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of a table."""
    if name == "skips":
        codes, sizes = skips()
        return pa.table(codes), Schema.from_sizes(sizes)
    return accuracy.table_of(name) if name in accuracy.TABLES else held_out_tables.table_of(name)


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run, what the fit explains of its measurements among them; called in a process of its own."""
    rows, schema = table_of(job.table)
    kept: list[Any] = []

    def synthesize(*positional: Any, **arguments: Any) -> Any:
        kept.append(accuracy.synthesize(*positional, **arguments))
        return kept[0]

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, give_up)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, hard))
    try:
        numbers = judge_method(job, table=rows, schema=schema, synthesize=synthesize)
        return {**numbers, "misfit": _misfit(kept[0])}
    except TooLongError:
        return {"over_cpu_seconds": MOST_CPU_SECONDS}
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


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


def distances(results: list[Result], measure: str) -> list[str]:
    """One row per table and method, one column per epsilon."""
    cells = summary(results, measure)
    long = {(line["table"], line["method"], line["epsilon"]) for line in results if "over_cpu_seconds" in line}
    text = ["| table | method | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |", "|---|---|" + "---|" * len(EPSILONS)]
    for table in TABLES:
        for method in METHODS:
            shown = [_cell(cells, long, (table, method, epsilon)) for epsilon in EPSILONS]
            if any(shown):
                text.append(f"| {table} | {method} | " + " | ".join(shown) + " |")
    return text


def _cell(cells: dict[Any, Any], long: set[Any], key: tuple[str, str, float]) -> str:
    if key not in cells:
        return f"over {MOST_CPU_SECONDS} s" if key in long else ""
    mean, _, runs = cells[key]
    return f"{mean:.4f}" + (f" ({runs})" if runs > 1 else "")


def rises(results: list[Result]) -> list[str]:
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
    """Standard error of a mean; of a single run, half of what is not told from noise."""
    mean, error, runs = cell
    return error if runs > 2 else 0.5 * NOISE_IN_ONE_RUN * mean


def misfits(results: list[Result]) -> list[str]:
    """Per method and epsilon: the largest excess of a column and of a set over all tables, and what was announced."""
    text = ["| method | epsilon | runs | worst column | worst set | runs with a notice |", "|---|---|---|---|---|---|"]
    for method in METHODS:
        for epsilon in EPSILONS:
            own: list[Any] = [
                r["misfit"] for r in results if (r["method"], r["epsilon"]) == (method, epsilon) and "misfit" in r
            ]
            if own:
                column, joint = (max((m[k]["excess"] for m in own if k in m), default=0.0) for k in ("column", "set"))
                told = sum(m["announced"] > 0 for m in own)
                text.append(f"| {method} | {epsilon:g} | {len(own)} | {column:.4f} | {joint:.4f} | {told} |")
    return text


def document(results: list[Result]) -> None:
    """Replaces the generated parts of the page, each between its markers."""
    parts = {
        "three": distances(results, "tvd.3"), "one": distances(results, "tvd.1"), "rises": rises(results),
        "misfits": misfits(results), "seconds": distances(results, "cpu_seconds"),
    }  # fmt: skip
    replace_parts(DOCUMENT, {name: "\n".join(lines) for name, lines in parts.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "document"))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    if given.action == "document":
        document([line for line in read_results(RESULTS) if "error" not in line])
        print(DOCUMENT)
        return
    tables, methods = given.tables.split(","), given.methods.split(",")
    for table in tables:
        if table in held_out_tables.TABLES:
            held_out_tables.build(table)
    jobs = listed(tables, methods, [float(epsilon) for epsilon in given.epsilons.split(",")], given.repeats)
    run_jobs(jobs, run_one, RESULTS, progress=accuracy.show_progress)


if __name__ == "__main__":
    main()
