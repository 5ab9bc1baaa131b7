"""Forms: the public list of ways in which texts write numbers, times, booleans and missing values.

`FORMS` is ordered and ends with `text`; every text has exactly one form, the first whose expression matches it whole
(without spaces around it). How discovery uses it:

1. Count the rows by form: `form_of(texts)` gives the position in `FORMS` of every text, and never fails. The list
   does not depend on data, so these are ordinary noisy counts.
2. Keep the forms whose counts stand out, and give them to `form_columns.column_of`, which returns the column that
   they have in common with all facts that texts show (kind, decimals, separators, format), or None for text.
3. Where `detail` of the column's forms is set, one more list of public classes tells what is left: which currency and
   on which side (`affix_of`, `AFFIXES`), or which offset from UTC (`offset_of`, `OFFSETS`).

A form has few attributes, by which counts can be added up: its `family`, its separators and its number of decimals.
Where forms are too many, as when values are counted by form and size at once, `group` has about a dozen beside the
single texts: the forms of a group have one axis. `number_of` gives the numbers on it, whatever the separators.
Some texts are ambiguous: `1,234` may be grouped or have three decimals, `03/04/2014` may be in March or in April.
They have separate forms (`unsure`), which are read as the other forms of the column are; without others, `1,234` is
grouped and the month comes first.

What is text, and why: numbers of more than 18 digits (no number here holds them), `(5.00)` and `5-` for negative
numbers and the grouping `1,23,456` (rare), digits and signs outside ASCII, durations beyond 24 hours (no clock time),
days or months with and without a leading zero in one date, and two-digit years with dashes (the order is unknown).
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema import times
from lookalike.schema.binned import Continuous, Datetime
from lookalike.schema.columns import NULL
from lookalike.schema.storage import texts_of, to_numbers

Family = Literal["missing", "word", "boolean", "plain", "percent", "money", "time", "text"]

MARKERS = (NULL, "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "--", ".")
"""Texts that stand for a missing value where they are frequent enough to stand out from the noise."""
WORDS = (
    "unknown", "Unknown", "UNKNOWN", "not reported", "Not reported", "not available", "Not available", "missing",
    "Missing", "none", "NONE", "n.a.", "#N/A", "<NA>", "NaT", "nil", "NIL", "*", "..", "...", "---", "inf", "-inf",
)  # fmt: skip
"""Texts that stand for a missing value in a column of numbers or times; elsewhere they are values like others."""
BOOLEANS = (
    ("false", "true"), ("False", "True"), ("FALSE", "TRUE"), ("f", "t"), ("F", "T"), ("n", "y"), ("N", "Y"),
    ("no", "yes"), ("No", "Yes"), ("NO", "YES"), ("off", "on"), ("Off", "On"), ("OFF", "ON"),
)  # fmt: skip
"""Pairs of texts for no and yes. Such columns are categories, so that their texts are kept."""

MAX_PLACES = 6
_DIGITS = 15
"""Digits that a decimal number keeps exactly."""
_FLOAT = r"[+-]?([0-9]*\.[0-9]+|[0-9]+\.)([eE][+-]?[0-9]{1,4})?|[+-]?[0-9]+[eE][+-]?[0-9]{1,4}"
SPACES = (" ", "\u00a0", "\u202f")
CURRENCIES = (
    "US$", "A$", "C$", "R$", "$", "€", "£", "¥", "₹", "₽", "₩", "₺", "₪", "฿", "₫", "₱", "₦", "kr", "zł", "Kč", "Ft",
    "USD", "EUR", "GBP", "JPY", "CNY", "INR", "CHF", "CAD", "AUD", "NZD", "BRL", "MXN", "SEK", "NOK", "DKK", "PLN",
    "CZK", "HUF", "RUB", "TRY", "ZAR", "KRW", "SGD", "HKD", "ILS",
)  # fmt: skip
"""Signs and codes of currencies, those that begin with another's text first."""
_CURRENCY = f"({'|'.join(map(times.escaped, CURRENCIES))})"
AFFIXES: tuple[tuple[str, str], ...] = (
    *((f"{sign}{space}", "") for sign, space in product(CURRENCIES, ("", *SPACES))),
    *(("", f"{space}{sign}") for sign, space in product((*CURRENCIES, "%"), ("", *SPACES))),
    ("", ""),
)
"""What stands before and after a number; the last is for numbers that stand alone and for all other texts."""
OFFSETS = (
    *(f"{sign}{hour:02d}:{minute:02d}" for sign, hour, minute in product("+-", range(13), (0, 30))),
    "+05:45", "+08:45", "+12:45", "+13:00", "+14:00", "",
)  # fmt: skip
"""Offsets from UTC; the last is for all others and for texts that have none."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way of writing values.

    Attributes:
        name: a short name, unique among the forms.
        pattern: the expression that matches its texts, for RE2 (linear time), to be anchored at both ends.
        family: what such texts are.
        text: the one text of a missing marker, word or boolean.
        decimals: decimals of a number, None where it writes any number of them.
        thousands: the separator between groups of three digits, "" where the texts show none.
        comma: whether a comma stands before the decimals.
        plus: whether a plus stands before a number.
        width: digits of whole numbers with leading zeros, 0 without.
        format: how a time is written, in the codes of `times.py`.
        unsure: whether the texts agree with another form of the table just as well.
    """

    name: str
    pattern: str
    family: Family
    text: str = ""
    decimals: int | None = None
    thousands: str = ""
    comma: bool = False
    plus: bool = False
    width: int = 0
    format: str = ""
    unsure: bool = False

    @property
    def is_number(self) -> bool:
        return self.family in ("plain", "percent", "money")

    @property
    def group(self) -> str:
        """A coarser class: whole, padded, decimal, float, percent, money, clock, month, date, datetime, or its name."""
        if self.family == "plain":
            whole = "padded" if self.width else "whole"
            return "float" if self.decimals is None else "decimal" if self.decimals else whole
        if self.family == "time":
            unit = times.calendar_unit(self.format)
            whole_days = times.resolution_of(self.format) == "day"
            return "clock" if times.is_clock(self.format) else "month" if unit else "date" if whole_days else "datetime"
        return self.family if self.is_number else self.name

    @property
    def detail(self) -> Literal["", "affix", "offset"]:
        """Which fact a second count must find where a column has this form: `affix`, `offset`, or "" for none."""
        if self.family in ("percent", "money"):
            return "affix"
        return "offset" if self.format.endswith("z") else ""


