"""Linear queries on a network: sub-marginals and sums over groups of cells, from and to the flat leaf vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from lookalike.engine.contraction import Network
from lookalike.engine.layout import merged_loops
from lookalike.engine.numpy_executor import run_all
from lookalike.engine.plan import clique_mask
from lookalike.errors import SchemaError
from lookalike.schema.domain import ColumnSet


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
