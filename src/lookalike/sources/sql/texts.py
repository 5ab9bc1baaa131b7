"""PostgreSQL expressions that read numbers and times from texts, as `schema/storage.py` does, and find their forms.

Texts of more than MAX_LENGTH characters are never numbers here. Apart from that the readings are the same, which a
contract test shows on a list of texts of all forms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any

from lookalike.errors import SchemaError
from lookalike.schema import times
from lookalike.schema.binned import Continuous, Datetime, dressed_pattern, is_dressed, separators
from lookalike.schema.classes import AXES, Affixes, Offsets, ValueClasses
from lookalike.schema.text_forms import AFFIXES, CURRENCIES, FORMS, MARKERS, OFFSETS, SPACES, Form
from lookalike.schema.times import escaped
from lookalike.sources.sql.sessions import Field, literal

MAX_LENGTH = 1000
"""Longer texts are not read as numbers: the numbers of PostgreSQL end somewhat above this."""
WHITESPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Arrow trims from both ends of a text."""
_WHOLE = "^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_LIMIT = 1 << 62
_CHAIN = 6
"""Values of a list that are compared one after the other; longer lists are searched by halves."""
_PLAIN_CODES = re.compile(r"(?:[^%]|%[YmdHMS])*")
_SPACE = "[ \t\n\x0b\x0c\r]"
_RANGES = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
"""Digits that Arrow reads for each code, after spaces."""


def reached(value: str, edges: Sequence[float | str], kind: str) -> str:
    """How many of the rising edges a value has reached, as PostgreSQL's width_bucket counts them; null for null."""
    if not edges:
        return f"CASE WHEN {value} IS NOT NULL THEN 0 END"
    listed = ",".join(_edge(edge) for edge in edges)
    return f"width_bucket({value}, '{{{listed}}}'::{kind}[])"


def _edge(edge: object) -> str:
    if isinstance(edge, float):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(edge, repr(edge))
    return f'"{edge}"' if isinstance(edge, str) else str(edge)


def searched(value: str, found: list[tuple[str, int]], rest: str, *, text: bool) -> str:
    """A CASE of few comparisons, or of halves of the sorted texts with a CASE in each."""
    if not found:
        return rest
    if len(found) <= _CHAIN or not text:
        arms = " ".join(f"WHEN {value} = {one} THEN {code}" for one, code in found)
        return f"CASE {arms} ELSE {rest} END"
    ordered = sorted(found, key=lambda pair: pair[0][1:-1].replace("''", "'").encode())
    half = len(ordered) // 2
    parts = (searched(value, part, rest, text=text) for part in (ordered[:half], ordered[half:]))
    return "CASE WHEN {} < {} THEN {} ELSE {} END".format(value, ordered[half][0], *parts)


def trimmed(text: str) -> str:
    """The text without spaces of any kind at its ends."""
    return f"btrim({text}, {literal(WHITESPACE)})"


def matches(text: str, pattern: str) -> str:
    """Whether a text matches a pattern of RE2, said in PostgreSQL's words."""
    return f"{text} ~ {literal(pattern)}"


def safe_float(value: str) -> str:
    """A numeric of any size as a float: what is too large is infinite, what is too small is zero; NaN is NaN."""
    return (
        f"(CASE WHEN abs({value}) <= 2.4703282292062327e-324 THEN 0::float8 "
        f"WHEN {value} = 'NaN' THEN 'NaN'::float8 "
        f"WHEN {value} >= 1.797693134862315807e308 THEN 'Infinity'::float8 "
        f"WHEN {value} <= -1.797693134862315807e308 THEN '-Infinity'::float8 ELSE ({value})::float8 END)"
    )


def number_of_text(column: Any, text: str) -> str:
    """The number that a text writes, as a float; null where it writes none."""
    return f"(SELECT {safe_float('r.n')} FROM ({_numeric(column, text)}) r)"


def whole_of_text(column: Any, text: str) -> str:
    """The whole number that a text writes, beyond 18 digits saturated; null where it writes none."""
    number = safe_float("r.n")
    saturated = (
        f"(SELECT CASE WHEN f.v >= {_LIMIT} THEN {_LIMIT} WHEN f.v <= -{_LIMIT} THEN -{_LIMIT} "
        f"WHEN f.v = floor(f.v) THEN f.v::bigint END FROM (SELECT {number} AS v OFFSET 0) f)"
    )
    whole = f"CASE WHEN {matches('r.s', _WHOLE)} THEN r.n::bigint ELSE {saturated} END"
    return f"(SELECT {whole} FROM ({_numeric(column, text)}) r)"


