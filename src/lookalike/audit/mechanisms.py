"""Audits of the door's mechanisms: the likelihood of real noisy answers on neighbours that change the most.

The neighbours, the statistic (the exact log-likelihood ratio) and its threshold are fixed beforehand, so every bound
holds with the stated confidence. One request of the door asks for the same thing many times; each answer has
independent noise and pays an equal part of the charge, so it counts as one run of the mechanism at that price.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, ndtri

from lookalike.audit.bounds import Promised, rate_bounds, runs_to_show
from lookalike.audit.watched import Pair, WatchedTable
from lookalike.measurements import CellTable
from lookalike.privacy import scores
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level.critic_sums import UNIT, Critic, CriticSums
from lookalike.privacy.row_level.laplace_counts import LaplaceCounts, epsilon_of_each
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.teacher_votes import TeacherVotes
from lookalike.schema.schema import Schema

FAILURE = 1e-3
"""Probability with which one bound may be wrong: 99.9 % confidence."""
PART_SHOWN = 0.8
"""The number of runs is chosen to show this part of a claim that is used up."""

_SIZES = {"a": 2, "b": 2}
_BOTH = ("a", "b")
_LARGEST = Budget(1000.0, 1e-5, "zcdp")
_SMALL, _MANY = np.zeros((8, 2), dtype=np.int32), np.zeros((60, 2), dtype=np.int32)
_ODD = np.ones((1, 2), dtype=np.int32)
# Tables without the person, and the person's row.
_PLAIN = _SMALL, _ODD
_BROKEN_RULE = _SMALL, np.array([(1, 0)], dtype=np.int32)
_SPLIT = np.array([(0, 1), (1, 0)], dtype=np.int32), np.array([(0, 0)], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Shown:
    """What an audit claimed and showed.

    Attributes:
        name: what was audited.
        runs: number of runs on each of the two tables.
        hits: runs in which the event happened, with the person and without.
        promised: the claim; all strengths below are in its unit.
        strength: what was shown.
        failure: probability with which more was shown than is true.
        note: what else a reader must know.
    """

    name: str
    runs: int
    hits: tuple[int, int]
    promised: Promised
    failure: float
    note: str = ""

    @property
    def strength(self) -> float:
        return self.promised.shown(*self.hits, self.runs, self.failure)

    @property
    def share(self) -> float:
        """The part of the claimed strength that was shown."""
        return self.strength / self.promised.strength

    @property
    def broken(self) -> bool:
        return self.strength > self.promised.strength

    def summary(self) -> dict[str, Any]:
        """Return all figures: strengths in the unit of the claim, and epsilons at the claim's delta."""
        expected = self.promised.expected(self.runs, self.failure)
        most = self.promised.shown(self.runs, 0, self.runs, self.failure)
        strengths = {"claimed": self.promised.strength, "shown": self.strength, "if_used_up": expected, "most": most}
        return {
            "name": self.name, "unit": {"gdp": "mu", "zcdp": "root of 2 rho", "pure": "epsilon"}[self.promised.kind],
            "runs": self.runs, "hits": list(self.hits), **strengths, "share": self.share,
            "epsilon": {name: self.promised.epsilon(value) for name, value in strengths.items()},
            "delta": self.promised.delta, "failure": self.failure, "broken": self.broken, "note": self.note,
        }  # fmt: skip


def judged(name: str, without: np.ndarray, with_person: np.ndarray, promised: Promised, note: str = "") -> Shown:
    """Return what log-likelihood ratios of runs on either table show: the event is a ratio above 0."""
    hits = int(np.sum(with_person > 0)), int(np.sum(without > 0))
    return Shown(name, len(without), hits, promised, FAILURE, note)


