"""Which of the rules that are likely can hold together, and which columns they compute.

A column is computed by one rule at most, and never from a column that is computed itself, but for a time of day that is
some minutes later than one written together from its hour and minute. Parts of one time make one
rule: a time is computed from its parts where year, month and day are known, and else coarse parts from the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lookalike.discovery import tables
from lookalike.schema.constraints import AtLeast, ClockSum, Constraint, Determines, Never, Parts, Sum
from lookalike.schema.schema import Schema

Family = tuple[tuple[str, ...], str]
"""Columns that may determine another, and that one."""
_COARSE = ("year", "quarter", "month", "day of year", "date", "clock")
"""Parts that follow from a time's bin, or from other parts; the finer ones are modelled and given to the time."""
SURE = 2.0
"""Standard deviations of noise up to which something may be noise."""
BROKEN = 0.01, 0.05
"""A rule is found if no more than the first part of rows breaks it up to noise, and surely fewer than the second."""
_LIMITS: dict[type[Constraint], tuple[float, float]] = {
    AtLeast: (0.0, 0.03),  # many rows keep a comparison by chance
    Determines: (0.1, 0.15),  # noise hides the values of rare rows; that they are determined at all was asked before
    Never: (0.01, 0.1),  # only the rows with missing values count, which may be few beside the noise
}
"""The same for kinds of rules of which another part is needed."""


@dataclass(frozen=True, slots=True)
class Likely:
    """A rule that passed the screening.

    Attributes:
        derived: columns that it computes.
        among: number of rows that could break it, by which the rows that do are judged.
        broken: noisy number of rows that break it.
    """

    rule: Constraint
    derived: tuple[str, ...]
    among: float
    broken: float


def chosen_rules(schema: Schema, likely: Sequence[Likely]) -> list[Likely]:
    """Rules that can hold together, the best first: no column is computed twice, or from one that is computed."""
    order = (Parts, Sum, ClockSum, Determines, AtLeast, Never)
    merged = [*_merged_parts(schema, likely), *(found for found in likely if not isinstance(found.rule, Parts))]
    merged = [found for found in merged if _writable(found.rule)]
    ranked = sorted(
        merged, key=lambda found: (order.index(type(found.rule)), not _equal(found.rule), found.broken / found.among)
    )
    kept: list[Likely] = []
    computed: set[str] = set()
    used: set[str] = set()
    originals: dict[str, str] = {}
    for found in (_of_originals(found, originals) for found in ranked):
        names = set(found.rule.columns or tables.names_in(found.rule, schema))
        sources = names - set(found.derived)
        given = sources - {found.rule.start} if isinstance(found.rule, ClockSum) else sources
        if given & computed or set(found.derived) & (used | computed):
            continue
        kept.append(found)
        originals |= _equal(found.rule)
        computed |= set(found.derived)
        used |= sources if found.derived else set()
    implied = _implied_rules([found.rule for found in kept])
    return [found for found in kept if found.rule not in implied]


def _equal(rule: Constraint) -> dict[str, str]:
    """The column that a rule computes as equal to another, with that one; empty for other rules."""
    return {rule.total: rule.terms[0]} if isinstance(rule, Sum) and len(rule.terms) == 1 else {}


def _of_originals(found: Likely, originals: Mapping[str, str]) -> Likely:
    """The rule with the originals of columns that are computed as equal to them, from which a sum can be computed."""
    rule = found.rule
    if not isinstance(rule, Sum) or not set(rule.terms) & originals.keys():
        return found
    terms = tuple(originals.get(term, term) for term in rule.terms)
    return found if rule.total in terms else replace(found, rule=replace(rule, terms=terms))


def holds(broken: float, among: float, stddev: float, most: float, surely: float) -> bool:
    """Whether, of the rows that could break a rule, at most a part does up to noise, and surely fewer than another."""
    noise = SURE * stddev
    return broken <= most * among + noise and broken + noise <= surely * among


def limits(rule: Constraint) -> tuple[float, float]:
    """The parts of rows of `holds` for a kind of rule."""
    return next((found for kind, found in _LIMITS.items() if isinstance(rule, kind)), BROKEN)


def _implied_rules(rules: Sequence[Constraint]) -> set[Constraint]:
    """Rules on missing values that follow from others of them, which stay; the last ones first."""
    left = [rule for rule in rules if isinstance(rule, Never)]
    implied: set[Constraint] = set()
    for rule in left[::-1]:
        if _follows(rule, [other for other in left if other is not rule and other not in implied]):
            implied.add(rule)
    return implied


def _merged_parts(schema: Schema, likely: Sequence[Likely]) -> list[Likely]:
    """One rule for all parts of a time. A time of which year, month and day are known is computed from its parts."""
    times = dict.fromkeys(found.rule.time for found in likely if isinstance(found.rule, Parts))
    merged: list[Likely] = []
    for name in times:
        own = [found for found in likely if isinstance(found.rule, Parts) and found.rule.time == name]
        parts: dict[str, str] = {}
        for found in sorted(own, key=lambda found: found.broken):
            ((part, column),) = found.rule.parts  # type: ignore[union-attr]
            if part not in parts and column not in parts.values():
                parts[part] = column
        time = schema[name]
        one_year = str(getattr(time, "minimum", "a"))[:4] == str(getattr(time, "maximum", "b"))[:4]
        whole = {"month", "day"} <= set(parts) and ("year" in parts or one_year)
        coarse = [p for p in parts if p in _COARSE and not (whole and p in ("year", "month"))]
        coarse += [p for p in parts if whole and p.startswith("weekday")]
        derived = (*((name,) if whole else ()), *(parts[p] for p in coarse))
        zone = own[0].rule.zone  # type: ignore[union-attr]
        rule = Parts(name, tuple(parts.items()), zone)
        merged.append(Likely(rule, derived, own[0].among, max(found.broken for found in own)))
    return merged


def _writable(rule: Constraint) -> bool:
    """Whether a schema file can hold the rule: names and values of words stand in backquotes."""
    if isinstance(rule, Never):
        return re.fullmatch(r"`[^`]+` (is missing|= `[^`]+`) and `[^`]+` is not missing", rule.condition) is not None
    return all("`" not in name for name in rule.columns)


def _follows(rule: Never, kept: Sequence[Never]) -> bool:
    """Whether rules that are kept already say that one column is missing wherever the other is."""
    given = [_implied(found.condition) for found in kept]
    wanted = _implied(rule.condition)
    if wanted is None:
        return False
    reached, waiting = {wanted[0]}, [wanted[0]]
    while waiting:
        name = waiting.pop()
        new = [pair[1] for pair in given if pair is not None and pair[0] == name and pair[1] not in reached]
        reached.update(new)
        waiting += new
    return wanted[1] in reached


def _implied(condition: str) -> tuple[str, str] | None:
    """The columns of a condition of `_missing_words`, None for others."""
    found = re.fullmatch(r"`([^`]+)` is missing and `([^`]+)` is not missing", condition)
    return (found[1], found[2]) if found else None
