"""PostgreSQL expressions of the classes of rows by which discovery tests rules, as `schema/probes.py` gives them.

The codes and ticks of the columns that a class depends on are computed first, in a subquery `r` with columns c0, n0,
c1, n1, ...; then they are compared. Products are numbers of any size, so that none overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lookalike.schema.binned import Binned, Datetime, Integer
from lookalike.schema.constraints import AtLeast, ClockSum, Constraint, Determines, Parts, Sum, relation_of
from lookalike.schema.enforce import DAY, determined, structural_zeros, ticks_of_one
from lookalike.schema.parts import FIRST, LAST
from lookalike.schema.probes import Comparison, HourLate, RowProbe, RuleProbe, ValueAndMissing, as_ticks
from lookalike.schema.times import TICKS
from lookalike.sources.sql.expressions import code_of, number_of, refused, ticks_of
from lookalike.sources.sql.sessions import Field, literal

FieldOf = Callable[[str], Field]
_PARTS = {
    "year": "EXTRACT(YEAR FROM {0})", "quarter": "EXTRACT(QUARTER FROM {0})", "month": "EXTRACT(MONTH FROM {0})",
    "day": "EXTRACT(DAY FROM {0})", "day of year": "EXTRACT(DOY FROM {0})",
    "weekday": "EXTRACT(ISODOW FROM {0}) - 1", "weekday from 1": "EXTRACT(ISODOW FROM {0})",
    "weekday from Sunday": "EXTRACT(DOW FROM {0})", "weekday from Sunday 1": "EXTRACT(DOW FROM {0}) + 1",
    "hour": "EXTRACT(HOUR FROM {0})", "minute": "EXTRACT(MINUTE FROM {0})", "second": "floor(EXTRACT(SECOND FROM {0}))",
    "clock": "EXTRACT(HOUR FROM {0}) * 100 + EXTRACT(MINUTE FROM {0})",
    "date": "EXTRACT(YEAR FROM {0}) * 10000 + EXTRACT(MONTH FROM {0}) * 100 + EXTRACT(DAY FROM {0})",
}  # fmt: skip
"""Parts of a wall-clock time, as `schema/parts.py` numbers them."""


def row_code(probe: RowProbe, field_of: FieldOf) -> str:
    """The class of every row."""
    known = []
    for place, base in enumerate(probe.schema.columns):
        full, field = replace(base, derived=False), field_of(base.name)
        known.append(f"({code_of(full, field)}) AS c{place}")
        if isinstance(full, Binned):
            known.append(f"{_number(full, field)} AS n{place}")
    return f"(SELECT {_class(probe)} FROM (SELECT {', '.join(known)} OFFSET 0) r)"


def _number(column: Binned, field: Field) -> str:
    """Ticks of a column, or floats where it has none; that of its minimum where there is no number."""
    low = np.array([column.internal(column.minimum)])
    if column.tick is None:
        return f"COALESCE({number_of(column, field)}, '{float(low[0])!r}'::float8)"
    least = int(low[0]) if isinstance(column, Integer | Datetime) else int(as_ticks(column, low)[0])
    return f"COALESCE({ticks_of(column, field)}, {least})"


def _class(probe: RowProbe) -> str:
    if isinstance(probe, RuleProbe):
        return f"CASE WHEN {' OR '.join(_broken(probe)) or 'false'} THEN 1 ELSE 0 END"
    one, two = (_present(probe, place, other=True) for place in range(2))
    if isinstance(probe, Comparison):
        numbers = all(isinstance(column, Binned) for column in probe.schema.columns)
        both = "CASE WHEN r.n0 < r.n1 THEN 3 WHEN r.n0 > r.n1 THEN 5 ELSE 4 END" if numbers else "4"
        return f"CASE WHEN {one} AND {two} THEN {both} WHEN {one} THEN 2 WHEN {two} THEN 1 ELSE 0 END"
    if isinstance(probe, HourLate):
        hour = _PARTS["hour"].format(_wall(probe, 0, ""))
        within = f"{one} AND {two} AND r.n1 >= 0 AND r.n1 < 24"
        return f"CASE WHEN {within} THEN floor(mod((r.n1 - {hour} + 24)::numeric, 24))::int ELSE 24 END"
    if isinstance(probe, ValueAndMissing):
        return f"2 * r.c0 + CASE WHEN {two} THEN 0 ELSE 1 END"
    raise refused(probe, f"is asked for by {type(probe).__name__}, which SQL cannot express", "Use --no-rules.")


def _present(probe: RowProbe, place: int, *, other: bool = False) -> str:
    column = probe.schema.columns[place]
    return f"r.c{place} < {column.regular + (column.has_other if other else 0)}"


def _wall(probe: RowProbe, place: int, zone: str) -> str:
    """The wall-clock time of a column of times, in a zone where one is given."""
    column = probe.schema.columns[place]
    tick = TICKS[column.resolution] if isinstance(column, Datetime) else 1
    micros = f"GREATEST(LEAST(r.n{place} * {tick}, {LAST}), {FIRST})"
    if zone:
        return f"((TIMESTAMPTZ 'epoch' + {micros} * INTERVAL '1 microsecond') AT TIME ZONE {literal(zone)})"
    return f"(TIMESTAMP 'epoch' + {micros} * INTERVAL '1 microsecond')"


# Rules.


def _broken(probe: RuleProbe) -> list[str]:
    """The conditions under which a row breaks a rule."""
    found = [_in_cells(probe, attrs, mask) for attrs, mask in structural_zeros(probe.schema).items()]
    return [*found, *(condition for rule in probe.schema.constraints for condition in _breaks(probe, rule))]


def _breaks(probe: RuleProbe, rule: Constraint) -> list[str]:
    if isinstance(rule, Determines):
        return _not_determined(probe, rule)
    if isinstance(rule, Parts):
        return _other_parts(probe, rule)
    if isinstance(rule, ClockSum):
        return _other_clock(probe, rule)
    return [_not_related(probe, rule)] if isinstance(rule, AtLeast | Sum) else []


def _place(probe: RuleProbe, name: str) -> int:
    return probe.schema.names.index(name)


def _cell(probe: RuleProbe, names: tuple[str, ...]) -> str:
    cell = "0"
    for name in names:
        cell = f"({cell})::bigint * {probe.schema[name].written_codes} + r.c{_place(probe, name)}"
    return cell


def _in_cells(probe: RuleProbe, names: tuple[str, ...], mask: np.ndarray) -> str:
    listed = ",".join(map(str, np.flatnonzero(mask.reshape(-1)).tolist()))
    return f"{_cell(probe, names)} = ANY('{{{listed}}}'::bigint[])"


def _not_determined(probe: RuleProbe, rule: Determines) -> list[str]:
    """Rows whose target has another code, or another number, than its sources determine."""
    target, at = probe.schema[rule.target], _place(probe, rule.target)
    sizes = [probe.schema[name].written_codes for name in rule.sources]
    codes, numbers = np.full(sizes, -1, dtype=np.int64), np.zeros(sizes)
    for cell, (wanted, text) in determined(probe.schema, rule).items():
        codes[cell] = wanted
        if isinstance(target, Binned) and wanted < target.regular:
            number = target.internal(text)
            numbers[cell] = number if target.tick is None else target.nearest_tick(number)
    cell = _cell(probe, rule.sources)
    code = f"('{{{','.join(map(str, codes.reshape(-1).tolist()))}}}'::int[])[{cell} + 1]"
    found = [f"({code} >= 0 AND {code} <> r.c{at})"]
    if isinstance(target, Binned):
        value = f"('{{{','.join(map(repr, numbers.reshape(-1).tolist()))}}}'::float8[])[{cell} + 1]"
        found.append(f"({code} >= 0 AND {code} < {target.regular} AND {value} <> r.n{at})")
    return found


def _other_parts(probe: RuleProbe, rule: Parts) -> list[str]:
    """Rows with a part that is not the time's, or with one of both where one is computed from the other."""
    at = _place(probe, rule.time)
    time, there, wall = probe.schema[rule.time], _present(probe, at), _wall(probe, at, rule.zone)
    found = []
    for part, name in rule.parts:
        own = _place(probe, name)
        column, known = probe.schema[name], _present(probe, own)
        found.append(f"({there} AND {known} AND ({_whole(probe, own)}) <> ({_PARTS[part].format(wall)}))")
        if (time.derived and time.missing) or (column.derived and column.missing):
            found.append(f"(({there}) <> ({known}))")
    return found


