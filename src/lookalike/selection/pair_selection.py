"""From noisy scores of all pairs of columns, or from public sizes alone, to the marginals that are measured.

DenseMarg and its combination of pairs into larger marginals (PrivSyn, sections 4.1 and 4.2), the maximum spanning tree
of MST, and the covering designs of PriView (section 4.2), which hold every pair or triple of columns. Works on released
scores and public facts only. Combining is bounded: the number of cliques of a dense pair graph explodes, so none of the
functions lists them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np
from scipy import special

from lookalike.guards import MAX_BATCH_CELLS, MAX_PAIR_CELLS
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.steps import noise_error


def candidate_pairs(domain: Domain, max_cells: int = MAX_PAIR_CELLS) -> list[ColumnSet]:
    """Return every pair of columns with at most `max_cells` cells, in domain order."""
    return [pair for pair in itertools.combinations(domain.names, 2) if domain.cells(pair) <= max_cells]


def pair_matrix(domain: Domain, pairs: Sequence[ColumnSet], scores: np.ndarray) -> np.ndarray:
    """Return the scores of pairs as a symmetric matrix over the columns."""
    matrix = np.zeros((len(domain), len(domain)))
    for (a, b), value in zip(pairs, scores, strict=True):
        i, j = domain.position(a), domain.position(b)
        matrix[i, j] = matrix[j, i] = value
    return matrix


def in_batches(domain: Domain, cliques: Sequence[ColumnSet], max_cells: int = MAX_BATCH_CELLS) -> list[list[ColumnSet]]:
    """Return the column sets in batches of at most `max_cells` cells in all; a larger set is alone in its batch."""
    batches: list[list[ColumnSet]] = []
    room = 0
    for clique in cliques:
        cells = domain.cells(clique)
        if not batches or cells > room:
            batches.append([])
            room = max_cells
        batches[-1].append(clique)
        room -= cells
    return batches


def independent_tables(
    cliques: Sequence[ColumnSet], oneways: Mapping[str, np.ndarray], total: float
) -> list[np.ndarray]:
    """Return the counts that independent columns with these one-way counts would have, for each column set."""
    shares = {name: counts / total for name, counts in oneways.items()}
    return [total * functools.reduce(np.multiply.outer, (shares[name] for name in clique)) for clique in cliques]


def above_noise(scores: np.ndarray, stddev: float, columns: int, false_pairs: float = 4.0) -> np.ndarray:
    """Return the scores, with 0 for those that noise alone may explain; about `false_pairs` of these remain per column.

    Half of all scores of independent pairs are positive by noise. Up to about 20 columns that is harmless; with 200 the
    budget would go to thousands of them, so the limit is the quantile of the noise that leaves so few.
    """
    share = 2 * false_pairs / max(columns - 1, 1)
    limit = stddev * float(special.ndtri(1 - share)) if share < 0.5 else 0.0
    return np.where(scores > limit, scores, 0.0)


def greedy_pairs(scores: np.ndarray, cells: np.ndarray, rho: float, *, noise_weight: float = 1.0) -> list[int]:
    """Return the indices of the pairs worth measuring, in the order they were picked (PrivSyn, Algorithm 1).

    Each step takes the pair that lowers noise error + dependency error of the pairs left out the most, and stops when
    none lowers it. The noise error of a selection depends on the sum of its weights alone (`steps.noise_error`),
    so a candidate's objective is one subtraction: O(m) per pick. Scores below 0 are noise and count as 0.

    Args:
        scores: noisy dependency error of each pair, in rows.
        cells: number of cells of each pair.
        rho: budget for measuring all picked pairs.
        noise_weight: factor of the noise error. The paper has 1; consistency and smoothing remove part of the noise, so
            that a smaller factor is nearer to the error that remains.
    """
    gains = np.maximum(np.asarray(scores, dtype=float), 0.0)
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    picked: list[int] = []
    left = np.ones(gains.size, dtype=bool)
    used = 0.0
    while left.any():
        added = noise_weight * (noise_error(used + weights, rho) - noise_error(used, rho))
        changes = np.where(left, added - gains, np.inf)
        best = int(np.argmin(changes))
        if changes[best] >= 0:
            break
        picked.append(best)
        left[best] = False
        used += weights[best]
    return picked


def connect_isolated(domain: Domain, pairs: Sequence[ColumnSet], scores: Mapping[ColumnSet, float]) -> list[ColumnSet]:
    """Return `pairs`, and for each column in none of them its pair of highest score with a column that is.

    Where `pairs` is empty, columns are joined to the first one. A column without a scored pair stays alone.
    """
    joined = {name for pair in pairs for name in pair} or set(domain.names[:1])
    added = []
    for name in domain.names:
        if name in joined:
            continue
        options = [domain.canonical((name, other)) for other in joined]
        options = [pair for pair in options if pair in scores]
        if options:
            added.append(max(options, key=lambda pair: (scores[pair], pair)))
    return [*pairs, *added]


def combine_cliques(
    domain: Domain, pairs: Sequence[ColumnSet], *, max_cells: int = 5000, max_overlap: int = 2, max_steps: int = 3000
) -> list[ColumnSet]:
    """Return the largest cliques of the pair graph, one after the other, and the pairs left over (Algorithm 2).

    A clique of 3 or more columns is taken if it has at most `max_cells` cells (gamma) and at most `max_overlap`
    columns in common with those taken before; pairs inside a taken clique are dropped. Going through all cliques
    from large to small is the same as searching for the largest admissible one until there is none, because taking
    one only makes others inadmissible; the search is cut by size and cells, and after `max_steps` steps the largest
    clique found so far counts as the largest.
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


