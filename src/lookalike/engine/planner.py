"""Search for a good contraction tree.

A model's factors form a tensor network. A binary tree over the factors says in which order they are multiplied; a
variable is summed out as soon as no factor outside the subtree contains it. Every inner node involves three arrays (its
two children and itself) and costs the product of the sizes of all variables in them, whichever of the three is computed
from the other two. So one number per node gives the cost of both sweeps, and the root may be anywhere.

The tree comes from random greedy merging, then simulated annealing by rotations, on predicted time. No data is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lookalike import guards
from lookalike.engine import tree_search
from lookalike.engine.executor import compiled, worth_compiling
from lookalike.engine.plan import ContractionPlan, Pair, clique_mask, mask_positions
from lookalike.engine.recipes import NEGATIVE_LOGS, ordered
from lookalike.schema.domain import ColumnSet, Domain

_HOT, _COLD = 0.3, 0.003
_PURE_MOVE_SECONDS, _PURE_PAIR_SECONDS = 2e-6, 3e-6
# A plan serves some hundred calls and a compiled move takes 0.03 to 0.1 microseconds: searching costs about as much
# time as a few calls, and for costly models the better tree found by a longer search pays for itself.
_MOVES_PER_NS, _MAX_MOVES, _MAX_MOVES_COSTLY, _MAX_MOVES_PURE, _COSTLY_NS = 1.0, 200_000, 1_000_000, 150_000, 1e6


class TreeSearch:
    """Greedy merging, annealing and insertion for the factors of one connected component.

    Args:
        sizes: sizes of all columns.
        masks: the factors' scopes.
        seed: seed of the random search; the same seed gives the same trees, compiled or not.
        effort: multiplies the number of annealing moves.
    """

    def __init__(self, sizes: Sequence[int], masks: Sequence[int], seed: int, effort: float = 1.0) -> None:
        self.leaves = len(masks)
        self.effort = effort
        used = 0
        for mask in masks:
            used |= mask
        local = {position: i for i, position in enumerate(mask_positions(used))}
        self.words = -(-len(local) // tree_search.BITS)
        self.compiled = worth_compiling(tree_search.anneal, self.leaves**2 * _PURE_PAIR_SECONDS * self._tries())
        self.state = seed % 2147483645 + 1
        self.table = self._floats(_byte_table([sizes[position] for position in local], self.words))
        self.draws = self._floats(NEGATIVE_LOGS)
        self.sets = self._ints((2 * self.leaves - 1) * self.words)
        self.uses = self._ints(self.words * tree_search.BITS)
        for leaf, mask in enumerate(masks):
            for position in mask_positions(mask):
                word, bit = divmod(local[position], tree_search.BITS)
                self.sets[leaf * self.words + word] |= 1 << bit
                self.uses[local[position]] += 1

    def search(self) -> tuple[float, list[Pair]]:
        """Return predicted nanoseconds of both sweeps, and the best tree found."""
        if self.leaves < 2:
            return 0.0, []
        cost, tree = self.greedy(0.0, 1.0)
        for number in range(1, self._tries()):
            noise, alpha = (0.0, 0.1, 0.3, 1.0)[number % 4], (0.0, 0.5, 1.0)[number % 3]
            cost, tree = min((cost, tree), self.greedy(noise, alpha), key=lambda found: found[0])
        cost, tree = self.anneal(cost, tree, self._moves(cost))
        return cost, self.pairs(tree)

    def _moves(self, cost: float) -> int:
        limit = _MAX_MOVES if cost < _COSTLY_NS else _MAX_MOVES_COSTLY
        moves = int(self.effort * min(max(cost * _MOVES_PER_NS, 20 * self.leaves), limit))
        return moves if guards.NUMBA else min(moves, _MAX_MOVES_PURE)

    def greedy(self, noise: float, alpha: float):
        """Return cost and tree of one greedy run."""
        n, words = self.leaves, self.words
        sets, uses = self.sets[:], self.uses[:]
        if self.compiled:
            sets, uses = sets.copy(), uses.copy()
        twice = self._ints(words)
        for at, count in enumerate(uses):
            if count == 2:
                twice[at // tree_search.BITS] |= 1 << at % tree_search.BITS
            elif count == 1:
                # A variable of one factor only is summed out of it before any product.
                for leaf in range(n):
                    sets[leaf * words + at // tree_search.BITS] &= ~(1 << at % tree_search.BITS)
        tree, nodes = self._ints(4 * n - 2), 2 * n - 1
        run = self._kernel(tree_search.greedy)
        self.state = run(
            n, words, sets, twice, uses, self.table, self._floats(nodes), tree, self._ints(nodes), self._floats(nodes),
            self._ints(nodes), alpha, noise, self.state, self.draws,
        )  # fmt: skip
        return self._priced(tree)[0], tree

    def anneal(self, cost: float, tree, moves: int):
        """Return cost and tree after so many rotations; never worse than before."""
        if self.leaves < 3 or moves < 1:
            return cost, tree
        if not self.compiled and worth_compiling(tree_search.anneal, moves * _PURE_MOVE_SECONDS):
            self._switch_to_compiled()
            tree = np.array(tree, dtype=np.int64)
        total, scope, cells, ns = self._priced(tree)
        best = self._ints(4 * self.leaves - 2)
        decay = (_COLD / _HOT) ** (1.0 / moves)
        cost = self._kernel(tree_search.anneal)(
            self.leaves, self.words, tree, scope, cells, ns, self.table, total, self.state, moves, _HOT, decay,
            self.draws, self._ints(self.words), best,
        )  # fmt: skip
        self.state = tree_search.next_random(self.state)
        return float(cost), self._from_pairs(self.pairs(best))

    def insert_last(self, children: Sequence[Pair]):
        """Return cost and tree when the last leaf is joined at the best place to a tree over the others."""
        n, words = self.leaves, self.words
        tree = self._ints(4 * n - 2)
        parent = self._ints(2 * n)
        for v in range(2 * n):
            parent[v] = -1
        for j, pair in enumerate(children):
            for side, child in enumerate(pair):
                # Inner nodes move up by one to make room for the new leaf's number.
                child += child >= n - 1
                tree[2 * (n + j) + side] = child
                parent[child] = n + j
        below, above, scope = (self._ints(2 * n * words) for _ in range(3))
        below[: n * words] = self.sets[: n * words]
        self._kernel(tree_search.fill_scopes)(n, 2 * n - 2, words, tree, below, above, scope)
        run = self._kernel(tree_search.best_insertion)
        at, _ = run(n, words, tree, parent, below, above, self.table, self._ints(2 * n))
        self._kernel(tree_search.insert_leaf)(n, tree, at, parent[at])
        return self._priced(tree)[0], tree

    def price(self, children: Sequence[Pair]) -> tuple[float, float]:
        """Return predicted nanoseconds and cells of a given tree."""
        tree = self._from_pairs(children)
        return self._priced(tree)[0], self.cells(tree)

    def cells(self, tree) -> float:
        """Return the cells of the tree's arrays: a value and an adjoint for every node."""
        return 2.0 * float(sum(self._priced(self._from_pairs(self.pairs(tree)))[2]))

    def pairs(self, tree) -> list[Pair]:
        """Return the tree's inner nodes as pairs of children, children before parents."""
        n = self.leaves
        number: dict[int, int] = {leaf: leaf for leaf in range(n)}
        children: list[Pair] = []
        used = {int(child) for child in tree[2 * n :]}
        stack = [(v, False) for v in range(n, 2 * n - 1) if v not in used]
        while stack:
            v, done = stack.pop()
            if v < n:
                continue
            a, b = int(tree[2 * v]), int(tree[2 * v + 1])
            if done:
                number[v] = n + len(children)
                children.append((number[a], number[b]))
            else:
                stack += [(v, True), (b, False), (a, False)]
        return children

    def _from_pairs(self, children: Sequence[Pair]):
        tree = self._ints(4 * self.leaves - 2)
        for j, (a, b) in enumerate(children):
            tree[2 * (self.leaves + j)], tree[2 * (self.leaves + j) + 1] = a, b
        return tree

    def _priced(self, tree):
        nodes = 2 * self.leaves - 1
        below, above, scope = (self._ints(nodes * self.words) for _ in range(3))
        below[: self.leaves * self.words] = self.sets[: self.leaves * self.words]
        self._kernel(tree_search.fill_scopes)(self.leaves, nodes, self.words, tree, below, above, scope)
        cells, ns = self._floats(nodes), self._floats(nodes)
        cost = self._kernel(tree_search.tree_cost)(self.leaves, self.words, tree, scope, cells, ns, self.table)
        return float(cost), scope, cells, ns

    def _tries(self) -> int:
        return max(3, min(16, 1200 // self.leaves))

    def _switch_to_compiled(self) -> None:
        self.compiled = True
        self.table, self.draws = self._floats(self.table), self._floats(self.draws)
        self.sets, self.uses = (np.array(values, dtype=np.int64) for values in (self.sets, self.uses))

    def _kernel(self, function):
        return compiled(function) if self.compiled else function

    def _ints(self, length: int) -> Any:
        return np.zeros(length, dtype=np.int64) if self.compiled else [0] * length

    def _floats(self, values: Any) -> Any:
        if isinstance(values, int):
            return np.zeros(values) if self.compiled else [0.0] * values
        return np.array(values, dtype=float) if self.compiled else list(values)


def _byte_table(sizes: Sequence[int], words: int) -> list[float]:
    """For each byte of a set and each of its 256 values, the product of the sizes of the variables in it."""
    table = []
    for word in range(words):
        for byte in range(tree_search.BYTES):
            first = word * tree_search.BITS + 8 * byte
            row = [1.0] * 256
            for bit, size in enumerate(sizes[first : first + 8]):
                for value in range(1 << bit, 1 << (bit + 1)):
                    row[value] = row[value - (1 << bit)] * size
            for value in range(1 << max(0, min(8, len(sizes) - first)), 256):
                row[value] = 1.0
            table += row
    return table


def maximal_cliques(domain: Domain, cliques: Iterable[Iterable[str]]) -> list[ColumnSet]:
    """Return the column sets that lie in no other one, in domain order and in order of first appearance.

    >>> domain = Domain(("a", "b", "c"), (2, 2, 2))
    >>> maximal_cliques(domain, [("b",), ("b", "a"), ("c",), ("a", "b")])
    [('a', 'b'), ('c',)]
    """
    unique = list(dict.fromkeys(domain.canonical(clique) for clique in cliques))
    masks = [clique_mask(domain, clique) for clique in unique]
    largest_first = sorted(set(masks), key=int.bit_count, reverse=True)
    kept: list[int] = []
    for mask in largest_first:
        if mask and not any(mask & other == mask for other in kept):
            kept.append(mask)
    wanted = set(kept)
    return [clique for clique, mask in zip(unique, masks, strict=True) if mask in wanted]


def connected_components(masks: Sequence[int]) -> list[list[int]]:
    """Return the indices of the masks, grouped so that two masks which share a bit are in the same group.

    >>> connected_components([0b0011, 0b1000, 0b0110])
    [[0, 2], [1]]
    """
    groups: list[tuple[int, list[int]]] = []
    for index, mask in enumerate(masks):
        joined, members, others = mask, [index], []
        for other, indices in groups:
            if other & mask:
                joined |= other
                members = indices + members
            else:
                others.append((other, indices))
        groups = [*others, (joined, sorted(members))]
    return sorted((members for _, members in groups), key=lambda members: members[0])


def start_order(domain: Domain) -> tuple[int, ...]:
    """Return the columns by ascending size, so that the largest become the inner loops."""
    return tuple(sorted(range(len(domain)), key=lambda position: (domain.sizes[position], position)))


def make_plan(
    domain: Domain, cliques: Iterable[Iterable[str]], *, seed: int = 0, effort: float = 1.0
) -> ContractionPlan:
    """Return a plan for the model whose factors are the maximal column sets. The same seed gives the same plan.

    >>> domain = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))
    >>> make_plan(domain, [("a", "b"), ("b", "c"), ("b",)]).leaves
    (('a', 'b'), ('b', 'c'))
    """
    return _cached_plan(domain, tuple(maximal_cliques(domain, cliques)), seed, effort)


@lru_cache(maxsize=256)
def _cached_plan(domain: Domain, maximal: tuple[ColumnSet, ...], seed: int, effort: float) -> ContractionPlan:
    masks = [clique_mask(domain, clique) for clique in maximal]
    leaves: list[ColumnSet] = []
    trees: list[tuple[list[int], list[Pair]]] = []
    for members in connected_components(masks):
        _, children = TreeSearch(domain.sizes, [masks[i] for i in members], seed, effort).search()
        trees.append((list(range(len(leaves), len(leaves) + len(members))), children))
        leaves += [maximal[i] for i in members]
    plan = ContractionPlan(domain, tuple(leaves), join_trees(len(leaves), trees), start_order(domain))
    return ordered(plan, seed=seed)


def join_trees(count: int, trees: Iterable[tuple[list[int], list[Pair]]]) -> tuple[Pair, ...]:
    """Return trees over the leaves of single components, renumbered as trees over all `count` leaves."""
    joined: list[Pair] = []
    for leaves, children in trees:
        number = list(leaves)
        for a, b in children:
            number.append(count + len(joined))
            joined.append((number[a], number[b]))
    return tuple(joined)