def _bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, expression and facts of unsigned numbers that stand alone: ungrouped ones first, then grouped ones."""
    yield "whole", "(0|[1-9][0-9]{0,17})", {"decimals": 0}
    yield "grouped? ,", "[1-9][0-9]{0,2},[0-9]{3}", {"decimals": 0, "thousands": ",", "unsure": True}
    yield "grouped? .", r"[1-9][0-9]{0,2}\.[0-9]{3}", {"decimals": 3, "unsure": True}
    for name, mark in (("places", "."), ("comma", ",")):
        for k in range(1, MAX_PLACES + 1):
            whole = f"(0|[1-9][0-9]{{0,{_DIGITS - k - 1}}})" + ("?" if mark == "." else "")
            yield f"{name} {k}", f"{whole}[{mark}][0-9]{{{k}}}", {"decimals": k, "comma": mark == ","}
    yield from _grouped_bodies()


def _grouped_bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    marks = {",": ".", ".": ",", **dict.fromkeys(SPACES, ".,"), "'": ".", "\u2019": "."}
    for group, decimal_marks in marks.items():
        fewest = 2 if group in ",." else 1  # a single group may also be three decimals
        whole = f"[1-9][0-9]{{0,2}}([{group}][0-9]{{3}}){{{fewest},5}}"
        yield f"grouped {_shown(group)}", whole, {"decimals": 0, "thousands": group}
        for mark, k in product(decimal_marks, range(1, MAX_PLACES + 1)):
            whole = f"[1-9][0-9]{{0,2}}([{group}][0-9]{{3}}){{1,{(_DIGITS - 1 - k) // 3}}}"
            facts = {"decimals": k, "thousands": group, "comma": mark == ","}
            yield f"grouped {_shown(group)} {mark}{k}", f"{whole}[{mark}][0-9]{{{k}}}", facts


def _shown(space: str) -> str:
    return {" ": "space", "\u00a0": "no-break space", "\u202f": "narrow space"}.get(space, space)


def _number_forms() -> Iterator[Form]:
    bodies = list(_bodies())
    alone = [(name, body, facts) for name, body, facts in bodies if not facts.get("thousands")]
    space = f"[{''.join(SPACES)}]?"
    yield Form("whole.0", r"-?(0|[1-9][0-9]{0,14})\.0", "plain", decimals=0)
    for name, body, facts in bodies:
        yield Form(name, f"-?{body}", "plain", **facts)
    for width in range(2, 19):
        yield Form(f"padded {width}", f"0[0-9]{{{width - 1}}}", "plain", decimals=0, width=width)
    for name, body, facts in alone:
        yield Form(f"plus {name}", rf"\+{body}", "plain", plus=True, **facts)
    yield Form("float", _FLOAT, "plain")
    for name, body, facts in alone:
        yield Form(f"percent {name}", f"-?{body}{space}%", "percent", **facts)
        yield Form(f"percent plus {name}", rf"\+{body}{space}%", "percent", plus=True, **facts)
    for name, body, facts in bodies:
        yield Form(
            f"money {name}",
            f"(-?{_CURRENCY}{space}|{_CURRENCY}{space}-){body}|-?{body}{space}{_CURRENCY}",
            "money",
            **facts,
        )


def _time_forms() -> Iterator[Form]:
    for format in _fixed_formats():
        yield Form(format, times.strict_pattern(format), "time", format=format)
    for date, clocks in _ORDERED_DATES.items():
        for clock in clocks:
            month_first = date + clock
            swapped = day_first(month_first)
            # Days up to 12 could be months: such texts come first, in a form of their own.
            either = times.strict_pattern(date.replace("d", "m") + clock)
            yield Form(f"either {month_first}", either, "time", format=month_first, unsure=True)
            for format in (month_first, swapped):
                yield Form(format, times.strict_pattern(format), "time", format=format)


def day_first(month_first: str) -> str:
    """The format with day and month swapped in its date."""
    date, space, clock = month_first.partition(" ")
    return date.replace("m", "_").replace("d", "m").replace("_", "d") + space + clock


def _fixed_formats() -> Iterator[str]:
    """Formats in which a day cannot be mistaken for a month; those without leading zeros come last."""
    seconds = [f"%H:%M:%S{fraction}{zone}" for fraction in ("", ".%3f", ".%f") for zone in ("", "Z", "%:z", "%z")]
    yield "%Y-%m-%d"
    for between, clock in product(" T", ("%H:%M", "%H:%MZ", "%H:%M%:z", *seconds)):
        yield f"%Y-%m-%d{between}{clock}"
    dates = ("%Y/%m/%d", "%d.%m.%Y", "%-d.%-m.%Y", "%d %b %Y", "%-d %b %Y", "%b %d, %Y", "%b %-d, %Y", "%d-%b-%Y")
    for date, clock in product(dates, ("", " %H:%M", " %-H:%M", " %H:%M:%S", " %-H:%M:%S")):
        yield date + clock
    yield from ("%d.%m.%y", "%-d.%-m.%y", "%d %B %Y", "%-d %B %Y", "%B %d, %Y", "%B %-d, %Y", "%b %d %Y", "%b %-d %Y")
    yield from ("%-d-%b-%Y", "%d-%b-%y", "%-d-%b-%y", "%d-%^b-%Y", "%-d-%^b-%Y", "%d-%^b-%y", "%-d-%^b-%y", "%d%^b%Y")
    yield from ("%Y-%m", "%Y/%m", "%m/%Y", "%-m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%^b-%y")
    yield from ("%H:%M", "%-H:%M", "%H:%M:%S", "%-H:%M:%S", "%H:%M:%S.%3f", "%H:%M:%S.%f")
    for hour, rest, half in product(("%I", "%-I"), (":%M", ":%M:%S"), (" %p", "%p", " %P", "%P")):
        yield hour + rest + half


_HALF_DAYS = tuple(f" {hour}:%M{rest} %p" for rest in ("", ":%S") for hour in ("%I", "%-I"))
_CLOCKS = ("", " %H:%M", " %-H:%M", " %H:%M:%S", " %-H:%M:%S")
_ORDERED_DATES = {
    "%m/%d/%Y": (*_CLOCKS, *_HALF_DAYS), "%-m/%-d/%Y": (*_CLOCKS, *_HALF_DAYS),
    "%m/%d/%y": _CLOCKS[:3], "%-m/%-d/%y": _CLOCKS[:3], "%m-%d-%Y": _CLOCKS[:4],
}  # fmt: skip
"""Dates whose day and month could be swapped, month first, with the clocks that follow them."""


def _forms() -> Iterator[Form]:
    for text in MARKERS:
        yield Form(f"marker {text}", times.escaped(text), "missing", text)
    for text in WORDS:
        yield Form(f"word {text}", times.escaped(text), "word", text)
    for text in (text for pair in BOOLEANS for text in pair):
        yield Form(f"boolean {text}", times.escaped(text), "boolean", text)
    yield from _number_forms()
    yield from _time_forms()
    yield Form("text", "(?s).*", "text")


FORMS = tuple(_forms())
"""All forms; a text has the first that matches it."""
NAMED = {form.name: form for form in FORMS}
_EXACT = tuple(form.text for form in FORMS if form.family in ("missing", "word", "boolean"))


def form_of(texts: pa.Array) -> np.ndarray:
    """Position in `FORMS` of the form of every text, as int32; null counts as the empty marker. Never fails."""
    distinct = texts_of(texts).dictionary_encode()
    exact = pc.index_in(distinct.dictionary, value_set=pa.array(_EXACT)).fill_null(-1).to_numpy(zero_copy_only=False)
    found = np.where(exact >= 0, exact, _first_match(pc.utf8_trim_whitespace(distinct.dictionary)))
    return _spread(np.append(found, MARKERS.index(NULL)).astype(np.int32), distinct)


def _first_match(texts: pa.Array) -> np.ndarray:
    """The first form of a number or time that each text has, the last form of the table where it has none.

    Few texts are tried with few expressions: an expression is first compared with the shapes of the texts, their
    digits replaced by 0 and currencies by one sign, of which a column has few.
    """
    found = np.full(len(texts), len(FORMS) - 1, dtype=np.int64)
    rows = np.flatnonzero(_matches(texts, _CHARACTERS))
    shapes = pc.replace_substring_regex(texts.take(pa.array(rows)), "[0-9]", "0")
    shapes = pc.replace_substring_regex(shapes, _CURRENCY, "¤").dictionary_encode()
    shape_of = shapes.indices.to_numpy(zero_copy_only=False)
    likely = {family for family, pattern in _FAMILIES.items() if _matches(shapes.dictionary, pattern).any()}
    for place in (place for place, form in enumerate(FORMS) if form.family in likely):
        fits = _matches(shapes.dictionary, _SHAPES[place])
        if fits.any():
            tried = rows[fits[shape_of]]
            tried = tried[found[tried] == len(FORMS) - 1]
            found[tried[_matches(texts.take(pa.array(tried)), FORMS[place].pattern)]] = place
    return found


def _matches(texts: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(texts, f"^(?:{pattern})$").to_numpy(zero_copy_only=False)


def _shape(pattern: str) -> str:
    """The expression of the shapes of a pattern's texts; numbers of repeats stay."""
    plain = pattern.replace(_CURRENCY, "¤")
    return re.sub(r"(\{[0-9,]+\})|\[[0-9-]+\]|[0-9]", lambda part: part[1] or "0", plain)


