"""Write the generated parts of docs/real_tables.md from stored runs: `before`, `after`, `after mst` and `resample`.

python -m benchmarks.real_tables document
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.common import DOCS, Line, markdown, parser_of, replace_parts, stored
from benchmarks.real_tables.run import RESAMPLE, RESULTS
from benchmarks.real_tables.show import MEASURES, counted, measured, totals
from benchmarks.real_tables.tables import CONFIRMATION, DEVELOPMENT, TABLES

PAGE = DOCS / "real_tables.md"
LABELS = ("before", "after", "after mst")
GROUPS = {"development": DEVELOPMENT, "confirmation": CONFIRMATION, "all": TABLES}
MAIN = 1.0


def chosen(lines: list[Line], label: str, epsilon: float, part: str = "table") -> list[Line]:
    """The stored runs of one label and epsilon, in the order of the tables."""
    found = [line for line in lines if (line["label"], line["epsilon"], line["part"]) == (label, epsilon, part)]
    return sorted(found, key=lambda line: list(TABLES).index(line["table"]))


def list_of_tables(lines: list[Line]) -> list[str]:
    """Name, size and origin of every table."""
    sizes = {line["table"]: line for line in lines if line["part"] == "table" and not line["exit"]}
    rows = []
    for name, origin in TABLES.items():
        size = [f"{sizes[name]['rows'][0]:,}", sizes[name]["columns"]] if name in sizes else ["", ""]
        where = f"`{origin.item}`" + (f" of {origin.package}" if origin.package else "")
        rows.append([name, *size, where, "development" if name in DEVELOPMENT else "confirmation"])
    return markdown(("table", "rows", "columns", "origin", "used for"), rows)


def sums(lines: list[Line]) -> list[str]:
    """Totals over the tables of at least 1,000 rows, for every epsilon and group of tables."""
    rows = []
    for epsilon in sorted({line["epsilon"] for line in lines}):
        for label in (*LABELS, RESAMPLE):
            for group, members in GROUPS.items():
                total = totals([line for line in chosen(lines, label, epsilon) if line["table"] in members])
                if total["tables"]:
                    rows.append([f"{epsilon:g}", label, group, total["tables"], *measured(total, " of ")])
    return markdown(("epsilon", "code", "tables", "number", *MEASURES), rows)


def by_table(lines: list[Line]) -> list[str]:
    """All measures of every table at epsilon 1."""
    rows = []
    for line in sorted(
        (line for label in (*LABELS, RESAMPLE) for line in chosen(lines, label, MAIN)),
        key=lambda line: list(TABLES).index(line["table"]),
    ):
        cells = [f"failed with exit code {line['exit']}"] if line["exit"] else measured(counted(line), " of ")
        rows.append([line["table"], line["label"], line["method"], *cells])
    return markdown(("table", "code", "method", *MEASURES), rows)


def predictions(lines: list[Line]) -> list[str]:
    """AUC of classifiers trained on synthetic rows."""
    rows = []
    for epsilon in sorted({line["epsilon"] for line in lines}):
        for label in LABELS:
            for table in TABLES:
                runs = [line for line in chosen(lines, label, epsilon, "downstream") if line["table"] == table]
                found = [run["auc"] for run in runs if run.get("auc") is not None]
                if runs:
                    shown = f"{np.mean(found):.3f}" if found else "target is constant"
                    rows.append([table, f"{epsilon:g}", label, runs[0]["method"], shown, runs[0].get("auc_real", "")])
    return markdown(("table", "epsilon", "code", "method", "trained on synthetic rows", "trained on real rows"), rows)


def flights(lines: list[Line]) -> list[str]:
    """How well the rules of nycflights13 hold."""
    found = [line for label in LABELS for line in lines if line["label"] == label and "rules" in line]
    rows = [
        [f"{line['epsilon']:g}", line["label"], line["method"],
         f"{line['rules']['clock']:.1%}", f"{line['rules']['date']:.1%}", line["rules"]["distances_per_route"],
         f"{line['rules']['one_distance']:.1%}", line["rules"]["years"]]
        for line in found
    ]  # fmt: skip
    heads = ("`sched_dep_time` = 100 `hour` + `minute`", "date is that of `time_hour`", "distances per route")
    return markdown(("epsilon", "code", "method", *heads, "rows with the route's main distance", "years"), rows)


def main(arguments: Sequence[str]) -> None:
    parser_of(__name__, __doc__).parse_args(arguments)
    lines = stored(RESULTS)
    replace_parts(PAGE, {
        "tables": list_of_tables(lines), "totals": sums(lines), "by_table": by_table(lines),
        "downstream": predictions(lines), "flights": flights(lines),
    })  # fmt: skip