def trade_off(without: np.ndarray, with_person: np.ndarray, mu: float, points: int = 9) -> list[dict[str, float]]:
    """Return points of the trade-off curve with bounds that hold at once, beside the claimed curve of mu.

    At each of the thresholds, fixed beforehand, the event "ratio above threshold" happens without the person at a rate
    of at most `false_alarms`, and fails to happen with the person at a rate of at most `misses`. The claim is
    contradicted where `misses` is below `claimed`: the smallest rate that mu-GDP allows, Phi(Phi^-1(1 - a) - mu).
    """
    found: list[dict[str, float]] = []
    for place in np.linspace(-2, 2, points):
        alarms, misses = int(np.sum(without > place * mu)), int(np.sum(with_person <= place * mu))
        _, high = rate_bounds(np.array([alarms, misses]), len(without), FAILURE / (2 * points))
        claimed = float(ndtr(ndtri(1 - high[0]) - mu))
        found.append({"false_alarms": float(high[0]), "misses": float(high[1]), "claimed": claimed})
    return found


# The door on made-up tables.


def opened(codes: np.ndarray, budget: Budget, sizes: Mapping[str, int] = _SIZES) -> Any:
    """Return the real door to these rows, with a ledger in memory and noise of the system's entropy."""
    table = pa.table({name: pa.array(codes[:, i]) for i, name in enumerate(sizes)})
    run = Ledger(None, "audited table").begin(method="audit", schema="", budget=budget, neighbours=Neighbours())
    return open_table(table, Schema.from_sizes(dict(sizes)), budget, run, neighbours=Neighbours())


def watched(base: np.ndarray, person: np.ndarray, side: int, budget: Budget = _LARGEST) -> WatchedTable:
    """Return the watched door to the table without (0) or with (1) the person."""
    both = base, np.vstack([base, person])
    return WatchedTable(opened(both[side], budget), Pair(Schema.from_sizes(_SIZES).domain, *both))


@dataclass(frozen=True, slots=True)
class GaussianAct:
    """A Gaussian release that can be asked for many times at once.

    Attributes:
        act: asks the door for `copies` releases that cost `rho` each; the door notes as many ratios, or groups of them.
        base: the table without the person.
        person: the person's rows.
        numbers: how many numbers each copy pays for, where the release takes all that is left of a door; else 0.
    """

    name: str
    act: Callable[[WatchedTable, float, int], Any]
    base: np.ndarray
    person: np.ndarray
    numbers: int = 0
    note: str = ""

    def ratios(self, side: int, rho: float, runs: int) -> np.ndarray:
        """Return the log-likelihood ratios of `runs` releases, through as many doors as their prices need."""
        found: list[np.ndarray] = []
        at_once = min(runs, int(float(_LARGEST.rho) / rho / max(self.numbers, 1) / 1.01), 20_000)
        for start in range(0, runs, at_once):
            copies = min(at_once, runs - start)
            door = watched(self.base, self.person, side)
            if self.numbers:
                door.measure([()], door.stddev_for(door.remaining - rho * copies * self.numbers), step="the rest")
                door.log_ratios.clear()
            self.act(door, rho, copies)
            found.append(np.concatenate(door.log_ratios).reshape(copies, -1).sum(axis=1))
        return np.concatenate(found)


def _measure(door: WatchedTable, rho: float, copies: int) -> None:
    door.measure([_BOTH] * copies, door.stddev_for(rho), step="audit")


def _measure_groups(door: WatchedTable, rho: float, copies: int) -> None:
    groups = [np.array([[0, 0], [0, 1]])] * copies
    door.measure([_BOTH] * copies, door.stddev_for(rho), step="audit", groups=groups)


def _contrasts(door: WatchedTable, rho: float, copies: int) -> None:
    table = CellTable(_BOTH, (2, 2))
    door.measure_contrasts([table] * copies, [door.stddev_for(rho, table=table)] * copies, step="audit")


def _scored(make: Callable[[int], Any]) -> Callable[[WatchedTable, float, int], Any]:
    """Return the act that asks for all numbers of a score; one made for `copies` has as many marginals."""

    def act(door: WatchedTable, rho: float, copies: int) -> None:
        score = make(copies)
        door.noisy_scores(score, door.score_stddev_for(score, rho * copies), step="audit")

    return act


