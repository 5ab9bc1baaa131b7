"""Which further marginals a model can take: predicted time of one evaluation, from public sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lookalike.schema.domain import Clique, Domain
from lookalike.tables.cliques import clique_mask, connected_components
from lookalike.tables.planner import TreeSearch

LEAF_CELL_NS = 8.0
"""Exponentials, sums and gradients of one parameter, once per evaluation."""

_EFFORT = 0.02


class Cliques(Protocol):
    """What is asked of a model here."""

    @property
    def cliques(self) -> list[Clique]: ...


class SizeGate:
    """Predicted nanoseconds of evaluating a model that has one marginal more, compared with a limit.

    The time of a larger model is never smaller, so a marginal that was once found to cost more than some limit needs no
    new look before the limit passes that cost: models only grow while a gate is in use.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._cells: dict[int, int] = {}
        self._component_ns: dict[tuple[int, ...], float] = {}
        self._seen_ns: dict[int, float] = {}

    def admitted(self, model: Cliques, candidates: Sequence[Clique], limit_ms: float) -> list[Clique]:
        """The candidates that lie inside a marginal of the model, or with which it stays within the limit."""
        limit_ns = 1e6 * limit_ms
        masks = _maximal([clique_mask(self._domain, clique) for clique in model.cliques])
        parts = [[masks[i] for i in members] for members in connected_components(masks)]
        known = [self._ns(part) for part in parts]
        admitted = []
        for clique in candidates:
            mask = clique_mask(self._domain, clique)
            if any(mask & other == mask for other in masks):
                admitted.append(clique)
            elif self._seen_ns.get(mask, 0.0) <= limit_ns:
                touched = [i for i, part in enumerate(parts) if any(mask & other for other in part)]
                joined = _maximal([mask, *(other for i in touched for other in parts[i])])
                rest = sum(ns for i, ns in enumerate(known) if i not in touched)
                self._seen_ns[mask] = rest + self._ns(joined)
                if self._seen_ns[mask] <= limit_ns:
                    admitted.append(clique)
        return admitted

    def _ns(self, masks: Sequence[int]) -> float:
        """Predicted nanoseconds of one connected component."""
        key = tuple(sorted(masks))
        if key not in self._component_ns:
            leaves = LEAF_CELL_NS * sum(self._mask_cells(mask) for mask in key)
            self._component_ns[key] = leaves + TreeSearch(self._domain.sizes, key, 0, _EFFORT).search()[0]
        return self._component_ns[key]

    def _mask_cells(self, mask: int) -> int:
        cells = self._cells.get(mask)
        if cells is None:
            cells = self._domain.cells([name for i, name in enumerate(self._domain.names) if mask >> i & 1])
            self._cells[mask] = cells
        return cells


def _maximal(masks: Sequence[int]) -> list[int]:
    """The masks that lie in no other one."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count, reverse=True):
        if not any(mask & other == mask for other in kept):
            kept.append(mask)
    return kept
