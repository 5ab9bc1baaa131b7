"""Private discovery of the facts that a schema leaves open, inside the run's own budget.

Each step has a fixed share of the budget that is set aside: how texts are written and which missing markers occur;
frequent values of categories; ranges of numbers and times on a public grid; bins, by refining that grid where rows are;
how numbers are rounded; how many rows persons have. Only frequent values need a threshold and a part of delta. The
others are noisy counts of public classes (`schema/probes.py`), and everything else is post-processing of what the door
returns. A fact that cannot be found in the noise is not released: the column then gets the plainest form of its type.

The constants below were chosen on Adult as published, with no schema (benchmarks/real_tables.py); docs/schema_file.md
shows what discovery costs on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from lookalike.discovery import binning, forms
from lookalike.discovery import rules as rule_search
from lookalike.discovery.binning import Grid
from lookalike.errors import BudgetError
from lookalike.measurements.marginals import NoisyMarginal, estimated_total
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.thresholds import threshold_probability
from lookalike.schema import times
from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.codec import holds_other
from lookalike.schema.columns import DEFAULT_BINS, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.domain import Domain
from lookalike.schema.enforce import aligned
from lookalike.schema.probes import GridProbe, Roundness, RowsPerPerson, form_probe
from lookalike.schema.schema import Schema
from lookalike.schema.storage import any_value, holds_identifiers


class _Step(NamedTuple):
    """A step of discovery: its name in the ledger, its share of discovery's budget, what it measures, and how."""

    name: str
    share: float
    note: str
    mechanism: str = "gaussian"


FORMS = _Step("discover: types and missing markers", 0.1, "how texts are written, missing markers, decimals")
VALUES = _Step("discover: frequent values", 0.5, "values of categories above a noisy threshold", "threshold")
RANGES = _Step("discover: ranges", 0.08, "smallest and largest numbers and times, on a public grid")
BINS = _Step("discover: bins", 0.2, "counts of narrower bins where there are rows")
ROUNDING = _Step(
    "discover: rounding", 0.07, "how often numbers are multiples of 5, 10, 50, ..., times whole minutes, hours, days"
)
PERSONS = _Step("discover: rows per person", 0.05, "how many persons have 1, 2, ... rows")
STEPS = (FORMS, VALUES, RANGES, BINS, ROUNDING, PERSONS)

_BIN_ROUNDS = (0.6, 0.25, 0.15)
"""Shares of the rounds of bins: the first shows where rows are, the others only what is within heavy cells."""
_VALUE_PASSES = (0.3, 0.7)
"""Shares of the two passes over frequent values."""
_MANY_LEFT, _MAX_WEIGHT = 2.0, 20.0
"""The second pass is for columns in which the rows without a found value exceed the first constant in standard
deviations. That number, at most the second constant, is the column's weight in the budget of the pass."""
_FIRST_CELLS, _CELL_PARTS = 128, 64
"""Cells of a column in the first round of bins, and parts into which each later round cuts a heavy cell."""
_MIN_BIN_ROWS = 5.0
"""Smallest number of rows of a bin, in standard deviations of noise, since its own count will be noisy too."""
_SINGLE_VALUES = 1.5
"""A range of at most this many times the wanted number of bins gets one bin for each of its values."""
_MAX_ROUNDING_STEPS = 16
_IDENTIFIER_SHARE = 0.5
"""A column of texts in which fewer than this share of rows hold frequent values is identifiers or free text."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Settings of private discovery.

    Attributes:
        share: part of the budget that discovery may spend; the method can use what is left.
        delta_share: part of delta for the thresholds of frequent values.
        max_bins: about how many bins a number or time gets.
        rules: whether rules between columns are searched for (`rules.py`); None for where the schema has open facts.
        rules_share: part of the budget that this search may spend, beside `share`.
    """

    share: float = 0.2
    delta_share: float = 0.1
    max_bins: int = 16
    rules: bool | None = None
    rules_share: float = rule_search.SHARE

    def __post_init__(self) -> None:
        shares = {"share": self.share, "delta_share": self.delta_share, "rules_share": self.rules_share}
        for name, value in shares.items():
            if not 0 < value < 1:
                raise BudgetError(f"The {name} of discovery is {value:g}; it must be between 0 and 1, such as 0.2.")
        if self.max_bins < 2:
            raise BudgetError(f"The max_bins of discovery is {self.max_bins}; it must be at least 2, such as 16.")

    def budget(self, schema: Schema, epsilon: float, delta: float, accounting: Accounting) -> Budget:
        """The run's budget, with a part of delta kept for thresholds where values may have to be found."""
        values = any({"values", "type"} & set(facts) for facts in schema.open_facts.values())
        return Budget(epsilon, delta, accounting, delta * self.delta_share if values else 0.0)

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

    def find_rules(self, door: GuardedTable) -> rule_search.FoundRules:
        """The door's schema, which has no open facts, with the rules that its rows keep."""
        return rule_search.find_rules(door, self._rules_rho(door.budget))

    def fill(self, door: GuardedTable) -> Schema:
        """The door's schema with all open facts filled, marked as measured."""
        return _Search(self, door).run()


