"""PrivMRF, our variant and the paper's, on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import LookalikeError
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.pipeline import plan_run, synthesize
from lookalike.release import Release
from lookalike.schema.binned import Integer
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema

BOTH = pytest.mark.parametrize("method", ["privmrf", "privmrf-paper"])
SIZES = {"a": 2, "b": 2, "c": 2, "d": 3, "e": 2, "f": 4}


def table(rows: int, seed: int = 0) -> np.ndarray:
    """c is a xor b (no pair shows it), d and f follow c, e is free."""
    rng = np.random.default_rng(seed)
    a, b, e = rng.integers(0, 2, (3, rows))
    c = np.where(rng.random(rows) < 0.95, a ^ b, 1 - (a ^ b))
    d = np.where(rng.random(rows) < 0.8, c, 2)
    return np.column_stack([a, b, c, d, e, (2 * c + rng.integers(0, 2, rows))]).astype(np.int32)


def run(
    codes: np.ndarray, sizes: dict[str, int], *, method: str = "privmrf", epsilon: float = 1.0, **settings
) -> Release:
    frame = pa.table({name: codes[:, i] for i, name in enumerate(sizes)})
    noise = np.random.default_rng(5)
    return synthesize(
        frame, schema=sizes, epsilon=epsilon, delta=1e-6, method=method, seed=1, insecure_rng=noise, **settings
    )


def codes_of(release: Release, sizes: dict[str, int]) -> np.ndarray:
    return np.column_stack([release.table[name].to_numpy() for name in sizes]).astype(np.int32)


@BOTH
def test_marginals_of_three_columns_are_close(method: str) -> None:
    codes = table(20_000)
    made = run(codes, SIZES, epsilon=2.0, method=method)
    close = distances_of(
        TablePair(codes, codes_of(made, SIZES), Domain.of(SIZES)), random_cliques(Domain.of(SIZES), 3)
    ).mean
    shuffled = np.column_stack([np.random.default_rng(i).permutation(codes[:, i]) for i in range(codes.shape[1])])
    apart = distances_of(TablePair(codes, shuffled, Domain.of(SIZES)), random_cliques(Domain.of(SIZES), 3)).mean
    assert close < 0.25 * apart


def test_a_dependence_that_no_pair_shows_is_found_by_the_second_choice() -> None:
    made = run(table(20_000), SIZES, epsilon=4.0)
    counts = made.fitted.model.marginal(("a", "b", "c"))
    odd = counts[0, 0, 0] + counts[1, 1, 0] + counts[0, 1, 1] + counts[1, 0, 1]
    assert odd / counts.sum() > 0.9


@pytest.mark.parametrize("settings", [{}, {"candidates": 3}, {"rounds": 40}, {"theta": 1e6}, {"clique_cells": 2.0}])
@BOTH
def test_every_setting_spends_the_whole_budget_by_the_plan(method: str, settings: dict) -> None:
    if settings.get("rounds") and method == "privmrf":
        settings = {"batches": 3}
    made = run(table(500), SIZES, method=method, **settings)
    budget, steps = plan_run(Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-6, method=method, settings=settings)
    assert float(made.spent.rho / budget.rho) == pytest.approx(1.0, abs=1e-8)
    assert set(made.spent.by_step()) == {step.step for step in steps}
    assert sum(step.rho for step in steps) == pytest.approx(float(budget.rho), rel=1e-9)


def test_the_paper_s_shares_and_rounds() -> None:
    budget, steps = plan_run(Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-6, method="privmrf-paper")
    assert [step.rho / float(budget.rho) for step in steps] == pytest.approx([0.1, 0.01, 0.89])
    made = run(table(2000), SIZES, method="privmrf-paper")
    charges = [charge for charge in made.spent.charges if charge.step == steps[2].step]
    rounds = int(0.8 * len(SIZES))
    scored = [charge for charge in charges if "ResidualL1" in charge.detail]
    assert len(scored) == rounds
    assert sum(float(charge.rho) for charge in scored) == pytest.approx(0.1 * float(budget.rho), rel=1e-6)
    # d initial marginals and one per round, all with the same noise.
    counted = [charge for charge in charges if charge not in scored]
    assert [charge.releases for charge in counted] == [len(SIZES)] + [1] * rounds
    each = {round(float(charge.rho) / charge.releases, 12) for charge in counted}
    assert len(each) == 1


@BOTH
@pytest.mark.parametrize("sizes", [{"x": 4}, {"x": 2, "y": 3}, {"x": 1, "y": 1}, {"x": 1200, "y": 1200}])
def test_narrow_and_huge_domains(method: str, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, 60) for size in sizes.values()])
    made = run(codes, sizes, method=method)
    assert made.fitted.model.total > 0


@pytest.mark.parametrize(
    "settings", [{"theta": 0.0}, {"candidates": -1}, {"first_share": 1.0}, {"graph_share": 0.95}, {"choice_share": 0.4}]
)
def test_settings_are_checked(settings: dict) -> None:
    with pytest.raises(LookalikeError):
        run(table(20), SIZES, **settings)


def test_a_pair_with_many_cells_is_still_measured() -> None:
    sizes = {"x": 60, "y": 50, "z": 2}
    rng = np.random.default_rng(0)
    x = rng.integers(0, 60, 20_000)
    made = run(np.column_stack([x, x % 50, rng.integers(0, 2, 20_000)]), sizes, epsilon=5.0)
    got = codes_of(made, sizes)
    assert (got[:, 0] % 50 == got[:, 1]).mean() > 0.8


WIDE = Schema((
    Integer("x", minimum=0, maximum=59, bins=60, hierarchy=(12, 4)),
    Integer("y", minimum=0, maximum=59, bins=60, hierarchy=(12, 4)),
    Integer.coded("z", 2),
))  # fmt: skip


def wide_table(rows: int) -> pa.Table:
    """y is near x, both are skewed within groups of five, z says whether x is large."""
    rng = np.random.default_rng(3)
    x = np.minimum(5 * rng.integers(0, 12, rows) + rng.geometric(0.6, rows) - 1, 59)
    y = np.minimum(5 * (x // 5) + rng.geometric(0.6, rows) - 1, 59)
    return pa.table({"x": x, "y": y, "z": (x > 30).astype(int)})


def wide_run(schema: Schema, rows: int, epsilon: float, method: str = "privmrf") -> Release:
    noise = np.random.default_rng(6)
    return synthesize(
        wide_table(rows), schema=schema, epsilon=epsilon, delta=1e-6, method=method, seed=1, insecure_rng=noise
    )


@BOTH
def test_pairs_that_are_too_large_are_measured_at_a_coarser_level_and_columns_stay_fine(method: str) -> None:
    made = wide_run(WIDE, 6000, 1.0, method=method)
    assert made.fitted.model.domain.sizes == (60, 60, 2)
    assert float(made.spent.epsilon_spent) == pytest.approx(1.0, rel=1e-6)
    assert made.fitted.model.marginal(("x",)).shape == (60,)
    pairs = [m for m in made.fitted.measurements if {"x", "y"} <= set(m.attrs)]
    assert pairs
    assert all(m.groups is not None and m.cells <= 12 * 12 * 2 for m in pairs)
    x, y = (np.asarray(made.table[name]) for name in ("x", "y"))
    assert (x // 15 == y // 15).mean() > 0.9
    # Values within a group come from the fine counts: 60 % are the first of five, not 20 %.
    assert (x % 5 == 0).mean() > 0.45


@BOTH
def test_with_budget_enough_a_hierarchy_changes_nothing(method: str) -> None:
    plain = Schema(tuple(Integer.coded(name, size) for name, size in (("x", 60), ("y", 60), ("z", 2))))
    with_levels, without = (wide_run(schema, 20_000, 50.0, method=method) for schema in (WIDE, plain))
    assert with_levels.fitted.model.kind == without.fitted.model.kind == "graphical"
    assert with_levels.table.equals(without.table)


def test_columns_of_rules_are_not_coarsened() -> None:
    rule = {"never": "x < 30 and z = 1"}
    schema = Schema.from_dict(WIDE.to_dict() | {"dp": {"constraints": [rule]}})
    made = wide_run(schema, 40_000, 0.5)
    assert set(made.fitted.model.maps) == {"y"}  # pyright: ignore[reportAttributeAccessIssue]
    got = made.table
    assert not ((np.asarray(got["x"]) < 30) & (np.asarray(got["z"]) == 1)).any()


@BOTH
def test_sets_beyond_the_engine_s_limit_are_passed_over(method: str) -> None:
    sizes = {"a": 40, "b": 40, "c": 40, "d": 40}
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 40, 500) for _ in sizes])
    made = run(codes, sizes, epsilon=20.0, method=method, model_ms=0.05)
    assert max(Domain.of(sizes).cells(m.attrs) for m in made.fitted.measurements) < 40**3
    assert float(made.spent.epsilon_spent) == pytest.approx(20.0, rel=1e-6)
