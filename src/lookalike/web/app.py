"""The local page as an application: its addresses, what answers at each, and `serve`, which `lookalike serve` calls.

One process serves the page, and answers on this machine alone.
"""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from lookalike.errors import InputError, LookalikeError
from lookalike.release import FittedModel, load
from lookalike.web import pages, results, steps
from lookalike.web.guard import Form, Guard, Keys, log_place, read_form
from lookalike.web.pages import Call
from lookalike.web.runs import Runs
from lookalike.web.tables import Folder, UnknownTableError

View = Callable[[Call], Response]
_TABLE, _RUN = "/tables/{key}", "/tables/{key}/runs/{number:int}"
ROUTES: tuple[tuple[str, View | None, View | None], ...] = (
    ("/", steps.tables, None),
    ("/databases", None, steps.add_database),
    (_TABLE, steps.table, steps.read_otherwise),
    (f"{_TABLE}/schema", steps.schema, steps.change_schema),
    (f"{_TABLE}/schema/import", None, steps.import_schema),
    (f"{_TABLE}/schema.yaml", steps.export_schema, None),
    (f"{_TABLE}/budget", steps.budget, steps.change_budget),
    (f"{_TABLE}/run", results.run, results.start),
    (_RUN, results.one_run, None),
    (f"{_RUN}/events", results.events, None),
    (f"{_RUN}/cancel", None, results.cancel),
    (f"{_RUN}/resume", None, results.resume),
    (f"{_TABLE}/result", results.newest, None),
    (f"{_RUN}/result", results.result, None),
    (f"{_RUN}/report", results.report, None),
    (f"{_RUN}/files/{{name}}", results.download, None),
    (f"{_RUN}/questions", None, results.ask),
    (f"{_RUN}/rows", None, results.more_rows),
    (f"{_RUN}/comparison", results.comparison, results.compare),
    (f"{_RUN}/comparison/page", results.comparison_page, None),
    ("/ledger", results.ledger, None),
    ("/ledger/{key}", None, results.set_cap),
)
"""Address, what shows it, what takes a form there. Showing changes nothing."""
SETTINGS: dict[str, Any] = {
    "log_config": None,  # no log of requests, no traceback
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "proxy_headers": False,
    "ws": "none",
    "timeout_graceful_shutdown": 1,
}
"""Options of uvicorn."""


class Page:
    """One page: its folder, its secrets, its runs, and the application that answers requests."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.keys, self.runs = Folder(folder), Keys(port), Runs()
        self.lock = threading.Lock()
        self._models: dict[tuple[str, int], FittedModel] = {}
        routes = [Route(path, self._endpoint(show, take), methods=_methods(show, take)) for path, show, take in ROUTES]
        routes += [
            Route("/static/style.css", lambda request: Response(pages.style(), media_type="text/css")),
            Route("/static/page.js", lambda request: Response(pages.script(), media_type="text/javascript")),
            Route("/favicon.ico", lambda request: PlainTextResponse("", 204)),
        ]
        inner = Starlette(routes=routes, exception_handlers={HTTPException: _refusal})
        self.app = Guard(inner, keys=self.keys, refused=pages.refused, entered=pages.entered)

    def model(self, path: Path) -> FittedModel:
        """A stored model; the last few are kept in memory."""
        key = (str(path), path.stat().st_mtime_ns)
        if key not in self._models:
            while len(self._models) > 1:
                self._models.pop(next(iter(self._models)))
            self._models[key] = load(path)
        return self._models[key]

    def _endpoint(self, show: View | None, take: View | None) -> Any:
        async def endpoint(request: Request) -> Response:
            posted = request.method == "POST"
            form = await read_form(request) if posted else Form([])
            view = take if posted else show
            return await run_in_threadpool(_answered, view or results.newest, Call(self, request, form))

        return endpoint


def _methods(show: View | None, take: View | None) -> list[str]:
    return [*(["GET"] if show else []), *(["POST"] if take else [])]


def _answered(view: View, call: Call) -> Response:
    """The answer of a view. A page names a mistake that the user can correct, and leads back."""
    try:
        return view(call)
    except UnknownTableError as error:
        return HTMLResponse(pages.drawn("problem.html", step="table", place=None, problem=str(error)), 404)
    except LookalikeError as error:
        return HTMLResponse(pages.drawn("problem.html", step="", place=None, problem=str(error)), 400)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001
        log_place(error)
        return HTMLResponse(pages.refused(500, ""), 500)


def _refusal(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return HTMLResponse(pages.refused(status, "missing" if status == 404 else "other"), status)


# The server.


def serve(folder: Path, *, said: Callable[[str], None], port: int = 0, browser: bool = True) -> None:
    """Show the page for the tables of a folder until it is interrupted; `said` is called with what a person reads."""
    listening = listen(port)
    page = Page(folder, listening.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(page.app, **SETTINGS))
    said(f"The page for {page.folder.root} is open on this machine alone, at\n\n    {page.keys.address}\n")
    said("Keep the address to yourself: whoever has it can use the page. Ctrl-C ends the page; a run can be resumed.")
    if browser:
        threading.Thread(target=webbrowser.open, args=(page.keys.address,), daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        said("The page is closed.")
    finally:
        page.runs.stop()


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 lets the system choose."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or "it must be between 0 and 65535"
        raise InputError(f"Cannot listen on port {port}: {reason}. Give another --port.") from None
    listening.listen(64)
    return listening
