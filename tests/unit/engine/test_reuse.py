"""Shared places, arrays computed again, gathered operations and halved instructions change nothing but the cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from lookalike.engine import executor as places
from lookalike.engine import numba_executor, numpy_executor
from lookalike.engine.contraction import Network
from lookalike.engine.executor import threads_allowed, with_reuse
from lookalike.engine.numba_executor import NumbaExecutor
from lookalike.engine.numpy_executor import NumpyExecutor
from lookalike.engine.plan import make_layout
from lookalike.engine.planner import make_plan
from lookalike.schema.domain import Domain

DOMAIN = Domain(tuple("abcdefghij"), (4, 7, 2, 5, 3, 6, 2, 8, 3, 5))


def random_plan(seed: int, count: int = 14):
    rng = np.random.default_rng(seed)
    cliques = [tuple(DOMAIN.names[i] for i in sorted(rng.choice(10, 3, replace=False))) for _ in range(count)]
    return make_plan(DOMAIN, cliques, seed=seed)


def swept(executor, seed: int = 1) -> np.ndarray:
    executor.sweep(np.random.default_rng(seed).normal(size=executor.layout.leaf_cells))
    return executor.marginals.copy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("large_cells", [10, 30_000])
def test_shared_places_change_no_number(seed, large_cells, monkeypatch):
    monkeypatch.setattr(places, "_LARGE_CELLS", large_cells)
    monkeypatch.setattr(places, "_SMALL_CELLS", 16)
    layout = make_layout(random_plan(seed))
    expected = swept(NumpyExecutor(layout))
    shared = with_reuse(layout)
    assert shared.cells < layout.cells
    assert (len(shared.adjoint) > len(layout.adjoint)) == (large_cells == 10)
    for executor in (NumpyExecutor(shared), NumbaExecutor(shared)):
        np.testing.assert_allclose(swept(executor), expected, rtol=1e-11)
        # A second sweep must not see anything the first one left.
        swept(executor, seed=2)
        np.testing.assert_allclose(swept(executor), expected, rtol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_arrays_still_needed_are_never_overwritten(seed, monkeypatch):
    """Follows which logical array every cell of the buffer holds, operation by operation."""
    monkeypatch.setattr(places, "_LARGE_CELLS", 50)
    layout = make_layout(random_plan(seed))
    shared = with_reuse(layout)
    first = 2 * layout.leaf_cells + layout.components
    original = [*layout.forward, *places._with_recomputation(layout, first)]
    holds = np.full(shared.cells, -1)
    numbers: dict[object, int] = {}
    for before, after in zip(original, (*shared.forward, *shared.adjoint), strict=True):
        for old, new in zip(before[:3], after[:3], strict=True):
            if old is None or old.offset < first:
                assert old == new
                continue
            cells = slice(new.offset, new.offset + math.prod(layout.shape(new.mask)))
            if old == before.c:
                holds[cells] = numbers.setdefault(old, len(numbers))
            else:
                assert (holds[cells] == numbers[old]).all()


def test_a_dense_model_needs_less_than_half_the_memory():
    domain = Domain(tuple(f"v{i}" for i in range(15)), (16, 7, 16, 16, 16, 7, 14, 6, 5, 2, 8, 15, 16, 41, 2))
    sets = [(domain.names[i], domain.names[(i + 1) % 15], domain.names[(i + 4) % 15]) for i in range(15)]
    layout = make_layout(make_plan(domain, sets))
    assert layout.cells > 1e5
    assert with_reuse(layout).cells < 0.5 * layout.cells


@pytest.mark.parametrize("seed", range(4))
def test_groups_respect_what_needs_what(seed):
    layout = make_layout(random_plan(seed, 20))
    for late, operations in ((False, layout.forward), (True, layout.adjoint)):
        groups = numpy_executor.grouped(layout, operations, late=late)
        assert set(itertools.chain(*groups)) == set(operations)
        written = {operation.c for operation in operations}
        done: set[object] = set()
        for group in groups:
            for operation in group:
                assert all(array in done for array in operation[:2] if array in written)
            done |= {operation.c for operation in group}


@pytest.mark.parametrize("seed", range(4))
def test_gathering_changes_no_number(seed, monkeypatch):
    layout = make_layout(random_plan(seed, 20))
    expected = swept(NumpyExecutor(layout))
    gathered = NumpyExecutor(layout, reuse=True)
    assert len(gathered._forward_steps) + len(gathered._adjoint_steps) < len(layout.forward) + len(layout.adjoint)
    np.testing.assert_allclose(swept(gathered), expected, rtol=1e-11)
    monkeypatch.setattr(numpy_executor, "_MAX_CELLS_IN_GROUPS", 0)
    np.testing.assert_allclose(swept(NumpyExecutor(layout, reuse=True)), expected, rtol=1e-11)


def test_large_products_are_not_written_out(monkeypatch):
    layout = make_layout(random_plan(0))
    expected = swept(NumpyExecutor(layout))
    monkeypatch.setattr(numpy_executor, "_MAX_PRODUCTS", 0)
    np.testing.assert_allclose(swept(NumpyExecutor(layout)), expected, rtol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_two_threads_give_the_same_numbers(seed, monkeypatch):
    plan = random_plan(seed)
    monkeypatch.setenv("LOOKALIKE_THREADS", "1")
    alone = NumbaExecutor(with_reuse(make_layout(plan)))
    assert not alone._segments
    monkeypatch.setattr("lookalike.engine.numba_executor.WORTH_TWO_THREADS_NS", 0.0)
    monkeypatch.setattr("lookalike.engine.numba_executor.threads_allowed", lambda: 2)
    shared = NumbaExecutor(with_reuse(make_layout(plan)))
    assert sum(segment.halves is not None for segment in shared._segments) > 5
    np.testing.assert_allclose(swept(shared), swept(alone), rtol=1e-13)


def test_an_instruction_without_an_outer_loop_is_not_halved():
    assert numba_executor.halved([numba_executor.KIND_CELLS, 0, 8, 16, 1, 0]) is None
    one, two = numba_executor.halved([numba_executor.KIND_CELLS, 0, 8, 16, 5, 0])
    assert (one, two) == ([3, 0, 8, 16, 2, 0], [3, 2, 10, 18, 3, 0])


def test_the_number_of_threads_can_be_lowered(monkeypatch):
    monkeypatch.setenv("LOOKALIKE_THREADS", "1")
    assert threads_allowed() == 1
    monkeypatch.setenv("LOOKALIKE_THREADS", "many")
    assert 1 <= threads_allowed() <= 2


@pytest.mark.parametrize("executor", ["numpy", "numba"])
@pytest.mark.parametrize("gap", [560.0, 590.0, 700.0, 1500.0])
def test_a_normaliser_near_the_trusted_bound_is_right_or_computed_in_logs(executor, gap):
    """The one likely combination of each factor is nearly ruled out by the next: the normaliser is about exp(-gap)."""
    domain = Domain(("a", "b", "c"), (3, 3, 3))
    network = Network(make_plan(domain, [("a", "b"), ("b", "c"), ("a", "c")]), executor=executor)
    tables = np.random.default_rng(0).uniform(-1.0, 0.0, (3, 3, 3))
    for table, row in zip(tables, ((0, 0), (1, 1), (2, 2)), strict=True):
        table -= gap / 2
        table[row] += gap / 2
    log_z = network.sweep(np.concatenate([network.pack(i, tables[i]) for i in range(3)]))
    joint = np.zeros(domain.sizes)
    for table, names in zip(tables, network.plan.leaves, strict=True):
        joint += table.reshape([domain.size(name) if name in names else 1 for name in domain.names])
    expected = joint.max() + np.log(np.exp(joint - joint.max()).sum())
    assert log_z == pytest.approx(expected, rel=1e-12)
    for leaf, names in enumerate(network.plan.leaves):
        other = tuple(axis for axis, name in enumerate(domain.names) if name not in names)
        found = network.unpack(leaf, network.marginals)
        np.testing.assert_allclose(found, np.exp(joint - expected).sum(axis=other), rtol=0, atol=1e-12)
    assert network.used_log_space == (log_z < -580.0)
