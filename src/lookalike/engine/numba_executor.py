"""Runs a layout's operations in one compiled interpreter loop, as instructions in a flat table of integers.

The kernel is compiled once per machine and serves every model: a new structure only needs a new table.

Costly instructions are cut in two halves that two threads run at the same time. The halves split an outer loop of the
result, so they write different cells and no sum is cut: the numbers are the same as on one thread. Starting the second
thread takes some ten microseconds, so only instructions that are predicted to take much longer are cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lookalike.engine.executor import Executor, second_thread, threads_allowed
from lookalike.engine.numba_kernels import (
    EXP_BLOCK,
    KIND_CELLS,
    KIND_COPY,
    KIND_LOOPS,
    KIND_MATRIX,
    NO_TRANSPOSE,
    TRANSPOSE,
    fill_factors,
    fill_marginals,
    run,
)
from lookalike.engine.plan import Layout, Loop, Operation, aligned
from lookalike.engine.recipes import NUMBA, Recipe, best_recipe

WORTH_TWO_THREADS_NS = 3e5
_MATRIX_TABLE, _COPY_TABLE = 13, 7


class Segment(NamedTuple):
    """The instructions from `first` up to, not including, `last`; or one instruction as `halves` for two threads."""

    first: int
    last: int
    halves: tuple[np.ndarray, np.ndarray] | None


def halved(instruction: list[int]) -> tuple[list[int], list[int]] | None:
    """Return the instruction on the two halves of its first outer loop, or None if it has no such loop."""
    kind = instruction[0]
    if kind == KIND_CELLS:
        return _cut(instruction, 4, ((1, 1), (2, 1), (3, 1)))
    if kind == KIND_MATRIX and instruction[4] > 0:
        at = _MATRIX_TABLE
        return _cut(instruction, at, tuple((1 + which, instruction[at + 1 + which]) for which in range(3)))
    if kind == KIND_COPY and instruction[3] > 0:
        at = _COPY_TABLE
        return _cut(instruction, at, tuple((1 + which, instruction[at + 1 + which]) for which in range(2)))
    return None


def _cut(instruction: list[int], size_at: int, moved: tuple[tuple[int, int], ...]):
    """Two copies, the second with its offsets (first of each pair in `moved`) advanced by half a loop's strides."""
    size = instruction[size_at]
    if size < 2:
        return None
    first, second = instruction.copy(), instruction.copy()
    first[size_at], second[size_at] = size // 2, size - size // 2
    for at, stride in moved:
        second[at] += (size // 2) * stride
    return first, second


def segments(code: np.ndarray, starts: np.ndarray, costly: list[bool]) -> list[Segment]:
    """Return the program as segments for one thread and costly instructions for two."""
    ends = np.append(starts[1:], len(code))
    found: list[Segment] = []
    begin = 0
    for number, is_costly in enumerate(costly):
        halves = halved(code[starts[number] : ends[number]].tolist()) if is_costly else None
        if halves is None:
            continue
        if begin < number:
            found.append(Segment(begin, number, None))
        one, two = (np.array(half, dtype=np.int64) for half in halves)
        found.append(Segment(number, number + 1, (one, two)))
        begin = number + 1
    if begin < len(costly):
        found.append(Segment(begin, len(costly), None))
    return found


_ALONE = np.zeros(1, dtype=np.int64)


def run_segments(buffer: np.ndarray, code: np.ndarray, starts: np.ndarray, parts: list[Segment]) -> None:
    """Run the parts one after the other, halves at the same time."""
    for first, last, halves in parts:
        if halves is None:
            run(buffer, code, starts[first:last], last - first)
            continue
        waiting = second_thread().submit(run, buffer, halves[1], _ALONE, 1)
        try:
            run(buffer, halves[0], _ALONE, 1)
        finally:
            waiting.result()


class NumbaExecutor(Executor):
    """Both sweeps of a layout in three compiled calls, or a few more where two threads share costly instructions."""

    def __init__(self, layout: Layout, impossible: np.ndarray | None = None) -> None:
        super().__init__(layout, impossible, scratch_cells(layout))
        self._code, self._starts, costly = _program(layout, (*layout.forward, *layout.adjoint))
        self._segments: list[Segment] = []
        if any(costly) and threads_allowed() > 1:
            self._segments = segments(self._code, self._starts, costly)
        self._offsets = np.array(layout.leaf_offsets, dtype=np.int64)
        self._zeros = np.zeros(0, dtype=np.int64) if impossible is None else impossible.astype(np.int64)
        self._alone = np.bincount(self.component_of, minlength=layout.components) == 1
        self._powers = np.empty(EXP_BLOCK, dtype=np.int64)

    def sweep(self, potentials: np.ndarray) -> float:
        shift = fill_factors(potentials, self.buffer, self._offsets, self.log_sizes, self._zeros, self._powers)
        if self._segments:
            run_segments(self.buffer, self._code, self._starts, self._segments)
        else:
            run(self.buffer, self._code, self._starts, len(self._starts))
        return shift + fill_marginals(self.buffer, self._offsets, self.component_of, self._alone)


def scratch_cells(layout: Layout) -> int:
    """Return the largest number of scratch cells that the copied operands of one instruction need."""
    largest = 0
    for operation in (*layout.forward, *layout.adjoint):
        recipe = best_recipe(layout.loops(operation), NUMBA)
        needed = 0
        for which, copied in enumerate(recipe.copied, start=1):
            if copied:
                needed += math.prod(loop.size for loop in recipe.loops if loop[which]) + 8
        largest = max(largest, needed)
    return largest


def _program(layout: Layout, operations: Sequence[Operation]) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """The operations as one integer vector, where in it each instruction starts, and which are worth two threads."""
    code: list[int] = []
    starts: list[int] = []
    costly: list[bool] = []
    for operation in operations:
        recipe = best_recipe(layout.loops(operation), NUMBA)
        for instruction in _instructions(layout, operation, recipe):
            starts.append(len(code))
            costly.append(recipe.ns > WORTH_TWO_THREADS_NS)
            code += instruction
    return np.array(code, dtype=np.int64), np.array(starts, dtype=np.int64), costly


def _instructions(layout: Layout, operation: Operation, recipe: Recipe) -> list[list[int]]:
    offsets = [operation.a.offset, 0 if operation.b is None else operation.b.offset, operation.c.offset]
    if operation.b is not None and operation.a.mask == operation.b.mask == operation.c.mask:
        return [[KIND_CELLS, *offsets, layout.size(operation.c.mask), int(operation.divide)]]
    if not recipe.as_matrix:
        return [_loop_instruction(recipe.loops, offsets, operation.b is None)]
    before, after = [], []
    strides: list[dict[Loop, int]] = []
    scratch = layout.cells
    parts = ((recipe.m, recipe.k), (recipe.k, recipe.n), (recipe.m, recipe.n))
    for which, (rows, columns) in enumerate(parts, start=1):
        mine = [loop for loop in recipe.outer if loop[which]] + [*rows, *columns]
        if not recipe.copied[which - 1]:
            strides.append({loop: loop[which] for loop in mine})
            continue
        packed, step = {}, 1
        for loop in reversed(mine):
            packed[loop] = step
            step *= loop.size
        strides.append(packed)
        moves = [(loop.size, loop[which], packed[loop]) for loop in sorted(mine, key=lambda loop: -packed[loop])]
        copy = _copy_instruction(moves, offsets[which - 1], scratch, backwards=which == 3)
        (after if which == 3 else before).append(copy)
        offsets[which - 1] = scratch
        scratch += aligned(step)
    return [*before, _matrix_instruction(recipe, offsets, strides), *after]


def _copy_instruction(moves: list[tuple[int, int, int]], outside: int, inside: int, *, backwards: bool) -> list[int]:
    """An instruction that copies an array to contiguous scratch, or back."""
    moves = moves or [(1, 0, 0)]
    source, target = (2, 1) if backwards else (1, 2)
    code = [KIND_COPY, inside if backwards else outside, outside if backwards else inside, len(moves) - 1]
    code += [moves[-1][0], moves[-1][source], moves[-1][target]]
    for move in moves[:-1]:
        code += [move[0], move[source], move[target]]
    return code


def _matrix_instruction(recipe: Recipe, offsets: list[int], strides: list[dict[Loop, int]]) -> list[int]:
    def extent(loops: Sequence[Loop]) -> int:
        return math.prod(loop.size for loop in loops)

    def stride(loops: Sequence[Loop], which: int) -> int:
        return strides[which][loops[-1]] if loops else 1

    m, n, k = extent(recipe.m), extent(recipe.n), extent(recipe.k)
    am, ak = stride(recipe.m, 0), stride(recipe.k, 0)
    bk, bn = stride(recipe.k, 1), stride(recipe.n, 1)
    cm, cn = stride(recipe.m, 2), stride(recipe.n, 2)
    order = (0, 1, 2)
    if n > 1 and cn != 1:
        # Exchanging the two factors makes the rows of C contiguous.
        m, n, am, ak, bk, bn, cm, cn = n, m, bn, bk, ak, am, cn, cm
        order = (1, 0, 2)
    a_plain = ak == 1 or k == 1
    b_plain = bn == 1 or n == 1
    code = [KIND_MATRIX, offsets[order[0]], offsets[order[1]], offsets[2], len(recipe.outer), m, n, k]
    code += [NO_TRANSPOSE if a_plain else TRANSPOSE, NO_TRANSPOSE if b_plain else TRANSPOSE]
    code += [max(am, k) if a_plain else max(ak, m), max(bk, n) if b_plain else max(bn, k), max(cm, n)]
    for loop in recipe.outer:
        code += [loop.size, *(strides[which].get(loop, 0) for which in order)]
    return code


def _loop_instruction(loops: Sequence[Loop], offsets: list[int], is_sum: bool) -> list[int]:
    padded = [*([Loop(1, 0, 0, 0)] * (2 - len(loops))), *loops]
    inner, middle, outer = padded[-1], padded[-2], padded[:-2]
    a, b = (2, 1) if not inner.a and inner.b else (1, 2)
    summed = [loop for loop in loops if not loop.c]
    cells = math.prod(loop.size for loop in loops if loop.c)
    # C is written once if nothing is summed, or if only the innermost loop is.
    once = not summed or summed == [inner]
    code = [KIND_LOOPS, offsets[a - 1], offsets[b - 1], offsets[2], len(outer), int(is_sum), 0 if once else cells]
    code += [inner.size, inner[a], inner[b], inner.c, middle.size, middle[a], middle[b], middle.c]
    for loop in outer:
        code += [loop.size, loop[a], loop[b], loop.c]
    return code
