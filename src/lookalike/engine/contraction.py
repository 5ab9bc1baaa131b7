"""Exact marginals of a log-linear model: one forward and one adjoint sweep over a contraction tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from lookalike import guards
from lookalike.engine.executor import LOAD_SECONDS, Executor, threads_allowed, with_reuse
from lookalike.engine.numpy_executor import NumpyExecutor
from lookalike.engine.plan import Array, ContractionPlan, Layout, Operation, clique_mask, make_layout
from lookalike.engine.recipes import NUMBA, NUMPY, predicted_ns
from lookalike.schema.domain import ColumnSet

ExecutorName = Literal["auto", "numpy", "numba"]

# Two threads share the costly operations of models that take longer than this, and then need this part of the time.
_COSTLY_NS, _SHARED = 5e6, 0.6
# Largest number of logarithms that are added up at a time.
_CHUNK_CELLS = 1 << 22


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
        layout: arrays and operations, in which no two arrays overlap; executors let arrays share places.
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
        """Return a leaf's array, given in domain order, as flat values in storage order."""
        return values.transpose(self.layout.axes_from_domain(self.layout.leaf_masks[leaf])).ravel()

    def unpack(self, leaf: int, flat: np.ndarray) -> np.ndarray:
        """Return a leaf's part of a flat vector over all leaves, as an array in domain order."""
        mask, part = self.layout.leaf_masks[leaf], flat[self.layout.leaf_part(leaf)]
        return part.reshape(self.layout.shape(mask)).transpose(self.layout.axes_to_domain(mask))

    def factor(self, leaf: int) -> np.ndarray:
        """Return a leaf's factor in the last sweep, up to a constant, in storage order. For sampling."""
        array = self.layout.leaf_array(leaf)
        return self._executor.array(array) if self._log_arrays is None else self._log_arrays[array]

    def value(self, node: int) -> np.ndarray:
        """Return a node's array after the forward sweep, up to a constant, in storage order. For sampling."""
        array = self.layout.values[node]
        if self._log_arrays is not None:
            return self._log_arrays[array]
        if self._values is None:
            # A sweep overwrites values that it needs no more, so they are computed once more.
            self._values = NumpyExecutor(make_layout(self.plan, adjoint=False))
            self._values.values_from(self._executor.factors)
        return self._values.array(array)

    def sweep(self, potentials: np.ndarray) -> float:
        """Return the log-normaliser at these finite potentials, and leave the marginals in `marginals`.

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


def flat_potentials(
    plan: ContractionPlan, potentials: Mapping[ColumnSet, np.ndarray]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the leaf potentials of a plan in storage order, and a mask of impossible cells, None without any.

    Each table, in domain order, is added to the first leaf that contains its columns; tables that no leaf contains are
    left out. Cells that are -inf in some table are impossible; their potential is 0.
    """
    layout = make_layout(plan, adjoint=False)
    flat = np.zeros(layout.leaf_cells)
    for columns, table in potentials.items():
        mask = clique_mask(plan.domain, columns)
        leaf = layout.leaf_holding(mask)
        if leaf is not None:
            stored = layout.positions(layout.leaf_masks[leaf])
            part = flat[layout.leaf_part(leaf)].reshape(layout.shape(layout.leaf_masks[leaf]))
            part += table.transpose(layout.axes_from_domain(mask)).reshape(layout.broadcast_shape(mask, stored))
    impossible = np.isneginf(flat)
    flat[impossible] = 0.0
    return flat, impossible if impossible.any() else None


def evaluated(plan: ContractionPlan, potentials: Mapping[ColumnSet, np.ndarray]) -> Network:
    """Return a network of the plan after one sweep at these potentials, each of which lies in some leaf of the plan."""
    flat, impossible = flat_potentials(plan, potentials)
    network = Network(plan, impossible=impossible)
    network.sweep(flat)
    return network


def _make_executor(name: ExecutorName, layout: Layout, impossible: np.ndarray | None, calls: int) -> Executor:
    if name == "auto":
        name = "numba" if calls > 1 and guards.NUMBA and _seconds_saved(layout, calls) > LOAD_SECONDS else "numpy"
    if name == "numpy":
        return NumpyExecutor(layout, impossible, reuse=True)
    # Importing numba takes half a second, which small models never need.
    from lookalike.engine.numba_executor import NumbaExecutor

    return NumbaExecutor(with_reuse(layout), impossible)