def _numeric(column: Any, text: str) -> str:
    """A subquery of the bare text `s` and its number `n`, of any size."""
    bare = f"SELECT {_bare(column, trimmed(text))} AS s OFFSET 0"
    readable = f"length(b.s) <= {MAX_LENGTH} AND {matches('b.s', _NUMBER)}"
    return f"SELECT b.s, CASE WHEN {readable} THEN b.s::numeric END AS n FROM ({bare}) b OFFSET 0"


def _bare(style: Any, text: str) -> str:
    """The text without what surrounds and separates its digits; null where it writes no number in that style."""
    if not is_dressed(style):
        return text
    pattern = re.sub(r"\(\?P<\w+>", "(", dressed_pattern(style))
    between = separators(style)
    digits = "m.p[3]"
    if style.thousands:
        digits = f"regexp_replace({digits}, {literal(between)}, '', 'g')"
    digits = f"replace({digits}, {literal(style.decimal_mark)}, '.')"
    found = f"SELECT regexp_match({text}, {literal(pattern)}) AS p OFFSET 0"
    return f"(SELECT COALESCE(m.p[1], '') || COALESCE(m.p[2], '') || {digits} FROM ({found}) m WHERE m.p IS NOT NULL)"


def micros_of_text(column: Datetime, text: str) -> str:
    """Wall-clock microseconds since 1970 of a text in the column's format; null where it cannot be read."""
    format, clean = column.format, trimmed(text)
    if _PLAIN_CODES.fullmatch(format) and all(code in format for code in ("%Y", "%m", "%d")):
        return _plain_micros(format, clean)
    if times.known(format):
        return _known_micros(format, clean, column.zone)
    raise SchemaError(
        f"Column {column.name!r} has the time format {format!r}, which a database cannot read. Use the codes of "
        "docs/schema_file.md, or give a view with a column of type timestamp."
    )


def _plain_micros(format: str, text: str) -> str:
    """As Arrow's strptime: fields of up to a number of digits after spaces, days that run over into the next month."""
    tokens, names = times.tokens(format), []
    parts = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token not in _RANGES:
            parts.append(_literal_pattern(token))
            continue
        width = _RANGES[token]
        digits = f"[0-9]{{1,{width}}}"
        if following in _RANGES:  # Arrow does not backtrack: fewer digits only if none follows
            digits = f"(?:[0-9]{{{width}}}|[0-9]{{1,{width - 1}}}(?![0-9]))"
        parts.append(f"{_SPACE}*({digits})")
        names.append(token)
    number = {code: f"m.p[{names.index(code) + 1}]::int" for code in dict.fromkeys(names)}
    get = {code: number.get(code, "0") for code in _RANGES}
    fits = [f"{get['%m']} BETWEEN 1 AND 12", f"{get['%d']} BETWEEN 1 AND 31"]
    fits += [f"{get[code]} <= {last}" for code, last in (("%H", 23), ("%M", 59), ("%S", 61)) if code in number]
    days = f"({_month_start(get['%Y'], get['%m'])} + {get['%d']} - 1)"
    clock = f"({get['%H']} * 3600 + {get['%M']} * 60 + {get['%S']})::bigint * 1000000"
    return _matched(text, f"^{''.join(parts)}$", fits, f"{days}::bigint * {times.TICKS['day']} + {clock}")


def _literal_pattern(token: str) -> str:
    """The expression of a text between codes: spaces stand for any number of them."""
    pieces = re.split(r"(\s+)", token)
    return "".join(f"{_SPACE}*" if piece.isspace() else times.escaped(piece) for piece in pieces)


def _month_start(year: str, month: str) -> str:
    """Days since 1970 of the first day of a month; the year 0, which no date of PostgreSQL has, is four before 4."""
    first = f"CASE WHEN {year} = 0 THEN make_date(4, {month}, 1) - 1461 ELSE make_date({year}, {month}, 1) END"
    return f"(({first}) - DATE '1970-01-01')"


def _matched(text: str, pattern: str, fits: Sequence[str], result: str) -> str:
    """A result over the parts `m.p` of a text that matches, where they fit; else null."""
    found = f"SELECT regexp_match({text}, {literal(pattern)}) AS p OFFSET 0"
    return f"(SELECT CASE WHEN {' AND '.join(fits)} THEN {result} END FROM ({found}) m WHERE m.p IS NOT NULL)"


