"""PostgreSQL expressions of the classes of texts by which discovery counts, as `schema/classes.py` gives them.

A text has the first of some 500 forms that it matches, and a cell on the axis of that form. PostgreSQL keeps only a few
compiled regular expressions, so few are tried on each text: those of the forms with the same skeleton, which is the
text without its digits, and with `A` and `a` for letters and one sign for currencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any

from lookalike.schema.binned import Continuous, Datetime
from lookalike.schema.classes import AXES, Affixes, Offsets, ValueClasses
from lookalike.schema.text_forms import AFFIXES, CURRENCIES, FORMS, MARKERS, OFFSETS, SPACES, Form
from lookalike.schema.times import escaped
from lookalike.sources.sql.sessions import Field, literal
from lookalike.sources.sql.texts import matches, micros_of_text, number_of_text, reached, searched, trimmed

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
