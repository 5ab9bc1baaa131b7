"""Rows have the model's distribution, also between columns that no measurement joins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lookalike.sampling.draws as module
from lookalike.errors import SchemaError
from lookalike.models.graphical import GraphicalModel
from lookalike.schema.domain import Domain

DOMAIN = Domain(tuple("abcdefg"), (3, 4, 2, 5, 3, 2, 4))
CLIQUES = [("a", "b"), ("b", "c", "d"), ("d", "e"), ("a", "e"), ("f",)]
ROWS = 40_000


def model(scale: float = 1.0) -> GraphicalModel:
    rng = np.random.default_rng(0)
    return GraphicalModel(DOMAIN, {c: scale * rng.normal(size=DOMAIN.shape(c)) for c in CLIQUES}, 1.0)


def counts(rows: np.ndarray, attrs: tuple[str, ...]) -> np.ndarray:
    columns = [rows[:, DOMAIN.position(name)] for name in attrs]
    shape = DOMAIN.shape(attrs)
    return np.bincount(np.ravel_multi_index(columns, shape), minlength=int(np.prod(shape))).reshape(shape)


def worst_z(rows: np.ndarray, fitted: GraphicalModel) -> float:
    """Largest standardised error over all cells of all pairs, measured or not."""
    worst = 0.0
    for pair in itertools.combinations(DOMAIN.names, 2):
        expected = len(rows) * fitted.marginal(pair)
        spread = np.sqrt(expected * np.maximum(1 - expected / len(rows), 0.0)) + 1.0
        worst = max(worst, float(np.abs((counts(rows, pair) - expected) / spread).max()))
    return worst


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_pairs_follow_the_model(independent, seed):
    fitted = model()
    rows = fitted.sample(ROWS, np.random.default_rng(seed), independent=independent)
    assert rows.dtype == np.int32
    assert rows.flags.f_contiguous
    assert worst_z(rows, fitted) < 6.5


def test_low_variance_counts_of_factors_are_within_a_few_rows():
    fitted = model()
    rows = fitted.sample(ROWS, np.random.default_rng(1))
    for clique in [("f",), ("g",)]:
        assert np.abs(counts(rows, clique) - ROWS * fitted.marginal(clique)).max() <= 1.0
    for clique in CLIQUES:
        assert np.abs(counts(rows, clique) - ROWS * fitted.marginal(clique)).max() < 45


def test_without_fresh_permutations_unmeasured_pairs_would_be_wrong(monkeypatch):
    """The test above must detect this bug, which no test on measured sets can detect."""

    class Fixed:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def permutation(self, values):
            return np.arange(values) if isinstance(values, int) else values

        def random(self, size=None):
            return self.rng.random(size)

    monkeypatch.setattr(module, "_SPREAD_ROWS", 0)
    fitted = model()
    rows = module.tree_rows(fitted.network, ROWS, Fixed())  # type: ignore[arg-type]
    assert worst_z(rows, fitted) > 20


def test_random_points_follow_the_model_where_rows_are_many(monkeypatch):
    monkeypatch.setattr(module, "_SPREAD_ROWS", 0)
    fitted = model()
    assert worst_z(fitted.sample(ROWS, np.random.default_rng(3)), fitted) < 6.5


def test_every_row_is_equally_likely_at_every_place():
    counts, starts = np.array([5, 3]), np.array([0, 5])
    order = np.array([40, 41, 42, 43, 44, 10, 11, 12])
    rng = np.random.default_rng(0)
    draws = np.array([module._spread(order, starts, counts, rng) for _ in range(30_000)])
    assert (np.sort(draws[:, :5]) == order[:5]).all()
    assert (np.sort(draws[:, 5:]) == order[5:]).all()
    for place in range(8):
        rows = order[:5] if place < 5 else order[5:]
        shares = [(draws[:, place] == row).mean() for row in rows]
        np.testing.assert_allclose(shares, 1 / len(rows), atol=0.02)


def test_neighbours_are_spread_over_the_group():
    rows = 1000
    order = module._spread(np.arange(rows), np.array([0]), np.array([rows]), np.random.default_rng(1))
    place = np.argsort(order)
    for first in range(0, rows, 50):
        halves = (place[first : first + 50] < rows // 2).sum()
        assert abs(halves - 25) <= 3


def test_chunks_follow_the_model_and_are_reproducible(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_ROWS", 7_000)
    fitted = model()
    one, two = (fitted.sample(ROWS, np.random.default_rng(2)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert worst_z(one, fitted) < 6.5


@pytest.mark.parametrize("independent", [False, True])
def test_conditions_give_the_conditional_distribution(independent):
    fitted = model()
    where = {"a": 2, "d": [0, 3], "g": [1, 3]}
    rows = fitted.sample(20_000, np.random.default_rng(3), where=where, independent=independent)
    assert set(rows[:, 0]) == {2}
    assert set(rows[:, 3]) == {0, 3}
    assert set(rows[:, 6]) == {1, 3}
    expected = fitted.marginal(("a", "b", "d", "e"))[2][:, [0, 3]]
    found = counts(rows, ("b", "d", "e"))[:, [0, 3]] / len(rows)
    assert np.abs(found - expected / expected.sum()).sum() / 2 < 0.02


def test_impossible_or_unknown_conditions_are_refused():
    fitted = model()
    with pytest.raises(SchemaError, match="codes from 0 to 2"):
        fitted.sample(5, np.random.default_rng(0), where={"a": 3})
    blocked = GraphicalModel(DOMAIN, {("a",): np.array([0.0, 0.0, -np.inf])}, 1.0)
    with pytest.raises(SchemaError, match="No row"):
        blocked.sample(5, np.random.default_rng(0), where={"a": 2})


@pytest.mark.parametrize(("scale", "logs"), [(400.0, 0), (2000.0, 1)])
def test_models_of_wide_spans_are_sampled_exactly(scale, logs):
    """With and without log space."""
    fitted = model(scale=scale)
    assert fitted.network.used_log_space == logs
    rows = fitted.sample(ROWS, np.random.default_rng(4))
    assert worst_z(rows, fitted) < 6.5


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows(rows):
    assert model().sample(rows, np.random.default_rng(0)).shape == (rows, 7)
