"""What the noisy answers of discovery make of columns: lists of values, bounds, bins, shapes, and known counts.

All of it is post-processing of what `search.py` asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lookalike.discovery import binning, class_grids
from lookalike.discovery.forms import Histogram
from lookalike.discovery.grids import LEFT_OVER, Grid, Rows
from lookalike.measurements import NoisyMarginal
from lookalike.schema.binned import Binned
from lookalike.schema.codec import holds_other
from lookalike.schema.columns import DEFAULT_BINS, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.storage import any_value, holds_identifiers

_MIN_BIN_ROWS = 5.0
"""Smallest number of rows of a bin, in standard deviations of noise, since its own count will be noisy too."""
_MIN_BINS, _FULL_BINS_SIGNAL = 4, 3000.0
"""Fewest bins, and the signal from which a column gets more than `max_bins`."""
_FEW_MORE = 1.5
"""A column of at most so many times as many values as bins keeps them apart, such as the days of a month."""
_IDENTIFIER_SHARE = 0.5
"""A column of texts in which fewer than this share of rows hold frequent values is identifiers or free text."""
_HIDDEN_VALUES = 25.0
"""Rows that five values just below the threshold hold, in standard deviations of noise."""
_LEFT_BESIDE_ONE = 1.3
"""Standard deviations by which rows must be left over beside a single text to make others: a column that varies should
not become constant."""
_REUSED_VARIANCE = 1.5
"""Factor on the variance of counts that are used again: which codes there are was chosen by the same noise."""


@dataclass(slots=True)
class Answers:
    """The answers that discovery has received so far. All of them are noisy.

    Attributes:
        rows, rows_variance: estimated number of rows, and the variance of that.
        signal: number of rows by the noise of a column's counts, if the whole budget went there.
        histograms: counts of the classes of each column's values.
        absent: estimated rows of each column's missing markers.
        found, value_noise: counts of each column's frequent values, and their standard deviations.
        noise: standard deviation of what was asked of a column last.
        classes: counts of all classes of numbers or times of a column, as cells.
        grids: counts of the cells of a column that hold rows.
    """

    rows: float = 1.0
    rows_variance: float = 0.0
    signal: float = 0.0
    histograms: dict[str, Histogram] = field(default_factory=dict)
    absent: dict[str, dict[str, float]] = field(default_factory=dict)
    found: dict[str, dict[str, float]] = field(default_factory=dict)
    value_noise: dict[str, dict[str, float]] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    classes: dict[str, Grid] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)

    def rows_of(self, name: str) -> Rows:
        """Estimated number of rows in which the column has a value."""
        absent = self.absent.get(name, {})
        markers = self.histograms[name].stddev ** 2 * len(absent) if name in self.histograms else 0.0
        return Rows(max(self.rows - sum(absent.values()), 1.0), self.rows_variance + markers)

    def left_over(self, name: str) -> float:
        """How many rows hold none of the values, in standard deviations of that estimate."""
        values, rows = self.found[name], self.rows_of(name)
        noise = math.sqrt(rows.variance + self.noise[name] ** 2 * max(len(values), 1))
        return float((rows.number - sum(values.values())) / max(noise, 1e-9))

    def take_values(self, name: str, values: Mapping[str, float], stddev: float) -> None:
        """Add counts of a column's values; counts of several passes are averaged by their noise."""
        found, noise = self.found.setdefault(name, {}), self.value_noise.setdefault(name, {})
        for text, count in values.items():
            own, earlier = stddev**-2.0, noise.get(text, math.inf) ** -2.0
            found[text] = (own * count + earlier * found.get(text, 0.0)) / (own + earlier)
            noise[text] = (own + earlier) ** -0.5
        self.noise[name] = stddev


def with_values(column: Categorical, answers: Answers) -> Column:
    """The column with its frequent values; an identifier where few rows hold one."""
    values, rows = answers.found[column.name], answers.rows_of(column.name).number
    left = rows - sum(values.values())
    # On a small table a few values that the threshold hides may hold most of the rows.
    known = left <= (1 - _IDENTIFIER_SHARE) * rows or (values and left < _HIDDEN_VALUES * answers.noise[column.name])
    if not values and column.storage.startswith("dictionary"):
        values = {any_value(column): 0.0}
    elif not known and holds_identifiers(column):
        marks = {fact: value for fact, value in column.provenance.items() if fact in Identifier.facts}
        shared: dict[str, Any] = {"missing": column.missing, "storage": column.storage, "provenance": marks}
        return Identifier(column.name, pattern="text-########", **shared)
    names = tuple(sorted(values, key=lambda value: -values[value]))
    more = column.has_other or answers.left_over(column.name) > (LEFT_OVER if len(names) > 1 else _LEFT_BESIDE_ONE)
    found = measured(column, "values", values=names, outside="absorb")
    return replace(found, outside="other") if more and holds_other(found) else found


