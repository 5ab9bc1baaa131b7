"""How one contraction is carried out: as nested loops, or as a batched matrix product with or without packing operands.

One idea of cost serves the NumPy executor, the compiled one and the search for a good order of the variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lookalike.tables import recipe_search
from lookalike.tables.layout import Loop


class Price(NamedTuple):
    """Nanoseconds of the parts of a recipe on one executor, fitted to measurements on one core with AVX2.

    Attributes:
        call, product, term, operand_cell: of a batched matrix product: once, per batch, per multiply-add, per cell of
            the three matrices.
        copy_call, copy_cell, copy_row: of packing an operand: once, per cell, per innermost run.
        loop_call, loop_row, loop_block, loop_term: of plain loops: once, per innermost run, per run of runs, per term.
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


NUMPY = Price(1240.0, 700.0, 1.07, 3.5, 68.0, 0.12, 0.35, 2500.0, 17.0, 2.0, 0.60)
NUMBA = Price(65.0, 30.0, 1.3, 4.5, 120.0, 0.10, 0.40, 65.0, 6.0, 3.8, 0.30)


class Recipe(NamedTuple):
    """One way to carry out a contraction.

    Attributes:
        ns: predicted nanoseconds.
        loops: all loops, outermost first.
        as_matrix: whether a batched matrix product is used; if not, the rest is empty.
        outer, m, k, n: the batch loops and the loops that make up rows, sum and columns of the product.
        copied: whether A, B, C have to be packed before (A, B) or unpacked after (C).
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
    """The recipe of least predicted time for these loops (outermost first). It is remembered, so never change it."""
    return _best_recipe(tuple(loops), price)


@lru_cache(maxsize=4096)
def _best_recipe(loops: tuple[Loop, ...], price: Price) -> Recipe:
    inner_first = list(loops)[::-1]
    size = [loop.size for loop in inner_first]
    a, b, c = ([loop[which] for loop in inner_first] for which in (1, 2, 3))
    kind = [(loop.a > 0) + 2 * (loop.b > 0) + 4 * (loop.c > 0) for loop in inner_first]
    ns, row, column = recipe_search.best_recipe(len(loops), size, a, b, c, kind, price)
    if row == recipe_search.AS_LOOPS:
        return Recipe(ns, list(loops), False, [], [], [], [], [False] * 3)

    def chosen(wanted: int, number: int) -> list[Loop]:
        return [loop for i, loop in enumerate(inner_first) if kind[i] == wanted and (number < 0 or number == i)][::-1]

    m, n = chosen(recipe_search.ROWS, row), chosen(recipe_search.COLUMNS, column)
    k = chosen(recipe_search.SUMMED, recipe_search.ALL_MERGED)
    outer = [loop for loop in loops if loop not in m and loop not in n and loop not in k]
    copied = [
        not recipe_search.operand_fits(len(loops), size, kind, stride, *which)
        for stride, which in (
            (a, (recipe_search.ROWS, row, recipe_search.SUMMED, recipe_search.ALL_MERGED)),
            (b, (recipe_search.SUMMED, recipe_search.ALL_MERGED, recipe_search.COLUMNS, column)),
            (c, (recipe_search.ROWS, row, recipe_search.COLUMNS, column)),
        )
    ]
    return Recipe(ns, list(loops), True, outer, m, k, n, copied)