_FAMILIES = {
    "plain": f"[0.,+'\u2019{''.join(SPACES)}-]*(?:[eE].*)?",
    "percent": ".*%",
    "money": ".*¤.*",
    "time": ".*[:/A-Za-z].*|0+[.-]0+(?:[.-]0+)?",
}
"""Expressions of the shapes of each family's texts, and of some others."""
_SHAPES = tuple(_shape(form.pattern) for form in FORMS)
_LETTERS = "|".join((*times.NAMES, "T", "Z", "e", "E", _CURRENCY))
_OTHERS = rf"[0-9.,:/+%'\x{{2019}}{''.join(SPACES)}-]*"
_CHARACTERS = f"{_OTHERS}(?:(?:{_LETTERS}){_OTHERS})*"
"""Texts of the characters and names that occur in numbers and times; all others are text."""


def number_of(texts: pa.Array, form: Form) -> np.ndarray:
    """The number that each text of a form writes, without what surrounds it; of a time the microseconds since 1970,
    or since midnight. NaN for texts that are not such numbers or times. Never fails."""
    if form.family == "time":
        reader = Datetime("x", format=form.format, resolution="microsecond")
        numbers, readable = to_numbers(reader, texts)
        return np.where(readable, numbers.astype(float), np.nan)
    if not form.is_number:
        return np.full(len(texts), np.nan)
    plain = pc.replace_substring_regex(texts_of(texts), f"{_CURRENCY}|%", "")
    spaceless = pc.replace_substring_regex(plain, f"^([+-]?)[{''.join(SPACES)}]+", "\\1")
    numbers, readable = to_numbers(
        Continuous("x", thousands=form.thousands, comma=form.comma or form.thousands == "."), spaceless
    )
    return np.where(readable, numbers, np.nan)


