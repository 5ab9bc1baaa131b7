"""What the rules of a schema forbid: cells of marginals, where a rule can be expressed in codes, and rows.

`structural_zeros` gives the impossible cells of marginals; a model that uses them never generates such rows.
`broken_rows` says which rows break a rule: generated rows, and behind the door rows on which rules are tested. A row
breaks a rule or not by its own codes and numbers alone; `decode.py` repairs generated ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.conditions import cut_points, parse_question
from lookalike.schema.constraints import (
    AtLeast,
    ClockSum,
    Constraint,
    Determines,
    Never,
    Parts,
    Sum,
    holds,
    relation_of,
    rule_text,
)
from lookalike.schema.domain import ColumnSet
from lookalike.schema.parts import days_in_month, in_zone, part_of
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


def _check_numbers(schema: Schema, rule: Parts | ClockSum) -> None:
    """Refuse parts of a column that does not hold times, and parts or clocks that are not numbers of fixed decimals."""
    time = rule.time if isinstance(rule, Parts) else None
    wrong = [name for name in rule.columns if (name == time) != isinstance(schema[name], Datetime)]
    wrong += [name for name in rule.columns if _tick(schema[name]) is None]
    if wrong:
        raise SchemaError(
            f"The rule '{rule_text(rule)}' needs {'a time and ' if time else ''}whole numbers, but column {wrong[0]!r} "
            f"is {type(schema[wrong[0]]).__name__}. Change the rule, or the type of the column."
        )


def _tick(column: Column) -> float | None:
    return None if not isinstance(column, Binned) or column.tick is None else float(column.tick)


def _zeros_of(schema: Schema, rule: Constraint) -> tuple[ColumnSet, np.ndarray] | None:
    """The impossible cells of one rule; None where it has none, or concerns columns that are computed."""
    if isinstance(rule, Parts | ClockSum):
        _check_numbers(schema, rule)
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


Numbers = dict[str, np.ndarray]
"""Ticks (or floats) of every binned column, by name."""


def broken_rows(schema: Schema, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
    """Which rows break a rule of the schema, as booleans."""
    return Rows(schema, codes, numbers).broken()


class Rows:
    """Rows with the rules of their schema."""

    def __init__(self, schema: Schema, codes: np.ndarray, numbers: Numbers) -> None:
        self.schema, self.codes, self.numbers = schema, codes, numbers
        self.place = schema.domain.position
        self.zeros = structural_zeros(schema)
        rules = schema.constraints
        self.relations = [relation_of(schema.columns, rule) for rule in rules if isinstance(rule, AtLeast | Sum)]
        self.tables = {rule: determined(schema, rule) for rule in rules if isinstance(rule, Determines)}
        self.parts = [rule for rule in rules if isinstance(rule, Parts)]
        self.clocks = [rule for rule in rules if isinstance(rule, ClockSum)]

    def broken(self) -> np.ndarray:
        """Which rows break a rule."""
        broken = np.zeros(len(self.codes), dtype=bool)
        for attrs, mask in self.zeros.items():
            broken |= self.in_cells(attrs, mask)
        for rule in self.tables:
            wanted, number = self.wanted(rule)
            broken |= (wanted >= 0) & (wanted != self.codes[:, self.place(rule.target)])
            if rule.target in self.numbers:
                has_number = (wanted >= 0) & (wanted < self.schema[rule.target].regular)
                broken |= has_number & (number != self.numbers[rule.target])
        for rule in self.parts:
            broken |= self._other_parts(rule)
        for rule in self.clocks:
            broken |= self._other_clock(rule)
        for relation in self.relations:
            broken |= ~holds(relation, self.codes, self.numbers)
        return broken

    def in_cells(self, attrs: ColumnSet, mask: np.ndarray) -> np.ndarray:
        """Which rows lie in cells that the mask marks."""
        return mask[tuple(self.codes[:, self.place(name)] for name in attrs)]

    def wanted(self, rule: Determines) -> tuple[np.ndarray, np.ndarray]:
        """Code and number of the target that each row's source determines; code -1 where it determines none."""
        target, sizes = self.schema[rule.target], [self.schema[name].written_codes for name in rule.sources]
        table = np.full(sizes, -1, dtype=np.int64)
        value = np.zeros(sizes, dtype=np.int64 if getattr(target, "tick", 1) is not None else np.float64)
        for code, (wanted, text) in self.tables[rule].items():
            table[code] = wanted
            if isinstance(target, Binned) and wanted < target.regular:
                number = target.internal(text)
                value[code] = number if target.tick is None else target.nearest_tick(number)
        codes = tuple(self.codes[:, self.place(name)] for name in rule.sources)
        return table[codes], value[codes]

    def _other_parts(self, rule: Parts) -> np.ndarray:
        """Rows with a part that is not the time's; or with only one of both, where one is computed from the other."""
        time, there = cast(Datetime, self.schema[rule.time]), self.present(rule.time)
        wall = in_zone(self.numbers[rule.time] * TICKS[time.resolution], rule.zone)
        broken = np.zeros(len(self.codes), dtype=bool)
        for part, name in rule.parts:
            known = self.present(name)
            broken |= there & known & (self.whole(name) != part_of(wall, part))
            if (time.derived and time.missing) or (self.schema[name].derived and self.schema[name].missing):
                broken |= there != known
        return broken

    def _other_clock(self, rule: ClockSum) -> np.ndarray:
        """Rows with another time of day than the rule gives; or with only one of both, where it is computed."""
        wanted, known = self.clock_of(rule)
        total, there = self.schema[rule.total], self.present(rule.total)
        scale = ticks_of_one(cast(Binned, total))
        other = (self.numbers[rule.total] % scale != 0) | (minutes_of(self.whole(rule.total)) != wanted)
        return np.where(known, there & other, False) | ((there != known) & (total.derived and bool(total.missing)))

    def clock_of(self, rule: ClockSum) -> tuple[np.ndarray, np.ndarray]:
        """The minute of the day that the rule gives each row, and which rows have one."""
        wanted = (minutes_of(self.whole(rule.start)) + self.whole(rule.minutes) % DAY) % DAY
        scales = {name: ticks_of_one(cast(Binned, self.schema[name])) for name in (rule.start, rule.minutes)}
        whole = np.all([self.numbers[name] % scale == 0 for name, scale in scales.items()], axis=0)
        return np.where(whole, wanted, -1), self.present(rule.start) & self.present(rule.minutes)

    def present(self, name: str) -> np.ndarray:
        """Which rows have a value in the column."""
        return self.codes[:, self.place(name)] < self.schema[name].regular

    def whole(self, name: str) -> np.ndarray:
        """The numbers of a column rounded to whole ones; what has a fraction becomes -1, which no part is."""
        scale = ticks_of_one(cast(Binned, self.schema[name]))
        ticks = self.numbers[name]
        return ticks if scale == 1 else np.where(ticks % scale == 0, ticks // scale, -1)


DAY = 24 * 60
"""Minutes of a day."""


def minutes_of(clock: np.ndarray) -> np.ndarray:
    """The minute of the day of times written as 100*hour + minute.

    >>> minutes_of(np.array([0, 1, 130, 2359, 2400])).tolist()
    [0, 1, 90, 1439, 0]
    """
    return (clock // 100 % 24 * 60 + clock % 100) % DAY


def ticks_of_one(column: Binned) -> int:
    """Ticks of a whole number."""
    return round(1 / float(column.tick or 1))
