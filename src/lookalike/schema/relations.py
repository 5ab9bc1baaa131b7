"""Rules that compare or add up numbers and times of several columns, in a unit that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime
from lookalike.schema.constraints import AtLeast, Sum
from lookalike.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A rule with its columns and how many shared units one tick of each is worth.

    Attributes:
        exact: whether all columns have ticks, so that the arithmetic is on whole numbers.
        places: position of each column in the schema.
        bounds: first and last tick of each column.
    """

    rule: AtLeast | Sum
    names: tuple[str, ...]
    columns: tuple[Binned, ...]
    units: tuple[float | int, ...]
    exact: bool
    places: tuple[int, ...]
    bounds: tuple[tuple[float, float], ...]

    def shared(self, name: str, ticks: np.ndarray) -> np.ndarray:
        """Ticks of a column in shared units."""
        return ticks * self.units[self.names.index(name)]

    def own(self, name: str, shared: np.ndarray, *, up: bool = False) -> np.ndarray:
        """Shared units as ticks of a column within its bounds, rounded down (or up)."""
        at = self.names.index(name)
        unit, (low, high) = self.units[at], self.bounds[at]
        ticks = (-(-shared // unit) if up else shared // unit) if self.exact else shared / unit
        return np.clip(ticks, low, high)

    def bin_ranges(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of every bin in shared units."""
        at = self.names.index(name)
        column, unit = self.columns[at], self.units[at]
        if column.tick is not None:
            first, last = column.tick_ranges()
            return first * unit, last * unit
        return column.edges * unit, np.append(column.edges[1:], column.internal(column.maximum)) * unit


def relation_of(schema: Schema, rule: AtLeast | Sum) -> Relation:
    """The rule made ready for a schema; an error where its columns cannot be compared or added."""
    columns = [schema[name] for name in rule.columns]
    for column in columns:
        if not isinstance(column, Binned):
            raise SchemaError(
                f"The rule {_text(rule)} needs numbers or times, which column {column.name!r} does not hold."
            )
    binned = tuple(column for column in columns if isinstance(column, Binned))
    exact = all(column.tick is not None for column in binned)
    clocks = [column for column in binned if isinstance(column, Datetime)]
    if clocks and isinstance(rule, AtLeast) and len(clocks) != 2:
        raise SchemaError(f"The rule {_text(rule)} compares a time with a number. Compare times with times.")
    if clocks and isinstance(rule, Sum) and not (isinstance(binned[0], Datetime) and len(clocks) == 2):
        raise SchemaError(f"The rule {_text(rule)} must add numbers to one time and give a time.")
    if clocks:
        base = clocks[0].resolution
        units = [times.TICKS[c.resolution if isinstance(c, Datetime) else base] for c in binned]
    else:
        most = max((c.decimals or 0 for c in binned if isinstance(c, Continuous)), default=0)
        units = [_unit(column, most, exact) for column in binned]
    places = tuple(schema.names.index(column.name) for column in binned)
    return Relation(rule, rule.columns, binned, tuple(units), exact, places, tuple(_bounds(c) for c in binned))


def _unit(column: Binned, most: int, exact: bool) -> float | int:
    places = (column.decimals or 0) if isinstance(column, Continuous) else 0
    return 10 ** (most - places) if exact else 10.0**-places


def _bounds(column: Binned) -> tuple[float, float]:
    if column.tick is not None:
        first, last = column.tick_ranges()
        return int(first[0]), int(last[-1])
    return float(column.internal(column.minimum)), float(column.internal(column.maximum))


def _text(rule: AtLeast | Sum) -> str:
    return repr(next(iter(rule.to_dict().values())))


def holds(relation: Relation, codes: np.ndarray, numbers: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows keep the rule; rows with a missing value among its columns do."""
    present = np.ones(len(codes), dtype=bool)
    for column, place in zip(relation.columns, relation.places, strict=True):
        present &= codes[:, place] < column.regular
    shared = [relation.shared(name, numbers[name]) for name in relation.names]
    if isinstance(relation.rule, AtLeast):
        kept = shared[0] > shared[1] if relation.rule.strict else shared[0] >= shared[1]
    elif relation.exact:
        kept = shared[0] == sum(shared[1:])
    else:
        kept = np.isclose(shared[0], sum(shared[1:]), rtol=1e-9, atol=1e-12)
    return kept | ~present


def settled(relation: Relation, numbers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Numbers moved within the columns' bounds so that the rule holds wherever bounds allow it."""
    shared = {name: relation.shared(name, values) for name, values in numbers.items()}
    rule = relation.rule
    if isinstance(rule, AtLeast):
        gap = (relation.units[0] if relation.exact else 1e-9) if rule.strict else 0
        larger = np.maximum(relation.own(rule.larger, shared[rule.smaller] + gap, up=True), numbers[rule.larger])
        limit = relation.shared(rule.larger, larger) - gap
        smaller = np.minimum(relation.own(rule.smaller, limit), numbers[rule.smaller])
        return {rule.larger: larger, rule.smaller: smaller}
    results = dict(numbers)
    results[rule.total] = relation.own(rule.total, np.sum([shared[term] for term in rule.terms], axis=0))
    for term in reversed(rule.terms):
        others = sum(relation.shared(name, results[name]) for name in rule.terms if name != term)
        wanted = relation.shared(rule.total, results[rule.total]) - others
        results[term] = relation.own(term, wanted)
    return results
