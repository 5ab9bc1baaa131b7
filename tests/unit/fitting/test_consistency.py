"""Consistent marginals: weights, closure, repeats, norm-sub, and other marginals by maximum entropy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lookalike.fitting.consistency import (
    ConsistentMarginals,
    make_consistent,
    merge_repeats,
    norm_sub,
    reconstruct,
    shared_sets,
)
from lookalike.measurements import NoisyMarginal
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 2})


def test_shared_sets_are_closed_under_intersection_and_ordered_by_size() -> None:
    found = shared_sets(DOMAIN, [("a", "b", "c"), ("b", "c", "d"), ("a", "c", "d")])
    assert found == [(), ("c",), ("a", "c"), ("b", "c"), ("c", "d")]


def test_a_column_set_inside_another_is_shared() -> None:
    assert shared_sets(DOMAIN, [("a",), ("a", "b")]) == [(), ("a",)]


def test_weights_are_inverse_variances_of_the_projections() -> None:
    # rho_i / g_i: the pair sums 3 cells of variance 4 into one of a, the 1-way has one of variance 1.
    single = NoisyMarginal(("a",), np.array([60.0, 40.0]), 1.0)
    pair = NoisyMarginal(("a", "b"), np.array([[10.0, 20.0, 22.0], [16.0, 16.0, 16.0]]), 2.0)
    result = make_consistent(DOMAIN, [single, pair], total=100.0)
    weight = (1 / 1.0) / (1 / 1.0 + 1 / (3 * 4.0))
    expected = weight * 60 + (1 - weight) * 52
    assert result.one_way("a")[0] == pytest.approx(expected, abs=1e-6)
    # The correction of a's count is shared equally by the three cells of the pair.
    np.testing.assert_allclose(np.diff(result.tables[1][0]), [10.0, 2.0], atol=1e-6)


def test_noise_free_marginals_are_kept() -> None:
    rng = np.random.default_rng(0)
    full = rng.integers(0, 50, DOMAIN.sizes).astype(float)
    cliques = [("a", "b"), ("b", "c"), ("a", "c", "d")]
    tables = [full.sum(axis=tuple(i for i, n in enumerate(DOMAIN.names) if n not in c)) for c in cliques]
    result = make_consistent(DOMAIN, [NoisyMarginal(c, t, 1.0) for c, t in zip(cliques, tables, strict=True)])
    for found, table in zip(result.tables, tables, strict=True):
        np.testing.assert_allclose(found, table, atol=1e-6)


def test_consistency_brings_noisy_marginals_nearer_to_the_truth() -> None:
    rng = np.random.default_rng(1)
    full = rng.dirichlet(np.full(24, 0.3)).reshape(DOMAIN.sizes) * 5000
    cliques = [("a", "b"), ("b", "c"), ("a", "c"), ("b", "d"), ("a", "d"), ("c", "d")]
    truth = [full.sum(axis=tuple(i for i, n in enumerate(DOMAIN.names) if n not in c)) for c in cliques]
    noisy = [NoisyMarginal(c, t + rng.normal(0, 60, t.shape), 60.0) for c, t in zip(cliques, truth, strict=True)]
    result = make_consistent(DOMAIN, noisy)
    before = sum(np.abs(m.values - t).sum() for m, t in zip(noisy, truth, strict=True))
    after = sum(np.abs(x - t).sum() for x, t in zip(result.tables, truth, strict=True))
    assert after < 0.9 * before


def test_repeats_are_averaged_by_inverse_variance_and_groups_are_spread() -> None:
    first = NoisyMarginal(("a",), np.array([10.0, 20.0]), 1.0)
    second = NoisyMarginal(("a",), np.array([20.0, 20.0]), 2.0)
    grouped = NoisyMarginal(("b",), np.array([9.0, 4.0]), 1.0, groups=np.array([0, 0, 1]))
    merged = {m.attrs: m for m in merge_repeats(DOMAIN, [first, second, grouped])}
    np.testing.assert_allclose(merged["a",].values, [12.0, 20.0])
    assert merged["a",].stddev == pytest.approx((1 / (1 + 0.25)) ** 0.5)
    np.testing.assert_allclose(merged["b",].values, [4.5, 4.5, 4.0])


def test_maximal_drops_what_lies_in_another_table() -> None:
    tables = (np.ones(2), np.ones((2, 3)), np.ones(2))
    targets = ConsistentMarginals(DOMAIN, (("a",), ("a", "b"), ("d",)), tables, (1.0, 1.0, 1.0), 6.0)
    assert targets.maximal().cliques == (("a", "b"), ("d",))


def test_a_table_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        ConsistentMarginals(DOMAIN, (("a",),), (np.ones(3),), (1.0,), 3.0)
    with pytest.raises(ValueError, match="stddevs"):
        ConsistentMarginals(DOMAIN, (("a",),), (np.ones(2),), (), 2.0)


VALUES = arrays(float, st.integers(1, 30), elements=st.floats(-1e4, 1e4, allow_subnormal=False))


@settings(max_examples=100, deadline=None)
@given(VALUES, st.floats(0.01, 1e5))
def test_result_is_feasible_and_satisfies_the_optimality_conditions(values: np.ndarray, total: float) -> None:
    result = norm_sub(values, total)
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(total, rel=1e-9, abs=1e-6)
    # Projection: positive cells are all shifted alike, and cells at 0 would be negative after that shift.
    positive = result > 0
    shifts = (values - result)[positive]
    tolerance = 1e-7 * (1 + np.abs(values).max() + total)
    assert np.ptp(shifts) <= tolerance
    assert (values[~positive] <= shifts.max() + tolerance).all()


def test_a_valid_table_stays_as_it_is() -> None:
    table = np.array([[1.0, 2.0], [0.0, 4.0]])
    np.testing.assert_allclose(norm_sub(table, 7.0), table)


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_nothing_to_share_gives_zeros(total: float) -> None:
    np.testing.assert_array_equal(norm_sub(np.array([1.0, -1.0]), total), [0.0, 0.0])


WIDE = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})


def exact_marginals(joint: np.ndarray, *cliques: tuple[str, ...]) -> ConsistentMarginals:
    """The exact marginals of a joint table."""
    tables = [joint.sum(axis=tuple(i for i, n in enumerate(WIDE.names) if n not in clique)) for clique in cliques]
    return ConsistentMarginals(WIDE, cliques, tuple(tables), (0.0,) * len(cliques), float(joint.sum()))


@pytest.fixture
def joint() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(48)).reshape(2, 3, 2, 4) * 1000


def test_a_marginal_inside_a_table_is_summed(joint: np.ndarray) -> None:
    targets = exact_marginals(joint, ("a", "b", "c"), ("c", "d"))
    np.testing.assert_allclose(reconstruct(targets, ("c", "a")), joint.sum(axis=(1, 3)), rtol=1e-9)
    np.testing.assert_allclose(reconstruct(targets, ()), joint.sum(), rtol=1e-12)


def test_a_chain_is_conditionally_independent(joint: np.ndarray) -> None:
    targets = exact_marginals(joint, ("a", "b"), ("b", "c"))
    ab, bc, b = joint.sum(axis=(2, 3)), joint.sum(axis=(0, 3)), joint.sum(axis=(0, 2, 3))
    wanted = ab[:, :, None] * bc[None] / b[None, :, None]
    np.testing.assert_allclose(reconstruct(targets, ("a", "b", "c")), wanted, rtol=1e-6)


def test_a_triangle_has_all_three_sides_and_unknown_columns_are_even(joint: np.ndarray) -> None:
    targets = exact_marginals(joint, ("a", "b"), ("b", "c"), ("a", "c"))
    table = reconstruct(targets, ("a", "b", "c"))
    for axis, clique in ((2, ("a", "b")), (0, ("b", "c")), (1, ("a", "c"))):
        np.testing.assert_allclose(table.sum(axis=axis), reconstruct(targets, clique), rtol=1e-5)
    np.testing.assert_allclose(reconstruct(targets, ("d",)), np.full(4, 250.0))


def test_empty_cells_stay_empty() -> None:
    joint = np.zeros((2, 3, 2, 4))
    joint[0, 0, 0, 0] = joint[1, 2, 1, 3] = 5.0
    table = reconstruct(exact_marginals(joint, ("a", "b"), ("b", "c")), ("a", "c"))
    assert table.sum() == pytest.approx(10.0)
    np.testing.assert_allclose(table, [[5.0, 0.0], [0.0, 5.0]], atol=2.6)
