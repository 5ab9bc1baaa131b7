"""Many marginals of one model by few questions: sets that fit together are asked for as one and summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lookalike.schema.domain import Clique, Domain


class Answers(Protocol):
    """What is asked of a model here."""

    @property
    def domain(self) -> Domain: ...

    def marginals(self, sets: Sequence[Clique]) -> list[np.ndarray]: ...


def block_marginals(model: Answers, cliques: Sequence[Clique], most_cells: int = 1 << 16) -> list[np.ndarray]:
    """Expected counts of every clique, from blocks of at most `most_cells` cells (or of one clique alone)."""
    domain = model.domain
    blocks, home = blocks_of(domain, cliques, most_cells)
    tables = model.marginals(blocks)
    results = []
    for clique, number in zip(cliques, home, strict=True):
        summed = tuple(axis for axis, name in enumerate(blocks[number]) if name not in clique)
        results.append(tables[number].sum(axis=summed))
    return results


def blocks_of(domain: Domain, cliques: Sequence[Clique], most_cells: int) -> tuple[list[Clique], list[int]]:
    """Unions of cliques of at most `most_cells` cells each, and the number of the block that holds each clique.

    Large cliques come first; each joins the block that grows least by it.

    >>> domain = Domain(("a", "b", "c"), (2, 2, 9))
    >>> blocks_of(domain, [("a",), ("a", "b"), ("c",)], 8)
    ([('c',), ('a', 'b')], [1, 1, 0])
    """
    unions: list[set[str]] = []
    cells: list[int] = []
    home = [0] * len(cliques)
    for index in sorted(range(len(cliques)), key=lambda i: -domain.cells(cliques[i])):
        clique = set(cliques[index])
        best, best_growth = len(unions), float("inf")
        for number, union in enumerate(unions):
            growth = domain.cells(clique - union)
            if growth < best_growth and growth * cells[number] <= most_cells:
                best, best_growth = number, growth
        if best == len(unions):
            unions.append(set())
            cells.append(1)
        cells[best] *= domain.cells(clique - unions[best])
        unions[best] |= clique
        home[index] = best
    return [domain.canonical(union) for union in unions], home
