"""Private discovery of the facts that a schema leaves open, inside the run's own budget.

Five steps: rows per person, where a column says whose row it is; the number of rows; one histogram per column over
public classes of values (`schema/classes.py`), which shows kinds, formats, missing markers, magnitudes and small whole
numbers; then frequent values of columns of texts and finer cells of columns of numbers and times, where the histograms
show rows; last, how numbers are rounded. Only frequent values need a threshold and a part of delta. Everything else is
post-processing of what the door returns. docs/proofs/discovery.md has the argument.

What is counted here is used again: the counts of the codes found (`Found.known`) are averaged into the counts of
columns of every method that asks for these by `selection/steps.py`. The noisy number of rows decides how much of the
budget discovery spends, and how many bins numbers get.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from lookalike.discovery import binning, forms
from lookalike.discovery import rules as rule_search
from lookalike.discovery.binning import Grid, Rows
from lookalike.discovery.doubts import Evidence, doubts
from lookalike.discovery.forms import Histogram
from lookalike.errors import BudgetError
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.thresholds import threshold_probability
from lookalike.privacy.stopping import stop_delta
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime
from lookalike.schema.classes import class_probe
from lookalike.schema.codec import holds_other
from lookalike.schema.columns import DEFAULT_BINS, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.domain import Domain
from lookalike.schema.enforce import aligned
from lookalike.schema.probes import GridProbe, Roundness, RowsPerPerson
from lookalike.schema.schema import Schema
from lookalike.schema.storage import any_value, holds_identifiers
from lookalike.schema.unseen import Unseen


class _Step(NamedTuple):
    """A step of discovery: its name in the ledger, its share of discovery's budget, what it measures, and how."""

    name: str
    share: float
    note: str
    mechanism: str = "gaussian"


ROWS = _Step("discover: number of rows", 0.007, "decides how much discovery spends, and how many bins there are")
CLASSES = _Step(
    "discover: classes of values", 0.42, "how values are written, missing markers, small numbers, magnitudes"
)
VALUES = _Step(
    "discover: values and bins", 0.518, "values of categories above a noisy threshold; counts of narrower bins",
    "threshold, gaussian",
)  # fmt: skip
ROUNDING = _Step(
    "discover: rounding", 0.015, "how often numbers are multiples of 5, 10, 50, ..., times whole minutes, hours, days"
)
PERSONS = _Step("discover: rows per person", 0.03, "how many persons have 1, 2, ... rows")
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
_TEXT_WEIGHT, _TINY = 2.5, 40.0
"""How much more the list of values of a text gets than its histogram, because a threshold hides more than noise does;
and the signal below which numbers get nothing more."""
_DETAIL_SHARE = 0.1
"""Largest share of the step for currencies and offsets."""
_GRID_ROUNDS = (0.6, 0.4)
"""Shares of the two rounds of finer cells: the first cuts up what the classes show, the second shows single values."""
_CELL_ROWS, _CELLS, _MAX_PARTS, _FLOAT_PARTS = 2.0, (4, 256), 2048, 16
"""Rows of a cell of the first round, in standard deviations; fewest and most cells of a column there; into how many
parts at most the second round cuts one cell."""
_MIN_BIN_ROWS = 5.0
"""Smallest number of rows of a bin, in standard deviations of noise, since its own count will be noisy too."""
_MIN_BINS, _FULL_BINS_SIGNAL = 4, 3000.0
"""Fewest bins, and the signal from which a column gets more than `max_bins`."""
_MAX_ROUNDING_STEPS = 16
_IDENTIFIER_SHARE = 0.5
"""A column of texts in which fewer than this share of rows hold frequent values is identifiers or free text."""
_ROUNDED = 0.5
_REUSED_VARIANCE = 1.5
"""Factor on the variance of counts that are used again: which codes there are was chosen by the same noise."""


