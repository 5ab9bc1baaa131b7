"""Search for a good contraction tree and a good order of the variables.

A model's factors form a tensor network. A binary tree over the factors says in which order they are multiplied; a
variable is summed out as soon as no factor outside the subtree knows it. Every inner node touches three arrays (its two
children and itself) and costs the product of the sizes of all variables in them, whichever of the three is computed
from the other two. So one number per node prices the forward and the adjoint sweep, and the root may be anywhere.

The tree comes from random greedy merging, then annealing by rotations. Nothing here looks at data.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from lookalike.schema.domain import Clique, Domain
from lookalike.tables.cliques import clique_mask, connected_components, mask_positions, maximal_cliques

NS_PER_STEP = 65.0
NS_PER_MULTIPLY_ADD = 0.10
NS_PER_CELL = 0.43

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """All that decides how a model is evaluated: its factors, the tree over them and the order of the variables.

    Attributes:
        domain: names and sizes of all attributes, also of those in no factor.
        leaves: scopes of the factors, none inside another. Factors of one connected component stand together.
        children: one pair of node numbers per inner node. Leaf i is node i, inner node j is node len(leaves) + j;
            children come before parents. Every component has its own tree.
        order: every attribute position once; arrays store their axes in this order.
    """

    domain: Domain
    leaves: tuple[Clique, ...]
    children: tuple[Pair, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.domain))):
            raise ValueError(f"order {self.order} is no permutation of {len(self.domain)} attributes")
        used = [child for pair in self.children for child in pair]
        if len(set(used)) != len(used):
            raise ValueError("a node of the contraction tree has two parents")
        for j, pair in enumerate(self.children):
            if max(pair) >= len(self.leaves) + j or min(pair) < 0:
                raise ValueError(
                    f"node {len(self.leaves) + j} of the contraction tree comes before its children {pair}"
                )

    @property
    def roots(self) -> list[int]:
        """Root of every component, in the order of their first leaves."""
        used = {child for pair in self.children for child in pair}
        nodes = range(len(self.leaves) + len(self.children))
        return [node for node in nodes if node not in used]

    def to_json(self) -> dict[str, object]:
        """The plan without its domain, in JSON values."""
        return {
            "leaves": [list(leaf) for leaf in self.leaves],
            "children": [list(pair) for pair in self.children],
            "order": list(self.order),
        }

    @classmethod
    def from_json(cls, domain: Domain, data: dict) -> ContractionPlan:
        """The plan that `to_json` wrote."""
        return cls(
            domain,
            tuple(tuple(leaf) for leaf in data["leaves"]),
            tuple((int(a), int(b)) for a, b in data["children"]),
            tuple(int(position) for position in data["order"]),
        )


class Sizes:
    """Numbers of cells of sets of attributes, remembered because a search asks for the same sets again and again."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._cells: dict[int, float] = {0: 1.0}

    def cells(self, mask: int) -> float:
        """Product of the sizes of the attributes in the mask, as a float: huge sets are priced, not built."""
        known = self._cells.get(mask)
        if known is None:
            known = 1.0
            for position in mask_positions(mask):
                known *= self.sizes[position]
            self._cells[mask] = known
        return known

    def node_ns(self, a: int, b: int, c: int) -> float:
        """Predicted nanoseconds of the three contractions at a node whose arrays have these scopes."""
        cells = self.cells
        return (
            3.0 * (NS_PER_STEP + NS_PER_MULTIPLY_ADD * cells(a | b | c))
            + NS_PER_CELL * (cells(a) + cells(b) + cells(c))
        )  # fmt: skip


def shared_masks(masks: Sequence[int]) -> list[int]:
    """Each mask without the bits that occur in no other mask: those are summed out of the factor before all else."""
    once, twice = 0, 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return [mask & twice for mask in masks]


