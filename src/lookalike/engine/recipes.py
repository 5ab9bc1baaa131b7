"""The fastest way to carry out one contraction, and the order of the variables that makes all of a plan cheap.

A contraction is done by nested loops, or by a batched matrix product with or without copies. Both executors and the
search for an order use the same prediction of time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookalike import guards
from lookalike.engine.executor import compiled, worth_compiling
from lookalike.engine.plan import (
    ContractionPlan,
    Layout,
    Loop,
    clique_mask,
    make_layout,
    mask_positions,
    shared_masks,
    tree_scopes,
)
from lookalike.engine.tree_search import DRAWS, next_random


class Price(NamedTuple):
    """Nanoseconds of the parts of a recipe on one executor, fitted to measurements on one core with AVX2.

    A batched matrix product has a price once (call), per batch (product), multiply-add (term) and cell of the three
    matrices; copying an operand once, per cell and innermost loop (row); plain loops once, per innermost loop (row),
    per loop around it (block) and term.
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


@lru_cache(maxsize=4096)
def best_recipe(loops: tuple[Loop, ...], price: Price) -> Recipe:
    """Return the recipe of least predicted time for these loops, outermost first. It is cached: do not change it."""
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


_HOT, _COLD = 0.1, 0.001
_FEW_MOVES, _MAX_MOVES, _FEW_MOVES_PURE, _MAX_MOVES_PURE = 100, 2_000, 60, 400
_NS_WORTH_A_SEARCH, _NS_WORTH_COMPILING, _NS_PER_MOVE, _NS_PER_MOVE_PURE = 5e4, 5e5, 2e3, 2e4
_PURE_OPERATION_SECONDS = 5e-5
# Strides of larger arrays would not fit 64 bits; such a model is refused anyway.
_MAX_CELLS = 2**60

NEGATIVE_LOGS = tuple(-math.log((i + 0.5) / DRAWS) for i in range(DRAWS))


def ordered(plan: ContractionPlan, *, seed: int = 0) -> ContractionPlan:
    """Return the plan with a better order of its variables, if it is costly enough for the search to pay.

    The search starts from the better of two orders, the plan's and that of `elimination_order`. It moves one variable
    at a time to lower the predicted time of the executor that such a model will use.
    """
    layout = make_layout(plan)
    if layout.cells > _MAX_CELLS or not plan.children:
        return plan
    if len(layout.forward) > 400 and not guards.NUMBA:
        return plan
    search = OrderSearch(layout, NUMBA)
    start, cost = plan.order, search.cost(plan.order)
    if cost < _NS_WORTH_A_SEARCH:
        return plan
    if cost < _NS_WORTH_COMPILING:
        # Such a model runs on NumPy, where the number of library calls matters.
        search = OrderSearch(layout, NUMPY)
        cost = search.cost(plan.order)
    late_first = elimination_order(plan)
    if (other := search.cost(late_first)) < cost:
        start, cost = late_first, other
    moves = min(_FEW_MOVES + cost / _NS_PER_MOVE, _MAX_MOVES)
    if not guards.NUMBA:
        moves = min(_FEW_MOVES_PURE + cost / _NS_PER_MOVE_PURE, _MAX_MOVES_PURE)
    return replace(plan, order=search.improve(start, int(moves), seed)[1])


def predicted_ns(layout: Layout, price: Price = NUMBA) -> float:
    """Return predicted nanoseconds of both sweeps in the plan's order; infinite for arrays beyond 64-bit strides."""
    if layout.cells > _MAX_CELLS:
        return math.inf
    return OrderSearch(layout, price).cost(layout.plan.order)


def elimination_order(plan: ContractionPlan) -> tuple[int, ...]:
    """Return the variables summed out near the root first, so that contractions sum over contiguous cells."""
    sizes = plan.domain.sizes
    masks = [clique_mask(plan.domain, leaf) for leaf in plan.leaves]
    scopes = tree_scopes(shared_masks(masks), plan.children)
    order: list[int] = []
    placed = 0
    for j in range(len(plan.children) - 1, -1, -1):
        a, b = plan.children[j]
        summed = (scopes[a] | scopes[b]) & ~scopes[len(masks) + j] & ~placed
        order += sorted(mask_positions(summed), key=lambda position: (sizes[position], position))
        placed |= summed
    rest = [position for position in range(len(sizes)) if not placed >> position & 1]
    return (*order, *sorted(rest, key=lambda position: (sizes[position], position)))


