"""The predicted time and memory of a model before it is built, limits on them, and plans with one more column set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.engine.executor import with_reuse
from lookalike.engine.plan import ContractionPlan, Layout, Pair, clique_mask, make_layout
from lookalike.engine.planner import TreeSearch, join_trees, make_plan
from lookalike.engine.recipes import PRICES, ordered, predicted_ns
from lookalike.errors import ModelTooLargeError
from lookalike.schema.domain import ColumnSet, Domain

_CALL_NS, _LEAF_CELL_NS = PRICES["evaluation"]["call"], PRICES["evaluation"]["leaf_cell"]
# Arrays beyond the second-level cache come from memory: the fitted prices are then about 1.5 times too low.
_CACHE_CELLS = 120_000
_BEYOND_CACHE = 1.5
_MAX_CELLS = 2**40


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted time and memory of a model.

    Attributes:
        seconds_per_call: of one evaluation of all marginals on one core; a fit makes 50 to 500 such calls.
        memory_mb: of the arrays of the model, in 10^6 bytes.
    """

    seconds_per_call: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a model may be. The defaults suit a laptop: a fit of minutes, a quarter of 8 GB.

    Attributes:
        seconds_per_call: predicted seconds of one evaluation of all marginals.
        memory_mb: predicted memory of one model's arrays, in 10^6 bytes.
    """

    seconds_per_call: float = 1.0
    memory_mb: float = 2000.0

    def __post_init__(self) -> None:
        if not (self.seconds_per_call > 0 and self.memory_mb > 0):
            raise ValueError(f"limits must be positive, not {self}")

    def allow(self, cost: Cost) -> bool:
        """Whether a model of this cost is within the limits."""
        return cost.seconds_per_call <= self.seconds_per_call and cost.memory_mb <= self.memory_mb

    def check(self, what: str, cost: Cost) -> None:
        """Raise a ModelTooLargeError that names the cost, the limit and the remedy, if the model is not allowed."""
        remedy = "Measure fewer or smaller column sets, merge rare values, or raise the limits."
        if cost.memory_mb > self.memory_mb:
            raise ModelTooLargeError(what, cost.memory_mb, self.memory_mb, "MB of memory", remedy)
        if cost.seconds_per_call > self.seconds_per_call:
            raise ModelTooLargeError(
                what, cost.seconds_per_call, self.seconds_per_call, "seconds per evaluation", remedy
            )


DEFAULT_LIMITS = Limits()


def layout_cost(layout: Layout) -> Cost:
    """Predicted cost of a model with this layout."""
    ns = predicted_ns(layout)
    if layout.cells > _CACHE_CELLS * 8:
        ns *= _BEYOND_CACHE
    seconds = 1e-9 * (ns + _LEAF_CELL_NS * layout.leaf_cells + _CALL_NS)
    return Cost(seconds, 8e-6 * (_buffer_cells(layout) + 3 * layout.leaf_cells))


def _buffer_cells(layout: Layout) -> int:
    """Cells of the buffer and of the largest operation's operands, which may have to be copied."""
    # A forward sweep alone keeps all its values, and a model beyond _MAX_CELLS is refused whatever sharing could save.
    if not layout.adjoint or layout.cells > _MAX_CELLS:
        return layout.cells
    packed = max(
        sum(layout.size(array.mask) for array in operation[:3] if array is not None)
        for operation in (*layout.forward, *layout.adjoint)
    )
    return with_reuse(layout).cells + packed


def plan_cost(plan: ContractionPlan) -> Cost:
    """Predicted cost of a model with this plan."""
    return layout_cost(make_layout(plan))


def predict_cost(domain: Domain, cliques: Iterable[Iterable[str]], *, seed: int = 0) -> Cost:
    """Return the predicted cost of the model whose factors are these column sets, without allocating its arrays.

    >>> domain = Domain(("a", "b", "c"), (1000, 1000, 1000))
    >>> predict_cost(domain, [("a", "b", "c")]).memory_mb > 10_000
    True
    """
    return plan_cost(make_plan(domain, cliques, seed=seed))


def candidate_costs(
    plan: ContractionPlan, candidates: Sequence[Iterable[str]], *, limits: Limits | None = None, seed: int = 0
) -> list[Cost]:
    """Return the predicted cost of the planned model with one more column set, for each candidate.

    This takes some milliseconds per candidate. The column set is inserted at the best place of the tree. If that upper
    bound is within `limits` it is returned as it is; otherwise the tree is searched further. Without limits every
    candidate is searched. The prediction from a tree ignores the order of variables (for seconds) and shared places
    (for memory), so it is scaled by the ratio that these two make for the present plan.
    """
    extension = Extension(plan, seed)
    now = plan_cost(plan) if plan.leaves else Cost(1e-9 * _CALL_NS, 0.0)
    base = sum(extension.costs)
    scale = max(0.5, min(4.0, 1e9 * now.seconds_per_call / (base + _CALL_NS))) if base else 1.0
    enough = 1e9 * limits.seconds_per_call / scale if limits is not None else 0.0
    planned = 8e-6 * sum(extension.cells)
    reused = max(0.25, min(1.0, now.memory_mb / planned)) if planned else 1.0
    costs = []
    for attrs in candidates:
        clique = plan.domain.canonical(attrs)
        ns, cells = extension.candidate(clique, enough)
        leaf_cells = _new_leaf_cells(extension, clique)
        seconds = 1e-9 * (scale * ns + _LEAF_CELL_NS * leaf_cells + _CALL_NS)
        costs.append(Cost(seconds, 8e-6 * (reused * cells + 4 * leaf_cells)))
    return costs


def _new_leaf_cells(extension: Extension, clique: Sequence[str]) -> float:
    """Cells of all factors once the column set is added and factors inside it are removed."""
    domain = extension.plan.domain
    mask = clique_mask(domain, clique)
    if extension.is_covered(tuple(clique)):
        return float(sum(domain.cells(leaf) for leaf in extension.plan.leaves))
    kept = (
        domain.cells(leaf) for leaf, other in zip(extension.plan.leaves, extension.masks, strict=True) if other & ~mask
    )
    return float(np.sum(list(kept))) + float(domain.cells(clique))


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
