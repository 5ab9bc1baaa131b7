"""Column sets as bit masks, the contraction plan, and the plan as arrays in one buffer and a list of operations.

Every array stores its axes in the plan's one order of the variables. Neighbouring variables that occur in the same
operands therefore merge into one loop, no operation needs a transpose, and the last loop of an operation has stride 1
in every array that contains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, NamedTuple

from lookalike.schema.domain import ColumnSet, Domain


def clique_mask(domain: Domain, attrs: Iterable[str]) -> int:
    """Return the column set as an integer whose bit i stands for the domain's column i."""
    mask = 0
    for name in attrs:
        mask |= 1 << domain.position(name)
    return mask


def mask_positions(mask: int) -> list[int]:
    """Return the positions of the bits that are set, ascending.

    >>> mask_positions(0b10110)
    [1, 2, 4]
    """
    positions = []
    while mask:
        positions.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return positions


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """How a model is evaluated: its factors, the tree over them and the order of the variables.

    Attributes:
        domain: names and sizes of all columns, also of those in no factor.
        leaves: scopes of the factors, none inside another. Factors of one connected component are consecutive.
        children: one pair of node numbers per inner node. Leaf i is node i, inner node j is node len(leaves) + j;
            children come before parents. Every connected component is a separate tree.
        order: every column position once; arrays store their axes in this order.
    """

    stored_fields: ClassVar[tuple[str, ...]] = ("leaves", "children", "order")

    domain: Domain
    leaves: tuple[ColumnSet, ...]
    children: tuple[Pair, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.domain))):
            raise ValueError(f"order {self.order} is not a permutation of {len(self.domain)} columns")
        used = [child for pair in self.children for child in pair]
        if len(set(used)) != len(used):
            raise ValueError("a node of the contraction tree has two parents")
        for j, pair in enumerate(self.children):
            if max(pair) >= len(self.leaves) + j or min(pair) < 0:
                raise ValueError(f"node {len(self.leaves) + j} of the tree comes before its children {pair}")

    @property
    def roots(self) -> list[int]:
        """Root of every connected component, ascending."""
        used = {child for pair in self.children for child in pair}
        return [node for node in range(len(self.leaves) + len(self.children)) if node not in used]


def shared_masks(masks: Sequence[int]) -> list[int]:
    """Return each mask without the bits that occur in no other mask, which are summed out of their factor first."""
    once, twice = 0, 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return [mask & twice for mask in masks]


def tree_scopes(leaf_masks: Sequence[int], children: Sequence[Pair]) -> list[int]:
    """Return the scope of every node: the columns that occur both in leaves below it and in other leaves."""
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


class Loop(NamedTuple):
    """One loop of an operation: its length and its stride in each of the three arrays, 0 in arrays without it."""

    size: int
    a: int
    b: int
    c: int


class Array(NamedTuple):
    """A part of the buffer: its start, and the columns that are its axes as a bit mask."""

    offset: int
    mask: int


