"""Correlation-based structure: merits by hand, graphs acyclic and affordable."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.selection.feature_network import bucketed, correlations, greedy_network, mass_buckets, merit


@pytest.mark.parametrize("seed", range(30))
def test_buckets_are_runs_of_codes_and_few_enough(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, most = rng.gamma(0.3, 100, size=int(rng.integers(1, 60))) - 5, int(rng.integers(2, 12))
    buckets = mass_buckets(counts, most)
    assert buckets[0] == 0
    assert buckets[-1] < most
    assert set(np.diff(buckets)) <= {0, 1}
    assert bucketed(counts, buckets).sum() == pytest.approx(counts.sum())
    if len(counts) <= most:
        assert np.array_equal(buckets, np.arange(len(counts)))


def test_equal_masses_give_equal_buckets() -> None:
    assert mass_buckets(np.ones(12), 4).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_correlation_is_one_for_equal_columns_and_zero_for_independent_ones() -> None:
    oneways = [np.array([500_000.0, 500_000.0])] * 2
    equal = 2 * (500_000 - 250_000) + 2 * 250_000
    assert correlations(np.array([equal]), oneways)[0, 1] == pytest.approx(1.0, abs=0.01)
    assert correlations(np.array([100.0]), oneways)[0, 1] == 0.0
    assert correlations(np.array([-50.0]), oneways)[0, 1] == 0.0
    assert correlations(np.array([9e9]), oneways)[0, 1] == 1.0


def test_merit_is_equation_four() -> None:
    matrix = np.array([[1, 0.6, 0.5], [0.6, 1, 0.2], [0.5, 0.2, 1]])
    assert merit(0, [], matrix) == 0.0
    assert merit(0, [1], matrix) == pytest.approx(0.6)
    assert merit(0, [1, 2], matrix) == pytest.approx(1.1 / math.sqrt(2 + 2 * 0.2))


def test_a_redundant_parent_is_left_out() -> None:
    matrix = np.array([[1, 0.5, 0.5], [0.5, 1, 1.0], [0.5, 1.0, 1]])
    network = greedy_network(Domain(("x", "y", "z"), (2, 2, 2)), matrix, {"x": 2, "y": 2, "z": 2}, lambda c, v: True)
    families = dict(zip(network.order, network.parents, strict=True))
    assert sum(len(parents) for parents in families.values()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_networks_are_acyclic_and_affordable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 9))
    domain = Domain(tuple(f"c{i}" for i in range(width)), tuple(int(s) for s in rng.integers(2, 9, size=width)))
    matrix = rng.random((width, width))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    seen = {name: min(4, size) for name, size in zip(domain.names, domain.sizes, strict=True)}
    network = greedy_network(domain, matrix, seen, lambda configurations, values: configurations * values <= 60)
    assert sorted(network.order) == sorted(domain.names)
    for place, (name, parents) in enumerate(zip(network.order, network.parents, strict=True)):
        assert set(parents) <= set(network.order[:place])
        assert math.prod(seen[p] for p in parents) * domain.size(name) <= 60 or not parents
