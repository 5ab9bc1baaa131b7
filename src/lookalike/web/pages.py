"""One request as the views see it, and how its page is drawn: templates and the texts of `texts.yaml`."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lookalike.privacy.ledger import epsilon_text
from lookalike.report.page import environment, style_sheet
from lookalike.web.guard import Form
from lookalike.web.tables import Place

if TYPE_CHECKING:
    from lookalike.web.app import Page


PACKAGE = "lookalike.web"


@cache
def texts() -> dict[str, Any]:
    """All texts of the page, by their names. Another language needs another file."""
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


class Call:
    """A request to the page, with the form that came with it."""

    def __init__(self, page: Page, request: Request, form: Form) -> None:
        self.page, self.request, self.form = page, request, form
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """The table that the address names."""
        if self._place is None:
            self._place = self.page.folder.table(self.request.path_params["key"])
        return self._place

    @property
    def number(self) -> int:
        """The run that the address names."""
        return int(self.request.path_params["number"])

    def shows(self, template: str, step: str, *, status: int = 200, **values: Any) -> Response:
        """A page of one of the steps."""
        place = self.place if "key" in self.request.path_params else None
        return HTMLResponse(drawn(template, step=step, place=place, **values), status)

    def goes_to(self, *parts: str | int) -> Response:
        """Lead the browser to another page, so that a reload repeats nothing."""
        return RedirectResponse("/" + "/".join(quote(str(part)) for part in parts), 303)

    def goes_to_part(self, part: str, *parts: str | int) -> Response:
        """Lead the browser to a part of another page."""
        return RedirectResponse("/" + "/".join(quote(str(piece)) for piece in parts) + f"#{part}", 303)