def _known_micros(format: str, text: str, zone: str) -> str:
    """As `times.read`: names in any case, days that exist in the calendar, offsets applied."""
    pattern, names = _positional(times.wide_pattern(format).removeprefix("(?s)"))
    part = {name: f"m.p[{place}]" for place, name in enumerate(names, 1)}
    number = {name: f"{part[name]}::int" for name in part if name not in ("name", "half", "offset", "fraction")}
    get = {name: number.get(name, str(default)) for name, default in times.DEFAULTS.items()}
    fits = []
    if "short_year" in number:
        short = number["short_year"]
        get["year"] = f"({short} + CASE WHEN {short} < 69 THEN 2000 ELSE 1900 END)"
    if "name" in part:
        starts = "janfebmaraprmayjunjulaugsepoctnovdec"
        get["month"] = f"((position(lower(left({part['name']}, 3)) in '{starts}') + 2) / 3)"
    if "half_hour" in number:
        later = f"CASE WHEN lower({part['half']}) = 'pm' THEN 12 ELSE 0 END" if "half" in part else "0"
        fits.append(f"{number['half_hour']} BETWEEN 1 AND 12")
        get["hour"] = f"({number['half_hour']} % 12 + {later})"
    if "fraction" in part:
        get["fraction"] = f"rpad({part['fraction']}, 6, '0')::int"
    start = _month_start(get["year"], get["month"])
    last = f"EXTRACT(DAY FROM make_date({get['year']}, {get['month']}, 1) + INTERVAL '1 month' - INTERVAL '1 day')::int"
    fits += [f"{get['year']} >= 1", f"{get['month']} BETWEEN 1 AND 12", f"{get['day']} >= 1"]
    fits += [f"{get['hour']} < 24", f"{get['minute']} < 60", f"{get['second']} < 60"]
    seconds = f"({get['hour']} * 3600 + {get['minute']} * 60 + {get['second']})::bigint"
    micros = f"({start} + {get['day']} - 1)::bigint * {times.TICKS['day']} + {seconds} * 1000000 + {get['fraction']}"
    if "offset" in part:
        micros = _in_zone(f"{micros} - {_offset(part['offset'])}", zone)
    # The day is compared with its month in a CASE of its own: a month that does not exist has no last day.
    return _matched(text, pattern, fits, f"CASE WHEN {get['day']} <= {last} THEN {micros} END")


def _positional(pattern: str) -> tuple[str, list[str]]:
    """The expression with numbered groups and letters of both cases, as PostgreSQL needs it, and the groups' names."""
    names = re.findall(r"\(\?P<(\w+)>", pattern)
    plain = re.sub(r"\(\?P<\w+>", "(", pattern)
    return re.sub(r"\(\?i:((?:[^()]|\([^()]*\))*)\)", lambda found: f"(?:{_any_case(found[1])})", plain), names


def _any_case(pattern: str) -> str:
    """The expression of texts in any case: classes of both letters outside of brackets and groups' marks."""
    pieces = re.split(r"(\[[^\]]*\]|\(\?:)", pattern)
    spelled = [
        re.sub(r"[A-Za-z]", lambda c: f"[{c[0].lower()}{c[0].upper()}]", piece) if i % 2 == 0 else _both_cases(piece)
        for i, piece in enumerate(pieces)
    ]
    return "".join(spelled)


def _both_cases(piece: str) -> str:
    return f"[{piece[1:-1].lower()}{piece[1:-1].upper()}]" if piece.startswith("[") else piece


def _offset(text: str) -> str:
    """Microseconds of an offset such as +01:00, +0100 and Z."""
    digits = f"lpad(regexp_replace({text}, '[^0-9]', '', 'g'), 4, '0')"
    minutes = f"(left({digits}, 2)::int * 60 + right({digits}, 2)::int)::bigint"
    return f"(CASE WHEN {text} LIKE '-%' THEN -1 ELSE 1 END * {minutes} * 60000000)"


def _in_zone(micros: str, zone: str) -> str:
    """Wall-clock microseconds of instants; without a zone those of UTC."""
    fixed = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone)
    if fixed:
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        return f"{micros} + {(-1 if fixed[1] == '-' else 1) * minutes * 60_000_000}"
    if zone in ("", "UTC"):
        return micros
    wall = f"((TIMESTAMPTZ 'epoch' + ({micros}) * INTERVAL '1 microsecond') AT TIME ZONE {literal(zone)})"
    return micros_of_stamp(wall)


