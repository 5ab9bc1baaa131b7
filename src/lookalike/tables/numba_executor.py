"""Runs a layout's operations in one compiled interpreter loop: a flat table of integers says what to do.

The kernel is compiled once per machine and serves every model: a new structure only makes a new table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numba.core import types

from lookalike.tables.lowering import Layout, Loop, Operation
from lookalike.tables.recipes import LOOPS, MATRIX, Recipe, compiled_recipe

# The product routine behind np.dot, taken directly because it accepts leading dimensions and offsets.
_gemm = types.ExternalFunction(
    "numba_xxgemm",
    types.int32(*([types.char] * 3), *([types.intp] * 3), types.intp, *([types.intp] * 4), types.intp, *([types.intp] * 2)),
)

_KIND_LOOPS, _KIND_MATRIX, _KIND_COPY = 0, 1, 2
_NO_TRANSPOSE, _TRANSPOSE, _DOUBLE = ord("N"), ord("T"), ord("d")


class NumbaExecutor:
    """Both sweeps of a layout on a buffer of `layout.cells + scratch_cells(layout)` cells.

    The cells beyond the layout's own are room for packed operands.
    """

    def __init__(self, layout: Layout, buffer: np.ndarray) -> None:
        self._buffer = buffer
        self._constants = np.array([1.0, 0.0])
        self._forward = _program(layout, layout.forward)
        self._adjoint = _program(layout, layout.adjoint)

    def run_forward(self) -> None:
        _run(self._buffer, *self._forward, self._constants)

    def run_adjoint(self) -> None:
        _run(self._buffer, *self._adjoint, self._constants)


def scratch_cells(layout: Layout) -> int:
    """How many cells the packed operands of one instruction need at most."""
    most = 0
    for operation in (*layout.forward, *layout.adjoint):
        recipe = compiled_recipe(layout.loops(operation))
        needed = 0
        for which, copied in enumerate(recipe.copied, start=1):
            if copied:
                needed += math.prod(loop.size for loop in recipe.loops if loop[which]) + 8
        most = max(most, needed)
    return most


def _program(layout: Layout, operations: Sequence[Operation]) -> tuple[np.ndarray, np.ndarray]:
    """The operations as one integer vector and the place in it where each instruction starts."""
    code: list[int] = []
    starts = []
    for operation in operations:
        loops = layout.loops(operation)
        recipe = compiled_recipe(loops)
        for instruction in _instructions(layout, operation, recipe):
            starts.append(len(code))
            code += instruction
    return np.array(code, dtype=np.int64), np.array(starts, dtype=np.int64)


def _instructions(layout: Layout, operation: Operation, recipe: Recipe) -> list[list[int]]:
    b_offset = operation.b.offset if operation.b is not None else 0
    offsets = [operation.a.offset, b_offset, operation.c.offset]
    if recipe.kind == LOOPS:
        return [_loop_instruction(recipe.loops, offsets, operation.b is None)]
    before, after = [], []
    strides: list[dict[Loop, int]] = []
    scratch = layout.cells
    for which, (rows, columns) in enumerate(((recipe.m, recipe.k), (recipe.k, recipe.n), (recipe.m, recipe.n)), start=1):
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
        scratch += -(-step // 8) * 8
    return [*before, _matrix_instruction(recipe, offsets, strides), *after]


def _copy_instruction(moves: list[tuple[int, int, int]], outside: int, inside: int, *, backwards: bool) -> list[int]:
    """Copies an array to its packed place, or back."""
    moves = moves or [(1, 0, 0)]
    source, target = (2, 1) if backwards else (1, 2)
    code = [_KIND_COPY, inside if backwards else outside, outside if backwards else inside, len(moves) - 1]
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
        # Rows of C are contiguous after exchanging the two factors.
        m, n, am, ak, bk, bn, cm, cn = n, m, bn, bk, ak, am, cn, cm
        order = (1, 0, 2)
    a_plain = ak == 1 or k == 1
    b_plain = bn == 1 or n == 1
    code = [_KIND_MATRIX, offsets[order[0]], offsets[order[1]], offsets[2], len(recipe.outer), m, n, k]
    code += [_NO_TRANSPOSE if a_plain else _TRANSPOSE, _NO_TRANSPOSE if b_plain else _TRANSPOSE]
    code += [max(am, k) if a_plain else max(ak, m), max(bk, n) if b_plain else max(bn, k), max(cm, n)]
    for loop in recipe.outer:
        code += [loop.size, *(strides[which].get(loop, 0) for which in order)]
    return code


def _loop_instruction(loops: Sequence[Loop], offsets: list[int], is_sum: bool) -> list[int]:
    padded = [*([Loop(1, 0, 0, 0)] * (2 - len(loops))), *loops]
    inner, middle, outer = padded[-1], padded[-2], padded[:-2]
    a, b = (1, 2)
    if not inner.a and inner.b:
        a, b = 2, 1
    summed = [loop for loop in loops if not loop.c]
    cells = math.prod(loop.size for loop in loops if loop.c)
    # C is written once if nothing is summed, or if only the innermost loop is.
    once = not summed or (summed == [inner])
    code = [_KIND_LOOPS, offsets[a - 1], offsets[b - 1], offsets[2], len(outer), int(is_sum), 0 if once else cells]
    code += [inner.size, inner[a], inner[b], inner.c, middle.size, middle[a], middle[b], middle.c]
    for loop in outer:
        code += [loop.size, loop[a], loop[b], loop.c]
    return code


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _run(buffer, code, starts, constants):  # pragma: no cover - compiled
    counter = np.zeros(64, dtype=np.int64)
    for start in starts:
        if code[start] == _KIND_LOOPS:
            _run_loops(buffer, code, start, counter)
        elif code[start] == _KIND_MATRIX:
            _run_matrix(buffer, code, start, counter, constants)
        else:
            _run_copy(buffer, code, start, counter)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _run_matrix(buffer, code, start, counter, constants):  # pragma: no cover - compiled
    a, b, c, outer = code[start + 1], code[start + 2], code[start + 3], code[start + 4]
    m, n, k = code[start + 5], code[start + 6], code[start + 7]
    lda, ldb, ldc = code[start + 10], code[start + 11], code[start + 12]
    base = buffer.ctypes.data
    one = constants.ctypes.data
    table = start + 13
    total = 1
    for d in range(outer):
        counter[d] = 0
        total *= code[table + 4 * d]
    for _ in range(total):
        _gemm(
            _DOUBLE, code[start + 9], code[start + 8], n, m, k, one, base + 8 * b, ldb, base + 8 * a, lda, one + 8,
            base + 8 * c, ldc,
        )  # fmt: skip
        for d in range(outer - 1, -1, -1):
            at = table + 4 * d
            counter[d] += 1
            a += code[at + 1]
            b += code[at + 2]
            c += code[at + 3]
            if counter[d] < code[at]:
                break
            a -= code[at] * code[at + 1]
            b -= code[at] * code[at + 2]
            c -= code[at] * code[at + 3]
            counter[d] = 0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _run_copy(buffer, code, start, counter):  # pragma: no cover - compiled
    source, target, outer = code[start + 1], code[start + 2], code[start + 3]
    size, from_step, to_step = code[start + 4], code[start + 5], code[start + 6]
    table = start + 7
    total = 1
    for d in range(outer):
        counter[d] = 0
        total *= code[table + 3 * d]
    for _ in range(total):
        if from_step == 1 and to_step == 1:
            buffer[target : target + size] = buffer[source : source + size]
        else:
            for i in range(size):
                buffer[target + i * to_step] = buffer[source + i * from_step]
        for d in range(outer - 1, -1, -1):
            at = table + 3 * d
            counter[d] += 1
            source += code[at + 1]
            target += code[at + 2]
            if counter[d] < code[at]:
                break
            source -= code[at] * code[at + 1]
            target -= code[at] * code[at + 2]
            counter[d] = 0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _run_loops(buffer, code, start, counter):  # pragma: no cover - compiled
    a, b, c, outer = code[start + 1], code[start + 2], code[start + 3], code[start + 4]
    is_sum, clear = code[start + 5], code[start + 6]
    size, sa, sb, sc = code[start + 7], code[start + 8], code[start + 9], code[start + 10]
    middle, ma, mb, mc = code[start + 11], code[start + 12], code[start + 13], code[start + 14]
    if clear:
        buffer[c : c + clear] = 0.0
    table = start + 15
    total = 1
    for d in range(outer):
        counter[d] = 0
        total *= code[table + 4 * d]
    for _ in range(total):
        x, y, z = a, b, c
        for _ in range(middle):
            if is_sum:
                _sum_row(buffer, x, z, size, sc, clear)
            elif sc == 0:
                _dot_row(buffer, x, y, z, size, clear)
            elif sb == 0:
                _scale_row(buffer, x, y, z, size, clear)
            else:
                _times_row(buffer, x, y, z, size, clear)
            x += ma
            y += mb
            z += mc
        for d in range(outer - 1, -1, -1):
            at = table + 4 * d
            counter[d] += 1
            a += code[at + 1]
            b += code[at + 2]
            c += code[at + 3]
            if counter[d] < code[at]:
                break
            a -= code[at] * code[at + 1]
            b -= code[at] * code[at + 2]
            c -= code[at] * code[at + 3]
            counter[d] = 0


@njit(cache=True, nogil=True, inline="always")
def _sum_row(buffer, x, z, size, sc, add):  # pragma: no cover - compiled
    row = buffer[x : x + size]
    if sc == 0:
        total = 0.0
        for i in range(size):
            total += row[i]
        buffer[z] = total + (buffer[z] if add else 0.0)
        return
    out = buffer[z : z + size]
    if add:
        for i in range(size):
            out[i] += row[i]
    else:
        for i in range(size):
            out[i] = row[i]


@njit(cache=True, nogil=True, inline="always")
def _dot_row(buffer, x, y, z, size, add):  # pragma: no cover - compiled
    one, two = buffer[x : x + size], buffer[y : y + size]
    total = 0.0
    for i in range(size):
        total += one[i] * two[i]
    buffer[z] = total + (buffer[z] if add else 0.0)


@njit(cache=True, nogil=True, inline="always")
def _scale_row(buffer, x, y, z, size, add):  # pragma: no cover - compiled
    row, out, factor = buffer[x : x + size], buffer[z : z + size], buffer[y]
    if add:
        for i in range(size):
            out[i] += row[i] * factor
    else:
        for i in range(size):
            out[i] = row[i] * factor


@njit(cache=True, nogil=True, inline="always")
def _times_row(buffer, x, y, z, size, add):  # pragma: no cover - compiled
    one, two, out = buffer[x : x + size], buffer[y : y + size], buffer[z : z + size]
    if add:
        for i in range(size):
            out[i] += one[i] * two[i]
    else:
        for i in range(size):
            out[i] = one[i] * two[i]
