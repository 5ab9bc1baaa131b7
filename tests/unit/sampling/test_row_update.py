"""GUM and MCF: rows and domains are kept, errors fall, targets are met, large flows are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import ModelTooLargeError, SchemaError
from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.models.rows import GumRows
from lookalike.pipeline import synthesize
from lookalike.sampling.raking import independent_rows
from lookalike.sampling.row_update import (
    GumSchedule,
    GumSettings,
    flow_rows,
    generate_rows,
    mean_l1,
    min_cost_flow,
    removal_counts,
    update_rows,
    whole_counts,
)
from lookalike.schema.domain import Domain, counted


def dependent_table(rows: int, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, ConsistentMarginals]:
    """Rows whose columns follow one another, and their exact pairs."""
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)
    codes = np.empty((rows, len(sizes)), np.int32, order="F")
    codes[:, 0] = rng.integers(0, sizes[0], rows)
    for i in range(1, len(sizes)):
        follows = codes[:, i - 1] * sizes[i] // sizes[i - 1]
        codes[:, i] = np.where(rng.random(rows) < 0.7, follows, rng.integers(0, sizes[i], rows))
    pairs = tuple(combinations(domain.names, 2))
    tables = []
    for a, b in pairs:
        table = np.zeros(domain.shape((a, b)))
        np.add.at(table, (codes[:, domain.position(a)], codes[:, domain.position(b)]), 1)
        tables.append(table)
    return codes, ConsistentMarginals(domain, pairs, tuple(tables), (0.0,) * len(pairs), float(rows))


def test_exact_targets_are_nearly_reached_from_an_independent_start() -> None:
    _, targets = dependent_table(5000, (4, 6, 3, 5, 2), 0)
    rng = np.random.default_rng(0)
    start = independent_rows(targets, 5000, rng)
    made = update_rows(start, targets, rng, GumSchedule(sweeps=30))
    assert mean_l1(start, targets) > 0.3
    assert mean_l1(made, targets) < 0.02


def test_the_error_falls_with_more_sweeps_and_both_kinds_of_update_are_needed() -> None:
    _, targets = dependent_table(4000, (5, 5, 5, 5, 5, 5), 1)
    start = independent_rows(targets, 4000, np.random.default_rng(1))

    def error(**schedule) -> float:
        return mean_l1(update_rows(start, targets, np.random.default_rng(2), GumSchedule(**schedule)), targets)

    errors = [error(sweeps=sweeps) for sweeps in (1, 5, 25)]
    assert mean_l1(start, targets) > errors[0] > errors[1] > errors[2]
    assert error(sweeps=25, duplicate=(0.0,)) > 2 * errors[2]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(0, 5), st.floats(0, 1))
def test_rows_and_domains_are_kept_whatever_the_targets(seed: int, rows: int, sweeps: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": 1, "b": 3, "c": 4})
    tables = tuple(rng.dirichlet(np.full(domain.cells(c), 0.3)).reshape(domain.shape(c)) for c in (("b", "c"), ("a",)))
    targets = ConsistentMarginals(domain, (("b", "c"), ("a",)), tables, (0.0, 0.0), 1.0)
    start = np.column_stack([rng.integers(0, size, rows) for size in domain.sizes]).astype(np.int32)
    kept = start.copy()
    made = update_rows(start, targets, rng, GumSchedule(sweeps=sweeps, duplicate=(share,)))
    assert made.shape == (rows, 3)
    assert made.min() >= 0
    assert (made.max(axis=0) < domain.sizes).all()
    np.testing.assert_array_equal(start, kept)


def test_no_rows_stay_no_rows() -> None:
    _, targets = dependent_table(50, (2, 2), 0)
    assert update_rows(np.empty((0, 2), np.int32), targets, np.random.default_rng(0)).shape == (0, 2)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.99))
def test_beta_is_exact(seed: int, part: float) -> None:
    rng = np.random.default_rng(seed)
    counts, wanted = rng.integers(0, 50, 12), rng.uniform(0, 40, 12)
    excess = np.maximum(counts - wanted, 0)
    needed = part * excess.sum()
    removed = removal_counts(counts, wanted, needed)
    assert removed.sum() == pytest.approx(needed)
    assert (removed <= excess + 1e-9).all()
    held = removed > 0
    if held.any():
        # One beta for all: cells below their excess lose the same share, capped cells at most that share.
        shares = removed[held] / counts[held]
        open_cells = removed[held] < excess[held] - 1e-9
        assert np.ptp(shares[open_cells]) < 1e-9 if open_cells.any() else True
        assert shares.max() <= (shares[open_cells].max() if open_cells.any() else 1) + 1e-9


def test_marginals_that_fit_are_left_alone() -> None:
    codes, targets = dependent_table(2000, (3, 3, 3), 3)
    made = update_rows(codes, targets, np.random.default_rng(0), GumSchedule(sweeps=5, stop_early=True))
    np.testing.assert_array_equal(made, codes)


def test_stopping_early_never_makes_the_total_error_larger() -> None:
    codes, exact = dependent_table(300, (6, 6, 6, 6, 6), 4)
    rng = np.random.default_rng(5)
    noisy = tuple(np.maximum(table + rng.normal(0, 8, table.shape), 0) for table in exact.tables)
    targets = ConsistentMarginals(exact.domain, exact.cliques, noisy, exact.stddevs, exact.total)
    for sweeps in (1, 2, 5):
        made = update_rows(codes, targets, np.random.default_rng(6), GumSchedule(sweeps=sweeps, stop_early=True))
        assert mean_l1(made, targets) <= mean_l1(codes, targets)


def test_schedule() -> None:
    schedule = GumSchedule(sweeps=50)
    assert [schedule.alpha(t) for t in (0, 19, 20, 40)] == pytest.approx([1, 1, 0.84, 0.84**2])
    assert [schedule.share(t) for t in (46, 47, 48, 49)] == [1.0, 0.5, 1.0, 0.5]
    with pytest.raises(ValueError, match="decay"):
        GumSchedule(decay=0.0)
    with pytest.raises(ValueError, match="sweeps"):
        GumSchedule(sweeps=-1)


@pytest.mark.parametrize("seed", range(5))
def test_flow_is_as_cheap_as_the_best_assignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 9, (5, 5)).astype(float)
    flow = min_cost_flow(np.ones(5), np.ones(5), cost)
    best = min(sum(cost[i, j] for i, j in enumerate(order)) for order in permutations(range(5)))
    assert (flow * cost).sum() == pytest.approx(best)
    np.testing.assert_array_equal(flow.sum(axis=0), 1)


def test_whole_counts_add_up() -> None:
    counts = whole_counts(np.array([[0.2, 0.3], [0.1, 0.4]]), 101)
    assert counts.sum() == 101
    assert np.abs(counts - [[20.2, 30.3], [10.1, 40.4]]).max() < 1


def test_the_papers_example_changes_the_fewest_columns() -> None:
    domain = Domain.of({"age": 3, "sex": 2})
    targets = ConsistentMarginals(domain, (("age",),), (np.array([5.0, 2.0, 3.0]),), (0.0,), 10.0)
    start = np.column_stack([np.repeat([0, 1, 2], [3, 3, 4]), np.tile([0, 1], 5)]).astype(np.int32)
    made = flow_rows(start, targets, np.random.default_rng(0), sweeps=1)
    np.testing.assert_array_equal(np.bincount(made[:, 0]), [5, 2, 3])
    np.testing.assert_array_equal(np.bincount(made[:, 1]), [5, 5])


def test_the_last_marginal_of_a_sweep_is_met_exactly_and_rows_are_kept() -> None:
    domain = Domain.of({"a": 3, "b": 3, "c": 2})
    full = np.random.default_rng(0).multinomial(400, np.random.default_rng(1).dirichlet(np.full(18, 0.5)))
    full = full.reshape(3, 3, 2).astype(float)
    cliques = (("a", "b"), ("b", "c"))
    targets = ConsistentMarginals(domain, cliques, (full.sum(axis=2), full.sum(axis=0)), (0.0, 0.0), 400.0)
    start = np.random.default_rng(2).integers(0, 2, (400, 3)).astype(np.int32)
    made = flow_rows(start, targets, np.random.default_rng(3), sweeps=4)
    assert made.shape == start.shape
    found = np.zeros((3, 2))
    np.add.at(found, (made[:, 1], made[:, 2]), 1)
    np.testing.assert_array_equal(found, targets.tables[1])


def test_large_marginals_are_refused_with_the_limit() -> None:
    domain = Domain.of({"a": 100, "b": 100})
    targets = ConsistentMarginals(domain, (("a", "b"),), (np.ones((100, 100)),), (0.0,), 1e4)
    with pytest.raises(ModelTooLargeError, match="GUM"):
        flow_rows(np.zeros((10, 2), np.int32), targets, np.random.default_rng(0))


def test_marginals_too_large_for_a_flow_are_met_by_gum_first() -> None:
    domain = Domain.of({"a": 40, "b": 40, "c": 2})
    pairs = np.random.default_rng(0).dirichlet(np.full(1600, 0.05)).reshape(40, 40) * 3000
    tables = (pairs, np.outer(pairs.sum(axis=0), [0.25, 0.75]))
    targets = ConsistentMarginals(domain, (("a", "b"), ("b", "c")), tables, (1.0, 1.0), 3000.0)
    settings = replace(GumSettings.of_flows(), append=False)
    made = generate_rows(targets, 3000, np.random.default_rng(1), settings)
    assert np.abs(counted(domain, made, ("a", "b")) - pairs).sum() < 0.3 * 3000
    assert np.abs(counted(domain, made, ("b", "c")) - tables[1]).sum() < 0.03 * 3000


def test_flows_are_a_generator_of_any_method() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 3000)
    table = pa.table({"a": a, "b": np.where(rng.random(3000) < 0.9, a, 0), "c": rng.integers(0, 2, 3000)})
    made = synthesize(table, schema={"a": 3, "b": 3, "c": 2}, epsilon=5.0, method="mst", generator="mcf", seed=0)
    model = made.fitted.model
    assert isinstance(model, GumRows)
    assert model.settings == GumSettings.of_flows()
    rows = {name: made.rows[name].to_numpy() for name in "abc"}
    assert np.mean(rows["a"] == rows["b"]) == pytest.approx(np.mean(a == table["b"].to_numpy()), abs=0.03)
    with pytest.raises(SchemaError, match="'mcf'"):
        synthesize(table, schema={"a": 3, "b": 3, "c": 2}, generator="magic")  # type: ignore[arg-type]
