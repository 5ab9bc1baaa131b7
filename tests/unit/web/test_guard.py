"""Who is answered: requests without the token, from other hosts and sites, with tricks in the path, are refused."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from lookalike.errors import MissingExtraError
from lookalike.web import worker
from lookalike.web.guard import HEADERS, MAX_FORM

from .conftest import SECRET
from .serving import Served

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def pages(served: Served) -> list[str]:
    table = served.table("people.csv")
    return ["/", "/ledger", "/static/page.js", table, *(f"{table}/{step}" for step in ("schema", "budget", "run"))]


def test_nothing_is_answered_without_the_cookie(served: Served) -> None:
    for path in [*pages(served), "/nothing"]:
        for headers in ({}, {"Cookie": f"{served.page.keys.cookie}=guess"}, {"Cookie": "x=1; =; ;;"}):
            answer = served.ask("GET", path, headers)
            assert answer.status == 403
            assert "people" not in answer.text
    for token in ("", "guess", "%00", served.page.keys.secret):
        answer = served.ask("GET", f"/?token={token}")
        assert (answer.status, answer.headers["Set-Cookie"]) == (403, None)


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(served: Served) -> None:
    answer = served.ask("GET", f"/?token={served.page.keys.token}")
    assert answer.status == 200
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert served.page.keys.token not in cookie
    assert served.page.keys.token not in answer.text
    assert served.ask("GET", "/", {"Cookie": cookie.split(";")[0]}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", "", "[::1]"])
def test_a_foreign_host_is_refused_even_with_the_cookie(served: Served, host: str) -> None:
    assert served.ask("GET", "/", {"Host": host, "Cookie": served.cookie}).status in (400, 421)


def test_a_host_header_twice_or_a_missing_one_is_refused(served: Served) -> None:
    assert served.ask("GET", "/", {"host": "evil.example", "Cookie": served.cookie}).status in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_posts_from_other_sites_change_nothing(served: Served, origin: str) -> None:
    path = f"{served.table('people.csv')}/budget"
    before = served.version(path)
    answer = served.post(path, {"version": before, "epsilon": "9"}, Origin=origin)
    assert answer.status == 403
    assert served.version(path) == before


def test_a_post_without_an_origin_is_refused(served: Served) -> None:
    cookie = {"Cookie": served.cookie}
    assert served.ask("POST", f"{served.table('people.csv')}/run", {**cookie, **FORM}, b"version=0").status == 403


def test_a_browser_that_says_cross_site_is_refused(served: Served) -> None:
    for place in ("cross-site", "same-site"):
        assert served.get("/", **{"Sec-Fetch-Site": place}).status == 403
        first = f"/?token={served.page.keys.token}"
        assert served.ask("GET", first, {"Sec-Fetch-Site": place}).status == 200
    assert served.get("/", **{"Sec-Fetch-Site": "same-origin"}).status == 200


def test_other_methods_and_uploads_are_refused(served: Served) -> None:
    path, usual = f"{served.table('people.csv')}/budget", {"Cookie": served.cookie, "Origin": served.origin}
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert served.ask(method, path, usual).status == 405
    kinds = ("multipart/form-data; boundary=x", "text/plain", "application/json", "")
    for kind in kinds:
        assert served.ask("POST", path, {**usual, "Content-Type": kind}, b"--x").status == 415
    assert served.ask("POST", path, {**usual, **FORM}, b"a=" + b"x" * MAX_FORM).status == 413
    assert served.ask("POST", path, {**usual, **FORM}, b"\xff\xfe").status == 400


TRICKS = (
    "/tables/../outside/hidden.csv", "/tables/..%2f..%2foutside%2fhidden.csv", "/tables/%2e%2e", "/tables/people.csv",
    "/tables//etc/passwd", "/tables/%2fetc%2fpasswd", "/tables/people%00", "/tables/%ff", "/static/../texts.yaml",
    "/static/%2e%2e/texts.yaml",
)  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
def test_tricks_in_paths_find_nothing(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 404
    assert "root:" not in answer.text


def test_downloads_and_schema_files_are_those_that_are_listed(served: Served) -> None:
    table = served.table("people.csv")
    for name in ("..%2f..%2fdraft.json", "%2fetc%2fpasswd", "run.json", "%00"):
        assert served.get(f"{table}/runs/1/files/{name}").status in (400, 404)
    for name in ("../outside/hidden.csv", "/etc/passwd", "people.csv", "\0", ""):
        answer = served.post(f"{table}/schema/import", {"action": "file", "file": name})
        assert answer.status == 422
        assert "root:" not in answer.text


def test_tables_are_those_of_the_folder_and_links_do_not_lead_out(served: Served) -> None:
    assert [place.label for place in served.page.folder.tables()] == ["alias.csv", "people.csv", "inner/more.csv"]


def test_answers_forbid_script_framing_and_caching(served: Served) -> None:
    for path in [*pages(served), "/nothing"]:
        answer = served.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert not set(answer.headers) & {"server", "access-control-allow-origin"}


def test_a_failure_says_nothing_of_its_cause(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(f"the row {SECRET}")

    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr("lookalike.web.steps.structure_of", fails)
    answer = served.get(served.table("people.csv"))
    assert answer.status == 500
    assert "RuntimeError at" in log.getvalue()
    for text in (answer.text, log.getvalue()):
        assert SECRET not in text
        assert "Traceback" not in text


@pytest.mark.parametrize("error", [RuntimeError(SECRET), ValueError(SECRET), MemoryError(SECRET), KeyError(SECRET)])
def test_a_run_that_fails_by_a_bug_says_nothing_of_its_cause(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a run talks to the page by JSON lines, which the page shows."""
    said: list[dict[str, object]] = []

    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr(worker, "_keep_channel", lambda: None)
    monkeypatch.setattr(worker, "_end_with_the_page", lambda: None)
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker, "say", lambda **message: said.append(message))
    monkeypatch.setattr(worker, "_release", fails)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"kind": "release"}\n'))
    assert worker.main() == 0
    assert said == [{"failed": "", "reason": "memory" if isinstance(error, MemoryError) else "bug"}]


def test_the_command_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lookalike.cli.main import serve

    monkeypatch.delitem(sys.modules, "lookalike.web.app", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lookalike\[web\]'"):
        serve(tmp_path)