class OrderSearch:
    """Predicted time of orders of the variables for one tree, and the search for a better order."""

    def __init__(self, layout: Layout, price: Price) -> None:
        self.price = price
        self.sizes = layout.plan.domain.sizes
        operations = (*layout.forward, *layout.adjoint)
        self.operations = len(operations)
        masks = [(step.a.mask, step.b_mask, step.c.mask) for step in operations]
        self.classes = [
            (a >> v & 1) + 2 * (b >> v & 1) + 4 * (c >> v & 1) for a, b, c in masks for v in range(len(self.sizes))
        ]

    def cost(self, order: Sequence[int]) -> float:
        """Return predicted nanoseconds of both sweeps."""
        return self.improve(order, 0, 0)[0]

    def improve(self, order: Sequence[int], moves: int, seed: int) -> tuple[float, tuple[int, ...]]:
        """Return predicted nanoseconds of the best order found in so many moves, and that order."""
        seconds = _PURE_OPERATION_SECONDS * self.operations * (1 + 0.4 * moves)
        use_numba = worth_compiling(search_order, seconds)
        run: Any = compiled(search_order) if use_numba else search_order

        def ints(values: Sequence[int]):
            return np.array(values, dtype=np.int64) if use_numba else list(values)

        def floats(values: Sequence[float]):
            return np.array(values, dtype=float) if use_numba else list(values)

        best = ints(order)
        rooms = [ints([0] * (len(order) + 1)) for _ in range(5)]
        arguments: list[Any] = [
            ints(order), ints(self.classes), ints(self.sizes), floats(self.price),
            seed % 2147483645 + 1, moves, _HOT, (_COLD / _HOT) ** (1.0 / max(moves, 1)), floats(NEGATIVE_LOGS),
            floats([0.0] * self.operations), *rooms, ints(order), floats([0.0] * self.operations), best,
        ]  # fmt: skip
        return float(run(*arguments)), tuple(int(position) for position in best)


def fill_loops(order, classes, at, sizes, size, a, b, c, kind):
    """Write the merged loops of the operation whose variables' classes start at `at`; return their number.

    This function and those below follow the conventions of `least_ns`: plain Python or compiled, with the same result.
    """
    step_a, step_b, step_c = 1, 1, 1
    count, last = 0, 0
    for place in range(len(order) - 1, -1, -1):
        variable = order[place]
        member = classes[at + variable]
        length = sizes[variable]
        if member == 0 or length == 1:
            continue
        if member == last:
            size[count - 1] *= length
        else:
            size[count] = length
            kind[count] = member
            a[count] = step_a if member & 1 else 0
            b[count] = step_b if member & 2 else 0
            c[count] = step_c if member & 4 else 0
            count += 1
            last = member
        if member & 1:
            step_a *= length
        if member & 2:
            step_b *= length
        if member & 4:
            step_c *= length
    return count


def operation_ns(order, classes, at, sizes, price, size, a, b, c, kind):
    """Predicted nanoseconds of one operation under an order."""
    count = fill_loops(order, classes, at, sizes, size, a, b, c, kind)
    return least_ns(count, size, a, b, c, kind, price)[0]


def search_order(
    order, classes, sizes, price, state, moves, hot, decay, draws, ns, size, a, b, c, kind, trial, trial_ns, best
):
    """Simulated annealing by moves of one variable to another place; leaves the best order in `best`, returns its cost.

    `ns` holds the predicted time of every operation under the current order. Only operations over the moved variable
    can change, so only those are priced again.
    """
    variables, operations = len(order), len(ns)
    total = 0.0
    for i in range(operations):
        ns[i] = operation_ns(order, classes, i * variables, sizes, price, size, a, b, c, kind)
        total += ns[i]
    lowest, temperature = total, hot
    for i in range(variables):
        best[i] = order[i]
    for _ in range(moves):
        temperature *= decay
        state = next_random(state)
        source = state % variables
        state = next_random(state)
        target = state % variables
        if source == target:
            continue
        moved = order[source]
        place = 0
        for i in range(variables):
            if i == target:
                trial[i] = moved
                continue
            if place == source:
                place += 1
            trial[i] = order[place]
            place += 1
        change = 0.0
        for i in range(operations):
            trial_ns[i] = ns[i]
            if classes[i * variables + moved]:
                trial_ns[i] = operation_ns(trial, classes, i * variables, sizes, price, size, a, b, c, kind)
                change += trial_ns[i] - ns[i]
        state = next_random(state)
        allowed = temperature * draws[state % len(draws)]
        if change >= total * allowed * (1.0 + 0.5 * allowed):
            continue
        for i in range(variables):
            order[i] = trial[i]
        for i in range(operations):
            ns[i] = trial_ns[i]
        total += change
        if total < lowest:
            lowest = total
            for i in range(variables):
                best[i] = order[i]
    return lowest
