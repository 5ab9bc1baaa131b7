"""The steps of a run and after it: Run, Result, Ledger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from lookalike.errors import InputError, LookalikeError
from lookalike.privacy.composition import Cap
from lookalike.release import check_rows, write_page
from lookalike.report.page import script_digest
from lookalike.web import drafts, pages
from lookalike.web.orders import ENDS
from lookalike.web.pages import Call
from lookalike.web.runs import Live, Runs, folder_of, record_of, spent_of, state_of, states
from lookalike.web.steps import foreseen
from lookalike.web.worker import FOUND, MODEL, REPORT

_QUESTIONS, _MORE = "questions.json", "more.json"
_MAX_KEPT = 20
"""Answers of a run that the page keeps."""
_FRAMED = {"X-Frame-Options": "SAMEORIGIN"}
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")


# Run.


def run(call: Call) -> Response:
    """What a run would spend, the button that starts it, and the runs so far."""
    return _run(call)


def _run(call: Call, *, problem: str = "", status: int = 200) -> Response:
    place, found, mistake = call.place, None, ""
    draft = drafts.load(place)
    try:
        order = drafts.order_of(place, draft, drafts.sheet_of(place, draft))
        found = foreseen(order.prepared(place.where), order, draft)
    except LookalikeError as error:
        mistake = str(error)
    listed = states(place, call.page.runs)
    book = spent_of(place)
    short = found is not None and book["left"] is not None and found["run"].budget.epsilon > book["left"] * (1 + 1e-9)
    said = {"problem": problem, "mistake": mistake, "short": short}
    return call.shows("run.html", "run", status=status, draft=draft, ahead=found, runs=listed, ledger=book, **said)


def start(call: Call) -> Response:
    """Start a run from the draft as it was shown: each form starts one run at most."""
    place = call.place
    with call.page.lock:
        draft = drafts.load(place)
        if call.form.get("version") != str(draft.version):
            return _run(call, problem=pages.text("run.conflict"), status=409)
        order = drafts.order_of(place, draft, drafts.sheet_of(place, draft))
        drafts.save(place, draft)
    return _followed(call, call.page.runs.release(place, order))


def resume(call: Call) -> Response:
    """Continue an interrupted run."""
    return _followed(call, call.page.runs.resume(call.place, call.number))


def _followed(call: Call, live: Live) -> Response:
    if live.run is None:
        return _run(call, problem=failure(live), status=409)
    return call.goes_to("tables", call.place.key, "runs", live.run)


def failure(live: Live) -> str:
    """Return why a process ended, as a sentence."""
    return live.failed or pages.texts()["failure"].get(live.reason, "")


def one_run(call: Call) -> Response:
    """One run: how far it is, or how it ended."""
    state = state_of(call.place, call.number, call.page.runs)
    if state.state == "done":
        return call.goes_to("tables", call.place.key, "runs", call.number, "result")
    live = call.page.runs.live(call.place, call.number)
    ended = live is not None and not live.going_on and live.reason != "cancelled"
    why = failure(live) if live is not None and ended else ""
    found = (call.place.state / FOUND).is_file() and state.state == "stopped"
    return call.shows(
        "going.html", "run", state=state, live=live, why=why, found=found, refreshes=state.state == "running"
    )


def events(call: Call) -> Response:
    """The progress of a run as it happens, for the script of the page."""
    kind = "compare" if call.request.query_params.get("of") == "comparison" else "run"
    live = call.page.runs.live(call.place, call.number, kind)
    if live is None:
        raise HTTPException(404)
    return StreamingResponse(_told(live), media_type="text/event-stream")


async def _told(live: Live) -> AsyncIterator[bytes]:
    while live.going_on:
        yield pages.as_event(message=live.message, fraction=live.fraction, clock=pages.clock(live.seconds))
        await asyncio.sleep(0.5)
    yield pages.as_event(ended=True)


def cancel(call: Call) -> Response:
    """End a run. What was charged stays charged; what was answered is kept, so that it can be resumed."""
    live = call.page.runs.live(call.place, call.number)
    if live is not None and live.going_on:
        live.cancel()
        live.ended.wait(3.0)
    return call.goes_to("tables", call.place.key, "runs", call.number)


# Result.


def newest(call: Call) -> Response:
    """The newest result of a table."""
    done = [state.number for state in states(call.place, call.page.runs) if state.state == "done"]
    if not done:
        return call.shows("nothing.html", "result")
    return call.goes_to("tables", call.place.key, "runs", done[0], "result")


def result(call: Call) -> Response:
    """The result of a run."""
    return _result(call)


def _result(call: Call, *, question: str = "", level: str = "0.9", problem: str = "", status: int = 200) -> Response:
    record, folder = record_of(call.place, call.number), folder_of(call.place, call.number)
    others = [s.number for s in states(call.place, call.page.runs) if s.state == "done"]
    return call.shows(
        "result.html",
        "result",
        status=status,
        number=call.number,
        record=record,
        folder=str(folder),
        others=others,
        answers=_listed(folder / _QUESTIONS),
        more=_listed(folder / _MORE),
        question=question,
        level=level,
        levels=_LEVELS,
        ends=ENDS,
        problem=problem,
        about_rows=status != 200 and "rows" in call.request.url.path.rsplit("/", 1)[-1],
    )


def _listed(path: Path) -> list[dict[str, Any]]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


def _model_path(call: Call) -> Path:
    record_of(call.place, call.number)  # refuses a run without results
    return folder_of(call.place, call.number) / MODEL


def report(call: Call) -> Response:
    """The public report, as it is on disk."""
    record_of(call.place, call.number)
    text = (folder_of(call.place, call.number) / REPORT).read_text(encoding="utf-8")
    policy = f"{_REPORT_POLICY}; script-src 'sha256-{script_digest()}'"
    return HTMLResponse(text, headers={**_FRAMED, "Content-Security-Policy": policy})


def download(call: Call) -> Response:
    """One file of a result: one of those that its record lists."""
    folder, record = folder_of(call.place, call.number), record_of(call.place, call.number)
    known = [*record["files"].values(), *(entry["file"] for entry in _listed(folder / _MORE))]
    name = call.request.path_params["name"]
    if name not in known or Path(name).name != name or not (folder / name).is_file():
        raise HTTPException(404)
    return FileResponse(folder / name, filename=name, media_type="application/octet-stream")


def ask(call: Call) -> Response:
    """Answer a question from the model of a run, with error bars; the last answers are kept. It costs nothing."""
    question, level = call.form.get("question").strip(), call.form.get("level", "0.9")
    folder = folder_of(call.place, call.number)
    try:
        share = drafts.number("The level", level)
        found = call.page.model(_model_path(call)).query(question, level=share)
    except LookalikeError as error:
        return _result(call, question=question, level=level, problem=str(error), status=422)
    entry = {"question": question, "headings": found.headings(share), "rows": found.texts(), "notes": found.notes()}
    with call.page.lock:
        kept = [entry, *(old for old in _listed(folder / _QUESTIONS) if old["question"] != question)][:_MAX_KEPT]
        write_page(folder / _QUESTIONS, json.dumps(kept, ensure_ascii=False))
    return call.goes_to_part("questions", "tables", call.place.key, "runs", call.number, "result")


def more_rows(call: Call) -> Response:
    """Draw more rows from the model of a run. It costs nothing."""
    form, folder = call.form, folder_of(call.place, call.number)
    try:
        rows = drafts.whole("The number of rows", form.get("rows"))
        check_rows(rows)
        end = form.get("end")
        if end not in ENDS:
            raise InputError("The form names a format that does not exist. Reload the page.")
        with call.page.lock:
            kept = _listed(folder / _MORE)
            name = f"more-rows-{len(kept) + 1}{end}"
            where = form.get("where").strip() or None
            written = call.page.model(_model_path(call)).write(folder / name, rows, where=where)
            kept.append({"file": name, "rows": written, "where": where or ""})
            write_page(folder / _MORE, json.dumps(kept, ensure_ascii=False))
    except LookalikeError as error:
        return _result(call, problem=str(error), status=422)
    return call.goes_to_part("rows", "tables", call.place.key, "runs", call.number, "result")


# The comparison with the real rows: NOT PRIVATE, kept in memory alone.


def comparison(call: Call) -> Response:
    """The warning, and then the comparison."""
    record_of(call.place, call.number)
    live = call.page.runs.live(call.place, call.number, "compare")
    going_on = live is not None and live.going_on
    why = failure(live) if live is not None and live.failed is not None else ""
    shown = live is not None and live.page is not None
    said = {"number": call.number, "live": live, "why": why, "shown": shown, "refreshes": going_on}
    return call.shows("comparison.html", "result", **said)


def compare(call: Call) -> Response:
    """Start the comparison, if the warning was understood."""
    if call.form.get("understood") == "on":
        call.page.runs.compare(call.place, call.number, record_of(call.place, call.number))
    return call.goes_to("tables", call.place.key, "runs", call.number, "comparison")


def comparison_page(call: Call) -> Response:
    """The comparison itself, as a page in a frame or a file."""
    live = call.page.runs.live(call.place, call.number, "compare")
    if live is None or live.page is None:
        raise HTTPException(404)
    headers = {**_FRAMED, "Content-Security-Policy": _REPORT_POLICY}
    if call.request.query_params.get("as") == "file":
        headers["Content-Disposition"] = f'attachment; filename="comparison-{call.number}.NOT-PRIVATE.html"'
    return HTMLResponse(live.page, headers=headers)


# Ledger.


def ledger(call: Call) -> Response:
    """All tables of the folder, all their runs, and their caps."""
    return _ledger(call)


def _ledger(call: Call, *, problem: str = "", status: int = 200) -> Response:
    books = [_book(call.page.runs, place) for place in call.page.folder.tables()]
    return call.shows("ledger.html", "ledger", status=status, books=books, problem=problem)


def _book(runs: Runs, place: Any) -> dict[str, Any]:
    try:
        facts = {**spent_of(place), "runs": states(place, runs), "file": str(place.ledger.path)}
        return {"table": place, "problem": "", **facts}
    except LookalikeError as error:
        return {"table": place, "problem": str(error)}


def set_cap(call: Call) -> Response:
    """Set the maximum that all runs on a table may ever spend."""
    try:
        book, epsilon = call.place.ledger, drafts.number("The cap", call.form.get("cap"))
        kept = book.limit or Cap(epsilon)
        book.set_cap(epsilon, kept.composition, kept.delta)
    except LookalikeError as error:
        return _ledger(call, problem=str(error), status=422)
    return call.goes_to("ledger")
