"""Marginals of column sets that lie in no factor, many at a time.

Column sets are gathered into blocks of moderate size. Each block is one more leaf of the tree, whose root is moved next
to the block, so that only a forward sweep is needed. The block's table is then summed down to all column sets in it,
with shared partial sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lookalike.engine.contraction import flat_potentials
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
    """Gather column sets into unions of at most `max_cells` cells; a larger column set is a block by itself.

    >>> domain = Domain(("a", "b", "c"), (10, 10, 1000))
    >>> blocks_of(domain, [("a",), ("b",), ("b", "c")], 10_000)
    {('b', 'c'): [('b', 'c'), ('b',)], ('a',): [('a',)]}
    """
    log_sizes = [math.log(size) for size in domain.sizes]

    def log_cells(mask: int) -> float:
        return sum(log_sizes[position] for position in mask_positions(mask))

    limit = math.log(max_cells) + 1e-9
    unions: list[int] = []
    members: list[list[ColumnSet]] = []
    for clique in sorted(dict.fromkeys(sets), key=domain.cells, reverse=True):
        mask = clique_mask(domain, clique)
        best, growth = -1, math.inf
        for number, union in enumerate(unions):
            grown = log_cells(mask & ~union)
            if grown < growth and (grown == 0.0 or grown + log_cells(union) <= limit):
                best, growth = number, grown
        if best < 0:
            unions.append(mask)
            members.append([clique])
        else:
            unions[best] |= mask
            members[best].append(clique)
    names = [tuple(domain.names[position] for position in mask_positions(union)) for union in unions]
    return dict(zip(names, members, strict=True))


def projections(names: ColumnSet, table: np.ndarray, targets: Sequence[ColumnSet]) -> dict[ColumnSet, np.ndarray]:
    """Return the table summed down to each target, with partial sums shared between targets.

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
    """Evaluates single column sets of one model whose factors are given as tables.

    Args:
        plan: the plan of the model.
        potentials: one table per column set in domain order; -inf marks impossible cells.
        limits: largest predicted cost of one query.
    """

    def __init__(self, plan: ContractionPlan, potentials: Mapping[ColumnSet, np.ndarray], limits: Limits) -> None:
        self.domain = plan.domain
        self.potentials = potentials
        self.limits = limits
        self.extension = Extension(plan)

    def table(self, clique: ColumnSet) -> np.ndarray | None:
        """Return the probabilities of a column set within one component; None if exponentials might underflow."""
        leaves, children = self.extension.grown_component(clique)
        children = rooted_at_last(len(leaves), children)
        plan = ContractionPlan(self.domain, tuple(leaves), tuple(children), self.extension.plan.order)
        layout = make_layout(plan, adjoint=False)
        self.limits.check(f"The marginal on {', '.join(clique)}", layout_cost(layout))
        flat, impossible = flat_potentials(plan, self.potentials)
        executor = NumpyExecutor(layout, None if impossible is None else np.flatnonzero(impossible))
        executor.forward(flat)
        if not executor.trusted():
            return None
        query = len(leaves) - 1
        mask = layout.leaf_masks[query]
        table = executor.array(layout.leaf_array(query)).copy()
        if children:
            rest = layout.values[children[-1][0]]
            table *= executor.array(rest).reshape(layout.broadcast_shape(rest.mask, layout.positions(mask)))
        return table.transpose(layout.axes_to_domain(mask)) / table.sum()


def rooted_at_last(count: int, children: Sequence[Pair]) -> list[Pair]:
    """Return the same unrooted tree with its root on the edge of the last leaf, which becomes a right child."""
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
