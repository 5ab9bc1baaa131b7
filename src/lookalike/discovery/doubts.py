"""What remains in doubt after discovery: post-processing of its noisy answers, for messages and strict runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lookalike.discovery import ranges
from lookalike.discovery.forms import Histogram
from lookalike.discovery.grids import LEFT_OVER, SURE, Grid
from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.columns import Categorical, Column, Undeclared
from lookalike.schema.schema import Schema
from lookalike.schema.text_forms import FORMS
from lookalike.schema.unseen import BOUNDS, GUESSED, HIDDEN, NOTHING, SMALL, Unseen, option, range_option

SMALL_SIGNAL = 40.0
"""Rows of a table in standard deviations of a column's counts, if these had the whole budget, below which it is too
small for its width: a value that every tenth row has is then hardly seen."""
WIDER = {True: 5.0, False: 3.0}
"""A range of numbers (True) or times is doubtful if it is this many times as wide as the cells that stand out: tails of
numbers that are ten times as large as those that stand out are a guess."""
_VALUES = tuple(form.name for form in FORMS if form.family not in ("missing", "word"))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What discovery knows when it is done.

    Attributes:
        before, after: the schema as it was given, and with what was found.
        rows: noisy number of rows, and `rows_stddev` its noise.
        signal: number of rows by the noise of a column's counts, if the whole budget went there.
        histograms: noisy counts of the classes of each column's values.
        classes: the classes of numbers and times as cells; `grids`: the cells that hold rows, at the end.
        found: noisy counts of frequent values, with the noise `noise`.
        absent: noisy counts of missing markers.
    """

    before: Schema
    after: Schema
    rows: float
    rows_stddev: float
    signal: float
    histograms: Mapping[str, Histogram]
    classes: Mapping[str, Grid]
    grids: Mapping[str, Grid]
    found: Mapping[str, Mapping[str, float]]
    noise: Mapping[str, float]
    absent: Mapping[str, Mapping[str, float]]


def doubts(known: Evidence) -> tuple[Unseen, ...]:
    """Return what remains in doubt: at most one entry for each column, and one for the table."""
    found = [_small(known)] if known.histograms and known.signal < SMALL_SIGNAL else []
    for column in known.after.columns:
        if column.name in known.histograms:
            tests = (_nothing(known, column), _guessed(known, column), _hidden(known, column), _wide(known, column))
            found += [entry for entry in tests if entry is not None][:1]
    return tuple(found)


def _small(known: Evidence) -> Unseen:
    share = min(4.0 / max(known.signal, 1e-9), 1.0)
    return Unseen(
        SMALL,
        None,
        f"by a first, rough count about {max(known.rows, 0.0):,.0f} rows of {len(known.after.columns)} columns, and "
        f"noise of about {known.rows / max(known.signal, 1e-9):,.0f} rows on every count of a column",
        f"what fewer than {share:.0%} of the rows have in common is hidden",
        "Declare ranges and values that are public, leave columns out (--drop), or use a larger epsilon.",
    )


def _nothing(known: Evidence, column: Column) -> Unseen | None:
    """A doubt about a column of texts in which no form stands out from the noise."""
    name, histogram = column.name, known.histograms[column.name]
    if not isinstance(known.before[name], Undeclared) or histogram.masses(_VALUES, SURE):
        return None
    words = {"string": "text", "any": "text"}
    kind = words.get(column.field_type, column.field_type)
    made = f"taken as {kind} {_range(column)}" if isinstance(column, Binned) else f"taken as {kind}"
    return Unseen(NOTHING, name, "no form of values stands out", made, option("type", name, "number"))


def _guessed(known: Evidence, column: Column) -> Unseen | None:
    """A doubt about numbers or times of which no magnitude stands out from the noise."""
    grid = known.classes.get(column.name)
    if grid is None or not isinstance(column, Binned) or not _found_bounds(column):
        return None
    if ranges.stands_out(grid).any():
        return None
    return Unseen(GUESSED, column.name, "no magnitude stands out", f"made {_range(column)}", range_option(column))


