"""SQL expressions that give a column's codes: exactly those of `schema/codec.py`, computed inside the database.

They are written for PostgreSQL. `dialects.py` translates them for columns of typed values and lists of texts; texts
that write numbers or times need PostgreSQL's regular expressions. Every row gets a code, whatever it holds, and none
raises an error: a cast that could fail is made only after a test of the value.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Binned, Continuous, Datetime, Integer
from lookalike.schema.classes import AXES, Affixes, Offsets, ValueClasses
from lookalike.schema.codec import marker_values
from lookalike.schema.columns import NULL, Categorical, Column, Identifier
from lookalike.schema.probes import GridProbe, Roundness
from lookalike.schema.storage import is_text
from lookalike.schema.text_forms import MAX_PLACES
from lookalike.sources.sql.sessions import Field, literal
from lookalike.sources.sql.texts import (
    affix_code,
    micros_of_stamp,
    micros_of_text,
    number_of_text,
    offset_code,
    reached,
    searched,
    text_classes,
    whole_of_text,
)

_LIMIT = 1 << 62
_EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = datetime.min, datetime.max


def code_of(column: Column, field: Field) -> str:
    """The code of every value of a column, as an expression over the column of the database.

    Raises:
        SchemaError: the column cannot be encoded inside the database; the message says what to declare.
    """
    if column.outside == "error":
        raise refused(column, "says outside: error, which needs the rows themselves", "Remove dp.outside.")
    if column.derived:
        return "0"
    if isinstance(column, Categorical):
        fallback = column.other_code or 0
        return _missing_or(column, field, looked_up(_typed(column.values or (), field), column, field, fallback))
    if isinstance(column, Identifier):
        return _missing_or(column, field, looked_up([], column, field, 0))
    if isinstance(column, Binned):
        missing = column.missing_code()
        fallback = column.regular // 2 if missing is None else missing
        bins = f"COALESCE({bucket(column, field, column.edges[1:])}, {fallback})"
        return _missing_or(column, field, looked_up([], column, field, None, otherwise=bins))
    if isinstance(column, GridProbe):
        return f"COALESCE({bucket(column.base, field, column.edges[1:])}, {len(column.edges)})"
    if isinstance(column, Roundness):
        return _roundness(column, field)
    if isinstance(column, ValueClasses) and column.kind in _CLASSES:
        return _CLASSES[column.kind](column, field)
    if isinstance(column, Affixes):
        return affix_code(column, field)
    if isinstance(column, Offsets):
        return offset_code(column, field)
    raise refused(column, f"is asked for by {type(column).__name__}, which SQL cannot express", "Declare it.")


def refused(column: Column, what: str, remedy: str) -> SchemaError:
    """The refusal of a column that this database cannot encode."""
    return SchemaError(f"Column {column.name!r} {what}: a database cannot do that. {remedy}")


# Missing markers and lists of values.


def _missing_or(column: Column, field: Field, otherwise: str) -> str:
    """The code of null, or what follows. Null without a marker is like any value outside the schema."""
    code = column.missing_code(NULL)
    return f"CASE WHEN {is_null(field)} THEN {code} ELSE {otherwise} END" if code is not None else otherwise


def is_null(field: Field) -> str:
    """Whether a value is null, or a float that is not a number."""
    test = f"{field.value} IS NULL"
    return f"({test} OR {field.value} = 'NaN')" if pa.types.is_floating(field.kind) else test


def looked_up(
    values: list[tuple[str, int]], column: Column, field: Field, fallback: int | None, otherwise: str = ""
) -> str:
    """The code of a value in a list, or of a missing marker; else the fallback."""
    found = list(values)
    if column.missing:
        markers = marker_values(column, field.kind)
        first = column.regular + column.has_other
        written = _literals(markers, field.kind)
        known = {text for text, _ in found}
        found += [(text, first + i) for i, text in enumerate(written) if text is not None and text not in known]
    rest = otherwise or str(fallback)
    return searched(compared(field), found, rest, text=is_text(field.kind))


def _typed(values: Sequence[str], field: Field) -> list[tuple[str, int]]:
    typed = pc.cast(pa.array(values, pa.string()), field.kind)
    return [(text, i) for i, text in enumerate(_literals(typed, field.kind)) if text is not None]


def compared(field: Field) -> str:
    """The values as they are compared: texts byte by byte, whatever the collation of the column."""
    return f'{field.value} COLLATE "C"' if is_text(field.kind) else field.value


def _literals(values: pa.Array, kind: pa.DataType) -> list[str | None]:
    """Values of the type as literals; None for null and for what the database cannot hold."""
    if is_text(kind):
        return [None if text is None or "\0" in text else literal(text) for text in values.to_pylist()]
    texts = pc.cast(values, pa.string()).to_pylist()
    if pa.types.is_floating(kind):
        name = "REAL" if pa.types.is_float32(kind) else "DOUBLE PRECISION"
        return [
            None if v is None or math.isnan(v) else f"CAST({literal(repr(v))} AS {name})" for v in values.to_pylist()
        ]
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return [text if text is None or not text.startswith("-") else f"({text})" for text in texts]
    if pa.types.is_boolean(kind):
        return [None if text is None else text.upper() for text in texts]
    name = "DATE" if pa.types.is_date(kind) else "TIME" if pa.types.is_time(kind) else "TIMESTAMP"
    plain = values if not getattr(kind, "tz", None) else pc.local_timestamp(values)
    return [
        None if text is None else f"CAST({literal(text)} AS {name})" for text in pc.cast(plain, pa.string()).to_pylist()
    ]


# Numbers and times.


def bucket(column: Binned, field: Field, edges: np.ndarray) -> str:
    """How many of the rising edges a number or time has reached; null where it cannot be read as one."""
    if isinstance(column, Datetime):
        return _time_bucket(column, field, edges)
    if isinstance(column, Integer) and (_whole_kind(field.kind) or is_text(field.kind)):
        starts = [math.ceil(edge) for edge in _finite(edges)]
        if _whole_kind(field.kind) and starts == list(range(starts[0], starts[0] + len(starts)) if starts else ()):
            return _counted_up(field.value, starts)
        return reached(_whole(column, field), starts, "bigint")
    number = number_of(column, field)
    return _named(number, lambda n: reached(n, edges.tolist(), "float8"))


def _counted_up(value: str, starts: list[int]) -> str:
    """How many of the edges n, n + 1, n + 2, ... a whole number has reached: cheaper than a search."""
    if not starts:
        return reached(value, starts, "bigint")
    above = f"GREATEST(LEAST({value}, {starts[-1]}) - {starts[0] - 1}, 0)"
    return f"CASE WHEN {value} IS NOT NULL THEN {above} END"


def number_of(column: Column, field: Field) -> str:
    """The number in a column as a float; null where there is none, or where a whole one is wanted and it is not."""
    whole = isinstance(column, Integer)
    if is_text(field.kind):
        number = number_of_text(column, field.value)
    elif pa.types.is_boolean(field.kind):
        number = f"({field.value})::int::float8"
    else:
        number = _float_of(field)
    return _named(number, lambda n: f"CASE WHEN {n} = floor({n}) THEN {n} END") if whole else number


def _float_of(field: Field) -> str:
    """A number as a float, null for NaN; short floats are the numbers that they are written as."""
    written = f"{field.value}::text" if pa.types.is_float32(field.kind) else field.value
    return f"NULLIF({written}::float8, 'NaN')"


def _whole(column: Integer, field: Field) -> str:
    """The whole number in a column of whole numbers or of texts."""
    return whole_of_text(column, field.value) if is_text(field.kind) else f"{field.value}::bigint"


def _whole_kind(kind: pa.DataType) -> bool:
    return pa.types.is_signed_integer(kind)


def _finite(edges: np.ndarray) -> list[float]:
    return [float(np.clip(edge, -float(_LIMIT), float(_LIMIT))) if np.isinf(edge) else edge for edge in edges.tolist()]


def _named(expression: str, use: Callable[[str], str]) -> str:
    """An expression that uses another one several times and computes it once."""
    return f"(SELECT {use('q.v')} FROM (SELECT {expression} AS v OFFSET 0) q)"


def _time_bucket(column: Datetime, field: Field, edges: np.ndarray) -> str:
    tick = times.TICKS[column.resolution]
    micros = [_times(edge, tick) for edge in edges.tolist()]
    if is_text(field.kind):
        return _named(micros_of_text(column, field.value), lambda n: reached(n, micros, "bigint"))
    if pa.types.is_date(field.kind):
        days = [-(-m // times.TICKS["day"]) for m in micros]
        return reached(field.value, [_date(d) for d in days], "date")
    if pa.types.is_time(field.kind):
        return reached(field.value, [_clock(m) for m in micros], "time")
    return reached(field.value, [_stamp(m) for m in micros], "timestamp")


def _times(edge: float, tick: int) -> int:
    """Microseconds of an edge in ticks, saturated."""
    if not math.isfinite(edge):
        return _LIMIT if edge > 0 else -_LIMIT
    return max(min(math.ceil(edge) * tick, _LIMIT), -_LIMIT)


def _stamp(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ")
    except OverflowError:
        return "infinity" if micros > 0 else "-infinity"


def _date(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return "infinity" if days > 0 else "-infinity"


def _clock(micros: int) -> str:
    day = times.TICKS["day"]
    return "24:00:00" if micros >= day else (_EPOCH + timedelta(microseconds=max(micros, 0))).time().isoformat()


def micros_of(field: Field) -> str:
    """Microseconds since 1970, or since midnight, of a typed time that is finite."""
    value = field.value
    if pa.types.is_date(field.kind):
        return f"(({value} - DATE '1970-01-01')::bigint * {times.TICKS['day']})"
    if pa.types.is_time(field.kind):
        seconds = f"(EXTRACT(HOUR FROM {value}) * 3600 + EXTRACT(MINUTE FROM {value}) * 60)::bigint"
        return f"({seconds} * 1000000 + EXTRACT(MICROSECONDS FROM {value})::bigint)"
    return micros_of_stamp(value)


def ticks_of(column: Binned, field: Field) -> str:
    """Whole numbers of ticks, null where there is no number; as `probes.as_ticks` saturates them."""
    if isinstance(column, Datetime):
        micros = micros_of_text(column, field.value) if is_text(field.kind) else _finite_micros(field)
        tick = times.TICKS[column.resolution]
        return (
            micros
            if tick == 1
            else _named(micros, lambda m: f"(({m}) - ((({m}) % {tick}) + {tick}) % {tick}) / {tick}")
        )
    if isinstance(column, Integer) and (_whole_kind(field.kind) or is_text(field.kind)):
        return _whole(column, field)
    number = number_of(column, field)
    scaled = isinstance(column, Continuous) and column.tick is not None
    divided = (lambda n: f"{n} / {_number(float(column.tick))}::float8") if scaled else (lambda n: n)  # type: ignore[arg-type]
    edge = _number(float(_LIMIT))
    small = lambda n: f"abs({n}) < 1e290"  # noqa: E731 - one test, said once
    saturate = lambda n: (  # noqa: E731
        f"CASE WHEN {small(n)} THEN GREATEST(LEAST(round({divided(n)}), {edge}), -{edge})::bigint "
        f"WHEN {n} > 0 THEN {_LIMIT} WHEN {n} < 0 THEN -{_LIMIT} END"
    )
    return _named(number, saturate)


def _finite_micros(field: Field) -> str:
    if pa.types.is_time(field.kind):
        return micros_of(field)
    value = field.value
    return (
        f"CASE WHEN isfinite({value}) THEN {micros_of(field)} WHEN {value} IS NULL THEN NULL "
        f"WHEN {value} = 'infinity' THEN {_LIMIT} ELSE -{_LIMIT} END"
    )


def _number(value: float) -> str:
    return f"'{value!r}'::float8"


# Probes of discovery.


def _roundness(probe: Roundness, field: Field) -> str:
    column, none = probe.base, len(probe.steps)
    steps = _steps(column) if column.sparse else "s.t"
    arms = " ".join(f"WHEN q.t % {step} = 0 THEN {code}" for code, step in reversed(list(enumerate(probe.steps))))
    limit = _number(float(_LIMIT))  # ticks pass through floats, as in `probes.as_ticks`
    within = lambda t: f"CASE WHEN {t} IS NOT NULL THEN GREATEST(LEAST({t}::float8, {limit}), -{limit})::bigint END"  # noqa: E731
    ticks = _named(ticks_of(column, field), within)
    inner = f"SELECT {steps} AS t FROM (SELECT {ticks} AS t OFFSET 0) s OFFSET 0"
    return f"(SELECT CASE WHEN q.t IS NULL OR q.t = 0 THEN {none} {arms} ELSE 0 END FROM ({inner}) q)"


def _steps(column: Binned) -> str:
    """Minutes of the day at clock times such as 1345, months or years since 1970 at days: as `Binned.steps_of`."""
    if isinstance(column, Integer):
        minutes = "((s.t % 100) + 100) % 100"
        return f"(s.t - {minutes}) / 100 * 60 + LEAST({minutes}, 59)"
    day = "(DATE '1970-01-01' + GREATEST(LEAST(s.t, 2932896), -719528)::int)"
    years = f"(EXTRACT(YEAR FROM {day}) + CASE WHEN EXTRACT(YEAR FROM {day}) < 0 THEN 1 ELSE 0 END - 1970)::bigint"
    monthly = isinstance(column, Datetime) and times.calendar_unit(column.format) == "month"
    steps = f"{years} * 12 + EXTRACT(MONTH FROM {day})::bigint - 1" if monthly else years
    return f"CASE WHEN s.t IS NOT NULL THEN {steps} END"


def cells(probe: ValueClasses, name: str, position: str) -> str:
    """The code of a form at a position on its axis."""
    axis = AXES[next(form.axis for form in probe.forms if form.name == name)]
    start = probe.starts[name].start
    return str(start) if len(axis) == 1 else f"{start} + {reached(position, axis[1:].tolist(), 'float8')}"


def _whole_classes(probe: ValueClasses, field: Field) -> str:
    missing = probe.starts["null"].start
    return f"CASE WHEN {field.value} IS NULL THEN {missing} ELSE {cells(probe, 'whole', f'{field.value}::float8')} END"


def _float_classes(probe: ValueClasses, field: Field) -> str:
    """The fewest decimals that write a float, found as NumPy rounds: from 2^52 on every float is whole."""
    rounds = " ".join(
        f"WHEN round(q.v * 1e{k}::float8) / 1e{k}::float8 = q.v THEN {cells(probe, f'places {k}', 'q.v')}"
        for k in range(MAX_PLACES + 1)
    )
    whole = f"WHEN abs(q.v) >= 4503599627370496 THEN {cells(probe, 'places 0', 'q.v')}"
    missing = probe.starts["null"].start
    case = f"CASE WHEN q.v IS NULL THEN {missing} {whole} {rounds} ELSE {cells(probe, 'float', 'q.v')} END"
    return f"(SELECT {case} FROM (SELECT {_float_of(field)} AS v OFFSET 0) q)"


def _stamp_classes(probe: ValueClasses, field: Field) -> str:
    """The coarsest unit of which a time is a whole number, and its year."""
    value, missing = field.value, probe.starts["null"].start
    ends = f"WHEN {value} = 'infinity' THEN 9e9 ELSE -9e9"
    year = f"(CASE WHEN isfinite({value}) THEN EXTRACT(YEAR FROM {value})::float8 {ends} END)"
    if pa.types.is_date(field.kind):
        return f"CASE WHEN {value} IS NULL THEN {missing} ELSE {cells(probe, 'day', year)} END"
    units = {unit: "milliseconds" if unit == "millisecond" else unit for unit in times.TICKS if unit != "microsecond"}
    arms = " ".join(
        f"WHEN date_trunc('{name}', {value}) = {value} THEN {cells(probe, unit, year)}" for unit, name in units.items()
    )
    return f"CASE WHEN {value} IS NULL THEN {missing} {arms} ELSE {cells(probe, 'microsecond', year)} END"


def _clock_classes(probe: ValueClasses, field: Field) -> str:
    hour = f"(q.v / {times.TICKS['hour']})::float8"
    arms = " ".join(f"WHEN q.v % {tick} = 0 THEN {cells(probe, unit, hour)}" for unit, tick in times.TICKS.items())
    missing = probe.starts["null"].start
    return f"(SELECT CASE WHEN q.v IS NULL THEN {missing} {arms} END FROM (SELECT {micros_of(field)} AS v OFFSET 0) q)"


def _other_classes(probe: ValueClasses, field: Field) -> str:
    return f"CASE WHEN {is_null(field)} THEN {probe.starts['null'].start} ELSE {probe.starts['value'].start} END"


_CLASSES: dict[str, Callable[[ValueClasses, Field], str]] = {
    "whole": _whole_classes, "float": _float_classes, "stamp": _stamp_classes, "clock": _clock_classes,
    "other": _other_classes, "text": text_classes,
}  # fmt: skip
