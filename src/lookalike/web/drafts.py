"""The draft of a run: what was typed into the steps Table, Schema and Budget, kept on disk beside the ledger.

A draft holds texts that the user typed and the public facts of an imported schema, never a value of the table. It is
written at every change, so that a reload, a second tab or a new start of the page finds it. Each change raises its
version: a form that was made from an older one is noticed instead of undoing what another tab did.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lookalike.errors import BudgetError, SchemaError
from lookalike.inputs import as_schema, structure_of
from lookalike.release import write_page
from lookalike.schema.columns import Column
from lookalike.schema.constraints import Constraint, constraint_of
from lookalike.schema.documents import Reader
from lookalike.schema.enforce import aligned
from lookalike.schema.schema import Schema, dumped
from lookalike.web.columns import Row, column_of, row_from
from lookalike.web.orders import ENDS, Order, Reading
from lookalike.web.tables import Place, make_folder

_FILE = "draft.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Budget:
    """What the form of the budget says: texts as they are typed."""

    epsilon: str = "1"
    delta: str = "1e-5"
    protect: str = "row"
    max_rows: str = "1"
    relation: str = "add-remove"
    method: str = "auto"
    about_rows: str = ""
    pairs: tuple[str, ...] = ()
    rows: str = ""
    strict: str = ""
    end: str = ""
    title: str = ""
    issuer: str = ""
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was typed about one table so far.

    Attributes:
        version: raised by every change.
        reading: how the file is read.
        base: the imported schema as a document; None where the names and types of the columns are the base.
        rows: what the form says about each column, where it was changed.
        rules: the rules as YAML; None for those of the base.
        find_rules: "", "yes" or "no": whether a run looks for rules itself; "" leaves it to the schema.
        budget: what the form of the budget says.
    """

    version: int = 0
    reading: Reading = field(default_factory=Reading)
    base: dict[str, Any] | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    rules: str | None = None
    find_rules: str = ""
    budget: Budget = field(default_factory=Budget)


def load(place: Place) -> Draft:
    """The draft of a table; an empty one where there is none that can be read."""
    try:
        stored = json.loads((place.state / _FILE).read_text(encoding="utf-8"))
        if stored.pop("format") != FORMAT:
            return Draft()
        reading = Reading(**{**stored["reading"], "dropped": tuple(stored["reading"]["dropped"])})
        budget = Budget(**{**stored["budget"], "pairs": tuple(stored["budget"]["pairs"])})
        rows = {name: row_from(row) for name, row in stored["rows"].items()}
        return Draft(**{**stored, "reading": reading, "budget": budget, "rows": rows})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SchemaError):
        return Draft()


def save(place: Place, draft: Draft) -> Draft:
    """Write the draft with the next version, and return it."""
    draft = replace(draft, version=draft.version + 1)
    make_folder(place.state)
    write_page(place.state / _FILE, json.dumps({"format": FORMAT, **asdict(draft)}, indent=1, ensure_ascii=False))
    return draft


# The schema of a draft.


@dataclass(frozen=True, slots=True)
class Sheet:
    """The schema form of a draft.

    Attributes:
        types: the storage type of each column of the table.
        drafted: the columns as names and types alone give them.
        base: the columns before the form changed them.
        rows: what the form says about each column.
        columns: the columns by what the form says; of a row with a mistake, those before.
        problems: what is wrong with a row, by column.
        rules: the text of the rules.
        rule_problem: what is wrong with the rules.
        schema: the schema, if nothing is wrong.
        problem: what is wrong with the columns together.
    """

    types: dict[str, str]
    drafted: dict[str, Column]
    base: dict[str, Column]
    rows: dict[str, Row]
    columns: dict[str, Column]
    problems: dict[str, str]
    rules: str
    rule_problem: str
    schema: Schema | None
    problem: str

    @property
    def person(self) -> str | None:
        """The column that says whose row it is."""
        return next((name for name, row in self.rows.items() if row.kind == "person"), None)

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(name for name, row in self.rows.items() if row.kind == "drop")

    @property
    def mistakes(self) -> list[str]:
        """Messages about all mistakes in what was typed."""
        return [*self.problems.values(), *(text for text in (self.rule_problem, self.problem) if text)]


