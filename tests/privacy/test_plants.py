"""The spies can fail: bugs that are planted here, one at a time, are each reported as a violation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookalike import inputs, pipeline
from lookalike.privacy.kernel import door, mechanisms, thresholds
from lookalike.privacy.kernel.accounting import Accountant, Neighbours
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.ledger import Run
from lookalike.privacy.row_level import critic_sums, rows, seeded_rows, teacher_votes
from lookalike.privacy.row_level.critic_sums import Critic
from lookalike.privacy.row_level.teacher_votes import Teachers
from lookalike.privacy.scores import (
    CellGaps,
    FamilyGap,
    GradeProducts,
    GroupedResidualL1,
    IndependenceGap,
    PerfectGap,
    ResidualL1,
)
from tests.privacy import test_methods_replayed as methods
from tests.privacy import test_outside_the_door as outside
from tests.privacy import test_reaches_noise as counted
from tests.privacy import test_reaches_noise_rows as by_rows
from tests.privacy.spies import Violation

Plant = Callable[[pytest.MonkeyPatch], None]

MODULES = (critic_sums, door, rows, seeded_rows, teacher_votes)


def everything_counted(relation: str = "add-remove", people: int = 1) -> None:
    _, few, many = counted.BASES
    for acts, base in ((counted.MEASURES, few), (counted.SCORE_ACTS, few), (counted.SCORE_ACTS, many)):
        counted.shares_used(acts, relation, people, [base])


def noise_becomes(change: Callable[[Any, float, Any], Any]) -> Plant:
    """Gaussian noise as `change` makes it from the right function, where the spies listen, a stddev and a size."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(stddev: float, size: Any, *, insecure_rng: Any = None) -> Any:
            return change(mechanisms.rounded_gaussian, stddev, size)

        for module in MODULES:
            if hasattr(module, "rounded_gaussian"):
                monkeypatch.setattr(module, "rounded_gaussian", wrong)

    return plant


def attribute(owner: Any, name: str, value: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def fact(owner: type, name: str, value: Callable[[Any], Any]) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, property(value))


KEPT: dict[Any, Any] = {}
SCALES = {
    f"noise times {factor}": noise_becomes(lambda draw, s, n, f=factor: draw(s * f, n)) for factor in (0.5, 0.7, 0.9)
}
SENSITIVITIES = {
    f"half of the sensitivity of {kind.__name__}": attribute(kind, "sensitivity", kind.sensitivity / 2)
    for kind in (ResidualL1, GroupedResidualL1, CellGaps, IndependenceGap, FamilyGap, PerfectGap, GradeProducts)
}
OF_ONE_ROW: dict[str, Plant] = {
    **SCALES,
    **SENSITIVITIES,
    "noise on a part of the cells": noise_becomes(
        lambda draw, s, n: draw(s, n) * (np.arange(np.prod(n)).reshape(n) > 0)
    ),
    "no noise": noise_becomes(lambda draw, s, n: np.zeros(n, dtype=np.int64)),
    "noise that the spies do not see": noise_becomes(
        lambda draw, s, n: np.rint(np.random.default_rng().normal(0, s, n)).astype(np.int64)
    ),
    "the same noise twice": noise_becomes(lambda draw, s, n: KEPT.setdefault((s, n), draw(s, n))),
    "the mean of weights": lambda monkeypatch: monkeypatch.setattr(GuardedTable, "choose", choose_by(np.mean)),
    "views that are not charged": attribute(GuardedTable, "coarsened", lambda self, maps: uncharged(self, maps)),
    "charges that come late": attribute(Accountant, "charge", lambda self, charge: 0),
}
OF_SEVERAL_ROWS: dict[str, Plant] = {
    "rows per person left out of scores": fact(Neighbours, "rows", lambda self: 1),
    "rows per person not squared": fact(Neighbours, "squared_l2", lambda self: self.max_rows_per_person),
    "contrasts not squared": attribute(
        Neighbours, "squared_contrasts", lambda self, contrasts: self.max_rows_per_person * contrasts.added
    ),
}
OF_REPLACED_ROWS: dict[str, Plant] = {
    "replaced rows as added ones": fact(Neighbours, "squared_l2", lambda self: self.max_rows_per_person**2),
    "replaced contrasts as added ones": attribute(
        Neighbours, "squared_contrasts", lambda self, contrasts: self.max_rows_per_person**2 * contrasts.added
    ),
    "scores of replaced rows as of added ones": fact(Neighbours, "rows", lambda self: self.max_rows_per_person),
}