def _score_acts() -> Iterator[GaussianAct]:
    none, groups = np.zeros((2, 2)), np.zeros((2, 2), dtype=np.int64)
    first = {"a": np.array([1.0, 0.0]), "b": np.array([1.0, 0.0])}
    signs = {"a": np.array([-1.0, 1.0]), "b": np.array([-1.0, 1.0])}
    made: dict[str, tuple[Callable[[int], Any], tuple[np.ndarray, np.ndarray]]] = {
        "ResidualL1": (lambda n: scores.ResidualL1((_BOTH,) * n, (none,) * n), _PLAIN),
        "GroupedResidualL1": (
            lambda n: scores.GroupedResidualL1((_BOTH,) * n, (np.zeros(1),) * n, (groups,) * n), _PLAIN,
        ),
        "CellGaps": (lambda n: scores.CellGaps((_BOTH,) * n, (none,) * n, (1,) * n), _PLAIN),
        "IndependenceGap": (lambda n: scores.IndependenceGap((_BOTH,) * n), (_MANY, _ODD)),
        "FamilyGap": (lambda n: scores.FamilyGap((_BOTH,) * n, ("a",) * n, first), _PLAIN),
        "PerfectGap": (lambda n: scores.PerfectGap((_BOTH,) * n, ("a",) * n), _SPLIT),
        "GradeProducts": (lambda n: scores.GradeProducts((_BOTH,) * n, signs), _PLAIN),
        "Undetermined": (lambda n: scores.Undetermined((_BOTH,) * n, ("a",) * n), _BROKEN_RULE),
        "PaddedEntropy": (lambda n: scores.PaddedEntropy((_BOTH,) * n, len(_MANY)), (_MANY, _ODD)),
    }  # fmt: skip
    for name, (make, tables) in made.items():
        yield GaussianAct(f"noisy_scores: {name}", _scored(make), *tables)


class _FixedCritic:
    """A critic that never learns, whose gradient at every row is longer than the norm it is clipped to."""

    def __init__(self) -> None:
        inputs = np.full((5, 1), UNIT / 4, dtype=np.float32)
        self._critic = Critic((2, 2), inputs, np.full(1, UNIT, dtype=np.float32))

    def critic(self) -> tuple[Critic, int]:
        return self._critic, 4000

    def learn(self, sums: np.ndarray) -> None:
        """Learn nothing."""


def _critic(door: WatchedTable, rho: float, copies: int) -> None:
    door.release_rows(CriticSums(_FixedCritic(), copies), step="audit")


class _FixedStudent:
    """Shows a teacher one kind of row and asks about another, always the same."""

    def __init__(self, asked: int) -> None:
        self._asked = np.array([(1, 1), (0, 0)] * asked, dtype=np.int32)

    def shown(self) -> np.ndarray:
        return np.zeros((1, 2), dtype=np.int32)

    def asked(self) -> np.ndarray:
        return self._asked

    def learn(self, votes: np.ndarray) -> None:
        """Learn nothing."""


def _votes(door: WatchedTable, rho: float, copies: int) -> None:
    weights = np.full((5, 1), 0.1), np.full(1, 0.1), 0.1
    door.release_rows(TeacherVotes(_FixedStudent(copies), 1, 2 * copies, 1, *weights), step="audit")


def gaussian_acts() -> list[GaussianAct]:
    """Return the door's Gaussian mechanisms, each with neighbours that use its sensitivity up, or nearly."""
    one_vote = "of two votes that are paid for one can change"
    return [
        GaussianAct("measure", _measure, *_PLAIN),
        GaussianAct("measure, groups", _measure_groups, *_PLAIN),
        GaussianAct("measure_contrasts", _contrasts, *_PLAIN),
        *_score_acts(),
        GaussianAct("release_rows: CriticSums", _critic, *_PLAIN, numbers=1),
        GaussianAct("release_rows: TeacherVotes", _votes, _SMALL[:0], _SMALL[:1], 2, one_vote),
    ]


