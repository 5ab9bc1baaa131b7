"""What a plan lets expect: noise as it will be drawn, shares of rows only where their number is given, rough times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import SchemaError
from lookalike.forecast import JOINT_SETS, RATES, USUAL_ROWS, chosen_sets, resources
from lookalike.pipeline import outlook, plan_run, synthesize
from lookalike.privacy.neighbours import Neighbours
from lookalike.schema.domain import Domain
from lookalike.schema.draft import draft
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}
ALL = pytest.mark.parametrize("method", [name for name in METHODS if name != "auto"])


def ahead_of(method: str, neighbours: Neighbours | None = None, **options):
    schema = Schema.from_sizes(SIZES)
    _, steps = plan_run(schema, epsilon=1.0, delta=1e-5, method=method)
    return outlook(schema, steps, method=method, neighbours=neighbours or Neighbours(), **options), steps


@ALL
@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_the_noise_on_columns_is_the_noise_that_is_drawn(method: str, rows_per_person: int) -> None:
    neighbours = Neighbours(max_rows_per_person=rows_per_person)
    ahead, _ = ahead_of(method, neighbours)
    codes = np.random.default_rng(0).integers(0, 2, (200, 4))
    table = pa.table({name: codes[:, i] for i, name in enumerate(SIZES)})
    made = synthesize(table, schema=SIZES, method=method, epsilon=1.0, delta=1e-5, neighbours=neighbours, seed=0)
    drawn: dict[tuple[str, ...], float] = {}
    for measured in made.fitted.measurements:
        drawn.setdefault(measured.attrs, measured.stddev)
    for error in ahead.columns:
        assert error.stddev == pytest.approx(drawn[error.attrs], rel=1e-6)
    assert len(ahead.columns) in (0, 4)


@ALL
def test_the_steps_that_count_sets_are_steps_of_the_plan(method: str) -> None:
    _, steps = ahead_of(method)
    names = {step.step for step in steps}
    # Others count no sets, or only groups of their cells.
    assert method not in JOINT_SETS or names & set(JOINT_SETS[method].steps)


def test_errors_are_shares_only_of_a_given_number_of_rows() -> None:
    without, _ = ahead_of("mst")
    given, _ = ahead_of("mst", rows=1000, pairs=("d,a",))
    assert all(error.distance is None for error in (*without.columns, *without.pairs))
    assert [error.distance for error in given.columns] == [error.rows / 1000 for error in given.columns]
    assert [error.attrs for error in given.pairs] == [("a", "d")]
    assert given.sets == 3


def test_the_expected_error_is_what_noise_does() -> None:
    ahead, _ = ahead_of("independent", rows=1000)
    error = ahead.columns[2]
    noise = np.random.default_rng(0).normal(0, error.stddev, (20_000, error.cells))
    assert error.rows == pytest.approx(np.abs(noise).sum(axis=1).mean() / 2, rel=0.02)


def test_twice_the_rows_per_person_is_twice_the_error() -> None:
    one, _ = ahead_of("mst")
    two, _ = ahead_of("mst", Neighbours(max_rows_per_person=2))
    for a, b in zip((*one.columns, *one.pairs), (*two.columns, *two.pairs), strict=True):
        assert b.rows == pytest.approx(2 * a.rows)


def test_open_columns_are_marked_as_guesses() -> None:
    schema = draft(pa.schema({"town": pa.string(), "age": pa.int64(), "flag": pa.bool_()}))
    _, steps = plan_run(schema, epsilon=1.0, delta=1e-5, method="auto")
    ahead = outlook(schema, steps, method="auto", neighbours=Neighbours())
    assert ahead.method == "mosaic"
    assert ahead.guessed == ["town", "age"]


def test_pairs_by_name() -> None:
    domain = Domain.of(SIZES)
    assert chosen_sets(domain, ["d, a"]) == [("a", "d")]
    assert chosen_sets(domain, []) == [("b", "d"), ("b", "c"), ("a", "c")]
    assert chosen_sets(Domain.of({"only": 3}), []) == []
    for text in ("a", "a,a", "a,nobody"):
        with pytest.raises(SchemaError, match="--pair"):
            chosen_sets(domain, [text])


@pytest.mark.parametrize("method", [name for name in RATES if name != "discovery"])
def test_more_rows_and_columns_never_take_less(method: str) -> None:
    small, wide = Domain.of(SIZES), Domain.of({f"c{i}": 4 for i in range(40)})
    few, many = resources(method, small, 1000, discovers=False), resources(method, small, 10**6, discovers=False)
    more = resources(method, wide, None, discovers=True)
    assert few.seconds <= many.seconds
    assert few.memory_mb <= many.memory_mb
    assert more.rows == USUAL_ROWS
    assert more.seconds > 0
    assert more.seconds_off >= 1


def test_no_prediction_for_a_method_without_runs() -> None:
    assert resources("nobody", Domain.of(SIZES), None, discovers=False) is None
