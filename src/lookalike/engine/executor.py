"""Shared by the executors: threads, functions compiled on demand, and the buffer with its test for underflow.

A function that loops over plain lists or arrays can run as Python or be compiled by numba; both give the same numbers.
Importing numba takes half a second and the first compilation on a machine several, after which the code is read from
a cache on disk. So work starts uncompiled, and is compiled once the time lost exceeds the time of compiling.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from lookalike.engine.layout import Array, Layout

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


def numba_available() -> bool:
    """Whether numba may be used: it is installed and the variable LOOKALIKE_NUMBA is not 0."""
    return os.environ.get("LOOKALIKE_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None


def compiled(function: FunctionType) -> Callable[..., Any]:
    """Return the function compiled by numba, together with those functions of this package that it calls."""
    if function not in _compiled:
        _compiled[function] = _njit(function, cache=True)
    return _compiled[function]


def _njit(function: FunctionType, **options: Any) -> Callable[..., Any]:
    import numba

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
    return numba.njit(nogil=True, **options)(twin)


def worth_compiling(function: FunctionType, seconds: float) -> bool:
    """Whether work that would take so many seconds uncompiled should be done compiled.

    The seconds lost so far in this process are added up. Compiling starts when they exceed the time of compiling, so
    that both together take at most about twice as long as the better of the two.
    """
    global _lost_seconds
    if function in _compiled:
        return True
    if not numba_available():
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
