"""Runs a layout's operations with NumPy, on strided views that are made once.

A library call costs microseconds, more than a small contraction itself, and a model of binary columns has more than a
hundred of them. Operations that do not need each other's results are on the same level of a sweep. The small ones of a
level are run together: their cells are gathered, multiplied and summed in a few calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lookalike.engine.executor import TINY, Executor, with_reuse
from lookalike.engine.plan import Array, Layout, Loop, Operation
from lookalike.engine.recipes import NUMPY, PRICES, Recipe, best_recipe

Group = list[Operation]

# Nanoseconds of gathering (once, per operand's cell) and of single products and sums (once, per run, per cell).
_PRICE = PRICES["gathering"]

# A gathered term takes 32 bytes, for its indices and its value.
_MAX_TERMS = 1 << 13


def grouped(layout: Layout, operations: Sequence[Operation], *, late: bool) -> list[Group]:
    """Return the operations in an order in which operands come first; small ones of a level and kind form a group.

    Args:
        layout: the layout of the operations.
        operations: the operations of one sweep.
        late: put each operation as late as its result allows, instead of as early as its operands allow.
    """
    groups: dict[tuple[int, int, int], Group] = {}
    for number, (operation, level) in enumerate(zip(operations, _levels(operations, late=late), strict=True)):
        length = _terms(layout, operation)[1]
        small = _gathering_gain(layout, operation) > 0.0
        key = (level, 0 if operation.b is None else 1, length) if small else (level, 2, number)
        groups.setdefault(key, []).append(operation)
    return [groups[key] for key in sorted(groups)]


def is_gathered(layout: Layout, group: Group) -> bool:
    """Whether the group is run as one step that gathers, rather than as a single operation."""
    return len(group) > 1 or _gathering_gain(layout, group[0]) > _PRICE["call"]


def _gathering_gain(layout: Layout, operation: Operation) -> float:
    """Predicted nanoseconds saved by gathering, without the calls, which a group shares."""
    terms = _terms(layout, operation)[0]
    if operation.divide or terms > _MAX_TERMS:
        return -math.inf
    return _single_ns(layout, operation) - _PRICE["cell"] * (1 if operation.b is None else 2) * terms


def _levels(operations: Sequence[Operation], *, late: bool) -> list[int]:
    writer = {operation.c: number for number, operation in enumerate(operations)}
    levels = [0] * len(operations)
    needs = [[writer[array] for array in operation[:2] if array and array in writer] for operation in operations]
    for number, needed in enumerate(needs):
        levels[number] = 1 + max((levels[other] for other in needed), default=0)
    if late:
        levels = [max(levels, default=0)] * len(operations)
        for number in range(len(operations) - 1, -1, -1):
            for other in needs[number]:
                levels[other] = min(levels[other], levels[number] - 1)
    return levels


def _terms(layout: Layout, operation: Operation) -> tuple[int, int]:
    """How many products an operation adds up, and how many for each cell of the result."""
    terms = layout.size(operation.a.mask | operation.b_mask)
    return terms, terms // layout.size(operation.c.mask)


def _single_ns(layout: Layout, operation: Operation) -> float:
    """Predicted nanoseconds of the operation when it is run alone."""
    loops = layout.loops(operation)
    if operation.b is not None and any(not loop.c for loop in loops):
        return best_recipe(loops, NUMPY).ns
    terms = math.prod(loop.size for loop in loops)
    row = _PRICE["sum_row"] if operation.b is None and any(not loop.c for loop in loops) else _PRICE["product_row"]
    return _PRICE["single_call"] + row * terms / (loops[-1].size if loops else 1) + _PRICE["single_cell"] * terms


def gathered_step(layout: Layout, buffer: np.ndarray, group: Group) -> Callable[[], object]:
    """Return one step that runs all operations of a group of small ones."""
    length = _terms(layout, group[0])[1]
    parts = [_indices(layout, operation, length) for operation in group]
    first, target = (np.concatenate([part[which] for part in parts], axis=-1) for which in (0, 2))
    second = np.concatenate([part[1] for part in parts], axis=-1) if group[0].b is not None else None
    start, cells = int(target[0]), len(target)
    where = slice(start, start + cells) if np.array_equal(target, np.arange(start, start + cells)) else target
    left, right = np.empty(first.shape), np.empty(first.shape)

    def run() -> None:
        buffer.take(first, out=left, mode="clip")
        if second is not None:
            buffer.take(second, out=right, mode="clip")
            np.multiply(left, right, left)
        buffer[where] = np.add.reduce(left, 0) if length > 1 else left[0]

    return run


def _indices(layout: Layout, operation: Operation, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions in the buffer of the factors of all products, one column per cell of the result, and of the result."""
    a, b, c, _ = operation
    kept = layout.positions(c.mask)
    summed = layout.positions((a.mask | operation.b_mask) & ~c.mask)
    axes = [*summed, *kept]
    places = [_spread(layout, array, axes).reshape(length, -1) for array in (a, b or a)]
    return places[0], places[1], _spread(layout, c, kept).ravel()