_BEFORE = r"(?s)^[+-]?([^0-9+.,-]*)[+-]?[0-9].*$"
_AFTER = rf"(?s)^[^0-9]*[0-9](?:[0-9.,'\x{{2019}}{''.join(SPACES)}]*[0-9])?(.*)$"


def affix_of(texts: pa.Array) -> np.ndarray:
    """Position in `AFFIXES` of what stands around the number in every text, as int32. Never fails."""
    distinct = texts_of(texts).dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(distinct.dictionary)
    around = [pc.replace_substring_regex(trimmed, pattern, "\\1") for pattern in (_BEFORE, _AFTER)]
    known = pa.array(["\n".join(affix) for affix in AFFIXES])
    found = pc.index_in(pc.binary_join_element_wise(*around, "\n"), value_set=known).fill_null(len(AFFIXES) - 1)
    return _spread(np.append(found.to_numpy(zero_copy_only=False), len(AFFIXES) - 1).astype(np.int32), distinct)


def offset_of(texts: pa.Array) -> np.ndarray:
    """Position in `OFFSETS` of the offset from UTC at the end of every text, as int32. Never fails."""
    distinct = texts_of(texts).dictionary_encode()
    trimmed = pc.utf8_trim_whitespace(distinct.dictionary)
    ends = pc.extract_regex(trimmed, r":[0-9]{2}(?:\.[0-9]+)?(?P<hour>[+-][0-9]{2}):?(?P<minute>[0-9]{2})$")
    offsets = pc.binary_join_element_wise(*ends.flatten(), ":")
    found = pc.index_in(offsets, value_set=pa.array(OFFSETS)).fill_null(len(OFFSETS) - 1)
    return _spread(np.append(found.to_numpy(zero_copy_only=False), len(OFFSETS) - 1).astype(np.int32), distinct)


def _spread(found: np.ndarray, distinct: pa.DictionaryArray) -> np.ndarray:
    """What was found for the distinct texts, row by row; the last element is for null."""
    return found[distinct.indices.fill_null(len(found) - 1).to_numpy(zero_copy_only=False)]
