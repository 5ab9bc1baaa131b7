"""A plan as arrays in one buffer and a flat list of operations on them.

Every array stores its axes in the plan's one order of the variables. Neighbouring variables that occur in the same
operands therefore merge into one loop, no operation needs a transpose, and the last loop of an operation has stride 1
in every array that knows it.

The adjoint sweep goes from the tree's values back to the marginal of every factor. An adjoint is the sum over the rest
of the model on a node's scope; a belief is adjoint times value, the marginal of the scope times the normaliser. Where a
node sums something out, its children's adjoints are contractions of its own with the sibling's value. Where it only
multiplies, its belief summed down to a child's scope *is* the child's belief: no product, no sibling, and nothing at
all if the scopes are equal. Most nodes near the leaves are of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lookalike.engine.plan import ContractionPlan, clique_mask, mask_positions, shared_masks, tree_scopes


class Loop(NamedTuple):
    """One loop of an operation: its length and the stride in each of the three arrays, 0 where an array lacks it."""

    size: int
    a: int
    b: int
    c: int


class Array(NamedTuple):
    """A part of the buffer: where it starts and which attributes are its axes (a bit mask)."""

    offset: int
    mask: int


class Operation(NamedTuple):
    """C = sum over the variables that C lacks of A * B; B is None for a plain sum of A.

    With `divide` it is C = A / B instead, all three of one scope, and 0 where both are 0.
    """

    a: Array
    b: Array | None
    c: Array
    divide: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan's arrays in one buffer, and the operations of its two sweeps.

    The buffer holds, in this order: the leaf factors, the leaf marginals, one normaliser per component, and all values
    and adjoints of the tree.

    Attributes:
        leaf_offsets: where each leaf starts among the leaf cells; one entry more than leaves.
        component_of: component of each leaf; components are numbered in the order of their first leaf.
        values: value of each node of the tree after the forward sweep (a root's value is its normaliser).
        forward, adjoint: the operations of the sweeps, in order.
        cells: length of the buffer.
    """

    plan: ContractionPlan
    leaf_masks: tuple[int, ...]
    leaf_offsets: tuple[int, ...]
    component_of: tuple[int, ...]
    values: tuple[Array, ...]
    forward: tuple[Operation, ...]
    adjoint: tuple[Operation, ...]
    cells: int
    axes: dict[int, int] = field(repr=False)

    @property
    def leaf_cells(self) -> int:
        return self.leaf_offsets[-1]

    @property
    def components(self) -> int:
        return max(self.component_of, default=-1) + 1

    def leaf_array(self, leaf: int) -> Array:
        """Where a leaf's factor lies."""
        return Array(self.leaf_offsets[leaf], self.leaf_masks[leaf])

    def positions(self, mask: int) -> list[int]:
        """The attributes of a mask in the order in which arrays store them."""
        return sorted(mask_positions(mask), key=self.axes.__getitem__)

    def shape(self, mask: int) -> tuple[int, ...]:
        sizes = self.plan.domain.sizes
        return tuple(sizes[position] for position in self.positions(mask))

    def axes_from_domain(self, mask: int) -> list[int]:
        """Axes argument that transposes an array from domain order to storage order."""
        ordered = mask_positions(mask)
        return [ordered.index(position) for position in self.positions(mask)]

    def axes_to_domain(self, mask: int) -> list[int]:
        """Axes argument that transposes an array from storage order to domain order."""
        stored = self.positions(mask)
        return [stored.index(position) for position in mask_positions(mask)]

    def loops(self, operation: Operation) -> list[Loop]:
        """The merged loops of an operation, outermost first; lengths of 1 are left out."""
        b = operation.b.mask if operation.b is not None else 0
        return merged_loops(self.plan.domain.sizes, self.positions, operation.a.mask, b, operation.c.mask)


