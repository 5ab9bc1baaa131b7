"""The loops behind recipes and orders, written so that they run as plain Python or compiled, with the same result.

Conventions. A loop belongs to one of eight classes, the sum of 1 if array A knows it, 2 for B and 4 for C. The loops
of an operation lie in flat sequences `size`, `a`, `b`, `c` (strides) and `kind` (class), innermost first. Prices are
a sequence in the order of the fields of `recipes.Price`.
"""

from __future__ import annotations

from lookalike.tables.tree_search import next_random

BATCH, ROWS, COLUMNS, SUMMED = 7, 5, 6, 3

CALL, COPY_CALL, COPY_CELL, COPY_ROW, PRODUCT, TERM, OPERAND_CELL = range(7)
LOOP_CALL, LOOP_ROW, LOOP_BLOCK, LOOP_TERM = range(7, 11)

AS_LOOPS, ALL_MERGED = -2, -1


def fill_loops(order, classes, at, sizes, size, a, b, c, kind):
    """Merged loops of the operation whose variables' classes start at `at`; returns how many there are."""
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


def operand_fits(count, size, kind, stride, first_class, first, second_class, second):
    """Whether an operand goes to BLAS as it lies: rows and columns each one stretch of memory, one of them contiguous.

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


def copy_ns(count, size, kind, stride, row_class, row, column_class, column, price):
    """Nanoseconds to pack an operand with the given rows and columns."""
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
    # One call in a loop, not three: the compiler would make a copy of the callee for every set of constants.
    for which in range(3):
        stride = a if which == 0 else b if which == 1 else c
        first_class, first = (SUMMED, ALL_MERGED) if which == 1 else (ROWS, row)
        second_class, second = (SUMMED, ALL_MERGED) if which == 0 else (COLUMNS, column)
        if not operand_fits(count, size, kind, stride, first_class, first, second_class, second):
            ns += copy_ns(count, size, kind, stride, first_class, first, second_class, second, price)
    return ns


def best_recipe(count, size, a, b, c, kind, price):
    """Predicted nanoseconds of the best recipe, and its rows and columns; both are AS_LOOPS for plain loops."""
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


def operation_ns(order, classes, at, sizes, price, size, a, b, c, kind):
    """Predicted nanoseconds of one operation under an order."""
    count = fill_loops(order, classes, at, sizes, size, a, b, c, kind)
    ns, _, _ = best_recipe(count, size, a, b, c, kind, price)
    return ns


def search_order(
    order,
    operations,
    classes,
    sizes,
    price,
    state,
    moves,
    hot,
    decay,
    draws,
    ns,
    size,
    a,
    b,
    c,
    kind,
    trial,
    trial_ns,
    best,
):
    """Moves one variable at a time to another place, cooled; leaves the best order in `best` and returns its cost.

    `ns` holds the price of every operation under the current order. Only operations that know the moved variable can
    change, so only those are priced again.
    """
    variables = len(order)
    total = 0.0
    for i in range(operations):
        ns[i] = operation_ns(order, classes, i * variables, sizes, price, size, a, b, c, kind)
        total += ns[i]
    least, temperature = total, hot
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
        reach = temperature * draws[state % len(draws)]
        if change >= total * reach * (1.0 + 0.5 * reach):
            continue
        for i in range(variables):
            order[i] = trial[i]
        for i in range(operations):
            ns[i] = trial_ns[i]
        total += change
        if total < least:
            least = total
            for i in range(variables):
                best[i] = order[i]
    return least