def tree_scopes(leaf_masks: Sequence[int], children: Sequence[Pair]) -> list[int]:
    """Scope of every node: the attributes that occur both in leaves below the node and in leaves elsewhere."""
    count = len(leaf_masks)
    below = list(leaf_masks)
    for a, b in children:
        below.append(below[a] | below[b])
    above = [0] * len(below)
    for j in range(len(children) - 1, -1, -1):
        a, b = children[j]
        above[a] = above[count + j] | below[b]
        above[b] = above[count + j] | below[a]
    return [low & high for low, high in zip(below, above, strict=True)]


def tree_ns(sizes: Sizes, leaf_masks: Sequence[int], children: Sequence[Pair]) -> float:
    """Predicted nanoseconds of one forward and one adjoint sweep over a tree."""
    scopes = tree_scopes(leaf_masks, children)
    count = len(leaf_masks)
    return sum(sizes.node_ns(scopes[a], scopes[b], scopes[count + j]) for j, (a, b) in enumerate(children))


def greedy_tree(sizes: Sizes, leaf_masks: Sequence[int], rng: random.Random, noise: float, alpha: float) -> list[Pair]:
    """A tree by merging, again and again, the pair whose product adds the least.

    The score of a pair is cells(product) - alpha * (cells(a) + cells(b)), each time blurred by a random factor
    exp(noise * gumbel). Only pairs that share an attribute are looked at: the leaves must form one component.
    """
    cells = sizes.cells
    scope = dict(enumerate(leaf_masks))
    uses: dict[int, int] = {}
    for mask in leaf_masks:
        for position in mask_positions(mask):
            uses[1 << position] = uses.get(1 << position, 0) + 1

    def product(a: int, b: int) -> int:
        both = a & b
        dead = 0
        while both:
            low = both & -both
            if uses[low] == 2:
                dead |= low
            both ^= low
        return (a | b) & ~dead

    def entry(i: int, j: int) -> tuple[float, int, int]:
        a, b = scope[i], scope[j]
        score = cells(product(a, b)) - alpha * (cells(a) + cells(b))
        if noise:
            score -= noise * abs(score) * math.log(-math.log(rng.random() or 0.5))
        return (score, i, j)

    heap = [entry(i, j) for i in scope for j in scope if i < j and scope[i] & scope[j]]
    heapify(heap)
    children: list[Pair] = []
    while len(scope) > 1:
        if not heap:
            heap = [entry(i, j) for i in scope for j in scope if i < j]
            heapify(heap)
        _, i, j = heappop(heap)
        if i not in scope or j not in scope:
            continue
        a, b = scope.pop(i), scope.pop(j)
        merged = product(a, b)
        for low in (1 << position for position in mask_positions(a & b)):
            uses[low] -= 2 if not merged & low else 1
        new = len(leaf_masks) + len(children)
        children.append((i, j))
        scope[new] = merged
        for other, mask in scope.items():
            if other != new and mask & merged:
                heappush(heap, entry(other, new))
    return children


def anneal_tree(
    sizes: Sizes, leaf_masks: Sequence[int], children: Sequence[Pair], rng: random.Random, moves: int
) -> list[Pair]:
    """The tree after random rotations, cooled on the logarithm of the predicted time; never worse than the given one.

    A rotation turns ((x, y), b) into ((x, b), y). Only two nodes change, and the new inner scope is (x | b) & (y |
    v), where v is the scope of the node above: an attribute leaves a subtree only to the sibling or upwards.
    """
    count, scope = len(leaf_masks), tree_scopes(leaf_masks, children)
    left = [-1] * count + [a for a, _ in children]
    right = [-1] * count + [b for _, b in children]
    price = sizes.node_ns
    ns = [0.0] * count + [
        price(scope[left[v]], scope[right[v]], scope[v]) for v in range(count, count + len(children))
    ]  # fmt: skip
    total = best_total = sum(ns)
    best = (left[:], right[:])
    hot, cold = 0.3, 0.003
    for move in range(moves if len(children) > 1 else 0):
        temperature = hot * (cold / hot) ** (move / moves)
        v = rng.randrange(count, len(scope))
        a, b = (left[v], right[v]) if rng.random() < 0.5 else (right[v], left[v])
        if a < count:
            continue
        x, y = (left[a], right[a]) if rng.random() < 0.5 else (right[a], left[a])
        inner = (scope[x] | scope[b]) & (scope[y] | scope[v])
        ns_a = price(scope[x], scope[b], inner)
        ns_v = price(inner, scope[y], scope[v])
        change = ns_a + ns_v - ns[a] - ns[v]
        if change > 0 and rng.random() >= math.exp(-math.log1p(change / total) / temperature):
            continue
        left[a], right[a], left[v], right[v] = x, b, a, y
        scope[a], ns[a], ns[v] = inner, ns_a, ns_v
        total += change
        if total < best_total * (1 - 1e-12):
            best_total, best = total, (left[:], right[:])
    return postorder(count, *best)


