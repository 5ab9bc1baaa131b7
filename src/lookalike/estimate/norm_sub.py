"""Norm-sub: the nearest table without negative cells and with a given total, exact by sorting."""

from __future__ import annotations

import numpy as np


def norm_sub(values: np.ndarray, total: float) -> np.ndarray:
    """The point of {x >= 0, sum x = total} nearest to `values` in L2 (PrivSyn section 4.3, "overall consistency").

    The answer is max(values - shift, 0) with the one shift that keeps the sum: with the cells sorted from large to
    small it is the largest (prefix sum - total) / k, so one sort finds it and no bisection is needed. For independent
    noise of one scale it is the maximum-likelihood estimate under the two constraints. A total of 0 or less gives
    zeros.

    >>> norm_sub(np.array([5.0, 2.0, -1.0]), 6.0)
    array([4.5, 1.5, 0. ])
    """
    if total <= 0:
        return np.zeros(values.shape)
    flat = np.asarray(values, dtype=float).ravel()
    falling = np.sort(flat)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, flat.size + 1)
    return np.maximum(flat - shifts.max(), 0.0).reshape(values.shape)
