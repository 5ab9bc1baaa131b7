"""Public rules about rows, such as that a discharge is never before its admission.

A schema file lists them under `dp.constraints`:

    - never: ward = Maternity and sex = M
    - always: discharged >= admitted
    - always: discharged = admitted + stay_days
    - determines: {from: education, to: education-num, table: {HS-grad: 9, Bachelors: 13}}

Rules that compare or add up columns become a `Relation`, which has the columns' units. `enforce.py` applies the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime
from lookalike.schema.columns import Column
from lookalike.schema.documents import as_text

_NAME = r"""\s*(?:`([^`]+)`|"([^"]+)"|([^\s<>=+"`]+))\s*"""
_SIGNS = ("<=", ">=", "==", "=", "<", ">")


class Constraint(Protocol):
    """A public rule about the columns of one row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the rule, as far as they can be read without a schema."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The rule as an entry of a schema file."""
        ...


@dataclass(frozen=True, slots=True)
class Never:
    """A combination of values that no row has, as a condition in words: `ward = Maternity and sex = M`."""

    condition: str

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def to_dict(self) -> dict[str, Any]:
        return {"never": self.condition}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The number or time in one column is never below (with `strict`: always above) that in another."""

    larger: str
    smaller: str
    strict: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.larger, self.smaller)

    def to_dict(self) -> dict[str, Any]:
        return {"always": f"{_quoted(self.larger)} {'>' if self.strict else '>='} {_quoted(self.smaller)}"}


@dataclass(frozen=True, slots=True)
class Sum:
    """A number or time is the sum of others: whole ticks of its own resolution are added, as days to a date."""

    total: str
    terms: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.total, *self.terms)

    def to_dict(self) -> dict[str, Any]:
        return {"always": f"{_quoted(self.total)} = {' + '.join(_quoted(term) for term in self.terms)}"}


@dataclass(frozen=True, slots=True)
class Determines:
    """The value in one column follows from that in another, as a code from its label. Others determine nothing."""

    source: str
    target: str
    table: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.source, self.target)

    def to_dict(self) -> dict[str, Any]:
        return {"determines": {"from": self.source, "to": self.target, "table": dict(self.table)}}


def rule_text(rule: Constraint) -> str:
    """The rule in one line, as in a schema file.

    >>> rule_text(AtLeast("end", "start"))
    'always: end >= start'
    """
    kind, body = next(iter(rule.to_dict().items()))
    if isinstance(body, Mapping):
        pairs = ", ".join(f"{one} -> {two}" for one, two in body["table"].items())
        return f"{kind}: {body['from']} gives {body['to']} ({pairs})"
    return f"{kind}: {body}"


def constraint_of(entry: Any, number: int) -> Constraint:
    """The constraint of one entry of a schema file."""
    place = f"Constraint {number}"
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise SchemaError(f"{place} must have one of the keys never, always, determines.")
    kind, body = next(iter(entry.items()))
    if kind == "never":
        return Never(as_text(body))
    if kind == "always":
        return _always(as_text(body), place)
    if kind == "determines":
        return _determines(body, place)
    raise SchemaError(f"{place} has the key {kind!r}. Use never, always or determines.")


def _always(text: str, place: str) -> Constraint:
    sign = next((sign for sign in _SIGNS if sign in _bare(text)), None)
    sides = text.split(sign, 1) if sign else []
    left = _names(sides[0]) if sides else None
    right = _names(sides[1]) if sides else None
    if left and right and len(left) == 1:
        if sign in ("=", "=="):
            return Sum(left[0], tuple(right))
        if len(right) == 1:
            larger, smaller = (left[0], right[0]) if sign in (">", ">=") else (right[0], left[0])
            return AtLeast(larger, smaller, strict=sign in ("<", ">"))
    raise SchemaError(
        f"{place} says always: {text!r}. Compare two columns, as in 'end >= start', or add some up, as in "
        "'end = start + days'; put names with spaces in backquotes. For conditions on values, write never: ..."
    )


def _bare(text: str) -> str:
    return re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)


def _names(side: str) -> list[str] | None:
    """The column names of `a + b + c`, None where the text is something else."""
    if not re.fullmatch(rf"{_NAME}(?:\+{_NAME})*", side):
        return None
    return [next(filter(None, groups)) for groups in re.findall(_NAME, side)]


def _determines(body: Any, place: str) -> Constraint:
    if not isinstance(body, Mapping) or set(body) != {"from", "to", "table"} or not isinstance(body["table"], Mapping):
        raise SchemaError(f"{place} needs determines: {{from: column, to: column, table: {{value: value, ...}}}}.")
    pairs = tuple((as_text(key), as_text(value)) for key, value in body["table"].items())
    return Determines(as_text(body["from"]), as_text(body["to"]), pairs)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\s<>=+\"`]+", name) else f"`{name}`"


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A rule that compares or adds up numbers or times, with its columns in a unit that all of them share.

    Attributes:
        units: how many shared units one tick of each column is worth.
        exact: whether all columns have ticks, so that the arithmetic is on whole numbers.
        places: position of each column in the schema.
        bounds: smallest and largest value of each column, in ticks where it has ticks.
    """

    rule: AtLeast | Sum
    names: tuple[str, ...]
    columns: tuple[Binned, ...]
    units: tuple[float | int, ...]
    exact: bool
    places: tuple[int, ...]
    bounds: tuple[tuple[float, float], ...]

    def to_shared(self, name: str, ticks: np.ndarray) -> np.ndarray:
        """Ticks of a column in shared units."""
        return ticks * self.units[self.names.index(name)]

    def to_ticks(self, name: str, shared: np.ndarray, *, up: bool = False) -> np.ndarray:
        """Shared units as ticks of a column within its bounds, rounded down (or up)."""
        at = self.names.index(name)
        unit, (low, high) = self.units[at], self.bounds[at]
        ticks = (-(-shared // unit) if up else shared // unit) if self.exact else shared / unit
        within = np.clip(ticks, low, high)
        return self.columns[at].settled(within, up=up) if self.exact else within

    def bin_ranges(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of every bin in shared units."""
        at = self.names.index(name)
        first, last = self.columns[at].bin_ends()
        return first * self.units[at], last * self.units[at]


def relation_of(columns: Sequence[Column], rule: AtLeast | Sum) -> Relation:
    """The rule with its columns from a schema; a SchemaError where they cannot be compared or added."""
    found = {column.name: (place, column) for place, column in enumerate(columns)}
    binned = tuple(column for _, column in (found[name] for name in rule.columns) if isinstance(column, Binned))
    for name in rule.columns:
        if not isinstance(found[name][1], Binned):
            raise SchemaError(
                f"The rule '{rule_text(rule)}' needs numbers or times, but column {name!r} is "
                f"{type(found[name][1]).__name__}. Change the rule, or the type of the column."
            )
    exact = all(column.tick is not None for column in binned)
    clocks = [column for column in binned if isinstance(column, Datetime)]
    if clocks and isinstance(rule, AtLeast) and len(clocks) != 2:
        raise SchemaError(f"The rule '{rule_text(rule)}' compares a time with a number. Compare times with times.")
    if clocks and isinstance(rule, Sum) and not (isinstance(binned[0], Datetime) and len(clocks) == 2):
        raise SchemaError(f"The rule '{rule_text(rule)}' must add numbers to one time and give a time.")
    if clocks:
        base = clocks[0].resolution
        units = [times.TICKS[c.resolution if isinstance(c, Datetime) else base] for c in binned]
    else:
        finest = max((c.decimals or 0 for c in binned if isinstance(c, Continuous)), default=0)
        units = [_unit(column, finest, exact) for column in binned]
    places = tuple(found[name][0] for name in rule.columns)
    ends = [column.bin_ends() for column in binned]
    bounds = tuple((first[0].item(), last[-1].item()) for first, last in ends)
    return Relation(rule, rule.columns, binned, tuple(units), exact, places, bounds)


def _unit(column: Binned, finest: int, exact: bool) -> float | int:
    """How many shared units one tick of a number is worth, where the finest column has so many decimals."""
    places = (column.decimals or 0) if isinstance(column, Continuous) else 0
    return 10 ** (finest - places) if exact else 10.0**-places


def holds(relation: Relation, codes: np.ndarray, numbers: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows satisfy the rule; a row with a missing value in one of its columns does."""
    present = np.ones(len(codes), dtype=bool)
    for column, place in zip(relation.columns, relation.places, strict=True):
        present &= codes[:, place] < column.regular
    shared = [relation.to_shared(name, numbers[name]) for name in relation.names]
    if isinstance(relation.rule, AtLeast):
        kept = shared[0] > shared[1] if relation.rule.strict else shared[0] >= shared[1]
    elif relation.exact:
        kept = shared[0] == sum(shared[1:])
    else:
        kept = np.isclose(shared[0], sum(shared[1:]), rtol=1e-9, atol=1e-12)
    return kept | ~present


def moved(relation: Relation, numbers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The numbers, moved within the columns' bounds so that the rule holds where the bounds allow it."""
    shared = {name: relation.to_shared(name, values) for name, values in numbers.items()}
    rule = relation.rule
    if isinstance(rule, AtLeast):
        gap = (relation.units[0] if relation.exact else 1e-9) if rule.strict else 0
        larger = np.maximum(relation.to_ticks(rule.larger, shared[rule.smaller] + gap, up=True), numbers[rule.larger])
        limit = relation.to_shared(rule.larger, larger) - gap
        smaller = np.minimum(relation.to_ticks(rule.smaller, limit), numbers[rule.smaller])
        return {rule.larger: larger, rule.smaller: smaller}
    results = dict(numbers)
    results[rule.total] = relation.to_ticks(rule.total, np.sum([shared[term] for term in rule.terms], axis=0))
    for term in reversed(rule.terms):
        others = sum(relation.to_shared(name, results[name]) for name in rule.terms if name != term)
        wanted = relation.to_shared(rule.total, results[rule.total]) - others
        results[term] = relation.to_ticks(term, wanted)
    return results