@dataclass(frozen=True, slots=True)
class Found:
    """What discovery found.

    Attributes:
        schema: the schema without open facts.
        known: noisy counts of single columns in the codes of that schema.
        rows: noisy number of rows, None where it was not needed.
        notes: what the noisy answers cannot vouch for.
    """

    schema: Schema
    known: tuple[NoisyMarginal, ...] = ()
    rows: float | None = None
    notes: tuple[Unseen, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """Settings of private discovery.

    Attributes:
        share: largest part of the budget that discovery may spend; on large tables it spends less. The method can use
            what is left.
        delta_share: part of delta for the thresholds of frequent values.
        max_bins: about how many bins a number or time gets; fewer on small tables, more on very large ones.
        rules: whether rules between columns are searched for (`rules.py`); None for where the schema has open facts.
        rules_share: part of the budget that this search may spend, beside `share`.
        strict: whether a run stops after discovery if its noisy answers leave a column in doubt
            (`schema/unseen.py`). The decision looks at released numbers alone. A run that stops counts with what it
            spent, rounded up; for that a strict run sets a part of its delta aside (`privacy/stopping.py`).
    """

    share: float = 0.8
    delta_share: float = 0.3
    max_bins: int = 16
    rules: bool | None = None
    rules_share: float = rule_search.SHARE
    strict: bool = False

    def __post_init__(self) -> None:
        shares = {"share": self.share, "delta_share": self.delta_share, "rules_share": self.rules_share}
        for name, value in shares.items():
            if not 0 < value < 1:
                raise BudgetError(f"The {name} of discovery is {value:g}; it must be between 0 and 1, such as 0.2.")
        if self.max_bins < 2:
            raise BudgetError(f"The max_bins of discovery is {self.max_bins}; it must be at least 2, such as 16.")

    def budget(self, schema: Schema, epsilon: float, delta: float, accounting: Accounting) -> Budget:
        """The run's budget, with a part of delta kept for thresholds where values may have to be found.

        A strict run sets another part of delta aside, which is not in the budget.
        """
        delta -= self.stop_delta(delta)
        kept = delta * self.delta_share if any(_may_list(column) for column in schema.columns) else 0.0
        if kept:
            threshold_probability(kept, epsilon)  # refuses what a threshold cannot do before anything is charged
        return Budget(epsilon, delta, accounting, kept)

    def stop_delta(self, delta: float) -> float:
        """What a run sets aside of its delta to count for less if it stops."""
        return stop_delta(delta) if self.strict else 0.0

    def nominal(self, schema: Schema) -> Domain:
        """The domain as far as it is known, with `max_bins` codes for every column whose values are still open."""
        sizes = tuple(_nominal_size(column, self.max_bins) for column in schema.columns)
        return Domain(schema.names, sizes)

    def plan(self, schema: Schema, budget: Budget) -> list[tuple[str, str, float, str]]:
        """Name, mechanism, largest rho and purpose of every step that the open facts of a schema may need."""
        rho = float(budget.rho) * self.share
        open_facts = {fact for facts in schema.open_facts.values() for fact in facts}
        steps = [
            (step.name, step.mechanism, rho * step.share, step.note)
            for step in STEPS
            if ("repeats" in open_facts if step == PERSONS else open_facts - {"repeats"})
        ]
        if self.wants_rules(schema):
            steps.append((rule_search.STEP, "gaussian", self._rules_rho(budget), rule_search.NOTE))
        return steps

    def wants_rules(self, schema: Schema) -> bool:
        """Whether rules are searched for in a table with this schema."""
        return bool(schema.open_facts) if self.rules is None else self.rules

    def _rules_rho(self, budget: Budget) -> float:
        return float(budget.rho) * self.rules_share

    def find_rules(self, door: GuardedTable, rows: float | None) -> rule_search.FoundRules:
        """The door's schema, which has no open facts, with the rules that its rows keep; `rows` are noisy, if known."""
        return rule_search.find_rules(door, self._rules_rho(door.budget), rows)

    def fill(self, door: GuardedTable) -> Found:
        """The door's schema with all open facts filled, marked as measured, and the counts that were paid for."""
        return _Search(self, door).run()


class _Search:
    """One discovery: the columns as far as they are known, and what was counted of them.

    Attributes:
        rho: what discovery may spend; `each`: what it spends on one histogram of one column.
        rows, rows_variance: estimated number of rows, and the variance of that.
        signal: number of rows by the noise of a column's counts, if the whole budget went there.
        absent: estimated rows of each column's missing markers.
        found, value_noise: noisy counts of each column's frequent values, and their standard deviations.
        classes: noisy counts of all classes of numbers or times of a column, as cells.
        grids: noisy counts of the cells of a column that hold rows.
        above: rows beyond the range of a column's cells, and the standard deviation of that.
    """

    def __init__(self, settings: Discovery, door: GuardedTable) -> None:
        self.settings, self.door = settings, door
        self.rho = float(door.budget.rho) * settings.share
        self.columns = {column.name: column for column in door.schema.columns}
        self.rows, self.rows_variance, self.signal, self.each = 1.0, 0.0, 0.0, 0.0
        self.histograms: dict[str, Histogram] = {}
        self.absent: dict[str, dict[str, float]] = {}
        self.found: dict[str, dict[str, float]] = {}
        self.noise: dict[str, float] = {}
        self.value_noise: dict[str, dict[str, float]] = {}
        self.classes: dict[str, Grid] = {}
        self.grids: dict[str, Grid] = {}
        self.above: dict[str, tuple[float, float]] = {}

    def run(self) -> Found:
        self.find_rows_per_person()
        if any(set(column.open_facts) - {"repeats"} for column in self.columns.values()):
            self.find_rows()
            self.find_classes()
            self.find_values_and_cells()
            roundings = self.find_rounding()
            for name, grid in self.grids.items():
                self.columns[name] = self._with_bins(cast(Binned, self.columns[name]), grid, roundings.get(name, ()))
        closed = [_closed(column) for column in self.columns.values()]
        schema = aligned(self.door.schema.with_columns(closed))
        known = [self._known(column) for column in schema.columns]
        rows = self.rows if self.signal else None
        return Found(schema, tuple(m for m in known if m is not None), rows, doubts(self._evidence(schema)))

    def _evidence(self, schema: Schema) -> Evidence:
        numbers = (self.rows, math.sqrt(self.rows_variance), self.signal)
        counts = (self.histograms, self.classes, self.grids, self.found, self.noise, self.absent)
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
        self.rows = estimated_total(self.door.measure([()], stddev, step=ROWS.name))
        self.rows_variance = stddev**2
        count, most = len(self._open(*_OPEN_CLASSES)), self.rho * CLASSES.share
        self.signal = self.rows / self.door.stddev_for(float(self.door.budget.rho), len(self.columns))
        wanted = most * (self.door.stddev_for(most, max(count, 1)) * _CLASS_ROWS / self.rows) ** 2
        self.each = float(np.clip(wanted, _LEAST_SHARE * most, most)) / max(count, 1)

    def find_classes(self) -> None:
        """Kind, format, decimals and missing markers of columns, and the rows of each magnitude."""
        probes = [class_probe(self.columns[name]) for name in self._open(*_OPEN_CLASSES)]
        answers = zip(probes, self._measure(probes, CLASSES, self.each * len(probes)), strict=True)
        histograms = [Histogram(probe, answer.values, answer.stddev) for probe, answer in answers]
        details, usual = self._find_details(histograms), forms.usual_form(histograms)
        for histogram in histograms:
            name = histogram.probe.name
            column, self.absent[name] = forms.decided(self.columns[name], histogram, details.get(name, {}), usual)
            self.columns[name], self.histograms[name], self.noise[name] = column, histogram, histogram.stddev
            if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
                grid = self.classes[name] = forms.class_grid(column, histogram)
                lacks = "bounds" in column.open_facts
                self.grids[name] = (
                    binning.occupied(grid, self._rows_of(name)) if lacks else _within_bounds(column, grid)
                )

    def _find_details(self, histograms: Sequence[Histogram]) -> dict[str, dict[str, Any]]:
        """What stands around the numbers, and the offsets of the times, of columns whose forms leave that open."""
        probes = [forms.open_detail(self.columns[histogram.probe.name], histogram) for histogram in histograms]
        asked = [probe for probe in probes if probe is not None]
        each = min(self.each, self.rho * VALUES.share * _DETAIL_SHARE / max(len(asked), 1))
        answers = self._measure(asked, VALUES, each * len(asked))
        return {
            probe.name: forms.detail_facts(probe, answer.values, answer.stddev)
            for probe, answer in zip(asked, answers, strict=True)
        }

    def find_values_and_cells(self) -> None:
        """Frequent values of texts and finer cells of numbers; on tiny tables the values alone."""
        listed = [name for name in self._open("values") if isinstance(self.columns[name], Categorical)]
        floats = [name for name, grid in self.grids.items() if not grid.unit and self.signal > _TINY]
        cut = [name for name, grid in self.grids.items() if _worth_cutting(grid) and self.signal > _TINY]
        shares = _TEXT_WEIGHT * len(listed) + len(floats) + len(cut)
        each = min(self.each, self.rho * VALUES.share * (1 - _DETAIL_SHARE) / max(shares, 1.0))
        self.find_values({**dict.fromkeys(listed, _TEXT_WEIGHT), **dict.fromkeys(floats, 1.0)}, each, len(cut))
        for name in listed:
            self.columns[name] = self._with_values(cast(Categorical, self.columns[name]), self.found[name])
        if cut:
            self.find_cells(cut, each * len(cut))
        for name in floats:
            self.grids[name] = binning.with_spikes(self.grids[name], _as_numbers(self.found[name]), self.noise[name])

    def find_values(self, weights: dict[str, float], each: float, cut: int) -> None:
        """Frequent values of all columns, then with less noise those of texts that have many other values too.

        Args:
            weights: of the columns, in units of `each`.
            each: what a column of weight 1 spends.
            cut: how many more columns spend as much.
        """
        budget = self.door.budget
        passes = _VALUE_PASSES if self.signal > _SMALL else (1.0,)
        probability = threshold_probability(budget.threshold_delta, budget.epsilon) / len(passes)
        spare = self.rho * VALUES.share * (1 - _DETAIL_SHARE) - each * (sum(weights.values()) + cut)
        for part in passes:
            for name, weight in weights.items():
                stddev = self.door.stddev_for(each * weight * part)
                values = self.door.frequent([name], stddev, probability / len(weights), step=VALUES.name)[0]
                self._take(name, values, stddev)
            again = {n: w for n, w in weights.items() if n not in self.grids and self._left_over(n) > _MANY_LEFT}
            # Few columns have long lists, so that what is spared elsewhere makes theirs complete.
            more = min(_MAX_MORE, 1.0 + max(spare, 0.0) / (each * sum(again.values()) * passes[-1])) if again else 1.0
            weights = {n: w * more for n, w in again.items()}

    def _take(self, name: str, values: dict[str, float], stddev: float) -> None:
        """Add noisy counts of a column's values; counts of both passes are averaged by their noise."""
        found, noise = self.found.setdefault(name, {}), self.value_noise.setdefault(name, {})
        for text, count in values.items():
            own, earlier = stddev**-2.0, noise.get(text, math.inf) ** -2.0
            found[text] = (own * count + earlier * found.get(text, 0.0)) / (own + earlier)
            noise[text] = (own + earlier) ** -0.5
        self.noise[name] = stddev

    def find_cells(self, names: Sequence[str], rho: float) -> None:
        """Counts of narrower cells where there are rows, and of single values where one may stand out."""
        stddev = self.door.stddev_for(rho * _GRID_ROUNDS[0], len(names))
        cells = int(np.clip(self.rows / (_CELL_ROWS * stddev), *_CELLS))
        cuts = (
            lambda grid: binning.parts_by_rows(grid, cells),
            lambda grid: binning.parts_with_spikes(grid, _MAX_PARTS if grid.unit else _FLOAT_PARTS),
        )
        for number, (part, cut) in enumerate(zip(_GRID_ROUNDS, cuts, strict=True)):
            finer = {name: binning.split(self.grids[name], cut(self.grids[name])) for name in names}
            if number:
                finer = {name: grid for name, grid in finer.items() if len(grid.edges) > len(self.grids[name].edges)}
            probes = [_grid_probe(cast(Binned, self.columns[name]), grid) for name, grid in finer.items()]
            for answer in self._measure(probes, VALUES, rho * part):
                name = answer.attrs[0]
                grid = binning.refined(self.grids[name], finer[name], answer.values[1:-2], answer.stddev)
                self.grids[name] = binning.with_values_apart(grid) if number else self._ended(name, grid, answer)

    def _ended(self, name: str, grid: Grid, answer: NoisyMarginal) -> Grid:
        """The grid without empty ends, and with a cell for rows beyond them, which were counted too."""
        if "bounds" not in self.columns[name].open_facts:
            return grid
        below, above = ((float(answer.values[place]), answer.stddev) for place in (0, -2))
        ends = [below[0] > binning.LEFT_OVER * below[1], above[0] > binning.LEFT_OVER * above[1]]
        self.above[name] = above
        kept = binning.trimmed(grid, low=not ends[0], high=not ends[1])
        return binning.extended(kept, self.classes[name], below, above)

    def find_rounding(self) -> dict[str, tuple[tuple[int, float], ...]]:
        """How often the numbers of each column are multiples of round steps."""
        spread = {
            name: grid
            for name, grid in self.grids.items()
            if grid.unit and binning.listed_values(grid, self._rows_of(name)) is None
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

    def _present(self, name: str) -> float:
        """Estimated number of rows in which the column has a value."""
        return max(self.rows - sum(self.absent.get(name, {}).values()), 1.0)

    def _rows_of(self, name: str) -> Rows:
        """Estimated number of rows in which the column has a value."""
        markers = self.histograms[name].stddev ** 2 * len(self.absent[name]) if name in self.histograms else 0.0
        return Rows(self._present(name), self.rows_variance + markers)

    def _left_over(self, name: str) -> float:
        """How many rows hold none of the values, in standard deviations of that estimate."""
        values, rows = self.found[name], self._rows_of(name)
        noise = math.sqrt(rows.variance + self.noise[name] ** 2 * max(len(values), 1))
        return float((rows.number - sum(values.values())) / max(noise, 1e-9))

    def _with_values(self, column: Categorical, values: dict[str, float]) -> Column:
        """The column with its frequent values; an identifier where few rows hold one."""
        known = sum(values.values()) >= _IDENTIFIER_SHARE * self._present(column.name)
        if not values and column.storage.startswith("dictionary"):
            values = {any_value(column): 0.0}
        elif not known and holds_identifiers(column):
            marks = {fact: value for fact, value in column.provenance.items() if fact in Identifier.facts}
            shared: dict[str, Any] = {"missing": column.missing, "storage": column.storage, "provenance": marks}
            return Identifier(column.name, pattern="text-########", **shared)
        names = tuple(sorted(values, key=lambda value: -values[value]))
        more = column.has_other or self._left_over(column.name) > binning.SIGNIFICANT
        found = measured(column, "values", values=names, outside="absorb")
        return replace(found, outside="other") if more and holds_other(found) else found

    def _with_bins(self, column: Binned, grid: Grid, rounding: tuple[tuple[int, float], ...]) -> Column:
        """The column with bounds, bins and the shape of values within bins, from the counts of a grid."""
        day = forms.clock_grid(column, grid)
        grid = grid if day is None else day
        edges, weights = binning.pieces_of(grid, self._rows_of(column.name))
        if "bounds" in column.open_facts:
            grid, edges, weights = binning.without_empty_ends(grid, edges, weights)
        declared = isinstance(column.bins, int) and column.bins != DEFAULT_BINS
        wanted = cast(int, column.bins) if declared else self._wanted_bins()
        high = grid.high
        if "bounds" in column.open_facts and column.name in self.above and day is None:
            edges, weights, high = binning.with_tail(edges, weights, high, grid.unit, self.above[column.name])
        bins = binning.bins_of(edges, weights, wanted, _MIN_BIN_ROWS * grid.typical_stddev)
        edges, weights = binning.smoothed(edges, weights, high, grid.unit)
        shape = () if len(bins) == len(edges) else _shape(edges, weights, bins)

        def value(position: int | float) -> Any:
            return column.external(column.numbers_at(position))

        return measured(
            column,
            "bounds",
            "bins",
            minimum=value(grid.edges[0].item()),
            maximum=value(high),
            bins=tuple(value(edge) for edge in bins.tolist()),
            shape=tuple((value(edge), weight) for edge, weight in shape),
            rounding=rounding if day is None else (),
            outside="absorb",
            **({} if day is None else {"clock": True}),
        )

    def _wanted_bins(self) -> int:
        """About how many bins a number gets: as many as their counts can be distinguished from noise, in pairs too."""
        most = self.settings.max_bins * max(1.0, self.signal / _FULL_BINS_SIGNAL) ** (1 / 3)
        return int(np.clip(math.sqrt(self.signal), _MIN_BINS, most))

    def _known(self, column: Column) -> NoisyMarginal | None:
        """What was counted of a column, in its codes; None where nothing was."""
        if column.name not in self.histograms or isinstance(column, Identifier):
            return None
        single = self.histograms[column.name].stddev ** 2
        if isinstance(column, Binned):
            counts, variances = _bin_counts(column, self.grids.get(column.name))
        else:
            counts, variances = self._value_counts(cast(Categorical, column))
        if not len(counts):
            return None
        markers = [self.absent[column.name].get(marker, 0.0) for marker in column.missing]
        values = np.concatenate([counts, markers])
        noise = np.concatenate([variances, np.full(len(markers), single)])
        return NoisyMarginal((column.name,), values, math.sqrt(_REUSED_VARIANCE * float(noise.mean())))

    def _value_counts(self, column: Categorical) -> tuple[np.ndarray, np.ndarray]:
        """Counts of listed values, and of all others if they have a code."""
        found, noise = self.found.get(column.name, {}), self.value_noise.get(column.name, {})
        if set(found) != set(column.values or ()):
            return np.empty(0), np.empty(0)
        counts = [found[value] for value in column.values or ()]
        variances = [noise[value] ** 2 for value in column.values or ()]
        if column.has_other:
            counts.append(max(self._present(column.name) - sum(counts), 0.0))
            variances.append(sum(variances) + self.rows_variance)
        return np.array(counts), np.array(variances)


def _may_list(column: Column) -> bool:
    """Whether frequent values of a column may have to be found: of texts, and of numbers with any decimals."""
    facts = set(column.open_facts)
    floats = isinstance(column, Continuous) and column.decimals is None and bool({"bounds", "bins"} & facts)
    return floats or bool({"values", "type", "decimals"} & facts)


def _bin_counts(column: Binned, grid: Grid | None) -> tuple[np.ndarray, np.ndarray]:
    """Counts of a column's bins from the cells of its grid, with their variances."""
    if grid is None:
        return np.empty(0), np.empty(0)
    edges = grid.edges if grid.unit == 0 else column.numbers_at(grid.edges)
    bins = np.searchsorted(column.edges, edges, side="right") - 1
    chosen = [bins == number for number in range(column.regular)]
    return np.array([grid.counts[own].sum() for own in chosen]), np.array([grid.variance_of(own) for own in chosen])


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


def _worth_cutting(grid: Grid) -> bool:
    """Whether some cell holds more than one value."""
    return bool(binning.divisible(grid).any())


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


def _nominal_size(column: Column, guess: int) -> int:
    """The number of codes of a column, or the guess where its values are still open."""
    if isinstance(column, Identifier):
        return 1 + len(column.missing)
    return guess if {"type", "values", "bounds", "bins"} & set(column.open_facts) else _closed(column).size


def _closed(column: Column) -> Column:
    """The column with every open fact marked as measured: finding nothing is a result too."""
    if isinstance(column, Undeclared):
        raise RuntimeError(f"discovery left the kind of {column.name!r} open")
    return measured(column, *(fact for fact, mark in column.provenance.items() if mark == "open"))


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


def _shape(edges: np.ndarray, weights: np.ndarray, bins: np.ndarray) -> tuple[tuple[Any, float], ...]:
    """Pieces and their weights; every bin must start where a piece starts."""
    if not set(bins.tolist()) <= set(edges.tolist()):
        raise RuntimeError("a bin starts within a piece")
    return tuple((edge, round(weight, 3)) for edge, weight in zip(edges.tolist(), weights.tolist(), strict=True))
