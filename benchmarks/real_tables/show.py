"""Print stored runs as a compact table: one row per table, and totals over tables of at least 1,000 rows.

python -m benchmarks.real_tables show [--out FILE] [--labels before after] [--epsilons 1] [--columns]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import Line, parser_of, stored
from benchmarks.real_tables.measures import mean, range_off
from benchmarks.real_tables.run import RESULTS
from benchmarks.real_tables.tables import CONFIRMATION, DEVELOPMENT

LARGE = 1000
WORTH_NAMING = 0.1
SHARES = {
    "constant": ("made_constant", "varying"), "text": ("made_text", "numbers"), "range off": ("range_off", "numbers"),
    "of varying": ("varying_off", "varying_numbers"), "times off": ("times_off", "times"),
}  # fmt: skip
"""The heads of the measures that count columns: how many of how many."""
MEANS = {"one-way": "oneway", "correlations": "correlations", "missing": "missing", "written alike": "shapes"}
"""The heads of the measures that are means over columns or pairs."""
MEASURES = (*SHARES, *MEANS, "CPU s")


def counted(line: Line) -> Line:
    """A stored line, and how many numbers have a range that is off: of all, and of those that vary by many rows."""
    numbers = [column for column in line["by_column"].values() if column["kind"] == "number"]
    vary = [column for column in numbers if column["varies"]]
    off = {"range_off": sum(map(range_off, numbers)), "varying_off": sum(map(range_off, vary))}
    return line | off | {"varying_numbers": len(vary)}


def totals(lines: list[Line]) -> Line:
    """Counts summed and means averaged over the tables of at least 1,000 rows."""
    lines = [counted(line) for line in lines if not line["exit"] and line["rows"][0] >= LARGE]
    names = {"columns", *(name for pair in SHARES.values() for name in pair)}
    sums = {name: sum(line[name] for line in lines) for name in names}
    # A table without a pair of numbers has no correlations.
    means = {
        name: mean([line[name] for line in lines if name != "correlations" or line["pairs"]])
        for name in (*MEANS.values(), "cpu_seconds")
    }
    return {"tables": len(lines), **sums, **means}


def measured(line: Line, between: str) -> list[str]:
    """All measures of a counted line or of totals, as cells."""
    shares = [f"{line[part]}{between}{line[whole]}" for part, whole in SHARES.values()]
    means = ["" if line[name] is None else f"{line[name]:.3f}" for name in MEANS.values()]
    return [*shares, *means, f"{line['cpu_seconds']:.0f}"]


def cells(line: Line) -> list[str]:
    """One row of the compact table."""
    if line["exit"]:
        return [line["table"], "failed", *line["notes"][-1:]]
    return [
        line["table"], str(line["rows"][0]), str(line["columns"]), line["method"], *measured(counted(line), "/")
    ]  # fmt: skip


def total_cells(name: str, lines: list[Line]) -> list[str]:
    """The row of totals; nothing where there is no table."""
    sums = totals(lines)
    return [name, f"{sums['tables']} tables", str(sums["columns"]), "", *measured(sums, "/")] if sums["tables"] else []


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
    heads = ["table", "rows", "columns", "method", *MEASURES]
    rows = [heads, *map(cells, tables)]
    rows += filter(None, (total_cells(name, [t for t in tables if t["table"] in group]) for name, group in groups))
    widths = [max(len(row[i]) for row in rows if len(row) == len(heads)) for i in range(len(heads))]
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
