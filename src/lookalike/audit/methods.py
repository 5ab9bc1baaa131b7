"""Audits of whole runs of a method on tiny made-up tables: from all its noisy answers, and from the table alone.

Three audits. *All answers*: the exact log-likelihood ratio of everything that the door answered in a run, with one
person and without (`watched.py`). *The table alone*: how often the synthetic table repeats the person's values. *Many
rows at once*: each of some rows is put in by a separate coin toss, and the tosses are guessed from the noisy counts of
the rows' own cells (Steinke, Nasr, Jagielski 2023). Several such runs on separate tables are one release of all of
them, to which the same theorem applies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.audit.bounds import Promised, guesses_epsilon, number_of_guesses
from lookalike.audit.mechanisms import FAILURE, Shown, judged
from lookalike.audit.watched import Pair, WatchedTable
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.pipeline import prepare
from lookalike.privacy.journal import Recording
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import Ledger
from lookalike.schema.schema import Schema
from lookalike.synthesizers.split import limits_of

Progress = Callable[[str, float], None]

_SIZES = {"a": 2, "b": 2, "c": 2}
_BASE, _PERSON = np.zeros((30, 3), dtype=np.int32), np.ones((1, 3), dtype=np.int32)
_CANARIES = 15
"""Inserted rows per run: row i has value i + 1 in each of two columns, so that no other row shares its cells."""
_LARGEST_TABLE = 1000
"""Rows of the synthetic table that are looked at: noise at a small epsilon can ask for millions."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What one run gave: its total log-likelihood ratio, its noisy marginals, and synthetic rows."""

    log_ratio: float
    released: list[NoisyMarginal]
    rows: np.ndarray