def with_bins(column: Binned, answers: Answers, max_bins: int, rounding: tuple[tuple[int, float], ...]) -> Column:
    """The column with bounds, bins and the shape of values within bins, from the counts of its grid."""
    grid = answers.grids[column.name]
    day = class_grids.clock_grid(column, grid)
    grid = grid if day is None else day
    edges, weights = binning.pieces_of(grid, answers.rows_of(column.name))
    if "bounds" in column.open_facts:
        grid, edges, weights = binning.without_empty_ends(grid, edges, weights)
    declared = isinstance(column.bins, int) and column.bins != DEFAULT_BINS
    wanted = cast(int, column.bins) if declared else wanted_bins(answers.signal, max_bins)
    values = (
        int(np.count_nonzero(weights)) if binning.listed_values(grid, answers.rows_of(column.name)) is not None else 0
    )
    if not declared and values <= _FEW_MORE * wanted:
        wanted = max(wanted, 2 * values)
    bins = binning.bins_of(edges, weights, wanted, _MIN_BIN_ROWS * grid.typical_stddev)
    edges, weights = binning.smoothed(edges, weights, grid.high, grid.unit)
    shape = () if len(bins) == len(edges) else _shape(edges, weights, bins)

    def value(position: int | float) -> Any:
        return column.external(column.numbers_at(position))

    return measured(
        column,
        *(fact for fact in ("bounds", "bins") if fact in column.open_facts),
        minimum=value(grid.edges[0].item()),
        maximum=value(grid.high),
        bins=tuple(value(edge) for edge in bins.tolist()),
        shape=tuple((value(edge), weight) for edge, weight in shape),
        rounding=rounding if day is None else (),
        outside="absorb",
        **({} if day is None else {"clock": True}),
    )


def wanted_bins(signal: float, max_bins: int) -> int:
    """About how many bins a number gets: as many as their counts can be distinguished from noise, in pairs too."""
    most = max_bins * max(1.0, signal / _FULL_BINS_SIGNAL) ** (1 / 3)
    return int(np.clip(math.sqrt(signal), _MIN_BINS, most))


def known_counts(column: Column, answers: Answers) -> NoisyMarginal | None:
    """What was counted of a column, in its codes; None where nothing was."""
    name = column.name
    if name not in answers.histograms or isinstance(column, Identifier):
        return None
    single = answers.histograms[name].stddev ** 2
    if isinstance(column, Binned):
        counts, variances = _bin_counts(column, answers.grids.get(name))
    else:
        counts, variances = _value_counts(cast(Categorical, column), answers)
    if not len(counts):
        return None
    markers = [answers.absent[name].get(marker, 0.0) for marker in column.missing]
    values = np.concatenate([counts, markers])
    noise = np.concatenate([variances, np.full(len(markers), single)])
    return NoisyMarginal((name,), values, math.sqrt(_REUSED_VARIANCE * float(noise.mean())))


def _value_counts(column: Categorical, answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Counts of listed values, and of all others if they have a code."""
    found, noise = answers.found.get(column.name, {}), answers.value_noise.get(column.name, {})
    if set(found) != set(column.values or ()):
        return np.empty(0), np.empty(0)
    counts = [found[value] for value in column.values or ()]
    variances = [noise[value] ** 2 for value in column.values or ()]
    if column.has_other:
        counts.append(max(answers.rows_of(column.name).number - sum(counts), 0.0))
        variances.append(sum(variances) + answers.rows_variance)
    return np.array(counts), np.array(variances)


def _bin_counts(column: Binned, grid: Grid | None) -> tuple[np.ndarray, np.ndarray]:
    """Counts of a column's bins from the cells of its grid, with their variances."""
    if grid is None:
        return np.empty(0), np.empty(0)
    edges = grid.edges if grid.unit == 0 else column.numbers_at(grid.edges)
    bins = np.searchsorted(column.edges, edges, side="right") - 1
    chosen = [bins == number for number in range(column.regular)]
    return np.array([grid.counts[own].sum() for own in chosen]), np.array([grid.variance_of(own) for own in chosen])


def closed(column: Column) -> Column:
    """The column with every open fact marked as measured: that nothing was found is a result, too."""
    if isinstance(column, Undeclared):
        raise RuntimeError(f"discovery left the kind of {column.name!r} open")
    return measured(column, *(fact for fact, mark in column.provenance.items() if mark == "open"))


def _shape(edges: np.ndarray, weights: np.ndarray, bins: np.ndarray) -> tuple[tuple[Any, float], ...]:
    """Pieces and their weights; every bin must start where a piece starts."""
    if not set(bins.tolist()) <= set(edges.tolist()):
        raise RuntimeError("a bin starts within a piece")
    return tuple((edge, round(weight, 3)) for edge, weight in zip(edges.tolist(), weights.tolist(), strict=True))
