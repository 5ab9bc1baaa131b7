"""Public rules about rows, such as that a discharge is never before its admission.

A schema file lists them under `dp.constraints`:

    - never: ward = Maternity and sex = M
    - always: discharged >= admitted
    - always: discharged = admitted + stay_days
    - always: departure = 100*hour + minute
    - clock: {of: departure, from: scheduled, minutes: delay}
    - determines: {from: education, to: education-num, table: {HS-grad: 9, Bachelors: 13}}
    - determines: {from: [origin, dest], to: distance, table: [[EWR, IAH, 1400], [JFK, IAH, 1417]]}
    - parts: {of: time_hour, zone: America/New_York, year: year, month: month, day: day}

Rules that compare or add up columns become a `Relation`, which has the columns' units. `enforce.py` applies the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Continuous, Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.columns import PROVENANCES, Column, Provenance
from lookalike.schema.documents import as_text
from lookalike.schema.parts import PARTS

_NAME = r"""\s*(?:([0-9]{1,9})\s*\*)?\s*(?:`([^`]+)`|"([^"]+)"|([^\s<>=+"`]+))\s*"""
_SIGNS = ("<=", ">=", "==", "=", "<", ">")
_SHOWN = 8
"""Entries of a long table that the text of a rule shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A public rule about the columns of one row. `provenance` is `measured` where a run found it in its budget."""

    provenance: Provenance = "public"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the rule, as far as they can be read without a schema."""
        return ()

    @property
    def computed(self) -> tuple[str, ...]:
        """Names of the columns that can be computed from the others."""
        return ()

    def body(self) -> dict[str, Any]:
        """The rule as an entry of a schema file, without its provenance."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The rule as an entry of a schema file."""
        return self.body() if self.provenance == "public" else {**self.body(), "provenance": self.provenance}


@dataclass(frozen=True, slots=True)
class Never(Constraint):
    """A combination of values that no row has, as a condition in words: `ward = Maternity and sex = M`."""

    condition: str

    def body(self) -> dict[str, Any]:
        return {"never": self.condition}


@dataclass(frozen=True, slots=True)
class AtLeast(Constraint):
    """The number or time in one column is never below (with `strict`: always above) that in another."""

    larger: str
    smaller: str
    strict: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.larger, self.smaller)

    def body(self) -> dict[str, Any]:
        return {"always": f"{_quoted(self.larger)} {'>' if self.strict else '>='} {_quoted(self.smaller)}"}


@dataclass(frozen=True, slots=True)
class Sum(Constraint):
    """A number or time is the sum of others: whole ticks of its own resolution are added, as days to a date.

    `factors` multiply the terms, as in 100*hour + minute; without them each counts once.
    """

    total: str
    terms: tuple[str, ...]
    factors: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.total, *self.terms)

    @property
    def computed(self) -> tuple[str, ...]:
        return (self.total,)

    @property
    def multiples(self) -> tuple[int, ...]:
        """The factor of every term."""
        return self.factors or (1,) * len(self.terms)

    def body(self) -> dict[str, Any]:
        terms = [
            (f"{factor}*" if factor != 1 else "") + _quoted(term)
            for factor, term in zip(self.multiples, self.terms, strict=True)
        ]
        return {"always": f"{_quoted(self.total)} = {' + '.join(terms)}"}


@dataclass(frozen=True, slots=True)
class ClockSum(Constraint):
    """A time of day is another one some minutes later, both written as 100*hour + minute; midnight is 0 or 2400."""

    total: str
    start: str
    minutes: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.total, self.start, self.minutes)

    @property
    def computed(self) -> tuple[str, ...]:
        return (self.total,)

    def body(self) -> dict[str, Any]:
        return {"clock": {"of": self.total, "from": self.start, "minutes": self.minutes}}


@dataclass(frozen=True, slots=True)
class Determines(Constraint):
    """The value in one column follows from that in another, or in several, as a code from its label.

    Values that the table does not list determine nothing. Keys are texts, or tuples of texts for several columns.
    """

    source: str | tuple[str, ...]
    target: str
    table: tuple[tuple[str | tuple[str, ...], str], ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.sources, self.target)

    @property
    def computed(self) -> tuple[str, ...]:
        return (self.target,)

    def body(self) -> dict[str, Any]:
        if isinstance(self.source, str):
            return {"determines": {"from": self.source, "to": self.target, "table": dict(self.table)}}
        table = [[*key, value] for key, value in self.table]
        return {"determines": {"from": list(self.source), "to": self.target, "table": table}}


