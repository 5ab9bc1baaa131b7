"""Guards: the largest tables, files, sets and models that are accepted, and how often is tried, with reasons."""

from __future__ import annotations

MAX_WORKLOAD_SETS = 200_000
"""Marginals of a workload, or of all their parts: beyond it scoring them all is out of reach."""

MAX_PAIR_CELLS = 1_000_000
"""Cells of a pair of columns that is considered at all: 8 MB of counts."""

MAX_BATCH_CELLS = 10_000_000
"""Cells of the pairs that are scored in one request: 80 MB of counts."""

MAX_CANDIDATES = 1_000_000
"""Column sets of one size inside one clique that are listed; of more, a random part."""

MAX_LISTED_CANDIDATES = 30_000
"""The same where every listed set is priced as well, which takes some microseconds each."""

MAX_LISTED_CELLS = 1000
"""Cells of a listed set of three or more columns: with more its counts would be lost in the noise at any budget."""

MAX_LISTED_PAIR_CELLS = 100_000
"""Cells of a listed pair."""

MAX_REMEMBERED_TABLES, MAX_REMEMBERED_CELLS = 20_000, 2_000
"""Tables of expected counts that are kept while sets are priced, and the cells of each: 320 MB at worst."""

ZEROS_MS = 0.7
"""Predicted milliseconds of one evaluation of a model of the schema's impossible cells alone, which every model of the
schema holds in addition to what is measured."""

MODEL_MEMORY_MB = 500.0
"""Predicted memory of a model that grows by one marginal at a time."""

NETWORK_MEMORY_MB = 300.0
"""Predicted memory of a network that draws rows, beside which the rows themselves need their place."""

MAX_CELLS = 200_000_000
"""Cells that a source counts in one request: 1.6 GB of 64-bit counts."""

MAX_REFERENCE_CELLS = 1_000_000
"""Cells of public references that are stored with a model: its file should not grow by more than some megabytes."""

MAX_MODEL_MB = 256
"""Memory, in MiB, of a stored model that is loaded unless the user allows more."""

MAX_LEDGER_BYTES = 1 << 26
"""Size of a ledger that is read: some 200,000 charges."""

MAX_TRIES = 1000
"""Candidates per released row before a deterministic test of plausible deniability gives up."""
