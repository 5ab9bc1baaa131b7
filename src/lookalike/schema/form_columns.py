"""The column that several forms of texts have in common: kind, separators, decimals and format. Uses no data.

The input is the number of rows of each form (`text_forms.py`); the numbers are noisy for a private table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.text_forms import FORMS, NAMED, Form, day_first


def column_of(
    name: str, counts: Mapping[Form, float], *, mostly: float = 0.95, padded: bool = False, **shared: Any
) -> Integer | Continuous | Datetime | None:
    """The column of numbers or times that at least the share `mostly` of the values agrees with, None for text.

    Args:
        name: of the column.
        counts: (noisy) numbers of rows of the forms that stand out.
        mostly: share of the values that must agree. Missing markers and words do not count as values.
        padded: whether whole numbers with leading zeros are numbers of that width; else they are codes, so text.
        shared: facts that the column has beside those that the forms show. Where `detail_of` asks for it, `prefix`
            and `suffix` of money, or the `zone` of times with an offset, are among them; else money would not be
            read, percents end with `%`, and times are turned into UTC.
    """
    values = {form: count for form, count in counts.items() if form.family not in ("missing", "word")}
    needed = mostly * max(sum(values.values()), 1.0)
    numbers = {form: count for form, count in values.items() if form.is_number}
    if numbers and sum(numbers.values()) >= needed:
        width = _width(numbers)
        if width and not padded:
            return None
        return Integer(name, width=width, **shared) if width else _number(name, numbers, needed, shared)
    times = {form: count for form, count in values.items() if form.family == "time"}
    return _time(name, times, needed, shared) if times and sum(times.values()) >= needed else None


def detail_of(counts: Mapping[Form, float]) -> str:
    """What most of the values leave open: `affix`, `offset`, or "" for nothing. See `text_forms.py`."""
    amounts = {detail: sum(n for form, n in counts.items() if form.detail == detail) for detail in ("affix", "offset")}
    best = max(amounts, key=lambda detail: amounts[detail])
    values = sum(count for form, count in counts.items() if form.family not in ("missing", "word"))
    return best if amounts[best] > values / 2 else ""


def markers_of(counts: Mapping[Form, float], *, words: bool) -> tuple[str, ...]:
    """The missing markers among the forms that stand out, in a column of numbers or times with `words` too."""
    families = ("missing", "word") if words else ("missing",)
    return tuple(form.text for form in FORMS if form.family in families and form in counts)


def _width(counts: Mapping[Form, float]) -> int:
    """The width of most numbers with leading zeros; 0 if no number has any."""
    widths = {form.width: count for form, count in counts.items() if form.width}
    return max(widths, key=lambda width: widths[width], default=0)


def _number(name: str, counts: dict[Form, float], needed: float, shared: dict[str, Any]) -> Integer | Continuous | None:
    """A whole or decimal number, with the separators and as many decimals as its texts show."""
    comma, thousands = _separators(counts)
    agreeing = [form for form in counts if _agrees(form, comma, thousands)]
    if sum(counts[form] for form in agreeing) < needed:
        return None
    facts = {**shared, "thousands": thousands}
    if any(form.plus for form in agreeing):
        facts["plus"] = True
    if max(counts, key=lambda form: counts[form]).family == "percent":
        facts.setdefault("suffix", "%")
    if NAMED["float"] in agreeing:
        return Continuous(name, comma=comma, **facts)
    places = sorted({_places(form, comma, thousands) for form in agreeing if form.name != "whole.0"})
    point_zero = NAMED["whole.0"] in agreeing
    if not places:
        # Programs that keep whole numbers as floats, often because one is missing, write all of them with a zero.
        return Continuous(name, decimals=0, least_decimals=1, **facts)
    if places[-1] == 0:
        return Integer(name, **facts)
    least = min(places[0], 1) if point_zero else places[0]
    return Continuous(
        name, decimals=places[-1], least_decimals=least if least < places[-1] else None, comma=comma, **facts
    )


def _separators(counts: dict[Form, float]) -> tuple[bool, str]:
    """Whether a comma stands before decimals, and the separator of thousands. Unsure forms follow the others."""
    sure = {form: count for form, count in counts.items() if not form.unsure}
    commas = sum(count for form, count in sure.items() if form.comma)
    points = sum(count for form, count in sure.items() if form.decimals != 0 and not form.comma)
    points += counts.get(NAMED["whole.0"], 0.0)
    groups: dict[str, float] = {}
    for form, count in sure.items():
        if form.thousands:
            groups[form.thousands] = groups.get(form.thousands, 0.0) + count
    best = max(groups, key=lambda group: groups[group], default="")
    comma = commas > points or (commas == points and best == ".")
    if not best and not comma and any(form.unsure and form.thousands for form in counts):
        best = ","
    return comma, best


def _agrees(form: Form, comma: bool, thousands: str) -> bool:
    if form.unsure:
        return comma or thousands == "," if form.thousands else not comma or thousands == "."
    if form.thousands and form.thousands != thousands:
        return False
    return (form.decimals == 0 and form.name != "whole.0") or form.comma == comma


def _places(form: Form, comma: bool, thousands: str) -> int:
    """Decimals of the form's texts, given what separators mean."""
    if form.unsure and form.thousands:
        return 3 if comma else 0
    if form.unsure:
        return 0 if thousands == "." else 3
    return form.decimals or 0


def _time(name: str, counts: dict[Form, float], needed: float, shared: dict[str, Any]) -> Datetime | None:
    """A time in the format of most rows."""
    groups: dict[str, dict[Form, float]] = {}
    for form, count in counts.items():
        if not form.unsure:
            groups.setdefault(_skeleton(form.format), {})[form] = count
    for form, count in counts.items():
        if form.unsure:
            orders = [_skeleton(form.format), _skeleton(day_first(form.format))]
            best = max(orders, key=lambda order: sum(groups.get(order, {}).values()))
            groups.setdefault(best, {})[form] = count
    best = max(groups, key=lambda skeleton: sum(groups[skeleton].values()))
    if sum(groups[best].values()) < needed:
        return None
    facts = {"zone": "UTC", **shared} if best.endswith("z") else shared
    return Datetime(name, format=_common_format(best, groups[best]), **facts)


def _skeleton(format: str) -> str:
    """The format with leading zeros and short names, which formats of one column have in common."""
    return format.replace("%-", "%").replace("%B", "%b")


def _common_format(skeleton: str, counts: dict[Form, float]) -> str:
    """The format that writes all of these: no leading zeros where some lack them, long names where most are long."""
    bare = {code for form in counts for code in re.findall("%-(.)", form.format)}
    long = sum(count if "%B" in form.format else -count for form, count in counts.items()) > 0
    format = re.sub("%([mdHI])", lambda code: f"%-{code[1]}" if code[1] in bare else code[0], skeleton)
    return format.replace("%b", "%B") if long else format
