"""The steps of private discovery: which counts it asks for, in which order, and what it spends on each.

Five steps: rows per person, where a column says whose row it is; the number of rows; one histogram per column over
public classes of values (`schema/classes.py`), which shows kinds, formats, missing markers, magnitudes and small whole
numbers; then frequent values of columns of texts and finer cells of columns of numbers and times, where the histograms
show rows; last, how numbers are rounded. Only frequent values need a threshold and a part of delta. Everything else is
post-processing of what the door returns (`found_columns.py`, `ranges.py`, `binning.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from lookalike.discovery import binning, class_grids, forms, grids, ranges
from lookalike.discovery.doubts import Evidence, doubts
from lookalike.discovery.forms import Histogram
from lookalike.discovery.found_columns import Answers, closed, known_counts, with_bins, with_values
from lookalike.discovery.grids import Grid, Rows
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.thresholds import threshold_probability
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.classes import class_probe
from lookalike.schema.columns import Categorical, Column, Identifier, measured
from lookalike.schema.enforce import aligned
from lookalike.schema.probes import GridProbe, Roundness, RowsPerPerson
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import Unseen


class _Step(NamedTuple):
    """A step of discovery: its name in the ledger, its share of discovery's budget, what it measures, and how."""

    name: str
    share: float
    note: str
    mechanism: str = "gaussian"


ROWS = _Step("discover: number of rows", 0.017, "decides how much discovery spends, and how many bins there are")
CLASSES = _Step(
    "discover: classes of values", 0.362, "how values are written, missing markers, small numbers, magnitudes"
)
VALUES = _Step(
    "discover: values and bins", 0.582, "values of categories above a noisy threshold; counts of narrower bins",
    "threshold, gaussian",
)  # fmt: skip
ROUNDING = _Step(
    "discover: rounding", 0.013, "how often numbers are multiples of 5, 10, 50, ..., times whole minutes, hours, days"
)
PERSONS = _Step("discover: rows per person", 0.026, "how many persons have 1, 2, ... rows")
STEPS = (ROWS, CLASSES, VALUES, ROUNDING, PERSONS)

_OPEN_CLASSES = ("type", "missing", "decimals", "bounds", "bins")
_LEAST_SHARE, _CLASS_ROWS = 0.32, 160.0
"""Classes are counted with the noise of this part of the rows, so that a minority of 5 % stands out; for at least the
first constant of their largest share of the budget. What follows gets as much for each column."""
_VALUE_PASSES, _SMALL = (0.75, 0.25), 200.0
"""Shares of the two passes over frequent values, and the signal below which there is only one."""
_MANY_LEFT, _MAX_MORE = 2.0, 12.0
"""The second pass is for columns in which the rows without a found value exceed the first constant in standard
deviations. It has at most the second constant times its share."""
_TEXT_WEIGHT = 2.5
"""How much more the list of values of a text gets than its histogram, as a threshold hides more than noise does."""
_TINY, _TINIEST, _TINY_CELLS = 25.0, 10.0, 0.147
"""On tables with a signal between the second constant and the first, where methods see hardly any pair, cells of
numbers get the third part of discovery's budget, in one round; below nothing."""
_DETAIL_SHARE = 0.1
"""Largest share of the step for currencies and offsets."""
_GRID_ROUNDS = (0.6, 0.4)
"""Shares of the two rounds of finer cells: the first cuts up what the classes show, the second shows single values."""
_ONE_ROUND = (1.0, 0.0)
_CELL_ROWS, _CELLS, _MAX_PARTS, _FLOAT_PARTS = 2.0, (4, 256), 2048, 16
"""Rows of a cell of the first round, in standard deviations; fewest and most cells of a column there; into how many
parts at most the second round cuts one cell."""
_MAX_ROUNDING_STEPS = 16
_ROUNDED = 0.5


