"""Guards: the largest tables and files that are accepted, and how often is tried. Each with its reason."""

from __future__ import annotations

MAX_CELLS = 200_000_000
"""Cells that a source counts in one request: 1.6 GB of 64-bit counts."""

MAX_REFERENCE_CELLS = 1_000_000
"""Cells of public references that are stored with a model: its file should not grow by more than some megabytes."""

MAX_LEDGER_BYTES = 1 << 26
"""Size of a ledger that is read: some 200,000 charges."""

MAX_TRIES = 1000
"""Candidates per released row before a deterministic test of plausible deniability gives up."""
