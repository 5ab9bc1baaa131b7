"""What a plan lets expect: noise as it will be drawn, shares of rows only where their number is given, rough times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import LookalikeError, SchemaError
from lookalike.forecast import USUAL_ROWS, chosen_sets, column_errors, forecast, rates, resources, set_errors
from lookalike.pipeline import plan_run, synthesize
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft
from lookalike.synthesizers import METHODS
from lookalike.synthesizers.split import Kind, Step

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}
ALL = pytest.mark.parametrize("method", [name for name in METHODS if name != "auto"])


def ahead_of(method: str, neighbours: Neighbours | None = None, **options):
    schema = Schema.from_sizes(SIZES)
    _, steps = plan_run(schema, epsilon=1.0, delta=1e-5, method=method)
    return forecast(schema, steps, method=method, neighbours=neighbours or Neighbours(), **options), steps


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


DOMAINS = {
    "small": SIZES,
    "one column": {"a": 3},
    "two columns": {"a": 3, "b": 2},
    "constant": {"a": 1, "b": 4, "c": 2},
    "wide": {f"c{i}": 2 + i % 7 for i in range(20)},
    "fine": {"a": 400, "b": 90, "c": 2, "d": 30},
}
SETTINGS: dict[str, list[dict[str, object]]] = {
    "bsg": [
        {"omega": 1}, {"omega": 2, "seeds": "histogram"}, {"omega": 2, "test": "deterministic"}, {"parts": "0.3,0.3"},
    ],
}  # fmt: skip
PLANS = [(method, sizes, epsilon, {}) for method in METHODS for sizes in DOMAINS for epsilon in (0.05, 1.0, 10.0)] + [
    (method, "small", 1.0, settings) for method, listed in SETTINGS.items() for settings in listed
]


COUNTED = (Kind.COLUMNS, Kind.COLUMNS_ALIKE, Kind.SETS)


def noise_of(sizes: dict[str, int], steps: Sequence[Step]) -> tuple[list[float], list[float]]:
    """The noise on every column and on the set of all columns."""
    domain = Domain.of(sizes)
    columns = column_errors(domain, steps, Neighbours(), None)
    sets = set_errors(2.0, domain, steps, Neighbours(), None, [domain.names])[0]
    return [error.stddev for error in columns], [error.stddev for error in sets]


def unforecast(sizes: dict[str, int], steps: Sequence[Step]) -> list[str]:
    """The steps with a price that change no forecast although their kind counts something, and the other way round."""
    whole, wrong = noise_of(sizes, steps), []
    for step in steps:
        changed = noise_of(sizes, [other for other in steps if other is not step]) != whole
        if step.rho and changed != (step.kind in COUNTED):
            wrong.append(step.step)
    return wrong


@pytest.mark.parametrize(("method", "name", "epsilon", "settings"), PLANS)
def test_every_step_of_every_plan_is_forecast_or_known_to_count_nothing(
    method: str, name: str, epsilon: float, settings: dict[str, object]
) -> None:
    sizes = DOMAINS[name]
    try:
        _, steps = plan_run(Schema.from_sizes(sizes), epsilon=epsilon, delta=1e-5, method=method, settings=settings)
    except LookalikeError:
        pytest.skip("the method does not plan for such a table")
    assert unforecast(sizes, steps) == []


def test_a_plan_pays_for_what_it_forecasts() -> None:
    """All that a default plan of mosaic spends on counts is in the forecast: the noise of a set by hand."""
    ahead, steps = ahead_of("mosaic", pairs=("a,c",))
    sets = sum(step.rho for step in steps if step.step in ("chosen sets", "larger sets and their choice"))
    rest = sum(step.rho for step in steps if step.step in ("one-way marginals", "pair scores", "number of rows"))
    budget, _ = plan_run(Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-5, method="mosaic")
    assert sets + rest == pytest.approx(float(budget.rho))
    share = sets / ahead.sets * (12 / np.median([6, 12, 6, 8, 4, 8])) ** (2 / 3)
    assert ahead.pairs[0].stddev == pytest.approx((2 * share) ** -0.5)


def test_a_forecast_reads_kinds_of_steps_and_never_names() -> None:
    _, steps = ahead_of("mosaic")
    for i, step in enumerate(steps):
        renamed = [*steps[:i], replace(step, step="another name"), *steps[i + 1 :]]
        assert noise_of(SIZES, renamed) == noise_of(SIZES, steps)
        unkind = [*steps[:i], replace(step, kind=Kind.OTHER), *steps[i + 1 :]]
        assert (noise_of(SIZES, unkind) != noise_of(SIZES, steps)) == (step.kind in COUNTED)


def test_discovery_is_forecast_as_counting_nothing() -> None:
    schema = draft(pa.schema({"town": pa.string(), "age": pa.int64(), "flag": pa.bool_()}))
    _, steps = plan_run(schema, epsilon=1.0, delta=1e-5, method="mosaic")
    found = [step for step in steps if step.step.startswith("discover: ")]
    assert found
    assert {step.kind for step in found} == {Kind.DISCOVERY}


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
    ahead = forecast(schema, steps, method="auto", neighbours=Neighbours())
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


@pytest.mark.parametrize("method", [name for name in rates() if name != "discovery"])
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
