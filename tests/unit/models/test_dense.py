"""The model of all cells, and its update by multiplicative weights."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.models.archive import stored_model
from lookalike.models.dense import DenseModel, multiplicative_weights
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def model(total: float = 1000.0) -> DenseModel:
    weights = np.random.default_rng(0).exponential(1.0, DOMAIN.sizes)
    return DenseModel(DOMAIN, weights / weights.sum(), total)


def test_marginals_sum_the_other_columns_out() -> None:
    dense = model()
    np.testing.assert_allclose(dense.marginal(("c", "a")), 1000 * dense.probabilities.sum(axis=1))
    first, second = dense.marginals([("b",), ()])
    np.testing.assert_allclose(first, 1000 * dense.probabilities.sum(axis=(0, 2)))
    assert float(second) == pytest.approx(1000)


@pytest.mark.parametrize("rows", [0, 1, 777])
def test_no_cell_is_off_by_more_than_one_row(rows: int) -> None:
    dense = model()
    codes = dense.sample(rows, np.random.default_rng(1))
    assert codes.shape == (rows, 3)
    assert codes.dtype == np.int32
    counts = np.zeros(DOMAIN.sizes)
    np.add.at(counts, tuple(codes.T), 1)
    assert np.abs(counts - rows * dense.probabilities).max() <= 1 + 1e-9


def test_rows_come_in_random_order() -> None:
    codes = model().sample(500, np.random.default_rng(1))
    cells = np.ravel_multi_index(tuple(codes.T), DOMAIN.sizes)
    assert (np.diff(cells) < 0).mean() > 0.3


def test_a_cell_without_probability_is_never_drawn() -> None:
    table = np.zeros(DOMAIN.sizes)
    table[1, 2, 3] = 1.0
    codes = DenseModel(DOMAIN, table, 10.0).sample(50, np.random.default_rng(0))
    assert (codes == [1, 2, 3]).all()


def test_parts_make_the_same_model() -> None:
    dense = model()
    again = stored_model(Stored(*taken_apart(dense)))
    assert isinstance(again, DenseModel)
    assert again.domain == DOMAIN
    assert again.total == dense.total
    np.testing.assert_array_equal(again.probabilities, dense.probabilities)


def test_the_table_has_the_shape_of_the_domain() -> None:
    with pytest.raises(ValueError, match="shape"):
        DenseModel(DOMAIN, np.ones((2, 3)), 1.0)


SMALL = Domain(("a", "b", "c"), (2, 3, 2))
TOTAL = 500.0


def uniform() -> np.ndarray:
    return np.full(SMALL.sizes, 1.0 / SMALL.cells())


def test_exact_marginals_are_met_after_many_passes() -> None:
    truth = np.random.default_rng(0).exponential(1.0, SMALL.sizes)
    truth *= TOTAL / truth.sum()
    known = [NoisyMarginal(("a", "b"), truth.sum(axis=2), 1.0), NoisyMarginal(("b", "c"), truth.sum(axis=0), 1.0)]
    table = multiplicative_weights(SMALL, uniform(), known, TOTAL, replays=4000)
    assert table.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(TOTAL * table.sum(axis=2), truth.sum(axis=2), atol=0.5)
    np.testing.assert_allclose(TOTAL * table.sum(axis=0), truth.sum(axis=0), atol=0.5)


def test_one_update_is_the_rule_of_the_paper() -> None:
    counts = np.array([400.0, 100.0])
    table = multiplicative_weights(SMALL, uniform(), [NoisyMarginal(("a",), counts, 1.0)], TOTAL, replays=1)
    factors = np.exp((counts - 250.0) / (2 * TOTAL))
    np.testing.assert_allclose(table.sum(axis=(1, 2)), factors / factors.sum())
    np.testing.assert_allclose(table / table.sum(axis=(1, 2), keepdims=True), 1 / 6)


def test_noise_beyond_the_table_leaves_finite_probabilities() -> None:
    wild = NoisyMarginal(("a", "c"), np.array([[1e9, -1e9], [3.0, -4e8]]), 1e9)
    table = multiplicative_weights(SMALL, uniform(), [wild], 1.0, replays=50)
    assert np.isfinite(table).all()
    assert table.sum() == pytest.approx(1.0)