def micros_of_stamp(stamp: str) -> str:
    """Microseconds since 1970 of a finite timestamp: its seconds are a whole number in every version of the server."""
    whole = f"EXTRACT(EPOCH FROM date_trunc('second', {stamp}))::bigint"
    return f"({whole} * 1000000 + EXTRACT(MICROSECONDS FROM {stamp})::bigint % 1000000)"


_DIGITS, _UPPER, _LOWER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_CURRENCY = f"({'|'.join(map(escaped, CURRENCIES))})"
_SIGN = "\u00a4"
_EXACT = ("missing", "word", "boolean")
_BEFORE = "^[+-]?([^0-9+.,-]*)[+-]?[0-9].*$"
_AFTER = rf"^[^0-9]*[0-9](?:[0-9.,'\u2019{''.join(SPACES)}]*[0-9])?(.*)$"
_OFFSET = r":[0-9]{2}(?:\.[0-9]+)?([+-][0-9]{2}):?([0-9]{2})$"


def text_classes(probe: ValueClasses, field: Field) -> str:
    """The class of every text: its form and its cell on the form's axis."""
    exact = [(literal(form.text), place) for place, form in enumerate(FORMS) if form.family in _EXACT]
    value = f'{field.value} COLLATE "C"'
    form = f"COALESCE({searched(value, exact, 'NULL', text=True)}, {_first_match('c.t', 'c.k')})"
    plain = f"regexp_replace({trimmed(field.value)}, {literal(_CURRENCY)}, {literal(_SIGN)}, 'g')"
    letters = literal(_UPPER + _LOWER + _DIGITS), literal("A" * 26 + "a" * 26)
    clean = (
        f'SELECT {trimmed(field.value)} AS t, translate({plain}, {letters[0]}, {letters[1]}) COLLATE "C" AS k OFFSET 0'
    )
    null = probe.starts[FORMS[MARKERS.index("")].name].start
    found = f"SELECT CASE WHEN {field.value} IS NULL THEN -1 ELSE {form} END AS f, c.t FROM ({clean}) c OFFSET 0"
    return f"(SELECT CASE WHEN d.f = -1 THEN {null} ELSE {_codes(probe)} END FROM ({found}) d)"


def _first_match(text: str, skeleton: str) -> str:
    """The number of the first form that a text matches, by its skeleton."""
    groups = sorted(set(_candidates().values()))
    numbers = {group: place for place, group in enumerate(groups)}
    pairs = [(literal(found), numbers[group]) for found, group in _candidates().items()]
    arms = " ".join(f"WHEN {place} THEN {_tried(text, group)}" for group, place in numbers.items())
    return f"(CASE {searched(skeleton, pairs, '-1', text=True)} {arms} ELSE {len(FORMS) - 1} END)"


def _tried(text: str, group: tuple[int, ...]) -> str:
    arms = " ".join(f"WHEN {matches(text, f'^(?:{FORMS[place].pattern})$')} THEN {place}" for place in group)
    return f"CASE {arms} ELSE {len(FORMS) - 1} END"


def _codes(probe: ValueClasses) -> str:
    """The class of a text `d.t` of the form with number `d.f`."""
    starts = "'{" + ",".join(str(probe.starts[form.name].start) for form in FORMS) + "}'::int[]"
    axes: dict[str, list[int]] = {}
    for place, form in enumerate(probe.forms):
        axes.setdefault(form.axis, []).append(place)
    arms = []
    for axis, places in axes.items():
        if axis != "none":
            found = f"SELECT {_position(axis, places)} AS v OFFSET 0"
            position = f"(SELECT {reached('p.v', AXES[axis][1:].tolist(), 'float8')} FROM ({found}) p)"
            arms.append(f"WHEN d.f IN ({','.join(map(str, places))}) THEN {position}")
    return f"({starts})[d.f + 1] + CASE {' '.join(arms)} ELSE 0 END"


def _position(axis: str, places: list[int]) -> str:
    """Where texts are on an axis: their length, number, year or hour; zero where they cannot be read."""
    if axis == "length":
        return "length(d.t)::float8"
    if axis in ("year", "hour"):
        arms = " ".join(f"WHEN {place} THEN {_time(FORMS[place], axis)}" for place in places)
        return f"(CASE d.f {arms} END)::float8"
    styles: dict[Continuous, list[int]] = {}
    for form, place in ((FORMS[place], place) for place in places):
        style = Continuous("x", thousands=form.thousands, comma=form.comma or form.thousands == ".")
        styles.setdefault(style, []).append(place)
    unsigned = f"regexp_replace(d.t, {literal(_CURRENCY + '|%')}, '', 'g')"
    bare = f"regexp_replace({unsigned}, {literal('^([+-]?)[' + ''.join(SPACES) + ']+')}, '\\1')"
    arms = " ".join(
        f"WHEN d.f IN ({','.join(map(str, own))}) THEN {number_of_text(style, bare)}" for style, own in styles.items()
    )
    return f"COALESCE(CASE {arms} END, 0)"


