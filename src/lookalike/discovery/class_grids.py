"""Cells of the number line, or years and hours, with the rows that the classes of a column's forms show there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lookalike.discovery.forms import NUMBER_AXES, Histogram, alike
from lookalike.discovery.grids import LIKELY, SIGNIFICANT, Grid, visible
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.classes import AXES, LAST_YEAR, FormAxis
from lookalike.schema.storage import whole_range
from lookalike.schema.text_forms import NAMED, Form

LAST_CLOCK = 2359
"""Largest whole number of a column of clock times."""
_NO_TIMES = 0.01
"""Share of rows beyond the day up to which whole numbers can be clock times: noise, or a few odd ones."""
_PART = 2.5
"""Standard deviations by which a further form must stand out in the cells of the others."""


def class_grid(column: Binned, histogram: Histogram) -> Grid:
    """Cells of the number line, or years, with the rows that the classes of the column's forms show there."""
    if isinstance(column, Datetime):
        return _year_grid(column, histogram)
    axes = NUMBER_AXES
    forms = [form for form in histogram.probe.forms if form.axis in axes and _fits(column, form.name)]
    found = _standing(histogram, forms)
    axis = next(name for name in axes if any(form.axis == name for form in found))
    counts, variances = _summed(histogram, found, axis)
    # Other forms of the same kind may hold a part of the rows, too few to stand out anywhere but in the same cells.
    core = visible(counts, np.sqrt(variances), LIKELY)
    more = [form for form in forms if form not in found and _has_rows(histogram, form, axis, core)]
    if more:
        extra, noise = _summed(histogram, more, axis, core)
        counts, variances = counts + extra, variances + noise
    # Elsewhere any form with fewer decimals may hold rows: large amounts are often round.
    rest = [form for form in forms if form not in found and _may_hold_rows(form, found)]
    if rest:
        extra, noise = _summed(histogram, rest, axis, ~core)
        counts, variances = counts + extra, variances + noise
    return _on_ticks(column, AXES[axis], counts, variances)


def _standing(histogram: Histogram, forms: list[FormAxis]) -> list[FormAxis]:
    """The forms that stand out clearly; where none does, the common one that does most.

    Over a hundred forms have thousands of cells, so one of them stands out a little by chance, and far away.
    """
    found = histogram.most_likely(form.name for form in forms)
    found = found or {histogram.default: 1.0}
    return [form for form in forms if form.name in found] or forms[:1]


def _fits(column: Binned, name: str) -> bool:
    """Whether values of a form can be values of a number column: the same family, no finer decimals."""
    form = NAMED.get(name)
    if form is None or form.name in ("whole", "whole.0", "float"):
        return True
    dressed = bool(getattr(column, "prefix", "") or getattr(column, "suffix", ""))
    return (form.family != "plain") == dressed and form.comma in (False, getattr(column, "comma", False))


