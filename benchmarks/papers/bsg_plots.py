"""Plots of the page on plausible deniability: grouped bars, boxes, lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac", "#d67195", "#2f4b3a")


def _svg(width: int, height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'{head} font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join([*parts, "</svg>\n"])
    )


def _text(x: float, y: float, words: str, anchor: str = "middle", turn: float = 0.0) -> str:
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'


def _axis(
    low: float, high: float, left: int, right: int, top: int, bottom: int, title: str
) -> tuple[Callable, list[str]]:
    """A scale from value to height, with grid lines and a title."""

    def height(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    step = 10 ** np.floor(np.log10((high - low) / 3))
    step *= 1 if (high - low) / step <= 6 else 2 if (high - low) / step <= 12 else 5
    parts = [_text(14, (top + bottom) / 2, title, turn=-90)]
    for tick in np.arange(np.ceil(low / step) * step, high * (1 + 1e-9), step):
        y = height(float(tick))
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(left - 5, y + 4, f"{round(tick, 9) + 0.0:g}", "end"))
    return height, parts


def _legend(names: Sequence[str], left: int, y: int) -> list[str]:
    parts, x = [], left
    for i, name in enumerate(names):
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>')
        parts.append(_text(x + 14, y, name, "start"))
        x += 28 + 7 * len(name)
    return parts


def bars(labels: Sequence[str], series: Mapping[str, Any], errors: Mapping[str, Any] | None, title: str) -> str:
    """Grouped bars, one group per label, with whiskers of `errors` to both sides."""
    width, left, top, bottom = 900, 55, 30, 240
    spread = {name: 0.0 if errors is None else np.asarray(errors[name]) for name in series}
    lowest = min(float(np.min(np.asarray(values) - spread[name])) for name, values in series.items())
    highest = max(float(np.max(np.asarray(values) + spread[name])) for name, values in series.items())
    height, parts = _axis(min(0.0, lowest), highest * 1.02, left, width - 10, top, bottom, title)
    group = (width - 10 - left) / len(labels)
    bar = 0.8 * group / len(series)
    for s, (name, values) in enumerate(series.items()):
        for i, value in enumerate(values):
            x, y, zero = left + i * group + 0.1 * group + s * bar, height(max(value, 0.0)), height(min(value, 0.0))
            colour = COLOURS[s % len(COLOURS)]
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{zero - y:.1f}" fill="{colour}"/>')
            if errors is not None:
                ends = f'y1="{height(value - errors[name][i]):.1f}" y2="{height(value + errors[name][i]):.1f}"'
                parts.append(f'<line x1="{x + bar / 2:.1f}" x2="{x + bar / 2:.1f}" {ends} stroke="#222"/>')
    parts += [_text(left + (i + 0.5) * group, bottom + 16, label) for i, label in enumerate(labels)]
    return _svg(width, bottom + 30, parts + _legend(list(series), left, 18))


def boxes(series: dict[str, np.ndarray], title: str) -> str:
    """A box with median and quartiles, and whiskers to the extremes, for each table."""
    width, left, top, bottom = 760, 55, 15, 240
    height, parts = _axis(
        0.0, max(float(values.max()) for values in series.values()), left, width - 10, top, bottom, title
    )
    group = (width - 10 - left) / len(series)
    for i, (name, values) in enumerate(series.items()):
        low, first, middle, third, high = (height(float(q)) for q in np.percentile(values, [0, 25, 50, 75, 100]))
        x, half = left + (i + 0.5) * group, 0.25 * group
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="#444"/>')
        box = f'x="{x - half:.1f}" y="{third:.1f}" width="{2 * half:.1f}" height="{first - third:.1f}"'
        parts.append(f'<rect {box} fill="{COLOURS[0]}" stroke="#444"/>')
        ends = f'x1="{x - half:.1f}" x2="{x + half:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"'
        parts.append(f'<line {ends} stroke="white" stroke-width="2"/>')
        parts.append(_text(x, bottom + 16, name))
    return _svg(width, bottom + 30, parts)


def lines_plot(
    xs: Sequence[float], series: Mapping[str, Sequence[Any]], across: str, title: str, highest: float = 100.0
) -> str:
    """One line per series."""
    width, left, top, bottom, right = 760, 55, 15, 260, 640
    height, parts = _axis(0.0, highest, left, right, top, bottom, title)
    place = {x: left + (x - min(xs)) / (max(xs) - min(xs)) * (right - left) for x in xs}
    for s, (name, values) in enumerate(series.items()):
        path = " ".join(f"{place[x]:.1f},{height(value):.1f}" for x, value in zip(xs, values, strict=True))
        colour = COLOURS[s % len(COLOURS)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{right + 12}" y="{top + 18 * s}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(right + 27, top + 9 + 18 * s, name, "start"))
    parts += [_text(place[x], bottom + 16, f"{x:g}") for x in xs]
    return _svg(width, bottom + 40, [*parts, _text((left + right) / 2, bottom + 34, across)])