def audit_gaussian(act: GaussianAct, epsilon: float, delta: float, runs: int | None = None) -> dict[str, Any]:
    """Return what an audit of a Gaussian mechanism at the noise of (epsilon, delta) claims and shows."""
    rho = Budget(epsilon, delta, "gdp").rho
    promised = Promised("gdp", math.sqrt(2 * rho), delta)
    runs = runs or runs_to_show(promised, PART_SHOWN, FAILURE)
    without, with_person = (act.ratios(side, float(rho) * (1 - 1e-9), runs) for side in (0, 1))
    shown = judged(act.name, without, with_person, promised, act.note)
    return {**shown.summary(), "trade_off": trade_off(without, with_person, promised.strength)}


# Mechanisms that are not Gaussian.


def audit_choice(epsilon: float, delta: float, runs: int | None = None) -> dict[str, Any]:
    """Return what an audit of the exponential mechanism shows: pure epsilon-DP, one of two candidates.

    The person moves one score up and the other down, so that the odds of the first candidate are e^epsilon times as
    large. Offsets make its chance 1/4 with the person.
    """
    promised = Promised("pure", epsilon, 0.0)
    runs = runs or min(runs_to_show(promised, 0.7, FAILURE), 10_000)
    references = (np.zeros((2, 2)), np.full((2, 2), 100.0))
    score = scores.ResidualL1((_BOTH, _BOTH), references)
    exact = score.evaluate([np.array([[8, 0], [0, 0]])] * 2)
    offsets = np.array([exact[0] + 2 * (math.log(3) + epsilon) / epsilon, float(exact[1])])
    hits = [0, 0]
    at_once = int(float(_LARGEST.rho) / (epsilon**2 / 8) / 1.01)
    for side in (0, 1):
        for start in range(0, runs, at_once):
            door = watched(_SMALL, _ODD, side)
            for _ in range(min(at_once, runs - start)):
                hits[side] += door.choose(score, epsilon, step="audit", offsets=offsets) == 0
    return Shown("choose", runs, (hits[1], hits[0]), promised, FAILURE).summary()


_THRESHOLDS = Budget(1.0, 0.999, "gdp", threshold_delta=0.99)


def audit_lone_values(probability: float = 0.01, doors: int = 200) -> dict[str, Any]:
    """Return how often a value that only one person has passes the threshold, against the probability that is paid."""
    table = pa.table({"a": ["Ox"] * 500 + ["lone"]})
    schema = Schema.from_dict({"fields": [{"name": "a", "type": "string"}]})
    passed, each = 0, 26
    for _ in range(doors):
        run = Ledger(None, "t").begin(method="audit", schema="", budget=_THRESHOLDS, neighbours=Neighbours())
        door = open_table(table, schema, _THRESHOLDS, run, neighbours=Neighbours(), keep_rows=True)
        found = door.frequent(["a"] * each, 50.0, probability * each, step="audit")
        passed += sum("lone" in values for values in found)
    low, high = (float(bound) for bound in rate_bounds(passed, doors * each, FAILURE))
    rates = {"claimed": probability, "shown": low, "at_most": high, "broken": low > probability}
    return {"name": "frequent, a lone value", "unit": "probability", "runs": doors * each, "hits": [passed, 0], **rates}


_CELLS, _HELD, _LONE_SHARE = 500, 400, 0.1
"""Cells of each kind that one door counts, rows in each, and the share of delta for cells of a single row."""


def audit_cells(epsilon: float, delta: float, runs: int | None = None) -> dict[str, Any]:
    """Return what an audit of the counts of occurring cells shows, in cells far above the threshold.

    Half of the cells hold one row more than the others. The noise of each is independent, so each cell is one run on a
    table with or without that row. What is claimed is the Gaussian part: the rest of delta is for lone cells.
    """
    rho = Budget(epsilon, delta * (1 - _LONE_SHARE), "gdp").rho
    promised = Promised("gdp", math.sqrt(2 * rho), delta * (1 - _LONE_SHARE))
    runs = runs or runs_to_show(promised, PART_SHOWN, FAILURE)
    found: list[np.ndarray] = []
    for start in range(0, runs, _CELLS):
        cells = min(_CELLS, runs - start)
        codes = np.repeat(np.arange(2 * cells), np.tile([_HELD, _HELD + 1], cells))
        door = opened(np.column_stack([codes, codes * 0]), Budget(epsilon, delta, "gdp"), {"a": 2 * cells, "b": 1})
        kept, counts = door.release_rows(OccurringCells(("a",), _LONE_SHARE), step="audit")
        ratios = np.full(2 * cells, -np.inf)
        ratios[kept[:, 0]] = counts - (_HELD + 0.5)
        found.append(ratios.reshape(cells, 2))
    without, with_person = np.concatenate(found).T
    return judged("release_rows: OccurringCells", without, with_person, promised).summary()


