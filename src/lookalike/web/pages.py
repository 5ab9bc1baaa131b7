"""How the page is drawn: templates, the texts of `texts.yaml`, and what both share."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from lookalike.privacy.ledger import epsilon_text
from lookalike.report.page import environment, style_sheet

PACKAGE = "lookalike.web"


@cache
def texts() -> dict[str, Any]:
    """All texts of the page, by their names. Another language is another file."""
    return yaml.safe_load(_read("texts.yaml"))


def text(name: str, **values: Any) -> str:
    """One text by its dotted name, with values put in."""
    found: Any = texts()
    for part in name.split("."):
        found = found[part]
    return found.format(**values) if values else found


def drawn(template: str, **values: Any) -> str:
    """A page of a template."""
    made = environment(PACKAGE)
    made.filters |= {
        "fill": lambda text, **given: text.format(**given),
        "epsilon": epsilon_text,
        "clock": clock,
        "rough": rough,
    }
    return made.get_template(template).render(t=texts(), **values)


@cache
def style() -> str:
    """The style sheet of the reports and what the page adds to it."""
    return str(style_sheet()) + _read("templates/page.css")


@cache
def script() -> str:
    return _read("templates/page.js")


def refused(status: int, reason: str) -> str:
    """The page of a request that is not answered; it needs no style sheet, which would be refused, too."""
    said = texts()["refused"]
    return drawn(
        "refused.html", status=status, reason=said.get(reason) or said["failure" if status >= 500 else "other"]
    )


def entered() -> str:
    """The page that leads from the first address, which holds the token, to one without it."""
    return drawn("entered.html")


def rough(value: float) -> str:
    """A prediction with two digits: it is not more precise.

    >>> rough(33.26), rough(1234.0)
    ('33', '1,200')
    """
    return f"{float(f'{value:.2g}'):,.10g}"


def clock(seconds: float) -> str:
    """A time in minutes and seconds.

    >>> clock(75.2), clock(3.0)
    ('1:15', '0:03')
    """
    whole = math.floor(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def as_event(**values: Any) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(values)}\n\n".encode()


def _read(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")
