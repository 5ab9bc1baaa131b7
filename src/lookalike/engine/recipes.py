"""The fastest way to carry out one contraction: nested loops, or a batched matrix product with or without copies.

Both executors and the search for a good order of the variables use the same prediction of time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lookalike.engine.layout import Loop


class Price(NamedTuple):
    """Nanoseconds of the parts of a recipe on one executor, fitted to measurements on one core with AVX2.

    Attributes:
        call, product, term, operand_cell: time of a batched matrix product: once, per batch, per multiply-add, per cell
            of the three matrices.
        copy_call, copy_cell, copy_row: time of copying an operand: once, per cell, per innermost loop.
        loop_call, loop_row, loop_block, loop_term: time of plain loops: once, per innermost loop, per loop around it,
            per term.
    """

    call: float
    copy_call: float
    copy_cell: float
    copy_row: float
    product: float
    term: float
    operand_cell: float
    loop_call: float
    loop_row: float
    loop_block: float
    loop_term: float


PRICES: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("prices.json").read_text())
"""Measured nanoseconds of machine operations; benchmarks/engine_prices.py measures those of recipes again."""

NUMPY, NUMBA = Price(**PRICES["numpy"]), Price(**PRICES["numba"])

# Classes of loops as in `least_ns`, and the fields of a `Price` by number, since compiled code has no field names.
ROWS, COLUMNS, SUMMED = 5, 6, 3
CALL, COPY_CALL, COPY_CELL, COPY_ROW, PRODUCT, TERM, OPERAND_CELL = range(7)
LOOP_CALL, LOOP_ROW, LOOP_BLOCK, LOOP_TERM = range(7, 11)
AS_LOOPS, ALL_MERGED = -2, -1


class Recipe(NamedTuple):
    """One way to carry out a contraction.

    Attributes:
        ns: predicted nanoseconds.
        loops: all loops, outermost first.
        as_matrix: whether a batched matrix product is used; if not, the rest is empty.
        outer, m, k, n: the batch loops and the loops that make up rows, sum and columns of the product.
        copied: whether A and B are copied into contiguous scratch before the product, and C out of it afterwards.
    """

    ns: float
    loops: list[Loop]
    as_matrix: bool
    outer: list[Loop]
    m: list[Loop]
    k: list[Loop]
    n: list[Loop]
    copied: list[bool]


def best_recipe(loops: Sequence[Loop], price: Price) -> Recipe:
    """Return the recipe of least predicted time for these loops, outermost first. It is cached: do not change it."""
    return _best_recipe(tuple(loops), price)


@lru_cache(maxsize=4096)
def _best_recipe(loops: tuple[Loop, ...], price: Price) -> Recipe:
    inner_first = list(loops)[::-1]
    size = [loop.size for loop in inner_first]
    a, b, c = ([loop[which] for loop in inner_first] for which in (1, 2, 3))
    kind = [(loop.a > 0) + 2 * (loop.b > 0) + 4 * (loop.c > 0) for loop in inner_first]
    ns, row, column = least_ns(len(loops), size, a, b, c, kind, price)
    if row == AS_LOOPS:
        return Recipe(ns, list(loops), False, [], [], [], [], [False] * 3)

    def chosen(wanted: int, number: int) -> list[Loop]:
        return [loop for i, loop in enumerate(inner_first) if kind[i] == wanted and (number < 0 or number == i)][::-1]

    m, n = chosen(ROWS, row), chosen(COLUMNS, column)
    k = chosen(SUMMED, ALL_MERGED)
    outer = [loop for loop in loops if loop not in m and loop not in n and loop not in k]
    copied = [
        not operand_fits(len(loops), size, kind, stride, *which)
        for stride, which in (
            (a, (ROWS, row, SUMMED, ALL_MERGED)),
            (b, (SUMMED, ALL_MERGED, COLUMNS, column)),
            (c, (ROWS, row, COLUMNS, column)),
        )
    ]
    return Recipe(ns, list(loops), True, outer, m, k, n, copied)


def least_ns(count, size, a, b, c, kind, price):
    """Return predicted nanoseconds of the best recipe, and its rows and columns; both are AS_LOOPS for plain loops.

    A loop belongs to one of eight classes, the sum of 1 if array A contains it, 2 for B and 4 for C. The loops of an
    operation lie in flat sequences `size`, `a`, `b`, `c` (strides) and `kind` (class), innermost first. Prices are a
    sequence in the order of the fields of `Price`. This function and those below run as plain Python or compiled, with
    the same result.
    """
    terms, summed, plain_only = 1.0, False, False
    for i in range(count):
        terms *= size[i]
        if kind[i] & 4 == 0:
            summed = True
        if kind[i] == 1 or kind[i] == 2 or kind[i] == 4:
            plain_only = True
    row_terms = terms / size[0] if count else 1.0
    block_terms = row_terms / size[1] if count > 1 else 1.0
    best = price[LOOP_CALL] + price[LOOP_ROW] * row_terms + price[LOOP_BLOCK] * block_terms + price[LOOP_TERM] * terms
    best_row, best_column = AS_LOOPS, AS_LOOPS
    if plain_only or not summed:
        return best, best_row, best_column
    for row in range(-1, count):
        if row >= 0 and kind[row] != ROWS:
            continue
        for column in range(-1, count):
            if column >= 0 and kind[column] != COLUMNS:
                continue
            ns = matrix_ns(count, size, a, b, c, kind, row, column, terms, price)
            if ns < best:
                best, best_row, best_column = ns, row, column
    return best, best_row, best_column


def matrix_ns(count, size, a, b, c, kind, row, column, terms, price):
    """Predicted nanoseconds of a batched product whose rows and columns are one loop each, or all merged."""
    batches, m, n, k = 1.0, 1.0, 1.0, 1.0
    for i in range(count):
        if kind[i] == SUMMED:
            k *= size[i]
        elif kind[i] == ROWS and (row < 0 or row == i):
            m *= size[i]
        elif kind[i] == COLUMNS and (column < 0 or column == i):
            n *= size[i]
        else:
            batches *= size[i]
    ns = price[CALL] + price[PRODUCT] * batches + price[TERM] * terms
    ns += price[OPERAND_CELL] * batches * (m * k + k * n + m * n)
    # One call in a loop, not three, since the compiler would compile the callee for every set of constants.
    for which in range(3):
        stride = a if which == 0 else b if which == 1 else c
        first_class, first = (SUMMED, ALL_MERGED) if which == 1 else (ROWS, row)
        second_class, second = (SUMMED, ALL_MERGED) if which == 0 else (COLUMNS, column)
        if not operand_fits(count, size, kind, stride, first_class, first, second_class, second):
            ns += copy_ns(count, size, kind, stride, first_class, first, second_class, second, price)
    return ns


def copy_ns(count, size, kind, stride, row_class, row, column_class, column, price):
    """Predicted nanoseconds to copy an operand with the given rows and columns."""
    cells, run = 1.0, 0
    for i in range(count):
        if stride[i]:
            cells *= size[i]
    for which in range(2):
        chosen, wanted = (column, column_class) if which == 0 else (row, row_class)
        for i in range(count):
            if run == 0 and kind[i] == wanted and (chosen < 0 or i == chosen):
                run = size[i]
    return price[COPY_CALL] + price[COPY_CELL] * cells + price[COPY_ROW] * cells / (run if run else 1)


def operand_fits(count, size, kind, stride, first_class, first, second_class, second):
    """Whether BLAS can use an operand without a copy: rows and columns have one stride each, and one of them is 1.

    `first` and `second` choose one loop of a class by its number, or all loops of the class (ALL_MERGED).
    """
    unit, any_loop = False, False
    for which in range(2):
        chosen, wanted = (first, first_class) if which == 0 else (second, second_class)
        reach = 0
        for i in range(count):
            if kind[i] != wanted or (chosen >= 0 and i != chosen):
                continue
            any_loop = True
            if reach == 0:
                if stride[i] == 1:
                    unit = True
            elif stride[i] != reach:
                return False
            reach = stride[i] * size[i]
    return unit or not any_loop
