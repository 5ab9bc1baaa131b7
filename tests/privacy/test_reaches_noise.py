"""What reaches the noise, over all neighbours of tiny tables: the door never releases more than it charged.

`spies.py` says how the loss is found. Every method of the door runs behind its real ledger and source; bounds that are
tight must also be used up, so that a check that sees nothing would fail.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookalike.measurements import CellTable, NoisyMarginal
from lookalike.privacy import scores as scores_module
from lookalike.privacy.journal import Recording
from lookalike.privacy.kernel import mechanisms
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.kernel.requests import Score
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level.seeded_rows import two_sided_geometric
from lookalike.privacy.scores import CellGaps
from lookalike.schema.schema import Schema
from tests.privacy.spies import RELATIONS, Tape, check_paid, largest_move, neighbouring, persons, plain_scores
from tests.privacy.test_scores import SCORES

SIZES = {"a": 2, "b": 3}
CELLS = list(product(range(2), range(3)))
SCHEMA = Schema.from_sizes(SIZES)
BUDGET = Budget(200.0, 1e-5, "zcdp")
BASES = [
    np.zeros((0, 2), dtype=np.int32),
    np.array([(0, 0), (1, 2), (1, 1)], dtype=np.int32),
    np.array([(0, 0)] * 60, dtype=np.int32),
]

Act = Callable[[GuardedTable], Any]


def door_on(codes: np.ndarray, tape: Tape, neighbours: Neighbours, **more: Any) -> GuardedTable:
    """A door to these rows, with a ledger that the tape looks charges up in."""
    tape.ledger = Ledger(None, "t")
    run = tape.ledger.begin(method="m", schema="s", budget=BUDGET, neighbours=neighbours)
    table = pa.table({name: codes[:, i] for i, name in enumerate(SIZES)})
    return open_table(table, SCHEMA, BUDGET, run, neighbours=neighbours, **more)


def shares_used(acts: dict[str, Act], relation: str, rows: int, bases: list[np.ndarray] = BASES) -> dict[str, float]:
    """The largest share of its charge that each act uses up, over all tables and neighbours."""
    neighbours = Neighbours(relation, rows)  # type: ignore[arg-type]

    def run(codes: np.ndarray, tape: Tape) -> Any:
        door, released = door_on(codes, tape, neighbours), []
        for tape.step, act in acts.items():
            released.append(numbers(act(door)))
        return released

    used: dict[str, float] = {}
    for base in bases:
        tapes = neighbouring(run, base, persons(CELLS, rows))
        assert all(draw.private for tape in tapes for draw in tape.draws)
        for step, share in check_paid(tapes, relation).items():
            used[step] = max(used.get(step, 0.0), share)
        for place, draw in enumerate(tapes[0].draws):
            if draw.kind == "choice":
                used[draw.step] = max(used[draw.step], float(largest_move(tapes, place, relation)) ** 2)
    assert set(used) == set(acts)
    return used


def numbers(released: Any) -> Any:
    """What is released, in terms that can be compared."""
    if isinstance(released, list):
        return [numbers(part) for part in released]
    return released.values if isinstance(released, NoisyMarginal) else released


GROUPS = np.array([[0, 1, 1], [0, 2, 1]])
COARSE = {"b": np.array([0, 1, 1])}
MEASURES: dict[str, Act] = {
    "one marginal": lambda door: door.measure([("a", "b")], 40.0, step="m"),
    "total": lambda door: door.measure([()], 40.0, step="m"),
    "several marginals": lambda door: door.measure([("a",), ("a", "b"), ("b",)], [40.0, 90.0, 25.0], step="m"),
    "order of columns": lambda door: door.measure([("b", "a")], 40.0, step="m"),
    "groups": lambda door: door.measure([("a", "b"), ("b",)], [40.0, 70.0], step="m", groups=[GROUPS, None]),
    "several times": lambda door: [door.measure([("a",)], s, step="m") for s in (40.0, 50.0, 60.0)],
    "coarsened": lambda door: door.coarsened(COARSE).measure([("a", "b")], 40.0, step="m"),
    "view and table": lambda door: [d.measure([("b",)], 40.0, step="m") for d in (door.coarsened(COARSE), door)],
    "recorded": lambda door: door.recorded_by(Recording()).coarsened(COARSE).measure([("a", "b")], 40.0, step="m"),
    "one axis": lambda door: door.measure_contrasts([CellTable(("b",), (3,))], [40.0], step="m"),
    "two axes": lambda door: door.measure_contrasts([CellTable(("a", "b"), (2, 3))], [40.0], step="m"),
    "grouped contrasts": lambda door: door.measure_contrasts(
        [CellTable(("a", "b"), (2, 2), np.array([[0, 1, 1], [2, 3, 3]]))], [40.0], step="m"
    ),
    "parity of halves": lambda door: door.coarsened({"b": np.array([0, 1, 1])}).measure_contrasts(
        [CellTable(("a", "b"), (2,), np.array([[0, 1], [1, 0]]))], [40.0], step="m"
    ),
    "several contrasts": lambda door: door.measure_contrasts(
        [CellTable(("a", "b"), (2, 3)), CellTable(("a",), (2,))], [40.0, 20.0], step="m"
    ),
}


def weightings(score: Score) -> dict[str, dict[str, Any]]:
    """Equal weights, one large among small and negative ones, with and without offsets."""
    count = sum(np.size(r) for r in score.references) if isinstance(score, CellGaps) else len(score.cliques)
    uneven = np.where(np.arange(count) == count - 1, -3.0, 0.25)
    offsets = np.linspace(-7.3, 1e4, count)
    plain = {} if not isinstance(score, CellGaps) else {"weights": np.ones(count), "offsets": np.zeros(count)}
    zeros = {"weights": uneven, "offsets": np.zeros(count)}
    return {"equal": plain, "uneven": zeros, "offsets": {"weights": uneven, "offsets": offsets}}


def score_acts() -> dict[str, Act]:
    """Every kind of score with noise and in a choice, by all weights."""
    acts: dict[str, Act] = {}
    for score in {type(score): score for score in SCORES}.values():
        name = type(score).__name__
        acts[name] = lambda door, score=score: door.noisy_scores(score, 90.0, step="s")
        for kind, given in weightings(score).items():
            acts[f"{name}, {kind}"] = lambda door, score=score, given=given: door.choose(score, 0.7, step="c", **given)
    return acts


SCORE_ACTS = score_acts()


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_counts_and_contrasts_are_paid_for_exactly(relation: str, rows: int) -> None:
    used = shares_used(MEASURES, relation, rows, BASES[1:2])
    if relation == "replace":
        assert used.pop("total") == 0.0  # replaced rows do not change it
    assert min(used.values()) > 0.999, used


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_scores_and_choices_are_paid_for(relation: str, rows: int) -> None:
    """Sensitivities are stated for one added row: for that, most is used up; replaced rows rarely move a score twice.

    A perfect gap moves by all of its sensitivity only where both brackets move, which several rows hardly do; of
    several rows with a new value, all but the first add less to an entropy.
    """
    used = shares_used(SCORE_ACTS, relation, rows, BASES if rows == 1 else BASES[1:])
    least = {"add-remove": 0.5, "replace": 0.2}[relation]
    for step, share in used.items():
        assert share > (least / 5 if step.startswith(("PerfectGap", "PaddedEntropy")) else least), step


def test_every_kind_of_score_is_among_them() -> None:
    kinds = [kind for kind in vars(scores_module).values() if isinstance(kind, type) and hasattr(kind, "evaluate")]
    assert {kind.__name__ for kind in kinds} - {"Score"} == {type(score).__name__ for score in SCORES}


@pytest.mark.parametrize("scale", [0.7, 30.0])
def test_noise_has_the_scale_that_it_is_asked_for(scale: float) -> None:
    """The spies note which scale is asked for; these are the functions that they stand for."""
    draws = 60_000
    gaussian = mechanisms.rounded_gaussian(scale, draws).astype(float)
    assert abs(gaussian.mean()) < 6 * scale / draws**0.5
    assert gaussian.var() == pytest.approx(scale**2 + 1 / 12, rel=0.05)
    q = np.exp(-1 / scale)
    assert two_sided_geometric(scale, draws).astype(float).var() == pytest.approx(2 * q / (1 - q) ** 2, rel=0.1)
    chosen = [mechanisms.exponential_mechanism(plain_scores([0.0, scale]), 2.0, scale) for _ in range(4000)]
    assert np.mean(chosen) == pytest.approx(1 / (1 + np.exp(-1)), abs=6 * 0.5 / 4000**0.5)
