"""Marginal distances against plain dictionaries of counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.evaluate import marginals
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 2, 50))


def random_codes(rows: int, seed: int, domain: Domain = DOMAIN) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.binomial(size - 1, 0.3 + 0.1 * seed, rows) for size in domain.sizes]).astype(np.int32)


def plain_distance(real: np.ndarray, synth: np.ndarray, columns: list[int]) -> float:
    one, two = Counter(map(tuple, real[:, columns].tolist())), Counter(map(tuple, synth[:, columns].tolist()))
    return 0.5 * sum(abs(one[cell] / len(real) - two[cell] / len(synth)) for cell in one.keys() | two.keys())


@pytest.mark.parametrize("dense_cells_per_row", [0, 4, 10**9])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_equals_counting_by_hand_on_both_paths(monkeypatch, dense_cells_per_row, k):
    monkeypatch.setattr(marginals, "_DENSE_CELLS_PER_ROW", dense_cells_per_row)
    real, synth = random_codes(70, 1), random_codes(41, 2)
    result = distances_of(TablePair(real, synth, DOMAIN), random_cliques(DOMAIN, k))
    expected = [plain_distance(real, synth, [DOMAIN.position(a) for a in clique]) for clique in result.cliques]
    np.testing.assert_allclose(result.distances, expected, atol=1e-12)
    assert result.mean == pytest.approx(np.mean(expected))
    assert result.ranked()[0][1] == result.worst == pytest.approx(max(expected))


def test_counts_of_few_cells_are_the_marginal_in_order():
    real, synth = random_codes(70, 1), random_codes(41, 2)
    one, two = TablePair(real, synth, DOMAIN).counts(("a", "c"))
    for counts, codes in ((one, real), (two, synth)):
        expected = np.zeros((3, 2), dtype=int)
        np.add.at(expected, (codes[:, 0], codes[:, 2]), 1)
        np.testing.assert_array_equal(counts.reshape(3, 2), expected)


def test_domain_beyond_63_bits():
    wide = Domain(tuple("abcdefgh"), (1000,) * 8)
    rng = np.random.default_rng(0)
    real = rng.integers(0, 1000, (60, 8)).astype(np.int32)
    synth = np.concatenate([real[:30], rng.integers(0, 1000, (30, 8)).astype(np.int32)])
    assert distances_of(TablePair(real, synth, wide), [wide.names]).mean == pytest.approx(0.5)


def test_random_cliques_are_fixed_distinct_and_complete_where_few():
    domain = Domain(tuple(f"x{i:02}" for i in range(20)), (2,) * 20)
    drawn = random_cliques(domain, 5, 300, seed=3)
    assert drawn == random_cliques(domain, 5, 300, seed=3) != random_cliques(domain, 5, 300, seed=4)
    assert len(set(drawn)) == 300
    assert all(clique == domain.canonical(clique) and len(clique) == 5 for clique in drawn)
    assert len(random_cliques(domain, 2, 300)) == 190
    assert len(random_cliques(domain, 3, None)) == 1140


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((3, 3), dtype=int), "shape"),
        (np.zeros((0, 4), dtype=int), "no rows"),
        (np.zeros((3, 4)), "codec"),
        (np.full((3, 4), 2), "'c'.*0..1"),
        (np.full((3, 4), -1), "'a'.*0..2"),
    ],
)
def test_refuses_what_is_no_table_of_the_domain(codes, message):
    with pytest.raises(InputError, match=message):
        distances_of(TablePair(random_codes(5, 1), codes, DOMAIN), random_cliques(DOMAIN, 1))


def test_refuses_too_many_attributes():
    with pytest.raises(InputError, match="1 to 4 columns"):
        random_cliques(DOMAIN, 5)
