"""What a run is likely to take and how wrong it is likely to be, from public facts alone."""

from __future__ import annotations

import numpy as np

from lookalike.schema.domain import Domain

_MOST_PAIR_CELLS = 2e7


def work_of(domain: Domain, rows: int) -> np.ndarray:
    """Amounts of work by which time and memory are predicted: a constant, values, pairs of columns, their cells."""
    active = np.array([size for size in domain.sizes if size > 1], dtype=float)
    pairs = len(active) * (len(active) - 1) / 2
    cells = min((active.sum() ** 2 - (active**2).sum()) / 2, _MOST_PAIR_CELLS)
    values = rows * len(domain)
    return np.array([1.0, 1e-6 * values, 1e-3 * pairs, 1e-6 * rows * pairs, 1e-6 * cells])
