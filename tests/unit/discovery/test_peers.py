"""What other columns of a table tell about one of which a single value stands out. No data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from lookalike.discovery.grids import Grid, Rows
from lookalike.discovery.peers import peer_of, weighed
from lookalike.discovery.ranges import all_with_ends, with_ends

ROWS, NOISE = 6000, 50.0
EDGES = np.unique([*range(13), *(round(d * 10.0**p) for p in range(1, 6) for d in (1, 1.5, 2, 3, 4, 5, 7))])


def column(values: Sequence[int] | np.ndarray, seed: int) -> Grid:
    """Noisy counts of numbers that some rows hold, and of zeros in the others."""
    full = np.append(np.asarray(values), np.zeros(ROWS - len(values), dtype=int))
    counts = np.bincount(np.searchsorted(EDGES, full, side="right") - 1, minlength=len(EDGES))
    noisy = counts + np.random.default_rng(seed).normal(0, NOISE, len(EDGES))
    return Grid.of(EDGES, 10**6 - 1, noisy, np.full(len(EDGES), NOISE**2), 1)


def highest(hidden: Grid, others: Sequence[Grid]) -> float:
    """The last number of a column that stands between others."""
    half = len(others) // 2
    grids = {str(place): grid for place, grid in enumerate([*others[:half], hidden, *others[half:]])}
    return float(all_with_ends(grids, dict.fromkeys(grids, Rows(ROWS, 900.0)))[str(half)].high)


def flags(seed: int) -> list[Grid]:
    return [column(np.ones(400 * k, dtype=int), seed + k) for k in range(1, 7)]


def counts(seed: int) -> list[Grid]:
    return [column(np.repeat(np.arange(1, 7), 100 * k), seed + k) for k in range(3, 9)]


def amounts(seed: int) -> list[Grid]:
    rng = np.random.default_rng(seed)
    return [column(np.exp(rng.normal(6, 0.6, 600 * k)).astype(int), seed + k) for k in range(1, 7)]


@pytest.mark.parametrize("seed", range(10))
def test_among_flags_a_hidden_column_is_a_flag(seed: int):
    assert highest(column(np.ones(40, dtype=int), 100 + seed), flags(1000 * seed)) <= 1


def test_among_small_counts_a_hidden_column_reaches_similar_values():
    hidden = [column(np.repeat(np.arange(1, 7), 8), 100 + seed) for seed in range(10)]
    reached = [highest(grid, counts(1000 * seed)) for seed, grid in enumerate(hidden)]
    assert sum(2 <= high <= 18 for high in reached) >= 8


def test_among_amounts_a_hidden_column_has_amounts():
    reached = []
    for seed in range(10):
        rare = np.exp(np.random.default_rng(seed).normal(6, 0.6, 60)).astype(int)
        reached.append(highest(column(rare, 100 + seed), amounts(1000 * seed)))
    assert sum(300 <= high <= 5000 for high in reached) >= 8


@pytest.mark.parametrize("seed", range(10))
def test_alone_or_beside_columns_with_another_frequent_value_a_column_is_judged_by_itself(seed: int):
    hidden, rows = column(np.ones(40, dtype=int), 100 + seed), Rows(ROWS, 900.0)
    alone = with_ends(hidden, rows)
    tens = column(np.full(5000, 10), seed)
    for others in ([], [tens, tens]):
        assert highest(hidden, others) == alone.high


def test_few_columns_do_not_outweigh_what_is_usual():
    assert highest(column([], 5), amounts(7)[:1]) <= 1


def test_what_counts_show_outweighs_other_columns():
    seen = column(np.exp(np.random.default_rng(1).normal(6, 0.6, 500)).astype(int), 9)
    assert highest(seen, flags(3)) >= 300


def test_near_columns_weigh_more_and_weights_are_one_on_average():
    found = [peer_of(with_ends(some, Rows(ROWS, 900.0))) for some in flags(2)]
    peers = {place: peer for place, peer in enumerate(found) if peer is not None}
    weights = [peer.weight for peer in weighed(peers, 0.0, 2)]
    assert np.mean(weights) == pytest.approx(1.0)
    assert weights[2] == max(weights)
    assert weights[1] == pytest.approx(weights[3])
    assert weights[5] < weights[3]
    assert weighed(peers, 1.0, 2) == []


def test_shares_are_carried_to_cells_of_another_width_by_their_numbers():
    counts = np.array([90.0, 0.0, 30.0, 10.0])
    tenths = replace(Grid.of(np.array([0, 5, 10, 20]), 29, counts, np.ones(4), 1), tick=0.1)
    peer = peer_of(Grid.of(np.array([0, 1, 2]), 2, np.array([90.0, 30.0, 10.0]), np.ones(3), 1))
    assert peer is not None
    assert peer.on(tenths).tolist() == [0.0, 0.0, 0.75, 0.25]
    assert peer_of(tenths.part(1, 3)) is None, "no single value is the most frequent"