def _spread(layout: Layout, array: Array, axes: Sequence[int]) -> np.ndarray:
    """The position in the buffer of an array's cell for every combination of the variables `axes`."""
    stored = layout.positions(array.mask)
    places = array.offset + np.arange(layout.size(array.mask)).reshape(layout.shape(array.mask))
    moved = places.transpose([stored.index(position) for position in axes if position in stored])
    sizes = layout.plan.domain.sizes
    return np.broadcast_to(
        moved.reshape(layout.broadcast_shape(array.mask, axes)), [sizes[position] for position in axes]
    )


Step = Callable[[], object]

# Groups keep arrays longer, and in larger models memory matters more than the time of single calls.
_MAX_CELLS_IN_GROUPS = 1 << 20
# Largest number of products that are written out before they are summed.
_MAX_PRODUCTS = 1 << 16


class NumpyExecutor(Executor):
    """Runs both sweeps of a layout with NumPy."""

    def __init__(self, layout: Layout, impossible: np.ndarray | None = None, *, reuse: bool = False) -> None:
        groups: list[Group] = [[operation] for operation in (*layout.forward, *layout.adjoint)]
        forward = len(groups) - len(layout.adjoint)
        if reuse and layout.cells <= _MAX_CELLS_IN_GROUPS:
            first, second = grouped(layout, layout.forward, late=False), grouped(layout, layout.adjoint, late=True)
            groups, forward = [*first, *second], len(first)
            layout = replace(layout, forward=_flat(first), adjoint=_flat(second))
            layout = with_reuse(layout, recompute=False)
        elif reuse:
            layout = with_reuse(layout)
            groups = [[operation] for operation in (*layout.forward, *layout.adjoint)]
        super().__init__(layout, impossible)
        # All steps share one scratch array for copied operands, as steps run one by one.
        self._scratch = np.empty(
            max((_scratch_cells(layout, op) for op in (*layout.forward, *layout.adjoint)), default=0)
        )
        self._starts = np.array(layout.leaf_offsets[:-1], dtype=np.intp)
        self._leaf_of = np.repeat(np.arange(len(layout.leaf_masks)), np.diff(layout.leaf_offsets))
        self._alone = np.flatnonzero(np.bincount(self.component_of, minlength=layout.components) == 1)
        operations = iter((*layout.forward, *layout.adjoint))
        placed = [[next(operations) for _ in group] for group in groups]
        steps = [
            gathered_step(layout, self.buffer, group) if is_gathered(layout, group) else self._step(group[0])
            for group in placed
        ]
        self._forward_steps, self._adjoint_steps = steps[:forward], steps[forward:]

    def sweep(self, potentials: np.ndarray) -> float:
        log_z = self.forward(potentials)
        run_all(self._adjoint_steps)
        # The caller notices a normaliser of 0; its marginals are zeros here, to avoid warnings of a division by 0.
        scale = 1.0 / np.where(self.normalisers > TINY, self.normalisers, np.inf)
        for component in self._alone:
            part = self.layout.leaf_part(self.layout.component_of.index(component))
            self.marginals[part] = self.factors[part]
        self.marginals *= scale[0] if len(scale) == 1 else scale[self.component_of][self._leaf_of]
        return log_z

    def forward(self, potentials: np.ndarray) -> float:
        """Run the forward sweep alone, and return the log-normaliser."""
        shift = np.maximum.reduceat(potentials, self._starts)
        shift += self.log_sizes
        np.take(shift, self._leaf_of, out=self.factors, mode="clip")
        np.subtract(potentials, self.factors, out=self.factors)
        np.exp(self.factors, out=self.factors)
        if self.impossible is not None:
            self.factors[self.impossible] = 0.0
        run_all(self._forward_steps)
        logs = [math.log(value) if value > 0.0 else -math.inf for value in self.normalisers.tolist()]
        return float(shift.sum()) + sum(logs)

    def values_from(self, factors: np.ndarray) -> None:
        """Run the forward sweep on factors that are scaled already."""
        self.factors[:] = factors
        run_all(self._forward_steps)

    def _step(self, operation: Operation) -> Step:
        layout, buffer = self.layout, self.buffer
        loops = layout.loops(operation)
        a, c = buffer[operation.a.offset :], buffer[operation.c.offset :]
        if operation.b is None:
            return _sum_step(loops, a, c)
        b = buffer[operation.b.offset :]
        if operation.divide:
            cells = layout.size(operation.c.mask)
            divisor = self._scratch[:cells]
            return partial(run_all, [
                partial(np.add, b[:cells], TINY, divisor), partial(np.divide, a[:cells], divisor, c[:cells])
            ])  # fmt: skip
        if all(loop.c for loop in loops):
            return partial(np.multiply, _view(a, loops, 1), _view(b, loops, 2), _view(c, loops, 3))
        recipe = best_recipe(loops, NUMPY)
        if recipe.as_matrix:
            return self._matmul_step(recipe, a, b, c)
        if math.prod(loop.size for loop in loops) <= _MAX_PRODUCTS:
            return self._product_step(loops, a, b, c)
        return _einsum_step(loops, a, b, c)

    def _product_step(self, loops: Sequence[Loop], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Step:
        """A step that writes all products to scratch, then sums by a product with ones, which is faster than einsum."""
        kept, summed = [loop for loop in loops if loop.c], [loop for loop in loops if not loop.c]
        rows, columns = (math.prod(loop.size for loop in part) for part in (kept, summed))
        place = self._scratch[: rows * columns]
        inner_kept = bool(loops[-1].c)
        ordered = [*summed, *kept] if inner_kept else [*kept, *summed]
        products = place.reshape([loop.size for loop in ordered])
        multiply = partial(np.multiply, _view(a, ordered, 1), _view(b, ordered, 2), products)
        if inner_kept:
            add = partial(np.matmul, np.ones(columns), place.reshape(columns, rows), c[:rows])
        else:
            add = partial(np.matmul, place.reshape(rows, columns), np.ones(columns), c[:rows])
        return partial(run_all, [multiply, add])

    def _matmul_step(self, recipe: Recipe, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Step:
        outer, m, k, n, copied = recipe.outer, recipe.m, recipe.k, recipe.n, recipe.copied
        views, used = [], 0
        before: list[Step] = []
        after: list[Step] = []
        for which, (array, rows, columns) in enumerate(((a, m, k), (b, k, n), (c, m, n)), start=1):
            shape = [loop.size if loop[which] else 1 for loop in outer]
            inner = [math.prod(loop.size for loop in rows), math.prod(loop.size for loop in columns)]
            if not copied[which - 1]:
                strides = [loop[which] for loop in outer] + [_stride(rows, which), _stride(columns, which)]
                views.append(_strided(array, shape + inner, strides))
                continue
            loops = [loop for loop in outer if loop[which]] + [*rows, *columns]
            cells = math.prod(loop.size for loop in loops)
            place, used = self._scratch[used : used + cells], used + cells
            block = place.reshape([loop.size for loop in loops])
            view = _strided(array, block.shape, [loop[which] for loop in loops])
            (after if which == 3 else before).append(
                partial(np.copyto, view, block) if which == 3 else partial(np.copyto, block, view)
            )
            views.append(place.reshape(shape + inner))
        product = partial(np.matmul, *views)
        if not before and not after:
            return product
        return partial(run_all, [*before, product, *after])


def _scratch_cells(layout: Layout, operation: Operation) -> int:
    """Scratch cells that a step for this operation needs."""
    if operation.b is None or operation.divide:
        return layout.size(operation.c.mask) if operation.divide else 0
    loops = layout.loops(operation)
    if all(loop.c for loop in loops):
        return 0
    recipe = best_recipe(loops, NUMPY)
    if not recipe.as_matrix:
        terms = math.prod(loop.size for loop in loops)
        return terms if terms <= _MAX_PRODUCTS else 0
    packed = (which for which, copied in enumerate(recipe.copied, start=1) if copied)
    return sum(math.prod(loop.size for loop in loops if loop[which]) for which in packed)


def _stride(loops: Sequence[Loop], which: int) -> int:
    return loops[-1][which] if loops else 1


def _strided(array: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    return as_strided(array, tuple(shape), tuple(stride * array.itemsize for stride in strides))


def _view(array: np.ndarray, loops: Sequence[Loop], which: int) -> np.ndarray:
    return _strided(array, [loop.size if loop[which] else 1 for loop in loops], [loop[which] for loop in loops])


def _sum_step(loops: Sequence[Loop], a: np.ndarray, c: np.ndarray) -> Step:
    axes = tuple(place for place, loop in enumerate(loops) if not loop.c)
    kept = [loop for loop in loops if loop.c]
    add: Any = np.add.reduce
    return partial(add, _view(a, loops, 1), axes, None, _view(c, kept, 3))


def _einsum_step(loops: Sequence[Loop], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Step:
    operands: list[object] = []
    for which, array in ((1, a), (2, b)):
        places = [place for place, loop in enumerate(loops) if loop[which]]
        operands += [_view(array, [loops[place] for place in places], which), places]
    places = [place for place, loop in enumerate(loops) if loop.c]
    return partial(np.einsum, *operands, places, out=_view(c, [loops[place] for place in places], 3))


def _flat(groups: Sequence[Group]) -> tuple[Operation, ...]:
    return tuple(operation for group in groups for operation in group)


def run_all(steps: Sequence[Step]) -> None:
    for step in steps:
        step()