def _summed(
    histogram: Histogram, found: list[FormAxis], axis: str, core: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Counts of several forms on one axis, with their variances; only in the core cells if there are some given."""
    edges, variance = AXES[axis], histogram.stddev**2
    counts, variances = np.zeros(len(edges)), np.zeros(len(edges))
    for form in found:
        own, cells = histogram.of(form.name), _cells_on(form, axis)
        # Cells of a finer axis are added up, so only those with rows: the others would add their noise.
        same = form.axis == axis
        take = (
            core[cells]
            if core is not None
            else np.ones(len(own), bool)
            if same
            else _between(histogram.seen(form.name, LIKELY))
        )
        np.add.at(counts, cells[take], own[take])
        np.add.at(variances, cells[take], variance)
    return counts, variances if core is not None else np.maximum(variances, variance)


def _cells_on(form: FormAxis, axis: str) -> np.ndarray:
    """The cell of an axis in which each cell of a form begins."""
    return np.maximum(np.searchsorted(AXES[axis], AXES[form.axis], side="right") - 1, 0)


def _may_hold_rows(form: FormAxis, found: list[FormAxis]) -> bool:
    """Whether a form writes the same kind of numbers as one that stands out, with fewer decimals."""
    if form.name not in NAMED or form.axis == "power":
        return False
    own, others = NAMED[form.name], [NAMED[other.name] for other in found if other.name in NAMED]
    return any(alike(own, other) and _decimals(own) < _decimals(other) for other in others)


def _decimals(form: Form) -> float:
    return np.inf if form.decimals is None else form.decimals


def _has_rows(histogram: Histogram, form: FormAxis, axis: str, core: np.ndarray) -> bool:
    """Whether a form has rows in the cells where others have most of theirs."""
    own = histogram.of(form.name)[core[_cells_on(form, axis)]]
    return bool(own.size and own.sum() > _PART * histogram.stddev * np.sqrt(own.size))


def _between(seen: np.ndarray) -> np.ndarray:
    """The cells from the first to the last that is seen."""
    return np.logical_or.accumulate(seen) & np.logical_or.accumulate(seen[::-1])[::-1]


def _on_ticks(column: Binned, edges: np.ndarray, counts: np.ndarray, variances: np.ndarray) -> Grid:
    """The cells with edges at ticks of the column, without those that hold no tick."""
    if column.tick is None:
        return Grid.of(edges, float(edges[-1]) * 10, counts, variances, 0)
    scale = float(1 / column.tick)
    bound = 2.0**52 if isinstance(column, Continuous) else 2.0**61
    ticks = np.ceil((edges * scale).clip(-bound, bound).round(6)).astype(np.int64)
    ticks = np.where((edges > 0) & (ticks < 1), 1, ticks)
    low, high = whole_range(column) if isinstance(column, Integer) else (-(2**52), 2**52)
    ticks = ticks.clip(max(low, -int(bound)), min(high, int(bound)))
    # Of several cells that begin with the same tick, the last one holds it, and the others hold nothing.
    kept = np.append(ticks[1:] != ticks[:-1], True)
    grid = Grid.of(ticks[kept], min(high, int(bound)), counts[kept], variances[kept], 1)
    return replace(grid, tick=float(column.tick))


def _year_grid(column: Datetime, histogram: Histogram) -> Grid:
    years = AXES["year"]
    if column.clock:
        return _hour_grid(column, histogram)
    found = _standing(histogram, [form for form in histogram.probe.forms if form.axis == "year"])
    counts = np.sum([histogram.of(form.name) for form in found], axis=0)
    tick = times.TICKS[column.resolution]
    since = np.append(years, LAST_YEAR).astype(np.int64) - 1970
    edges = since.astype("datetime64[Y]").astype("datetime64[us]").astype(np.int64) // tick
    noise = np.full(len(counts), len(found) * histogram.stddev**2)
    return replace(Grid.of(edges[:-1], int(edges[-1]) - 1, counts, noise, 1), has_zero=False)


def _hour_grid(column: Datetime, histogram: Histogram) -> Grid:
    """The hours of a day with the rows of clock times."""
    forms = [form for form in histogram.probe.forms if form.axis == "hour"]
    found = [form for form in forms if histogram.mass(form.name, LIKELY)] or forms[:1]
    counts = np.sum([histogram.of(form.name) for form in found], axis=0)
    ticks = times.TICKS["hour"] // times.TICKS[column.resolution]
    noise = np.full(len(counts), len(found) * histogram.stddev**2)
    return Grid.of(np.arange(24, dtype=np.int64) * ticks, 24 * ticks - 1, counts, noise, 1)


def clock_grid(column: Binned, grid: Grid) -> Grid | None:
    """The cells of a day if whole numbers are clock times, hour * 100 + minute: no rows with minutes from 60 to 99."""
    if not isinstance(column, Integer) or not grid.unit or not 0 <= grid.edges[0] <= LAST_CLOCK:
        return None
    late = grid.edges > LAST_CLOCK
    if grid.counts[late].sum() > _NO_TIMES * grid.counts.sum() + LIKELY * np.sqrt(grid.variances[late].sum()):
        return None
    # The last cell may reach further than the rows that it holds.
    day = grid.part(0, int(np.sum(~late)) - 1)
    day = replace(day, high=min(day.high, LAST_CLOCK))
    low, high = day.edges % 100, (day.ends - 1) % 100
    invalid = (low >= 60) & (high >= low) & (day.widths <= 40)
    share = float(day.widths[invalid].sum() / day.widths.sum())
    rows, noise = float(day.counts[invalid].sum()), float(np.sqrt(day.variances[invalid].sum()))
    expected = share * float(day.counts.sum())
    gaps = share > 0.2 and expected > 3 * SIGNIFICANT * noise and rows < 0.03 * expected + LIKELY * noise
    # What noise shows in cells of no clock time must not become a range that holds none.
    return replace(day, counts=np.where(invalid, 0.0, day.counts)) if gaps else None
