"""Tables of determined values, from noisy counts of a column together with those that determine it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.schema.binned import Binned
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.conditions import parse_question
from lookalike.schema.constraints import Constraint, Determines, Never
from lookalike.schema.schema import Schema

MAX_ENTRIES = 20_000
"""Largest number of combinations of values that a table lists."""
_SEEN = 1.5
"""Standard deviations by which the most frequent value must stand out from the largest noise of as many values."""


def filled(schema: Schema, rule: Determines, counts: NoisyMarginal, stddev: float) -> Determines:
    """The rule with its table: for every combination of the sources' codes the most frequent code of the target.

    Where its noisy count does not stand out, the most frequent target of the rows that share the code of the source
    that tells most decides, and where that does not either, the most frequent of all rows.
    """
    names = rule.sources
    table = np.moveaxis(counts.values, counts.attrs.index(rule.target), -1)
    order = [name for name in counts.attrs if name != rule.target]
    best, count = table.argmax(axis=-1), table.max(axis=-1)
    largest = float(np.sqrt(2 * np.log(max(table.shape[-1], 2))))
    for fallback, noise in _fallbacks(table, stddev):
        seen = count >= (_SEEN + largest) * noise
        best = np.where(seen, best, fallback.argmax(axis=-1))
        count = np.where(seen, np.inf, fallback.max(axis=-1))
    texts = {name: texts_of_codes(schema[name]) for name in (*names, rule.target)}
    entries: list[tuple[str | tuple[str, ...], str]] = []
    for codes in product(*(range(size) for size in best.shape)):
        key = tuple(texts[name][codes[order.index(name)]] for name in names)
        entries.append((key[0] if isinstance(rule.source, str) else key, texts[rule.target][int(best[codes])]))
    return replace(rule, table=tuple(entries))


def _fallbacks(table: np.ndarray, stddev: float) -> list[tuple[np.ndarray, float]]:
    """Coarser tables of counts in the shape of the whole one, each with the noise of the table before it.

    The sources are left out one by one, first the one without which the largest counts still add up to most.
    """
    found: list[tuple[np.ndarray, float]] = []
    noise, left = stddev, list(range(table.ndim - 1))
    while left:
        sums = {axis: table.sum(axis=axis, keepdims=True) for axis in left}
        axis = max(left, key=lambda axis: float(sums[axis].max(axis=-1).sum()))
        found.append((np.broadcast_to(sums[axis], (*_shape(found, table)[:-1], table.shape[-1])), noise))
        noise *= float(np.sqrt(table.shape[axis]))
        table, left = sums[axis], [other for other in left if other != axis]
    return found


def _shape(found: list[tuple[np.ndarray, float]], table: np.ndarray) -> tuple[int, ...]:
    return found[0][0].shape if found else table.shape


def texts_of_codes(column: Column) -> list[str]:
    """The text of every code, as a table of a rule writes it."""
    if isinstance(column, Binned):
        values = column.single_values()
        if values is None:
            raise RuntimeError(f"bins of {column.name!r} hold several values")
        return [*(str(column.external(column.numbers_at(tick))) for tick in values.tolist()), *column.missing]
    if not isinstance(column, Categorical):
        raise RuntimeError(f"{column.name!r} has no list of values")
    return [*(column.values or ()), *([column.other_label] if column.has_other else []), *column.missing]


def names_in(rule: Constraint, schema: Schema) -> tuple[str, ...]:
    """The columns of a condition."""
    return parse_question(rule.condition, schema).attrs if isinstance(rule, Never) else rule.columns
