"""MCF: flows are cheapest, every marginal is met in its turn, and large ones are refused or left to GUM."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import ModelTooLargeError, SchemaError
from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.models.rows import GumRows
from lookalike.pipeline import synthesize
from lookalike.sampling.row_update import GumSettings, flow_rows, generate_rows, min_cost_flow, whole_counts
from lookalike.schema.cells import counted
from lookalike.schema.domain import Domain


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


def test_the_papers_example_moves_the_fewest_attributes() -> None:
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