class _Search:
    """One discovery: the columns as far as they are known, and estimated numbers of rows.

    Attributes:
        rows, rows_stddev: estimated number of rows and the noise on it.
        present: estimated number of rows in which each column has a value.
        left_over: rows of each column that hold none of the values found, in standard deviations of that estimate.
    """

    def __init__(self, settings: Discovery, door: GuardedTable) -> None:
        self.settings, self.door = settings, door
        self.rho = float(door.budget.rho) * settings.share
        self.columns = {column.name: column for column in door.schema.columns}
        self.rows, self.rows_stddev = 1.0, 0.0
        self.present: dict[str, float] = {}
        self.left_over: dict[str, float] = {}

    def run(self) -> Schema:
        self.find_rows_per_person()
        self.find_forms()
        self.find_values()
        grids = self.find_grids()
        roundings = self.find_rounding(grids)
        for name, grid in grids.items():
            self.columns[name] = self._with_bins(cast(Binned, self.columns[name]), grid, roundings.get(name, ()))
        return aligned(self.door.schema.with_columns([_closed(column) for column in self.columns.values()]))

    def find_rows_per_person(self) -> None:
        """The numbers of persons with 1, 2, ... rows: the rows of persons with k rows, divided by k."""
        people = {name: cast(Identifier, self.columns[name]) for name in self._open("repeats")}
        probes = [RowsPerPerson(name, base=column) for name, column in people.items()]
        for probe, answer in zip(probes, self._measure(probes, PERSONS), strict=True):
            persons = np.maximum(answer.values, 0.0) / np.arange(1, probe.regular + 1)
            weights = tuple(round(float(w), 3) for w in persons) if persons.sum() > 0 else (1.0,) * probe.regular
            self.columns[probe.name] = measured(people[probe.name], "repeats", repeats=weights)

    def find_forms(self) -> None:
        """Kind, format, decimals and missing markers of columns, and the number of rows."""
        probes = [form_probe(self.columns[name]) for name in self._open("type", "missing", "decimals")]
        answers = self._measure(probes, FORMS)
        if not answers:
            return
        self.rows = estimated_total(answers)
        self.rows_stddev = float(sum(1.0 / (answer.cells * answer.stddev**2) for answer in answers) ** -0.5)
        for probe, answer in zip(probes, answers, strict=True):
            column, absent = forms.decided(self.columns[probe.name], probe, answer.values, answer.stddev)
            self.columns[probe.name] = column
            self.present[probe.name] = max(self.rows - absent, 1.0)

    def find_values(self) -> None:
        """Frequent values of all columns, then with less noise those of columns that have many other values too.

        The more rows are left over, the larger is a column's share of the second pass, so that long lists get more.
        """
        names = [name for name in self._open("values") if isinstance(self.columns[name], Categorical)]
        found: dict[str, dict[str, float]] = {name: {} for name in names}
        budget = self.door.budget
        probability = threshold_probability(budget.threshold_delta, budget.epsilon) / len(_VALUE_PASSES)
        weights = dict.fromkeys(names, 1.0)
        for part in _VALUE_PASSES:
            for name, weight in weights.items():
                share = weight / sum(weights.values())
                stddev = self.door.stddev_for(self.rho * VALUES.share * part * share)
                values = self.door.frequent([name], stddev, probability / len(weights), step=VALUES.name)[0]
                found[name] = {**found[name], **values}
                self.left_over[name] = self._left_over(name, found[name], stddev)
            weights = {n: min(self.left_over[n], _MAX_WEIGHT) for n in weights if self.left_over[n] > _MANY_LEFT}
        for name, values in found.items():
            self.columns[name] = self._with_values(cast(Categorical, self.columns[name]), values)

    def find_grids(self) -> dict[str, Grid]:
        """Grids with counts: the occupied range cut up, and cells with many rows cut up further, round by round."""
        done = self._find_ranges([n for n in self._open("bounds", "bins") if isinstance(self.columns[n], Binned)])
        pending = {n: binning.split(g, -(-_FIRST_CELLS // len(g.edges)), every=True) for n, g in done.items()}
        for number, part in enumerate(_BIN_ROUNDS):
            probes = [_grid_probe(cast(Binned, self.columns[name]), grid) for name, (grid, _) in pending.items()]
            answers = self._measure(probes, BINS, part)
            for (name, (grid, parents)), answer in zip(list(pending.items()), answers, strict=True):
                new = binning.measured(grid, answer.values[:-1], answer.stddev)
                done[name] = binning.combined(done[name], new, parents)
                if number == 0:
                    done[name] = binning.trimmed(done[name])
                pending[name] = binning.split(done[name], _CELL_PARTS)
                if len(pending[name][0].edges) == len(done[name].edges):
                    del pending[name]
        return done

    def _find_ranges(self, names: Sequence[str]) -> dict[str, Grid]:
        """The occupied cells of a public grid for each column; one cell where bounds are declared."""
        columns = {name: cast(Binned, self.columns[name]) for name in names}
        found = {name: binning.one_cell(column) for name, column in columns.items() if not _lacks_bounds(column)}
        grids = {name: binning.coarse_grid(column) for name, column in columns.items() if _lacks_bounds(column)}
        probes = [_grid_probe(columns[name], grid) for name, grid in grids.items()]
        for probe, answer in zip(probes, self._measure(probes, RANGES), strict=True):
            grid = binning.measured(grids[probe.name], answer.values[:-1], answer.stddev)
            found[probe.name] = binning.occupied(grid, self.present.get(probe.name, self.rows), self.rows_stddev)
        return {name: found[name] for name in names}

    def find_rounding(self, grids: dict[str, Grid]) -> dict[str, tuple[tuple[int, float], ...]]:
        """How often the numbers of each column are multiples of round steps."""
        columns = {name: cast(Binned, self.columns[name]) for name, grid in grids.items() if grid.unit}
        steps = {name: _rounding_steps(grids[name], column) for name, column in columns.items()}
        probes = [Roundness(name, base=columns[name], steps=some) for name, some in steps.items() if len(some) > 1]
        answers = zip(probes, self._measure(probes, ROUNDING), strict=True)
        return {p.name: binning.rounding_of(p.steps, answer.values[:-1], answer.stddev) for p, answer in answers}

    def _open(self, *facts: str) -> list[str]:
        """Names of the columns that still lack one of these facts."""
        return [name for name, column in self.columns.items() if set(facts) & set(column.open_facts)]

    def _measure(self, probes: Sequence[Column], step: _Step, part: float = 1.0) -> list[NoisyMarginal]:
        """Noisy counts of the probes' classes, for a part of the budget of a step; an empty list for no probes."""
        if not probes:
            return []
        view = self.door.encoded(Schema(tuple(probes)))
        stddev = self.door.stddev_for(self.rho * step.share * part, len(probes))
        return view.measure([(probe.name,) for probe in probes], stddev, step=step.name)

    def _left_over(self, name: str, values: dict[str, float], stddev: float) -> float:
        """How many rows hold none of the values, in standard deviations of that estimate."""
        noise = np.hypot(self.rows_stddev, stddev * np.sqrt(max(len(values), 1)))
        return float((self.present.get(name, self.rows) - sum(values.values())) / max(noise, 1e-9))

    def _with_values(self, column: Categorical, values: dict[str, float]) -> Column:
        """The column with its frequent values; an identifier where few rows hold one."""
        known = sum(values.values()) >= _IDENTIFIER_SHARE * self.present.get(column.name, self.rows)
        if not values and column.storage.startswith("dictionary"):
            values = {any_value(column): 0.0}
        elif not known and holds_identifiers(column):
            marks = {fact: value for fact, value in column.provenance.items() if fact in Identifier.facts}
            shared: dict[str, Any] = {"missing": column.missing, "storage": column.storage, "provenance": marks}
            return Identifier(column.name, pattern="text-########", **shared)
        names = tuple(sorted(values, key=lambda value: -values[value]))
        more = column.has_other or self.left_over[column.name] > binning.SIGNIFICANT
        found = measured(column, "values", values=names, outside="absorb")
        return replace(found, outside="other") if more and holds_other(found) else found

    def _with_bins(self, column: Binned, grid: Grid, rounding: tuple[tuple[int, float], ...]) -> Column:
        """The column with bounds, bins and the shape of values within bins, from the counts of a grid."""
        edges, weights = binning.pieces_of(grid)
        declared = isinstance(column.bins, int) and column.bins != DEFAULT_BINS
        bins = self._bins(grid, edges, weights, column.bins if declared else self.settings.max_bins)
        shape = () if len(bins) == len(grid.edges) else _shape(edges, weights, bins)

        def value(position: int | float) -> Any:
            return column.external(column.numbers_at(position))

        return measured(
            column,
            "bounds",
            "bins",
            minimum=value(grid.edges[0].item()),
            maximum=value(grid.high),
            bins=tuple(value(edge) for edge in bins.tolist()),
            shape=tuple((value(edge), weight) for edge, weight in shape),
            rounding=rounding,
            outside="absorb",
        )

    @staticmethod
    def _bins(grid: Grid, edges: np.ndarray, weights: np.ndarray, wanted: int) -> np.ndarray:
        """Lower edges of the bins: one for each value where there are few, else about as many as wanted."""
        if grid.unit and len(grid.edges) <= _SINGLE_VALUES * wanted and grid.widths.max() == 1:
            return grid.edges
        return binning.bins_of(edges, weights, wanted, _MIN_BIN_ROWS * grid.stddev)


def _lacks_bounds(column: Column) -> bool:
    return "bounds" in column.open_facts


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
    return GridProbe(column.name, base=column, edges=column.numbers_at(grid.edges))


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
