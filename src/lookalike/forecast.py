"""Forecasts of time, memory and errors of a run, from public facts alone.

Time and memory come from rates that were fitted to runs on made-up tables and tables of the papers
(benchmarks/scale/forecast.py). Errors are those of the planned noise, before a model is fitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from lookalike.discovery.discover import Discovery
from lookalike.errors import SchemaError
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.selection.steps import allocate
from lookalike.synthesizers import create
from lookalike.synthesizers.split import Kind, Step

USUAL_ROWS = 50_000
"""Number of rows for which time and memory are predicted if none is given."""

LONG_RUN = 600
"""Predicted seconds above which a run says so before it spends."""

_MAX_PAIR_CELLS = 2e7
_MIN_SECONDS, _MIN_MB = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Rate:
    """How one method's time and memory grow with the amounts of `work_of`, as fitted to stored runs.

    Attributes:
        seconds: CPU seconds per unit of each amount.
        seconds_off: largest ratio between a stored run and its prediction.
        memory: megabytes per unit of each amount.
        memory_off: the same for memory.
    """

    seconds: Sequence[float]
    seconds_off: float
    memory: Sequence[float]
    memory_off: float


@cache
def rates() -> dict[str, Rate]:
    """Return the rates by method; those of `discovery` are added if the schema leaves facts open."""
    stored = json.loads(Path(__file__).with_name("forecast_rates.json").read_text())
    return {name: Rate(**rate) for name, rate in stored.items()}


@dataclass(frozen=True, slots=True)
class Resources:
    """Predicted CPU seconds and peak megabytes of a run, and by which factor each may be off."""

    rows: int
    seconds: float
    seconds_off: float
    memory_mb: float
    memory_off: float


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The expected error of the counts of a column set, from the noise of a plan.

    Attributes:
        attrs: the columns.
        cells: number of cells.
        stddev: standard deviation of the noise on each count.
        rows: expected number of rows that the noise puts into wrong cells, cells * stddev * sqrt(2/pi) / 2.
        distance: the same as a share of the number of rows, which is the expected total variation distance while it is
            small; None if no number of rows is given.
    """

    attrs: ColumnSet
    cells: int
    stddev: float
    rows: float
    distance: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected time, memory and errors of a planned run.

    Attributes:
        method: the method; for `auto` the one that it chose.
        resources: predicted time and memory; None for a method without stored runs.
        columns: expected error of every column, if the method measures single columns.
        pairs: expected error of the requested pairs, each as if it were measured.
        sets: approximate number of sets of several columns that are measured.
        guessed: columns whose values or bins are still to be discovered; their numbers of cells are guesses.
        passes: how often the rows of a table that stays where it is are read; None where no run was counted.
    """

    method: str
    resources: Resources | None
    columns: list[ExpectedError]
    pairs: list[ExpectedError]
    sets: int
    guessed: list[str]
    passes: int | None = None

    @property
    def is_long(self) -> bool:
        """Whether the run is predicted to take so long that people should know before they spend."""
        return self.resources is not None and self.resources.seconds > LONG_RUN


def forecast(
    schema: Schema,
    steps: tuple[Step, ...],
    *,
    method: str,
    neighbours: Neighbours,
    rows: int | None = None,
    pairs: Sequence[str | ColumnSet] = (),
) -> Forecast:
    """Return the expected time, memory and errors of a planned run.

    Args:
        schema: public facts about the columns.
        steps: the plan, from `plan_run`.
        method: the method that was planned.
        neighbours: what one person can change.
        rows: approximate public number of rows; without it errors are not given as shares.
        pairs: pairs of columns, also as "a,b"; by default a small, a medium and a large one.
    """
    domain = Discovery().nominal(schema)
    used = create(method, {}).chosen(domain)
    errors, sets = set_errors(used.info.sets_per_column, domain, steps, neighbours, rows, chosen_sets(domain, pairs))
    return Forecast(
        used.name,
        resources(used.name, domain, rows, discovers=bool(schema.open_facts)),
        column_errors(domain, steps, neighbours, rows),
        errors,
        sets,
        [name for name, facts in schema.open_facts.items() if {"type", "values", "bounds", "bins"} & set(facts)],
        passes_of(used.name, discovers=bool(schema.open_facts)),
    )


def passes_of(method: str, *, discovers: bool) -> int | None:
    """Return how often a run reads a table that stays in large files, in a database or on a cluster.

    Counted on a table of 8 columns (benchmarks/scale/passes.py); wider tables may need more.
    """
    counted = _passes()
    return counted[method] + (counted["discovery"] if discovers else 0) if method in counted else None


@cache
def _passes() -> dict[str, int]:
    return json.loads(Path(__file__).with_name("forecast_passes.json").read_text())


def work_of(domain: Domain, rows: int) -> np.ndarray:
    """Return the amounts of work that predict time and memory: a constant, values, pairs of columns, their cells."""
    active = np.array([size for size in domain.sizes if size > 1], dtype=float)
    pairs = len(active) * (len(active) - 1) / 2
    cells = min((active.sum() ** 2 - (active**2).sum()) / 2, _MAX_PAIR_CELLS)
    values = rows * len(domain)
    return np.array([1.0, 1e-6 * values, 1e-3 * pairs, 1e-6 * rows * pairs, 1e-6 * cells])


def resources(method: str, domain: Domain, rows: int | None, *, discovers: bool) -> Resources | None:
    """Return the predicted time and memory of a run with default settings; None for a method without stored runs."""
    if method not in rates():
        return None
    rows = USUAL_ROWS if rows is None else rows
    parts = [rates()[name] for name in (method, *(["discovery"] if discovers else []))]
    work = work_of(domain, rows)
    seconds = [max(float(work @ np.array(part.seconds)), _MIN_SECONDS) for part in parts]
    memory = [max(float(work @ np.array(part.memory)), _MIN_MB) for part in parts]
    off = max(part.seconds_off for part in parts), max(part.memory_off for part in parts)
    return Resources(rows, sum(seconds), off[0], max(memory), off[1])


def column_errors(
    domain: Domain, steps: Sequence[Step], neighbours: Neighbours, rows: int | None
) -> list[ExpectedError]:
    """Return the expected error of every column, or nothing if the method does not measure single columns.

    This is the noise alone. Rows may be closer where larger sets confirm the counts, or further off where values are
    rare or no model fits all that was measured.
    """
    alike = sum(step.rho for step in steps if step.kind == Kind.COLUMNS_ALIKE) / len(domain)
    shares = alike + allocate(domain.sizes, sum(step.rho for step in steps if step.kind == Kind.COLUMNS))
    if not shares.any():
        return []
    return [
        _error((name,), size, float(share), neighbours, rows)
        for name, size, share in zip(domain.names, domain.sizes, shares, strict=True)
    ]


def set_errors(
    sets_per_column: float,
    domain: Domain,
    steps: Sequence[Step],
    neighbours: Neighbours,
    rows: int | None,
    sets: Sequence[ColumnSet],
) -> tuple[list[ExpectedError], int]:
    """Return the expected errors of these column sets, each as if it were measured, and the number of measured sets.

    If the plan does not fix that number, it is about `sets_per_column` for each column. A set of c cells gets the share
    of an average set times (c / cells of a median pair)^(2/3), as methods divide their budgets, and at most half of
    the whole.
    """
    counted = [step for step in steps if step.kind == Kind.SETS]
    budget = sum(step.rho for step in counted)
    if not budget:
        return [], 0
    fixed = [step.releases for step in counted if step.releases > 0]
    number = sum(fixed) if len(fixed) == len(counted) else max(1, round(sets_per_column * len(domain)))
    median_cells = float(np.median([domain.cells(pair) for pair in _some_pairs(domain)] or [1]))
    errors = []
    for columns in map(domain.canonical, sets):
        cells = domain.cells(columns)
        share = min(budget / number * (cells / median_cells) ** (2 / 3), budget if number == 1 else budget / 2)
        errors.append(_error(columns, cells, share, neighbours, rows))
    return errors, number


def chosen_sets(domain: Domain, given: Sequence[str | ColumnSet]) -> list[ColumnSet]:
    """Return the sets that are given as `a,b`, or a small, a medium and a large pair."""
    if given:
        return [_named(domain, text) for text in given]
    pairs = sorted(_some_pairs(domain), key=domain.cells)
    return list(dict.fromkeys((pairs[0], pairs[len(pairs) // 2], pairs[-1]))) if pairs else []


def _named(domain: Domain, text: str | ColumnSet) -> ColumnSet:
    names = [name.strip() for name in text.split(",")] if isinstance(text, str) else list(text)
    unknown = [name for name in names if name not in domain.names]
    if unknown or len(set(names)) < 2:
        raise SchemaError(f"--pair {text!r} does not name two columns of the table; write --pair 'COLUMN,COLUMN'.")
    return domain.canonical(names)


def _some_pairs(domain: Domain) -> list[ColumnSet]:
    """Return pairs of columns with at least two values, from about 60 columns at most."""
    active = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]
    return list(combinations(active[:: max(1, len(active) // 60)], 2))


def _error(attrs: ColumnSet, cells: int, rho: float, neighbours: Neighbours, rows: int | None) -> ExpectedError:
    stddev = math.sqrt(neighbours.squared_l2 / (2 * rho))
    misplaced = cells * stddev * math.sqrt(2 / math.pi) / 2
    return ExpectedError(attrs, cells, stddev, misplaced, misplaced / rows if rows else None)
