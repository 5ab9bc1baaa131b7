"""What every request must pass before a page sees it, and what every answer carries.

* The `Host` is this server by its numbers or as localhost: a foreign name that was made to lead here is refused.
* A request that changes something comes from a page of this server, by its `Origin`; so does every request of a browser
  that says where it comes from (`Sec-Fetch-Site`).
* The first address holds a random token. It is exchanged for a cookie of another secret, which scripts cannot read and
  other sites cannot send; without it nothing is answered.
* Forms are plain text fields of limited size. There are no uploads.
* Answers forbid inline script and style, framing by other sites, caching, and sending the address to other sites.
* A failure ends in a page that says nothing of its cause; the log gets only the place in the code.
"""

from __future__ import annotations

import secrets
import sys
import traceback
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_FORM = 8 * 2**20
MAX_FIELDS = 200_000
_FORM_TYPE = "application/x-www-form-urlencoded"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send no Origin either
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
Refused = Callable[[int, str], str]


class Keys:
    """The secrets of one server: the token of its first address, and the cookie that it is exchanged for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(24)
        self.secret = secrets.token_urlsafe(24)
        self.cookie = f"lookalike-{port}"  # cookies do not tell ports apart

    @property
    def hosts(self) -> tuple[str, ...]:
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def address(self) -> str:
        """The first address, which holds the token."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def knows(self, request: Request) -> bool:
        """Whether a request carries the cookie."""
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self.secret.encode())

    def lets_in(self, request: Request) -> bool:
        """Whether a request is the first address with the right token."""
        given = request.query_params.get("token", "")
        asks = request.method == "GET" and request.url.path == "/"
        return asks and secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guard:
    """The outermost layer of the page."""

    def __init__(self, app: ASGIApp, *, keys: Keys, refused: Refused, entered: Callable[[], str]) -> None:
        self.app, self.keys, self.refused, self.entered = app, keys, refused, entered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_headers(message.get("headers", []))}
            await send(message)

        answer = self._first(Request(scope, receive))
        try:
            await (answer or self.app)(scope, receive, guarded)
        except Exception as error:  # noqa: BLE001
            log_place(error)
            if not begun:
                await HTMLResponse(self.refused(500, ""), 500)(scope, receive, guarded)

    def _first(self, request: Request) -> Response | None:
        """The answer of the guard itself; None where the page may answer."""
        problem = self._problem(request)
        if problem is not None:
            return HTMLResponse(self.refused(*problem), problem[0])
        if self.keys.lets_in(request):
            answer = HTMLResponse(self.entered())
            answer.set_cookie(self.keys.cookie, self.keys.secret, httponly=True, samesite="strict", path="/")
            return answer
        return None if self.keys.knows(request) else HTMLResponse(self.refused(403, "token"), 403)

    def _problem(self, request: Request) -> tuple[int, str] | None:
        headers = request.headers
        if headers.getlist("host") not in [[host] for host in self.keys.hosts]:
            return 421, "host"
        if request.method not in ("GET", "HEAD", "POST"):
            return 405, "method"
        entering = self.keys.lets_in(request)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not entering:
            return 403, "origin"
        if request.method == "POST":
            if headers.get("origin", "") != f"http://{headers['host']}":
                return 403, "origin"
            if headers.get("content-type", "").split(";")[0].strip().lower() != _FORM_TYPE:
                return 415, "form"
        return None


def _with_headers(given: Any) -> list[tuple[bytes, bytes]]:
    """The headers of an answer with those that all answers have; an answer may set a policy of its own."""
    own = {bytes(name).lower() for name, _ in given}
    more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    return [*given, *((name, value) for name, value in more if name not in own)]


def log_place(error: BaseException) -> None:
    """Log the kind of an error and its place in the code: a message could hold more."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{last[0].filename}:{last[0].lineno}" if last else "unknown"
    sys.stderr.write(f"lookalike serve: {type(error).__name__} at {where}\n")


class Form:
    """The fields of a form, each with all its values in order."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """The last value of a field; line ends as the platform's own."""
        found = [value for key, value in self.pairs if key == name]
        return found[-1].replace("\r\n", "\n") if found else default

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]


async def read_form(request: Request) -> Form:
    """The fields of a form that was posted; a form that is too large is refused."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM:
            raise HTTPException(413)
    try:
        return Form(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError:
        raise HTTPException(400) from None


View = Callable[..., Awaitable[Response] | Response]
