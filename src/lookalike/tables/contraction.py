"""Exact marginals of a log-linear model: one forward and one adjoint sweep over a contraction tree."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from lookalike.tables.log_space import run_log_space
from lookalike.tables.lowering import Layout, make_layout
from lookalike.tables.numpy_executor import NumpyExecutor
from lookalike.tables.plan import ContractionPlan

# A positive double stays normal down to exp(-708). 650 leaves 58 nats for the rounding of long sums.
SAFE_NATS = 650.0
_SMALLEST_TRUSTED = 1e-280


class Network:
    """The factors of a model, ready to be evaluated again and again with new potentials.

    The model is p(x) proportional to exp(sum of the leaf potentials). Potentials and marginals of all leaves lie in
    flat vectors, leaf after leaf, each in the plan's storage order; `pack` and `unpack` translate from and to domain
    order.

    The sweeps run on exponentials. Each leaf is shifted so that its largest entry is 1 and divided by the sizes of
    the variables assigned to it, which turns all sums over variables into averages: nothing can overflow. If the
    spans of all potentials of a component add up to less than `SAFE_NATS`, no cell can underflow either. Otherwise
    the result is accepted only if every intermediate cell that is structurally positive came out well above the
    underflow threshold (all terms are positive, so nothing can cancel and hide a loss), and recomputed in log space
    if not.

    Attributes:
        layout: arrays and operations.
        marginals: the leaf marginals of the last `sweep`, as probabilities, flat. Overwritten by the next call.
        log_z: the log-normaliser of the last `sweep`.
        used_log_space: how many calls had to fall back to log space.
    """

    def __init__(
        self,
        plan: ContractionPlan,
        *,
        impossible: np.ndarray | None = None,
        executor: Literal["numpy", "numba"] = "numpy",
    ) -> None:
        self.plan = plan
        self.layout: Layout = make_layout(plan)
        cells = self.layout.leaf_cells
        self._buffer, self._executor = _make_executor(executor, self.layout)
        self._factors = self._buffer[:cells]
        self.marginals = self._buffer[cells : 2 * cells]
        self._normalisers = self._buffer[2 * cells : 2 * cells + self.layout.components]
        self._starts = np.array(self.layout.leaf_offsets[:-1], dtype=np.intp)
        self._lengths = np.diff(self.layout.leaf_offsets)
        self._component_of = np.array(self.layout.component_of, dtype=np.intp)
        self._impossible = None if impossible is None or not impossible.any() else np.flatnonzero(impossible)
        self._log_sizes = _assigned_log_sizes(self.layout)
        self._slack = _structural_slack(self.layout, self._impossible is not None)
        self._support: np.ndarray | None = None
        self.log_z = 0.0
        self.used_log_space = 0

    def pack(self, leaf: int, values: np.ndarray) -> np.ndarray:
        """A leaf's array, given in domain order, as flat values in storage order."""
        return values.transpose(self.layout.axes_from_domain(self.layout.leaf_masks[leaf])).ravel()

    def unpack(self, leaf: int, flat: np.ndarray) -> np.ndarray:
        """A leaf's part of a flat vector over all leaves, as an array in domain order."""
        mask = self.layout.leaf_masks[leaf]
        part = flat[self.layout.leaf_offsets[leaf] : self.layout.leaf_offsets[leaf + 1]]
        return part.reshape(self.layout.shape(mask)).transpose(self.layout.axes_to_domain(mask))

    def leaf_factor(self, leaf: int) -> np.ndarray:
        """A leaf's factor in the last sweep, up to a constant, in storage order. For sampling."""
        part = self._factors[self.layout.leaf_offsets[leaf] : self.layout.leaf_offsets[leaf + 1]]
        return part.reshape(self.layout.shape(self.layout.leaf_masks[leaf]))

    def value(self, node: int) -> np.ndarray:
        """A node's array after the last forward sweep, up to a constant, in storage order. For sampling."""
        array = self.layout.values[node]
        shape = self.layout.shape(array.mask)
        return self._buffer[array.offset : array.offset + math.prod(shape)].reshape(shape)

    def sweep(self, potentials: np.ndarray) -> float:
        """Log-normaliser of the model with these finite potentials; the marginals are left in `marginals`.

        Args:
            potentials: flat over all leaves. Impossible cells were named when the network was made; their potentials
                are ignored, so that this vector is finite always.
        """
        if not self.plan.leaves:
            return 0.0
        shift, span = self._exponentiate(potentials)
        self._executor.run_forward()
        self._executor.run_adjoint()
        if np.any(span >= self._slack) and not self._trustworthy():
            return self._sweep_log_space(potentials)
        scale = 1.0 / self._normalisers
        if len(scale) == 1:
            source = self.marginals if len(self._starts) > 1 else self._factors
            np.multiply(source, scale[0], out=self.marginals)
        else:
            self._normalise(scale)
        self.log_z = float(np.log(self._normalisers).sum() + shift.sum())
        return self.log_z

    def _exponentiate(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fills the leaf factors. Returns what each leaf was shifted by and the span of potentials per component."""
        top = np.maximum.reduceat(potentials, self._starts)
        span = np.bincount(self._component_of, top - np.minimum.reduceat(potentials, self._starts))
        shift = top + self._log_sizes
        np.subtract(potentials, np.repeat(shift, self._lengths), out=self._factors)
        np.exp(self._factors, out=self._factors)
        if self._impossible is not None:
            self._factors[self._impossible] = 0.0
        return shift, span

    def _normalise(self, scale: np.ndarray) -> None:
        alone = np.bincount(self._component_of) == 1
        for leaf, component in enumerate(self.layout.component_of):
            part = slice(self.layout.leaf_offsets[leaf], self.layout.leaf_offsets[leaf + 1])
            source = self._factors if alone[component] else self.marginals
            np.multiply(source[part], scale[component], out=self.marginals[part])

    def _trustworthy(self) -> bool:
        """Whether every cell that is structurally positive is far from underflow."""
        cells = self.layout.leaf_cells
        parts = (slice(0, cells), slice(2 * cells, self.layout.cells))
        if self._impossible is None:
            return all(float(self._buffer[part].min()) >= _SMALLEST_TRUSTED for part in parts)
        if self._support is None:
            self._support = self._structural_support()
        return all(float(self._buffer[part][self._support[part]].min()) >= _SMALLEST_TRUSTED for part in parts)

    def _structural_support(self) -> np.ndarray:
        """Which cells of the buffer are positive for finite potentials, by running the plan on zeros and ones."""
        buffer = np.ones(self.layout.cells)
        buffer[self._impossible] = 0.0
        executor = NumpyExecutor(self.layout, buffer)
        for steps, operations in (
            (executor.forward, self.layout.forward),
            (executor.adjoint, self.layout.adjoint),
        ):
            for step, operation in zip(steps, operations, strict=True):
                step()
                end = operation.c.offset + math.prod(self.layout.shape(operation.c.mask))
                part = buffer[operation.c.offset : end]
                np.minimum(part, 1.0, out=part)
        return buffer > 0.0

    def _sweep_log_space(self, potentials: np.ndarray) -> float:
        self.used_log_space += 1
        finite = potentials
        if self._impossible is not None:
            finite = potentials.copy()
            finite[self._impossible] = -np.inf
        log_z, self.marginals[:] = run_log_space(self.layout, finite)
        self.log_z = float(log_z.sum())
        return self.log_z


def _make_executor(name: str, layout: Layout):
    if name == "numpy":
        buffer = np.ones(layout.cells)
        return buffer, NumpyExecutor(layout, buffer)
    from lookalike.tables.numba_executor import NumbaExecutor, scratch_cells

    buffer = np.ones(layout.cells + scratch_cells(layout))
    return buffer, NumbaExecutor(layout, buffer)


def _assigned_log_sizes(layout: Layout) -> np.ndarray:
    """Per leaf, the logarithms of the sizes of the variables that no earlier leaf has."""
    sizes = layout.plan.domain.sizes
    seen, result = 0, []
    for mask in layout.leaf_masks:
        result.append(sum(math.log(sizes[position]) for position in layout.positions(mask & ~seen)))
        seen |= mask
    return np.array(result)


def _structural_slack(layout: Layout, has_zeros: bool) -> np.ndarray:
    """Per component, the span of potentials up to which underflow is impossible.

    A structurally positive cell has at least one positive term, and each term is at least exp(-span) divided by the
    sizes of all variables. Without structural zeros all terms are positive, and only the sizes of the variables in the
    cell's own scope remain in the divisor; the bound used is the same, as it is rarely reached.
    """
    sizes = layout.plan.domain.sizes
    covered = np.zeros(layout.components)
    seen = 0
    for leaf, mask in enumerate(layout.leaf_masks):
        covered[layout.component_of[leaf]] += sum(math.log(sizes[p]) for p in layout.positions(mask & ~seen))
        seen |= mask
    return SAFE_NATS - covered
