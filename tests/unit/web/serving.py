"""A real server of the page on this machine, and plain requests to it."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import uvicorn

from lookalike.web.app import SETTINGS, Page, listen
from lookalike.web.runs import state_of


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Served:
    """A page that is being served, and the headers of a browser that was let in."""

    page: Page
    cookie: str = field(init=False)

    def __post_init__(self) -> None:
        self.cookie = f"{self.page.keys.cookie}={self.page.keys.secret}"

    @property
    def host(self) -> str:
        return self.page.keys.hosts[0]

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Answer:
        """One request with these headers alone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page.keys.port, timeout=180)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": self.host, **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, {"Cookie": self.cookie, **headers})

    def post(self, path: str, form: dict[str, object] | list[tuple[str, object]] = (), **headers: str) -> Answer:  # type: ignore[assignment]
        kind = "application/x-www-form-urlencoded"
        usual = {"Cookie": self.cookie, "Origin": self.origin, "Content-Type": kind}
        return self.ask("POST", path, {**usual, **headers}, urlencode(form or {}).encode())

    def table(self, label: str) -> str:
        """The address of a table."""
        (key,) = [place.key for place in self.page.folder.tables() if place.label == label]
        return f"/tables/{key}"

    def version(self, path: str) -> str:
        """The version that a form of a page holds."""
        found = re.search(r'name="version" value="(\d+)"', self.get(path).text)
        assert found is not None
        return found[1]

    def until(self, path: str, *states: str, seconds: float = 120.0) -> str:
        """Wait until a run is in one of these states, as its page tells, and return the state."""
        key, number = path.split("/")[2], int(path.split("/")[4])
        end = time.monotonic() + seconds
        while True:
            state = state_of(self.page.folder.table(key), number, self.page.runs).state
            if state in states or time.monotonic() > end:
                return state
            time.sleep(0.1)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve a folder as `lookalike serve` does, in a thread."""
    listening = listen(0)
    page = Page(folder, listening.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(page.app, **SETTINGS))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(page)
    finally:
        page.runs.stop()
        server.should_exit = True
        thread.join(10)
        listening.close()
