"""The way back: from the tree's values to the marginal of every factor.

An adjoint is what the rest of the model says about a node's scope; a belief is adjoint times value, the marginal of
the scope times the normaliser. Where a node sums something out, its children's adjoints are contractions of its own
with the sibling's value. Where it only multiplies, its belief summed down to a child's scope *is* the child's belief:
no product, no sibling, and nothing at all if the scopes are equal. Most nodes near the leaves are of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lookalike.tables.cliques import mask_positions
from lookalike.tables.layout import Array, Operation, Storage
from lookalike.tables.plan import ContractionPlan


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
