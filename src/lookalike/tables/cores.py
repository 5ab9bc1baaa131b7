"""How many threads may be used, and the second one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_MOST_THREADS = 2


def threads_allowed() -> int:
    """One or two: what the process may use, or less if the variable LOOKALIKE_THREADS says so."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    wanted = os.environ.get("LOOKALIKE_THREADS", "")
    return max(1, min(cores, _MOST_THREADS, int(wanted) if wanted.isdigit() else _MOST_THREADS))


@cache
def second_thread() -> ThreadPoolExecutor:
    """A thread beside the main one, started on first use and kept."""
    return ThreadPoolExecutor(1, thread_name_prefix="lookalike")
