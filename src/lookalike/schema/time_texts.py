"""Texts of times to microseconds and back, by a format of strftime codes. The same on every machine and in any locale.

Known codes: `%Y`, `%y` (two digits: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068, as in POSIX), `%m`, `%d`,
`%b` and `%B` (English names of months), `%^b` (in capitals), `%a` and `%A` (of weekdays, which are not checked), `%H`,
`%I`, `%M`, `%S`, `%f` (six decimals of a second), `%3f` (three), `%p` and `%P` (AM and am), `%z` and `%:z` (offsets
such as +0100 and +01:00). `%-m`, `%-d`, `%-H` and `%-I` write no leading zero. Formats with any other code go through
Python's own functions, text by text.

Reading is a little wider than writing: leading zeros may be there or not, names may be in any case, short or long.
Work is done on whole arrays; no text raises an error.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"%(?::z|3f|\^b|-[mdHI]|.)|[^%]+|%", re.DOTALL)
_SHORT_MONTHS = "|".join(name[:3] for name in MONTHS)

NAMES = (*MONTHS, *(name[:3] for name in MONTHS), *(name[:3].upper() for name in MONTHS), "AM", "PM", "am", "pm")

STRICT = {
    "%Y": "[0-9]{4}", "%y": "[0-9]{2}",
    "%m": "(0[1-9]|1[0-2])", "%-m": "([1-9]|1[0-2])",
    "%d": "(0[1-9]|[12][0-9]|3[01])", "%-d": "([1-9]|[12][0-9]|3[01])",
    "%b": f"({_SHORT_MONTHS})", "%^b": f"({_SHORT_MONTHS.upper()})", "%B": f"({'|'.join(MONTHS)})",
    "%a": f"({'|'.join(name[:3] for name in DAYS)})", "%A": f"({'|'.join(DAYS)})",
    "%H": "([01][0-9]|2[0-3])", "%-H": "([0-9]|1[0-9]|2[0-3])",
    "%I": "(0[1-9]|1[0-2])", "%-I": "([1-9]|1[0-2])", "%M": "[0-5][0-9]", "%S": "[0-5][0-9]",
    "%f": "[0-9]{6}", "%3f": "[0-9]{3}", "%p": "(AM|PM)", "%P": "(am|pm)",
    "%z": "[+-](0[0-9]|1[0-4])[0-5][0-9]", "%:z": "[+-](0[0-9]|1[0-4]):[0-5][0-9]",
}  # fmt: skip
"""What each code writes, as an expression for RE2."""


def tokens(format: str) -> list[str]:
    """The codes of a format and the texts between them.

    >>> tokens("%-d %b %Y")
    ['%-d', ' ', '%b', ' ', '%Y']
    """
    return _TOKEN.findall(format)


def strict_pattern(format: str) -> str:
    """The expression of the texts that a format of known codes writes."""
    return "".join(STRICT.get(token) or escaped(token) for token in tokens(format))


def escaped(text: str) -> str:
    """The expression of a literal text for RE2, which refuses some of Python's escapes."""
    return re.sub(r"[\\.+*?()|\[\]{}^$]", lambda mark: f"\\{mark[0]}", text)
