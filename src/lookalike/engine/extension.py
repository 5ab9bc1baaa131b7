"""Plans for a model with one more column set, which are faster to find, and to price, than from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lookalike.engine.order import ordered
from lookalike.engine.plan import ContractionPlan, Pair, clique_mask
from lookalike.engine.planner import TreeSearch, join_trees, make_plan
from lookalike.schema.domain import ColumnSet

_MOVES = 5_000
_GREEDY_TRIES = 3


@dataclass(frozen=True, slots=True)
class ComponentTree:
    """The tree of one connected component: numbers of its leaves in the plan, and children as in ContractionPlan."""

    leaves: tuple[int, ...]
    children: tuple[Pair, ...]


def component_trees(plan: ContractionPlan) -> list[ComponentTree]:
    """Return the tree of each connected component of a plan."""
    count = len(plan.leaves)
    member: dict[int, list[int]] = {leaf: [leaf] for leaf in range(count)}
    inner: dict[int, list[int]] = {leaf: [] for leaf in range(count)}
    for j, (a, b) in enumerate(plan.children):
        member[count + j] = member.pop(a) + member.pop(b)
        inner[count + j] = [*inner.pop(a), *inner.pop(b), j]
    trees = []
    for root, leaves in member.items():
        leaves = sorted(leaves)
        number = {leaf: i for i, leaf in enumerate(leaves)}
        children: list[Pair] = []
        for j in inner[root]:
            a, b = plan.children[j]
            number[count + j] = len(leaves) + len(children)
            children.append((number[a], number[b]))
        trees.append(ComponentTree(tuple(leaves), tuple(children)))
    return trees


def without_leaves(count: int, children: Sequence[Pair], dropped: set[int]) -> list[Pair]:
    """Return the tree without the dropped leaves; the others are renumbered in their old order."""
    kept = [leaf for leaf in range(count) if leaf not in dropped]
    number: dict[int, int | None] = dict.fromkeys(dropped)
    number.update({leaf: i for i, leaf in enumerate(kept)})
    result: list[Pair] = []
    for j, (a, b) in enumerate(children):
        left, right = number[a], number[b]
        if left is None or right is None:
            number[count + j] = right if left is None else left
        else:
            number[count + j] = len(kept) + len(result)
            result.append((left, right))
    return result


class Extension:
    """A plan, prepared so that single column sets can be added to it quickly."""

    def __init__(self, plan: ContractionPlan, seed: int = 0) -> None:
        self.plan = plan
        self.seed = seed
        self.masks = [clique_mask(plan.domain, leaf) for leaf in plan.leaves]
        self.trees = component_trees(plan)
        priced = [self._price(tree) for tree in self.trees]
        self.costs = [ns for ns, _ in priced]
        self.cells = [cells for _, cells in priced]

    def joined(self, clique: ColumnSet) -> tuple[list[int], list[Pair], list[ComponentTree]]:
        """Return leaves and tree of the components that share a column with the set, without leaves inside it.

        Leaves are numbers of the plan's leaves. The third result is the list of all other components.
        """
        mask = clique_mask(self.plan.domain, clique)
        leaves: list[int] = []
        trees: list[tuple[list[int], list[Pair]]] = []
        others = []
        for tree in self.trees:
            if not any(self.masks[leaf] & mask for leaf in tree.leaves):
                others.append(tree)
                continue
            inside = {i for i, leaf in enumerate(tree.leaves) if self.masks[leaf] & ~mask == 0}
            kept = [leaf for i, leaf in enumerate(tree.leaves) if i not in inside]
            if kept:
                pairs = without_leaves(len(tree.leaves), tree.children, inside)
                trees.append((list(range(len(leaves), len(leaves) + len(kept))), pairs))
                leaves += kept
        children = list(join_trees(len(leaves), trees))
        roots = _roots(len(leaves), trees)
        joined = roots[0] if roots else 0
        for root in roots[1:]:
            children.append((joined, root))
            joined = len(leaves) + len(children) - 1
        return leaves, children, others

    def search(self, clique: ColumnSet) -> tuple[TreeSearch, list[int], list[Pair], list[ComponentTree]]:
        """Return the search for the tree of `joined` with the column set as last leaf, and the results of `joined`."""
        leaves, children, others = self.joined(clique)
        masks = [*(self.masks[leaf] for leaf in leaves), clique_mask(self.plan.domain, clique)]
        return TreeSearch(self.plan.domain.sizes, masks, self.seed), leaves, children, others

    def is_covered(self, clique: ColumnSet) -> bool:
        """Whether some leaf of the plan contains the column set."""
        mask = clique_mask(self.plan.domain, clique)
        return any(mask & other == mask for other in self.masks)

    def candidate(self, clique: ColumnSet, enough: float = 0.0) -> tuple[float, float]:
        """Return predicted nanoseconds of both sweeps and cells of the tree's arrays, with the column set added.

        A tree of at most `enough` nanoseconds is not searched further.
        """
        if self.is_covered(clique):
            return sum(self.costs), sum(self.cells)
        search, _, children, others = self.search(clique)
        rest = [i for i, tree in enumerate(self.trees) if tree in others]
        ns, cells = sum(self.costs[i] for i in rest), sum(self.cells[i] for i in rest)
        if search.leaves < 2:
            return ns, cells
        cost, tree = search.insert_last(children)
        if ns + cost > enough:
            cost, tree = _refined(search, cost, tree)
        return ns + cost, cells + search.cells(tree)

    def grown_component(self, clique: ColumnSet) -> tuple[list[ColumnSet], list[Pair]]:
        """Return leaves and tree of the component of the column set once it is added as the last leaf."""
        search, leaves, children, _ = self.search(clique)
        names = [*(self.plan.leaves[leaf] for leaf in leaves), clique]
        if search.leaves < 2:
            return names, []
        return names, search.pairs(_refined(search, *search.insert_last(children))[1])

    def extended(self, clique: ColumnSet) -> ContractionPlan:
        """Return the plan with the column set added."""
        if self.is_covered(clique):
            return self.plan
        grown, pairs = self.grown_component(clique)
        names: list[ColumnSet] = []
        trees: list[tuple[list[int], list[Pair]]] = []
        for tree in self.joined(clique)[2]:
            trees.append((list(range(len(names), len(names) + len(tree.leaves))), list(tree.children)))
            names += [self.plan.leaves[leaf] for leaf in tree.leaves]
        trees.append((list(range(len(names), len(names) + len(grown))), pairs))
        names += grown
        plan = ContractionPlan(self.plan.domain, tuple(names), join_trees(len(names), trees), self.plan.order)
        return ordered(plan, seed=self.seed)

    def _price(self, tree: ComponentTree) -> tuple[float, float]:
        if not tree.children:
            return 0.0, 0.0
        search = TreeSearch(self.plan.domain.sizes, [self.masks[leaf] for leaf in tree.leaves], self.seed)
        return search.price(tree.children)


def _roots(count: int, trees: Iterable[tuple[list[int], list[Pair]]]) -> list[int]:
    """Root of each tree in the numbering of `join_trees`."""
    roots, end = [], count
    for leaves, pairs in trees:
        end += len(pairs)
        roots.append(end - 1 if pairs else leaves[0])
    return roots


def _refined(search: TreeSearch, cost: float, tree):
    """Return cost and tree after annealing the best of the given tree and a few greedy ones."""
    for number in range(_GREEDY_TRIES):
        cost, tree = min((cost, tree), search.greedy(0.1 * number, 1.0), key=lambda found: found[0])
    return search.anneal(cost, tree, _MOVES)


def extend_plan(plan: ContractionPlan, cliques: Iterable[Iterable[str]], *, seed: int = 0) -> ContractionPlan:
    """Return a plan for the model with these column sets added, grown from the given plan.

    For more than three new column sets a plan is made from scratch instead. Deterministic given the arguments.
    """
    extension = Extension(plan, seed)
    new = dict.fromkeys(map(plan.domain.canonical, cliques))
    new = [clique for clique in new if not extension.is_covered(clique)]
    if len(new) > 3 or not plan.leaves:
        return make_plan(plan.domain, [*plan.leaves, *new], seed=seed)
    for clique in new:
        plan = Extension(plan, seed).extended(clique)
    return plan
