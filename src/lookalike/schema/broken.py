"""Which rows break a rule of the schema: rows that are generated, and behind the door rows on which rules are tested.

A row breaks a rule or not by its own codes and numbers alone.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.constraints import AtLeast, Determines, Parts, Sum, holds, relation_of
from lookalike.schema.domain import ColumnSet
from lookalike.schema.enforce import determined, structural_zeros
from lookalike.schema.parts import in_zone, part_of
from lookalike.schema.schema import Schema
from lookalike.schema.times import TICKS

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

    def present(self, name: str) -> np.ndarray:
        """Which rows have a value in the column."""
        return self.codes[:, self.place(name)] < self.schema[name].regular

    def whole(self, name: str) -> np.ndarray:
        """The numbers of a column rounded to whole ones; what has a fraction becomes -1, which no part is."""
        scale = ticks_of_one(cast(Binned, self.schema[name]))
        ticks = self.numbers[name]
        return ticks if scale == 1 else np.where(ticks % scale == 0, ticks // scale, -1)


def ticks_of_one(column: Binned) -> int:
    """Ticks of a whole number."""
    return round(1 / float(column.tick or 1))
