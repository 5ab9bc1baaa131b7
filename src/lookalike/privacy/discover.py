"""Facts that a schema leaves open, found by private measurements inside the run's own budget.

Five steps, each a fixed share of the budget that is set aside: how texts are written and which missing markers occur;
frequent values of categories; ranges of numbers and times on a public grid; bins by refining that grid where rows are;
and how numbers are rounded. All but the second are counts of public classes, so everything here is post-processing of
what the door returns. A fact of which the noise leaves no trace is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.thresholds import threshold_probability
from lookalike.schema import binning, forms, times
from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.binning import Grid as Cells
from lookalike.schema.codec import holds_other
from lookalike.schema.column import Column
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.domain import Domain
from lookalike.schema.enforce import aligned
from lookalike.schema.probes import Grid, Roundness, RowsPerPerson, form_probe
from lookalike.schema.schema import Schema
from lookalike.schema.storage import any_value, holds_identifiers
from lookalike.tables.measurement import NoisyMarginal, estimated_total

FORMS, VALUES, RANGES, BINS, ROUNDING, PERSONS = (
    "discover: types and missing markers", "discover: frequent values", "discover: ranges", "discover: bins",
    "discover: rounding", "discover: rows per person",
)  # fmt: skip
_SHARES = {FORMS: 0.1, VALUES: 0.5, RANGES: 0.08, BINS: 0.2, ROUNDING: 0.07, PERSONS: 0.05}
_ROUNDS = (0.6, 0.25, 0.15)
"""Shares of the rounds of bins: the first shows where rows are, the others only what is within heavy cells."""
_PASSES = (0.3, 0.7)
"""Shares of the two passes over frequent values."""
_MOST_WEIGHT = 20.0
_FIRST_CELLS, _PARTS = 128, 64
_IDENTIFIER_SHARE = 0.5
"""A column of texts of which no more than this share of rows holds frequent values is identifiers or free text."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Settings of private discovery.

    Attributes:
        share: part of the budget that discovery may spend; what it does not need is left for the method.
        delta_share: part of delta for the thresholds of frequent values.
        max_bins: about how many bins a number or time gets.
    """

    share: float = 0.2
    delta_share: float = 0.1
    max_bins: int = 16

    def __post_init__(self) -> None:
        for name, value in (("share", self.share), ("delta_share", self.delta_share)):
            if not 0 < value < 1:
                raise BudgetError(f"The {name} of discovery is {value:g}; it must be between 0 and 1.")
        if self.max_bins < 2:
            raise BudgetError(f"Discovery has max_bins {self.max_bins}; it must be at least 2.")

    def budget(self, schema: Schema, epsilon: float, delta: float, accounting: Accounting) -> Budget:
        """The run's budget, with a part of delta kept for thresholds where values may have to be found."""
        values = any({"values", "type"} & set(facts) for facts in schema.open_facts.values())
        return Budget(epsilon, delta, accounting, delta * self.delta_share if values else 0.0)

    def nominal(self, schema: Schema) -> Domain:
        """The domain as far as it is known, with `max_bins` codes for every column whose values are still open."""
        sizes = tuple(_nominal_size(column, self.max_bins) for column in schema.columns)
        return Domain(schema.names, sizes)

    def plan(self, schema: Schema, budget: Budget) -> list[tuple[str, str, float, str]]:
        """Step, mechanism, most rho and what for, of all that could be needed for what the schema leaves open."""
        notes = {
            FORMS: "how texts are written, missing markers, decimals",
            VALUES: "values of categories above a noisy threshold",
            RANGES: "smallest and largest numbers and times, on a public grid",
            BINS: "counts of finer cells where rows are",
            ROUNDING: "how often numbers are multiples of 5, 10, 50, ..., times whole minutes, hours, days",
            PERSONS: "how many persons have 1, 2, ... rows",
        }
        if not schema.open_facts:
            return []
        rho = float(budget.rho) * self.share
        persons = any("repeats" in facts for facts in schema.open_facts.values())
        others = any(set(facts) - {"repeats"} for facts in schema.open_facts.values())
        return [
            (step, "threshold" if step == VALUES else "gaussian", rho * _SHARES[step], note)
            for step, note in notes.items()
            if (persons if step == PERSONS else others)
        ]

    def fill(self, door: GuardedTable) -> Schema:
        """The door's schema with all open facts filled, marked as measured."""
        return _Search(self, door, float(door.budget.rho) * self.share).run()


