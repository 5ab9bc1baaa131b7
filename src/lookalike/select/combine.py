"""From selected pairs to larger marginals that hold several of them (PrivSyn section 4.2, "combine marginals").

Public post-processing of a selection: nothing here sees data or scores. Both ways are bounded: the number of cliques of
a dense pair graph explodes, so neither lists them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lookalike.schema.domain import Clique, Domain


def combine_cliques(
    domain: Domain, pairs: Sequence[Clique], *, max_cells: int = 5000, max_overlap: int = 2, max_steps: int = 3000
) -> list[Clique]:
    """The paper's Algorithm 2: the largest clique of the pair graph, again and again, and the pairs left over.

    A clique of 3 or more attributes is taken if it has at most `max_cells` cells (gamma) and at most `max_overlap`
    attributes in common with those taken before; pairs inside a taken clique are dropped. Going through all cliques
    from large to small is the same as searching for the largest admissible one until there is none, because taking
    one only makes others inadmissible; the search is cut by size and cells, and after `max_steps` steps the largest
    clique seen so far counts as the largest.
    """
    graph = _PairGraph.of(domain, pairs)
    used: set[int] = set()
    taken: list[tuple[int, ...]] = []
    while True:
        clique = _LargestClique(graph, frozenset(used), max_cells, max_overlap, max_steps).search()
        if len(clique) < 3 or clique in taken:
            break
        taken.append(clique)
        used.update(clique)
    return _with_left_over(domain, taken, pairs)


def cover_pairs(domain: Domain, pairs: Sequence[Clique], *, max_cells: int = 5000, max_size: int = 6) -> list[Clique]:
    """Marginals that hold every pair and cost less than the pairs: grown greedily, the first pairs first.

    In the shared budget a marginal weighs c^(2/3), so a clique pays if its own weight is below the weights of the
    pairs it newly holds: k binary attributes weigh 2^(2k/3) against 2.5 k(k-1)/2, best for k = 4 to 6, and their
    higher-order cells come free. Each uncovered pair is grown by the attribute that raises the ratio of held to own
    weight the most, as long as it rises. Columns with many values are left in pairs.
    """
    graph = _PairGraph.of(domain, pairs)
    sizes = np.asarray(domain.sizes, dtype=float)
    open_weights = np.where(graph.adjacent, np.multiply.outer(sizes, sizes) ** (2 / 3), 0.0)
    taken: list[tuple[int, ...]] = []
    for first, second in graph.edges:
        if not open_weights[first, second]:
            continue
        clique, held = [first, second], open_weights[first, second]
        while len(clique) < max_size:
            gains = open_weights[clique].sum(axis=0)
            cells = sizes[clique].prod() * sizes
            ratios = np.where(
                graph.adjacent[clique].all(axis=0) & (cells <= max_cells), (held + gains) / cells ** (2 / 3), 0
            )
            best = int(np.argmax(ratios))
            if ratios[best] <= held / sizes[clique].prod() ** (2 / 3):
                break
            clique.append(best)
            held += gains[best]
        open_weights[np.ix_(clique, clique)] = 0.0
        taken.append(tuple(sorted(clique)))
    return [tuple(domain.names[i] for i in clique) for clique in dict.fromkeys(taken)]


@dataclass(frozen=True, slots=True, eq=False)
class _PairGraph:
    sizes: tuple[int, ...]
    adjacent: np.ndarray
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, domain: Domain, pairs: Sequence[Clique]) -> _PairGraph:
        adjacent = np.zeros((len(domain), len(domain)), dtype=bool)
        edges = tuple((domain.position(a), domain.position(b)) for a, b in pairs)
        for a, b in edges:
            adjacent[a, b] = adjacent[b, a] = True
        return cls(domain.sizes, adjacent, edges)


@dataclass(slots=True, eq=False)
class _LargestClique:
    """Depth-first search for the largest clique within the limits: small domains first, bounded, in limited steps."""

    graph: _PairGraph
    used: frozenset[int]
    max_cells: int
    max_overlap: int
    steps_left: int
    best: tuple[int, ...] = field(default=(), init=False)

    def search(self) -> tuple[int, ...]:
        order = sorted(range(len(self.graph.sizes)), key=lambda i: (i in self.used, self.graph.sizes[i], i))
        self._extend((), 1, order)
        return tuple(sorted(self.best))

    def _bound(self, clique: tuple[int, ...], cells: int, candidates: Sequence[int]) -> int:
        """No clique from here can be larger: candidates taken from the smallest domain up until the cells run out."""
        room = 0
        for size in sorted(self.graph.sizes[i] for i in candidates):
            cells *= size
            if cells > self.max_cells:
                break
            room += 1
        return len(clique) + room

    def _extend(self, clique: tuple[int, ...], cells: int, candidates: Sequence[int]) -> None:
        if len(clique) > len(self.best):
            self.best = clique
        for k, vertex in enumerate(candidates):
            self.steps_left -= 1
            if self.steps_left < 0 or self._bound(clique, cells, candidates[k:]) <= len(self.best):
                return
            grown = (*clique, vertex)
            grown_cells = cells * self.graph.sizes[vertex]
            overlap = sum(i in self.used for i in grown)
            if grown_cells > self.max_cells or overlap > self.max_overlap:
                continue
            self._extend(grown, grown_cells, [i for i in candidates[k + 1 :] if self.graph.adjacent[vertex, i]])


def _with_left_over(domain: Domain, taken: Sequence[tuple[int, ...]], pairs: Sequence[Clique]) -> list[Clique]:
    cliques = [tuple(domain.names[i] for i in clique) for clique in taken]
    held = {pair for clique in cliques for pair in itertools.combinations(clique, 2)}
    return [*cliques, *(pair for pair in pairs if pair not in held)]