def _hidden(known: Evidence, column: Column) -> Unseen | None:
    """A doubt about a column that was found constant, although some rows seem to hold other values."""
    if not _is_constant(column):
        return None
    left, noise = _left_over(known, column)
    if left < LEFT_OVER * noise:
        return None
    what = f"about {left:,.0f} rows hold none of the values that stand out"
    declare = range_option(column) if isinstance(column, Binned) else option("values", column.name, "A,B")
    return Unseen(HIDDEN, column.name, what, "the same in every row", declare)


def _wide(known: Evidence, column: Column) -> Unseen | None:
    """Numbers or times whose bounds lie far beyond the places at which the rows beyond stand out together."""
    grid = known.classes.get(column.name)
    if grid is None or not isinstance(column, Binned) or not _found_bounds(column):
        return None
    low, high = (float(column.internal(bound)) for bound in (column.minimum, column.maximum))
    core = [float(np.clip(column.numbers_at(number), low, high)) for number in _supported(_between(column, grid))]
    sized = not isinstance(column, Datetime)
    size = max(map(abs, core)) if sized else 0.0
    if high - low <= WIDER[sized] * max(core[1] - core[0], size, float(column.numbers_at(1))):
        return None
    seen = f"rows stand out from {column.external(core[0])} to {column.external(core[1])} only"
    return Unseen(BOUNDS, column.name, seen, f"made {_range(column)}", range_option(column))


def _between(column: Binned, grid: Grid) -> Grid:
    """The cells that were counted between the bounds of a column, without any that are modelled."""
    low, high = (column.internal(bound) for bound in (column.minimum, column.maximum))
    starts, ends = (np.asarray(column.numbers_at(numbers)) for numbers in (grid.edges, grid.ends))
    inside = np.flatnonzero((ends > low) & (starts <= high))
    return grid.part(int(inside[0]), int(inside[-1])) if inside.size else grid


def _supported(grid: Grid) -> tuple[int | float, int | float]:
    """The first and the last place of the grid beyond which, including it, rows stand out from the noise together."""
    ends: list[int | float] = []
    for way in (1, -1):
        sums, noise = np.cumsum(grid.counts[::way]), np.sqrt(np.cumsum(grid.variances[::way]))
        # All cells together have more noise than one of them: a spike may stand out where no sum does.
        enough = np.flatnonzero((sums > SURE * noise) | (grid.counts > SURE * grid.stddevs)[::way])
        cell = int(enough[0]) if enough.size else int(np.argmax(sums / noise))
        ends.append(grid.ends[cell].item() - grid.unit if way > 0 else grid.edges[::way][cell].item())
    return min(ends), max(ends)


def _left_over(known: Evidence, column: Column) -> tuple[float, float]:
    """Rows with a value that was not found, and the standard deviation of that estimate."""
    name = column.name
    markers, own = known.absent.get(name, {}), known.histograms[name].stddev
    present = known.rows - sum(markers.values())
    variance = known.rows_stddev**2 + len(markers) * own**2
    if isinstance(column, Binned):
        grid = known.grids[name]
        return present - float(grid.counts.sum()), math.sqrt(variance + float(grid.variances.sum()))
    counts = known.found.get(name, {})
    return present - sum(counts.values()), math.sqrt(variance + len(counts) * known.noise[name] ** 2)


def _is_constant(column: Column) -> bool:
    if isinstance(column, Binned):
        return _found_bounds(column) and column.minimum == column.maximum
    return isinstance(column, Categorical) and column.fact("values") == "measured" and column.written_codes == 1


def _found_bounds(column: Column) -> bool:
    return isinstance(column, Binned) and column.fact("bounds") == "measured"


def _range(column: Binned) -> str:
    return f"from {column.minimum} to {column.maximum}"
