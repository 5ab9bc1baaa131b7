"""Print stored runs as a compact table: one row per table, and totals over tables of at least 1,000 rows.

python -m benchmarks.real_tables show [--out FILE] [--labels before after] [--epsilons 1] [--columns]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import Line, parser_of, stored
from benchmarks.real_tables.measures import range_off
from benchmarks.real_tables.run import RESULTS
from benchmarks.real_tables.tables import CONFIRMATION, DEVELOPMENT

LARGE = 1000
WORTH_NAMING = 0.1
COUNTS = ("columns", "varying", "made_constant", "numbers", "made_text", "range_off", "times", "times_off")
HEADS = (
    "table",
    "rows",
    "cols",
    "method",
    "CPU s",
    "const",
    "text",
    "range",
    "times",
    "oneway",
    "corr",
    "miss",
    "shape",
)


def cells(line: Line) -> list[str]:
    """One row of the compact table."""
    if line["exit"]:
        return [line["table"], "failed", *line["notes"][-1:]]
    return [
        line["table"], str(line["rows"][0]), str(line["columns"]), line["method"], f"{line['cpu_seconds']:.0f}",
        f"{line['made_constant']}/{line['varying']}", f"{line['made_text']}/{line['numbers']}",
        f"{line['range_off']}/{line['numbers']}", f"{line['times_off']}/{line['times']}",
        *(f"{line[name] or 0:.3f}" for name in ("oneway", "correlations", "missing", "shapes")),
    ]  # fmt: skip


def totals(lines: list[Line]) -> Line:
    """Counts summed and distances averaged over the tables of at least 1,000 rows."""
    lines = [line for line in lines if not line["exit"] and line["rows"][0] >= LARGE]
    counted = {name: sum(line[name] for line in lines) for name in ("varying", "numbers", "times", "columns")}
    counted |= {
        name: sum(line[name] for line in lines) for name in ("made_constant", "made_text", "range_off", "times_off")
    }
    means = {
        name: round(float(np.mean([line[name] for line in lines])), 4) if lines else None
        for name in ("oneway", "missing", "shapes", "cpu_seconds")
    }
    paired = [line["correlations"] for line in lines if line["pairs"]]
    means["correlations"] = round(float(np.mean(paired)), 4) if paired else None
    return {"tables": len(lines), **counted, **means}


def total_cells(name: str, lines: list[Line]) -> list[str]:
    sums = totals(lines)
    if not sums["tables"]:
        return []
    return [
        name, "", str(sums["columns"]), f"{sums['tables']} tables", f"{sums['cpu_seconds']:.0f}",
        f"{sums['made_constant']}/{sums['varying']}", f"{sums['made_text']}/{sums['numbers']}",
        f"{sums['range_off']}/{sums['numbers']}", f"{sums['times_off']}/{sums['times']}",
        *(f"{sums[name] or 0:.3f}" for name in ("oneway", "correlations", "missing", "shapes")),
    ]  # fmt: skip


def faults(line: Line) -> list[str]:
    """The columns of a table that are constant, text or off in range, and the worst distances."""
    found = []
    for name, column in line.get("by_column", {}).items():
        marks = {
            "constant": column["varies"] and column["constant"],
            "text": column.get("text"),
            f"range x{column.get('width')}": range_off(column),
            f"oneway {column.get('oneway')}": column.get("oneway", 0) > WORTH_NAMING,
        }
        found += [f"    {name} ({column['kind']}): {', '.join(m for m, bad in marks.items() if bad)}"] * any(
            marks.values()
        )
    return found


def print_one(label: str, epsilon: float, lines: list[Line], columns: bool) -> None:
    print(f"\n{label}, epsilon {epsilon:g}")
    tables = [line for line in lines if line["part"] == "table"]
    groups = [("development", DEVELOPMENT), ("confirmation", CONFIRMATION), ("all", DEVELOPMENT | CONFIRMATION)]
    rows = [list(HEADS), *map(cells, tables)]
    rows += filter(None, (total_cells(name, [t for t in tables if t["table"] in group]) for name, group in groups))
    widths = [max(len(row[i]) for row in rows if len(row) == len(HEADS)) for i in range(len(HEADS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)))
        for line in tables if columns else ():
            if line["table"] == row[0]:
                print("\n".join([*faults(line), *(f"    > {note}" for note in line["notes"])]))
    for line in lines:
        if "rules" in line:
            print("flights:", line["rules"])
        if line["part"] == "downstream":
            found = line.get("auc", line["notes"][-1:])
            print(f"AUC {line['table']} ({line['method']}): {found}, on real rows {line.get('auc_real')}")


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--labels", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--columns", action="store_true", help="also name the columns that are off")
    given = parser.parse_args(arguments)
    lines = stored(given.out)
    for label, epsilon in sorted({(line["label"], line["epsilon"]) for line in lines}):
        if label in (given.labels or [label]) and epsilon in (given.epsilons or [epsilon]):
            chosen = [line for line in lines if (line["label"], line["epsilon"]) == (label, epsilon)]
            print_one(label, epsilon, chosen, given.columns)
