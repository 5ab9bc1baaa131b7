"""Arrays in one buffer and operations on them: what a plan becomes before it is run.

Every array stores its axes in the plan's one order of the variables. Neighbouring variables that occur in the same
operands therefore merge into one loop, no operation needs a transpose, and the last loop of an operation has stride 1
in every array that knows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lookalike.tables.cliques import mask_positions
from lookalike.tables.plan import ContractionPlan


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
