"""The steps before a run: Table, Schema, Budget. No row of a table is read for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from lookalike.errors import LookalikeError
from lookalike.forecast import forecast
from lookalike.inputs import structure_of
from lookalike.pipeline import PreparedRun, reason_of
from lookalike.report.public import guarantee_in_words
from lookalike.schema.constraints import rule_text
from lookalike.schema.documents import Reader
from lookalike.schema.explained import explained
from lookalike.synthesizers import METHODS
from lookalike.synthesizers.split import Kind
from lookalike.web import drafts, pages
from lookalike.web.columns import KINDS, RANGED, Row, origins, row_from
from lookalike.web.drafts import Budget, Draft, Sheet
from lookalike.web.orders import ENDS, Order
from lookalike.web.pages import Call
from lookalike.web.runs import spent_of
from lookalike.web.worker import FOUND

MAX_PAIRS = 3
_WORST = 8
"""Columns of which the expected error is shown at once; the others are shown by a click."""


# Table.


def tables(call: Call, *, problem: str = "", status: int = 200) -> Response:
    """The list of tables, each with what was spent on it."""
    listed = []
    for place in call.page.folder.tables():
        try:
            listed.append({"place": place, **spent_of(place), "problem": ""})
        except LookalikeError as error:
            listed.append({"place": place, "problem": str(error)})
    typed = {name: call.form.get(name) for name in ("url", "table")}
    said = {"problem": problem, "typed": typed, "root": str(call.page.folder.root)}
    return call.shows("tables.html", "table", status=status, tables=listed, **said)


def add_database(call: Call) -> Response:
    """Take the address of a table of a database. It is connected to, but no row is read."""
    try:
        place = call.page.folder.add_database(call.form.get("url").strip(), call.form.get("table").strip())
    except LookalikeError as error:
        return tables(call, problem=str(error), status=422)
    return call.goes_to("tables", place.key)


def table(call: Call) -> Response:
    """One table: its columns by name and storage type."""
    return _table(call, drafts.load(call.place))


def _table(call: Call, draft: Draft) -> Response:
    columns, problem = {}, ""
    try:
        columns = structure_of(draft.reading.table(call.place.where))
    except LookalikeError as error:
        problem = str(error)
    return call.shows("table.html", "table", draft=draft, columns=columns, problem=problem)


def read_otherwise(call: Call) -> Response:
    """Take how the file is read."""
    draft = drafts.load(call.place)
    encoding, delimiter = call.form.get("encoding").strip() or "utf-8", call.form.get("delimiter").strip()
    changed = replace(draft, reading=replace(draft.reading, encoding=encoding, delimiter=delimiter))
    try:
        structure_of(changed.reading.table(call.place.where))
    except LookalikeError as error:
        return call.shows("table.html", "table", status=422, draft=changed, columns={}, problem=str(error))
    with call.page.lock:
        drafts.save(call.place, changed)
    return call.goes_to("tables", call.place.key)


# Schema.


def schema(call: Call) -> Response:
    """The form of the schema."""
    return _schema(call, drafts.load(call.place))


def _schema(call: Call, draft: Draft, *, notice: str = "", problem: str = "", status: int = 200) -> Response:
    sheet = drafts.sheet_of(call.place, draft)
    listed = [
        {
            "name": name,
            "storage": sheet.types[name],
            "row": row,
            "kinds": (*KINDS, "time") if row.kind == "time" else KINDS,
            "problem": sheet.problems.get(name, ""),
            "origins": () if row.kind == "drop" else origins(sheet.columns[name], sheet.drafted[name]),
        }
        for name, row in sheet.rows.items()
    ]
    facts = {"columns": listed, "price": price_of(call, draft, sheet), "ranged": RANGED}
    rules = [rule_text(rule) for rule in sheet.schema.constraints] if sheet.schema is not None else []
    files = list(call.page.folder.schemas())
    said = {"notice": notice, "problem": problem, "rules": rules, "files": files}
    return call.shows("schema.html", "schema", status=status, draft=draft, sheet=sheet, **facts, **said)


def price_of(call: Call, draft: Draft, sheet: Sheet) -> dict[str, Any] | None:
    """What measuring the open facts costs at most, as shares of the budget; None where nothing can be planned yet."""
    try:
        run = drafts.order_of(call.place, draft, sheet).prepared(call.place.where)
    except LookalikeError:
        return None
    whole = float(run.budget.rho)
    share = sum(step.rho for step in run.plan if step.kind == Kind.DISCOVERY) / whole
    columns = len(run.schema.open_facts)
    return {"share": share, "columns": columns, "each": share / max(columns, 1), "epsilon": run.budget.epsilon}


def change_schema(call: Call) -> Response:
    """Take the form of the schema, mistakes included: each is shown where it was made."""
    form, place = call.form, call.place
    with call.page.lock:
        draft = drafts.load(place)
        base = drafts.sheet_of(place, replace(draft, rows={})).base
        rows = {}
        for i, name in enumerate(form.all("column")):
            row = row_from({key: form.get(f"{key}-{i}") for key in Row().to_json()})
            if name in base and row != Row.of(base[name]):
                rows[name] = row
        changed = replace(draft, rows=rows, rules=form.get("rules"), find_rules=form.get("find_rules"))
        if form.get("version") != str(draft.version):
            return _schema(call, changed, notice=pages.text("schema.conflict"), status=409)
        draft = drafts.save(place, changed)
    if form.get("action") == "next" and drafts.sheet_of(place, draft).schema is not None:
        return call.goes_to("tables", place.key, "budget")
    return call.goes_to("tables", place.key, "schema")


def import_schema(call: Call) -> Response:
    """Take a schema from a file of the folder or from a text, or start again from the names of the columns."""
    place, form = call.place, call.form
    draft = drafts.load(place)
    try:
        if form.get("action") == "reset":
            changed = replace(draft, base=None, rows={}, rules=None)
        elif form.get("action") == "found":
            changed = drafts.imported(draft, Reader().text(place.state / FOUND), FOUND)
        elif form.get("action") == "text":
            changed = drafts.imported(draft, form.get("text"), pages.text("schema.pasted"))
        else:
            path = call.page.folder.schemas().get(form.get("file"))
            if path is None:
                return _schema(call, draft, problem=pages.text("schema.no_file"), status=422)
            changed = drafts.imported(draft, Reader().text(path), form.get("file"))
        drafts.sheet_of(place, changed)
    except LookalikeError as error:
        return _schema(call, draft, problem=str(error), status=422)
    with call.page.lock:
        drafts.save(place, changed)
    return call.goes_to("tables", place.key, "schema")


def export_schema(call: Call) -> Response:
    """The schema as a commented YAML file."""
    sheet = drafts.sheet_of(call.place, drafts.load(call.place))
    if sheet.schema is None:
        return call.goes_to("tables", call.place.key, "schema")
    name = {"Content-Disposition": 'attachment; filename="schema.yaml"'}
    return Response(explained(sheet.schema), media_type="application/yaml", headers=name)


# Budget.


def budget(call: Call) -> Response:
    """The form of the budget, with what it means."""
    return _budget(call, drafts.load(call.place))


def _budget(call: Call, draft: Draft, *, notice: str = "", status: int = 200) -> Response:
    place, order, problem = call.place, None, ""
    sheet = drafts.sheet_of(place, draft)
    found: dict[str, Any] = {"run": None, "ahead": None, "guarantee": None, "discovery": 0.0}
    try:
        order = drafts.order_of(place, draft, sheet)
        run = order.prepared(place.where)
        found = foreseen(run, order, draft)
    except LookalikeError as error:
        problem = str(error)
    methods = {name: method.info for name, method in METHODS.items() if not method.info.is_paper_variant}
    names = [name for name, row in sheet.rows.items() if row.kind not in ("drop", "id", "person")]
    pairs = [*(pair.split("\x1f") for pair in draft.budget.pairs), *[["", ""]] * MAX_PAIRS][:MAX_PAIRS]
    return call.shows(
        "budget.html",
        "budget",
        status=status,
        draft=draft,
        sheet=sheet,
        order=order,
        problem=problem,
        notice=notice,
        methods=methods,
        names=names,
        pairs=pairs,
        ends=ENDS,
        usual_end=drafts.usual_end(place),
        ledger=spent_of(place),
        worst=_WORST,
        **found,
    )


def foreseen(run: PreparedRun, order: Order, draft: Draft) -> dict[str, Any]:
    """What a run would do: its guarantee in words, expected errors, time and memory. From public facts alone."""
    pairs = tuple(tuple(pair.split("\x1f")) for pair in draft.budget.pairs)
    rows = drafts.whole("The number of rows of the table", draft.budget.about_rows)
    ahead = forecast(run.schema, run.plan, method=run.method.name, neighbours=run.neighbours, rows=rows, pairs=pairs)
    whole = float(run.budget.rho)
    return {
        "run": run,
        "ahead": replace(ahead, columns=sorted(ahead.columns, key=lambda error: -error.rows)),
        "guarantee": guarantee_in_words(order.epsilon, order.delta),
        "discovery": sum(step.rho for step in run.plan if step.kind == Kind.DISCOVERY) / whole,
        "shares": [(step, step.rho / whole) for step in run.plan],
        "reason": reason_of(run.schema, run.method.name),
        "long": ahead.is_long,
    }


def change_budget(call: Call) -> Response:
    """Take the form of the budget."""
    form, place = call.form, call.place
    with call.page.lock:
        draft = drafts.load(place)
        texts = {name: form.get(name).strip() for name in Budget.__slots__ if name != "pairs"}
        chosen = zip(form.all("first"), form.all("second"), strict=False)
        pairs = tuple("\x1f".join(pair) for pair in chosen if all(pair) and pair[0] != pair[1])[:MAX_PAIRS]
        changed = replace(draft, budget=Budget(**texts, pairs=pairs))
        if form.get("version") != str(draft.version):
            return _budget(call, changed, notice=pages.text("budget.conflict"), status=409)
        drafts.save(place, changed)
    return call.goes_to("tables", place.key, "run" if form.get("action") == "next" else "budget")
