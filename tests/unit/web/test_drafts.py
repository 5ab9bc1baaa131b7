"""Drafts outlive the process, hold what was typed, and become the order of a run; scripts repeat it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from lookalike.errors import LookalikeError
from lookalike.pipeline import Making
from lookalike.web import drafts
from lookalike.web.columns import Row
from lookalike.web.drafts import Budget, Draft
from lookalike.web.orders import Order, Reading, script_of
from lookalike.web.tables import Folder, Place

ROWS = {
    "who": Row("person", missing="never"),
    "age": Row("integer", "0", "120", missing="never"),
    "sex": Row("category", listed="F, M", missing="never"),
    "notes": Row("drop"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "people.csv").write_text("who,age,sex,notes\n1,30,F,x\n")
    (only,) = Folder(folder).tables()
    return only


def order(place: Place, draft: Draft) -> Order:
    return drafts.order_of(place, draft, drafts.sheet_of(place, draft))


def test_a_draft_is_read_as_it_was_written_and_each_change_has_a_version(place: Place) -> None:
    draft = Draft(rows=ROWS, rules="- always: a >= b", reading=Reading("latin-1", ";"), budget=Budget(epsilon="2"))
    saved = drafts.save(place, draft)
    assert saved.version == 1
    assert drafts.load(place) == saved == replace(draft, version=1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 9}', '{"format": 1, "rows": {"a": {"kind": "x"}}}'])
def test_a_damaged_draft_is_an_empty_one(place: Place, text: str) -> None:
    drafts.save(place, Draft())
    (place.state / "draft.json").write_text(text)
    assert drafts.load(place) == Draft()


def test_the_order_is_what_was_typed(place: Place) -> None:
    budget = Budget(epsilon="0,5", delta="1e-6", protect="person", max_rows="3", rows="1,000", method="mst")
    asked = order(place, Draft(rows=ROWS, budget=budget, find_rules="no"))
    assert (asked.epsilon, asked.delta, asked.rows, asked.rules) == (0.5, 1e-6, 1000, False)
    assert (asked.person, asked.max_rows, asked.reading.dropped) == ("who", 3, ("notes",))
    assert Order.from_json(asked.to_json()) == asked
    run = asked.prepared(place.where)
    assert run.schema.names == ("who", "age", "sex")
    assert run.neighbours.describe() == "adding or removing one person with up to 3 rows"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"protect": "row"}, "says whose row it is"),
        ({"epsilon": "much"}, "'much'"),
        ({"epsilon": "inf"}, "not a number"),
        ({"delta": ""}, "not a number"),
        ({"max_rows": "0"}, "at least 1"),
        ({"rows": "-5"}, "at least 1"),
        ({"method": "magic"}, "no method"),
    ],
)
def test_mistakes_in_the_budget_are_explained(place: Place, change: dict[str, str], told: str) -> None:
    budget = replace(Budget(protect="person"), **change)
    with pytest.raises(LookalikeError) as caught:
        order(place, Draft(rows=ROWS, budget=budget))
    assert told in str(caught.value)


def test_two_columns_of_persons_are_refused(place: Place) -> None:
    sheet = drafts.sheet_of(place, Draft(rows={**ROWS, "sex": Row("person")}))
    assert sheet.schema is None
    assert "Keep one of them" in sheet.problem


def test_an_imported_schema_is_the_base_of_the_form(place: Place) -> None:
    text = "fields:\n- {name: age, type: integer, constraints: {minimum: 1, maximum: 9}, dp: {bins: [1, 4]}}\n"
    sheet = drafts.sheet_of(place, drafts.imported(Draft(rows=ROWS), text, "the text"))
    assert (sheet.rows["age"].low, sheet.rows["age"].high, sheet.rows["sex"].kind) == ("1", "9", "any")
    assert sheet.schema is not None
    assert sheet.schema.to_dict()["fields"][1]["dp"]["bins"] == [1, 4]
    with pytest.raises(LookalikeError, match="the text"):
        drafts.imported(Draft(), "fields: [", "the text")


def test_a_script_holds_the_whole_order_and_no_path(place: Place) -> None:
    asked = order(place, Draft(rows=ROWS, budget=Budget(protect="person", max_rows="2", method="mst")))
    text = script_of(asked.prepared(place.where), Making(rows=7), name="repeat_run.py", end=".csv")
    ast.parse(text)
    for part in ("epsilon=1.0", "method='mst'", "max_rows_per_person=2", "rows=7", "dropped=('notes',)"):
        assert part in text
    assert str(Path(place.where["file"]).parent) not in text