def _time(form: Form, axis: str) -> str:
    micros = f"COALESCE({micros_of_text(Datetime('x', format=form.format, resolution='microsecond'), 'd.t')}, 0)"
    if axis == "hour":
        return f"{micros} / 3600000000"
    return f"EXTRACT(YEAR FROM TIMESTAMP 'epoch' + {micros} * INTERVAL '1 microsecond')"


# Skeletons.


@cache
def _candidates() -> dict[str, tuple[int, ...]]:
    """The forms of numbers and times, in their order, by the skeletons of their texts."""
    found: dict[str, list[int]] = {}
    for place, form in enumerate(FORMS):
        if form.family in (*_EXACT, "text"):
            continue
        for skeleton in skeletons(form.pattern.replace(_CURRENCY, _SIGN)):
            found.setdefault(skeleton, []).append(place)
    return {skeleton: tuple(places) for skeleton, places in found.items()}


def skeletons(pattern: str) -> set[str]:
    """The skeletons of all texts that match a pattern in which only digits are repeated without a bound.

    >>> sorted(skeletons("-?[0-9]+(,[0-9]{3})?"))
    ['', ',', '-', '-,']
    """
    return _skeletons(re._parser.parse(pattern))  # type: ignore[attr-defined]


def _skeletons(nodes: Iterable[Any]) -> set[str]:
    parts = [_of_node(str(kind), argument) for kind, argument in nodes]
    return {"".join(chosen) for chosen in product(*parts)}


def _of_node(kind: str, argument: Any) -> set[str]:
    if kind == "LITERAL":
        return {_sign(chr(argument))}
    if kind == "IN":
        return {_sign(character) for character in _members(argument)}
    if kind == "BRANCH":
        return set().union(*(_skeletons(branch) for branch in argument[1]))
    if kind == "SUBPATTERN":
        return _skeletons(argument[-1])
    if kind == "MAX_REPEAT":
        least, most, inner = argument
        once = _skeletons(inner)
        if once == {""}:
            return once
        return {"".join(chosen) for number in range(least, int(most) + 1) for chosen in product(once, repeat=number)}
    raise ValueError(f"a form has {kind} in its expression")


def _members(items: Iterable[Any]) -> Iterable[str]:
    for kind, argument in items:
        if str(kind) == "LITERAL":
            yield chr(argument)
        elif str(kind) == "RANGE":
            yield from map(chr, range(argument[0], argument[1] + 1))
        else:
            raise ValueError(f"a form has {kind} in a class of characters")


def _sign(character: str) -> str:
    if character in _DIGITS:
        return ""
    return "A" if character in _UPPER else "a" if character in _LOWER else character


# What stands around numbers, and offsets.


def affix_code(probe: Affixes, field: Field) -> str:
    """The place in `AFFIXES` of what stands around the number in every text."""
    around = " || E'\\n' || ".join(f"regexp_replace(c.t, {literal(pattern)}, '\\1')" for pattern in (_BEFORE, _AFTER))
    known = [(literal("\n".join(affix)), place) for place, affix in enumerate(AFFIXES)]
    return _looked_up(field, f"({around})", known, len(AFFIXES) - 1)


def offset_code(probe: Offsets, field: Field) -> str:
    """The place in `OFFSETS` of the offset at the end of every text."""
    found = f"(SELECT m.p[1] || ':' || m.p[2] FROM (SELECT regexp_match(c.t, {literal(_OFFSET)}) AS p OFFSET 0) m)"
    known = [(literal(offset), place) for place, offset in enumerate(OFFSETS)]
    return _looked_up(field, found, known, len(OFFSETS) - 1)


def _looked_up(field: Field, text: str, known: list[tuple[str, int]], last: int) -> str:
    found = searched("e.v", known, str(last), text=True)
    clean = f"SELECT {trimmed(field.value)} AS t OFFSET 0"
    return f'(SELECT {found} FROM (SELECT {text} COLLATE "C" AS v FROM ({clean}) c OFFSET 0) e)'
