"""What a run is likely to take and how wrong it is likely to be, from public facts alone.

Times and memory come from rates that were fitted to runs on made-up tables and on the papers' (benchmarks/forecast.py).
Errors are those of the planned noise, before a model is fitted to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from lookalike.errors import SchemaError
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.synthesizers.base import PlannedStep

USUAL_ROWS = 50_000
"""Rows for which time and memory are predicted where nobody says how many there are."""

_MOST_PAIR_CELLS = 2e7
_LEAST_SECONDS, _LEAST_MB = 0.1, 100.0


@dataclass(frozen=True, slots=True)
class Rate:
    """How one method's time and memory grow with the amounts of `work_of`, as fitted to stored runs.

    Attributes:
        seconds: CPU seconds per unit of each amount.
        seconds_off: by which factor the worst of these runs was off.
        memory: megabytes per unit of each amount.
        memory_off: the same for memory.
    """

    seconds: tuple[float, float, float, float, float]
    seconds_off: float
    memory: tuple[float, float, float, float, float]
    memory_off: float


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

    attrs: Clique
    cells: int
    stddev: float
    rows: float
    distance: float | None


def work_of(domain: Domain, rows: int) -> np.ndarray:
    """Amounts of work by which time and memory are predicted: a constant, values, pairs of columns, their cells."""
    active = np.array([size for size in domain.sizes if size > 1], dtype=float)
    pairs = len(active) * (len(active) - 1) / 2
    cells = min((active.sum() ** 2 - (active**2).sum()) / 2, _MOST_PAIR_CELLS)
    values = rows * len(domain)
    return np.array([1.0, 1e-6 * values, 1e-3 * pairs, 1e-6 * rows * pairs, 1e-6 * cells])


def resources(method: str, domain: Domain, rows: int | None, *, discovers: bool) -> Resources | None:
    """What a run is predicted to take with default settings; None for a method of which no runs were stored."""
    if method not in RATES:
        return None
    rows = USUAL_ROWS if rows is None else rows
    rates = [RATES[method], *([RATES["discovery"]] if discovers else [])]
    work = work_of(domain, rows)
    seconds = [max(float(work @ np.array(rate.seconds)), _LEAST_SECONDS) for rate in rates]
    memory = [max(float(work @ np.array(rate.memory)), _LEAST_MB) for rate in rates]
    return Resources(
        rows, sum(seconds), max(rate.seconds_off for rate in rates), max(memory), max(rate.memory_off for rate in rates)
    )


def column_errors(
    method: str, domain: Domain, steps: Sequence[PlannedStep], neighbours: Neighbours, rows: int | None
) -> list[ExpectedError]:
    """The noise on the counts of every column by themselves; nothing where a method does not count columns.

    Sets that hold a column are counted too, and a model that is fitted to both is nearer than either.
    """
    rho = sum(step.rho for step in steps if COUNTED.get(step.step) == "columns")
    if not rho:
        return []
    # AIM measures all columns with the same noise, as its paper does; the others by how many values they have.
    shares = allocate(domain.sizes, rho) if method != "aim" else np.full(len(domain), rho / len(domain))
    return [
        _error((name,), size, float(share), neighbours, rows)
        for name, size, share in zip(domain.names, domain.sizes, shares, strict=True)
    ]


def set_errors(
    method: str,
    domain: Domain,
    steps: Sequence[PlannedStep],
    neighbours: Neighbours,
    rows: int | None,
    sets: Sequence[Clique],
) -> tuple[list[ExpectedError], int]:
    """The noise on the counts of these sets, for each as if it were among those that are counted, and how many are.

    A set of c cells gets the share of an average set times (c / cells of a middling pair)^(2/3), which is how the
    methods divide their budgets, and half of the whole at most.
    """
    counted = [step for step in steps if COUNTED.get(step.step) == "sets"]
    budget = sum(step.rho for step in counted)
    if not budget:
        return [], 0
    fixed = [step.releases for step in counted if step.releases > 0]
    usually = max(1, round(SETS_PER_COLUMN.get(method, 1.0) * len(domain)))
    number = sum(fixed) if len(fixed) == len(counted) else usually
    usual = float(np.median([domain.cells(pair) for pair in _some_pairs(domain)] or [1]))
    errors = []
    for clique in map(domain.canonical, sets):
        cells = domain.cells(clique)
        share = min(budget / number * (cells / usual) ** (2 / 3), budget if number == 1 else budget / 2)
        errors.append(_error(clique, cells, share, neighbours, rows))
    return errors, number


def chosen_sets(domain: Domain, given: Sequence[str]) -> list[Clique]:
    """The sets named as `a,b`, or a small, a middling and a large pair of the table."""
    if given:
        return [_named(domain, text) for text in given]
    pairs = sorted(_some_pairs(domain), key=domain.cells)
    return list(dict.fromkeys((pairs[0], pairs[len(pairs) // 2], pairs[-1]))) if pairs else []


def _named(domain: Domain, text: str) -> Clique:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in domain.names]
    if unknown or len(set(names)) < 2:
        raise SchemaError(f"--pair {text!r} does not name two columns of the table; write --pair 'COLUMN,COLUMN'.")
    return domain.canonical(names)


def _some_pairs(domain: Domain) -> list[Clique]:
    """Pairs of columns with two or more values, of 60 columns at most."""
    active = [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]
    return list(combinations(active[:: max(1, len(active) // 60)], 2))


def _error(attrs: Clique, cells: int, rho: float, neighbours: Neighbours, rows: int | None) -> ExpectedError:
    stddev = math.sqrt(neighbours.squared_l2 / (2 * rho))
    misplaced = cells * stddev * math.sqrt(2 / math.pi) / 2
    return ExpectedError(attrs, cells, stddev, misplaced, misplaced / rows if rows else None)


COUNTED: dict[str, Literal["columns", "sets", "nothing"]] = {
    "one-way marginals": "columns",
    "chosen sets": "sets",
    "larger sets and their choice": "sets",
    "pairs of the tree": "sets",
    "chosen marginals": "sets",
    "first marginals": "sets",
    "further marginals and their choice": "sets",
    "marginals and their choice": "sets",
    "selected marginals": "sets",
    "views": "sets",
    "families of the network": "sets",
    "prefix histogram": "sets",
    # The number of rows.
    "number of rows": "nothing",
    "row count": "nothing",
    "number of seeds": "nothing",
    # Scores and choices.
    "pair scores": "nothing",
    "errors of the model": "nothing",
    "choices": "nothing",
    "parents of each column": "nothing",
    "queries": "nothing",
    # Sums of cells, rows or products, and rows: no noise on the cells of a set says how wrong they are.
    "groups of chosen marginals": "nothing",
    "chosen cells": "nothing",
    "products of ranks": "nothing",
    "gradients of the critic": "nothing",
    "votes of the teachers": "nothing",
    "rows from seeds": "nothing",
    "split into parts": "nothing",
    # What a schema leaves open.
    "discover: types and missing markers": "nothing",
    "discover: frequent values": "nothing",
    "discover: ranges": "nothing",
    "discover: bins": "nothing",
    "discover: rounding": "nothing",
    "discover: rows per person": "nothing",
}
"""What each step of a plan counts, by its name: every column, sets of several columns, or neither of them.

