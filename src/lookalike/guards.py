"""Limits on the sizes of tables, files, column sets and models, and on numbers of tries, with their reasons.

And what all compiled code shares: whether code may be compiled, and where its machine code is kept.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from types import FunctionType
from typing import Any

NUMBA = os.environ.get("LOOKALIKE_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None
"""Whether code may be compiled: numba is installed and the variable LOOKALIKE_NUMBA is not 0."""

MAX_WORKLOAD_SETS = 200_000
"""Column sets of a workload, or all their subsets: more could not be scored in reasonable time."""

MAX_PAIR_CELLS = 1_000_000
"""Cells of a pair of columns that may be scored: 8 MB of counts."""

MAX_BATCH_CELLS = 10_000_000
"""Cells of the pairs that are scored in one request: 80 MB of counts."""

MAX_CANDIDATES = 1_000_000
"""Candidates of one size within one larger column set; of more, a random part is taken."""

MAX_LISTED_CANDIDATES = 30_000
"""The same if every candidate is also priced, which takes some microseconds each."""

MAX_LISTED_CELLS = 1000
"""Cells of a candidate of three or more columns: with more, noise would hide its counts at any budget."""

MAX_LISTED_PAIR_CELLS = 100_000
"""Cells of a candidate pair."""

MAX_REMEMBERED_TABLES, MAX_REMEMBERED_CELLS = 20_000, 2_000
"""Tables of expected counts that are cached while column sets are priced, and cells of each: at most 320 MB."""

ZEROS_MS = 0.7
"""Predicted milliseconds to evaluate the structural zeros of a schema, which every model of the schema contains."""

MODEL_MEMORY_MB = 500.0
"""Predicted memory of a model that grows by one marginal at a time."""

NETWORK_MEMORY_MB = 300.0
"""Predicted memory of a network that draws rows; the rows themselves need memory too."""

MAX_CELLS = 200_000_000
"""Cells that a source counts in one request: 1.6 GB of 64-bit counts."""

MAX_BYTES_IN_MEMORY = 1 << 26
"""Size of table files that are read into memory; larger ones are read in batches, in every pass anew. A value of a
Parquet file counts at least 4 bytes: 64 MB of few distinct ones would take more than 1 GB in memory."""

MAX_REFERENCE_CELLS = 1_000_000
"""Cells of public references that are stored with a model, so that its file grows by some megabytes only."""

MAX_MODEL_MB = 256
"""Memory, in MiB, of a stored model that is loaded unless the user allows more."""

MAX_LEDGER_BYTES = 1 << 26
"""Size of a ledger: about 200,000 charges."""

MAX_TRIES = 1000
"""Candidates per released row before the deterministic test of plausible deniability gives up."""


def jitted(function: FunctionType, **options: Any) -> Callable[..., Any]:
    """Return the function compiled by numba, with its machine code kept on disk where there is a place for it.

    There is none where neither the package nor a home folder can be written, as for a user without one in a container.
    """
    from numba import njit

    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        return njit(nogil=True, **options)(function)
