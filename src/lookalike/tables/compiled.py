"""Optional compilation of number-crunching functions with numba, paid for only where it is worth it.

A function that loops over plain lists or arrays can run as Python or be compiled; both give the same numbers.
Importing numba takes half a second and the first compilation on a machine several, after which the code is read from
a cache on disk. So work starts uncompiled, and the switch is made once the time lost that way would have paid for it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

_LOAD_SECONDS = 1.0
_COMPILE_SECONDS = 4.0

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
    price = _LOAD_SECONDS if _cached_on_disk(function) else _COMPILE_SECONDS
    return _lost_seconds > price or ("numba" in sys.modules and price == _LOAD_SECONDS)


def _cached_on_disk(function: FunctionType) -> bool:
    """Whether an earlier process left this function's machine code in numba's cache."""
    source = Path(function.__code__.co_filename)
    pattern = f"{source.stem}.{function.__name__}-*.nbi"
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    if elsewhere:
        return any(Path(elsewhere).glob(f"*/{pattern}"))
    return any((source.parent / "__pycache__").glob(pattern))
