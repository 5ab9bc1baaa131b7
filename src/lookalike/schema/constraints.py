"""Rules about rows that everybody may know, such as that a discharge is never before its admission.

They stand in a schema file as a list under `dp.constraints`:

    - never: ward = Maternity and sex = M
    - always: discharged >= admitted
    - always: discharged = admitted + stay_days
    - determines: {from: education, to: education-num, table: {HS-grad: 9, Bachelors: 13}}

How they are kept is in `enforce.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lookalike.errors import SchemaError
from lookalike.schema.column import as_text

_NAME = r"""\s*(?:`([^`]+)`|"([^"]+)"|([^\s<>=+"`]+))\s*"""
_SIGNS = ("<=", ">=", "==", "=", "<", ">")


class Constraint(Protocol):
    """A public rule about the columns of one row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the rule is about, as far as they are known without a schema."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The rule as it stands in a schema file."""
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
    """The value in one column follows from that in another, as a code from its label. Values not listed are free."""

    source: str
    target: str
    table: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.source, self.target)

    def to_dict(self) -> dict[str, Any]:
        return {"determines": {"from": self.source, "to": self.target, "table": dict(self.table)}}


def rule_text(rule: Constraint) -> str:
    """The rule in one line, as it stands in a schema file.

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
