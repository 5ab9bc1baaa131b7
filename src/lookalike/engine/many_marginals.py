"""Marginals of attribute sets that lie in no factor, many at a time.

Sets are gathered into blocks of moderate size; each block is one more leaf of the tree, which is turned so that the
block hangs at the root and only a forward sweep is needed. The block's table is then summed down to all sets in it,
each axis at most once along the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lookalike.engine.cost import Limits, layout_cost
from lookalike.engine.extension import Extension
from lookalike.engine.layout import make_layout
from lookalike.engine.numpy_executor import NumpyExecutor
from lookalike.engine.plan import ContractionPlan, Pair, clique_mask, mask_positions
from lookalike.schema.domain import ColumnSet, Domain

BLOCK_CELLS = 30_000


def blocks_of(
    domain: Domain, sets: Iterable[ColumnSet], max_cells: int = BLOCK_CELLS
) -> dict[ColumnSet, list[ColumnSet]]:
    """Sets gathered into unions of at most `max_cells` cells (larger single sets stay alone).

    >>> domain = Domain(("a", "b", "c"), (10, 10, 1000))
    >>> blocks_of(domain, [("a",), ("b",), ("b", "c")], 10_000)
    {('b', 'c'): [('b', 'c'), ('b',)], ('a',): [('a',)]}
    """
    log_sizes = [math.log(size) for size in domain.sizes]
    limit = math.log(max_cells) + 1e-9
    unions: list[int] = []
    members: list[list[ColumnSet]] = []
    for clique in sorted(dict.fromkeys(sets), key=domain.cells, reverse=True):
        mask = clique_mask(domain, clique)
        best, growth = -1, math.inf
        for number, union in enumerate(unions):
            grown = sum(log_sizes[position] for position in mask_positions(mask & ~union))
            if grown < growth and (grown == 0.0 or grown + _log_cells(union, log_sizes) <= limit):
                best, growth = number, grown
        if best < 0:
            unions.append(mask)
            members.append([clique])
        else:
            unions[best] |= mask
            members[best].append(clique)
    names = [tuple(domain.names[position] for position in mask_positions(union)) for union in unions]
    return dict(zip(names, members, strict=True))


def _log_cells(mask: int, log_sizes: Sequence[float]) -> float:
    return sum(log_sizes[position] for position in mask_positions(mask))


def projections(names: ColumnSet, table: np.ndarray, targets: Sequence[ColumnSet]) -> dict[ColumnSet, np.ndarray]:
    """The table summed down to each target, sharing partial sums: every axis is kept or summed once per branch.

    >>> tables = projections(("a", "b"), np.ones((2, 3)), [("a",), ("b",), ()])
    >>> tables["a",].tolist(), tables["b",].tolist(), float(tables[()])
    ([3.0, 3.0], [2.0, 2.0, 2.0], 6.0)
    """
    found: dict[ColumnSet, np.ndarray] = {}
    waiting = [(tuple(names), table, list(dict.fromkeys(targets)), 0)]
    while waiting:
        names, table, targets, axis = waiting.pop()
        if axis == len(names):
            found.update(dict.fromkeys(targets, table))
            continue
        with_axis = [target for target in targets if names[axis] in target]
        without = [target for target in targets if names[axis] not in target]
        if with_axis:
            waiting.append((names, table, with_axis, axis + 1))
        if without:
            waiting.append((names[:axis] + names[axis + 1 :], table.sum(axis=axis), without, axis))
    return found


class BlockQueries:
    """Evaluates single attribute sets of one model whose factors are given as tables.

    Args:
        plan: of the model.
        potentials: one table per attribute set in domain order; -inf marks impossible cells.
        limits: on the predicted cost of one query.
    """

    def __init__(self, plan: ContractionPlan, potentials: Mapping[ColumnSet, np.ndarray], limits: Limits) -> None:
        self.domain = plan.domain
        self.potentials = potentials
        self.limits = limits
        self.extension = Extension(plan)

    def table(self, clique: ColumnSet) -> np.ndarray | None:
        """Probabilities of a set whose attributes all lie in one component; None if exponentials might underflow."""
        leaves, children = self.extension.grown_component(clique)
        children = rooted_at_last(len(leaves), children)
        plan = ContractionPlan(self.domain, tuple(leaves), tuple(children), self.extension.plan.order)
        layout = make_layout(plan, adjoint=False)
        self.limits.check(f"The marginal on {', '.join(clique)}", layout_cost(layout))
        flat = flat_potentials(plan, self.potentials)
        impossible = np.isneginf(flat)
        flat[impossible] = 0.0
        executor = NumpyExecutor(layout, np.flatnonzero(impossible) if impossible.any() else None)
        executor.forward(flat)
        if not executor.trusted():
            return None
        query = len(leaves) - 1
        mask = layout.leaf_masks[query]
        table = executor.array(layout.leaf_array(query)).copy()
        if children:
            rest = layout.values[children[-1][0]]
            shape = [self.domain.sizes[p] if rest.mask >> p & 1 else 1 for p in layout.positions(mask)]
            table *= executor.array(rest).reshape(shape)
        return table.transpose(layout.axes_to_domain(mask)) / table.sum()


def rooted_at_last(count: int, children: Sequence[Pair]) -> list[Pair]:
    """The same unrooted tree with its root moved to the edge above the last leaf, which becomes a right child."""
    if not children:
        return []
    near: dict[int, list[int]] = {}
    for j, (a, b) in enumerate(children):
        edges = [(a, b)] if j == len(children) - 1 else [(count + j, a), (count + j, b)]
        for x, y in edges:
            near.setdefault(x, []).append(y)
            near.setdefault(y, []).append(x)
    number = {leaf: leaf for leaf in range(count)}
    result: list[Pair] = []
    top = near[count - 1][0]
    stack = [(top, count - 1, False)]
    while stack:
        node, parent, done = stack.pop()
        if node < count:
            continue
        a, b = (other for other in near[node] if other != parent)
        if done:
            number[node] = count + len(result)
            result.append((number[a], number[b]))
        else:
            stack += [(node, parent, True), (b, node, False), (a, node, False)]
    return [*result, (number[top], count - 1)]


def flat_potentials(plan: ContractionPlan, potentials: Mapping[ColumnSet, np.ndarray]) -> np.ndarray:
    """Leaf potentials of a plan in storage order: each table that fits is added to the first leaf that holds it."""
    domain = plan.domain
    layout = make_layout(plan, adjoint=False)
    flat = np.zeros(layout.leaf_cells)
    for clique, table in potentials.items():
        mask = clique_mask(domain, clique)
        leaf = next((i for i, other in enumerate(layout.leaf_masks) if mask & other == mask), None)
        if leaf is None:
            continue
        stored = layout.positions(layout.leaf_masks[leaf])
        shape = [domain.sizes[p] if mask >> p & 1 else 1 for p in stored]
        part = flat[layout.leaf_offsets[leaf] : layout.leaf_offsets[leaf + 1]].reshape(
            [domain.sizes[p] for p in stored]
        )
        part += table.transpose(layout.axes_from_domain(mask)).reshape(shape)
    return flat
