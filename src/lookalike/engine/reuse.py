"""Less memory for the same operations: arrays share places in the buffer, and cheap arrays are computed twice.

Between its last use in the forward sweep and its first use in the adjoint sweep, a value need not be kept if it is
cheap to compute again as a product of arrays that are kept anyway, as the largest arrays of a dense model are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lookalike.engine.layout import Array, Layout, Operation, aligned

# Smaller arrays fit into the processor's caches, where computing them twice costs more than it saves.
_LARGE_CELLS = 30_000
# Arrays so small are not worth a search for a place to share.
_SMALL_CELLS = 512
# Largest number of terms per cell for computing an array again.
_MAX_TERMS_PER_CELL = 2.5


@dataclass(slots=True)
class _Lifetime:
    """The time of an array, from the operation that writes it to the last one that reads it."""

    cells: int
    start: int
    end: int
    offset: int = -1


def with_reuse(layout: Layout, *, recompute: bool = True) -> Layout:
    """Return the layout with places shared between arrays that are never needed at the same time.

    The result computes the same leaf marginals and normalisers. Its other values are overwritten during a sweep, so
    `values` is empty. Factors, marginals and normalisers share no place.

    Args:
        layout: a layout in which no two arrays overlap.
        recompute: whether the adjoint sweep may compute cheap values again; otherwise the operations stay the same.
    """
    first = 2 * layout.leaf_cells + layout.components
    back = _with_recomputation(layout, first) if recompute else layout.adjoint
    operations = [*layout.forward, *back]
    lives, used = _lifetimes(layout, operations, first)
    cells = _place(lives, aligned(first))
    moved = []
    for operation, numbers in zip(operations, used, strict=True):
        a, b, c = (
            array if array is None or number is None else Array(lives[number].offset, array.mask)
            for array, number in zip(operation[:3], numbers, strict=True)
        )
        moved.append(operation._replace(a=a, b=b, c=c))
    count = len(layout.forward)
    return replace(layout, values=(), forward=tuple(moved[:count]), adjoint=tuple(moved[count:]), cells=cells)


def _lifetimes(
    layout: Layout, operations: Sequence[Operation], first: int
) -> tuple[list[_Lifetime], list[list[int | None]]]:
    """Lifetimes of all arrays without a fixed place, and the numbers of those that each operation uses."""
    lives: list[_Lifetime] = []
    now: dict[Array, int] = {}
    used: list[list[int | None]] = []
    for number, operation in enumerate(operations):
        reads = [None if array is None else now.get(array) for array in operation[:2]]
        for read in reads:
            if read is not None:
                lives[read].end = max(lives[read].end, number)
        written = operation.c
        if written.offset >= first:
            now[written] = len(lives)
            lives.append(_Lifetime(aligned(layout.size(written.mask)), number, number))
        used.append([*reads, now.get(written)])
    same = list(range(len(lives)))
    for number, (operation, (a, _, c)) in enumerate(zip(operations, used, strict=True)):
        if a is None or c is None or not operation.a.mask == operation.b_mask == operation.c.mask:
            continue
        a = same[a]
        if lives[a].end == number:
            # The operation goes cell by cell, so the result may overwrite an operand that is not read again.
            lives[a].end, lives[c].cells, same[c] = lives[c].end, 0, a
    used = [[None if life is None else same[life] for life in numbers] for numbers in used]
    return lives, used


def _place(lives: Sequence[_Lifetime], start: int) -> int:
    """Give every array an offset, the largest first, each at the lowest place free all its time. Return the end."""
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
    """The operations of the adjoint sweep, with values that were not kept computed again before their first use."""
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
    """The values kept until the adjoint sweep: all that it reads but large ones that are cheap to compute again."""
    price: dict[Array | None, float] = {}
    kept: set[Array] = set()
    for array, operation in makers.items():
        terms = layout.size(operation.a.mask | operation.b_mask)
        again = terms + price.get(operation.a, 0.0) + price.get(operation.b, 0.0)
        cells = layout.size(array.mask)
        if array in read and (cells < _LARGE_CELLS or again > _MAX_TERMS_PER_CELL * cells):
            kept.add(array)
            again = 0.0
        price[array] = again
    return kept
