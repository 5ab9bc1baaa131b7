"""Choose rows out of many weighted ones so that low-order marginals come out as precisely as whole rows allow."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lookalike.schema.domain import Domain

try:
    from numba import njit
except ImportError:  # numba is optional at run time
    njit = None


def systematic(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Indices drawn in proportion to the weights, each as often as expected to within one."""
    ends = np.cumsum(weights)
    points = (np.arange(rows) + rng.random()) * (ends[-1] / rows)
    return np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1)


_MOST = 4


class Features:
    """All cells of the chosen marginals of up to three attributes, numbered in one sequence."""

    def __init__(self, domain: Domain, max_cells: int, orders: tuple[int, ...] = (2, 3)) -> None:
        d = len(domain)
        table, offset = [], 0
        for order in orders:
            for members in sorted(combinations(range(d), order), key=lambda s: np.prod([domain.sizes[i] for i in s])):
                cells = int(np.prod([domain.sizes[i] for i in members]))
                if offset + cells > max_cells:
                    break
                strides = [int(np.prod([domain.sizes[i] for i in members[k + 1 :]])) for k in range(order)]
                padding = [0] * (_MOST - order)
                table.append([*members, *padding, *strides, *padding, offset])
                offset += cells
        self.table = np.array(table, dtype=np.int64).reshape(-1, 2 * _MOST + 1)
        self.cells = offset


def _histogram_loops(codes: np.ndarray, weights: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    for r in range(codes.shape[0]):
        for f in range(table.shape[0]):
            cell = (
                table[f, 8]
                + codes[r, table[f, 0]] * table[f, 4]
                + codes[r, table[f, 1]] * table[f, 5]
                + codes[r, table[f, 2]] * table[f, 6]
                + codes[r, table[f, 3]] * table[f, 7]
            )
            out[cell] += weights[r]


def _score_one(codes, r, table, excess, gain, sign):
    score = 0.0
    for f in range(table.shape[0]):
        cell = (
            table[f, 8]
            + codes[r, table[f, 0]] * table[f, 4]
            + codes[r, table[f, 1]] * table[f, 5]
            + codes[r, table[f, 2]] * table[f, 6]
            + codes[r, table[f, 3]] * table[f, 7]
        )
        score += gain[cell] * (1.0 + 2.0 * sign * excess[cell])
    return score


def _move_one(codes, r, table, excess, sign):
    for f in range(table.shape[0]):
        cell = (
            table[f, 8]
            + codes[r, table[f, 0]] * table[f, 4]
            + codes[r, table[f, 1]] * table[f, 5]
            + codes[r, table[f, 2]] * table[f, 6]
            + codes[r, table[f, 3]] * table[f, 7]
        )
        excess[cell] += sign


if njit is not None:
    _score_one = njit(cache=True)(_score_one)
    _move_one = njit(cache=True)(_move_one)


def _exchange_loops(codes, chosen, pool, table, excess, gain, candidates):
    """Each chosen row is taken out; the best of itself and some pool rows goes in."""
    accepted = 0
    at = 0
    for i in range(chosen.shape[0]):
        old = chosen[i]
        _move_one(codes, old, table, excess, -1.0)
        best, best_score = old, _score_one(codes, old, table, excess, gain, 1.0)
        for _ in range(candidates):
            r = pool[at]
            at += 1
            if at == pool.shape[0]:
                at = 0
            score = _score_one(codes, r, table, excess, gain, 1.0)
            if score < best_score:
                best, best_score = r, score
        if best != old:
            accepted += 1
        chosen[i] = best
        _move_one(codes, best, table, excess, 1.0)
    return accepted


if njit is not None:
    _histogram_loops = njit(cache=True)(_histogram_loops)
    _exchange_loops = njit(cache=True)(_exchange_loops)


def exchange(
    codes: np.ndarray,
    weights: np.ndarray,
    rows: int,
    features: Features,
    rng: np.random.Generator,
    *,
    passes: int,
    candidates: int = 2,
    power: float = 0.5,
) -> np.ndarray:
    """Indices of `rows` rows whose marginals are close to those of all rows with their weights (which add up to 1)."""
    shuffled = rng.permutation(len(codes))
    chosen = rng.permutation(shuffled[systematic(weights[shuffled], rows, rng)])
    if not len(features.table) or not passes:
        return chosen
    compact = np.ascontiguousarray(codes, dtype=np.int16)
    target = np.zeros(features.cells)
    _histogram_loops(compact, weights * rows, features.table, target)
    excess = -target
    _histogram_loops(compact[chosen], np.ones(rows), features.table, excess)
    gain = (1.0 / (target + 0.5) ** power).astype(np.float32)
    excess = excess.astype(np.float32)
    for _ in range(passes):
        shuffled = rng.permutation(len(codes))
        pool = shuffled[systematic(weights[shuffled], min(rows * candidates, 2 * len(codes)), rng)]
        rng.shuffle(pool)
        _exchange_loops(compact, chosen, pool, features.table, excess, gain, candidates)
    return chosen
