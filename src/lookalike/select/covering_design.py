"""Covering designs: few sets of columns that hold every pair, or every triple, of columns (PriView, section 4.2).

From public sizes alone, so that choosing what to measure costs nothing.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np

from lookalike.schema.domain import Clique, Domain

_MANY = 3000
"""Sets to hold from which one try is enough: designs of so many hardly differ."""


def covering_design(
    domain: Domain, strength: int, max_cells: float, rng: np.random.Generator, *, tries: int = 20
) -> list[Clique]:
    """Return sets of at most `max_cells` cells that together hold every `strength` columns; the cheapest of some tries.

    Columns that have more cells together get a set of their own. A design is priced by the sum of cells^(2/3) of its
    sets, which is what their noise costs when a budget is shared best (`allocation.allocate`).

    Args:
        domain: the columns.
        strength: 2 for pairs, 3 for triples; all columns together where there are no more than that.
        max_cells: of a set.
        rng: public randomness, which breaks ties.
        tries: number of designs to choose from.

    >>> domain = Domain.of(dict.fromkeys("abcd", 2))
    >>> covering_design(domain, 2, 16, np.random.default_rng(0))
    [('a', 'b', 'c', 'd')]
    """
    if strength not in (2, 3):
        raise ValueError(f"strength is {strength}; it must be 2 (pairs) or 3 (triples)")
    if len(domain) <= strength:
        return [domain.names]
    tries = tries if math.comb(len(domain), strength) < _MANY else 1
    designs = [_greedy_design(domain, strength, max_cells, rng) for _ in range(tries)]
    return min(designs, key=lambda design: sum(domain.cells(view) ** (2 / 3) for view in design))


def _greedy_design(domain: Domain, strength: int, max_cells: float, rng: np.random.Generator) -> list[Clique]:
    """Set after set, each grown from an open one, until none is open."""
    sizes, width = np.asarray(domain.sizes, dtype=float), len(domain)
    wanted = rng.permutation(np.array(list(combinations(range(width), strength))))
    # The largest are hardest to place with others, so they come first.
    wanted = wanted[np.argsort(-sizes[wanted].prod(axis=1), kind="stable")]
    is_open = np.zeros((width,) * strength, dtype=bool)
    for order in permutations(range(strength)):
        is_open[tuple(wanted[:, order].T)] = True
    views = []
    for start in wanted:
        if is_open[tuple(start)]:
            view = _grown(start, is_open, sizes, max_cells, rng)
            is_open[np.ix_(*[view] * strength)] = False
            views.append(tuple(domain.names[i] for i in view))
    return views


def _grown(
    start: np.ndarray, is_open: np.ndarray, sizes: np.ndarray, max_cells: float, rng: np.random.Generator
) -> np.ndarray:
    """The set with, while something fits, the column that closes most open sets per bit of its size; in order."""
    view, bits, others = start, np.log2(np.maximum(sizes, 1.5)), tuple(range(is_open.ndim - 1))
    while True:
        gains = is_open[np.ix_(*[view] * len(others))].sum(axis=others) / bits
        gains[view] = 0.0
        gains[sizes[view].prod() * sizes > max_cells * (1 + 1e-9)] = 0.0
        if gains.max() <= 0:
            return np.sort(view)
        view = np.append(view, rng.choice(np.flatnonzero(gains == gains.max())))
