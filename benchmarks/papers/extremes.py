"""Every method at epsilon 0.01, 1 and 1,000: does it run or refuse with a reason, in bounded time, and is more better?

    python -m benchmarks.papers extremes run [--tables wide] [--methods aim mosaic] [--epsilons 1000]
    python -m benchmarks.papers extremes document

Three tables: nltcs; `tiny`, 12 rows of three columns; `wide`, 2,000 made rows of 24 columns of 40 values, each a noisy
function of one before it. `run` appends one JSON line per run to benchmarks/results/extremes.jsonl and never repeats a
run that is there; a run is given up after four minutes of processor time. `document` writes
docs/reproductions/extremes.md. All rows are synthesised, delta is 1e-5, distances are means over 300 random marginals.
NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks import runs
from benchmarks.common import REPRODUCTIONS, Line, add_grid, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.runs import limited, show_progress
from lookalike.errors import LookalikeError
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS

RESULTS = results_of("extremes")
DOCUMENT = REPRODUCTIONS / "extremes.md"
TABLES = ("wide", "tiny", "nltcs")
EPSILONS = (1000.0, 0.01, 1.0)
REPEATS = 1
WAYS = {"wide": "2", "tiny": "2", "nltcs": "3"}
"""Marginals whose mean distance is shown: 3-way ones of `wide` have more cells than it has rows."""
MAX_CPU_SECONDS = 240
COLUMNS, VALUES, ROWS = 24, 40, 2000


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of a table."""
    rng = np.random.default_rng(0)
    if name == "tiny":
        codes = {"a": np.arange(12) % 2, "b": np.arange(12) % 3, "c": np.arange(12) // 4}
        return pa.table(codes), Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    if name == "nltcs":
        return runs.table_of(name)
    columns = [rng.integers(0, VALUES, ROWS)]
    for place in range(1, COLUMNS):
        parent, mixed = columns[int(rng.integers(max(0, place - 4), place))], rng.integers(0, VALUES, ROWS)
        columns.append(np.where(rng.random(ROWS) < 0.7, parent // 4 * 4 + mixed % 4, mixed))
    codes = {f"c{place}": column for place, column in enumerate(columns)}
    return pa.table(codes), Schema.from_sizes(dict.fromkeys(codes, VALUES))


def run_one(job: Job) -> Result:
    """Numbers of one run, or the reason for which it was refused; called in a process of its own."""

    def run() -> Result:
        try:
            return runs.run_on(*table_of(job.table), job)
        except LookalikeError as refused:
            return {"refused": str(refused)}

    numbers = limited(run, MAX_CPU_SECONDS + int(time.process_time()))
    return {"over_cpu_seconds": MAX_CPU_SECONDS} if "over_cpu_seconds" in numbers else numbers


def cell(line: Line | None) -> str:
    """Distance, CPU seconds and rows of one run; or that it was refused or given up."""
    if line is None:
        return ""
    if "refused" in line:
        return "refused"
    if "over_cpu_seconds" in line:
        return f"over {line['over_cpu_seconds']} s"
    return f"{line['tvd'][WAYS[line['table']]]:.4f}, {line['cpu_seconds']:.0f} s, {line['rows']:,} rows"


def parts(lines: list[Line]) -> dict[str, list[str]]:
    """A table of methods and budgets for every table, the reasons of refusals, and what is not better at 1,000."""
    found = {(line["table"], line["method"], line["epsilon"]): line for line in lines if "error" not in line}
    made: dict[str, list[str]] = {}
    for table in TABLES:
        order = sorted(EPSILONS)
        rows = [[m, *(cell(found.get((table, m, e))) for e in order)] for m in METHODS if m != "auto"]
        heads = ["method", *(f"epsilon {e:g}" for e in order)]
        made[table] = markdown(heads, [row for row in rows if any(row[1:])])
    refused = [line for line in found.values() if "refused" in line]
    made["refused"] = [
        f"* {line['method']}, {line['table']}, epsilon {line['epsilon']:g}: {line['refused']}" for line in refused
    ] or ["None."]
    made["worse"] = worse(found) or ["None."]
    return made


def worse(found: dict[tuple[str, str, float], Line]) -> list[str]:
    """The runs at epsilon 1,000 that are further from the table than those at 1."""
    text = []
    for (table, method, epsilon), line in found.items():
        before = found.get((table, method, 1.0))
        if epsilon == 1000.0 and before and "tvd" in line and "tvd" in before:
            high, low = (run["tvd"][WAYS[table]] for run in (line, before))
            if high > low:
                text.append(f"* {method}, {table}: {low:.4f} at 1, {high:.4f} at 1,000")
    return text


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    methods = [name for name in METHODS if name != "auto"]
    add_grid(parser, tables=TABLES, methods=methods, epsilons=EPSILONS, repeats=REPEATS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs_of(given.tables, given.methods, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=show_progress, isolated=not given.together)
    else:
        replace_parts(DOCUMENT, parts(stored(RESULTS)))
