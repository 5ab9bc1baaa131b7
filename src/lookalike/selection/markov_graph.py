"""A chordal graph over the columns, grown edge by edge from noisy pair scores (PrivMRF, Algorithm 1).

Works on released scores only, so nothing here costs budget.

The graph is kept chordal all the time, as a list of maximal cliques and a forest over them. A new edge (u, v) is priced
from that forest alone: on the path from the cliques of u to those of v, with separators S_1 .. S_m, pick a meeting
point j; u is joined to S_1 .. S_j and v to S_j .. S_m. The new cliques are {u} + S_i + S_(i+1) before j, {v} + S_i +
S_(i+1) after j, and {u, v} + S_j; all others stay. So a candidate costs a walk over a path and never a triangulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from lookalike.engine.plan import mask_positions
from lookalike.schema.domain import ColumnSet, Domain

_MEETINGS = 4
"""Meeting points of an edge that are priced exactly: those with fewest new cells."""
_GRAPHS, _GRAPH_WORK = 40, 6000
"""Number of graphs that `best_graph` grows, and of graphs times pairs: bounds on its time."""


class MarkovGraph:
    """A chordal graph whose maximal cliques stay below given numbers of cells.

    Args:
        domain: names and sizes of the columns.
        clique_cells: maximum number of cells of one maximal clique (tau_c of the paper).
        total_cells: maximum number of cells of all maximal cliques together; about the cost of one exact inference.
    """

    def __init__(self, domain: Domain, clique_cells: float, total_cells: float = float("inf")) -> None:
        self.domain = domain
        self.clique_cells = float(clique_cells)
        self.total_cells = float(total_cells)
        self.edges: list[tuple[int, int]] = []
        self._cells: dict[int, float] = {}
        self._install([1 << position for position in range(len(domain))])

    @property
    def cliques(self) -> list[ColumnSet]:
        """The maximal cliques, each in domain order."""
        return [tuple(self.domain.names[i] for i in mask_positions(mask)) for mask in self._masks]

    @property
    def cells(self) -> float:
        """The number of cells of all maximal cliques together."""
        return self._total

    def joined(self, u: int, v: int) -> bool:
        """Return whether the two columns are in a common clique."""
        return bool(self._neighbours[u] >> v & 1)

    def add(self, u: int, v: int) -> bool:
        """Add the edge with its cheapest fill-in along the clique forest; return False if that would break a limit."""
        if not self.joined(u, v):
            cliques = self._with_edge(u, v)
            if cliques is None:
                return False
            self._install(cliques)
        self.edges.append((u, v))
        return True

    def tidy(self) -> None:
        """Triangulate the accepted edges anew, once, and keep the result if it has fewer cells in all."""
        masks = _eliminated(self.domain.sizes, self.edges, self._size)
        fits = max(map(self._size, masks)) <= self.clique_cells
        if fits and sum(map(self._size, masks)) < self.cells * (1 - 1e-9):
            self._install(masks)

    def _with_edge(self, u: int, v: int) -> list[int] | None:
        """Return the maximal cliques of the cheapest chordal graph with the edge, or None if it breaks a limit."""
        best, best_total = None, self.total_cells
        for new in self._fill_ins(u, v, self._path(u, v)):
            added = [mask for mask in new if not any(mask & old == mask for old in self._masks)]
            gone = {old for old in self._masks if any(old & mask == old for mask in added)}
            total = self.cells + sum(map(self._size, added)) - sum(map(self._size, gone))
            if total <= best_total:
                best, best_total = [*(mask for mask in self._masks if mask not in gone), *added], total
        return best

    def _fill_ins(self, u: int, v: int, separators: Sequence[int]) -> list[list[int]]:
        """Return new cliques for the meeting points within the clique limit; of many, those with fewest new cells."""
        a, b = 1 << u, 1 << v
        if not separators:
            return [[a | b]] if self._size(a | b) <= self.clique_cells else []
        steps = [left | right for left, right in pairwise(separators)]
        found = []
        for meeting, separator in enumerate(separators):
            # Joining u to ever more separators only grows the graph on its side, so the first misfit ends the search.
            if meeting and self._size(a | steps[meeting - 1]) > self.clique_cells:
                break
            new = [*(a | step for step in steps[:meeting]), *(b | step for step in steps[meeting:]), a | b | separator]
            sizes = [self._size(mask) for mask in new]
            if max(sizes) <= self.clique_cells:
                found.append((sum(sizes), meeting, new))
        return [_maximal(new) for _, _, new in sorted(found)[:_MEETINGS]]

    def _path(self, u: int, v: int) -> list[int]:
        """Return the separators between the cliques of u and those of v; none if no path connects them."""
        reached: dict[int, tuple[int, int] | None] = {
            i: None for i, mask in enumerate(self._masks) if mask >> u & 1
        }  # fmt: skip
        front = list(reached)
        while front:
            following = []
            for i in front:
                if self._masks[i] >> v & 1:
                    separators: list[int] = []
                    step = reached[i]
                    while step is not None:
                        separators.append(step[1])
                        step = reached[step[0]]
                    return separators[::-1]
                for j, separator in self._forest[i]:
                    if j not in reached:
                        reached[j] = (i, separator)
                        following.append(j)
            front = following
        return []

    def _install(self, masks: list[int]) -> None:
        self._masks = masks
        self._total = sum(map(self._size, masks))
        self._neighbours = [0] * len(self.domain)
        for mask in masks:
            for i in mask_positions(mask):
                self._neighbours[i] |= mask
        self._forest = _clique_forest(masks, len(self.domain))

    def _size(self, mask: int) -> float:
        known = self._cells.get(mask)
        if known is None:
            known = 1.0
            for position in mask_positions(mask):
                known *= self.domain.sizes[position]
            self._cells[mask] = known
        return known


def grow_graph(
    domain: Domain,
    pairs: Sequence[ColumnSet],
    scores: np.ndarray,
    *,
    clique_cells: float,
    total_cells: float = float("inf"),
    lowest: float = -float("inf"),
) -> MarkovGraph:
    """Grow the graph of Algorithm 1: pairs by descending score, each accepted if the limits still hold.

    Passes over the refused pairs are repeated until one accepts nothing; between two passes the accepted edges are
    triangulated anew, once. A pair that already lies in a clique is accepted for free.

    Args:
        domain: names and sizes of the columns.
        pairs: all candidate edges.
        scores: their noisy scores.
        clique_cells: largest number of cells of one maximal clique.
        total_cells: largest number of cells of all maximal cliques together.
        lowest: pairs of a lower score are left out; their scores are noise.

    >>> domain = Domain(("a", "b", "c"), (2, 2, 2))
    >>> pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    >>> grow_graph(domain, pairs, np.array([3.0, 2.0, 1.0]), clique_cells=4).cliques
    [('a', 'b'), ('a', 'c')]
    """
    graph = MarkovGraph(domain, clique_cells, total_cells)
    positions = [(domain.position(a), domain.position(b)) for a, b in pairs]
    waiting = [positions[i] for i in np.argsort(-np.asarray(scores), kind="stable") if scores[i] >= lowest]
    while waiting:
        refused = [(u, v) for u, v in waiting if not graph.add(u, v)]
        if len(refused) == len(waiting):
            break
        waiting = refused
        if waiting:
            graph.tidy()
    return graph


def best_graph(
    domain: Domain,
    pairs: Sequence[ColumnSet],
    scores: np.ndarray,
    prices: np.ndarray,
    rng: np.random.Generator,
    *,
    clique_cells: float,
    total_cells: float,
    tries: int | None = None,
) -> MarkovGraph:
    """Grow several graphs, in different orders, and return the one whose pairs have the largest sum of scores.

    The order of Algorithm 1, descending score, spends the limits on a few large pairs. Here the first order is score
    per square root of price, the others score per random power of price with random factors. All of it is free: scores
    are released.

    Args:
        domain: names and sizes of the columns.
        pairs: all candidate edges.
        scores: their noisy scores; pairs of a score of 0 or less are left out.
        prices: what measuring each pair costs, (cells)^(2/3) or less.
        rng: source of randomness.
        clique_cells: largest number of cells of one maximal clique.
        total_cells: largest number of cells of all maximal cliques together.
        tries: how many graphs to grow; None means 40, or fewer where there are many pairs.
    """
    tries = tries or max(1, min(_GRAPHS, _GRAPH_WORK // len(pairs)))
    values = np.maximum(np.asarray(scores, dtype=float), 0.0)
    ends = [(domain.position(a), domain.position(b)) for a, b in pairs]
    best, best_value = MarkovGraph(domain, clique_cells, total_cells), -1.0
    for number in range(tries):
        power, spread = (0.5, 0.0) if number == 0 else (rng.uniform(0.0, 1.0), 0.3)
        order = np.where(values > 0, values / prices**power * np.exp(rng.normal(0.0, spread, len(values))), -1.0)
        graph = grow_graph(domain, pairs, order, clique_cells=clique_cells, total_cells=total_cells, lowest=0.0)
        value = sum(float(value) for (u, v), value in zip(ends, values, strict=True) if graph.joined(u, v))
        if value > best_value:
            best, best_value = graph, value
    return best


def _maximal(masks: Sequence[int]) -> list[int]:
    """Return the masks that lie in no other one, without repeats, in the order given."""
    unique = list(dict.fromkeys(masks))
    return [mask for mask in unique if not any(mask != other and mask & other == mask for other in unique)]


def _clique_forest(masks: Sequence[int], columns: int) -> list[list[tuple[int, int]]]:
    """Return neighbours and separators in a clique forest: in chordal graphs, a spanning forest of largest overlaps."""
    members = np.zeros((len(masks), columns), dtype=np.float32)
    for row, mask in zip(members, masks, strict=True):
        row[mask_positions(mask)] = 1.0
    tree = minimum_spanning_tree(-np.triu(members @ members.T, 1)).tocoo()
    forest: list[list[tuple[int, int]]] = [[] for _ in masks]
    for i, j in zip(tree.row.tolist(), tree.col.tolist(), strict=True):
        separator = masks[i] & masks[j]
        forest[i].append((j, separator))
        forest[j].append((i, separator))
    return forest


def _eliminated(sizes: Sequence[int], edges: Sequence[tuple[int, int]], cells: Callable[[int], float]) -> list[int]:
    """Return the maximal cliques after eliminating columns by fewest fill edges, then by smallest clique."""
    neighbours = [1 << i for i in range(len(sizes))]
    for u, v in edges:
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    costs = {i: (_fill(neighbours, neighbours[i]), cells(neighbours[i]), i) for i in range(len(sizes))}
    cliques = []
    while costs:
        best = min(costs, key=costs.__getitem__)
        clique = neighbours[best]
        cliques.append(clique)
        del costs[best]
        inside = mask_positions(clique & ~(1 << best))
        for i in inside:
            neighbours[i] = (neighbours[i] | clique) & ~(1 << best)
        # What a column would fill in depends on the edges among its neighbours: only these have changed.
        for i in costs:
            if neighbours[i] & clique:
                costs[i] = (_fill(neighbours, neighbours[i]), cells(neighbours[i]), i)
    return _maximal(cliques)


def _fill(neighbours: Sequence[int], clique: int) -> int:
    """Return how many edges are missing among the columns of the mask, each counted twice."""
    return sum((clique & ~neighbours[i]).bit_count() for i in mask_positions(clique))
