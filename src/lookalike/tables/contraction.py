"""Exact marginals of a log-linear model: one forward and one adjoint sweep over a contraction tree."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from lookalike.tables.compiled import numba_available
from lookalike.tables.executor import Executor
from lookalike.tables.log_space import run_log_space
from lookalike.tables.lowering import Array, Layout, make_layout
from lookalike.tables.numpy_executor import NumpyExecutor
from lookalike.tables.order import predicted_ns
from lookalike.tables.plan import ContractionPlan
from lookalike.tables.recipes import NUMPY

ExecutorName = Literal["auto", "numpy", "numba"]

_SMALLEST_TRUSTED = 1e-280
# Loading the compiled kernel takes most of a second: less NumPy time than this is not worth it.
_NUMPY_SECONDS = 1.0


class Network:
    """The factors of a model, ready to be evaluated again and again with new potentials.

    The model is p(x) proportional to exp(sum of the leaf potentials). Potentials and marginals of all leaves lie in
    flat vectors, leaf after leaf, each in the plan's storage order; `pack` and `unpack` translate from and to domain
    order.

    The sweeps run on exponentials. If the spans of all potentials of a component add up to less than the executor's
    slack, no cell can underflow. Otherwise the result is accepted only if every intermediate cell that is structurally
    positive came out well above the underflow threshold (all terms are positive, so nothing can cancel and hide a
    loss), and recomputed in log space if not.

    Args:
        plan: factors, tree and order.
        impossible: flat mask of leaf cells that are structurally zero.
        executor: "numpy", "numba", or "auto": numba if NumPy is predicted to take more than a second for all calls.
        calls: how many sweeps are expected, for "auto".

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
        executor: ExecutorName = "auto",
        calls: int = 1,
    ) -> None:
        self.plan = plan
        self.layout: Layout = make_layout(plan)
        self._impossible = None if impossible is None or not impossible.any() else np.flatnonzero(impossible)
        self._executor = _make_executor(executor, self.layout, self._impossible, calls)
        self.marginals = self._executor.marginals
        self._support: np.ndarray | None = None
        self._log_arrays: dict[Array, np.ndarray] | None = None
        self.log_z = 0.0
        self.used_log_space = 0

    @property
    def executor(self) -> str:
        """Name of the executor in use."""
        return "numpy" if isinstance(self._executor, NumpyExecutor) else "numba"

    @property
    def in_logs(self) -> bool:
        """Whether `factor` and `value` return logarithms, because the last sweep had to use them."""
        return self._log_arrays is not None

    def pack(self, leaf: int, values: np.ndarray) -> np.ndarray:
        """A leaf's array, given in domain order, as flat values in storage order."""
        return values.transpose(self.layout.axes_from_domain(self.layout.leaf_masks[leaf])).ravel()

    def unpack(self, leaf: int, flat: np.ndarray) -> np.ndarray:
        """A leaf's part of a flat vector over all leaves, as an array in domain order."""
        mask = self.layout.leaf_masks[leaf]
        part = flat[self.layout.leaf_offsets[leaf] : self.layout.leaf_offsets[leaf + 1]]
        return part.reshape(self.layout.shape(mask)).transpose(self.layout.axes_to_domain(mask))

    def factor(self, leaf: int) -> np.ndarray:
        """A leaf's factor in the last sweep, up to a constant, in storage order. For sampling."""
        return self._array(self.layout.leaf_array(leaf))

    def value(self, node: int) -> np.ndarray:
        """A node's array after the last forward sweep, up to a constant, in storage order. For sampling."""
        return self._array(self.layout.values[node])

    def _array(self, array: Array) -> np.ndarray:
        if self._log_arrays is not None:
            return self._log_arrays[array]
        return self._executor.array(array)

    def sweep(self, potentials: np.ndarray) -> float:
        """Log-normaliser of the model with these finite potentials; the marginals are left in `marginals`.

        Args:
            potentials: flat over all leaves. Impossible cells were named when the network was made; their potentials
                are ignored, so that this vector is always finite.
        """
        if not self.plan.leaves:
            return 0.0
        self._log_arrays = None
        self.log_z, safe = self._executor.sweep(potentials)
        if not safe and not self._trustworthy():
            self._sweep_log_space(potentials)
        return self.log_z

    def _trustworthy(self) -> bool:
        """Whether every cell that is structurally positive is far from underflow."""
        cells, buffer = self.layout.leaf_cells, self._executor.buffer
        parts = (slice(0, cells), slice(2 * cells, self.layout.cells))
        if self._impossible is None:
            return all(float(buffer[part].min()) >= _SMALLEST_TRUSTED for part in parts)
        if self._support is None:
            self._support = self._structural_support()
        return all(
            float(buffer[part].min(where=self._support[part], initial=1.0)) >= _SMALLEST_TRUSTED for part in parts
        )

    def _structural_support(self) -> np.ndarray:
        """Which cells of the buffer are positive for finite potentials, by running the plan on zeros and ones."""
        ones = NumpyExecutor(self.layout)
        ones.buffer[self._impossible] = 0.0
        for steps, operations in (
            (ones.forward_steps, self.layout.forward),
            (ones.adjoint_steps, self.layout.adjoint),
        ):
            for step, operation in zip(steps, operations, strict=True):
                step()
                end = operation.c.offset + math.prod(self.layout.shape(operation.c.mask))
                part = ones.buffer[operation.c.offset : end]
                # Back to zeros and ones, so that no product of many small averages can vanish.
                np.ceil(np.minimum(part, 1.0, out=part), out=part)
        return ones.buffer > 0.0

    def _sweep_log_space(self, potentials: np.ndarray) -> None:
        self.used_log_space += 1
        finite = potentials
        if self._impossible is not None:
            finite = potentials.copy()
            finite[self._impossible] = -np.inf
        log_z, self.marginals[:], self._log_arrays = run_log_space(self.layout, finite)
        self.log_z = float(log_z.sum())


def _make_executor(name: ExecutorName, layout: Layout, impossible: np.ndarray | None, calls: int) -> Executor:
    if name == "auto":
        slow = calls > 1 and 1e-9 * calls * predicted_ns(layout, NUMPY) > _NUMPY_SECONDS
        name = "numba" if slow and numba_available() else "numpy"
    if name == "numpy":
        return NumpyExecutor(layout, impossible)
    # Importing numba takes half a second, which small models never need.
    from lookalike.tables.numba_executor import NumbaExecutor

    return NumbaExecutor(layout, impossible)
