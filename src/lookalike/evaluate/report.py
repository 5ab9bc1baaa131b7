"""Pages for the data holder: real against synthetic rows, and comparisons of methods. Stamped NOT PRIVATE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from lookalike.evaluate.compare import Result, summary, table_rows
from lookalike.evaluate.evaluation import Evaluation
from lookalike.report.charts import lines
from lookalike.report.columns import MAX_BARS
from lookalike.report.page import render, standalone

_MAX_COLUMNS = 60
_MAX_MAP_COLUMNS = 32
MARK = "NOT-PRIVATE"
_OPTIONAL = (
    "ranges", "copies", "groups", "questions", "rules", "distinguishing", "classifiers", "private_reference", "svm",
    "attacks",
)  # fmt: skip


def internal_name(path: str | Path) -> Path:
    """Return the path with NOT-PRIVATE put into the name of the file.

    >>> internal_name("out/adult.html").name, internal_name("a.NOT-PRIVATE.html").name
    ('adult.NOT-PRIVATE.html', 'a.NOT-PRIVATE.html')
    """
    path = Path(path)
    return path if MARK in path.name else path.with_name(f"{path.stem}.{MARK}{path.suffix or '.html'}")


def internal_report(evaluation: Evaluation) -> str:
    """Return an evaluation as an HTML page."""
    numbers = evaluation.numbers
    association = numbers["association"]
    shown = slice(_MAX_MAP_COLUMNS)
    names = association["names"][shown]
    errors = np.array(association["distances"])[shown, shown]
    differences = np.abs(np.array(association["real"]) - np.array(association["synth"]))[shown, shown]
    return render(
        "internal.html",
        numbers={**dict.fromkeys(_OPTIONAL), **numbers},
        columns=_columns(numbers),
        left_out=max(0, len(numbers["histograms"]) - _MAX_COLUMNS),
        names=names,
        errors=errors.tolist(),
        largest_error=max(0.02, float(errors.max())),
        differences=differences.tolist(),
        largest_difference=max(0.02, float(differences.max())),
        svm=_svm(numbers.get("svm")),
    )


def _columns(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the counts of every column, the real ones scaled to the number of synthetic rows."""
    scale = numbers["rows"]["synth"] / numbers["rows"]["real"]
    found = []
    for name, histogram in list(numbers["histograms"].items())[:_MAX_COLUMNS]:
        labels = histogram["labels"]
        real, synth = np.array(histogram["real"]) * scale, np.array(histogram["synth"], dtype=float)
        distance = 0.5 * float(np.abs(real - synth).sum()) / max(1.0, float(synth.sum()))
        rest = histogram["chart"] == "bars" and len(labels) > MAX_BARS
        if rest:
            kept = np.sort(np.argsort(-real, kind="stable")[: MAX_BARS - 1])
            labels = [labels[i] for i in kept] + [f"{len(labels) - len(kept):,} others"]
            real, synth = (np.append(side[kept], side.sum() - side[kept].sum()) for side in (real, synth))
        bars = {"labels": labels, "real": real.tolist(), "synth": synth.tolist()}
        found.append({**histogram, "name": name, **bars, "distance": distance, "rest": rest})
    return found


def _svm(errors: dict[str, dict[str, float]] | None) -> list[dict[str, Any]]:
    if errors is None:
        return []
    return [{"column": name, "real": errors["real"][name], "synth": errors["synth"][name]} for name in errors["real"]]


MEASURES = {
    "tvd.1": "mean distance of 1-way marginals",
    "tvd.2": "mean distance of 2-way marginals",
    "tvd.3": "mean distance of 3-way marginals",
    "tvd.4": "mean distance of 4-way marginals",
    "tvd.5": "mean distance of 5-way marginals",
    "ranges.3": "mean squared error of 3-way range queries",
    "ranges.5": "mean squared error of 5-way range queries",
    "svm_error": "mean SVM error",
    "cpu_seconds": "CPU seconds",
    "peak_mb": "peak memory in MB",
}


def comparison_report(results: Iterable[Result]) -> str:
    """Return an HTML page with one figure for each table and measure."""
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
    """Return an SVG file with one line over epsilon for each method (and table, if there are several)."""
    chosen = [line for line in results if table is None or line["table"] == table]
    return standalone(_chart(chosen, measure, MEASURES.get(measure, measure)))


def _chart(results: Iterable[Result], measure: str, title: str) -> Markup:
    cells: Mapping[tuple[str, str, float], tuple[float, float, int]] = summary(results, measure)
    tables = {key[0] for key in cells}
    series: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for (table, method, epsilon), (mean, error, _) in cells.items():
        series[method if len(tables) < 2 else f"{method}, {table}"].append((epsilon, mean, error))
    return lines(series, x_title="epsilon", y_title=title, title=measure)
