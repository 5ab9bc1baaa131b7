"""One audit: many runs on two neighbouring tables, one event, and the epsilon that it shows; the tables of audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.audit.events import Features, best_event, epsilon_shown, features, gaussian_epsilon_shown
from lookalike.privacy.kernel.neighbours import Neighbours

ROWS = 30
SECRET = "Zzyzx"


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and the rows of one more person, which its neighbour has in addition.

    Attributes:
        name: what is special about that person.
        table: the rows of all others.
        extra: the rows of that person.
        arguments: arguments of the run: schema, person column, neighbours.
    """

    name: str
    table: pa.Table
    extra: pa.Table
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def neighbour(self) -> pa.Table:
        return pa.concat_tables([self.table, self.extra])


def cases() -> list[Case]:
    """Return the pairs of tables of an audit: in each, one person has something that nobody else has."""
    texts = _texts()
    people = texts.append_column("who", pa.array([f"p{i // 2}" for i in range(ROWS)]))
    twice = {"person": "who", "neighbours": Neighbours(max_rows_per_person=2)}
    lone = {"who": "lone", "town": SECRET}
    sizes = {"a": 2, "b": 2, "c": 2}
    codes = pa.table({name: np.zeros(ROWS, dtype=np.int32) for name in sizes})
    return [
        Case("new category", texts, _row(texts, town=SECRET)),
        Case("extreme number", texts, _row(texts, pay="987654321012.75")),
        Case("new maximum", texts, _row(texts, age="119")),
        Case("lone null", texts, _row(texts, age=None)),
        Case("lone person", people, pa.concat_tables([_row(people, **lone), _row(people, **lone)]), twice),
        Case("the first row", texts.slice(0, 0), _row(texts, town=SECRET)),
        Case("declared columns", codes, pa.table({n: np.ones(1, dtype=np.int32) for n in "abc"}), {"schema": sizes}),
    ]


def _texts() -> pa.Table:
    """Return a table of texts, as in a CSV file: categories, whole numbers, decimals, days."""
    number = np.arange(ROWS)
    return pa.table(
        {
            "town": pa.array(np.array(["Ox", "Rye"])[number % 2]),
            "age": pa.array([str(20 + 3 * (i % 15)) for i in number]),
            "pay": pa.array([f"{1000 + 37 * i}.50" for i in number]),
            "seen": pa.array([f"2024-{1 + i % 12:02d}-1{i % 9}" for i in number]),
        }
    )


def _row(table: pa.Table, **values: str | None) -> pa.Table:
    """Return one typical row with the columns of `table`, except for these values."""
    chosen = {"town": "Ox", "age": "35", "pay": "1500.50", "seen": "2024-05-11", "who": "p0", **values}
    return pa.table({name: pa.array([chosen[name]], pa.string()) for name in table.column_names})


@dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee that a run claims.

    Attributes:
        gaussian: whether it claims Gaussian DP, which allows a stronger audit.
        threshold_delta: part of delta that noisy thresholds use.
    """

    epsilon: float
    delta: float
    gaussian: bool = False
    threshold_delta: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of an audit.

    Attributes:
        event: the event in words, "none" if all runs wrote the same.
        hits: number of runs with the event, on the table where it is more likely and on the other.
        runs: number of runs of each table in which the event was counted.
        epsilon: the epsilon that the event shows.
        detectable: the largest epsilon that this number of runs can show.
        claim: the guarantee that was claimed.
    """

    event: str
    hits: tuple[int, int]
    runs: int
    epsilon: float
    detectable: float
    claim: Claim

    @property
    def broken(self) -> bool:
        """Whether the claim is contradicted."""
        return self.epsilon > self.claim.epsilon


def try_pair(
    left: Callable[[], Any],
    right: Callable[[], Any],
    claim: Claim,
    *,
    runs: int,
    rng: np.random.Generator,
    failure: float = 1e-6,
) -> Finding:
    """Search for an event that contradicts the claim, in `runs` runs on each of two neighbouring tables.

    Args:
        left: makes one run on the first table and returns all that it wrote: numbers, texts, lists and mappings.
        right: the same for the neighbour.
        claim: the guarantee to contradict.
        runs: number of runs of each table; in a third of them the event is chosen, in the others counted.
        rng: shuffles the runs of the two tables, so that clocks and caches affect both alike.
        failure: probability of calling a true claim false.
    """
    found: tuple[list[Features], list[Features]] = ([], [])
    for side in rng.permutation(np.repeat([0, 1], runs)):
        found[side].append(features((left, right)[side]()))
    return judge(found[0], found[1], claim, failure)


def judge(left: list[Features], right: list[Features], claim: Claim, failure: float) -> Finding:
    """Return the finding from the features of equally many runs of two tables."""
    chosen = len(left) // 3
    event = best_event(left[:chosen], right[:chosen], claim.delta)
    counted = len(left) - chosen
    detectable = _shown(counted, 0, counted, claim, failure)
    if event is None:
        return Finding("none", (0, 0), counted, 0.0, detectable, claim)
    hits = [sum(map(event.happened, side[chosen:])) for side in (left, right)]
    here, there = hits if event.left else hits[::-1]
    shown = _shown(here, there, counted, claim, failure)
    return Finding(event.describe(), (here, there), counted, shown, detectable, claim)


def _shown(here: int, there: int, runs: int, claim: Claim, failure: float) -> float:
    shown = epsilon_shown(here, there, runs, delta=claim.delta, failure=failure)
    if not claim.gaussian:
        return shown
    parts = {"delta": claim.delta, "threshold_delta": claim.threshold_delta, "failure": failure}
    return max(shown, gaussian_epsilon_shown(here, there, runs, **parts))
