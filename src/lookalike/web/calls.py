"""One request as the views see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lookalike.web import pages
from lookalike.web.guard import Form
from lookalike.web.tables import Place

if TYPE_CHECKING:
    from lookalike.web.app import Page


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
        return HTMLResponse(pages.drawn(template, step=step, place=place, **values), status)

    def goes_to(self, *parts: str | int) -> Response:
        """Lead the browser to another page, so that a reload repeats nothing."""
        return RedirectResponse("/" + "/".join(quote(str(part)) for part in parts), 303)

    def goes_to_part(self, part: str, *parts: str | int) -> Response:
        """Lead the browser to a part of another page."""
        return RedirectResponse("/" + "/".join(quote(str(piece)) for piece in parts) + f"#{part}", 303)