class Search:
    """One discovery: the columns as far as they are known, and what was counted of them.

    Attributes:
        rho: what discovery may spend; `each`: what it spends on one histogram of one column.
        answers: what was counted.
    """

    def __init__(self, door: GuardedTable, share: float, max_bins: int) -> None:
        self.door, self.max_bins = door, max_bins
        self.rho, self.each = float(door.budget.rho) * share, 0.0
        self.columns = {column.name: column for column in door.schema.columns}
        self.answers = Answers()

    def run(self) -> tuple[Schema, tuple[NoisyMarginal, ...], tuple[Unseen, ...]]:
        """Return the schema without open facts, known counts of its columns, and what remains in doubt."""
        self.find_rows_per_person()
        if any(set(column.open_facts) - {"repeats"} for column in self.columns.values()):
            self.find_rows()
            self.find_classes()
            self.find_values_and_cells()
            roundings = self.find_rounding()
            for name in self.answers.grids:
                column = cast(Binned, self.columns[name])
                self.columns[name] = with_bins(column, self.answers, self.max_bins, roundings.get(name, ()))
        schema = aligned(self.door.schema.with_columns([closed(column) for column in self.columns.values()]))
        known = [known_counts(column, self.answers) for column in schema.columns]
        return schema, tuple(m for m in known if m is not None), doubts(self._evidence(schema))

    def _evidence(self, schema: Schema) -> Evidence:
        told = self.answers
        numbers = (told.rows, math.sqrt(told.rows_variance), told.signal)
        counts = (told.histograms, told.classes, told.grids, told.found, told.noise, told.absent)
        return Evidence(self.door.schema, schema, *numbers, *counts)

    def find_rows_per_person(self) -> None:
        """The numbers of persons with 1, 2, ... rows: the rows of persons with k rows, divided by k."""
        people = {name: cast(Identifier, self.columns[name]) for name in self._open("repeats")}
        probes = [RowsPerPerson(name, base=column) for name, column in people.items()]
        for probe, answer in zip(probes, self._measure(probes, PERSONS), strict=True):
            persons = np.maximum(answer.values, 0.0) / np.arange(1, probe.regular + 1)
            weights = tuple(round(float(w), 3) for w in persons) if persons.sum() > 0 else (1.0,) * probe.regular
            self.columns[probe.name] = measured(people[probe.name], "repeats", repeats=weights)

    def find_rows(self) -> None:
        """The number of rows, and what discovery spends on each column of a table of that size."""
        stddev = self.door.stddev_for(self.rho * ROWS.share)
        self.answers.rows = estimated_total(self.door.measure([()], stddev, step=ROWS.name))
        self.answers.rows_variance = stddev**2
        count, most = len(self._open(*_OPEN_CLASSES)), self.rho * CLASSES.share
        self.answers.signal = self.answers.rows / self.door.stddev_for(float(self.door.budget.rho), len(self.columns))
        wanted = most * (self.door.stddev_for(most, max(count, 1)) * _CLASS_ROWS / self.answers.rows) ** 2
        self.each = float(np.clip(wanted, _LEAST_SHARE * most, most)) / max(count, 1)

    def find_classes(self) -> None:
        """Kind, format, decimals and missing markers of columns, and the rows of each magnitude."""
        probes = [class_probe(self.columns[name]) for name in self._open(*_OPEN_CLASSES)]
        answers = zip(probes, self._measure(probes, CLASSES, self.each * len(probes)), strict=True)
        counted = [Histogram(probe, told.values, told.stddev) for probe, told in answers]
        histograms = forms.with_habits(counted, self.answers.rows)
        details = self._find_details(histograms)
        for histogram in histograms:
            name = histogram.probe.name
            column, self.answers.absent[name] = forms.decided(self.columns[name], histogram, details.get(name, {}))
            self.columns[name], self.answers.histograms[name], self.answers.noise[name] = (
                column,
                histogram,
                histogram.stddev,
            )
            if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
                self.answers.classes[name] = class_grids.class_grid(column, histogram)
        self._end({name: self._bounded(name, grid) for name, grid in self.answers.classes.items()})

    def _find_details(self, histograms: Sequence[Histogram]) -> dict[str, dict[str, Any]]:
        """What stands around the numbers, and the offsets of the times, of columns whose forms leave that open."""
        probes = [forms.open_detail(self.columns[histogram.probe.name], histogram) for histogram in histograms]
        asked = [probe for probe in probes if probe is not None]
        each = min(self.each, self.rho * (VALUES.share - _TINY_CELLS) * _DETAIL_SHARE / max(len(asked), 1))
        answers = self._measure(asked, VALUES, each * len(asked))
        return {
            probe.name: forms.detail_facts(probe, answer.values, answer.stddev)
            for probe, answer in zip(asked, answers, strict=True)
        }

    def find_values_and_cells(self) -> None:
        """Frequent values of texts and finer cells of numbers; on the tiniest tables the values alone."""
        listed = [name for name in self._open("values") if isinstance(self.columns[name], Categorical)]
        tiny, found = self.answers.signal <= _TINY, self.answers.grids
        floats = [name for name, grid in found.items() if not grid.unit and not tiny]
        cut = [name for name in found if self._worth_cutting(name) and self.answers.signal > _TINIEST]
        weights = {**dict.fromkeys(listed, _TEXT_WEIGHT), **dict.fromkeys(floats, 1.0)}
        beside = 0 if tiny else len(cut)
        each = min(self.each, self._usual_rho() / max(sum(weights.values()) + beside, 1.0))
        self.find_values(weights, each, beside)
        for name in listed:
            self.columns[name] = with_values(cast(Categorical, self.columns[name]), self.answers)
        if cut:
            rho, rounds = (self.rho * _TINY_CELLS, _ONE_ROUND) if tiny else (each * len(cut), _GRID_ROUNDS)
            self.find_cells(cut, rho, rounds)
        for name in floats:
            found[name] = grids.with_spikes(
                found[name], _as_numbers(self.answers.found[name]), self.answers.noise[name]
            )

    def _usual_rho(self) -> float:
        """What lists of values have, and cells if the table is not tiny."""
        return self.rho * (VALUES.share - _TINY_CELLS) * (1 - _DETAIL_SHARE)

    def _worth_cutting(self, name: str) -> bool:
        """Whether there may be rows beyond the range, or some cell holds more than one value."""
        lacks = "bounds" in self.columns[name].open_facts
        return lacks or bool(grids.divisible(self.answers.grids[name]).any())

    def find_values(self, weights: dict[str, float], each: float, cut: int) -> None:
        """Frequent values of all columns, then with less noise those of texts that have many other values too.

        Args:
            weights: of the columns, in units of `each`.
            each: what a column of weight 1 spends.
            cut: how many more columns spend as much.
        """
        budget = self.door.budget
        passes = _VALUE_PASSES if self.answers.signal > _SMALL else (1.0,)
        probability = threshold_probability(budget.threshold_delta, budget.epsilon) / len(passes)
        spare = self._usual_rho() - each * (sum(weights.values()) + cut)
        for part in passes:
            for name, weight in weights.items():
                stddev = self.door.stddev_for(each * weight * part)
                values = self.door.frequent([name], stddev, probability / len(weights), step=VALUES.name)[0]
                self.answers.take_values(name, values, stddev)
            again = {
                n: w
                for n, w in weights.items()
                if n not in self.answers.grids and self.answers.left_over(n) > _MANY_LEFT
            }
            # Few columns have long lists, so that what is spared elsewhere makes theirs complete.
            more = min(_MAX_MORE, 1.0 + max(spare, 0.0) / (each * sum(again.values()) * passes[-1])) if again else 1.0
            weights = {n: w * more for n, w in again.items()}

    def find_cells(self, names: Sequence[str], rho: float, rounds: tuple[float, float]) -> None:
        """Counts of narrower cells where there are rows, and of single values where one may stand out."""
        told, (first, second) = self.answers, rounds
        stddev = self.door.stddev_for(rho * first, len(names))
        cells = int(np.clip(told.rows / (_CELL_ROWS * stddev), *_CELLS))
        whole = {name: self._whole(name) for name in names}
        finer = {name: _cut_up(whole[name], self.answers.rows_of(name), cells) for name in names}
        counted = self._cell_counts(finer, rho * first)
        self._end({name: grids.refined(whole[name], finer[name], counts, noise) for name, counts, noise in counted})
        if not second:
            return
        most = {name: _MAX_PARTS if grid.unit else _FLOAT_PARTS for name, grid in told.grids.items()}
        cut = {name: grids.parts_with_spikes(told.grids[name], most[name]) for name in names}
        finer = {name: grids.split(told.grids[name], parts) for name, parts in cut.items() if parts.max() > 1}
        for name, counts, noise in self._cell_counts(finer, rho * second):
            grid = grids.refined(told.grids[name], finer[name], counts, noise)
            told.grids[name] = binning.with_values_apart(grid)

    def _whole(self, name: str) -> Grid:
        """The cells that a column's numbers can be in: all, unless bounds are declared."""
        lacks = "bounds" in self.columns[name].open_facts
        return self.answers.classes[name] if lacks else self.answers.grids[name]

    def _bounded(self, name: str, grid: Grid) -> Grid:
        """The cells of a column, between its bounds if these are declared."""
        lacks = "bounds" in self.columns[name].open_facts
        return grid if lacks else _within_bounds(cast(Binned, self.columns[name]), grid)

    def _end(self, found: Mapping[str, Grid]) -> None:
        """Keep the cells that hold rows, and those beyond in which more are likely, unless bounds are declared.

        Whole numbers are compared with each other, and others with each other.
        """
        self.answers.grids |= found
        for kind in (Integer, Continuous, Datetime):
            alike = {name: grid for name, grid in found.items() if self._is_open(name, kind)}
            self.answers.grids |= ranges.all_with_ends(alike, {name: self.answers.rows_of(name) for name in alike})

    def _is_open(self, name: str, kind: type[Column]) -> bool:
        """Whether a column of a kind lacks bounds."""
        return isinstance(self.columns[name], kind) and "bounds" in self.columns[name].open_facts

    def _cell_counts(self, finer: dict[str, Grid], rho: float) -> list[tuple[str, np.ndarray, float]]:
        """Name, noisy counts and standard deviation of each column's cells."""
        probes = [_grid_probe(cast(Binned, self.columns[name]), grid) for name, grid in finer.items()]
        answers = self._measure(probes, VALUES, rho)
        return [(answer.attrs[0], answer.values[1:-2], answer.stddev) for answer in answers]

    def find_rounding(self) -> dict[str, tuple[tuple[int, float], ...]]:
        """How often the numbers of each column are multiples of round steps."""
        spread = {
            name: grid
            for name, grid in self.answers.grids.items()
            if grid.unit and binning.listed_values(grid, self.answers.rows_of(name)) is None
        }
        columns = {name: cast(Binned, self.columns[name]) for name in spread}
        steps = {name: _rounding_steps(spread[name], column) for name, column in columns.items()}
        probes = [Roundness(name, base=columns[name], steps=some) for name, some in steps.items() if len(some) > 1]
        answers = zip(probes, self._measure(probes, ROUNDING), strict=True)
        return {p.name: binning.rounding_of(p.steps, answer.values[:-1], answer.stddev) for p, answer in answers}

    def _open(self, *facts: str) -> list[str]:
        """Names of the columns that still lack one of these facts."""
        return [name for name, column in self.columns.items() if set(facts) & set(column.open_facts)]

    def _measure(self, probes: Sequence[Column], step: _Step, rho: float | None = None) -> list[NoisyMarginal]:
        """Noisy counts of the probes' classes, for rho or the step's share in all; an empty list for no probes."""
        if not probes:
            return []
        view = self.door.encoded(Schema(tuple(probes)))
        stddev = self.door.stddev_for(self.rho * step.share if rho is None else rho, len(probes))
        answers = view.measure([(probe.name,) for probe in probes], stddev, step=step.name)
        # Noise is rounded to whole rows: where it is smaller than that, a single row would seem to stand out.
        return [replace(answer, stddev=math.hypot(answer.stddev, _ROUNDED)) for answer in answers]