class _Search:
    """One discovery: the columns as far as they are known, and the estimated number of rows."""

    def __init__(self, settings: Discovery, door: GuardedTable, rho: float) -> None:
        self.settings, self.door, self.rho = settings, door, rho
        self.columns = {column.name: column for column in door.schema.columns}
        self.rows, self.rows_stddev = 1.0, 0.0
        self.rest: dict[str, float] = {}
        self.present: dict[str, float] = {}

    def run(self) -> Schema:
        open_names = [name for name, column in self.columns.items() if column.open_facts]
        self._find_repeats([n for n in open_names if "repeats" in self.columns[n].open_facts])
        self._find_forms(open_names)
        self._find_values([n for n in open_names if _is_open(self.columns[n], Categorical, "values")])
        binned = [n for n in open_names if isinstance(self.columns[n], Binned)]
        grids = self._refine([n for n in binned if {"bounds", "bins"} & set(self.columns[n].open_facts)])
        roundings = self._find_rounding(grids)
        for name, grid in grids.items():
            self.columns[name] = self._with_bins(cast(Binned, self.columns[name]), grid, roundings.get(name, ()))
        return aligned(self.door.schema.with_columns([_closed(column) for column in self.columns.values()]))

    def _measure(self, probes: Sequence[Column], step: str, part: float = 1.0) -> list[NoisyMarginal]:
        """One-way counts of probes, for a step's share of the budget or a part of it."""
        view = self.door.encoded(Schema(tuple(probes)))
        stddev = self.door.stddev_for(self.rho * _SHARES[step] * part, len(probes))
        return view.measure([(probe.name,) for probe in probes], stddev, step=step)

    def _find_forms(self, names: Sequence[str]) -> None:
        asked = [n for n in names if {"type", "missing", "decimals"} & set(self.columns[n].open_facts)]
        if not asked:
            return
        probes = [form_probe(self.columns[name]) for name in asked]
        answers = self._measure(probes, FORMS)
        self.rows = estimated_total(answers)
        self.rows_stddev = float(sum(1.0 / (answer.cells * answer.stddev**2) for answer in answers) ** -0.5)
        for probe, answer in zip(probes, answers, strict=True):
            column, absent = forms.decided(self.columns[probe.name], probe, answer.values, answer.stddev)
            self.columns[probe.name] = column
            self.present[probe.name] = max(self.rows - absent, 1.0)

    def _find_repeats(self, names: Sequence[str]) -> None:
        """Numbers of persons by their numbers of rows: the rows of persons with k rows, divided by k."""
        if not names:
            return
        people = {name: cast(Identifier, self.columns[name]) for name in names}
        probes = [RowsPerPerson(name, base=column) for name, column in people.items()]
        for probe, answer in zip(probes, self._measure(probes, PERSONS), strict=True):
            persons = np.maximum(answer.values, 0.0) / np.arange(1, probe.most + 1)
            column = people[probe.name]
            weights = tuple(round(float(weight), 3) for weight in persons) if persons.sum() > 0 else (1.0,) * probe.most
            self.columns[probe.name] = replace(column, repeats=weights, provenance=_marks(column, "repeats"))

    def _find_values(self, names: Sequence[str]) -> None:
        """Frequent values of all columns, then once more, with less noise, of those that hold many others too.

        The second time each column gets a share by how many rows were left over, so that a long list is told furthest.
        """
        found: dict[str, dict[str, float]] = {name: {} for name in names}
        budget = self.door.budget
        probability = threshold_probability(budget.threshold_delta, budget.epsilon) / len(_PASSES)
        weights = dict.fromkeys(names, 1.0)
        for part in _PASSES:
            for name, weight in weights.items():
                share = weight / sum(weights.values())
                stddev = self.door.stddev_for(self.rho * _SHARES[VALUES] * part * share)
                values = self.door.frequent([name], stddev, probability / len(weights), step=VALUES)[0]
                found[name] = {**found[name], **values}
                self.rest[name] = self._rest(name, found[name], stddev)
            weights = {name: min(self.rest[name], _MOST_WEIGHT) for name in weights if self.rest[name] > 2.0}
        for name, values in found.items():
            self.columns[name] = self._with_values(cast(Categorical, self.columns[name]), values)

    def _rest(self, name: str, values: dict[str, float], stddev: float) -> float:
        """How many rows hold none of the values, in standard deviations of that estimate."""
        noise = np.hypot(self.rows_stddev, stddev * np.sqrt(max(len(values), 1)))
        return float((self.present.get(name, self.rows) - sum(values.values())) / max(noise, 1e-9))

    def _with_values(self, column: Categorical, values: dict[str, float]) -> Column:
        known = sum(values.values()) >= _IDENTIFIER_SHARE * self.present.get(column.name, self.rows)
        if not values and column.storage.startswith("dictionary"):
            values = {any_value(column): 0.0}
        elif not known and holds_identifiers(column):
            marks = {fact: value for fact, value in column.provenance.items() if fact in Identifier.facts}
            shared: dict[str, Any] = {"missing": column.missing, "storage": column.storage, "provenance": marks}
            return Identifier(column.name, pattern="text-########", **shared)
        names = tuple(sorted(values, key=lambda value: -values[value]))
        more = column.has_other or self.rest[column.name] > binning.SIGNIFICANT
        found = replace(column, values=names, outside="absorb", provenance=_marks(column, "values"))
        return replace(found, outside="other") if more and holds_other(found) else found

    def _find_ranges(self, names: Sequence[str]) -> dict[str, Cells]:
        """The occupied cells of a public grid for each column; one cell where bounds are declared."""
        columns = {name: cast(Binned, self.columns[name]) for name in names}
        asked = [name for name, column in columns.items() if "bounds" in column.open_facts]
        found = {name: binning.one_cell(columns[name]) for name in names if name not in asked}
        if asked:
            cells = {name: binning.coarse_grid(columns[name]) for name in asked}
            probes = [_grid_probe(columns[name], cells[name]) for name in asked]
            for name, answer in zip(asked, self._measure(probes, RANGES), strict=True):
                grid = binning.measured(cells[name], answer.values[:-1], answer.stddev)
                found[name] = binning.occupied(grid, self.present.get(name, self.rows), self.rows_stddev)
        return {name: found[name] for name in names}

    def _refine(self, names: Sequence[str]) -> dict[str, Cells]:
        """Grids with counts: the occupied range cut up, and cells with many rows cut up further, round by round."""
        done = self._find_ranges(names)
        pending = {n: binning.split(g, -(-_FIRST_CELLS // len(g.edges)), every=True) for n, g in done.items()}
        for number, part in enumerate(_ROUNDS):
            if not pending:
                break
            probes = [_grid_probe(cast(Binned, self.columns[name]), grid) for name, (grid, _) in pending.items()]
            answers = self._measure(probes, BINS, part)
            for (name, (grid, parents)), answer in zip(list(pending.items()), answers, strict=True):
                new = binning.measured(grid, answer.values[:-1], answer.stddev)
                done[name] = binning.combined(done[name], new, parents)
                if number == 0:
                    done[name] = binning.trimmed(done[name])
                pending[name] = binning.split(done[name], _PARTS)
                if len(pending[name][0].edges) == len(done[name].edges):
                    del pending[name]
        return done

    def _find_rounding(self, grids: dict[str, Cells]) -> dict[str, tuple[tuple[int, float], ...]]:
        probes: list[Roundness] = []
        for name, grid in grids.items():
            column = cast(Binned, self.columns[name])
            steps = _steps(grid, column)
            if grid.unit and len(steps) > 1:
                probes.append(Roundness(name, base=column, steps=steps))
        if not probes:
            return {}
        answers = zip(probes, self._measure(probes, ROUNDING), strict=True)
        return {p.name: binning.rounding_of(p.steps, answer.values[:-1], answer.stddev) for p, answer in answers}

    def _with_bins(self, column: Binned, grid: Cells, rounding: tuple[tuple[int, float], ...]) -> Column:
        low, high = grid.edges[0].item(), grid.high
        edges, weights = binning.pieces_of(grid)
        wanted = column.bins if isinstance(column.bins, int) and column.bins != 32 else self.settings.max_bins
        bins = grid.edges if grid.unit and len(grid.edges) <= 1.5 * wanted and grid.widths.max() == 1 else None
        bins = binning.bins_of(edges, weights, wanted, 5 * grid.stddev) if bins is None else bins
        shape = () if len(bins) == len(grid.edges) else _shape(edges, weights, bins)
        scale = binning.scale_of(column)
        return replace(
            column,
            minimum=column.external(low / scale) if scale != 1.0 else column.external(low),
            maximum=column.external(high / scale) if scale != 1.0 else column.external(high),
            bins=tuple(column.external(edge / scale if scale != 1.0 else edge) for edge in bins.tolist()),
            shape=tuple((column.external(e / scale if scale != 1.0 else e), w) for e, w in shape),
            rounding=rounding,
            outside="absorb",
            provenance=_marks(column, "bounds", "bins"),
        )


def _is_open(column: Column, kind: type[Column], fact: str) -> bool:
    return isinstance(column, kind) and fact in column.open_facts


def _nominal_size(column: Column, guess: int) -> int:
    """How many codes a column has, or the guess where its values are still open."""
    if isinstance(column, Identifier):
        return 1 + len(column.missing)
    return guess if {"type", "values", "bounds", "bins"} & set(column.open_facts) else _closed(column).size


def _marks(column: Column, *facts: str) -> dict[str, Any]:
    return {**column.provenance, **dict.fromkeys(facts, "measured")}


def _closed(column: Column) -> Column:
    """The column with every remaining open mark turned into measured: nothing was found there, which is a finding."""
    if isinstance(column, Undeclared):
        raise RuntimeError(f"discovery left the kind of {column.name!r} open")
    marks = {fact: "measured" if value == "open" else value for fact, value in column.provenance.items()}
    return replace(column, provenance=cast(Any, marks))


def _grid_probe(column: Binned, grid: Cells) -> Grid:
    scale = binning.scale_of(column)
    return Grid(column.name, base=column, edges=grid.edges / scale if scale != 1.0 else grid.edges)


def _steps(grid: Cells, column: Binned) -> tuple[int, ...]:
    """1, 5, 10, 50, ... up to a quarter of the range; minutes, hours and days for times in seconds."""
    span = grid.high - float(grid.edges[0])
    if isinstance(column, Datetime):
        ticks = [tick // times.TICKS[column.resolution] for tick in reversed(times.TICKS.values())]
        return tuple(step for step in ticks if step == 1 or 1 < step <= span / 4)
    steps = [1]
    while steps[-1] * (5 if len(steps) % 2 else 2) <= span / 4 and len(steps) < 16:
        steps.append(steps[-1] * (5 if len(steps) % 2 else 2))
    return tuple(steps)


def _shape(edges: np.ndarray, weights: np.ndarray, bins: np.ndarray) -> tuple[tuple[Any, float], ...]:
    missing = [edge for edge in bins.tolist() if edge not in set(edges.tolist())]
    if missing:
        raise RuntimeError("a bin starts within a piece")
    return tuple((edge, round(weight, 3)) for edge, weight in zip(edges.tolist(), weights.tolist(), strict=True))
