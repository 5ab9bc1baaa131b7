"""Exact marginals of a log-linear model: one forward and one adjoint sweep over a contraction tree."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lookalike.tables.compiled import numba_available
from lookalike.tables.cores import threads_allowed
from lookalike.tables.executor import Executor
from lookalike.tables.layout import Array, Layout
from lookalike.tables.log_space import run_log_space
from lookalike.tables.lowering import make_layout
from lookalike.tables.numpy_executor import NumpyExecutor
from lookalike.tables.order import predicted_ns
from lookalike.tables.plan import ContractionPlan
from lookalike.tables.recipes import NUMBA, NUMPY
from lookalike.tables.reuse import with_reuse

ExecutorName = Literal["auto", "numpy", "numba"]

# Loading the compiled kernel takes most of a second: it must save as much.
_LOAD_SECONDS = 1.0
# Two threads share the costly operations of models beyond the first figure, which then take this part of the time.
_COSTLY_NS, _SHARED = 5e6, 0.6


class Network:
    """The factors of a model, ready to be evaluated again and again with new potentials.

    The model is p(x) proportional to exp(sum of the leaf potentials). Potentials and marginals of all leaves lie in
    flat vectors, leaf after leaf, each in the plan's storage order; `pack` and `unpack` translate from and to domain
    order.

    The sweeps run on exponentials, scaled so that nothing can overflow. A result is accepted only if the normaliser
    proves that underflow cannot have mattered (see `Executor`), and recomputed in log space if not.

    Args:
        plan: factors, tree and order.
        impossible: flat mask of leaf cells that are structurally zero.
        executor: "numpy", "numba", or "auto": numba if it is predicted to save more than a second over all calls.
        calls: how many sweeps are expected, for "auto".

    Attributes:
        layout: arrays and operations, each array with a place of its own; executors let them share places.
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
        self._log_arrays: dict[Array, np.ndarray] | None = None
        self._values: NumpyExecutor | None = None
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
        array = self.layout.leaf_array(leaf)
        return self._executor.array(array) if self._log_arrays is None else self._log_arrays[array]

    def value(self, node: int) -> np.ndarray:
        """A node's array after the forward sweep, up to a constant, in storage order. For sampling."""
        array = self.layout.values[node]
        if self._log_arrays is not None:
            return self._log_arrays[array]
        if self._values is None:
            # A sweep keeps only what it needs, so the values are computed once more.
            self._values = NumpyExecutor(make_layout(self.plan, adjoint=False))
            self._values.values_from(self._executor.factors)
        return self._values.array(array)

    def sweep(self, potentials: np.ndarray) -> float:
        """Log-normaliser of the model with these finite potentials; the marginals are left in `marginals`.

        Args:
            potentials: flat over all leaves. Impossible cells were named when the network was made; their potentials
                are ignored, so that this vector is always finite.
        """
        if not self.plan.leaves:
            return 0.0
        self._log_arrays = self._values = None
        self.log_z = self._executor.sweep(potentials)
        if not self._executor.trusted():
            self._sweep_log_space(potentials)
        return self.log_z

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
        name = "numba" if calls > 1 and numba_available() and _seconds_saved(layout, calls) > _LOAD_SECONDS else "numpy"
    if name == "numpy":
        return NumpyExecutor(layout, impossible, reuse=True)
    # Importing numba takes half a second, which small models never need.
    from lookalike.tables.numba_executor import NumbaExecutor

    return NumbaExecutor(with_reuse(layout), impossible)


def _seconds_saved(layout: Layout, calls: int) -> float:
    """Predicted seconds that all calls take less with numba than with NumPy."""
    compiled = predicted_ns(layout, NUMBA)
    if compiled > _COSTLY_NS and threads_allowed() > 1:
        compiled *= _SHARED
    return 1e-9 * calls * (predicted_ns(layout, NUMPY) - compiled)
