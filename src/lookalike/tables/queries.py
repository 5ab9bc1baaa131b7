"""Linear queries on a network: sub-marginals and sums over groups of cells, from and to the flat leaf vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.schema.domain import Clique
from lookalike.tables.cliques import clique_mask
from lookalike.tables.contraction import Network


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """The cells of a marginal, or sums over groups of them.

    Attributes:
        attrs: attributes in domain order.
        groups: None, or the group of each cell in an integer array of the marginal's shape, numbered from 0.
        length: how many numbers the query returns.
    """

    attrs: Clique
    groups: np.ndarray | None
    length: int


class QuerySet:
    """Answers of several queries from leaf marginals, and the transposed map from parameters to leaf potentials.

    A model that is fitted to these queries has one parameter per answer. `expand` adds each parameter to all cells of a
    leaf that its query counts; `answer` sums the marginal over the same cells. The two maps are transposes.

    Attributes:
        slices: where each query's numbers lie in the parameter and answer vectors.
        size: how many there are.
    """

    def __init__(self, network: Network, queries: Sequence[Query]) -> None:
        self.network = network
        self.queries = tuple(queries)
        self.slices: list[slice] = []
        layout = network.layout
        self._parts: list[_Part] = []
        start = 0
        for query in self.queries:
            mask = clique_mask(layout.plan.domain, query.attrs)
            leaf = next(i for i, other in enumerate(layout.leaf_masks) if mask & other == mask)
            self.slices.append(slice(start, start + query.length))
            self._parts.append(_Part(network, query, leaf, mask))
            start += query.length
        self.size = start

    def pack(self, number: int, values: np.ndarray) -> np.ndarray:
        """One query's values, given in domain order, as they lie in the flat vector."""
        part = self._parts[number]
        return values if part.groups is not None else values.transpose(part.from_domain).ravel()

    def unpack(self, number: int, flat: np.ndarray) -> np.ndarray:
        """One query's part of a flat vector, in domain order; parameters of groups are spread over their cells."""
        part, values = self._parts[number], flat[self.slices[number]]
        if part.groups is not None:
            values = values[part.groups]
        return values.reshape(part.shape).transpose(part.to_domain)

    def expand(self, parameters: np.ndarray, out: np.ndarray) -> None:
        """Writes to `out` the leaf potentials that the parameters stand for."""
        out[:] = 0.0
        for part, where in zip(self._parts, self.slices, strict=True):
            values = parameters[where]
            if part.groups is not None:
                values = values[part.groups]
            target = out[part.start : part.end].reshape(part.leaf_shape)
            target += values.reshape(part.broadcast)

    def answer(self, marginals: np.ndarray, out: np.ndarray) -> None:
        """Writes to `out` the answers of all queries on flat leaf marginals."""
        for part, where in zip(self._parts, self.slices, strict=True):
            table = marginals[part.start : part.end].reshape(part.leaf_shape)
            if part.groups is not None:
                values = table.sum(axis=part.summed).ravel()
                out[where] = np.bincount(part.groups, values, minlength=where.stop - where.start)
            else:
                np.add.reduce(table, axis=part.summed, out=out[where].reshape(part.shape))


class _Part:
    """Shapes and axes of one query, worked out once."""

    __slots__ = ("broadcast", "end", "from_domain", "groups", "leaf_shape", "shape", "start", "summed", "to_domain")

    def __init__(self, network: Network, query: Query, leaf: int, mask: int) -> None:
        layout = network.layout
        leaf_positions = layout.positions(layout.leaf_masks[leaf])
        sizes = layout.plan.domain.sizes
        self.start, self.end = layout.leaf_offsets[leaf], layout.leaf_offsets[leaf + 1]
        self.leaf_shape = layout.shape(layout.leaf_masks[leaf])
        self.shape = layout.shape(mask)
        self.broadcast = tuple(sizes[p] if mask >> p & 1 else 1 for p in leaf_positions)
        self.summed = tuple(axis for axis, p in enumerate(leaf_positions) if not mask >> p & 1)
        self.from_domain = layout.axes_from_domain(mask)
        self.to_domain = layout.axes_to_domain(mask)
        self.groups = None if query.groups is None else query.groups.transpose(self.from_domain).ravel()