def _seconds_saved(layout: Layout, calls: int) -> float:
    """Predicted seconds that all calls take less with numba than with NumPy."""
    compiled = predicted_ns(layout, NUMBA)
    if compiled > _COSTLY_NS and threads_allowed() > 1:
        compiled *= _SHARED
    return 1e-9 * calls * (predicted_ns(layout, NUMPY) - compiled)


def run_log_space(layout: Layout, log_leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[Array, np.ndarray]]:
    """Return the log-normaliser of each component, the leaf marginals, and the logarithms of all arrays.

    Runs the layout's operations on logarithms, which is slow, and safe for potentials of any range.

    Args:
        layout: of the plan to evaluate.
        log_leaves: all leaf potentials, flat, in storage order; -inf marks impossible cells.
    """
    arrays: dict[Array, np.ndarray] = {}
    cells = layout.leaf_cells
    for leaf, mask in enumerate(layout.leaf_masks):
        arrays[layout.leaf_array(leaf)] = log_leaves[layout.leaf_part(leaf)].reshape(layout.shape(mask))
    for operation in (*layout.forward, *layout.adjoint):
        arrays[operation.c] = _log_contract(layout, operation, arrays)
    log_z = np.array([float(arrays[Array(2 * cells + number, 0)]) for number in range(layout.components)])
    marginals = np.empty(cells)
    for leaf, mask in enumerate(layout.leaf_masks):
        factor = layout.leaf_array(leaf)
        # A component of one leaf has no adjoint sweep: its potentials are its marginal.
        values = arrays.get(Array(cells + factor.offset, mask), arrays[factor])
        top = log_z[layout.component_of[leaf]]
        # Where no row is possible there is no distribution: marginals are 0 and the log-normaliser is -inf.
        marginals[layout.leaf_part(leaf)] = 0.0 if np.isneginf(top) else _shares(values).ravel()
    return log_z, marginals, arrays


def _shares(logs: np.ndarray) -> np.ndarray:
    """Return the values as parts of their own sum: the log-normaliser of large potentials is rounded too far for it.

    >>> _shares(np.array([-1e18, 1e18, 1e18])).tolist()
    [0.0, 0.5, 0.5]
    """
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def _log_contract(layout: Layout, operation: Operation, arrays: dict[Array, np.ndarray]) -> np.ndarray:
    a, b, c, divide = operation
    if divide and b is not None:
        return np.where(np.isneginf(arrays[b]), -np.inf, arrays[a] - np.where(np.isneginf(arrays[b]), 0.0, arrays[b]))
    everything = a.mask | operation.b_mask | c.mask
    kept = layout.positions(c.mask)
    axes = kept + [position for position in layout.positions(everything) if position not in kept]
    sizes = layout.plan.domain.sizes
    views = [_aligned(layout, array, arrays[array], axes) for array in (a, b) if array is not None]
    result = np.empty([sizes[position] for position in kept])
    summed = tuple(range(len(kept), len(axes)))
    inner = math.prod(sizes[position] for position in axes[1:])
    step = max(1, _CHUNK_CELLS // max(1, inner)) if kept else 1
    for start in range(0, sizes[kept[0]] if kept else 1, step):
        part = slice(start, start + step) if kept else slice(None)
        block = sum(view[part] if kept and view.shape[0] > 1 else view for view in views)
        result[part if kept else ...] = _log_sum(np.asarray(block), summed)
    return result


def _aligned(layout: Layout, array: Array, values: np.ndarray, axes: list[int]) -> np.ndarray:
    """The array with its axes in the given order and length-1 axes where it lacks a variable."""
    stored = layout.positions(array.mask)
    moved = values.transpose([stored.index(position) for position in axes if position in stored])
    return moved.reshape(layout.broadcast_shape(array.mask, axes))


def _log_sum(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """log(sum(exp(values))) over the axes, -inf where all terms are -inf."""
    if not axes:
        return values
    top = values.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=axes)) + top.reshape(top.shape[: values.ndim - len(axes)])