@dataclass(frozen=True, slots=True)
class Parts(Constraint):
    """Numbers are parts of a time (`parts.py`): its year, month, day, weekday, hour, ...

    Attributes:
        time: the column of times.
        parts: name of the part and of the column that holds it.
        zone: time zone in which the parts are read where the times are in UTC; "" takes times as they are written.
    """

    time: str
    parts: tuple[tuple[str, str], ...]
    zone: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.time, *(name for _, name in self.parts))

    @property
    def computed(self) -> tuple[str, ...]:
        return self.columns

    def body(self) -> dict[str, Any]:
        zone = {"zone": self.zone} if self.zone else {}
        return {"parts": {"of": self.time, **zone, **dict(self.parts)}}


def rule_text(rule: Constraint) -> str:
    """The rule in one line, as in a schema file.

    >>> rule_text(AtLeast("end", "start"))
    'always: end >= start'
    """
    kind, body = next(iter(rule.body().items()))
    if isinstance(rule, Determines):
        keys = [(key if isinstance(key, str) else ", ".join(key), value) for key, value in rule.table]
        shown = [f"{key} -> {value}" for key, value in keys[:_SHOWN]]
        more = [f"{len(keys) - _SHOWN:,} more"] if len(keys) > _SHOWN else []
        return f"{kind}: {', '.join(rule.sources)} gives {rule.target} ({', '.join(shown + more)})"
    if isinstance(rule, Parts):
        listed = ", ".join(f"{name} is its {part}" for part, name in rule.parts)
        return f"{kind}: of {rule.time}{f' in {rule.zone}' if rule.zone else ''}, {listed}"
    if isinstance(rule, ClockSum):
        return f"{kind}: {_quoted(rule.total)} is {_quoted(rule.minutes)} minutes after {_quoted(rule.start)}"
    return f"{kind}: {body}"


def constraint_of(entry: Any, number: int) -> Constraint:
    """The constraint of one entry of a schema file."""
    place = f"Constraint {number}"
    kinds = [kind for kind in entry if kind != "provenance"] if isinstance(entry, Mapping) else []
    if len(kinds) != 1:
        raise SchemaError(f"{place} must have one of the keys never, always, determines, parts, clock.")
    mark, body = as_text(entry.get("provenance", "public")), entry[kinds[0]]
    if mark not in PROVENANCES or mark == "open":
        raise SchemaError(f"{place} has provenance {mark!r}. Use public, assumed or measured.")
    readers = {"never": _never, "always": _always, "determines": _determines, "parts": _parts, "clock": _clock}
    if kinds[0] not in readers:
        raise SchemaError(f"{place} has the key {kinds[0]!r}. Use never, always, determines, parts or clock.")
    return replace(readers[kinds[0]](body, place), provenance=mark)


def _never(body: Any, place: str) -> Constraint:
    return Never(as_text(body))


def _always(body: Any, place: str) -> Constraint:
    text = as_text(body)
    sign = next((sign for sign in _SIGNS if sign in _bare(text)), None)
    sides = text.split(sign, 1) if sign else []
    left = _names(sides[0]) if sides else None
    right = _names(sides[1]) if sides else None
    if left and right and len(left) == 1 and left[0][0] == 1:
        (_, one), (factors, names) = left[0], zip(*right, strict=True)
        if sign in ("=", "=="):
            return Sum(one, names, () if set(factors) == {1} else factors)
        if len(names) == 1 and factors == (1,):
            larger, smaller = (one, names[0]) if sign in (">", ">=") else (names[0], one)
            return AtLeast(larger, smaller, strict=sign in ("<", ">"))
    raise SchemaError(
        f"{place} says always: {text!r}. Compare two columns, as in 'end >= start', or add some up, as in "
        "'end = start + days' or 'clock = 100*hour + minute'; put names with spaces in backquotes. For conditions on "
        "values, write never: ..."
    )


def _bare(text: str) -> str:
    return re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)


def _names(side: str) -> list[tuple[int, str]] | None:
    """The factors and column names of `a + 60*b + c`, None where the text is something else."""
    if not re.fullmatch(rf"{_NAME}(?:\+{_NAME})*", side):
        return None
    found = [(int(factor or 1), next(filter(None, names))) for factor, *names in re.findall(_NAME, side)]
    return found if all(factor for factor, _ in found) else None


