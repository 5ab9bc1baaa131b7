"""Enforces the rules of a schema in the model, where they can be said in codes; `repair.py` does so in rows.

`structural_zeros` gives the impossible cells of marginals; a model that uses them never generates such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.conditions import cut_points, parse_question
from lookalike.schema.constraints import (
    AtLeast,
    Constraint,
    Determines,
    Never,
    Parts,
    relation_of,
    rule_text,
)
from lookalike.schema.domain import ColumnSet
from lookalike.schema.parts import days_in_month, part_of
from lookalike.schema.schema import Schema
from lookalike.schema.times import TICKS

T = TypeVar("T")
MAX_ZERO_CELLS = 1_000_000
"""Larger tables of impossible cells would slow a model down; such rules are enforced on the rows instead."""


def aligned(schema: Schema) -> Schema:
    """The schema with bins cut where conditions of its rules cut them, so that no cell is cut.

    A schema with open facts is returned as it is; private discovery calls this when it has filled them.
    """
    if schema.open_facts or not schema.constraints:
        return schema
    cuts: dict[str, set[float]] = {}
    for rule in schema.constraints:
        if isinstance(rule, Never):
            for name, points in (_asked(schema, rule, cut_points) or {}).items():
                cuts.setdefault(name, set()).update(points)
    return cut_at(schema, cuts)


def cut_at(schema: Schema, cuts: Mapping[str, Iterable[float]]) -> Schema:
    """The schema with bins of numbers and times cut at these points, given as internal numbers."""
    return schema.with_columns([_cut(schema[name], set(points)) for name, points in cuts.items()])


def _cut(column: Column, points: set[float]) -> Column:
    if not isinstance(column, Binned):
        return column
    low, high = column.internal(column.minimum), column.internal(column.maximum)
    edges = sorted({*column.edges.tolist(), *(point for point in points if low < point <= high)})
    if len(edges) == column.regular:
        return column
    pieces = dict(column.shape)
    if pieces:
        # A piece that is cut gives each part its share of the weight by width.
        known = sorted(column.internal(edge) for edge in pieces)
        for edge in edges:
            if edge not in known:
                below = max(k for k in known if k < edge)
                above = min([k for k in known if k > edge], default=high)
                weight = pieces[column.external(below)]
                share = (edge - below) / max(above - below, 1e-300)
                pieces[column.external(below)], pieces[column.external(edge)] = weight * share, weight * (1 - share)
                known = sorted([*known, edge])
    shape = tuple(sorted(pieces.items(), key=lambda item: column.internal(item[0])))
    return replace(column, bins=tuple(column.external(edge) for edge in edges), shape=shape)


def structural_zeros(schema: Schema) -> dict[ColumnSet, np.ndarray]:
    """For each column set of a rule, in domain order, a boolean table that is True in impossible cells."""
    zeros: dict[ColumnSet, np.ndarray] = {}
    for rule in schema.constraints:
        found = _zeros_of(schema, rule)
        if found is not None and found[1].any():
            attrs, mask = found
            if mask.all():
                raise SchemaError(f"The rule '{rule_text(rule)}' forbids every row. Correct it or remove it.")
            zeros[attrs] = zeros[attrs] | mask if attrs in zeros else mask
    return zeros


def check_rules(schema: Schema) -> None:
    """Refuse rules that cannot be read or forbid every row, before anything is spent; not while facts are open."""
    if not schema.open_facts:
        structural_zeros(schema)
        for rule in schema.constraints:
            if isinstance(rule, Parts):
                _check_parts(schema, rule)


def _check_parts(schema: Schema, rule: Parts) -> None:
    """Refuse parts of what is no time, and parts that are no numbers with fixed decimals."""
    wrong = [] if isinstance(schema[rule.time], Datetime) else [rule.time]
    wrong += [name for _, name in rule.parts if isinstance(schema[name], Datetime) or _tick(schema[name]) is None]
    if wrong:
        raise SchemaError(
            f"The rule '{rule_text(rule)}' needs a time and whole numbers, but column {wrong[0]!r} is "
            f"{type(schema[wrong[0]]).__name__}. Change the rule, or the type of the column."
        )


def _tick(column: Column) -> float | None:
    return None if not isinstance(column, Binned) or column.tick is None else float(column.tick)


def _zeros_of(schema: Schema, rule: Constraint) -> tuple[ColumnSet, np.ndarray] | None:
    """The impossible cells of one rule; None where it has none, or concerns columns that are computed."""
    if isinstance(rule, Parts):
        return _impossible_days(schema, rule)
    if any(schema[name].derived for name in rule.columns):
        return None
    if isinstance(rule, Never):
        question = _asked(schema, rule, parse_question)
        return None if question is None or not question.attrs else (question.attrs, np.asarray(question.weights) == 1.0)
    if isinstance(rule, AtLeast):
        relation = relation_of(schema.columns, rule)
        if schema.domain.cells(rule.columns) > MAX_ZERO_CELLS:
            return None
        (_, largest), (smallest, _) = relation.bin_ranges(rule.larger), relation.bin_ranges(rule.smaller)
        impossible = largest[:, None] < smallest[None, :] + (1 if rule.strict and relation.exact else 0)
        return _padded(schema, (rule.larger, rule.smaller), impossible)
    if isinstance(rule, Determines) and isinstance(rule.source, str):
        source, target = schema[rule.source], schema[rule.target]
        mask = np.zeros((source.size, target.size), dtype=bool)
        for (code,), (wanted, _) in determined(schema, rule).items():
            mask[code] = np.arange(target.size) != wanted
        return _padded(schema, (rule.source, rule.target), mask)
    return None


def _impossible_days(schema: Schema, rule: Parts) -> tuple[ColumnSet, np.ndarray] | None:
    """Days that no month has in any year of the time's range, where each code stands for one month or day."""
    names = dict(rule.parts)
    month, day, time = (schema[name] if name else None for name in (names.get("month"), names.get("day"), rule.time))
    if not isinstance(month, Binned) or not isinstance(day, Binned) or month.derived or day.derived:
        return None
    months, days = _whole_values(month), _whole_values(day)
    if months is None or days is None or not isinstance(time, Datetime):
        return None
    ends = np.array([time.internal(time.minimum), time.internal(time.maximum)]) * TICKS[time.resolution]
    first, last = part_of(ends, "year").tolist()
    years = range(first, min(last, first + 7) + 1)
    longest = np.array([max(days_in_month(year, int(m)) for year in years) if 1 <= m <= 12 else 31 for m in months])
    return _padded(schema, (month.name, day.name), days[None, :] > longest[:, None])


