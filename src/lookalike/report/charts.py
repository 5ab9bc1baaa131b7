"""Charts as SVG, without script: bars, densities, heat maps and lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

WIDTH = 320
_ROW = 20
_VALUE = 46
_LETTER = 6.6
_HISTOGRAM_HEIGHT = 150
_CELL = 24
_SPIKE = 2.0
"""Width of a bar, of 320, below which its height does not count for the scale."""


def short(text: str, limit: int = 16) -> str:
    """Return a label that fits beside a chart.

    >>> short("Married-civ-spouse", 12), short("2022-01-01 to 2022-02-28")
    ('Married-civ…', '2022-01-01 …')
    """
    if len(text) <= limit:
        return text
    start = text.split(" to ")[0]
    return f"{start} …" if len(start) < min(len(text), limit - 1) else text[: limit - 1] + "…"


def amount(value: float) -> str:
    """Return a count in few characters: 950, 12.3k, 4.56M.

    >>> [amount(x) for x in (0, 949.6, 12_345, 4_560_000)]
    ['0', '950', '12.3k', '4.56M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.0f}"


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    *,
    beside: Sequence[float] | None = None,
    rest: int = 0,
    reach: float = 0.0,
    title: str = "",
) -> Markup:
    """Return horizontal bars, one per label, with interval whiskers or with a thin second bar `beside` each.

    The last `rest` labels stand for many values: they have a number but no bar, which would hide the others. The
    scale goes to `reach` at least, so that one lone row is not a long bar.
    """
    left = 12 + _LETTER * max((len(short(label)) for label in labels), default=0)
    drawn = len(labels) - rest
    sides = [side[:drawn] for side in (values, high, beside) if side is not None]
    scale = (WIDTH - left - _VALUE) / _largest(*sides, [reach])
    parts = []
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = i * _ROW
        hint = f"{label}: {value:,.0f}"
        if low is not None and high is not None:
            hint += f" (between {low[i]:,.0f} and {high[i]:,.0f})"
        if beside is not None:
            hint += f", real {beside[i]:,.0f}"
        parts.append(Markup("<g><title>{}</title>").format(hint))
        parts.append(_text(left - 6, y + 14, short(label), "value" if i >= drawn else "label", anchor="end"))
        if i >= drawn:
            parts.append(_text(left, y + 14, _rest_text(value, None if beside is None else beside[i]), "value"))
            parts.append(Markup("</g>"))
            continue
        thick = _ROW - 6 if beside is None else _ROW - 10
        parts.append(_rect(left, y + 3, value * scale, thick, "bar"))
        if beside is not None:
            parts.append(_rect(left, y + 3 + thick, beside[i] * scale, 4, "bar2"))
        if low is not None and high is not None:
            parts.append(_whisker(left + low[i] * scale, left + high[i] * scale, y + _ROW / 2, across=True))
        parts.append(_text(WIDTH, y + 14, amount(value), "value", anchor="end"))
        parts.append(Markup("</g>"))
    return _svg(WIDTH, max(1, len(labels)) * _ROW, parts, title)


def _rest_text(value: float, beside: float | None) -> str:
    return f"{amount(value)} together" + ("" if beside is None else f", real {amount(beside)}")


