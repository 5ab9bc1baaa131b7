"""Answers of a network: linear queries while it is fitted, and marginals of column sets that lie in no factor.

Marginals are computed many at a time. Column sets are gathered into blocks of moderate size. Each block is one more
leaf of the tree, whose root is moved next to the block, so that only a forward sweep is needed. The block's table is
then summed down to all column sets in it, with shared partial sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from lookalike.engine.contraction import Network, flat_potentials
from lookalike.engine.cost import Extension, Limits, layout_cost
from lookalike.engine.numpy_executor import NumpyExecutor, run_all
from lookalike.engine.plan import ContractionPlan, Pair, clique_mask, make_layout, mask_positions, merged_loops
from lookalike.errors import SchemaError
from lookalike.schema.domain import ColumnSet, Domain


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """The cells of a marginal, or sums over groups of them.

    Attributes:
        attrs: the columns, in domain order.
        groups: None, or the group of each cell in an integer array of the marginal's shape, numbered from 0.
        length: the number of answers.
    """

    attrs: ColumnSet
    groups: np.ndarray | None
    length: int


class QuerySet:
    """Answers several queries from a network's marginals, and maps parameters to leaf potentials.

    A model that is fitted to these queries has one parameter per answer. `expand` adds each parameter to all cells of a
    leaf that its query counts; `answer` sums the marginal over the same cells. Each map is the transpose of the other.
    Views on the network's vectors (or, for the compiled executor, a table of loops) are made once.

    Attributes:
        slices: where each query's answers lie in the vectors of parameters and answers.
        size: length of these vectors.
        potentials: the leaf potentials written by `expand`.
    """

    def __init__(self, network: Network, queries: Sequence[Query]) -> None:
        self.network = network
        self.queries = tuple(queries)
        self.potentials = np.zeros(network.layout.leaf_cells)
        self._parts = [_Part(network, query) for query in self.queries]
        ends = np.cumsum([0, *(query.length for query in self.queries)])
        self.slices = [slice(int(start), int(end)) for start, end in pairwise(ends)]
        self.size = int(ends[-1])
        cell_ends = np.cumsum([0, *(part.cells for part in self._parts)])
        self._cell_slices = [slice(int(a), int(b)) for a, b in pairwise(cell_ends)]
        # One number per cell of every queried marginal: a parameter in `expand`, an answer in `answer`.
        self._padded = np.zeros(int(cell_ends[-1]) + 1)
        self._cells = self._padded[:-1]
        self._grouped = [number for number, part in enumerate(self._parts) if part.groups is not None]
        self._expand, self._answer = self._compiled() if network.executor == "numba" else self._views()

    def pack(self, number: int, values: np.ndarray) -> np.ndarray:
        """Return one query's values, given in domain order, as they lie in the flat vector."""
        part = self._parts[number]
        return values if part.groups is not None else values.transpose(part.from_domain).ravel()

    def unpack(self, number: int, flat: np.ndarray) -> np.ndarray:
        """Return one query's part of a flat vector in domain order; every cell has the parameter of its group."""
        part, values = self._parts[number], flat[self.slices[number]]
        if part.groups is not None:
            values = values[part.groups]
        return values.reshape(part.shape).transpose(part.to_domain)

    def expand(self, parameters: np.ndarray) -> np.ndarray:
        """Return the leaf potentials that belong to the parameters. The next call overwrites the vector."""
        if not self._grouped:
            self._cells[:] = parameters
        else:
            for number, (part, where) in enumerate(zip(self._parts, self.slices, strict=True)):
                values = parameters[where]
                self._cells[self._cell_slices[number]] = values if part.groups is None else values[part.groups]
        self._expand()
        return self.potentials

    def answer(self, out: np.ndarray) -> None:
        """Write to `out` the answers of all queries on the network's present marginals."""
        self._answer()
        if not self._grouped:
            out[:] = self._cells
            return
        for number, (part, where) in enumerate(zip(self._parts, self.slices, strict=True)):
            values = self._cells[self._cell_slices[number]]
            if part.groups is not None:
                values = np.bincount(part.groups, values, minlength=where.stop - where.start)
            out[where] = values

    def _views(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Steps with NumPy: one gather copies all whole leaves, and every other query takes one more step."""
        from_cells = np.full(len(self.potentials), len(self._cells))
        from_leaves = np.zeros(len(self._cells), dtype=np.intp)
        expand: list[Callable[[], object]] = [partial(np.take, self._padded, from_cells, None, self.potentials, "clip")]
        answer: list[Callable[[], object]] = [
            partial(np.take, self.network.marginals, from_leaves, None, self._cells, "clip")
        ]
        add: Any = np.add.reduce
        copied: set[int] = set()
        for part, where in zip(self._parts, self._cell_slices, strict=True):
            cells = self._cells[where]
            if not part.summed:
                from_leaves[where] = np.arange(part.start, part.end)
            if not part.summed and part.start not in copied:
                copied.add(part.start)
                from_cells[part.start : part.end] = np.arange(where.start, where.stop)
                continue
            target = self.potentials[part.start : part.end].reshape(part.leaf_shape)
            expand.append(partial(np.add, target, cells.reshape(part.broadcast), target))
            if part.summed:
                table = self.network.marginals[part.start : part.end].reshape(part.leaf_shape)
                answer.append(partial(add, table, part.summed, None, cells.reshape(part.shape)))
        return partial(run_all, expand), partial(run_all, answer)

    def _compiled(self) -> tuple[Callable[[], None], Callable[[], None]]:
        from lookalike.engine.numba_kernels import run_queries

        code: list[int] = []
        starts: list[int] = []
        layout = self.network.layout
        for part, where in zip(self._parts, self._cell_slices, strict=True):
            loops = merged_loops(layout.plan.domain.sizes, layout.positions, part.mask, 0, part.leaf_mask)
            starts.append(len(code))
            code += [part.start, where.start, where.stop - where.start, max(1, len(loops))]
            for loop in reversed(loops):
                code += [loop.size, loop.c, loop.a]
            if not loops:
                code += [1, 0, 0]
        table = np.array(code, dtype=np.int64), np.array(starts, dtype=np.int64)
        return (
            partial(run_queries, self.potentials, self._cells, *table, True),
            partial(run_queries, self.network.marginals, self._cells, *table, False),
        )


class _Part:
    """Shapes and axes of one query."""

    def __init__(self, network: Network, query: Query) -> None:
        layout = network.layout
        self.mask = clique_mask(layout.plan.domain, query.attrs)
        leaf = layout.leaf_holding(self.mask)
        if leaf is None:
            raise SchemaError(f"No factor of the model holds {', '.join(query.attrs)}; measure a larger set.")
        self.leaf_mask = layout.leaf_masks[leaf]
        self.start, self.end = layout.leaf_offsets[leaf], layout.leaf_offsets[leaf + 1]
        leaf_positions = layout.positions(self.leaf_mask)
        self.leaf_shape = layout.shape(self.leaf_mask)
        self.shape = layout.shape(self.mask)
        self.cells = layout.size(self.mask)
        self.broadcast = layout.broadcast_shape(self.mask, leaf_positions)
        self.summed = tuple(axis for axis, p in enumerate(leaf_positions) if not self.mask >> p & 1)
        self.from_domain = layout.axes_from_domain(self.mask)
        self.to_domain = layout.axes_to_domain(self.mask)
        self.groups = None if query.groups is None else query.groups.transpose(self.from_domain).ravel()


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
