"""What the two executors have in common: the buffer, and the test that tells whether exponentials sufficed."""

from __future__ import annotations

import math

import numpy as np

from lookalike.tables.layout import Array, Layout

# See `Executor`: a normaliser above this bound proves that underflow has cost less than 1e-15 of it.
SMALLEST_TRUSTED = 1e-250
# Added to divisors: 0 / 0 becomes 0, and divisors that matter are far too large to change.
TINY = 1e-300


class Executor:
    """A layout's buffer and constants. Subclasses fill it.

    Factors are kept so that nothing can overflow: each leaf is shifted so that its largest entry is 1, and divided by
    the sizes of the variables assigned to it, which turns all sums over variables into averages. Every value,
    adjoint and belief is then at most 1.

    Underflow can therefore only change little: a term that is lost, or a belief whose divisor was padded, was below
    1e-280, what it would have been multiplied with is at most 1, and so all that one operation can lose of a
    normaliser, or of a marginal times the normaliser, is 1e-280 times its number of terms. There are fewer than 1e15
    of these in all, so a normaliser that came out above 1e-250 is right to 1e-15, and so is every marginal (in
    absolute terms: cells of probability 1e-30 need not have correct digits).

    Attributes:
        buffer: all arrays of the layout; cells beyond it are scratch.
        factors, marginals, normalisers: parts of the buffer.
        impossible: places of the leaf cells that are structurally zero, or None.
    """

    def __init__(self, layout: Layout, impossible: np.ndarray | None, scratch_cells: int = 0) -> None:
        cells = layout.leaf_cells
        self.layout = layout
        self.impossible = impossible
        self.buffer = np.zeros(layout.cells + scratch_cells)
        self.factors = self.buffer[:cells]
        self.marginals = self.buffer[cells : 2 * cells]
        self.normalisers = self.buffer[2 * cells : 2 * cells + layout.components]
        self.component_of = np.array(layout.component_of, dtype=np.intp)
        self.log_sizes = np.zeros(len(layout.leaf_masks))
        seen = 0
        for leaf, mask in enumerate(layout.leaf_masks):
            new = layout.positions(mask & ~seen)
            self.log_sizes[leaf] = sum(math.log(layout.plan.domain.sizes[position]) for position in new)
            seen |= mask

    def array(self, array: Array) -> np.ndarray:
        """A view of one array, with its axes in storage order."""
        shape = self.layout.shape(array.mask)
        return self.buffer[array.offset : array.offset + math.prod(shape)].reshape(shape)

    def trusted(self) -> bool:
        """Whether the last run cannot have lost anything to underflow that matters."""
        return not len(self.normalisers) or float(self.normalisers.min()) >= SMALLEST_TRUSTED

    def sweep(self, potentials: np.ndarray) -> float:
        """Fills factors and normalised marginals from finite potentials; returns the log-normaliser."""
        raise NotImplementedError
