"""What the public report shows of single columns: estimates, intervals, axes, and how far the published rows agree.

An axis of numbers or times says where bins lie, what part of them is drawn, and which places are labelled.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from lookalike.models.intervals import Cells, ErrorBars
from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Column, Ordinal
from lookalike.schema.times import TICKS

_TAIL = 0.01
"""Share of the rows at either end that need not be drawn."""
_MAX_STRETCH = 2.0
"""How many times as long as the part with almost all rows the whole range may be, before its ends are cut off."""
_TICKS = 4
_NO_WIDTH = 1e-9
"""Part of the axis below which a bin counts as one number."""


def number_axis(column: Binned, counts: np.ndarray) -> dict[str, Any] | None:
    """Return the axis of a column's bins as plain values; None where there is one point only.

    The axis has `edges` of the bins that are drawn, from bin `first` to bin `last`, a `unit` of width to which heights
    refer and its text, `ticks` with labels, and the share of the rows that are `beyond` either end.
    """
    low, high = (np.asarray(column.numbers_at(ends), dtype=float) for ends in column.bin_ends())
    tick = float(column.numbers_at(1)) if column.tick is not None else 0.0
    edges = np.append(low, high[-1] + tick)
    if edges[-1] <= edges[0] or (np.diff(edges) <= 0).any():
        return None
    shares = counts[: len(low)] / max(float(counts[: len(low)].sum()), 1e-12)
    first, last = _drawn_bins(edges, shares)
    shown = edges[first : last + 2]
    widths = np.diff(shown)
    # A single number, such as zero, may have a bin of its own next to no width.
    wide = widths[widths > _NO_WIDTH * (shown[-1] - shown[0])]
    if shown[-1] - shown[0] < sys.float_info.min / _NO_WIDTH:
        return None
    width = float(np.median(wide))
    if isinstance(column, Datetime):
        unit, text = _length_of_time(column, width)
    else:
        unit = _round_width(width, 1.0 if tick == 1 else 0.0)
        text = f"{unit:,.10g}"
    return {
        "edges": shown.tolist(),
        "first": first,
        "last": last,
        "unit": unit,
        "unit_text": text,
        "ticks": _ticks(column, float(shown[0]), float(shown[-1])),
        "beyond": [float(shares[:first].sum()), float(shares[last + 1 :].sum())],
    }


def _drawn_bins(edges: np.ndarray, shares: np.ndarray) -> tuple[int, int]:
    """First and last bin to draw: all, unless a small share of the rows would take most of the axis."""
    sums = np.cumsum(shares)
    first = int(np.searchsorted(sums, _TAIL, side="right"))
    last = min(int(np.searchsorted(sums, 1 - _TAIL)), len(shares) - 1)
    first = min(first, last)
    stretched = edges[-1] - edges[0] > _MAX_STRETCH * (edges[last + 1] - edges[first])
    return (first, last) if stretched else (0, len(shares) - 1)


def _round_width(width: float, least: float) -> float:
    """Return 1, 2 or 5 times a power of ten next to a width.

    >>> [_round_width(width, 0.0) for width in (0.7, 3.1, 14.0, 170.0)]
    [0.5, 2.0, 10.0, 200.0]
    """
    power = 10.0 ** math.floor(math.log10(width))
    nearest = min((power * factor for factor in (1, 2, 5, 10)), key=lambda w: abs(math.log(w / width)))
    return max(least, float(f"{nearest:.6g}"))


_TIMES = {
    "second": 1, "minute": 60, "10 minutes": 600, "hour": 3600, "day": 86_400, "7 days": 604_800, "30 days": 2_592_000,
    "365 days": 31_536_000, "10 years of 365 days": 315_360_000,
}  # fmt: skip
"""Lengths of time to which heights may refer, in seconds."""


def _length_of_time(column: Datetime, width: float) -> tuple[float, str]:
    """Return the length next to a width, both in ticks of the column, and its name."""
    ticks = {name: max(1.0, seconds * 1e6 / TICKS[column.resolution]) for name, seconds in _TIMES.items()}
    name = min(reversed(ticks), key=lambda one: abs(math.log(ticks[one] / width)))
    return ticks[name], name


def _ticks(column: Binned, low: float, high: float) -> list[tuple[float, str]]:
    """Return labelled places: round numbers, or evenly spaced times."""
    if isinstance(column, Datetime):
        places = np.unique(np.linspace(low, max(low, high - 1), _TICKS).round())
        texts = [column.external(int(place)) for place in places]
        # Times of day say nothing where the axis spans many days.
        whole = len({text[:10] for text in texts}) == len(texts)
        return [(float(place), text[:10] if whole else text) for place, text in zip(places, texts, strict=True)]
    step = _round_width((high - low) / _TICKS, 0.0)
    places = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return [(float(place), f"{float(f'{place:.10g}'):,.10g}") for place in places]


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
    found["unit"] = _unit(column)
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
    if column.derived:
        return found | {"chart": "computed", "unit": "", "agreeing": 1}
    return found | chart_of(column, counts) | _drawn(column, labels, counts, cells, bars, total, level)


def _unit(column: Column) -> str:
    """Return what a column's codes are called: bins where any of them holds several numbers, else values."""
    wide = isinstance(column, Binned) and (column.tick is None or bool(np.any(np.not_equal(*column.bin_ends()))))
    word = "bin" if wide else "value"
    return word if column.size == 1 else f"{word}s"


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
    """The bars to draw, with those of the rarest of many unordered values added up.

    The last `rest` of them stand for many values and have no bar, which would hide the others.
    """
    found = _listed(labels, counts, cells) | {"rest": 0}
    if len(labels) <= MAX_BARS or chart_of(column, counts)["chart"] != "bars":
        return found
    kept = np.sort(np.argsort(-counts, kind="stable")[: MAX_BARS - 1])
    unlisted = kept == (-1 if column.other_code is None else column.other_code)
    kept = np.append(kept[~unlisted], kept[unlisted])
    weights = np.ones(len(counts))
    weights[kept] = 0.0
    rest = float(counts @ weights)
    named = [labels[i] for i in kept] + [f"{len(counts) - len(kept):,} others"]
    found = {"labels": named, "rest": 1 + int(unlisted.sum())}
    if cells is None:
        return found | {"counts": [*counts[kept].tolist(), rest], "low": None, "high": None}
    answer = bars.answer((column.name,), weights, rest, total, level)
    found["counts"] = [*counts[kept].tolist(), answer.value]
    found["low"] = [*cells.low[kept].tolist(), answer.low]
    return found | {"high": [*cells.high[kept].tolist(), answer.high]}