def audit_laplace(epsilon: float, delta: float, runs: int | None = None) -> dict[str, Any]:
    """Return what an audit of counts with Laplace noise shows: pure DP of each of many marginals of one door.

    As many are asked for as makes each of them claim about epsilon; the event is a count above the one without the
    person, whose chance is e^epsilon times as large with the person.
    """
    copies, whole = 1, _LARGEST.epsilon * (1 - 1e-9)
    while epsilon_of_each(whole, copies + 1, _LARGEST.delta) >= epsilon:
        copies += 1
    promised = Promised("pure", epsilon_of_each(whole, copies, _LARGEST.delta), 0.0)
    runs, hits = runs or min(runs_to_show(promised, 0.7, FAILURE), 10_000), [0, 0]
    for side, codes in enumerate((_SMALL, np.vstack([_SMALL, _ODD]))):
        for start in range(0, runs, copies):
            request = LaplaceCounts((_BOTH,) * copies, ({},) * copies)
            counts = opened(codes, _LARGEST).release_rows(request, step="audit")[: runs - start]
            hits[side] += sum(int(count.values[1, 1] > 0) for count in counts)
    return Shown("release_rows: LaplaceCounts", runs, (hits[1], hits[0]), promised, FAILURE).summary()


def audit_parts(epsilon: float, delta: float, runs: int) -> dict[str, Any]:
    """Return what an audit shows of counts of half of the rows at the budget of a half, one door per run.

    Which half the person is in is not known.
    """
    budget, split = Budget(epsilon, delta, "gdp"), RandomParts((0.5, 0.5))

    def draw(side: int) -> float:
        halves = watched(_SMALL[:0], _ODD, side, budget).parts(split, step="audit")
        ratios = []
        for half in halves:
            answer = half.measure([()], half.stddev_for(half.remaining), step="audit")[0]
            ratios.append((float(answer.values) - 0.5) / answer.stddev**2)
        return float(np.logaddexp(*ratios) - math.log(2))

    without, with_person = (np.array([draw(side) for _ in range(runs)]) for side in (0, 1))
    return judged("parts", without, with_person, Promised("pure", epsilon, delta), "one door per run").summary()


def audits(epsilon: float, delta: float, runs: int | None = None) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the name of every audit of the door with a function that makes it."""
    for act in gaussian_acts():
        yield act.name, lambda act=act: audit_gaussian(act, epsilon, delta, runs)
    yield "choose", lambda: audit_choice(epsilon, delta, runs)
    yield "frequent, a lone value", lambda: audit_lone_values(doors=min(200, runs or 200))
    yield "release_rows: OccurringCells", lambda: audit_cells(epsilon, delta, runs)
    yield "release_rows: LaplaceCounts", lambda: audit_laplace(epsilon, delta, runs)
    yield "parts", lambda: audit_parts(epsilon, delta, min(runs or 1000, 1000))


def seconds_needed(epsilon: float, delta: float, runs: int | None = None) -> float:
    """Return about how long all audits of the door take on this machine, from a timed request."""
    rho = Budget(epsilon, delta, "gdp").rho
    needed = runs or runs_to_show(Promised("gdp", math.sqrt(2 * rho), delta), PART_SHOWN, FAILURE)
    started = time.perf_counter()
    GaussianAct("measure", _measure, *_PLAIN).ratios(0, float(rho), 300)
    each = (time.perf_counter() - started) / 300
    return 8.0 + 2 * each * (needed * 4 + 12_000)
