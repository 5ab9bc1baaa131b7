"""One order of the variables for all arrays of a plan, chosen so that the contractions become cheap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.engine.executor import compiled, numba_available, worth_compiling
from lookalike.engine.layout import Layout, make_layout
from lookalike.engine.plan import ContractionPlan, clique_mask, mask_positions, shared_masks, tree_scopes
from lookalike.engine.recipes import NUMBA, NUMPY, Price, least_ns
from lookalike.engine.tree_search import DRAWS, next_random

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
    if len(layout.forward) > 400 and not numba_available():
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
    if not numba_available():
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
        self.classes: list[int] = []
        for a, b, c, _ in operations:
            second = 0 if b is None else b.mask
            self.classes += [
                (a.mask >> v & 1) + 2 * (second >> v & 1) + 4 * (c.mask >> v & 1) for v in range(len(self.sizes))
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

        room = [0] * (len(order) + 1)
        best = ints(order)
        rooms = [ints(room) for _ in range(5)]
        arguments: list[Any] = [
            ints(order), ints(self.classes), ints(self.sizes), floats(self.price),
            seed % 2147483645 + 1, moves, _HOT, (_COLD / _HOT) ** (1.0 / max(moves, 1)), floats(NEGATIVE_LOGS),
            floats([0.0] * self.operations), *rooms, ints(order), floats([0.0] * self.operations), best,
        ]  # fmt: skip
        cost = run(*arguments)
        return float(cost), tuple(int(position) for position in best)


# The loops of the search, written so that they run as plain Python or compiled, with the same result. The conventions
# are those of `recipes.least_ns`.


def fill_loops(order, classes, at, sizes, size, a, b, c, kind):
    """Write the merged loops of the operation whose variables' classes start at `at`; return their number."""
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
    ns, _, _ = least_ns(count, size, a, b, c, kind, price)
    return ns


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