def choose_by(average: Callable[[Any], Any]) -> Any:
    """A choice whose sensitivity takes another size of the weights than the largest."""
    right = GuardedTable.choose

    def choose(self: GuardedTable, score: Any, epsilon: float, *, step: str, weights: Any = None, **more: Any) -> int:
        if weights is None:
            return right(self, score, epsilon, step=step, **more)
        factor = average(np.abs(weights)) / np.abs(weights).max()
        scaled = Scaled(score, factor)
        return right(self, scaled, epsilon, step=step, weights=weights, **more)

    return choose


class Scaled:
    """A score that states another sensitivity than it has."""

    def __init__(self, score: Any, factor: float) -> None:
        self._score, self.sensitivity = score, score.sensitivity * Fraction(factor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._score, name)


class Free(Run):
    """A run that writes nothing."""

    journal = None

    def __init__(self) -> None:
        pass

    def charge(self, charge: Any) -> int:
        return 0


def uncharged(table: GuardedTable, maps: Any) -> GuardedTable:
    return table._with(table._source.recoded(maps), Accountant(table.budget, Free()))


@pytest.mark.parametrize(
    ("plant", "relation", "people"),
    [
        *((plant, "add-remove", 1) for plant in OF_ONE_ROW.values()),
        *((plant, "add-remove", 2) for plant in OF_SEVERAL_ROWS.values()),
        *((plant, "replace", 1) for plant in OF_REPLACED_ROWS.values()),
    ],
    ids=[*OF_ONE_ROW, *OF_SEVERAL_ROWS, *OF_REPLACED_ROWS],
)
def test_what_is_counted(plant: Plant, relation: str, people: int, monkeypatch: pytest.MonkeyPatch) -> None:
    KEPT.clear()
    plant(monkeypatch)
    with pytest.raises(Violation):
        everything_counted(relation, people)


def test_without_a_plant_nothing_is_reported() -> None:
    everything_counted()


def planted_threshold(monkeypatch: pytest.MonkeyPatch, change: Callable[..., float]) -> None:
    for module in (door, rows):
        monkeypatch.setattr(module, "threshold", change)


RIGHT = thresholds.threshold
THRESHOLDS: dict[str, tuple[int, Callable[..., float]]] = {
    "the columns' share of probability": (1, lambda s, p, n, *_: RIGHT(s, 3 * p, n)),
    "rows per person": (2, lambda s, p, n, *_: RIGHT(s, p, Neighbours())),
    "the chances of several values": (5, lambda s, p, n, *_: RIGHT(s, p * n.max_rows_per_person, n)),
    "the half for rounding": (1, lambda s, p, n, *_: RIGHT(s, p, n) - 0.5),
}


@pytest.mark.parametrize("left_out", THRESHOLDS)
def test_what_thresholds_leave_out(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    people, change = THRESHOLDS[left_out]
    planted_threshold(monkeypatch, change)
    with pytest.raises((AssertionError, Violation)):
        by_rows.test_values_of_one_person_are_told_as_rarely_as_delta_pays_for("add-remove", people)


def test_a_threshold_that_costs_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "threshold_price", lambda *_: 0.0)
    with pytest.raises((AssertionError, Violation)):
        by_rows.test_values_of_one_person_are_told_as_rarely_as_delta_pays_for("add-remove", 1)