def histogram(
    labels: Sequence[str],
    values: Sequence[float],
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    *,
    beside: Sequence[float] | None = None,
    title: str = "",
) -> Markup:
    """Return vertical bars in the order of the labels, of which the first, middle and last are shown."""
    largest = _largest(values, high, beside)
    height, count = _HISTOGRAM_HEIGHT, max(1, len(labels))
    step = WIDTH / count
    parts = [_text(0, 10, amount(largest), "value"), _line(0, height, WIDTH, height, "axis")]

    def up(value: float) -> float:
        return height - value / largest * (height - 16)

    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        x = i * step
        hint = f"{label}: {value:,.0f}" + (f", real {beside[i]:,.0f}" if beside is not None else "")
        parts.append(Markup("<g><title>{}</title>").format(hint))
        parts.append(_rect(x + step * 0.08, up(value), step * 0.84, height - up(value), "bar"))
        if beside is not None:
            parts.append(_line(x, up(beside[i]), x + step, up(beside[i]), "line2"))
        if low is not None and high is not None:
            parts.append(_whisker(up(high[i]), up(low[i]), x + step / 2, across=False, cap=min(3.0, step / 4)))
        parts.append(Markup("</g>"))
    for i, anchor in {0: "start", count // 2: "middle", count - 1: "end"}.items():
        if labels and i < len(labels):
            at = {"start": 0.0, "middle": (i + 0.5) * step, "end": float(WIDTH)}[anchor]
            parts.append(_text(at, height + 14, short(labels[i], 14), "label", anchor=anchor))
    return _svg(WIDTH, height + 18, parts, title)


def density(
    axis: Mapping[str, Any],
    labels: Sequence[str],
    values: Sequence[float],
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    *,
    beside: Sequence[float] | None = None,
    title: str = "",
) -> Markup:
    """Return a histogram of numbers on their true axis: bars as wide as their bins, of an area in proportion to counts.

    `axis` comes from `columns.number_axis`; of the bins only those that it draws are shown.
    """
    edges, first, height = axis["edges"], axis["first"], _HISTOGRAM_HEIGHT
    start, span = edges[0], edges[-1] - edges[0]
    bins: list[tuple[int, int, float]] = [
        (i, first + i, axis["unit"] / max(edges[i + 1] - edges[i], 1e-12 * span)) for i in range(len(edges) - 1)
    ]
    sides = [side for side in (values, high, beside) if side is not None]
    # A bin of a single value is a spike without width: it would flatten all others, so it may leave the scale.
    wide = [one for one in bins if (edges[one[0] + 1] - edges[one[0]]) / span * WIDTH >= _SPIKE] or bins
    largest = max([1e-12, *(side[place] * factor for _, place, factor in wide for side in sides)])
    spikes = [labels[place] for _, place, factor in bins if values[place] * factor > 1.0001 * largest]

    def across(x: float) -> float:
        return (x - start) / span * WIDTH

    def up(value: float) -> float:
        return height - min(1.0, value / largest) * (height - 18)

    parts = [_text(0, 10, f"{amount(largest)} rows per {axis['unit_text']}", "value")]
    if spikes:
        which = short(spikes[0]) if len(spikes) == 1 else f"{len(spikes)} narrow bins"
        parts.append(_text(WIDTH, 10, f"off the scale: {which}", "value", anchor="end"))
    for i, place, factor in bins:
        left, right = across(edges[i]), across(edges[i + 1])
        hint = f"{labels[place]}: {values[place]:,.0f}"
        if low is not None and high is not None:
            hint += f" (between {low[place]:,.0f} and {high[place]:,.0f})"
        hint += f", real {beside[place]:,.0f}" if beside is not None else ""
        top = up(values[place] * factor)
        gap = min(0.5, (right - left) / 8)
        parts.append(Markup("<g><title>{}</title>").format(hint))
        parts.append(_rect(left + gap, top, max(1.5, right - left - 2 * gap), height - top, "bar"))
        if beside is not None:
            parts.append(_line(left, up(beside[place] * factor), right, up(beside[place] * factor), "line2"))
        if low is not None and high is not None:
            ends = up(high[place] * factor), up(low[place] * factor)
            parts.append(_whisker(*ends, (left + right) / 2, across=False, cap=min(3.0, (right - left) / 4)))
        parts.append(Markup("</g>"))
    parts.append(_line(0, height, WIDTH, height, "axis"))
    return _svg(WIDTH, height + 18, [*parts, *_axis_labels(axis["ticks"], across, height)], title)


def _axis_labels(ticks: Sequence[tuple[float, str]], across: Callable[[float], float], height: float) -> list[Markup]:
    """Return marks and labels under an axis, kept inside the chart; labels that would touch are left out."""
    parts: list[Markup] = []
    free = -math.inf
    for place, text in ticks:
        x, half = across(place), len(text) * _LETTER / 2
        middle = min(max(x, half), WIDTH - half)
        parts.append(_line(x, height, x, height + 3, "axis"))
        if middle - half > free:
            parts.append(_text(middle, height + 15, text, "label", anchor="middle"))
            free = middle + half + 6
    return parts


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    largest: float = 1.0,
    marks: Sequence[Sequence[bool]] | None = None,
    diagonal: bool = True,
    title: str = "",
) -> Markup:
    """Return a matrix of shaded cells with a number in each and a dot in the cells with `marks`.

    Cells of the value `largest` or above are darkest. Without `diagonal` the diagonal is empty.
    """
    left = 12 + max((len(short(name)) for name in rows), default=0) * _LETTER
    top = 16 + max((len(short(name)) for name in columns), default=0) * 5.2
    parts = []
    for j, name in enumerate(columns):
        x = left + j * _CELL + _CELL / 2 + 4
        turn = Markup(' transform="rotate(-50 {} {})"').format(f"{x:.1f}", f"{top - 6:.1f}")
        parts.append(_text(x, top - 6, short(name), "label", extra=turn))
    for i, name in enumerate(rows):
        parts.append(_text(left - 6, top + i * _CELL + 16, short(name), "label", anchor="end"))
        for j, other in enumerate(columns):
            if not diagonal and i == j:
                continue
            value = values[i][j]
            x, y, shade = left + j * _CELL, top + i * _CELL, min(1.0, abs(value) / max(largest, 1e-12))
            parts.append(Markup("<g><title>{}</title>").format(f"{name}, {other}: {value:.3f}"))
            parts.append(_rect(x + 1, y + 1, _CELL - 2, _CELL - 2, "heat", f' fill-opacity="{shade:.2f}"'))
            kind = "on-heat" if shade > 0.55 else "cell"
            parts.append(_text(x + _CELL / 2, y + 15, _two_digits(value), kind, anchor="middle"))
            if marks is not None and marks[i][j]:
                place = f'cx="{x + _CELL - 4.5:.1f}" cy="{y + 4.5:.1f}" r="2"'
                parts.append(Markup(f'<circle {place} class="{kind}-dot"/>'))
            parts.append(Markup("</g>"))
    width = left + len(columns) * _CELL + top * 0.75
    return _svg(width, top + len(rows) * _CELL + 4, parts, title, natural=True)


