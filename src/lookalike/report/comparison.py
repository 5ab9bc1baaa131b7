"""Tables and plots of a comparison of methods. NOT PRIVATE: its numbers compare with real rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from lookalike.evaluate.compare import Result, summary, table_rows
from lookalike.report.charts import lines
from lookalike.report.page import render, style_sheet

MEASURES = {
    "tvd.1": "mean distance of 1-way marginals",
    "tvd.2": "mean distance of 2-way marginals",
    "tvd.3": "mean distance of 3-way marginals",
    "tvd.5": "mean distance of 5-way marginals",
    "ranges.3": "mean squared error of 3-way range queries",
    "svm_error": "mean SVM error",
    "cpu_seconds": "processor seconds",
    "peak_mb": "peak memory in MB",
}


def comparison_report(results: Iterable[Result]) -> str:
    """One page with a table and a plot per table and measure."""
    results = list(results)
    sections = []
    for table in dict.fromkeys(str(line["table"]) for line in results):
        own = [line for line in results if line["table"] == table]
        parts = []
        for measure, title in MEASURES.items():
            rows: list[dict[str, Any]] = table_rows(own, measure)
            if rows:
                epsilons = [name for name in rows[0] if name not in ("table", "method")]
                parts.append({"title": title, "rows": rows, "epsilons": epsilons, "chart": _chart(own, measure, "")})
        failures = [line for line in own if "error" in line]
        sections.append({"table": table, "parts": parts, "failures": failures, "runs": len(own) - len(failures)})
    return render("comparison.html", sections=sections)


def comparison_chart(results: Iterable[Result], measure: str, table: str | None = None) -> str:
    """A standalone SVG file: one line per method (and table, where there are several), over epsilon."""
    chosen = [line for line in results if table is None or line["table"] == table]
    chart = _chart(chosen, measure, MEASURES.get(measure, measure))
    style = Markup("<style>") + style_sheet() + Markup("svg { background: var(--page); }</style>")
    at = chart.index(">") + 1
    return str(chart[:at] + style + chart[at:])


def _chart(results: Iterable[Result], measure: str, title: str) -> Markup:
    cells: Mapping[tuple[str, str, float], tuple[float, float, int]] = summary(results, measure)
    tables = {key[0] for key in cells}
    series: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for (table, method, epsilon), (mean, error, _) in cells.items():
        series[method if len(tables) < 2 else f"{method}, {table}"].append((epsilon, mean, error))
    return lines(series, x_title="epsilon", y_title=title, title=measure)
