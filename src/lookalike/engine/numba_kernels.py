"""The compiled interpreter, one loop over a table of instructions on one buffer of doubles; and the loops of queries.

Compiled once per machine. There are several functions because one large one would take five times as long to compile.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numba import njit
from numba.core import types

from lookalike.engine.executor import TINY
from lookalike.guards import jitted

# The matrix product behind np.dot, called directly because it accepts leading dimensions and offsets.
_gemm = types.ExternalFunction("numba_xxgemm", types.int32(*([types.char] * 3), *([types.intp] * 11)))

# Lets the compiler regroup sums into vectors; infinities and not-a-numbers keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}
EXP_BLOCK = 512
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
KIND_LOOPS, KIND_MATRIX, KIND_COPY, KIND_CELLS = 0, 1, 2, 3
NO_TRANSPOSE, TRANSPOSE, _DOUBLE = ord("N"), ord("T"), ord("d")


@jitted
def fill_factors(potentials, buffer, offsets, log_sizes, zeros, powers):
    """Write the leaf factors, and return the sum of the amounts by which they were shifted."""
    shift = 0.0
    for leaf in range(len(log_sizes)):
        part = potentials[offsets[leaf] : offsets[leaf + 1]]
        down = _largest(part) + log_sizes[leaf]
        shift += down
        _exponentials(part, down, buffer[offsets[leaf] : offsets[leaf + 1]], powers)
    for i in range(len(zeros)):
        buffer[zeros[i]] = 0.0
    return shift


@jitted
def fill_marginals(buffer, offsets, component_of, alone):
    """Divide the results of the adjoint sweep by the normalisers, and return the sum of their logarithms."""
    cells = offsets[-1]
    log_z = 0.0
    for component in range(len(alone)):
        normaliser = buffer[2 * cells + component]
        log_z += math.log(normaliser) if normaliser > 0.0 else -np.inf
    for leaf in range(len(component_of)):
        component = component_of[leaf]
        normaliser = buffer[2 * cells + component]
        scale = 1.0 / normaliser if normaliser > TINY else 0.0
        source = 0 if alone[component] else cells
        start, end = offsets[leaf], offsets[leaf + 1]
        out, values = buffer[cells + start : cells + end], buffer[source + start : source + end]
        for i in range(end - start):
            out[i] = values[i] * scale
    return log_z


@partial(jitted, fastmath={"nnan", "nsz", "reassoc"})
def _largest(values):
    """Largest of finite values. The promise that none is not-a-number lets the compiler use vectors."""
    high = values[0]
    for value in values:
        high = value if value > high else high
    return high


@partial(jitted, fastmath={"contract"})
def _exponentials(values, shift, out, powers):
    """exp(values - shift), not below exp(-700): argument reduction and a Taylor sum, which compile to vector code.

    The library's exp is called once per number and takes five times as long. The relative error is below 4e-16.
    """
    scale = powers.view(np.float64)
    for first in range(0, len(values), EXP_BLOCK):
        count = min(EXP_BLOCK, len(values) - first)
        part, target = values[first : first + count], out[first : first + count]
        for i in range(count):
            x = max(part[i] - shift, -700.0)
            power = np.floor(x * _LOG2_E + 0.5)
            r = (x - power * _LN2_HIGH) - power * _LN2_LOW
            p = 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            target[i] = p * r + 1.0
            powers[i] = (np.int64(np.int32(power)) + 1023) << 52
        for i in range(count):
            target[i] *= scale[i]


@partial(jitted, fastmath=_FAST)
def run(buffer, code, starts, steps):
    """Run the first `steps` instructions, which start at `starts` in `code`."""
    counter = np.zeros(64, dtype=np.int64)
    constants = np.ones(2)
    constants[1] = 0.0
    for step in range(steps):
        start = starts[step]
        if code[start] == KIND_LOOPS:
            _run_loops(buffer, code, start, counter)
        elif code[start] == KIND_MATRIX:
            _run_matrix(buffer, code, start, counter, constants)
        elif code[start] == KIND_CELLS:
            _run_cells(buffer, code, start)
        else:
            _run_copy(buffer, code, start, counter)


@njit(inline="always")
def _outer_steps(code, table, outer, width, counter):
    """Set the counters of the outer loops to 0 and return the product of their lengths."""
    total = 1
    for d in range(outer):
        counter[d] = 0
        total *= code[table + width * d]
    return total


@njit(inline="always")
def _next_places(code, table, outer, counter, a, b, c):
    """The places in three arrays after one more step of the innermost of the outer loops that is not at its end."""
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
    return a, b, c


@njit(inline="always")
def _run_matrix(buffer, code, start, counter, constants):
    a, b, c, outer = code[start + 1], code[start + 2], code[start + 3], code[start + 4]
    m, n, k = code[start + 5], code[start + 6], code[start + 7]
    lda, ldb, ldc = code[start + 10], code[start + 11], code[start + 12]
    base = buffer.ctypes.data
    one = constants.ctypes.data
    table = start + 13
    for _ in range(_outer_steps(code, table, outer, 4, counter)):
        _gemm(
            _DOUBLE, code[start + 9], code[start + 8], n, m, k, one, base + 8 * b, ldb, base + 8 * a, lda, one + 8,
            base + 8 * c, ldc,
        )  # fmt: skip
        a, b, c = _next_places(code, table, outer, counter, a, b, c)


@njit(inline="always")
def _run_cells(buffer, code, start):
    """C = A * B or A / B cell by cell. Where C is A itself this is written out, so that the compiler uses vectors."""
    a, c, size = code[start + 1], code[start + 3], code[start + 4]
    one, two, out = buffer[a : a + size], buffer[code[start + 2] : code[start + 2] + size], buffer[c : c + size]
    if code[start + 5]:
        if a == c:
            for i in range(size):
                out[i] /= two[i] + TINY
        else:
            for i in range(size):
                out[i] = one[i] / (two[i] + TINY)
    elif a == c:
        for i in range(size):
            out[i] *= two[i]
    else:
        for i in range(size):
            out[i] = one[i] * two[i]


@njit(inline="always")
def _run_copy(buffer, code, start, counter):
    source, target, outer = code[start + 1], code[start + 2], code[start + 3]
    size, from_step, to_step = code[start + 4], code[start + 5], code[start + 6]
    table = start + 7
    for _ in range(_outer_steps(code, table, outer, 3, counter)):
        if from_step == 1 and to_step == 1:
            row, out = buffer[source : source + size], buffer[target : target + size]
            for i in range(size):
                out[i] = row[i]
        else:
            # Unsigned indices avoid numba's test for negative ones.
            for i in range(size):
                buffer[np.uintp(target + i * to_step)] = buffer[np.uintp(source + i * from_step)]
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


@njit(inline="always")
def _run_loops(buffer, code, start, counter):
    a, b, c, outer = code[start + 1], code[start + 2], code[start + 3], code[start + 4]
    is_sum, clear = code[start + 5], code[start + 6]
    size, sb, sc = code[start + 7], code[start + 9], code[start + 10]
    middle, ma, mb, mc = code[start + 11], code[start + 12], code[start + 13], code[start + 14]
    cleared = buffer[c : c + clear]
    for i in range(clear):
        cleared[i] = 0.0
    table = start + 15
    for _ in range(_outer_steps(code, table, outer, 4, counter)):
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
        a, b, c = _next_places(code, table, outer, counter, a, b, c)


@njit(inline="always")
def _sum_row(buffer, x, z, size, sc, add):
    row = buffer[x : x + size]
    if sc == 0:
        total = 0.0
        for i in range(size):
            total += row[i]
        buffer[z] = total + (buffer[z] if add else 0.0)
    elif add:
        out = buffer[z : z + size]
        for i in range(size):
            out[i] += row[i]
    else:
        out = buffer[z : z + size]
        for i in range(size):
            out[i] = row[i]


@njit(inline="always")
def _dot_row(buffer, x, y, z, size, add):
    one, two = buffer[x : x + size], buffer[y : y + size]
    total = 0.0
    for i in range(size):
        total += one[i] * two[i]
    buffer[z] = total + (buffer[z] if add else 0.0)


@njit(inline="always")
def _scale_row(buffer, x, y, z, size, add):
    row, out, factor = buffer[x : x + size], buffer[z : z + size], buffer[y]
    if add:
        for i in range(size):
            out[i] += row[i] * factor
    else:
        for i in range(size):
            out[i] = row[i] * factor


@njit(inline="always")
def _times_row(buffer, x, y, z, size, add):
    one, two, out = buffer[x : x + size], buffer[y : y + size], buffer[z : z + size]
    if add:
        for i in range(size):
            out[i] += one[i] * two[i]
    else:
        for i in range(size):
            out[i] = one[i] * two[i]


@partial(jitted, fastmath={"reassoc", "contract", "nsz"})
def run_queries(leaves, cells, code, starts, expand):
    """Add every query's cells to the leaf potentials, repeated along the variables the query lacks; or the transpose.

    Each query is a row of integers: where its leaf starts, where its cells start and how many there are, the number
    of loops, and for each loop, innermost first, its length and its strides in the leaf and among the query's cells.

    Args:
        leaves: potentials if `expand`, which become the sum over all queries of their cells; otherwise marginals.
        cells: one number per cell of every query; without `expand` they become sums of marginals.
        code, starts: the queries.
        expand: the direction.
    """
    if expand:
        leaves[:] = 0.0
    else:
        cells[:] = 0.0
    counter = np.zeros(64, dtype=np.int64)
    for start in starts:
        x, y, loops = code[start], code[start + 1], code[start + 3]
        size, kept = code[start + 4], code[start + 6]
        total = 1
        for d in range(1, loops):
            total *= code[start + 4 + 3 * d]
            counter[d] = 0
        for _ in range(total):
            row = leaves[x : x + size]
            if kept:
                own = cells[y : y + size]
                if expand:
                    for i in range(size):
                        row[i] += own[i]
                else:
                    for i in range(size):
                        own[i] += row[i]
            elif expand:
                value = cells[y]
                for i in range(size):
                    row[i] += value
            else:
                value = 0.0
                for i in range(size):
                    value += row[i]
                cells[y] += value
            for d in range(1, loops):
                at = start + 4 + 3 * d
                counter[d] += 1
                x += code[at + 1]
                y += code[at + 2]
                if counter[d] < code[at]:
                    break
                x -= code[at] * code[at + 1]
                y -= code[at] * code[at + 2]
                counter[d] = 0
