"""What the executors share: threads, functions compiled on demand, and the buffer with its test for underflow.

A function that loops over plain lists or arrays can run as Python or be compiled by numba; both give the same numbers.
Importing numba takes half a second and the first compilation on a machine several, after which the code is read from
a cache on disk. So work starts uncompiled, and the switch is made once the time lost that way would have paid for it.
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

# Of loading compiled code from the cache on disk, and of compiling it for the first time.
LOAD_SECONDS, _COMPILE_SECONDS = 1.0, 4.0
_MAX_THREADS = 2
# See `Executor`: a normaliser above this bound proves that underflow has cost less than 1e-15 of it.
SMALLEST_TRUSTED = 1e-250
# Added to divisors: 0 / 0 becomes 0, and divisors that matter are far too large to change.
TINY = 1e-300

_compiled: dict[FunctionType, Callable[..., Any]] = {}
_callees: dict[FunctionType, Callable[..., Any]] = {}
_lost_seconds = 0.0


def numba_available() -> bool:
    """Whether numba may be used: it is installed and the variable LOOKALIKE_NUMBA is not 0."""
    return os.environ.get("LOOKALIKE_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None


def compiled(function: FunctionType) -> Callable[..., Any]:
    """The function compiled by numba, together with those functions of this package that it calls."""
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
                # Part of its callers' machine code, never called from Python: this way it compiles a quarter faster.
                _callees[callee] = _njit(callee, no_cpython_wrapper=True, no_cfunc_wrapper=True)
            namespace[name] = _callees[callee]
    twin = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    twin.__qualname__ = function.__qualname__
    return numba.njit(nogil=True, **options)(twin)


def worth_compiling(function: FunctionType, seconds: float) -> bool:
    """Whether work that would take so many seconds uncompiled should be done compiled.

    The seconds lost so far in this process are added up. Compiling starts when they reach its own cost, so that the
    sum of both is never more than about twice the better of the two.
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
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    if elsewhere:
        return any(Path(elsewhere).glob(f"*/{pattern}"))
    return any((source.parent / "__pycache__").glob(pattern))


def threads_allowed() -> int:
    """One or two: what the process may use, or less if the variable LOOKALIKE_THREADS says so."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    wanted = os.environ.get("LOOKALIKE_THREADS", "")
    return max(1, min(cores, _MAX_THREADS, int(wanted) if wanted.isdigit() else _MAX_THREADS))


@cache
def second_thread() -> ThreadPoolExecutor:
    """A thread beside the main one, started on first use and kept."""
    return ThreadPoolExecutor(1, thread_name_prefix="lookalike")


class Executor:
    """A layout's buffer and constants. Subclasses fill it.

    Factors are kept so that nothing can overflow: each leaf is shifted so that its largest entry is 1, and divided by
    the sizes of the variables assigned to it, which turns all sums over variables into averages. Every value,
    adjoint and belief is then at most 1.

    Underflow can therefore only change little: a term that is lost, or a belief whose divisor was padded, was below
    1e-280, what it would have been multiplied with is at most 1, and so all that one operation can lose of a
    normaliser, or of a marginal times the normaliser, is 1e-280 times its number of terms. There are fewer than 1e15
    of these in all, so a normaliser that came out above 1e-250 is right to 1e-15, and so is every marginal (in
    absolute terms: cells of probability 1e-30 need not have correct digits).

    Attributes:
        buffer: all arrays of the layout; cells beyond it are scratch.
        factors, marginals, normalisers: parts of the buffer.
        impossible: places of the leaf cells that are structurally zero, or None.
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
        seen = 0
        for leaf, mask in enumerate(layout.leaf_masks):
            new = layout.positions(mask & ~seen)
            self.log_sizes[leaf] = sum(math.log(layout.plan.domain.sizes[position]) for position in new)
            seen |= mask

    def array(self, array: Array) -> np.ndarray:
        """A view of one array, with its axes in storage order."""
        shape = self.layout.shape(array.mask)
        return self.buffer[array.offset : array.offset + math.prod(shape)].reshape(shape)

    def trusted(self) -> bool:
        """Whether the last run cannot have lost anything to underflow that matters."""
        return not len(self.normalisers) or float(self.normalisers.min()) >= SMALLEST_TRUSTED

    def sweep(self, potentials: np.ndarray) -> float:
        """Fills factors and normalised marginals from finite potentials; returns the log-normaliser."""
        raise NotImplementedError
