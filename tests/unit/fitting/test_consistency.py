"""Weights, closure and repeats of the consistency step."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.fitting.consistency import ConsistentMarginals, make_consistent, merge_repeats, shared_sets
from lookalike.measurements.marginals import NoisyMarginal
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 2})


def test_shared_sets_are_closed_under_intersection_and_ordered_by_size() -> None:
    found = shared_sets(DOMAIN, [("a", "b", "c"), ("b", "c", "d"), ("a", "c", "d")])
    assert found == [(), ("c",), ("a", "c"), ("b", "c"), ("c", "d")]


def test_a_clique_inside_another_is_shared() -> None:
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
