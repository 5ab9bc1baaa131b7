"""The compiled loops of `counting.py`: cell numbers of rows, and counts of cells. Imported once compiling pays."""

from __future__ import annotations

from lookalike.guards import jitted


@jitted
def begin(cells, codes):
    """Write the codes of the first column of a set."""
    for i in range(len(codes)):
        cells[i] = codes[i]


@jitted
def extend(cells, codes, size):
    """Add a column of `size` codes to cell numbers in mixed radix."""
    for i in range(len(codes)):
        cells[i] = cells[i] * size + codes[i]


@jitted
def tally(counts, cells, rows):
    """Count the cells of the first rows, four at a time, so that reading a cell does not wait for the last count."""
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        a, b, c, d = cells[i], cells[i + 1], cells[i + 2], cells[i + 3]
        counts[a] += 1
        counts[b] += 1
        counts[c] += 1
        counts[d] += 1
    for i in range(whole, rows):
        counts[cells[i]] += 1
