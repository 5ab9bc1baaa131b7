"""Finds the kind, format, missing markers and magnitude of a column in noisy counts of classes of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lookalike.discovery.binning import LIKELY, SIGNIFICANT, SURE, Grid, visible
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.classes import AXES, LAST_YEAR, Form, ValueClasses
from lookalike.schema.columns import Categorical, Column, Undeclared, measured
from lookalike.schema.probes import COMMA_FORMS, MARKERS, MAX_PLACES, NUMBER_FORMS, TIME_FORMS
from lookalike.schema.storage import whole_range

MOSTLY = 0.9
"""Share of the values that must be written as numbers, or as times of one format, to make the column one."""

SOME = 4.5
"""Standard deviations by which a form must stand out among the few that a kind of column may have."""

_PART = 2.5
"""Standard deviations by which a further form must stand out in the cells of the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Noisy counts of the classes of one column's values."""

    probe: ValueClasses
    counts: np.ndarray
    stddev: float

    def of(self, form: str) -> np.ndarray:
        """Counts of a form's cells."""
        return self.counts[self.probe.starts[form]]

    def seen(self, form: str, limit: float = SURE) -> np.ndarray:
        """Which of the form's cells belong to blocks that stand out from the noise."""
        counts = self.of(form)
        return visible(counts, np.full(len(counts), self.stddev), limit)

    def mass(self, form: str, limit: float = SURE) -> float:
        """Rows of the form in cells that stand out; 0 where none does."""
        return float(self.of(form)[self.seen(form, limit)].sum())

    def masses(self, forms: Iterable[str], limit: float = SURE) -> dict[str, float]:
        """Rows of each form that stands out."""
        found = {form: self.mass(form, limit) for form in forms if form in self.probe.starts}
        return {form: rows for form, rows in found.items() if rows > 0}


def decided(column: Column, histogram: Histogram) -> tuple[Column, dict[str, float]]:
    """The column with its kind and missing markers, and the estimated rows of each marker."""
    declared = column.values or () if isinstance(column, Categorical) else ()
    names = {f"marker {marker}": marker for marker in MARKERS if marker not in declared} | {"null": ""}
    absent = {names[form]: rows for form, rows in histogram.masses(names, SIGNIFICANT).items()}
    if isinstance(column, Undeclared):
        column = _kind(column, histogram)
    if isinstance(column, Continuous) and "decimals" in column.open_facts:
        column = measured(column, "decimals", decimals=_float_decimals(histogram))
    if isinstance(column, Datetime) and "second" in histogram.probe.starts:
        found = [unit for unit in times.TICKS if histogram.mass(unit) > 0]
        column = replace(column, resolution=found[-1] if found else "microsecond")
    if "missing" in column.open_facts:
        column = measured(column, "missing", missing=tuple(absent))
    return column, {marker: rows for marker, rows in absent.items() if marker in column.missing}


def _float_decimals(histogram: Histogram) -> int | None:
    """Decimals that the numbers of a typed column need; None where some need more than the classes distinguish."""
    places = histogram.masses([f"places {k}" for k in range(MAX_PLACES + 1)] + ["float"], SOME)
    return None if "float" in places or not places else max(int(form.split()[-1]) for form in places)


def _kind(column: Undeclared, histogram: Histogram) -> Column:
    """A number, time or text, by how at least the share MOSTLY of the values is written."""
    shared: dict[str, Any] = {"outside": "absorb", "storage": column.storage, "provenance": {"missing": "open"}}
    with_bins: dict[str, Any] = {**shared, "provenance": {"missing": "open", "bins": "open"}}
    rows = _most_likely(histogram, [*NUMBER_FORMS, *COMMA_FORMS, *TIME_FORMS, "text"])
    total = sum(rows.values())
    commas = sum(rows.get(form, 0.0) for form in ("whole", *COMMA_FORMS))
    if any(form in rows for form in COMMA_FORMS) and commas >= MOSTLY * total:
        found = {*rows, *histogram.masses(COMMA_FORMS, SOME)}
        return _decimal_number(column.name, found, "comma", comma=True, **with_bins)
    numbers = sum(rows.get(form, 0.0) for form in NUMBER_FORMS)
    if numbers and numbers >= MOSTLY * total and "padded" not in rows:
        return _number(column.name, {*rows, *histogram.masses(NUMBER_FORMS, SOME)}, with_bins)
    format = _time_format(histogram, rows)
    if format and sum(rows.get(form, 0.0) for form in TIME_FORMS) >= MOSTLY * total:
        return Datetime(column.name, format=format, zone="UTC" if "z" in format else "", **with_bins)
    return Categorical(column.name, **shared)


