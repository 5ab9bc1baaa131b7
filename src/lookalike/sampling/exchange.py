"""Choose rows out of many weighted ones so that their low-order marginals are as close as whole rows allow.

An independent sample of n rows misses a count of m by about sqrt(m). Exchanging rows for better ones removes most of
that error from all marginals of two and three columns at once, measured or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike import guards
from lookalike.engine.executor import compiled
from lookalike.sampling.draws import draw_by_weight
from lookalike.schema.domain import Domain

_BLOCK = 24
_WORTH_COMPILING = 2_000_000


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """How long rows are exchanged, and for which marginals.

    Attributes:
        passes: how often every row is reconsidered.
        candidates: how many other rows compete for its place each time.
        orders: numbers of columns of the marginals that are to be matched.
        cells: maximum number of cells of all marginals; those with the fewest cells come first.
        sets: maximum number of marginals.
    """

    passes: int = 3
    candidates: int = 2
    orders: tuple[int, ...] = (2, 3, 4)
    cells: int = 3_000_000
    sets: int = 2500


class MarginalCells:
    """All cells of many small marginals, numbered in one sequence."""

    def __init__(self, domain: Domain, settings: ExchangeSettings) -> None:
        longest = max(settings.orders)
        members: list[list[int]] = []
        strides: list[list[int]] = []
        offsets: list[int] = []
        self.count = 0
        active = [i for i, size in enumerate(domain.sizes) if size > 1]
        for order in settings.orders:
            for scope in _smallest_sets(domain, active, order, settings.sets - len(offsets)):
                sizes = [domain.sizes[i] for i in scope]
                if self.count + math.prod(sizes) > settings.cells:
                    break
                members.append([*scope, *([0] * (longest - order))])
                strides.append([*(math.prod(sizes[k + 1 :]) for k in range(order)), *([0] * (longest - order))])
                offsets.append(self.count)
                self.count += math.prod(sizes)
        self._members = np.array(members, dtype=np.int32).reshape(-1, longest).T
        self._strides = np.array(strides, dtype=np.int32).reshape(-1, longest).T
        self._offsets = np.array(offsets, dtype=np.int32)

    def of(self, codes: np.ndarray) -> np.ndarray:
        """Return cell numbers of rows, which must be contiguous: a row per row of codes, a column per marginal."""
        result = codes[:, self._members[0]] * self._strides[0]
        result += self._offsets
        for members, strides in zip(self._members[1:], self._strides[1:], strict=True):
            result += codes[:, members] * strides
        return result

    @property
    def layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns, strides (one row per place in a set) and offsets: a row's cell is offset + codes . strides."""
        return self._members, self._strides, self._offsets

    def counts(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the weighted counts of all cells."""
        total = np.zeros(self.count)
        if guards.NUMBA and len(codes) * len(self._offsets) > _WORTH_COMPILING:
            compiled(_add_weights)(codes, weights, *self.layout, total)
            return total
        for first in range(0, len(codes), 1024):
            cells = self.of(codes[first : first + 1024])
            spread = np.broadcast_to(weights[first : first + 1024, None], cells.shape)
            np.add.at(total, cells.ravel(), spread.ravel())
        return total


def _smallest_sets(domain: Domain, active: list[int], order: int, count: int) -> list[tuple[int, ...]]:
    """The `count` column sets with the fewest cells; if there are too many to list, only of the smallest columns."""
    active = sorted(active, key=lambda i: domain.sizes[i])
    while len(active) > order and math.comb(len(active) - 1, order) > 20 * max(count, 1):
        active.pop()
    listed = combinations(sorted(active), order)
    return sorted(listed, key=lambda scope: math.prod(domain.sizes[i] for i in scope))[: max(count, 0)]


def choose_rows(
    codes: np.ndarray,
    weights: np.ndarray,
    rows: int,
    settings: ExchangeSettings,
    domain: Domain,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return indices of `rows` rows whose marginals are close to those of all rows with their weights (of sum 1).

    Minimises the sum over cells of (count - wanted)^2 / (wanted + 1/2). Each row in turn is replaced by the best of a
    few rows drawn by weight if that lowers the sum. Without numba, rows are considered in blocks, and exchanges within
    a block do not take each other into account, so that a pass is a few array operations per block.
    """
    chosen = draw_by_weight(weights, rows, rng)
    marginals = MarginalCells(domain, settings)
    if not marginals.count or not settings.passes or rows < 2:
        return chosen
    compact = np.ascontiguousarray(codes, dtype=np.int32)
    wanted = marginals.counts(compact, weights * rows)
    excess = marginals.counts(compact[chosen], np.ones(rows)) - wanted
    worth = 1.0 / (wanted + 0.5)
    slope = (2.0 * excess * worth).astype(np.float32)
    worth = worth.astype(np.float32)
    one_by_one = guards.NUMBA and rows * len(marginals.layout[2]) > _WORTH_COMPILING
    beside = np.column_stack([slope, worth])
    for _ in range(settings.passes):
        pools = [draw_by_weight(weights, rows, rng) for _ in range(settings.candidates)]
        if one_by_one:
            compiled(_exchange_rows)(compact, chosen, np.array(pools), *marginals.layout, beside)
            continue
        for first in range(0, rows, _BLOCK):
            block = slice(first, min(first + _BLOCK, rows))
            _exchange_block(compact, chosen, block, pools, marginals, worth, slope)
    return chosen


def _exchange_block(
    codes: np.ndarray,
    chosen: np.ndarray,
    block: slice,
    pools: list[np.ndarray],
    marginals: MarginalCells,
    worth: np.ndarray,
    slope: np.ndarray,
) -> None:
    """Exchange rows of a block for better candidates, in place; `slope` is kept at 2 * excess * worth."""
    best = chosen[block].copy()
    cells = old_cells = marginals.of(codes[best])
    # The excess contains the row itself, so the row is compared as if it had been taken out first.
    scores = (slope[old_cells] - worth[old_cells]).sum(axis=1)
    for pool in pools:
        rivals = pool[block]
        rival_cells = marginals.of(codes[rivals])
        rival_scores = (
            slope[rival_cells] + np.where(rival_cells == old_cells, -worth[rival_cells], worth[rival_cells])
        ).sum(axis=1)
        better = rival_scores < scores
        best = np.where(better, rivals, best)
        cells = np.where(better[:, None], rival_cells, cells)
        scores = np.where(better, rival_scores, scores)
    moved = best != chosen[block]
    if moved.any():
        chosen[block] = best
        gone, come = old_cells[moved].ravel(), cells[moved].ravel()
        np.subtract.at(slope, gone, 2.0 * worth[gone])
        np.add.at(slope, come, 2.0 * worth[come])


# Loops for numba. All arguments are arrays; `members`, `strides` and `offsets` are those of `MarginalCells.layout`.


def _row_cells(row, members, strides, offsets, out):
    """Cell numbers of one row, one per marginal."""
    out[:] = offsets
    for k in range(members.shape[0]):
        for s in range(offsets.size):
            out[s] += row[members[k, s]] * strides[k, s]


def _add_weights(codes, weights, members, strides, offsets, out):
    """out[cell] += weight for all cells of all rows."""
    cells = np.empty(offsets.size, np.int32)
    for r in range(codes.shape[0]):
        _row_cells(codes[r], members, strides, offsets, cells)
        for s in range(offsets.size):
            out[cells[s]] += weights[r]


def _exchange_rows(codes, chosen, pools, members, strides, offsets, cells):
    """The same as `_exchange_block` with blocks of one row, for numba.

    `cells` has the slope and the worth of each cell side by side, since most of the time is spent on fetching them.
    """
    sets = offsets.size
    old, best, rival = np.empty(sets, np.int32), np.empty(sets, np.int32), np.empty(sets, np.int32)
    for r in range(chosen.size):
        _row_cells(codes[chosen[r]], members, strides, offsets, old)
        best[:] = old
        score = 0.0
        for s in range(sets):
            score += cells[old[s], 0] - cells[old[s], 1]
        keeper = chosen[r]
        for p in range(pools.shape[0]):
            if pools[p, r] == chosen[r]:
                continue
            _row_cells(codes[pools[p, r]], members, strides, offsets, rival)
            value = 0.0
            for s in range(sets):
                cell = rival[s]
                value += cells[cell, 0] + (-cells[cell, 1] if cell == old[s] else cells[cell, 1])
            if value < score:
                score, keeper = value, pools[p, r]
                best[:] = rival
        if keeper != chosen[r]:
            chosen[r] = keeper
            for s in range(sets):
                cells[old[s], 0] -= 2 * cells[old[s], 1]
                cells[best[s], 0] += 2 * cells[best[s], 1]
