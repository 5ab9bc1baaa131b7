"""A tiny table that every adaptive method must get right, and runs on it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lookalike.pipeline import synthesize
from lookalike.release import Release

SIZES = {"a": 3, "b": 3, "c": 2, "d": 2}


def table(rows: int = 2000) -> pa.Table:
    """b repeats a, d repeats c; the two pairs are independent."""
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    return pa.table({"a": a, "b": a, "c": c, "d": c})


def run(method: str, *, epsilon: float = 2.0, **settings) -> Release:
    rng = np.random.default_rng(4)
    return synthesize(table(), schema=SIZES, epsilon=epsilon, method=method, seed=0, insecure_rng=rng, **settings)
