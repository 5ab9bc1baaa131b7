"""The network's marginals and rows against its full joint distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lookalike.models import bayes_net
from lookalike.models.archive import stored_model
from lookalike.models.bayes_net import BayesNet, dirichlet_means
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart

DOMAIN = Domain(("a", "b", "c", "e"), (5, 3, 4, 2))


def network(seed: int = 0) -> BayesNet:
    rng = np.random.default_rng(seed)
    tables = (
        rng.dirichlet(np.ones(3)),
        rng.dirichlet(np.ones(5), size=3),
        rng.dirichlet(np.ones(2), size=3),
        rng.dirichlet(np.ones(4), size=(3, 2)),
    )
    parents = ((), ("b",), ("a",), ("a", "e"))
    return BayesNet(DOMAIN, 100.0, ("b", "a", "e", "c"), parents, tables, {"a": np.array([0, 0, 1, 1, 2])})


def joint(model: BayesNet) -> np.ndarray:
    full, seen = np.zeros(DOMAIN.sizes), model.buckets["a"]
    first, second, third, fourth = model.tables
    for a, b, c, e in itertools.product(*map(range, DOMAIN.sizes)):
        full[a, b, c, e] = first[b] * second[b, a] * third[seen[a], e] * fourth[seen[a], e, c]
    return full


CLIQUES = [clique for size in range(5) for clique in itertools.combinations(DOMAIN.names, size)]


def test_marginals_are_sums_of_the_joint() -> None:
    model = network()
    full = joint(model)
    for clique, answer in zip(CLIQUES, model.marginals(CLIQUES), strict=True):
        outside = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
        np.testing.assert_allclose(answer, 100 * full.sum(axis=outside), atol=1e-12)


def test_large_marginals_are_counted_in_a_repeatable_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bayes_net, "MAX_CELLS", 3)
    monkeypatch.setattr(bayes_net, "SAMPLE_ROWS", 200_000)
    model = network()
    first, second = model.marginal(("a", "c")), model.marginal(("c", "a"))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, 100 * joint(model).sum(axis=(1, 3)), atol=0.6)


def test_rows_follow_the_joint() -> None:
    model, rows = network(), 200_000
    codes = model.sample(rows, np.random.default_rng(1))
    assert codes.dtype == np.int32
    counts = np.zeros(DOMAIN.sizes)
    np.add.at(counts, tuple(codes.T), 1)
    expected = rows * joint(model)
    # Six standard errors in each of 120 cells: a false alarm has probability below 3e-7.
    assert np.all(np.abs(counts - expected) <= 6 * np.sqrt(expected) + 6)


def test_resampling_keeps_the_first_columns_and_redraws_the_rest_given_them() -> None:
    model, rows = network(), 60_000
    codes = np.tile(np.array([4, 2, 0, 1], dtype=np.int32), (rows, 1)).copy(order="F")
    model.resample(codes, np.repeat([0, 2, 4], rows // 3), np.random.default_rng(2))
    kept_two, kept_all = codes[rows // 3 : 2 * rows // 3], codes[2 * rows // 3 :]
    assert np.all(kept_two[:, [0, 1]] == [4, 2])
    assert np.all(kept_all == [4, 2, 0, 1])
    assert len(np.unique(codes[: rows // 3, 0])) == 5
    distribution = model.tables[2][model.buckets["a"][4]]
    assert abs((kept_two[:, 3] == 1).mean() - distribution[1]) < 6 * 0.5 / np.sqrt(rows / 3)


def test_log_probabilities_multiply_to_the_joint() -> None:
    model = network()
    codes = model.sample(50, np.random.default_rng(3))
    np.testing.assert_allclose(np.exp(model.log_probabilities(codes).sum(axis=1)), joint(model)[tuple(codes.T)])


def test_parts_rebuild_the_model() -> None:
    model = network()
    again = stored_model(Stored(*taken_apart(model)))
    np.testing.assert_array_equal(
        again.sample(100, np.random.default_rng(0)), model.sample(100, np.random.default_rng(0))
    )
    assert again.total == 100.0


@pytest.mark.parametrize(
    ("order", "parents", "message"),
    [
        (("a", "b"), (("b",), ()), "after it"),
        (("a", "a"), ((), ()), "every column once"),
        (("a", "b"), ((), ("a",)), "shape"),
    ],
)
def test_senseless_networks_are_refused(order: tuple[str, ...], parents: tuple, message: str) -> None:
    tables = (np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match=message):
        BayesNet(Domain(("a", "b"), (2, 2)), 1.0, order, parents, tables, {})


def test_zero_probability_values_are_never_drawn() -> None:
    table = np.array([0.0, 0.3, 0.0, 0.7, 0.0])
    model = BayesNet(Domain(("a",), (5,)), 1.0, ("a",), ((),), (table,), {})
    drawn = model.sample(50_000, np.random.default_rng(0))[:, 0]
    assert set(np.unique(drawn)) == {1, 3}


def test_dirichlet_means_fall_back_on_the_prior() -> None:
    counts = np.array([[1000.0, 0.0], [0.0, 0.0]])
    means = dirichlet_means(counts, np.array([0.2, 0.8]), 10.0)
    np.testing.assert_allclose(means[1], [0.2, 0.8])
    assert means[0, 0] > 0.99
