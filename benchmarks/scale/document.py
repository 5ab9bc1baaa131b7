"""Writes the tables and the plots of docs/scale.md from the stored lines.

    python -m benchmarks.scale document

Of each task, method and number of rows the last line of results/scale.jsonl counts, of PostgreSQL the last of its own;
of Spark all lines are shown, and rates are those of the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.common import DOCS, Line, markdown, parser_of, replace_parts, results_of, stored
from lookalike.report.charts import lines
from lookalike.report.page import standalone

DOCUMENT = DOCS / "scale.md"
COLUMNS, PAIRS = 15, 105
"""Columns of the tables of all tasks but `width`, and pairs of them."""


def latest(task: str) -> dict[tuple[int, str], Line]:
    """The last stored line of each number of rows and method of a task, by rows."""
    found = {
        (line["rows"], line.get("method", "")): line for line in stored(results_of("scale")) if line["task"] == task
    }
    return dict(sorted(found.items()))


def counting_part() -> list[str]:
    """Counting and writing, beside peers."""
    rows: list[list[Any]] = []
    for (number, _), line in latest("pairs").items():
        peer = f"{_number(line['bincount'])}, a NumPy `bincount` per pair and block"
        rows.append([f"105 pairs of {number:,} rows in memory", _number(line["ours"]), peer, _ratio(line["ratio"])])
    for (number, _), line in latest("parquet").items():
        for kind in ("codes", "texts"):
            if kind not in line:
                continue
            rows += _from_parquet(f"105 pairs of {number:,} rows from Parquet, {kind}, reading included", line[kind])
    for (number, _), line in latest("csv").items():
        peer = f"{_number(line['python'])}, Python's `csv`"
        rows.append([f"{number:,} lines of CSV written", _number(line["ours"]), peer, _ratio(line["ratio"])])
    for line in stored(results_of("databases"))[-1:]:
        peer = f"{_number(line['plain_cpu_seconds'])}, a GROUP BY per pair"
        wide = line["wide_cpu_seconds"]
        what = f"105 pairs of {line['rows']:,} rows in PostgreSQL, CPU of the server"
        rows.append([what, _number(wide), peer, _ratio(wide / line["plain_cpu_seconds"])])
    for line in sorted(stored(results_of("spark")), key=lambda line: line["rows"]):
        rows += _from_spark(line)
    return markdown(["what", "ours", "peer", "ratio"], rows)


def _from_parquet(what: str, line: Line) -> list[list[Any]]:
    first = [what, _number(line["ours"]), f"{_number(line['duckdb'])}, DuckDB's GROUP BY of each pair"]
    found = [[*first, _ratio(line["ratio_duckdb"])]]
    if "whole" in line:
        found.append(["", "", f"{_number(line['whole'])}, whole read, lookup and `bincount`", _ratio(line["ratio"])])
    return found


def _from_spark(line: Line) -> list[list[Any]]:
    ours = line["pair_cpu_seconds"]
    found = []
    for name, which in (("uncached_pair", "two"), ("uncached_table", "all")):
        peer = line[f"{name}_cpu_seconds"]
        words = f"{_number(peer)}, `mapInArrow` that reads, encodes and counts, {which} columns"
        found.append(["", "", words, _ratio(ours / peer)])
    found[0][:2] = [f"a round of one pair of {line['rows']:,} rows in Spark", _number(ours)]
    return found


def runs_part() -> list[str]:
    """Whole runs of `mst` by number of rows, and the plots of CPU per row and of memory."""
    runs = [(number, line) for (number, method), line in latest("runs").items() if method == "mst"]
    rows = [[f"{n:,}", f"{r['cpu']:.1f}", f"{r['cpu_until_first_rows']:.1f}", f"{r['peak_mb']:,.0f}"] for n, r in runs]
    _draw("runs", "CPU microseconds per row", [(n, 1e6 * r["cpu"] / n) for n, r in runs])
    _draw("memory", "peak memory in MB", [(n, r["peak_mb"]) for n, r in runs])
    table = markdown(["rows", "CPU seconds", "of which until the first rows are made", "peak MB"], rows)
    plots = "![CPU per row by number of rows](scale-runs.svg) ![Peak memory by number of rows](scale-memory.svg)"
    doubled = [(m, a, *next(((n, b) for n, b in runs if n >= 2 * m), (m, a))) for m, a in runs]
    growth = max((b["cpu"] / a["cpu"]) ** (1 / math.log2(n / m)) for m, a, n, b in doubled if n > m)
    peaks = {n: r["peak_mb"] for n, r in runs}
    said = f"Twice as many rows cost at most {growth:.2f} times as much CPU; at 100 million rows the peak of memory is "
    return [*table, "", plots, "", f"{said}{peaks[100_000_000] / peaks[10_000_000]:.2f} times that at 10 million."]


def _draw(name: str, title: str, points: Sequence[tuple[int, float]]) -> None:
    series = {"mst": [(n / 1e6, y, math.nan) for n, y in points]}
    chart = lines(series, x_title="million rows in, and out", y_title=title, title=f"{title} of mst by number of rows")
    DOCUMENT.with_name(f"scale-{name}.svg").write_text(standalone(chart) + "\n", encoding="utf-8")


def others_part() -> list[str]:
    """Runs of `auto`, of a wide table, and what a row costs."""
    rows = []
    for (number, _), line in latest("runs").items():
        if line["method"] == "auto":
            rows.append(
                [f"{number:,} x 15", f"auto: {line['chosen']}", f"{line['cpu']:.1f}", f"{line['peak_mb']:,.0f}"]
            )
    for (number, _), line in latest("width").items():
        rows.append([f"{number:,} x 1,000", f"auto: {line['chosen']}", f"{line['cpu']:.1f}", f"{line['peak_mb']:,.0f}"])
    table = markdown(["rows x columns", "method", "CPU seconds", "peak MB"], rows)
    for line in latest("draws").values():
        mosaic, mst = (line[name]["later"] / 1000 for name in ("mosaic", "mst"))
        first = line["mosaic"]["first"] / 1000
        said = f"A row of the first million takes {first:.1f} microseconds of CPU with `mosaic`, which fits weights and"
        more = f"chooses rows then; a further one {mosaic:.1f}, and {mst:.1f} with `mst`."
        table += ["", said, more]
    return table


def rates() -> dict[str, float]:
    """Nanoseconds of CPU by what is done to a value, or to a pair of values of a row."""
    (files, _), line = list(latest("parquet").items())[-1]
    (rows, _), run = [item for item in latest("runs").items() if item[0][1] == "mst"][-1]
    spark = stored(results_of("spark"))[-1]
    packing = spark["pack_and_pair_cpu_seconds"] - spark["pair_cpu_seconds"]
    return {
        "read": 1e9 * line["codes"]["ours"] / files / COLUMNS,
        "made": 1e9 * (run["cpu"] - run["cpu_until_first_rows"]) / rows / COLUMNS,
        "packed": 1e9 * packing / spark["rows"] / COLUMNS,
        "counted": 1e9 * spark["all_pairs_cpu_seconds"] / spark["rows"] / PAIRS,
    }


def rates_part() -> list[str]:
    """The rates, and what follows for 10^9 rows of 50 columns on a cluster, in hours of CPU."""
    each = rates()
    encoding, counting, out = (
        seconds / 3600 for seconds in (50 * each["packed"], 2 * 1225 * each["counted"], 50 * each["made"])
    )
    hours = encoding + counting + out
    return [
        "In nanoseconds of CPU: reading and encoding a value of Parquet codes, with the counting of all pairs, takes",
        f"{each['read']:.1f}; making and writing a value with `mst` {each['made']:.0f}; on Spark, encoding a value "
        f"{each['packed']:.0f} and counting a pair of a row {each['counted']:.1f}.",
        "",
        f"From these rates `mst` on 10^9 rows of 50 columns, as many rows out, would take {hours:.1f} hours of CPU",
        f"on a cluster (encoding {encoding:.1f}, two passes over all pairs {counting:.1f}, rows out {out:.1f}): on 20",
        f"machines of 4 cores {60 * hours / 80:.1f} minutes. This is worked out, not measured, and leaves out",
        "the waiting for disks and the network.",
    ]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("action", nargs="?", choices=["document"], help="may be left out")
    parser.parse_args(arguments)
    parts = {"counting": counting_part(), "runs": runs_part(), "others": others_part(), "rates": rates_part()}
    replace_parts(DOCUMENT, parts)
