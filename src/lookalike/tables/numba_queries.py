"""Compiled loops that spread parameters over leaf potentials and sum leaf marginals into answers.

Each query is a row of integers: where its leaf starts, where its own cells start and how many there are, the number of
loops, and for each loop, innermost first, its length and its strides in the leaf and among the query's cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def run_expand(potentials, cells, code, starts):
    """potentials = sum over queries of their cells, repeated along the variables they lack."""
    potentials[:] = 0.0
    for start in starts:
        _walk(potentials, cells, code, start, True)


@njit(cache=True, nogil=True)
def run_answer(marginals, cells, code, starts):
    """cells = marginals summed over the variables each query lacks."""
    cells[:] = 0.0
    for start in starts:
        _walk(marginals, cells, code, start, False)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _walk(leaf, cells, code, start, expand):
    x, y, loops = code[start], code[start + 1], code[start + 3]
    size, kept = code[start + 4], code[start + 6]
    counter = np.zeros(64, dtype=np.int64)
    total = 1
    for d in range(1, loops):
        total *= code[start + 4 + 3 * d]
    for _ in range(total):
        row = leaf[x : x + size]
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
