"""A simulated table of the shape of LOANS: 42,535 rows of 48 columns, some of them large, most of them skewed.

The public table (loans of a peer-to-peer lender) cannot be had from a package. PPSyn's text says of it: "some
attributes have large domains, but their distribution is more skewed". Here two fifths of the columns have 50 to 100
values, the others 2 to 12; shares of values fall like 1/rank, and every column but the first follows one of the four
before it in half of the rows.
"""

from __future__ import annotations

import numpy as np

ROWS, COLUMNS = 42_535, 48


def loans(rows: int = ROWS) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Codes and numbers of values by column."""
    rng = np.random.default_rng(42_535)
    sizes = np.where(rng.random(COLUMNS) < 0.4, rng.integers(50, 101, COLUMNS), rng.integers(2, 13, COLUMNS))
    columns: list[np.ndarray] = []
    for place, size in enumerate(sizes):
        shares = 1 / np.arange(1, size + 1)
        own = rng.choice(size, rows, p=shares / shares.sum())
        if place:
            parent = int(rng.integers(max(0, place - 4), place))
            follows = rng.random(rows) < 0.5
            own[follows] = columns[parent][follows] * int(size) // int(sizes[parent])
        columns.append(own)
    names = [f"l{place}" for place in range(COLUMNS)]
    return dict(zip(names, columns, strict=True)), dict(zip(names, (int(size) for size in sizes), strict=True))
