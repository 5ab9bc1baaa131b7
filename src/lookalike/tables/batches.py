"""Small operations done together: cells of many arrays gathered, multiplied and summed in a few library calls.

A library call costs microseconds, more than a small contraction itself, and a model of binary columns has more than a
hundred of them. Operations that do not need each other's results stand on the same level of a sweep; the small ones
among them are run as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lookalike.tables.layout import Array, Layout, Operation
from lookalike.tables.recipes import NUMPY, best_recipe

Group = list[Operation]

# Measured nanoseconds: gathering (once, per operand's cell), and single products and sums (once, per run, per cell).
_GATHER_CALL_NS, _GATHER_NS = 1500.0, 1.4
_SINGLE_NS, _PRODUCT_ROW_NS, _SUM_ROW_NS, _CELL_NS = 1000.0, 11.0, 30.0, 0.6

# Every gathered term takes 32 bytes, for its places and its value.
_MOST_TERMS = 1 << 13


def grouped(layout: Layout, operations: Sequence[Operation], *, late: bool) -> list[Group]:
    """The operations in an order that respects what needs what, small ones of one level and kind in one group.

    Args:
        layout: that the operations belong to.
        operations: of one sweep.
        late: put each as late as the results are needed instead of as soon as its operands are there.
    """
    groups: dict[tuple[int, int, int], Group] = {}
    for number, (operation, level) in enumerate(zip(operations, _levels(operations, late=late), strict=True)):
        length = _terms(layout, operation)[1]
        small = _gathering_gain(layout, operation) > 0.0
        key = (level, 0 if operation.b is None else 1, length) if small else (level, 2, number)
        groups.setdefault(key, []).append(operation)
    return [groups[key] for key in sorted(groups)]


def is_gathered(layout: Layout, group: Group) -> bool:
    """Whether the group is run as one step that gathers, rather than each of its operations by itself."""
    return len(group) > 1 or _gathering_gain(layout, group[0]) > _GATHER_CALL_NS


def _gathering_gain(layout: Layout, operation: Operation) -> float:
    """Predicted nanoseconds saved by gathering, but for the calls, which a group shares."""
    terms = _terms(layout, operation)[0]
    if operation.divide or terms > _MOST_TERMS:
        return -math.inf
    return _single_ns(layout, operation) - _GATHER_NS * (1 if operation.b is None else 2) * terms


def _levels(operations: Sequence[Operation], *, late: bool) -> list[int]:
    writer = {operation.c: number for number, operation in enumerate(operations)}
    levels = [0] * len(operations)
    needs = [[writer[array] for array in operation[:2] if array and array in writer] for operation in operations]
    for number, needed in enumerate(needs):
        levels[number] = 1 + max((levels[other] for other in needed), default=0)
    if late:
        levels = [max(levels, default=0)] * len(operations)
        for number in range(len(operations) - 1, -1, -1):
            for other in needs[number]:
                levels[other] = min(levels[other], levels[number] - 1)
    return levels


def _terms(layout: Layout, operation: Operation) -> tuple[int, int]:
    """How many products an operation adds up, and how many for each cell of the result."""
    a, b, c, _ = operation
    terms = math.prod(layout.shape(a.mask | (b.mask if b is not None else 0)))
    return terms, terms // math.prod(layout.shape(c.mask))


def _single_ns(layout: Layout, operation: Operation) -> float:
    """Predicted nanoseconds of the operation when it is run alone."""
    loops = layout.loops(operation)
    if operation.b is not None and any(not loop.c for loop in loops):
        return best_recipe(loops, NUMPY).ns
    terms = math.prod(loop.size for loop in loops)
    row = _SUM_ROW_NS if operation.b is None and any(not loop.c for loop in loops) else _PRODUCT_ROW_NS
    return _SINGLE_NS + row * terms / (loops[-1].size if loops else 1) + _CELL_NS * terms


def gathered_step(layout: Layout, buffer: np.ndarray, group: Group) -> Callable[[], object]:
    """One step that runs all operations of a group of small ones."""
    length = _terms(layout, group[0])[1]
    parts = [_indices(layout, operation, length) for operation in group]
    first, target = (np.concatenate([part[which] for part in parts], axis=-1) for which in (0, 2))
    second = np.concatenate([part[1] for part in parts], axis=-1) if group[0].b is not None else None
    start, cells = int(target[0]), len(target)
    where = slice(start, start + cells) if np.array_equal(target, np.arange(start, start + cells)) else target
    left, right = np.empty(first.shape), np.empty(first.shape)

    def run() -> None:
        buffer.take(first, out=left, mode="clip")
        if second is not None:
            buffer.take(second, out=right, mode="clip")
            np.multiply(left, right, left)
        buffer[where] = np.add.reduce(left, 0) if length > 1 else left[0]

    return run


def _indices(layout: Layout, operation: Operation, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of the factors of all products, one column per cell of the result, and of the result."""
    a, b, c, _ = operation
    kept = layout.positions(c.mask)
    summed = layout.positions((a.mask | (b.mask if b is not None else 0)) & ~c.mask)
    axes = [*summed, *kept]
    places = [_spread(layout, array, axes).reshape(length, -1) for array in (a, b or a)]
    return places[0], places[1], _spread(layout, c, kept).ravel()


def _spread(layout: Layout, array: Array, axes: Sequence[int]) -> np.ndarray:
    """The place of an array's cell for every combination of the variables `axes`."""
    sizes = layout.plan.domain.sizes
    stored = layout.positions(array.mask)
    places = array.offset + np.arange(math.prod(sizes[position] for position in stored))
    moved = places.reshape([sizes[position] for position in stored]).transpose(
        [stored.index(position) for position in axes if position in stored]
    )
    shape = [sizes[position] if position in stored else 1 for position in axes]
    return np.broadcast_to(moved.reshape(shape), [sizes[position] for position in axes])
