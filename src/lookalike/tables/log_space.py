"""The same operations on logarithms: slow, and safe for potentials of any span."""

from __future__ import annotations

import math

import numpy as np

from lookalike.tables.layout import Array, Layout, Operation

_CHUNK_CELLS = 1 << 22


def run_log_space(layout: Layout, log_leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[Array, np.ndarray]]:
    """Log-normaliser of each component, the leaf marginals as probabilities, and the logarithms of all arrays.

    Args:
        layout: of the plan to evaluate.
        log_leaves: all leaf potentials, flat, in storage order; -inf marks impossible cells.
    """
    arrays: dict[Array, np.ndarray] = {}
    cells = layout.leaf_cells
    for leaf, mask in enumerate(layout.leaf_masks):
        start, end = layout.leaf_offsets[leaf], layout.leaf_offsets[leaf + 1]
        arrays[Array(start, mask)] = log_leaves[start:end].reshape(layout.shape(mask))
    for operation in (*layout.forward, *layout.adjoint):
        arrays[operation.c] = _log_contract(layout, operation, arrays)
    log_z = np.array([float(arrays[Array(2 * cells + number, 0)]) for number in range(layout.components)])
    marginals = np.empty(cells)
    for leaf, mask in enumerate(layout.leaf_masks):
        start, end = layout.leaf_offsets[leaf], layout.leaf_offsets[leaf + 1]
        # A component of one leaf has no adjoint sweep: its potentials are its marginal.
        values = arrays.get(Array(cells + start, mask), arrays[Array(start, mask)])
        top = log_z[layout.component_of[leaf]]
        # Where nothing is possible there is no distribution: zeros, and a normaliser of -inf says so.
        marginals[start:end] = 0.0 if np.isneginf(top) else np.exp(values - top).ravel()
    return log_z, marginals, arrays


def _log_contract(layout: Layout, operation: Operation, arrays: dict[Array, np.ndarray]) -> np.ndarray:
    a, b, c, divide = operation
    if divide and b is not None:
        return np.where(np.isneginf(arrays[b]), -np.inf, arrays[a] - np.where(np.isneginf(arrays[b]), 0.0, arrays[b]))
    everything = a.mask | (b.mask if b is not None else 0) | c.mask
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
    sizes = layout.plan.domain.sizes
    return moved.reshape([sizes[position] if position in stored else 1 for position in axes])


def _log_sum(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """log(sum(exp(values))) over the axes; -inf where all terms are."""
    if not axes:
        return values
    top = values.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=axes)) + top.reshape(top.shape[: values.ndim - len(axes)])
