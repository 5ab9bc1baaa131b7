"""What the public report shows of single columns: estimates, intervals, and how far the published rows agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from lookalike.models.intervals import Cells, ErrorBars
from lookalike.report.axes import number_axis
from lookalike.schema.binned import Binned
from lookalike.schema.columns import Column, Ordinal

MAX_BARS = 18
_MAX_BINS = 128
_MAX_LISTED = 200

Numbers = dict[str, Any]


def chart_of(column: Column, counts: np.ndarray) -> Numbers:
    """Return how a column is drawn: `density` on a true axis, `histogram` of an ordered list, or `bars`."""
    ordered = isinstance(column, Binned | Ordinal)
    if isinstance(column, Binned) and 1 < column.regular <= 4 * _MAX_BINS:
        lows, highs = column.bin_ends()
        single = column.size <= MAX_BARS and column.tick is not None and bool(np.all(lows == highs))
        axis = None if single else number_axis(column, counts)
        if axis is not None:
            return {"chart": "density", "axis": axis, "regular": column.regular}
    if ordered and MAX_BARS < column.size <= _MAX_BINS:
        return {"chart": "histogram"}
    return {"chart": "bars"}


def column_numbers(
    column: Column, counts: np.ndarray, bars: ErrorBars, total: float, level: float, made: np.ndarray | None
) -> Numbers:
    """Return the estimates of one column with intervals; of many unordered values, the rarer ones are added up.

    `made` are the counts of the published rows, scaled to `total`.
    """
    labels, cells = column.labels(), None
    found: Numbers = {"name": column.name, "kind": type(column).__name__.lower(), "values": len(labels)}
    if bars.measurements:
        cells = bars.marginal((column.name,), counts, total, level)
        found["basis"] = cells.basis
        found["typical_error"] = float(np.median((cells.high - cells.low) / 2))
        found["doubtful"] = int(np.count_nonzero(cells.low <= 0))
        if made is not None:
            found["agreeing"] = int(np.count_nonzero((made >= cells.low) & (made <= cells.high)))
        counts = cells.values
    found["all"] = _listed(labels, counts, cells)
    found["table"] = _table(labels, counts, cells)
    return found | chart_of(column, counts) | _drawn(column, labels, counts, cells, bars, total, level)


def _listed(labels: list[str], counts: np.ndarray, cells: Cells | None) -> Numbers:
    ends = {"low": None, "high": None} if cells is None else {"low": cells.low.tolist(), "high": cells.high.tolist()}
    return {"labels": labels, "counts": counts.tolist(), **ends}


def _table(labels: list[str], counts: np.ndarray, cells: Cells | None) -> list[Numbers]:
    """The values for the list under the chart: the most frequent ones, in the order of the schema."""
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MAX_LISTED])
    rows = []
    for i in kept.tolist():
        row: Numbers = {"label": labels[i], "count": float(counts[i])}
        if cells is not None:
            row |= {"low": float(cells.low[i]), "high": float(cells.high[i])}
        rows.append(row)
    return rows


def _drawn(
    column: Column,
    labels: list[str],
    counts: np.ndarray,
    cells: Cells | None,
    bars: ErrorBars,
    total: float,
    level: float,
) -> Numbers:
    """The bars to draw, with those of the rarest of many unordered values added up."""
    found = _listed(labels, counts, cells) | {"rest": False}
    if len(labels) <= MAX_BARS or chart_of(column, counts)["chart"] != "bars":
        return found
    kept = np.sort(np.argsort(-counts, kind="stable")[: MAX_BARS - 1])
    weights = np.ones(len(counts))
    weights[kept] = 0.0
    rest = float(counts @ weights)
    found = {"labels": [labels[i] for i in kept] + [f"{len(counts) - len(kept):,} others"], "rest": True}
    if cells is None:
        return found | {"counts": [*counts[kept].tolist(), rest], "low": None, "high": None}
    answer = bars.answer((column.name,), weights, rest, total, level)
    found["counts"] = [*counts[kept].tolist(), answer.value]
    found["low"] = [*cells.low[kept].tolist(), answer.low]
    return found | {"high": [*cells.high[kept].tolist(), answer.high]}