A step that also pays for a choice is taken for sets as a whole; the choice is the small part of it.
"""

SETS_PER_COLUMN = {"mosaic": 3.0, "aim": 2.8, "privmrf": 3.8, "privsyn": 4.2, "priview": 2.0}
"""About how many sets default settings counted on the papers' tables; 1 for others. A plan that says it goes first."""

RATES = {
    "aim": Rate((0, 1.46, 27.3, 0.435, 137), 7.1, (199, 0, 340, 0, 6.64e03), 1.5),
    "bsg": Rate((0.00219, 0.0992, 1.38, 0.0314, 0), 3.0, (174, 37.8, 0, 0, 211), 1.5),
    "discovery": Rate((0.0618, 0.834, 0, 0.00362, 7.75), 4.0, (175, 34.6, 0, 0, 32.3), 4.0),
    "dualquery": Rate((0.857, 4.24, 0, 0.108, 118), 4.0, (176, 26.8, 1.56, 0, 16), 4.0),
    "fem": Rate((0.343, 1.07, 4.33, 0.219, 103), 4.0, (179, 25.4, 36.7, 0, 49.7), 4.0),
    "independent": Rate((0.00882, 0.354, 0.518, 0, 0), 3.2, (176, 34.7, 0, 0, 279), 1.5),
    "mosaic": Rate((0, 0, 29.6, 2.79, 534), 2.1, (195, 0, 811, 0, 9.41e03), 1.5),
    "mst": Rate((0.0486, 0.367, 1.21, 0, 9.77), 1.7, (176, 36, 0, 0, 179), 1.5),
    "mwem": Rate((0.0399, 0, 0, 0.0729, 0), 4.0, (165, 0, 0, 31.1, 0), 4.0),
    "mwem-pgm": Rate((0, 0, 9.8, 0.211, 370), 4.0, (158, 35.4, 1.12e03, 0, 0), 4.0),
    "pb-pgm": Rate((0.0853, 0, 0, 0.11, 0), 4.0, (172, 31.5, 0, 0, 0), 4.0),
    "ppsyn": Rate((0, 0, 30.3, 0, 1.03e03), 4.0, (158, 37.8, 1.07e03, 0, 0), 4.0),
    "privbayes": Rate((0.0345, 0.00722, 0.334, 0.0479, 0), 4.0, (170, 31.2, 0, 0, 0), 4.0),
    "privmrf": Rate((0, 0, 21.7, 0.313, 20.2), 2.1, (184, 28.7, 713, 0, 4.61e03), 1.5),
    "privsyn": Rate((0.0224, 2.25, 0, 0.0665, 12.5), 1.5, (178, 87.9, 0, 0, 259), 1.5),
    "rap": Rate((0.568, 3.9, 7.88, 0.187, 78.8), 4.0, (175, 26.9, 1.82, 0, 135), 4.0),
}
"""Printed by benchmarks/forecast.py; `discovery` comes on top where facts are open."""