def cover_pairs(
    domain: Domain, pairs: Sequence[ColumnSet], *, max_cells: int = 5000, max_size: int = 6
) -> list[ColumnSet]:
    """Return marginals that hold every pair and weigh less than the pairs: grown greedily, the first pairs first.

    In the shared budget a marginal weighs c^(2/3), so a larger set pays if its own weight is below the weights of the
    pairs it newly holds: k binary columns weigh 2^(2k/3) against 2.5 k(k-1)/2, best for k = 4 to 6, and their
    higher-order cells come free. Each uncovered pair is grown by the column that raises the ratio of held to own weight
    the most, while it rises. Columns with many values are left in pairs.
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
            allowed = graph.adjacent[clique].all(axis=0) & (cells <= max_cells)
            ratios = np.where(allowed, (held + gains) / cells ** (2 / 3), 0)
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
    def of(cls, domain: Domain, pairs: Sequence[ColumnSet]) -> _PairGraph:
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
        """Return an upper bound on the size of a clique from here: candidates of fewest values, within the cells."""
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


def _with_left_over(domain: Domain, taken: Sequence[tuple[int, ...]], pairs: Sequence[ColumnSet]) -> list[ColumnSet]:
    cliques = [tuple(domain.names[i] for i in clique) for clique in taken]
    held = {pair for clique in cliques for pair in itertools.combinations(clique, 2)}
    return [*cliques, *(pair for pair in pairs if pair not in held)]


def maximum_spanning_tree(pairs: Sequence[ColumnSet], weights: np.ndarray) -> list[ColumnSet]:
    """Return the pairs of a spanning tree (or forest) of largest total weight, heaviest first (Kruskal).

    >>> maximum_spanning_tree([("a", "b"), ("b", "c"), ("a", "c")], np.array([1.0, 3.0, 2.0]))
    [('b', 'c'), ('a', 'c')]
    """
    root: dict[str, str] = {name: name for pair in pairs for name in pair}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    tree: list[ColumnSet] = []
    for index in np.argsort(-weights, kind="stable"):
        first, second = (find(name) for name in pairs[index])
        if first != second:
            root[first] = second
            tree.append(pairs[index])
    return tree


_MANY = 3000
"""Number of pairs or triples from which one try is enough: large designs hardly differ."""


def covering_design(
    domain: Domain, strength: int, max_cells: float, rng: np.random.Generator, *, tries: int = 20
) -> list[ColumnSet]:
    """Return sets of at most `max_cells` cells that together hold every `strength` columns; the cheapest of some tries.

    Columns that have more cells together are a set alone. A design is priced by the sum of cells^(2/3) of its
    sets, which is what their noise costs when a budget is shared best (`steps.allocate`).

    Args:
        domain: the columns.
        strength: 2 for pairs, 3 for triples; all columns together where there are no more than that.
        max_cells: maximum number of cells of a set.
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


def _greedy_design(domain: Domain, strength: int, max_cells: float, rng: np.random.Generator) -> list[ColumnSet]:
    """Return a design: sets grown from pairs (or triples) that no earlier set holds, until all are held."""
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
    """Return the set with columns added while one fits: that of most open pairs or triples per bit of its size."""
    view, bits, others = start, np.log2(np.maximum(sizes, 1.5)), tuple(range(is_open.ndim - 1))
    while True:
        gains = is_open[np.ix_(*[view] * len(others))].sum(axis=others) / bits
        gains[view] = 0.0
        gains[sizes[view].prod() * sizes > max_cells * (1 + 1e-9)] = 0.0
        if gains.max() <= 0:
            return np.sort(view)
        view = np.append(view, rng.choice(np.flatnonzero(gains == gains.max())))
