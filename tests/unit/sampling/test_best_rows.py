"""Best rows: independent draws without queries, maxima with them; and sets of rows as models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lookalike.models.rows import RowsModel
from lookalike.schema.domain import Domain
from lookalike.selection.cell_queries import PerturbedLeader

DOMAIN = Domain(("a", "b", "c"), (3, 2, 4))
DISTRIBUTIONS = [np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.5]), np.array([0.7, 0.1, 0.1, 0.1])]


def share(codes: np.ndarray, column: int, size: int) -> np.ndarray:
    return np.bincount(codes[:, column], minlength=size) / len(codes)


def test_rows_without_queries_are_independent_draws_from_the_distributions() -> None:
    """Standard errors are 0.0016 at most; 0.01 is six of them."""
    codes = PerturbedLeader(DOMAIN, DISTRIBUTIONS).rows(100_000, np.random.default_rng(0))
    for column, distribution in enumerate(DISTRIBUTIONS):
        np.testing.assert_allclose(share(codes, column, len(distribution)), distribution, atol=0.01)
    both = np.bincount(codes[:, 0] * 4 + codes[:, 2], minlength=12).reshape(3, 4) / len(codes)
    np.testing.assert_allclose(both, np.outer(DISTRIBUTIONS[0], DISTRIBUTIONS[2]), atol=0.01)


def test_each_row_is_as_good_as_any_that_differs_in_one_column() -> None:
    """The noise is drawn again from the same seed, and every row compared with all others of the domain."""
    leader = PerturbedLeader(DOMAIN, DISTRIBUTIONS)
    rng = np.random.default_rng(1)
    for clique in (("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c"), ("b",)):
        for cell in product(*(range(size) for size in DOMAIN.shape(clique))):
            leader.prefer(clique, cell, float(rng.normal(0, 2)))
    codes = leader.rows(500, np.random.default_rng(2), sweeps=20)
    again = np.random.default_rng(2)
    alone = [field + again.gumbel(size=(500, len(field))) for field in leader.fields]

    def value(rows: np.ndarray) -> np.ndarray:
        found = sum(scores[np.arange(500), rows[:, i]] for i, scores in enumerate(alone))
        for clique, table in leader.weights.items():
            found = found + table[tuple(rows[:, DOMAIN.position(name)] for name in clique)]
        return np.asarray(found)

    best = value(codes)
    for column, size in enumerate(DOMAIN.sizes):
        for code in range(size):
            other = codes.copy()
            other[:, column] = code
            assert (value(other) <= best + 1e-4).all()


def test_a_preferred_cell_gets_more_rows_and_an_avoided_one_fewer() -> None:
    leader = PerturbedLeader(DOMAIN, DISTRIBUTIONS)
    leader.prefer(("a", "c"), (2, 3), 4.0)
    leader.prefer(("b",), (0,), -2.0)
    codes = leader.rows(20_000, np.random.default_rng(3))
    assert ((codes[:, 0] == 2) & (codes[:, 2] == 3)).mean() > 0.1 > 0.01
    # A single column is maximised exactly: odds of 1 to exp(2).
    assert (codes[:, 1] == 0).mean() == pytest.approx(1 / (1 + np.exp(2)), abs=0.02)


def test_columns_return_to_their_distributions() -> None:
    leader, rng = PerturbedLeader(DOMAIN, DISTRIBUTIONS), np.random.default_rng(4)
    leader.prefer(("a", "c"), (2, 3), 3.0)
    codes = leader.rows(20_000, rng)
    off = np.abs(share(codes, 0, 3) - DISTRIBUTIONS[0]).sum()
    for _ in range(15):
        leader.keep_columns(DISTRIBUTIONS, codes, 0.3)
        codes = leader.rows(20_000, rng)
    assert np.abs(share(codes, 0, 3) - DISTRIBUTIONS[0]).sum() < 0.2 * off
    both = (codes[:, 0] == 2) & (codes[:, 2] == 3)
    assert both.mean() > 3 * DISTRIBUTIONS[0][2] * DISTRIBUTIONS[2][3]


def test_exponential_noise_leaves_an_even_distribution_even() -> None:
    even = [np.full(size, 1 / size) for size in DOMAIN.sizes]
    codes = PerturbedLeader(DOMAIN, even).rows(50_000, np.random.default_rng(5), noise="exponential")
    np.testing.assert_allclose(share(codes, 2, 4), 0.25, atol=0.015)


def test_a_set_of_rows_repeats_every_row_alike_and_counts_them() -> None:
    codes = np.array([[0, 0, 0], [2, 1, 3], [0, 1, 3]], dtype=np.int32)
    model = RowsModel(DOMAIN, 30.0, codes)
    assert model.marginal(("b", "c")).tolist() == [[10, 0, 0, 0], [0, 0, 0, 20]]
    found, counts = np.unique(model.sample(8, np.random.default_rng(0)), axis=0, return_counts=True)
    assert found.tolist() == [[0, 0, 0], [0, 1, 3], [2, 1, 3]]
    assert sorted(counts) == [2, 3, 3]
    assert model.sample(0, np.random.default_rng(0)).shape == (0, 3)


def test_a_set_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="rows of shape"):
        RowsModel(DOMAIN, 1.0, np.zeros((0, 3), dtype=np.int32))