@dataclass(frozen=True, slots=True)
class MethodAudit:
    """Audits of one method at one budget, with declared columns, so that the method spends all of it.

    >>> audit = MethodAudit("independent", 4.0, 1e-5)
    >>> audit.promised.kind, round(audit.promised.strength, 2)
    ('gdp', 0.92)
    """

    method: str
    epsilon: float
    delta: float

    @property
    def promised(self) -> Promised:
        budget = self._prepared(_SIZES).budget
        return Promised(budget.accounting, math.sqrt(2 * budget.rho), self.delta)

    def _prepared(self, sizes: dict[str, int]) -> Any:
        return prepare(None, schema=Schema.from_sizes(sizes).to_dict(), epsilon=self.epsilon, delta=self.delta,
                       method=self.method)  # fmt: skip

    def run(self, codes: np.ndarray, sizes: dict[str, int], pair: Pair | None = None) -> Answers:
        """Make one run of the method through the real door, with secret noise and a ledger in memory."""
        prepared = self._prepared(sizes)
        account = Ledger(None, "audited table").begin(
            method=self.method, schema="", budget=prepared.budget, neighbours=Neighbours()
        )
        table = pa.table({name: pa.array(codes[:, i]) for i, name in enumerate(sizes)})
        door = open_table(table, prepared.schema, prepared.budget, account, neighbours=Neighbours())
        account.keep_to(limits_of(prepared.plan))
        method = prepared.method.chosen(door.domain)
        split, recording, rng = method.split(door.domain, door.remaining), Recording(), np.random.default_rng()
        door = door.recorded_by(recording)
        seen = WatchedTable(door, pair) if pair is not None else None
        model = method.fit(seen or door, split, rng=rng, progress=lambda message, done: None)
        total = sum(float(part.sum()) for part in seen.log_ratios) if seen is not None else 0.0
        number = round(min(max(estimated_total(recording.released), 0), _LARGEST_TABLE))
        rows = model.sample(number, rng) if number else np.zeros((0, len(sizes)), dtype=np.int32)
        return Answers(total, recording.released, rows)

    def likelihoods(self, runs: int, progress: Progress) -> tuple[Shown, Shown]:
        """Return what `runs` runs on each table show, by all answers and by the synthetic table alone.

        The event of the first is a ratio above 0. The threshold of the second is the median of a third of the runs,
        which are then not counted.
        """
        both = _BASE, np.vstack([_BASE, _PERSON])
        pair = Pair(Schema.from_sizes(_SIZES).domain, *both)
        found = np.empty((2, 2, runs))
        for i in range(runs):
            for side in (0, 1):
                answers = self.run(both[side], _SIZES, pair)
                found[:, side, i] = answers.log_ratio, resemblance(answers.rows, _PERSON[0])
            progress(f"{self.method}: runs on two tables", (i + 1) / runs)
        by_answers = judged("all answers", found[0, 0], found[0, 1], self.promised)
        pilot = runs // 3
        middle = float(np.median(found[1, :, :pilot]))
        counted = found[1, :, pilot:] - middle
        by_table = judged("the table alone", counted[0], counted[1], self.promised)
        return by_answers, by_table

    def canaries(self, runs: int, progress: Progress) -> dict[str, Any]:
        """Return what guesses about many inserted rows show, of `runs` runs with _CANARIES rows each."""
        sizes, rng = {"a": _CANARIES + 1, "b": _CANARIES + 1}, np.random.default_rng()
        rows = np.repeat(np.arange(1, _CANARIES + 1, dtype=np.int32)[:, None], 2, axis=1)
        base = np.zeros((30, 2), dtype=np.int32)
        inside, statistic = np.zeros((runs, _CANARIES), dtype=bool), np.zeros((runs, _CANARIES))
        for i in range(runs):
            inside[i] = rng.random(_CANARIES) < 0.5
            answers = self.run(np.vstack([base, rows[inside[i]]]), sizes)
            statistic[i] = own_cells(answers.released, base, rows, tuple(sizes))
            progress(f"{self.method}: many rows at once", (i + 1) / runs)
        return self._guessed(inside.ravel(), statistic.ravel())

    def _guessed(self, inside: np.ndarray, statistic: np.ndarray) -> dict[str, Any]:
        promised, rows = self.promised, inside.size
        guesses = number_of_guesses(rows, promised.strength, self.delta, FAILURE) // 2 * 2
        order = np.argsort(statistic, kind="stable")
        surest = np.concatenate([~inside[order[: guesses // 2]], inside[order[rows - guesses // 2 :]]])
        correct = int(surest.sum())
        return {
            "name": "many rows at once", "unit": "epsilon", "rows": rows, "guesses": guesses, "correct": correct,
            "claimed": self.epsilon, "shown": guesses_epsilon(rows, guesses, correct, self.delta, FAILURE),
            "most": guesses_epsilon(rows, guesses, guesses, self.delta, FAILURE), "failure": FAILURE,
        }  # fmt: skip

    def all(self, runs: int, progress: Progress) -> Iterator[dict[str, Any]]:
        """Yield the three audits, each as figures."""
        by_answers, by_table = self.likelihoods(runs, lambda message, done: progress(message, 0.7 * done))
        yield by_answers.summary()
        yield by_table.summary()
        shown = self.canaries(runs, lambda message, done: progress(message, 0.7 + 0.3 * done))
        yield {**shown, "broken": shown["shown"] > self.epsilon}

    def seconds_per_run(self) -> float:
        """Return the time of one run on each table and one with many rows, after a first run that warms caches."""
        pair = Pair(Schema.from_sizes(_SIZES).domain, _BASE, np.vstack([_BASE, _PERSON]))
        self.run(_BASE, _SIZES, pair)
        started = time.perf_counter()
        self.run(_BASE, _SIZES, pair)
        once = time.perf_counter() - started
        started = time.perf_counter()
        self.canaries(1, lambda message, done: None)
        return 2 * once + time.perf_counter() - started


def resemblance(rows: np.ndarray, person: np.ndarray) -> float:
    """Return how much synthetic rows resemble a person's: over all rows, the number of column sets in which they agree.

    A row that agrees in m columns agrees in 2^m - 1 non-empty sets of columns. Chosen beforehand: marginals of all
    these sets are what methods measure.
    """
    return float(np.sum(2.0 ** (rows == person).sum(axis=1) - 1))


def own_cells(released: list[NoisyMarginal], base: np.ndarray, rows: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Return for each inserted row a sum over noisy counts of its cells, each less its mean over all coins.

    Where a cell is counted in a group with others, the coins of the other rows add a variance of 1/4 each. Contrasts
    are left out. Each count weighs by the inverse of its variance.
    """
    total = np.zeros(len(rows))
    for marginal in released:
        if marginal.contrasts is not None or not marginal.attrs:
            continue
        places = [names.index(name) for name in marginal.attrs]
        where = tuple(rows[:, p] for p in places), tuple(base[:, p] for p in places)
        cells, of_base = (w if marginal.groups is None else (np.asarray(marginal.groups)[w],) for w in where)
        mine, others = np.zeros(marginal.values.shape), np.zeros(marginal.values.shape)
        np.add.at(mine, cells, 1.0)
        np.add.at(others, of_base, 1.0)
        inserted = mine[cells]
        excess = marginal.values[cells] - others[cells] - inserted / 2
        total += excess / (marginal.stddev**2 + (inserted - 1) / 4)
    return total
