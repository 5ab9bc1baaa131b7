"""Covering designs: few sets of columns that hold every pair, or every triple, of columns (PriView, section 4.2).

From public sizes alone, so that choosing what to measure costs nothing.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lookalike.schema.domain import Clique, Domain


def covering_design(
    domain: Domain, strength: int, most_cells: float, rng: np.random.Generator, *, tries: int = 5
) -> list[Clique]:
    """Sets of at most `most_cells` cells that together hold every `strength` columns; the cheapest of some tries.

    Columns that have more cells together get a set of their own. A design is priced by the sum of cells^(2/3) of its
    sets, which is what their noise costs when a budget is shared best (`allocation.allocate`).

    Args:
        domain: the columns.
        strength: 2 for pairs, 3 for triples; all columns together where there are no more than that.
        most_cells: of a set.
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
    designs = [_greedy_design(domain, strength, most_cells, rng) for _ in range(tries)]
    return min(designs, key=lambda design: sum(domain.cells(view) ** (2 / 3) for view in design))


def _greedy_design(domain: Domain, strength: int, most_cells: float, rng: np.random.Generator) -> list[Clique]:
    """Set after set, each grown from an open one, until none is open."""
    sizes = np.asarray(domain.sizes, dtype=float)
    wanted = np.array(list(combinations(range(len(domain)), strength)))
    is_open = np.ones(len(wanted), dtype=bool)
    views = []
    while is_open.any():
        # The largest are hardest to place with others, so they come first.
        cells = np.where(is_open, sizes[wanted].prod(axis=1), 0.0)
        start = int(rng.choice(np.flatnonzero(cells == cells.max())))
        inside = np.zeros(len(domain), dtype=bool)
        inside[wanted[start]] = True
        _grow(inside, wanted[is_open], sizes, most_cells, rng)
        is_open &= ~inside[wanted].all(axis=1)
        views.append(tuple(domain.names[i] for i in np.flatnonzero(inside)))
    return views


def _grow(
    inside: np.ndarray, wanted: np.ndarray, sizes: np.ndarray, most_cells: float, rng: np.random.Generator
) -> None:
    """Adds, while something fits, the column that closes most open sets per bit of its size."""
    bits = np.log2(np.maximum(sizes, 1.5))
    while True:
        held = inside[wanted]
        nearly = held.sum(axis=1) == wanted.shape[1] - 1
        missing = wanted[nearly][~held[nearly]]
        gains = np.bincount(missing, minlength=len(sizes)) / bits
        gains[inside | (sizes[inside].prod() * sizes > most_cells * (1 + 1e-9))] = 0.0
        if gains.max() <= 0:
            return
        inside[rng.choice(np.flatnonzero(gains == gains.max()))] = True