def _most_likely(histogram: Histogram, names: list[str]) -> dict[str, float]:
    """Rows of each form that stands out clearly; where none does, of the one that stands out most."""
    for limit in (SURE, SOME, LIKELY, 3.0, 2.5, 2.0):
        found = histogram.masses(names, limit)
        if found:
            return found if limit == SURE else dict([max(found.items(), key=lambda item: item[1])])
    return {}


def _number(name: str, found: set[str], shared: dict[str, Any]) -> Column:
    """A whole or decimal number, with as many decimals as its texts show."""
    if "float" in found:
        return Continuous(name, **shared)
    if any(form.startswith("places") for form in found):
        return _decimal_number(name, found, "places", **shared)
    # Programs that keep whole numbers as floats, often because one is missing, write all of them with a zero.
    point_zero = "whole.0" in found and "whole" not in found
    return Continuous(name, decimals=0, least_decimals=1, **shared) if point_zero else Integer(name, **shared)


def _decimal_number(name: str, found: set[str], style: str, **shared: Any) -> Column:
    """A number with the largest of its numbers of decimals, and the smallest where texts leave out final zeros."""
    places = sorted(k for k in range(1, MAX_PLACES + 1) if f"{style} {k}" in found)
    if "whole.0" in found and style == "places":
        places.insert(0, 1)
    least = 0 if "whole" in found else places[0]
    return Continuous(name, decimals=places[-1], least_decimals=least if least < places[-1] else None, **shared)


def _time_format(histogram: Histogram, rows: dict[str, float]) -> str | None:
    """The most frequent format; dates that could be day-first or month-first follow those that could not."""
    found = {form: rows[form] for form in TIME_FORMS if form in rows}
    if not found:
        return None
    best = max(found, key=lambda form: found[form])
    if not best.startswith("either:"):
        return best
    clock = best.removeprefix("either:")
    options = (f"%d/%m/%Y{clock}", f"%m/%d/%Y{clock}")
    return max(options, key=lambda form: float(histogram.of(form).max()))


def class_grid(column: Binned, histogram: Histogram) -> Grid:
    """Cells of the number line, or years, with the rows that the classes of the column's forms show there."""
    if isinstance(column, Datetime):
        return _year_grid(column, histogram)
    forms = [form for form in histogram.probe.forms if form.name in (*NUMBER_FORMS, *COMMA_FORMS, "places 0")]
    forms = [form for form in forms if form.axis in ("whole", "decimal", "float")]
    found = [form for form in forms if histogram.mass(form.name, SOME)] or forms[:1]
    axes = {form.axis for form in found}
    axis = next(name for name in ("float", "decimal", "whole") if name in axes)
    counts, variances = _summed(histogram, found, axis)
    # Other forms of the same kind may hold a part of the rows, too few to stand out anywhere but in the same cells.
    core = visible(counts, np.sqrt(variances), LIKELY)
    more = [form for form in forms if form not in found and _has_rows(histogram, form, axis, core)]
    if more:
        extra, noise = _summed(histogram, more, axis, core)
        counts, variances = counts + extra, variances + noise
    return _on_ticks(column, AXES[axis], counts, variances)


def _summed(
    histogram: Histogram, found: list[Form], axis: str, core: np.ndarray | None = None
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


def _cells_on(form: Form, axis: str) -> np.ndarray:
    """The cell of an axis in which each cell of a form begins."""
    return np.maximum(np.searchsorted(AXES[axis], AXES[form.axis], side="right") - 1, 0)


def _has_rows(histogram: Histogram, form: Form, axis: str, core: np.ndarray) -> bool:
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
    return Grid.of(ticks[kept], min(high, int(bound)), counts[kept], variances[kept], 1)


def _year_grid(column: Datetime, histogram: Histogram) -> Grid:
    years = AXES["year"]
    forms = [form for form in histogram.probe.forms if form.axis == "year"]
    found = [form for form in forms if histogram.mass(form.name, SOME)] or forms[:1]
    counts = np.sum([histogram.of(form.name) for form in found], axis=0)
    tick = times.TICKS[column.resolution]
    since = np.append(years, LAST_YEAR).astype(np.int64) - 1970
    edges = since.astype("datetime64[Y]").astype("datetime64[us]").astype(np.int64) // tick
    return Grid.of(edges[:-1], int(edges[-1]) - 1, counts, np.full(len(counts), len(found) * histogram.stddev**2), 1)
