"""What a run could not see: reasons, order, and at most one line for each."""

from __future__ import annotations

import shlex
from dataclasses import replace

from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import (
    BOUNDS,
    DECLARED,
    DOUBTS,
    NOTHING,
    RARE_TEXTS,
    RARE_VALUES,
    REASONS,
    SINGLE,
    SMALL,
    Unseen,
    by_reason,
    merged,
    option,
    unseen,
    unseen_lines,
    unseen_text,
)

BEFORE = Schema((Undeclared("note"), Undeclared("town"), Undeclared("n"), Identifier("id"), Undeclared("sex")))
MEASURED = {"values": "measured"}
AFTER = Schema(
    (
        Identifier("note"),
        Categorical("town", ("Ox", "Rye"), provenance=MEASURED),
        Integer("n", minimum=3, maximum=9, bins=1, provenance={"bounds": "measured"}),
        Identifier("id"),
        Categorical("sex", ("F", "M"), outside="absorb", provenance=MEASURED),
    )
)


def test_reasons_follow_from_the_schemas() -> None:
    found = unseen(BEFORE, AFTER)
    assert by_reason(found) == {RARE_TEXTS: ("note",), RARE_VALUES: ("town",), SINGLE: ("n",), DECLARED: ("id",)}
    assert [entry.is_doubt for entry in found] == [True, False, False, False]
    assert found[2].done == "made from 3 to 9"
    assert found[2].declare == "--range n=LOW:HIGH"


def test_a_single_value_is_told_with_what_is_made_beside_it() -> None:
    bounds = {"provenance": {"bounds": "measured"}}
    columns = (
        Integer("flag", minimum=0, maximum=2, bins=1, **bounds),
        Integer("year", minimum=7, maximum=7, bins=1, **bounds),
        Categorical("unit", ("kg",), outside="absorb", provenance=MEASURED),
        Categorical("land", ("DE",), provenance=MEASURED),
    )
    before = Schema(tuple(Undeclared(column.name) for column in columns))
    (line,) = unseen_lines(unseen(before, Schema(columns)))
    assert line.startswith(
        "more than one value or bin: flag (made from 0 to 2), year (no other value is made), "
        "unit (no other value is made), land (rarer ones count as 'other'). If you know better"
    )


def test_one_entry_for_each_column_in_the_order_of_reasons() -> None:
    doubt = Unseen(BOUNDS, "n", "seen", "made from 3 to 9000", "--range n=LOW:HIGH")
    table = Unseen(SMALL, None, "few rows", "much is hidden", "Declare more.")
    found = merged([doubt, table], unseen(BEFORE, AFTER))
    assert [entry.reason for entry in found] == [SMALL, BOUNDS, RARE_TEXTS, RARE_VALUES, DECLARED]
    assert by_reason(found)[SMALL] == ()


def test_that_nothing_is_in_doubt_does_not_promise_that_all_was_seen() -> None:
    declared = Integer("n", minimum=0, maximum=1)
    assert unseen_text([], Schema((declared,))) == "nothing; every value of the schema could be drawn."
    assert "few rows" in unseen_text([], Schema((replace(declared, provenance={"bounds": "measured"}),)))


def test_a_wide_table_takes_few_short_lines() -> None:
    found = [Unseen(reason, f"column {i}", "s", "d", "--x y") for reason in REASONS for i in range(200)]
    lines = unseen_lines(found)
    assert len(lines) == len(REASONS)
    assert all("and 195 more" in line and len(line) < 350 for line in lines)
    assert all(line in unseen_text(found, Schema((Integer("n", minimum=0, maximum=1),))) for line in lines)
    assert set(DOUBTS) < set(REASONS)


def test_options_can_be_pasted_into_a_shell() -> None:
    assert shlex.split(option("type", "Sample $(Number)'s", "number")) == ["--type", "Sample $(Number)'s=number"]
    line = unseen_lines([Unseen(NOTHING, "a b", "", "taken as text", option("type", "a b", "number"))])[0]
    assert "a b (taken as text)" in line
    assert "--type 'a b=number'" in line
