"""What a run is likely to take and how wrong it is likely to be, from public facts alone.

Times and memory come from rates that were fitted to runs on made-up tables and on the papers' (benchmarks/forecast.py).
Errors are those of the planned noise, before a model is fitted to it.
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
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.selection.allocation import allocate
from lookalike.synthesizers import create
from lookalike.synthesizers.split import Kind, Step

USUAL_ROWS = 50_000
"""Rows for which time and memory are predicted where nobody says how many there are."""

_MAX_PAIR_CELLS = 2e7
_MIN_SECONDS, _MIN_MB = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Rate:
    """How one method's time and memory grow with the amounts of `work_of`, as fitted to stored runs.

    Attributes:
        seconds: CPU seconds per unit of each amount.
        seconds_off: by which factor the worst of these runs was off.
        memory: megabytes per unit of each amount.
        memory_off: the same for memory.
    """

    seconds: Sequence[float]
    seconds_off: float
    memory: Sequence[float]
    memory_off: float


@cache
def rates() -> dict[str, Rate]:
    """The rates by method, written by benchmarks/forecast.py; `discovery` comes on top where facts are open."""
    stored = json.loads(Path(__file__).with_name("forecast_rates.json").read_text())
    return {name: Rate(**rate) for name, rate in stored.items()}


@dataclass(frozen=True, slots=True)
class Resources:
    """Predicted CPU seconds and peak megabytes, and by which factor they may be off; of a run with so many rows."""

    rows: int
    seconds: float
    seconds_off: float
    memory_mb: float
    memory_off: float


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The noise that a plan puts on the counts of a set of columns.

    Attributes:
        attrs: the columns.
        cells: how many counts there are.
        stddev: of the noise on each.
        rows: expected number of rows that the noise puts into wrong cells, cells * stddev * sqrt(2/pi) / 2.
        distance: the same as a share of a given number of rows, which is the expected total variation distance as long
            as it is small; None where no number is given.
    """

    attrs: ColumnSet
    cells: int
    stddev: float
    rows: float
    distance: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Time, memory and errors to expect of a planned run. All follow from public facts; nothing is read.

    Attributes:
        method: the method, for `auto` the one that it chose.
        resources: predicted time and memory, None for a method without stored runs.
        columns: expected error of every column, where the method counts columns.
        pairs: expected error of the pairs that were asked for, each as if it were counted.
        sets: about how many sets of several columns are counted.
        guessed: columns of which discovery has yet to find values or bins; their numbers of cells are guesses.
    """

    method: str
    resources: Resources | None
    columns: list[ExpectedError]
    pairs: list[ExpectedError]
    sets: int
    guessed: list[str]


def forecast(
    schema: Schema,
    steps: tuple[Step, ...],
    *,
    method: str,
    neighbours: Neighbours,
    rows: int | None = None,
    pairs: tuple[str, ...] = (),
) -> Forecast:
    """Time, memory and errors to expect of a planned run.

    Args:
        schema: public facts about the columns.
        steps: the plan, from `plan_run`.
        method: the method that was planned.
        neighbours: what one person can change.
        rows: a public guess at the number of rows; without one errors are numbers of rows, not shares.
        pairs: pairs of columns as "a,b"; some of different sizes by default.
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
    )


def work_of(domain: Domain, rows: int) -> np.ndarray:
    """Amounts of work by which time and memory are predicted: a constant, values, pairs of columns, their cells."""
    active = np.array([size for size in domain.sizes if size > 1], dtype=float)
    pairs = len(active) * (len(active) - 1) / 2
    cells = min((active.sum() ** 2 - (active**2).sum()) / 2, _MAX_PAIR_CELLS)
    values = rows * len(domain)
    return np.array([1.0, 1e-6 * values, 1e-3 * pairs, 1e-6 * rows * pairs, 1e-6 * cells])


def resources(method: str, domain: Domain, rows: int | None, *, discovers: bool) -> Resources | None:
    """What a run is predicted to take with default settings; None for a method of which no runs were stored."""
    if method not in rates():
        return None
    rows = USUAL_ROWS if rows is None else rows
    parts = [rates()[name] for name in (method, *(["discovery"] if discovers else []))]
    work = work_of(domain, rows)
    seconds = [max(float(work @ np.array(part.seconds)), _MIN_SECONDS) for part in parts]
    memory = [max(float(work @ np.array(part.memory)), _MIN_MB) for part in parts]
    return Resources(
        rows, sum(seconds), max(part.seconds_off for part in parts), max(memory), max(part.memory_off for part in parts)
    )


def column_errors(
    domain: Domain, steps: Sequence[Step], neighbours: Neighbours, rows: int | None
) -> list[ExpectedError]:
    """The noise on the counts of every column by themselves; nothing where a method does not count columns.

    Sets that hold a column are counted too, and a model that is fitted to both is nearer than either.
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
    """The noise on the counts of these sets, for each as if it were among those that are counted, and how many are.

    Where the plan does not say how many, about `sets_per_column` for each column are.
    A set of c cells gets the share of an average set times (c / cells of a middling pair)^(2/3), which is how the
    methods divide their budgets, and half of the whole at most.
    """
    counted = [step for step in steps if step.kind == Kind.SETS]
    budget = sum(step.rho for step in counted)
    if not budget:
        return [], 0
    fixed = [step.releases for step in counted if step.releases > 0]
    usually = max(1, round(sets_per_column * len(domain)))
    number = sum(fixed) if len(fixed) == len(counted) else usually
    usual = float(np.median([domain.cells(pair) for pair in _some_pairs(domain)] or [1]))
    errors = []
    for clique in map(domain.canonical, sets):
        cells = domain.cells(clique)
        share = min(budget / number * (cells / usual) ** (2 / 3), budget if number == 1 else budget / 2)
        errors.append(_error(clique, cells, share, neighbours, rows))
    return errors, number


def chosen_sets(domain: Domain, given: Sequence[str]) -> list[ColumnSet]:
    """The sets named as `a,b`, or a small, a middling and a large pair of the table."""
    if given:
        return [_named(domain, text) for text in given]
    pairs = sorted(_some_pairs(domain), key=domain.cells)
    return list(dict.fromkeys((pairs[0], pairs[len(pairs) // 2], pairs[-1]))) if pairs else []


def _named(domain: Domain, text: str) -> ColumnSet:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in domain.names]
    if unknown or len(set(names)) < 2:
        raise SchemaError(f"--pair {text!r} does not name two columns of the table; write --pair 'COLUMN,COLUMN'.")
    return domain.canonical(names)


def _some_pairs(domain: Domain) -> list[ColumnSet]:
    """Pairs of columns with two or more values, of 60 columns at most."""
    active = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]
    return list(combinations(active[:: max(1, len(active) // 60)], 2))


def _error(attrs: ColumnSet, cells: int, rho: float, neighbours: Neighbours, rows: int | None) -> ExpectedError:
    stddev = math.sqrt(neighbours.squared_l2 / (2 * rho))
    misplaced = cells * stddev * math.sqrt(2 / math.pi) / 2
    return ExpectedError(attrs, cells, stddev, misplaced, misplaced / rows if rows else None)
