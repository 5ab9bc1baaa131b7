"""Marginals from other marginals: sums where a table holds them, greatest entropy where none does."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.fitting.consistency import ConsistentMarginals, reconstruct
from lookalike.schema.domain import Domain

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})


def views_of(joint: np.ndarray, *cliques: tuple[str, ...]) -> ConsistentMarginals:
    """The exact marginals of a joint table."""
    tables = [joint.sum(axis=tuple(i for i, n in enumerate(DOMAIN.names) if n not in clique)) for clique in cliques]
    return ConsistentMarginals(DOMAIN, cliques, tuple(tables), (0.0,) * len(cliques), float(joint.sum()))


@pytest.fixture
def joint() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(48)).reshape(2, 3, 2, 4) * 1000


def test_a_marginal_inside_a_view_is_summed(joint: np.ndarray) -> None:
    targets = views_of(joint, ("a", "b", "c"), ("c", "d"))
    np.testing.assert_allclose(reconstruct(targets, ("c", "a")), joint.sum(axis=(1, 3)), rtol=1e-9)
    np.testing.assert_allclose(reconstruct(targets, ()), joint.sum(), rtol=1e-12)


def test_a_chain_is_conditionally_independent(joint: np.ndarray) -> None:
    targets = views_of(joint, ("a", "b"), ("b", "c"))
    ab, bc, b = joint.sum(axis=(2, 3)), joint.sum(axis=(0, 3)), joint.sum(axis=(0, 2, 3))
    wanted = ab[:, :, None] * bc[None] / b[None, :, None]
    np.testing.assert_allclose(reconstruct(targets, ("a", "b", "c")), wanted, rtol=1e-6)


def test_a_triangle_has_all_three_sides_and_unknown_columns_are_even(joint: np.ndarray) -> None:
    targets = views_of(joint, ("a", "b"), ("b", "c"), ("a", "c"))
    table = reconstruct(targets, ("a", "b", "c"))
    for axis, clique in ((2, ("a", "b")), (0, ("b", "c")), (1, ("a", "c"))):
        np.testing.assert_allclose(table.sum(axis=axis), reconstruct(targets, clique), rtol=1e-5)
    np.testing.assert_allclose(reconstruct(targets, ("d",)), np.full(4, 250.0))


def test_empty_cells_stay_empty() -> None:
    joint = np.zeros((2, 3, 2, 4))
    joint[0, 0, 0, 0] = joint[1, 2, 1, 3] = 5.0
    table = reconstruct(views_of(joint, ("a", "b"), ("b", "c")), ("a", "c"))
    assert table.sum() == pytest.approx(10.0)
    np.testing.assert_allclose(table, [[5.0, 0.0], [0.0, 5.0]], atol=2.6)