def sheet_of(place: Place, draft: Draft) -> Sheet:
    """The schema form of a draft, with what is wrong in it. Only names and types of columns are read."""
    table = draft.reading.table(place.where)
    types, drafted = structure_of(table), _by_name(as_schema(None, table))
    base, counts, kept = dict(drafted), (), ()
    if draft.base is not None:
        imported = Schema.from_dict(draft.base)
        base = {name: imported[name] if name in imported.names else column for name, column in drafted.items()}
        counts, kept = imported.counts, imported.constraints
    rows = {name: draft.rows.get(name) or Row.of(column) for name, column in base.items()}
    columns, problems = dict(base), {}
    for name, row in rows.items():
        try:
            columns[name] = base[name] if row.kind == "drop" else column_of(row, base[name], types[name])
        except SchemaError as error:
            problems[name] = str(error)
    text = dumped([rule.to_dict() for rule in kept]) if draft.rules is None and kept else draft.rules or ""
    rules, rule_problem = _rules(text)
    used = [column for name, column in columns.items() if rows[name].kind != "drop"]
    schema, problem = (None, "") if problems or rule_problem else _schema(used, rules, counts, rows)
    return Sheet(types, drafted, base, rows, columns, problems, text, rule_problem, schema, problem)


def _by_name(schema: Schema) -> dict[str, Column]:
    return {column.name: column for column in schema.columns}


def _rules(text: str) -> tuple[tuple[Constraint, ...], str]:
    if not text.strip():
        return (), ""
    try:
        entries, _ = Reader().yaml(text, "The text", texts=True)
        if not isinstance(entries, list):
            raise SchemaError("The rules are not a list. Begin each with a hyphen, such as '- always: end >= start'.")
        return tuple(constraint_of(entry, i + 1) for i, entry in enumerate(entries)), ""
    except SchemaError as error:
        return (), str(error)


def _schema(
    columns: list[Column], rules: tuple[Constraint, ...], counts: Any, rows: dict[str, Row]
) -> tuple[Schema | None, str]:
    persons = [name for name, row in rows.items() if row.kind == "person"]
    if len(persons) > 1:
        return None, f"{len(persons)} columns say whose row it is: {', '.join(persons[:5])}. Keep one of them."
    names = {column.name for column in columns}
    try:
        known = tuple(count for count in counts if count.column in names)
        return aligned(Schema(tuple(columns), rules, known)), ""
    except SchemaError as error:
        return None, str(error)


def imported(draft: Draft, text: str, where: str) -> Draft:
    """The draft with a schema file as its base, in place of what the form says. A SchemaError names line and field."""
    content, _ = Reader().yaml(text, where, texts=True)
    return replace(draft, base=Schema.from_dict(content).to_dict(), rows={}, rules=None)


# The order of a draft.


def order_of(place: Place, draft: Draft, sheet: Sheet) -> Order:
    """The run that a draft asks for; an error of the library says what is wrong with it."""
    if sheet.schema is None:
        raise SchemaError(f"The schema is not complete: {' '.join(sheet.mistakes)}")
    budget = draft.budget
    if budget.protect == "row" and sheet.person is not None:
        raise BudgetError(
            f"Column {sheet.person!r} says whose row it is, so persons are protected, not single rows. Choose persons, "
            "or give the column another kind."
        )
    about = {"title": budget.title or place.stem, "issuer": budget.issuer, "contact": budget.contact}
    return Order(
        schema=sheet.schema.to_dict(),
        reading=replace(draft.reading, dropped=sheet.dropped),
        epsilon=number("epsilon", budget.epsilon),
        delta=number("delta", budget.delta),
        method=budget.method,
        relation=budget.relation,
        max_rows=whole("The number of rows per person", budget.max_rows) or 1 if budget.protect == "person" else 1,
        person=sheet.person,
        rules={"yes": True, "no": False}.get(draft.find_rules),
        strict=budget.strict == "on",
        rows=whole("The number of rows to make", budget.rows),
        end=budget.end if budget.end in ENDS else usual_end(place),
        about=about,
    )


def usual_end(place: Place) -> str:
    """The format of the private table, if the page can write it; CSV otherwise."""
    return next((end for end in ENDS if place.label.lower().endswith(end)), ".csv")


def number(what: str, text: str) -> float:
    """The number in a field of a form."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BudgetError(f"{what} is {text!r}, which is not a number. Write it like 0.5 or 1e-5.")
    return value


def whole(what: str, text: str) -> int | None:
    """The whole number in a field of a form; None where it is empty."""
    if not text.strip():
        return None
    digits = text.strip().replace(",", "").replace(" ", "")
    if not digits.isdecimal() or len(digits) > 18 or int(digits) < 1:
        raise BudgetError(f"{what} is {text!r}; it must be a whole number of at least 1.")
    return int(digits)