def _whole(probe: RuleProbe, place: int, otherwise: str = "-1") -> str:
    """A column's number as a whole one, or something else where it has a fraction."""
    column = probe.schema.columns[place]
    scale = ticks_of_one(column) if isinstance(column, Binned) else 1
    whole = f"CASE WHEN r.n{place} % {scale} = 0 THEN r.n{place} / {scale} ELSE {otherwise} END"
    return f"r.n{place}" if scale == 1 else whole


def _other_clock(probe: RuleProbe, rule: ClockSum) -> list[str]:
    """Rows with another time of day than the rule gives, or with one of both where it is computed."""
    places = [_place(probe, name) for name in rule.columns]
    there, start, minutes = (_present(probe, place) for place in places)
    total, first, later = (f"({_whole(probe, place, 'NULL')})::numeric" for place in places)
    apart = f"({first} - FLOOR({first} / 100) * 40 + {later} - ({total} - FLOOR({total} / 100) * 40))"
    found = [f"({there} AND {start} AND {minutes} AND COALESCE({apart} % {DAY} <> 0, TRUE))"]
    column = probe.schema[rule.total]
    if column.derived and column.missing:
        found.append(f"(({there}) <> ({start} AND {minutes}))")
    return found


def _not_related(probe: RuleProbe, rule: AtLeast | Sum) -> str:
    relation = relation_of(probe.schema.columns, rule)
    if not relation.exact and (isinstance(rule, Sum) or len(set(relation.units)) > 1):
        raise refused(probe, "has a rule between numbers of any decimals", "Use --no-rules.")
    known = [_present(probe, place) for place in relation.places]
    shared = [
        f"r.n{place}::numeric * {unit}" if relation.exact else f"r.n{place}"
        for place, unit in zip(relation.places, relation.units, strict=True)
    ]
    if isinstance(rule, AtLeast):
        kept = f"{shared[0]} {'>' if rule.strict else '>='} {shared[1]}"
    else:
        kept = f"{shared[0]} = {' + '.join(shared[1:])}"
    if isinstance(rule, Sum) and relation.columns[0].derived and relation.columns[0].missing:
        terms = " AND ".join(known[1:])
        return f"NOT (CASE WHEN {terms} THEN ({kept}) AND {known[0]} ELSE NOT ({known[0]}) END)"
    return f"({' AND '.join(known)} AND NOT ({kept}))"
