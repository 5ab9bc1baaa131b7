"""Time and memory of every method on made-up tables, and the coefficients with which `plan` predicts both.

    python -m benchmarks.scale forecast run [--methods mst aim]   one line per run in benchmarks/results/forecast.jsonl
    python -m benchmarks.scale forecast fit                       writes src/lookalike/forecast_rates.json

Runs that are stored already are not repeated; each is a process of its own. The line `discovery` is what it takes to
read a CSV file without a schema and to discover its facts. The fit also takes the runs on the papers' tables that
the benchmark of accuracy has stored.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

import lookalike.forecast
from benchmarks.common import DATA, Line, append, in_fresh_process, parser_of, results_of, stored
from benchmarks.runs import TABLES
from lookalike.errors import LookalikeError
from lookalike.forecast import work_of
from lookalike.pipeline import synthesize
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.sources.writing import write_table
from lookalike.synthesizers import METHODS

RESULTS = results_of("forecast")
RATES = Path(lookalike.forecast.__file__).with_name("forecast_rates.json")
MAX_SECONDS = 900
CASES = (
    (1_000, 5, 4), (50_000, 5, 4), (5_000, 15, 10), (50_000, 15, 10), (50_000, 30, 3), (10_000, 60, 4),
    (20_000, 10, 40),
)  # fmt: skip
"""Rows, columns and values per column."""
MANY, MANY_OFF, FEW_OFF = 10, 1.5, 4.0


def made_up(rows: int, columns: int, size: int) -> pa.Table:
    """Codes in which each column is the one before it, spoilt by noise."""
    rng = np.random.default_rng(0)
    made = [rng.binomial(size - 1, 0.4, rows)]
    for _ in range(columns - 1):
        made.append(np.where(rng.random(rows) < 0.6, made[-1], rng.binomial(size - 1, 0.4, rows)))
    return pa.table({f"c{i}": column.astype(np.int32) for i, column in enumerate(made)})


def measure(method: str, rows: int, columns: int, size: int) -> dict[str, float]:
    """CPU seconds and peak memory of one run in this process."""
    table = made_up(rows, columns, size)
    sizes = dict.fromkeys(table.column_names, size)
    if method != "discovery":
        started = time.process_time()
        synthesize(table, schema=sizes, method=method, seed=0)
        return {"cpu_seconds": time.process_time() - started, "peak_mb": _peak_mb()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(table, path)
        started = time.process_time()
        synthesize(path, method="independent", seed=0, ledger=Path(folder) / "ledger.jsonl")
        spent = time.process_time() - started
        started = time.process_time()
        synthesize(table, schema=Schema.from_sizes(sizes), method="independent", seed=0)
        return {"cpu_seconds": spent - (time.process_time() - started), "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def run(methods: Sequence[str]) -> None:
    """Run what is not stored yet; what fails or takes too long is reported and not stored."""
    known = {tuple(line["case"].values()) for line in stored(RESULTS)}
    for rows, columns, size in CASES:
        for method in methods:
            case = {"method": method, "rows": rows, "columns": columns, "size": size}
            if tuple(case.values()) in known:
                continue
            command = ("benchmarks.scale", "forecast", "one", "--case", json.dumps(case))
            found = in_fresh_process(*command, timeout=MAX_SECONDS)
            if "error" in found:
                sys.stderr.write(f"{case}: {found['error']}\n")
            else:
                append(RESULTS, {"case": case, **found})


def papers_tables() -> list[Line]:
    """Runs on the papers' tables, of the same shape."""
    domains = {name: Domain.of(json.loads((DATA / f"{name}-domain.json").read_text())) for name in TABLES}
    return [
        {**line, "case": {"method": line["method"], "rows": line["rows"], "domain": domains[line["table"]]}}
        for line in stored(results_of("accuracy"))
        if line["table"] in domains and line["method"] in METHODS and "cpu_seconds" in line
    ]


def fit() -> None:
    """Non-negative coefficients with the least relative error, and by how much single runs are off."""
    lines, rates = [*stored(RESULTS), *papers_tables()], {}
    for method in sorted({line["case"]["method"] for line in lines}):
        own = [line for line in lines if line["case"]["method"] == method and "cpu_seconds" in line]
        work = np.array([_work(line["case"]) for line in own])
        rate: dict[str, object] = {}
        for name, measure_name in (("seconds", "cpu_seconds"), ("memory", "peak_mb")):
            wanted = np.array([line[measure_name] for line in own])
            weights = 1.0 / np.maximum(wanted, 0.05)
            coefficients, _ = nnls(work * weights[:, None], wanted * weights)
            ratios = (work @ coefficients) / np.maximum(wanted, 0.05)
            # A fit to few runs looks better than it is.
            least = FEW_OFF if len(own) < MANY else MANY_OFF
            off = max(float(np.maximum(ratios, 1 / np.maximum(ratios, 1e-9)).max()), least)
            rate |= {name: [float(f"{value:.3g}") for value in coefficients], f"{name}_off": round(off, 1)}
        rates[method] = rate
    listed = [f" {json.dumps(name)}: {json.dumps(rate)}" for name, rate in rates.items()]
    RATES.write_text("{\n" + ",\n".join(listed) + "\n}\n")


def _work(case: Line) -> np.ndarray:
    if "domain" in case:
        return work_of(case["domain"], case["rows"])
    return work_of(Domain.of({f"c{i}": case["size"] for i in range(case["columns"])}), case["rows"])


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "fit", "one")
    parser.add_argument("--methods", nargs="+", default=["discovery", *(name for name in METHODS if name != "auto")])
    parser.add_argument("--case", type=json.loads)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.methods)
    elif given.action == "fit":
        fit()
    else:
        try:
            found: Line = {**measure(**given.case)}
        except LookalikeError as error:
            found = {"refused": str(error)[:100]}
        sys.stdout.write(json.dumps(found) + "\n")
