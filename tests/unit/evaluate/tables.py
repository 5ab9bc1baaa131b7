"""Small random tables for the tests of measures."""

from __future__ import annotations

import numpy as np

from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 2, 6))


def random_codes(rows: int, seed: int, domain: Domain = DOMAIN) -> np.ndarray:
    """Codes whose columns depend on each other and, through the seed, differ between tables."""
    rng = np.random.default_rng(seed)
    common = rng.random(rows)
    columns = [
        np.clip(((0.6 * common + 0.4 * rng.random(rows)) ** (1 + 0.2 * seed) * size).astype(int), 0, size - 1)
        for size in domain.sizes
    ]
    return np.column_stack(columns).astype(np.int32)
