"""Texts of numbers, with what surrounds and separates their digits, to plain texts of digits and back.

Reading is a little wider than writing: what stands around a number and between its groups of digits may be left out,
spaces and apostrophes may be of any kind, and a minus may come after the prefix (`$-5`, written as `-$5`).
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lookalike.schema.time_texts import escaped

THOUSANDS = (",", ".", " ", "\u00a0", "\u202f", "'", "\u2019")
"""Separators of groups of three digits."""
MAX_AFFIX = 20
NO_AFFIX = re.compile(r"[\d+\-]|[.,]$|^[.,]")
"""What must not be in a prefix or suffix, because it could be taken for a part of the number."""
_SPACES, _APOSTROPHES = " \u00a0\u202f", "'\u2019"


class Style(Protocol):
    """How a column writes numbers; see `binned.Number`."""

    @property
    def prefix(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def thousands(self) -> str: ...
    @property
    def plus(self) -> bool: ...
    @property
    def decimal_mark(self) -> str: ...


def is_dressed(style: Style) -> bool:
    """Whether texts hold more than digits, a minus and a point."""
    return bool(style.prefix or style.suffix or style.thousands or style.plus or style.decimal_mark != ".")


def bare(style: Style, value: Any) -> Any:
    """A text of a number without all that surrounds and separates its digits; any other value as it is."""
    found = re.match(_pattern(style), value.strip()) if isinstance(value, str) and is_dressed(style) else None
    if not found:
        return value
    digits = re.sub(_separators(style), "", found["digits"]).replace(style.decimal_mark, ".")
    return (found["sign"] or "") + (found["inner"] or "") + digits


def bare_texts(style: Style, texts: pa.Array) -> pa.Array:
    """The same for an array of texts, null where a text is no such number."""
    if not is_dressed(style):
        return texts
    parts = pc.extract_regex(texts, _pattern(style))
    sign, inner, digits = parts.flatten()
    digits = pc.replace_substring_regex(digits, _separators(style), "")
    return pc.binary_join_element_wise(sign, inner, pc.replace_substring(digits, style.decimal_mark, "."), "")


def dressed(style: Style, text: str) -> str:
    """The text of a number as the column writes it, from plain digits with an optional minus and point."""
    sign = "-" if text.startswith("-") else "+" if style.plus else ""
    whole, point, fraction = text.removeprefix("-").partition(".")
    if style.thousands and whole.isdecimal():
        whole = f"{int(whole):,}".replace(",", style.thousands)
    mark = style.decimal_mark if point else ""
    return f"{sign}{style.prefix}{whole}{mark}{fraction}{style.suffix}"


def _pattern(style: Style) -> str:
    """The expression of such texts, for RE2 and Python, with groups `sign`, `inner` (after the prefix) and `digits`."""
    group = _separators(style)
    whole = f"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+)" if style.thousands else "[0-9]+"
    mark = f"[{style.decimal_mark}]"
    digits = f"(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    before, after = (_optional(text) for text in (style.prefix.strip(), style.suffix.strip()))
    signs = f"(?:(?P<sign>[+-]){before}|{before}(?P<inner>[+-])?)"
    return f"^{signs}(?P<digits>{digits}){after}$"


def _separators(style: Style) -> str:
    """The expression of separators of thousands; of none where the column has none."""
    kinds = next((kinds for kinds in (_SPACES, _APOSTROPHES) if style.thousands and style.thousands in kinds), None)
    return f"[{kinds or style.thousands}]" if style.thousands else "\\x00"


def _optional(text: str) -> str:
    """The expression of a text beside a number, which may be left out, with or without spaces between the two."""
    return f"(?:[{_SPACES}]?{escaped(text)}[{_SPACES}]?)?" if text else ""