def lines(
    series: Mapping[str, Iterable[tuple[float, float, float]]], *, x_title: str, y_title: str, title: str = ""
) -> Markup:
    """Return lines over a logarithmic x axis; a point is (x, y, half length of its whisker or nan)."""
    points = {name: sorted(values) for name, values in series.items()}
    xs = sorted({x for values in points.values() for x, _, _ in values})
    highest = max((y + (0 if math.isnan(e) else e) for v in points.values() for _, y, e in v), default=1.0) or 1.0
    step = _round_step(highest / 4)
    largest = step * math.ceil(highest / step - 1e-9)
    ticks = [(step * tick, _tick(step * tick, largest)) for tick in range(round(largest / step) + 1)]
    left = max(48.0, 12 + _LETTER * max(len(text) for _, text in ticks))
    top, width, height = 28.0 if y_title else 12.0, 320.0, 190.0
    span = math.log(xs[-1] / xs[0]) if len(xs) > 1 else 1.0

    def across(x: float) -> float:
        return left + (math.log(x / xs[0]) / span if len(xs) > 1 else 0.5) * width

    def up(y: float) -> float:
        return top + height - y / largest * height

    parts = [_line(left, top + height, left + width, top + height, "axis")]
    for y, text in ticks:
        parts.append(_line(left, up(y), left + width, up(y), "grid"))
        parts.append(_text(left - 6, up(y) + 4, text, "value", "end"))
    free = -math.inf
    for x in xs:
        half = len(f"{x:g}") * _LETTER / 2
        if across(x) - half > free:
            parts.append(_text(across(x), top + height + 15, f"{x:g}", "value", "middle"))
            free = across(x) + half + 4
    parts += [_text(left + width / 2, top + height + 32, x_title, "label", "middle"), _text(0, 12, y_title, "label")]
    for number, (name, values) in enumerate(points.items()):
        kind = f"series s{number % 8}"
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _ in values)
        parts.append(Markup('<polyline points="{}" class="{}"/>').format(path, kind))
        for x, y, error in values:
            dot = '<circle cx="{}" cy="{}" r="3" class="{}"><title>{}</title></circle>'
            hint = f"{name}, {x:g}: {y:.4f}" + ("" if math.isnan(error) else f" ± {error:.4f}")
            parts.append(Markup(dot).format(f"{across(x):.1f}", f"{up(y):.1f}", f"dot {kind}", hint))
            if not math.isnan(error):
                parts.append(_whisker(up(y + error), up(max(0.0, y - error)), across(x), across=False))
    below, legend = _legend(list(points), left + width)
    parts += [Markup('<g transform="translate(0 {})">').format(f"{top + height + 48:.0f}"), *legend, Markup("</g>")]
    return _svg(left + width + 8, top + height + 48 + below, parts, title, natural=True)


