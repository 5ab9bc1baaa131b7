"""What every method must do: each test runs over all registered methods, on tiny tables."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookalike.pipeline import plan_run, synthesize
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.release import Release, load
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS
from lookalike.synthesizers.base import origins
from lookalike.synthesizers.split import Kind

from .quick import quick

ROOT = Path(__file__).parents[2]
SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}
METHOD = pytest.mark.parametrize("method", list(METHODS))


def codes(rows: int, sizes: dict[str, int], seed: int = 0) -> np.ndarray:
    """Columns that depend on each other: each is the one before it, spoilt by noise."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 1000, rows)]
    for _ in range(len(sizes) - 1):
        columns.append(np.where(rng.random(rows) < 0.8, columns[-1], rng.integers(0, 1000, rows)))
    return np.column_stack([column % size for column, size in zip(columns, sizes.values(), strict=True)])


def release(
    method: str, rows: int, sizes: dict[str, int], *, epsilon: float = 1.0, delta: float = 1e-6, **run
) -> Release:
    table = pa.table({name: codes(rows, sizes)[:, i] for i, name in enumerate(sizes)})
    rng = np.random.default_rng(1)
    budget = {"epsilon": epsilon, "delta": delta}
    run = {"schema": sizes, "method": method, "seed": 2, "insecure_rng": rng} | quick(method) | run
    return synthesize(table, **budget, **run)


def check_sound(made: Release, sizes: dict[str, int], epsilon: float, delta: float) -> None:
    """Spent what was given, by the plan; made rows that the schema allows; total and marginals agree."""
    method = METHODS[made.spent.method]
    budget = Budget(epsilon, delta, method.accounting)
    assert made.spent.rho <= budget.rho
    assert float(made.spent.rho / budget.rho) == pytest.approx(1.0, abs=1e-8)
    assert made.spent.epsilon_spent <= epsilon
    assert sum(step.rho for step in made.plan) == pytest.approx(float(budget.rho), rel=1e-9)
    allowed = {step.step: step.rho for step in made.plan}
    for step, rho in made.spent.by_step().items():
        assert float(rho) <= allowed[step] * (1 + 1e-9)
    assert set(made.spent.by_step()) <= set(allowed)
    mechanisms = {step.step: step.mechanism for step in made.plan}
    assert all(charge.mechanism == mechanisms[charge.step] for charge in made.spent.charges)
    assert all((step.kind == Kind.CHOICES) == (step.mechanism == "exponential") for step in made.plan)
    table = made.table
    assert table.column_names == list(sizes)
    for name, size in sizes.items():
        column = table[name].to_numpy()
        assert column.size == 0 or (column.min() >= 0 and column.max() < size)
    model = made.fitted.model
    assert model.total > 0
    for name, size in sizes.items():
        counts = model.marginal((name,))
        assert counts.shape == (size,)
        assert counts.min() >= -1e-9
        assert counts.sum() == pytest.approx(model.total, rel=1e-6)


@METHOD
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 1e-5)])
def test_spends_its_budget_exactly_and_makes_rows_of_the_schema(method: str, epsilon: float, delta: float) -> None:
    check_sound(release(method, 200, SIZES, epsilon=epsilon, delta=delta), SIZES, epsilon, delta)


@METHOD
@pytest.mark.parametrize("rows", [1, 2])
def test_tables_of_hardly_any_rows(method: str, rows: int) -> None:
    check_sound(release(method, rows, SIZES), SIZES, 1.0, 1e-6)


@METHOD
@pytest.mark.parametrize(
    "sizes",
    [{"only": 5}, {"only": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 3, "constant": 1, "c": 2}, {"a": 2, "b": 2}],
    ids=lambda sizes: ",".join(f"{name}:{size}" for name, size in sizes.items()),
)
def test_narrow_tables_and_constant_columns(method: str, sizes: dict[str, int]) -> None:
    check_sound(release(method, 50, sizes), sizes, 1.0, 1e-6)


@METHOD
def test_spends_its_budget_for_other_neighbours(method: str) -> None:
    check_sound(release(method, 100, SIZES, neighbours=Neighbours("replace", 2)), SIZES, 1.0, 1e-6)


@METHOD
def test_the_same_noise_and_seed_give_the_same_rows(method: str) -> None:
    first, second = release(method, 100, SIZES), release(method, 100, SIZES)
    assert first.table.equals(second.table)
    assert [c.rho for c in first.spent.charges] == [c.rho for c in second.spent.charges]


@METHOD
def test_a_stored_model_answers_and_samples_like_the_fitted_one(method: str, tmp_path) -> None:
    made = release(method, 200, SIZES)
    made.fitted.save(tmp_path / "model.lookalike")
    again = load(tmp_path / "model.lookalike")
    for attrs in [("a",), ("b", "d"), ("a", "c", "d")]:
        np.testing.assert_allclose(again.model.marginal(attrs), made.fitted.model.marginal(attrs), atol=1e-9)
    assert again.model.total == made.fitted.model.total
    assert again.spent == made.spent
    assert again.sample_arrow(50, seed=3).equals(made.fitted.sample_arrow(50, seed=3))


@METHOD
def test_a_generous_budget_keeps_every_column(method: str) -> None:
    """The model of `dualquery-paper` is 50 rows in all, which measure no column: its columns are coarser."""
    rows, limit = 2000, 0.1 if method == "dualquery-paper" else 0.05
    made = release(method, rows, SIZES, epsilon=20.0, delta=1e-5)
    real = codes(rows, SIZES)
    for i, (name, size) in enumerate(SIZES.items()):
        wanted = np.bincount(real[:, i], minlength=size) / rows
        got = np.bincount(made.table[name].to_numpy(), minlength=size) / made.table.num_rows
        assert np.abs(wanted - got).sum() / 2 < limit, name


@METHOD
def test_the_plan_is_made_without_data_and_lists_the_whole_budget(method: str) -> None:
    budget, steps = plan_run(Schema.from_sizes(SIZES), epsilon=0.7, delta=1e-7, method=method)
    assert sum((Fraction(step.rho) for step in steps), Fraction(0)) == pytest.approx(float(budget.rho), rel=1e-9)
    assert len({step.step for step in steps}) == len(steps)
    assert all(step.rho > 0 and step.note for step in steps)


@METHOD
def test_every_method_says_what_it_is(method: str) -> None:
    cls = METHODS[method]
    assert cls.name == method
    assert all(getattr(cls.info, name).strip() for name in ("title", "paper", "good_for", "corrected"))
    assert (ROOT / cls.info.page).is_file()
    assert cls.__doc__


@METHOD
def test_every_setting_says_where_its_default_comes_from(method: str) -> None:
    documented = "".join(cls.__doc__ or "" for cls in METHODS[method].__mro__)
    for name, origin in origins(METHODS[method]).items():
        assert origin.split(":")[0] in ("paper", "tuned", "choice"), name
        assert f" {name}: " in documented, name
