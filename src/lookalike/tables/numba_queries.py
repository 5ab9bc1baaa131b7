"""Compiled loops that spread parameters over leaf potentials and sum leaf marginals into answers.

Each query is a row of integers: where its leaf starts, where its own cells start and how many there are, the number of
loops, and for each loop, innermost first, its length and its strides in the leaf and among the query's cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def run_queries(leaves, cells, code, starts, expand):
    """Adds every query's cells to the leaf potentials, repeated along the variables the query lacks; or back again.

    Args:
        leaves: potentials if `expand`, which become the sum over all queries of their cells; otherwise marginals.
        cells: one number per cell of every query; without `expand` they become sums of marginals.
        code, starts: the queries.
        expand: the direction.
    """
    if expand:
        leaves[:] = 0.0
    else:
        cells[:] = 0.0
    counter = np.zeros(64, dtype=np.int64)
    for start in starts:
        x, y, loops = code[start], code[start + 1], code[start + 3]
        size, kept = code[start + 4], code[start + 6]
        total = 1
        for d in range(1, loops):
            total *= code[start + 4 + 3 * d]
            counter[d] = 0
        for _ in range(total):
            row = leaves[x : x + size]
            if kept:
                own = cells[y : y + size]
                if expand:
                    for i in range(size):
                        row[i] += own[i]
                else:
                    for i in range(size):
                        own[i] += row[i]
            elif expand:
                value = cells[y]
                for i in range(size):
                    row[i] += value
            else:
                value = 0.0
                for i in range(size):
                    value += row[i]
                cells[y] += value
            for d in range(1, loops):
                at = start + 4 + 3 * d
                counter[d] += 1
                x += code[at + 1]
                y += code[at + 2]
                if counter[d] < code[at]:
                    break
                x -= code[at] * code[at + 1]
                y -= code[at] * code[at + 2]
                counter[d] = 0