def postorder(count: int, left: Sequence[int], right: Sequence[int]) -> list[Pair]:
    """The same tree with inner nodes renumbered so that children come first."""
    inner = range(count, len(left))
    used = {child for v in inner for child in (left[v], right[v])}
    number: dict[int, int] = {leaf: leaf for leaf in range(count)}
    children: list[Pair] = []
    for root in (v for v in inner if v not in used):
        stack = [(root, False)]
        while stack:
            v, done = stack.pop()
            if v < count:
                continue
            if done:
                number[v] = count + len(children)
                children.append((number[left[v]], number[right[v]]))
            else:
                stack += [(v, True), (right[v], False), (left[v], False)]
    return children


def search_tree(sizes: Sizes, leaf_masks: Sequence[int], seed: int, effort: float = 1.0) -> list[Pair]:
    """A good tree over the factors of one component: the best of some greedy tries, annealed."""
    if len(leaf_masks) < 2:
        return []
    rng = random.Random(seed)
    tries = [(0.0, 1.0), (0.0, 0.0)] + [(rng.choice([0.1, 0.3, 1.0]), rng.choice([0.0, 0.5, 1.0])) for _ in range(6)]
    trees = [greedy_tree(sizes, leaf_masks, rng, noise, alpha) for noise, alpha in tries]
    best = min(trees, key=lambda children: tree_ns(sizes, leaf_masks, children))
    return anneal_tree(sizes, leaf_masks, best, rng, int(effort * 60 * len(leaf_masks)))


def start_order(domain: Domain) -> tuple[int, ...]:
    """Attributes by ascending size: the longest runs become the inner loops."""
    return tuple(sorted(range(len(domain)), key=lambda position: (domain.sizes[position], position)))


def make_plan(
    domain: Domain, cliques: Iterable[Iterable[str]], *, seed: int = 0, effort: float = 1.0
) -> ContractionPlan:
    """A plan for the model whose factors are the maximal ones among `cliques`. The same seed gives the same plan.

    >>> domain = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))
    >>> make_plan(domain, [("a", "b"), ("b", "c"), ("b",)]).leaves
    (('a', 'b'), ('b', 'c'))
    """
    maximal = maximal_cliques(domain, cliques)
    masks = [clique_mask(domain, clique) for clique in maximal]
    sizes = Sizes(domain.sizes)
    leaves: list[Clique] = []
    trees: list[tuple[list[int], list[Pair]]] = []
    for members in connected_components(masks):
        shared = shared_masks([masks[i] for i in members])
        trees.append((list(range(len(leaves), len(leaves) + len(members))), search_tree(sizes, shared, seed, effort)))
        leaves += [maximal[i] for i in members]
    return ContractionPlan(domain, tuple(leaves), join_trees(len(leaves), trees), start_order(domain))


def join_trees(count: int, trees: Iterable[tuple[list[int], list[Pair]]]) -> tuple[Pair, ...]:
    """Trees over the leaves of single components, renumbered as trees over all `count` leaves."""
    joined: list[Pair] = []
    for leaves, children in trees:
        number = list(leaves)
        for a, b in children:
            number.append(count + len(joined))
            joined.append((number[a], number[b]))
    return tuple(joined)
