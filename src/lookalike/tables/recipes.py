"""How one contraction is carried out: as nested loops, or as a batched matrix product with or without packing operands.

One idea of cost serves the NumPy executor, the compiled one and the search for a good order of the variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from lookalike.tables.lowering import Loop

LOOPS, MATRIX = "loops", "matrix"


class Price(NamedTuple):
    """Nanoseconds of the parts of a recipe on one executor, measured on a laptop-class core."""

    call: float
    copy_cell: float
    copy_row: float
    product: float
    term: float
    loop_call: float
    loop_row: float
    loop_term: float


NUMPY = Price(1200.0, 1.0, 3.0, 60.0, 0.15, 3000.0, 15.0, 0.5)
NUMBA = Price(40.0, 0.7, 3.0, 70.0, 0.15, 40.0, 6.0, 0.25)


class Recipe:
    """One way to carry out a contraction.

    Attributes:
        kind: LOOPS or MATRIX.
        loops: all loops, outermost first.
        outer, m, k, n: for MATRIX, the batch loops and the loops that make up rows, sum and columns of the product.
        copied: for MATRIX, whether A, B, C have to be packed before (A, B) or unpacked after (C).
        ns: predicted nanoseconds.
    """

    __slots__ = ("copied", "k", "kind", "loops", "m", "n", "ns", "outer")

    def __init__(self, kind: str, loops: Sequence[Loop], ns: float = 0.0) -> None:
        self.kind, self.loops, self.ns = kind, list(loops), ns
        self.outer: list[Loop] = []
        self.m: list[Loop] = []
        self.k: list[Loop] = []
        self.n: list[Loop] = []
        self.copied = [False, False, False]


def numpy_recipe(loops: Sequence[Loop]) -> Recipe:
    return _best(loops, NUMPY)


def compiled_recipe(loops: Sequence[Loop]) -> Recipe:
    return _best(loops, NUMBA)


def _best(loops: Sequence[Loop], price: Price) -> Recipe:
    """The recipe of least predicted time."""
    terms = math.prod(loop.size for loop in loops)
    row = loops[-1].size if loops else 1
    plain = Recipe(LOOPS, loops, price.loop_call + price.loop_row * terms / row + price.loop_term * terms)
    if all(loop.c for loop in loops) or not all(bool(loop.a) + bool(loop.b) + bool(loop.c) > 1 for loop in loops):
        return plain
    m = [loop for loop in loops if loop.a and not loop.b]
    n = [loop for loop in loops if loop.b and not loop.a]
    k = [loop for loop in loops if not loop.c]
    best = plain
    for inner_m in [m, *([[loop] for loop in m] if len(m) > 1 else [])]:
        for inner_n in [n, *([[loop] for loop in n] if len(n) > 1 else [])]:
            recipe = _matrix(loops, inner_m, k, inner_n, price)
            if recipe.ns < best.ns:
                best = recipe
    return best


def _matrix(loops: Sequence[Loop], m: list[Loop], k: list[Loop], n: list[Loop], price: Price) -> Recipe:
    recipe = Recipe(MATRIX, loops)
    recipe.outer = [loop for loop in loops if loop not in m and loop not in k and loop not in n]
    recipe.m, recipe.k, recipe.n = m, k, n
    parts = ((m, k), (k, n), (m, n))
    recipe.copied = [not _fits(rows, columns, which) for which, (rows, columns) in enumerate(parts, start=1)]
    batches = math.prod(loop.size for loop in recipe.outer)
    terms = math.prod(loop.size for loop in loops)
    recipe.ns = price.call + price.product * batches + price.term * terms
    for which, (rows, columns) in enumerate(parts, start=1):
        if recipe.copied[which - 1]:
            cells = math.prod(loop.size for loop in (*recipe.outer, *rows, *columns) if loop[which])
            run = (columns or rows or recipe.outer)[-1].size
            recipe.ns += price.call + price.copy_cell * cells + price.copy_row * cells / run
    return recipe


def _fits(rows: Sequence[Loop], columns: Sequence[Loop], which: int) -> bool:
    """Whether an operand can be handed to BLAS as it lies: rows and columns each one loop, one of them contiguous."""
    if not (_mergeable(rows, which) and _mergeable(columns, which)):
        return False
    if not rows or not columns:
        return (rows or columns)[-1][which] == 1 if rows or columns else True
    return 1 in (rows[-1][which], columns[-1][which])


def _mergeable(loops: Sequence[Loop], which: int) -> bool:
    return all(outer[which] == inner[which] * inner.size for outer, inner in pairwise(loops))