def test_a_histogram_that_spends_delta_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rows.Budget
    monkeypatch.setattr(rows, "Budget", lambda epsilon, delta, accounting: right(epsilon, delta / 0.7, accounting))
    with pytest.raises((AssertionError, Violation)):
        by_rows.test_noise_and_threshold_of_a_histogram_share_delta(0.3)


class Everywhere:
    """Rows that are in every part."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __eq__(self, part: object) -> Any:
        return np.ones(self._count, dtype=bool)

    __hash__ = None  # type: ignore[assignment]


VOTES, DEALT = Teachers.votes, rows.RandomParts.part_of_rows
BY_ROWS: dict[str, tuple[Plant, Callable[[], None]]] = {
    "gradients that are not clipped": (
        attribute(
            Critic, "clipped_sums", lambda self, codes, norm, right=Critic.clipped_sums: right(self, codes, 10**9)
        ),
        lambda: by_rows.test_sums_of_clipped_gradients_are_paid_for("add-remove", 1, 1),
    ),
    "a row in more steps than are paid for": (
        fact(critic_sums.CriticSums, "visits", lambda self: max(1, self.steps // self.batches)),
        lambda: by_rows.test_sums_of_clipped_gradients_are_paid_for("add-remove", 1, 3),
    ),
    "votes that count twice": (
        attribute(Teachers, "votes", lambda self, asked: 9 * VOTES(self, asked)),
        lambda: by_rows.test_counts_of_votes_are_paid_for("add-remove", 1),
    ),
    "parts that share rows": (
        attribute(rows.RandomParts, "part_of_rows", lambda self, count, rng: Everywhere(count)),
        by_rows.test_parts_are_disjoint_fresh_and_cannot_be_spent_twice,
    ),
    "parts by a public seed": (
        attribute(rows.RandomParts, "part_of_rows", lambda self, n, rng: DEALT(self, n, np.random.default_rng(0))),
        by_rows.test_parts_are_disjoint_fresh_and_cannot_be_spent_twice,
    ),
    "views with a budget of their own": (
        attribute(GuardedTable, "coarsened", lambda self, maps: uncharged(self, maps)),
        by_rows.test_views_share_one_budget_with_their_table,
    ),
    "a person's row too many": (
        attribute(door, "kept_rows", lambda persons, max_rows, right=door.kept_rows: right(persons, max_rows + 1)),
        lambda: by_rows.test_persons_with_more_rows_than_allowed_are_paid_for("add-remove", 2, False),
    ),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_what_looks_at_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = BY_ROWS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, Violation, pytest.fail.Exception)):
        check()


# Whole runs.


WHOLE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "the true number of rows": lambda table: {"rows": table.num_rows},
    "the last row": lambda table: {"seed": table["d"][-1].as_py()},
    "the values that occur": lambda table: {"schema": {c: max(table[c].to_pylist()) + 1 for c in table.column_names}},
    "a budget by the data": lambda table: {"epsilon": table.num_rows / 40},
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_run_lets_slip(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = methods.synthesize
    monkeypatch.setattr(methods, "synthesize", lambda table, **given: right(table, **{**given, **WHOLE[name](table)}))
    with pytest.raises(Violation, match=r"results differ|depends on the table"):
        methods.test_methods_release_nothing_that_is_not_paid_for("independent")


def test_ledgers_by_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "table_identity", lambda table: Path(table).name)
    with pytest.raises((AssertionError, Violation)):
        outside.test_tables_of_the_same_name_have_ledgers_of_their_own(tmp_path, monkeypatch)


def test_a_plan_that_reads_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a reader of its own, so that only the number of bytes tells."""
    right = pipeline.plan_run

    def plan_run(*given: Any, **more: Any) -> Any:
        for path in tmp_path.glob("t.*"):
            path.read_bytes()
        return right(*given, **more)

    monkeypatch.setattr(pipeline, "plan_run", plan_run)
    with pytest.raises((AssertionError, Violation)):
        outside.test_a_plan_with_a_schema_does_not_read_the_table(tmp_path, monkeypatch, "csv")
