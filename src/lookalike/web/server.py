"""`lookalike serve`: one process that answers on this machine alone."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, MissingExtraError

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


def serve(folder: Path, *, said: Callable[[str], None], port: int = 0, browser: bool = True) -> None:
    """Show the page for the tables of a folder until it is interrupted; `said` is called with what a person reads."""
    try:
        import uvicorn

        from lookalike.web.app import Page
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "starlette", "web", "The page") from None
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
