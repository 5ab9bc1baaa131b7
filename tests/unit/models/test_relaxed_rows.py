"""Relaxed rows: marginals are means of products, and rounded rows keep them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lookalike.models.relaxed_rows import RelaxedRows
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 4, 1))


def relaxed(rows: int, seed: int = 0) -> RelaxedRows:
    rng = np.random.default_rng(seed)
    distributions = np.concatenate([rng.dirichlet(np.full(size, 0.5), rows).T for size in DOMAIN.sizes])
    return RelaxedRows(DOMAIN, 1000.0, distributions)


def test_marginals_are_means_over_rows_of_products_of_distributions() -> None:
    model = relaxed(7)
    a, b, c, d = np.split(model.distributions, np.cumsum(DOMAIN.sizes)[:-1])
    joint = 1000 * np.einsum("ar,br,cr,dr->abcd", a, b, c, d) / 7
    for size in range(5):
        for axes in combinations(range(4), size):
            dropped = tuple(axis for axis in range(4) if axis not in axes)
            names = [DOMAIN.names[axis] for axis in axes]
            np.testing.assert_allclose(model.marginal(names[::-1]), joint.sum(axis=dropped), rtol=1e-12)


@pytest.mark.parametrize("rows", [0, 3, 7, 50_000])
def test_rounded_rows_keep_every_column_to_within_a_row_or_so_per_relaxed_row(rows: int) -> None:
    model = relaxed(7)
    codes = model.sample(rows, np.random.default_rng(1))
    assert codes.shape == (rows, 4)
    assert codes.dtype == np.int32
    if rows > 7:
        for i, name in enumerate(DOMAIN.names):
            found = np.bincount(codes[:, i], minlength=DOMAIN.sizes[i])
            assert np.abs(found - model.marginal((name,)) * rows / 1000).max() <= 3 * 7
            assert found.size == DOMAIN.sizes[i]


def test_columns_are_tied_by_the_row_they_come_from_only() -> None:
    """Two rows that are sure of a and b, but not of c: a and b go together, c goes with neither."""
    distributions = np.array(
        [[1.0, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0.25, 0.25], [0.25, 0.25], [0.25] * 2, [0.25] * 2, [1, 1]]
    )
    model = RelaxedRows(DOMAIN, 100.0, distributions)
    codes = model.sample(40_000, np.random.default_rng(2))
    assert (codes[:, 0] == codes[:, 1]).all()
    pair = np.bincount(codes[:, 0] * 4 + codes[:, 2], minlength=12).reshape(3, 4)
    np.testing.assert_allclose(pair, model.marginal(("a", "c")) * 400, atol=2)
    triples = np.bincount(codes[:20_000, 2] * 2 + codes[:20_000, 1], minlength=8)
    assert np.abs(triples - 2500).max() < 400  # in random order: any half of the rows is like the whole


def test_values_without_probability_never_come() -> None:
    distributions = np.array(
        [[0.0] * 5, [1.0] * 5, [0.0] * 5, [1.0] * 5, [0.0] * 5, *np.eye(4)[[0, 2]].T.repeat(3, 1)[:, :5], [1.0] * 5]
    )
    codes = RelaxedRows(DOMAIN, 10.0, distributions).sample(1001, np.random.default_rng(3))
    assert set(codes[:, 0]) == {1}
    assert set(codes[:, 1]) == {0}
    assert set(codes[:, 2]) <= {0, 2}


def test_distributions_of_another_domain_are_refused() -> None:
    with pytest.raises(ValueError, match="for 10 values"):
        RelaxedRows(DOMAIN, 1.0, np.ones((9, 5)))