def _tick(value: float, largest: float) -> str:
    """Return a number beside an axis that goes to `largest`, without an exponent where it stays short."""
    if largest >= 1e4:
        return amount(value)
    return f"{value:.3g}" if value == 0 or largest < 1e-5 else f"{value:.8f}".rstrip("0").rstrip(".")


def _legend(names: Sequence[str], width: float) -> tuple[float, list[Markup]]:
    """Return the height of a legend and its parts: as many names beside each other as fit."""
    limit = int((width - 34) / _LETTER)
    each = 34 + _LETTER * max((len(short(name, limit)) for name in names), default=0)
    beside = max(1, int(width // each))
    parts: list[Markup] = []
    for number, name in enumerate(names):
        x, y = number % beside * each, number // beside * 16 + 6
        parts.append(_line(x, y, x + 18, y, f"series s{number % 8}"))
        parts.append(_text(x + 24, y + 4, short(name, limit), "label"))
    return 16.0 * math.ceil(len(names) / beside) + 4, parts


def _round_step(width: float) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is no smaller than a width.

    >>> [_round_step(width) for width in (0.015, 0.03, 7.0)]
    [0.02, 0.05, 10.0]
    """
    power = 10.0 ** math.floor(math.log10(width))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= width * (1 - 1e-9))


def _largest(*given: Sequence[float] | None) -> float:
    """Return the largest of all numbers, at least 1e-12: a scale to divide by."""
    return max([1e-12, *(value for values in given if values is not None for value in values)])


def _svg(width: float, height: float, parts: Sequence[Markup], title: str, *, natural: bool = False) -> Markup:
    # With its natural width a wide chart scrolls in its box; otherwise it shrinks, and its text too.
    size = f' width="{width:.0f}" height="{height:.0f}"' if natural else ""
    head = f'<svg viewBox="0 0 {width:.0f} {height:.0f}"{size} role="img" xmlns="http://www.w3.org/2000/svg"'
    name = Markup(' aria-label="{}">').format(title)
    return Markup(head) + name + Markup("").join(parts) + Markup("</svg>")


def _rect(x: float, y: float, width: float, height: float, kind: str, extra: str = "") -> Markup:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
    return Markup(f'<rect {box} class="{kind}"{extra}/>')


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start", extra: str = "") -> Markup:
    place = Markup(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{extra}>')
    return place + escape(text) + Markup("</text>")


def _whisker(start: float, end: float, at: float, *, across: bool, cap: float = 3.0) -> Markup:
    size = f"{2 * cap:.1f}"
    if across:
        caps = [f"M{x:.1f} {at - cap:.1f}v{size}" for x in (start, end)]
        path = f"{caps[0]}M{start:.1f} {at:.1f}H{end:.1f}{caps[1]}"
    else:
        caps = [f"M{at - cap:.1f} {y:.1f}h{size}" for y in (start, end)]
        path = f"{caps[0]}M{at:.1f} {start:.1f}V{end:.1f}{caps[1]}"
    return Markup(f'<path d="{path}" class="whisker"/>')


def _two_digits(value: float) -> str:
    """Return a share as whole percent, such as `7` or `42`, and nothing if it rounds to zero."""
    percent = round(100 * abs(value))
    return "" if percent == 0 else str(percent)
