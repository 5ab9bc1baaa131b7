"""What the two executors have in common: the buffer, and when exponentials are safe without looking at the result."""

from __future__ import annotations

import math

import numpy as np

from lookalike.tables.lowering import Array, Layout

# A positive double stays normal down to exp(-708). 650 leaves 58 nats for the rounding of long sums.
SAFE_NATS = 650.0


class Executor:
    """A layout's buffer and constants. Subclasses fill it.

    Factors are kept so that nothing can overflow: each leaf is shifted so that its largest entry is 1, and divided by
    the sizes of the variables assigned to it, which turns all sums over variables into averages.

    Attributes:
        buffer: all arrays of the layout; cells beyond it are scratch.
        factors, marginals, normalisers: parts of the buffer.
        impossible: places of the leaf cells that are structurally zero, or None.
        slack: per component, the span of potentials (in nats, added up over its leaves) below which no structurally
            positive cell can underflow: such a cell has a term of at least exp(-span) divided by the sizes of all
            variables of the component.
    """

    def __init__(self, layout: Layout, impossible: np.ndarray | None, scratch_cells: int = 0) -> None:
        cells = layout.leaf_cells
        self.layout = layout
        self.impossible = impossible
        # Ones, not zeros: the gaps between arrays must never look like an underflow.
        self.buffer = np.ones(layout.cells + scratch_cells)
        self.factors = self.buffer[:cells]
        self.marginals = self.buffer[cells : 2 * cells]
        self.normalisers = self.buffer[2 * cells : 2 * cells + layout.components]
        self.starts = np.array(layout.leaf_offsets[:-1], dtype=np.intp)
        self.component_of = np.array(layout.component_of, dtype=np.intp)
        self.log_sizes = np.zeros(len(layout.leaf_masks))
        seen = 0
        for leaf, mask in enumerate(layout.leaf_masks):
            new = layout.positions(mask & ~seen)
            self.log_sizes[leaf] = sum(math.log(layout.plan.domain.sizes[position]) for position in new)
            seen |= mask
        covered = np.bincount(self.component_of, self.log_sizes, minlength=layout.components)
        self.slack = SAFE_NATS - covered

    def array(self, array: Array) -> np.ndarray:
        """A view of one array, with its axes in storage order."""
        shape = self.layout.shape(array.mask)
        return self.buffer[array.offset : array.offset + math.prod(shape)].reshape(shape)

    def sweep(self, potentials: np.ndarray) -> tuple[float, bool]:
        """Fills the buffer from finite potentials: factors, values, adjoints and normalised marginals.

        Returns the log-normaliser and whether the span of the potentials alone rules out underflow.
        """
        raise NotImplementedError

    def forward(self, potentials: np.ndarray) -> tuple[float, bool]:
        """Like `sweep`, without adjoints and marginals."""
        raise NotImplementedError