def _determines(body: Any, place: str) -> Constraint:
    if not isinstance(body, Mapping) or set(body) != {"from", "to", "table"}:
        raise SchemaError(f"{place} needs determines: {{from: column, to: column, table: {{value: value, ...}}}}.")
    source, table, target = body["from"], body["table"], as_text(body["to"])
    if isinstance(source, list):
        rows = table if isinstance(table, list) else []
        if not source or not rows or any(not isinstance(row, list) or len(row) != len(source) + 1 for row in rows):
            raise SchemaError(f"{place} needs a table of rows [value, ..., value], one value per column of 'from' + 1.")
        listed = [[as_text(value) for value in row] for row in rows]
        names = tuple(as_text(name) for name in source)
        return Determines(names, target, tuple((tuple(key), value) for *key, value in listed))
    if not isinstance(table, Mapping):
        raise SchemaError(f"{place} needs determines: {{from: column, to: column, table: {{value: value, ...}}}}.")
    return Determines(as_text(source), target, tuple((as_text(key), as_text(value)) for key, value in table.items()))


def _parts(body: Any, place: str) -> Constraint:
    found = {as_text(key): as_text(value) for key, value in body.items()} if isinstance(body, Mapping) else {}
    time, zone = found.pop("of", ""), found.pop("zone", "")
    if not time or not found or not set(found) <= set(PARTS):
        raise SchemaError(
            f"{place} needs parts: {{of: column of times, part: column, ...}}. Parts are {', '.join(PARTS)}."
        )
    times.check_zone(time, zone)
    return Parts(time, tuple(found.items()), zone)


def _clock(body: Any, place: str) -> Constraint:
    found = {as_text(key): as_text(value) for key, value in body.items()} if isinstance(body, Mapping) else {}
    if set(found) != {"of", "from", "minutes"} or len(set(found.values())) < len(found):
        raise SchemaError(
            f"{place} needs clock: {{of: column, from: column, minutes: column}}, three different columns."
        )
    return ClockSum(found["of"], found["from"], found["minutes"])


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[^\s<>=+\"`]+", name) and not re.match(r"[0-9]+\*", name)
    return name if plain else f"`{name}`"


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A rule that compares or adds up numbers or times, with its columns in a unit that all of them share.

    Attributes:
        units: how many shared units one tick of each column is worth, times the factor of the term.
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

    def to_ticks(self, name: str, shared: np.ndarray, *, up: bool = False, bounded: bool = True) -> np.ndarray:
        """Shared units as ticks of a column, rounded down (or up), within its bounds unless these do not matter."""
        at = self.names.index(name)
        unit, (low, high) = self.units[at], self.bounds[at]
        ticks = (-(-shared // unit) if up else shared // unit) if self.exact else shared / unit
        within = np.clip(ticks, low, high) if bounded else ticks
        return self.columns[at].settled(within, up=up) if self.exact and bounded else within

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
    if isinstance(rule, Sum):
        units = [units[0], *(unit * factor for unit, factor in zip(units[1:], rule.multiples, strict=True))]
    places = tuple(found[name][0] for name in rule.columns)
    ends = [column.bin_ends() for column in binned]
    bounds = tuple((first[0].item(), last[-1].item()) for first, last in ends)
    return Relation(rule, rule.columns, binned, tuple(units), exact, places, bounds)


def _unit(column: Binned, finest: int, exact: bool) -> float | int:
    """How many shared units one tick of a number is worth, given the decimals of the finest column."""
    places = (column.decimals or 0) if isinstance(column, Continuous) else 0
    return 10 ** (finest - places) if exact else 10.0**-places


def holds(relation: Relation, codes: np.ndarray, numbers: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows satisfy the rule; a row with a missing value in one of its columns does.

    A total that the rule computes must be missing exactly where a term is.
    """
    known = [codes[:, place] < column.regular for column, place in zip(relation.columns, relation.places, strict=True)]
    present = np.all(known, axis=0)
    shared = [relation.to_shared(name, numbers[name]) for name in relation.names]
    if isinstance(relation.rule, AtLeast):
        kept = shared[0] > shared[1] if relation.rule.strict else shared[0] >= shared[1]
    elif relation.exact:
        kept = shared[0] == sum(shared[1:])
    else:
        kept = np.isclose(shared[0], sum(shared[1:]), rtol=1e-9, atol=1e-12)
    if isinstance(relation.rule, Sum) and relation.columns[0].derived and relation.columns[0].missing:
        return np.where(np.all(known[1:], axis=0), kept & known[0], ~known[0])
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