def merged_loops(sizes: Sequence[int], positions, a: int, b: int, c: int) -> list[Loop]:
    """Loops over the union of three scopes, with neighbours that occur in the same arrays merged into one."""
    step = [1, 1, 1]
    masks = (a, b, c)
    loops: list[Loop] = []
    last = None
    for position in reversed(positions(a | b | c)):
        size = sizes[position]
        if size == 1:
            continue
        member = tuple(mask >> position & 1 for mask in masks)
        if member == last:
            loops[-1] = loops[-1]._replace(size=loops[-1].size * size)
        else:
            loops.append(Loop(size, *(s * m for s, m in zip(step, member, strict=True))))
        step = [s * size if m else s for s, m in zip(step, member, strict=True)]
        last = member
    return loops[::-1]


class Storage:
    """Gives every array of a layout a place of its own."""

    def __init__(self, plan: ContractionPlan, start: int) -> None:
        self.sizes = plan.domain.sizes
        self.end = start

    def allocate(self, mask: int) -> Array:
        array = Array(self.end, mask)
        # Eight doubles fill a cache line; aligned starts keep vector loads from straddling two.
        self.end += -(-math.prod(self.sizes[position] for position in mask_positions(mask)) // 8) * 8
        return array


def adjoint_operations(
    plan: ContractionPlan, masks: Sequence[int], values: Sequence[Array], marginals: Sequence[Array], storage: Storage
) -> list[Operation]:
    """Operations that leave the marginal of every leaf, times its component's normaliser, in `marginals`.

    Leaves that are a component of their own have none: their factor is their marginal. The smaller subtree comes
    first, so that what waits for the larger one is little.
    """
    sweep = _Sweep(plan, masks, values, marginals, storage)
    for root in plan.roots:
        if root >= len(masks):
            sweep.descend(root)
    return sweep.operations


class _Sweep:
    """Adjoints and beliefs of the nodes visited so far."""

    def __init__(
        self,
        plan: ContractionPlan,
        masks: Sequence[int],
        values: Sequence[Array],
        marginals: Sequence[Array],
        storage: Storage,
    ) -> None:
        self.plan, self.masks, self.values, self.marginals, self.storage = plan, masks, values, marginals, storage
        self.operations: list[Operation] = []
        self.adjoints: dict[int, Array] = {}
        self.beliefs: dict[int, Array] = {}
        self.roots = set(plan.roots)
        sizes = plan.domain.sizes
        self.weight = [float(math.prod(sizes[p] for p in mask_positions(value.mask))) for value in values]
        for j, (a, b) in enumerate(plan.children):
            self.weight[len(masks) + j] += self.weight[a] + self.weight[b]

    def descend(self, root: int) -> None:
        """Visits all nodes below a root that has children."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node < len(self.masks):
                continue
            a, b = self.plan.children[node - len(self.masks)]
            if node in self.roots:
                self._below_root(a, b)
            elif node in self.beliefs:
                self._from_belief(node, a)
                self._from_belief(node, b)
            else:
                self._from_adjoint(node, a, b)
                self._from_adjoint(node, b, a)
            stack += sorted((a, b), key=self.weight.__getitem__, reverse=True)

    def _multiplies_only(self, node: int) -> bool:
        if node < len(self.masks):
            return False
        a, b = self.plan.children[node - len(self.masks)]
        return self.values[node].mask == self.values[a].mask | self.values[b].mask

    def _below_root(self, a: int, b: int) -> None:
        """The two children of a root have one scope; each one's value is the other's adjoint."""
        shared: Array | None = None
        for child, sibling in ((a, b), (b, a)):
            if child < len(self.masks):
                self._emit(self._factor(child), self.values[sibling], self.marginals[child])
            elif self._multiplies_only(child):
                if shared is None:
                    shared = self.storage.allocate(self.values[child].mask)
                    self._emit(self.values[child], self.values[sibling], shared)
                self.beliefs[child] = shared
            else:
                self.adjoints[child] = self.values[sibling]

    def _from_adjoint(self, node: int, child: int, sibling: int) -> None:
        adjoint = self.storage.allocate(self.values[child].mask)
        self._emit(self.adjoints[node], self.values[sibling], adjoint)
        if child < len(self.masks):
            self._emit(self._factor(child), adjoint, self.marginals[child])
        elif self._multiplies_only(child):
            self.beliefs[child] = self.storage.allocate(adjoint.mask)
            self._emit(adjoint, self.values[child], self.beliefs[child])
        else:
            self.adjoints[child] = adjoint

    def _from_belief(self, node: int, child: int) -> None:
        belief, scope = self.beliefs[node], self.values[child].mask
        if child < len(self.masks) and scope == self.masks[child]:
            self._emit(belief, None, self.marginals[child])
            return
        if scope != belief.mask:
            smaller = self.storage.allocate(scope)
            self._emit(belief, None, smaller)
            belief = smaller
        if self._multiplies_only(child):
            self.beliefs[child] = belief
            return
        adjoint = self.storage.allocate(scope)
        self.operations.append(Operation(belief, self.values[child], adjoint, divide=True))
        if child < len(self.masks):
            self._emit(self._factor(child), adjoint, self.marginals[child])
        else:
            self.adjoints[child] = adjoint

    def _factor(self, leaf: int) -> Array:
        return Array(self.marginals[leaf].offset - self.marginals[0].offset, self.masks[leaf])

    def _emit(self, a: Array, b: Array | None, c: Array) -> None:
        self.operations.append(Operation(a, b, c))


def make_layout(plan: ContractionPlan, *, adjoint: bool = True) -> Layout:
    """Arrays and operations of a plan. Nothing is allocated yet: `cells` says how large the buffer would be.

    Args:
        plan: factors, tree and order.
        adjoint: whether marginals are wanted; without them only the forward sweep is laid out.
    """
    masks = tuple(clique_mask(plan.domain, leaf) for leaf in plan.leaves)
    count = len(masks)
    offsets = [0]
    for leaf in plan.leaves:
        offsets.append(offsets[-1] + plan.domain.cells(leaf))
    root_of = _roots(count, plan)
    roots = list(dict.fromkeys(root_of[:count]))
    component = {root: number for number, root in enumerate(roots)}
    scopes = tree_scopes(shared_masks(masks), plan.children)
    storage = Storage(plan, -(-(2 * offsets[-1] + len(roots)) // 8) * 8)
    forward: list[Operation] = []
    values: list[Array] = []
    for leaf, mask in enumerate(masks):
        full = Array(offsets[leaf], mask)
        if leaf in component:
            total = Array(2 * offsets[-1] + component[leaf], 0)
            forward.append(Operation(full, None, total))
            values.append(full)
        elif scopes[leaf] == mask:
            values.append(full)
        else:
            values.append(storage.allocate(scopes[leaf]))
            forward.append(Operation(full, None, values[leaf]))
    for j, (a, b) in enumerate(plan.children):
        node = count + j
        is_root = node in component
        values.append(Array(2 * offsets[-1] + component[node], 0) if is_root else storage.allocate(scopes[node]))
        forward.append(Operation(values[a], values[b], values[node]))
    marginals = [Array(offsets[-1] + offset, mask) for offset, mask in zip(offsets, masks, strict=False)]
    back = adjoint_operations(plan, masks, values, marginals, storage) if adjoint else []
    return Layout(
        plan=plan,
        leaf_masks=masks,
        leaf_offsets=tuple(offsets),
        component_of=tuple(component[root_of[leaf]] for leaf in range(count)),
        values=tuple(values),
        forward=tuple(forward),
        adjoint=tuple(back),
        cells=storage.end,
        axes={position: place for place, position in enumerate(plan.order)},
    )


def _roots(count: int, plan: ContractionPlan) -> list[int]:
    root_of = list(range(count + len(plan.children)))
    for j in range(len(plan.children) - 1, -1, -1):
        for child in plan.children[j]:
            root_of[child] = root_of[count + j]
    return root_of