def _as_numbers(values: dict[str, float]) -> dict[float, float]:
    """Counts of frequent texts by the numbers that they write."""
    numbers: dict[float, float] = {}
    for text, count in values.items():
        try:
            number = float(text.strip().replace(",", "."))
        except ValueError:
            continue
        if math.isfinite(number):
            numbers[number + 0.0] = numbers.get(number + 0.0, 0.0) + count
    return numbers


def _within_bounds(column: Binned, grid: Grid) -> Grid:
    """The cells between declared bounds."""
    low, high = (column.internal(bound) for bound in (column.minimum, column.maximum))
    if column.tick is not None:
        low, high = column.nearest_tick(low), column.nearest_tick(high)
    first = max(int(np.searchsorted(grid.edges, low, side="right")) - 1, 0)
    last = max(int(np.searchsorted(grid.edges, high, side="right")) - 1, first)
    part = grid.part(first, last)
    edges = part.edges.copy()
    edges[0] = low
    return replace(part, edges=edges, high=high)


def _cut_up(grid: Grid, rows: Rows, cells: int) -> Grid:
    """The grid with the cells that hold rows cut into about so many, not measured yet."""
    first, last = ranges.occupied(grid, rows)
    parts = np.ones(len(grid.edges), dtype=np.int64)
    parts[first : last + 1] = grids.parts_by_rows(grid.part(first, last), cells)
    return grids.split(grid, parts)


def _grid_probe(column: Binned, grid: Grid) -> GridProbe:
    """Counts of the grid's cells, after all below and before all above them."""
    numbers = column.numbers_at(np.append(grid.edges, grid.ends[-1]))
    return GridProbe(column.name, base=column, edges=np.concatenate([[-np.inf], numbers]))


def _rounding_steps(grid: Grid, column: Binned) -> tuple[int, ...]:
    """1, 5, 10, 50, ... up to a quarter of the range; minutes, hours and days for times in seconds."""
    span = grid.high - float(grid.edges[0])
    if isinstance(column, Datetime):
        ticks = [tick // times.TICKS[column.resolution] for tick in reversed(times.TICKS.values())]
        return tuple(step for step in ticks if step == 1 or 1 < step <= span / 4)
    steps = [1]
    while steps[-1] * (5 if len(steps) % 2 else 2) <= span / 4 and len(steps) < _MAX_ROUNDING_STEPS:
        steps.append(steps[-1] * (5 if len(steps) % 2 else 2))
    return tuple(steps)
