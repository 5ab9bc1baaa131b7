"""Less memory for the same operations: places are used again once their array is dead, and cheap arrays made again.

Between its last use in the forward sweep and its first on the way back, a value need not exist if it is cheap to
recompute: a product of arrays that are there anyway. The largest arrays of a dense model are of that kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lookalike.engine.layout import Array, Layout, Operation

# Smaller arrays fit the caches: making them twice would cost more than it saves.
_LARGE_CELLS = 30_000
# Nor is it worth the time to find places that such small ones could share.
_SMALL_CELLS = 512
# Terms per cell that may be spent on making an array again.
_MAX_TERMS_PER_CELL = 2.5


@dataclass(slots=True)
class _Life:
    """An array from the operation that writes it to the last one that reads it."""

    cells: int
    start: int
    end: int
    offset: int = -1


def with_reuse(layout: Layout, *, recompute: bool = True) -> Layout:
    """The layout with places shared between arrays that never live at the same time.

    The result computes the same leaf marginals and normalisers; its values are gone after a sweep, so `values` is
    empty. Factors, marginals and normalisers keep places of their own.

    Args:
        layout: every array in a place of its own.
        recompute: whether cheap values may be made again on the way back; otherwise the operations stay one for one.
    """
    first = 2 * layout.leaf_cells + layout.components
    back = _with_recomputation(layout, first) if recompute else layout.adjoint
    operations = [*layout.forward, *back]
    lives, used = _lives(layout, operations, first)
    cells = _place(lives, -(-first // 8) * 8)
    moved = []
    for operation, numbers in zip(operations, used, strict=True):
        a, b, c = (
            array if array is None or number is None else Array(lives[number].offset, array.mask)
            for array, number in zip(operation[:3], numbers, strict=True)
        )
        moved.append(operation._replace(a=a, b=b, c=c))
    count = len(layout.forward)
    return replace(layout, values=(), forward=tuple(moved[:count]), adjoint=tuple(moved[count:]), cells=cells)


def _lives(layout: Layout, operations: Sequence[Operation], first: int) -> tuple[list[_Life], list[list[int | None]]]:
    """All lives of arrays that have no fixed place, and the numbers of those that each operation uses."""
    lives: list[_Life] = []
    now: dict[Array, int] = {}
    used: list[list[int | None]] = []
    for number, operation in enumerate(operations):
        reads = [None if array is None else now.get(array) for array in operation[:2]]
        for read in reads:
            if read is not None:
                lives[read].end = max(lives[read].end, number)
        written = operation.c
        if written.offset >= first:
            # Eight doubles fill a cache line; aligned starts keep vector loads from straddling two.
            cells = -(-math.prod(layout.shape(written.mask)) // 8) * 8
            now[written] = len(lives)
            lives.append(_Life(cells, number, number))
        used.append([*reads, now.get(written)])
    same = list(range(len(lives)))
    for number, (operation, (a, _, c)) in enumerate(zip(operations, used, strict=True)):
        if (
            a is None
            or c is None
            or operation.b is None
            or not operation.a.mask == operation.b.mask == operation.c.mask
        ):
            continue
        a = same[a]
        if lives[a].end == number:
            # Cell by cell, the result may take the place of an operand that nobody needs any more.
            lives[a].end, lives[c].cells, same[c] = lives[c].end, 0, a
    used = [[None if life is None else same[life] for life in numbers] for numbers in used]
    return lives, used


def _place(lives: Sequence[_Life], start: int) -> int:
    """Gives every life an offset: the largest first, each at the lowest place free all its time. Returns the end."""
    offsets = np.empty(len(lives), dtype=np.int64)
    ends, births, deaths = offsets.copy(), offsets.copy(), offsets.copy()
    count, last = 0, start
    for life in sorted(lives, key=lambda life: (-life.cells, life.start)):
        if life.cells <= _SMALL_CELLS:
            life.offset = last
        else:
            near = np.flatnonzero((births[:count] <= life.end) & (deaths[:count] >= life.start))
            life.offset = start
            for other in near[np.argsort(offsets[near], kind="stable")]:
                if offsets[other] - life.offset >= life.cells:
                    break
                life.offset = max(life.offset, int(ends[other]))
            offsets[count], ends[count] = life.offset, life.offset + life.cells
            births[count], deaths[count] = life.start, life.end
            count += 1
        last = max(last, life.offset + life.cells)
    return last


def _with_recomputation(layout: Layout, first: int) -> list[Operation]:
    """The operations on the way back, with those that make dropped values again put before their first use."""
    makers = {operation.c: operation for operation in layout.forward if operation.c.offset >= first}
    read = {array for operation in layout.adjoint for array in operation[:2] if array is not None and array in makers}
    kept = _kept(layout, makers, read)
    present = set(kept)
    back: list[Operation] = []

    def ensure(array: Array | None) -> None:
        if array is None or array not in makers or array in present:
            return
        present.add(array)
        ensure(makers[array].a)
        ensure(makers[array].b)
        back.append(makers[array])

    for operation in layout.adjoint:
        ensure(operation.a)
        ensure(operation.b)
        back.append(operation)
    return back


def _kept(layout: Layout, makers: dict[Array, Operation], read: set[Array]) -> set[Array]:
    """The values that stay until the way back: all it reads, but the large ones that are cheap to make again."""
    price: dict[Array | None, float] = {}
    kept: set[Array] = set()
    for array, operation in makers.items():
        b = operation.b.mask if operation.b is not None else 0
        terms = math.prod(layout.shape(operation.a.mask | b))
        again = terms + price.get(operation.a, 0.0) + price.get(operation.b, 0.0)
        cells = math.prod(layout.shape(array.mask))
        if array in read and (cells < _LARGE_CELLS or again > _MAX_TERMS_PER_CELL * cells):
            kept.add(array)
            again = 0.0
        price[array] = again
    return kept
