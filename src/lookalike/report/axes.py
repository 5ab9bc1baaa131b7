"""Axes of numbers and times: where bins lie, what part is drawn, and which places are labelled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lookalike.schema.binned import Binned, Datetime

_TAIL = 0.01
"""Share of the rows at either end that need not be drawn."""
_MAX_STRETCH = 2.0
"""How many times as long as the part with almost all rows the whole range may be, before its ends are cut off."""
_TICKS = 4


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
    first, last = _drawn(edges, shares)
    shown = edges[first : last + 2]
    unit = _round_width(float(np.median(np.diff(shown))), 1.0 if tick == 1 else 0.0)
    return {
        "edges": shown.tolist(),
        "first": first,
        "last": last,
        "unit": unit,
        "unit_text": _unit_text(column, unit),
        "ticks": _ticks(column, float(shown[0]), float(shown[-1])),
        "beyond": [float(shares[:first].sum()), float(shares[last + 1 :].sum())],
    }


def _drawn(edges: np.ndarray, shares: np.ndarray) -> tuple[int, int]:
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


def _unit_text(column: Binned, unit: float) -> str:
    if not isinstance(column, Datetime):
        return f"{unit:,.10g}"
    return column.resolution if unit == 1 else f"{unit:,.10g} {column.resolution}s"


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
