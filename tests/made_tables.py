"""Made-up tables whose structure is known."""

from __future__ import annotations

import numpy as np


def parity_table(
    rows: int, columns: int, *, order: int, values: int = 2, flips: float = 0.05, seed: int = 0
) -> tuple[np.ndarray, dict[str, int]]:
    """Codes and sizes of uniform columns c0, c1, ..., of which the last follows from the first `order`.

    Its code lies in the upper half if those of an odd number of them do, but for a share of flips. Fewer than
    `order` + 1 of these columns say nothing of each other.
    """
    rng = np.random.default_rng([seed, order])
    codes = rng.integers(0, values, (rows, columns))
    upper = values // 2
    odd = (codes[:, :order] >= upper).sum(axis=1) % 2
    odd = np.where(rng.random(rows) < flips, 1 - odd, odd)
    codes[:, -1] = np.where(odd, rng.integers(upper, values, rows), rng.integers(0, upper, rows))
    return codes, {f"c{i}": values for i in range(columns)}
