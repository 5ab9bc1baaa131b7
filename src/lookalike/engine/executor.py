"""Shared by the executors: compiling on demand, the buffer with its test for underflow, and places used twice.

A function that loops over plain lists or arrays can run as Python or be compiled by numba; both give the same numbers.
Importing numba takes half a second and the first compilation on a machine several, after which the code is read from
a cache on disk. So work starts uncompiled, and is compiled once the time lost exceeds the time of compiling.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from lookalike import guards
from lookalike.engine.plan import Array, Layout, Operation, aligned
from lookalike.guards import jitted

# Time to load compiled code from the cache on disk, and to compile it for the first time.
LOAD_SECONDS, _COMPILE_SECONDS = 1.0, 4.0
_MAX_THREADS = 2
# See `Executor`: a normaliser above this bound proves that underflow has cost less than 1e-15 of it.
SMALLEST_TRUSTED = 1e-250
# Added to divisors, so that 0 / 0 becomes 0; divisors that matter are far too large to change.
TINY = 1e-300

_compiled: dict[FunctionType, Callable[..., Any]] = {}
_callees: dict[FunctionType, Callable[..., Any]] = {}
_lost_seconds = 0.0


def compiled(function: FunctionType) -> Callable[..., Any]:
    """Return the function compiled by numba, together with those functions of this package that it calls."""
    if function not in _compiled:
        _compiled[function] = _njit(function, kept=True)
    return _compiled[function]


def _njit(function: FunctionType, *, kept: bool = False, **options: Any) -> Callable[..., Any]:
    from numba import njit

    namespace = dict(function.__globals__)
    for name in function.__code__.co_names:
        callee = namespace.get(name)
        if isinstance(callee, FunctionType) and callee.__module__.startswith("lookalike."):
            if callee not in _callees:
                # Never called from Python, and without the wrappers for that it compiles a quarter faster.
                _callees[callee] = _njit(callee, no_cpython_wrapper=True, no_cfunc_wrapper=True)
            namespace[name] = _callees[callee]
    twin = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    twin.__qualname__ = function.__qualname__
    return jitted(twin, **options) if kept else njit(nogil=True, **options)(twin)


def worth_compiling(function: FunctionType, seconds: float) -> bool:
    """Whether work that would take so many seconds uncompiled should be done compiled.

    The seconds lost so far in this process are added up. Compiling starts when they exceed the time of compiling, so
    that both together take at most about twice as long as the better of the two.
    """
    global _lost_seconds
    if function in _compiled:
        return True
    if not guards.NUMBA:
        return False
    _lost_seconds += seconds
    price = LOAD_SECONDS if _cached_on_disk(function) else _COMPILE_SECONDS
    return _lost_seconds > price or ("numba" in sys.modules and price == LOAD_SECONDS)


def _cached_on_disk(function: FunctionType) -> bool:
    """Whether an earlier process left this function's machine code in numba's cache."""
    source = Path(function.__code__.co_filename)
    pattern = f"{source.stem}.{function.__name__}-*.nbi"
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if folder:
        return any(Path(folder).glob(f"*/{pattern}"))
    return any((source.parent / "__pycache__").glob(pattern))


def threads_allowed() -> int:
    """Number of threads to use, 1 or 2: the cores of the process, or the variable LOOKALIKE_THREADS if smaller."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    wanted = os.environ.get("LOOKALIKE_THREADS", "")
    return max(1, min(cores, _MAX_THREADS, int(wanted) if wanted.isdigit() else _MAX_THREADS))


@cache
def second_thread() -> ThreadPoolExecutor:
    """A second thread, started on first use and kept."""
    return ThreadPoolExecutor(1, thread_name_prefix="lookalike")


class Executor:
    """The buffer and the constants of a layout. Subclasses fill the buffer.

    Factors are scaled so that nothing can overflow: each leaf is shifted so that its largest entry is 1, and divided by
    the sizes of the variables assigned to it, which turns all sums over variables into averages. Every value,
    adjoint and belief is then at most 1.

    Underflow can therefore change little. A term that is lost, or a belief whose divisor was padded by TINY, was below
    1e-280, and all its cofactors are at most 1. So one operation changes a normaliser, or a marginal times the
    normaliser, by at most 1e-280 times its number of terms, of which there are fewer than 1e15 in all. A normaliser
    above 1e-250 is then right to 1e-15, and so is every marginal (in absolute terms: cells of probability 1e-30 need
    not have correct digits).

    Attributes:
        buffer: all arrays of the layout, followed by scratch cells.
        factors, marginals, normalisers: parts of the buffer.
        impossible: positions of the leaf cells that are structural zeros, or None.
    """

    def __init__(self, layout: Layout, impossible: np.ndarray | None, scratch_cells: int = 0) -> None:
        cells = layout.leaf_cells
        self.layout = layout
        self.impossible = impossible
        self.buffer = np.zeros(layout.cells + scratch_cells)
        self.factors = self.buffer[:cells]
        self.marginals = self.buffer[cells : 2 * cells]
        self.normalisers = self.buffer[2 * cells : 2 * cells + layout.components]
        self.component_of = np.array(layout.component_of, dtype=np.intp)
        self.log_sizes = np.zeros(len(layout.leaf_masks))
        assigned = 0
        for leaf, mask in enumerate(layout.leaf_masks):
            new = layout.positions(mask & ~assigned)
            self.log_sizes[leaf] = sum(math.log(layout.plan.domain.sizes[position]) for position in new)
            assigned |= mask

    def array(self, array: Array) -> np.ndarray:
        """A view of one array, with its axes in storage order."""
        shape = self.layout.shape(array.mask)
        return self.buffer[array.offset : array.offset + math.prod(shape)].reshape(shape)

    def trusted(self) -> bool:
        """Whether underflow in the last sweep cannot have changed results by more than 1e-15."""
        return not len(self.normalisers) or float(self.normalisers.min()) >= SMALLEST_TRUSTED

    def sweep(self, potentials: np.ndarray) -> float:
        """Fill factors and normalised marginals from finite potentials, and return the log-normaliser."""
        raise NotImplementedError


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
    `values` is empty. Factors, marginals and normalisers share no place. Between its last use in the forward sweep and
    its first in the adjoint sweep, a value is not kept if it is cheap to compute again as a product of arrays that are
    kept anyway, as the largest arrays of a dense model are.

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