class Operation(NamedTuple):
    """C = sum over the variables that C lacks of A * B; B is None for a plain sum of A.

    With `divide` it is C = A / B instead, where all three have the same scope, and 0 where both are 0.
    """

    a: Array
    b: Array | None
    c: Array
    divide: bool = False

    @property
    def b_mask(self) -> int:
        """Scope of B, 0 where there is none."""
        return 0 if self.b is None else self.b.mask


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan's arrays in one buffer, and the operations of its two sweeps.

    The buffer of `cells` numbers holds, in this order: the leaf factors, the leaf marginals, one normaliser per
    component, and all values and adjoints of the tree.

    Attributes:
        leaf_offsets: where each leaf starts among the leaf cells; one entry more than leaves.
        component_of: connected component of each leaf; components are numbered in the order of their first leaf.
        values: value of each node of the tree after the forward sweep (a root's value is its normaliser).
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

    def leaf_part(self, leaf: int) -> slice:
        """Where a leaf's cells lie in a flat vector over all leaves."""
        return slice(self.leaf_offsets[leaf], self.leaf_offsets[leaf + 1])

    def leaf_holding(self, mask: int) -> int | None:
        """The first leaf whose scope contains the mask, None where no leaf does."""
        return next((leaf for leaf, other in enumerate(self.leaf_masks) if mask & other == mask), None)

    def positions(self, mask: int) -> list[int]:
        """The columns of a mask in the order in which arrays store them."""
        return sorted(mask_positions(mask), key=self.axes.__getitem__)

    def shape(self, mask: int) -> tuple[int, ...]:
        """Shape of an array over the columns of a mask, in storage order."""
        return tuple(self.plan.domain.sizes[position] for position in self.positions(mask))

    def broadcast_shape(self, mask: int, axes: Sequence[int]) -> list[int]:
        """Shape of an array over the columns of a mask with one axis per column of `axes`, 1 where it lacks one."""
        return [self.plan.domain.sizes[position] if mask >> position & 1 else 1 for position in axes]

    def size(self, mask: int) -> int:
        """Number of cells of an array over the columns of a mask."""
        return cells_of(self.plan.domain.sizes, mask)

    def axes_from_domain(self, mask: int) -> list[int]:
        """Axes argument that transposes an array from domain order to storage order."""
        ordered = mask_positions(mask)
        return [ordered.index(position) for position in self.positions(mask)]

    def axes_to_domain(self, mask: int) -> list[int]:
        """Axes argument that transposes an array from storage order to domain order."""
        stored = self.positions(mask)
        return [stored.index(position) for position in mask_positions(mask)]

    def loops(self, operation: Operation) -> tuple[Loop, ...]:
        """The merged loops of an operation, outermost first; lengths of 1 are left out."""
        masks = operation.a.mask, operation.b_mask, operation.c.mask
        return merged_loops(self.plan.domain.sizes, self.positions, *masks)


def cells_of(sizes: Sequence[int], mask: int) -> int:
    """Product of the sizes of the columns of a mask."""
    return math.prod(sizes[position] for position in mask_positions(mask))


def aligned(cells: int) -> int:
    """The next multiple of 8: eight doubles fill a cache line, so that vector loads do not straddle two."""
    return -(-cells // 8) * 8


def merged_loops(sizes: Sequence[int], positions, a: int, b: int, c: int) -> tuple[Loop, ...]:
    """Return loops over the union of three scopes; neighbours that occur in the same arrays are merged into one."""
    step = [1, 1, 1]
    loops: list[Loop] = []
    last = None
    for position in reversed(positions(a | b | c)):
        size = sizes[position]
        if size == 1:
            continue
        member = tuple(mask >> position & 1 for mask in (a, b, c))
        if member == last:
            loops[-1] = loops[-1]._replace(size=loops[-1].size * size)
        else:
            loops.append(Loop(size, *(s * m for s, m in zip(step, member, strict=True))))
        step = [s * size if m else s for s, m in zip(step, member, strict=True)]
        last = member
    return tuple(reversed(loops))


class _Storage:
    """Allocates the arrays of a layout one after another."""

    def __init__(self, plan: ContractionPlan, start: int) -> None:
        self.sizes, self.end = plan.domain.sizes, start

    def allocate(self, mask: int) -> Array:
        start, self.end = self.end, self.end + aligned(cells_of(self.sizes, mask))
        return Array(start, mask)


class _AdjointSweep:
    """Operations that leave the marginal of every leaf, times its component's normaliser, in `marginals`.

    A node's scope is the set of its variables. The adjoint of a node is the rest of the model summed down to its scope;
    its belief is adjoint times value, the marginal of the scope times the normaliser. Where a node sums a variable out,
    the adjoint of each child is the node's adjoint contracted with the value of the other child. Where a node only
    multiplies, as most nodes near the leaves do, its belief summed down to a child's scope *is* the child's belief,
    which needs no product. A component of a single leaf has no operations, since its factor is its marginal. The
    smaller subtree of a node comes first, so that few arrays wait for the larger one.
    """

    def __init__(
        self, plan: ContractionPlan, values: Sequence[Array], marginals: Sequence[Array], storage: _Storage
    ) -> None:
        self.plan, self.values, self.marginals, self.storage = plan, values, marginals, storage
        self.masks = [marginal.mask for marginal in marginals]
        self.operations: list[Operation] = []
        self.adjoints: dict[int, Array] = {}
        self.beliefs: dict[int, Array] = {}
        self.roots = set(plan.roots)
        self.weight = [float(cells_of(plan.domain.sizes, value.mask)) for value in values]
        for j, (a, b) in enumerate(plan.children):
            self.weight[len(marginals) + j] += self.weight[a] + self.weight[b]
        for root in plan.roots:
            self._descend(root)

    def _descend(self, root: int) -> None:
        """Visit all nodes below a root."""
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
        """The two children of a root have the same scope, and the value of each is the adjoint of the other."""
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
    """Return the arrays and operations of a plan; without `adjoint`, of the forward sweep alone."""
    masks = tuple(clique_mask(plan.domain, leaf) for leaf in plan.leaves)
    count = len(masks)
    offsets = [0, *accumulate(map(plan.domain.cells, plan.leaves))]
    root_of = _root_of_nodes(count, plan)
    roots = list(dict.fromkeys(root_of[:count]))
    component = {root: number for number, root in enumerate(roots)}
    scopes = tree_scopes(shared_masks(masks), plan.children)
    storage = _Storage(plan, aligned(2 * offsets[-1] + len(roots)))
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
        root = Array(2 * offsets[-1] + component[node], 0) if node in component else None
        values.append(root or storage.allocate(scopes[node]))
        forward.append(Operation(values[a], values[b], values[node]))
    marginals = [Array(offsets[-1] + offset, mask) for offset, mask in zip(offsets, masks, strict=False)]
    back = _AdjointSweep(plan, values, marginals, storage).operations if adjoint else []
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


def _root_of_nodes(count: int, plan: ContractionPlan) -> list[int]:
    root_of = list(range(count + len(plan.children)))
    for j in range(len(plan.children) - 1, -1, -1):
        for child in plan.children[j]:
            root_of[child] = root_of[count + j]
    return root_of