def _whole_values(column: Binned) -> np.ndarray | None:
    values = column.single_values()
    return None if values is None else np.asarray(column.numbers_at(values))


def _padded(schema: Schema, names: tuple[str, str], mask: np.ndarray) -> tuple[ColumnSet, np.ndarray]:
    """The mask over all codes of two columns, axes in domain order; codes beyond the bins are never impossible."""
    full = np.zeros((schema[names[0]].size, schema[names[1]].size), dtype=bool)
    full[: mask.shape[0], : mask.shape[1]] = mask
    attrs = schema.domain.canonical(names)
    return attrs, full if attrs == names else full.T


def _asked(schema: Schema, rule: Never, ask: Callable[[str, Schema], T]) -> T | None:
    """What `ask` returns for the rule's condition; None where it names values that discovery did not find."""
    try:
        return ask(rule.condition, schema)
    except InputError as error:
        if any(column.fact("values") == "measured" for column in schema.columns if isinstance(column, Categorical)):
            return None
        raise SchemaError(f"The rule 'never: {rule.condition}' cannot be read. {error}") from None


def determined(schema: Schema, rule: Determines) -> dict[tuple[int, ...], tuple[int, str]]:
    """Code and text of the target for every listed code, or combination of codes, of the sources."""
    sources, target = [schema[name] for name in rule.sources], schema[rule.target]
    codes: dict[tuple[int, ...], tuple[int, str]] = {}
    for key, wanted in rule.table:
        texts = (key,) if isinstance(key, str) else key
        found = tuple(_code(column, text) for column, text in zip(sources, texts, strict=True))
        code = _code(target, wanted)
        if code is not None and None not in found:
            codes[cast("tuple[int, ...]", found)] = code, wanted
    return codes


def _code(column: Column, value: str) -> int | None:
    if value in column.missing:
        return column.missing_code(value)
    if isinstance(column, Binned):
        number = column.internal(value)
        inside = column.internal(column.minimum) <= number <= column.internal(column.maximum)
        return int(np.searchsorted(column.edges, number, side="right")) - 1 if inside else None
    values = column.values or () if isinstance(column, Categorical) else ()
    if column.has_other and isinstance(column, Categorical) and value == column.other_label:
        return column.other_code
    return values.index(value) if value in values else None
