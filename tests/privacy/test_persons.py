"""One person moves counts by no more than is charged: one person column, bounded rows, rows without an identifier."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.errors import SchemaError
from lookalike.inputs import as_schema, with_persons
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.kernel.door import with_capped_persons
from lookalike.privacy.ledger import Ledger
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.probes import RowsPerPerson
from lookalike.schema.schema import Schema
from lookalike.sources.open import MemoryTable, OpenedTable, read

MARKER = "NA"
Row = tuple[str | None, int, int]
"""Whose row it is, its number, its value."""


def texts(people: Sequence[str | None]) -> pa.Array:
    return pa.array(people, pa.string())


def repetitive(people: Sequence[str | None]) -> pa.Array:
    """Dictionary codes where equal identifiers, and null, have several codes: Arrow allows that."""
    words = ["p", "q", "x", MARKER, None]
    codes = [words.index(who) + (5 if place % 2 else 0) for place, who in enumerate(people)]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words * 2, pa.string()))


def numbers(people: Sequence[str | None]) -> pa.Array:
    known = {"p": 1, "q": 2, "x": 3, MARKER: -1, None: None}
    return pa.array([known[who] for who in people], pa.int64())


STORED: dict[str, tuple[Callable[..., pa.Array], str]] = {
    "texts": (texts, MARKER),
    "dictionary": (repetitive, MARKER),
    "numbers": (numbers, "-1"),
}


def opened(table: pa.Table, schema: Schema) -> OpenedTable:
    """The rows that the door would count, by the same steps."""
    found = read(table)
    bound = found.bound(schema)
    return with_capped_persons(found, bound).encoded(bound)


def kept(rows: Sequence[Row], most: int, stored: str) -> list[Row]:
    """The rows that one opening of the table uses."""
    array, marker = STORED[stored]
    person = Identifier("who", missing=("", marker), person=True, max_rows=most, repeats=(1.0,) * most)
    schema = Schema((person, Integer.coded("row", 16), Integer.coded("value", 2)))
    people, places, values = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table({"who": array(people), "row": pa.array(places, pa.int64()), "value": pa.array(values, pa.int64())})
    counts = opened(table, schema).source.counts([("row",)])[0]
    return [row for row in rows for _ in range(counts[row[1]])]


def counts(rows: Sequence[Row]) -> np.ndarray:
    """Counts of the marginal of whether there is an identifier, and of the value."""
    found = np.zeros((2, 2), dtype=np.int64)
    for who, _, value in rows:
        found[int(who in (None, MARKER)), value] += 1
    return found


def draws_of(rows: Sequence[Row], most: int) -> Counter[str | None]:
    """How many rows each person has in every draw."""
    people = Counter(who for who, _, _ in rows)
    return Counter({who: n if who in (None, MARKER) else min(n, most) for who, n in people.items()})


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("most", [1, 2])
def test_a_person_moves_counts_by_no_more_than_is_charged(stored: str, most: int) -> None:
    add, swap = Neighbours(max_rows_per_person=most), Neighbours("replace", max_rows_per_person=most)
    persons: list[list[Row]] = [[("x", 10 + i, 1) for i in range(n)] for n in range(1, most + 2)]
    persons += [[(None, 10, 1)], [(MARKER, 10, 1)]]
    for size in range(4):
        for people in itertools.combinations_with_replacement(("p", "q", None, MARKER), size):
            others: list[Row] = [(who, place, place % 2) for place, who in enumerate(people)]
            for extra in persons:
                found = kept(others + extra if len(extra) % 2 else extra + others, most, stored)
                mine = [row for row in found if row[1] >= 10]
                rest = [row for row in found if row[1] < 10]
                # What is left of the others is a draw that the table without the person has as well.
                assert Counter(who for who, _, _ in rest) == draws_of(others, most)
                assert len(set(rest)) == len(rest)
                assert len(mine) == min(len(extra), most)
                assert np.square(counts(found) - counts(rest)).sum() <= add.squared_l2
                replaced: list[Row] = [*rest, *[("y", 10, 0)] * most]
                assert np.square(counts(found) - counts(replaced)).sum() <= swap.squared_l2


def test_the_bound_is_reached() -> None:
    """All rows of a person in one cell: with less than what is charged, the test above would fail."""
    others: list[Row] = [("p", 0, 0), (None, 1, 1)]
    found = kept([*others, *(("x", 10 + i, 1) for i in range(5))], 3, "texts")
    assert np.square(counts(found) - counts(others)).sum() == Neighbours(max_rows_per_person=3).squared_l2


@pytest.mark.parametrize("extra", [[], [("x", 10, 1)] * 4, [(None, 10, 1)] * 4], ids=["alone", "person", "nobodies"])
def test_which_rows_are_kept_depends_on_nobody_else(extra: list[Row]) -> None:
    draws, mine = 300, [("p", place, 0) for place in range(3)]
    found: Counter[int] = Counter()
    for _ in range(draws):
        found.update(place for who, place, _ in kept([*extra, *mine], 1, "texts") if who == "p")
    assert sum(found.values()) == draws
    # Six standard deviations of a fair draw: passed by chance once in a hundred million tests.
    assert all(abs(found[place] - draws / 3) < 6 * np.sqrt(draws * 2 / 9) for place in range(3))


def test_while_markers_are_open_every_known_one_is_nobody() -> None:
    """What discovery finds out later must not change who is a person."""
    person = Identifier("who", person=True, max_rows=2, provenance={"missing": "open"})
    table = pa.table({"who": ["p", "p", "p", "?", "?", "?", None, None, "", ""]})
    found = opened(table, Schema((person,)))
    assert isinstance(found.engine, MemoryTable)
    assert Counter(found.engine.rows.column("who").to_pylist()) == {"p": 2, "?": 3, None: 2, "": 2}
    measured = Identifier("who", missing=("",), person=True, max_rows=2, provenance={"missing": "measured"})
    codes = RowsPerPerson("who", base=measured).codes(found.engine.rows.column("who").combine_chunks())
    assert Counter(codes.tolist()) == {0: 7, 1: 2}


@pytest.mark.parametrize("extra", [["x"], ["x", "x"], [None], ["NA"]], ids=str)
def test_rows_per_person_of_others_stay_as_they_are(extra: list[str | None]) -> None:
    probe = RowsPerPerson("who", base=Identifier("who", missing=("", "NA"), person=True, max_rows=2))
    others = ["p", "q", "q", None, None, "NA", "NA"]
    codes = probe.codes(pa.array([*others, *extra], pa.string()))
    assert codes[: len(others)].tolist() == probe.codes(pa.array(others, pa.string())).tolist() == [0, 1, 1, 0, 0, 0, 0]


TWO = {"fields": [{"name": n, "type": "string", "dp": {"pattern": "####", "person": True}} for n in ("who", "house")]}


def two_persons(tmp_path: Any) -> dict[str, Callable[[], object]]:
    path = tmp_path / "two.yaml"
    path.write_text(
        "fields:\n" + "".join(f"- {{name: {n}, dp: {{pattern: '####', person: true}}}}\n" for n in ("who", "house"))
    )
    one, other = Identifier("who", person=True), Identifier("house", person=True)
    named, table = Schema((one, Identifier("house"))), pa.table({"who": ["a"], "house": ["b"]})
    return {
        "Schema": lambda: Schema((one, other)),
        "with_columns": lambda: named.with_columns([other]),
        "dict": lambda: as_schema(TWO),
        "file": lambda: as_schema(path),
        "with_persons": lambda: with_persons(named, "house", Neighbours()),
        "synthesize": lambda: la.synthesize(table, schema=named, person="house"),
    }


@pytest.mark.parametrize("way", ["Schema", "with_columns", "dict", "file", "with_persons", "synthesize"])
def test_two_person_columns_are_refused(way: str, tmp_path: Any) -> None:
    with pytest.raises(SchemaError, match=r"2 columns have 'person: true': 'who', 'house'; the limit is 1\."):
        two_persons(tmp_path)[way]()


def test_the_column_that_the_schema_names_may_be_named_again() -> None:
    person = Identifier("who", person=True, max_rows=3, repeats=(1.0, 1.0, 1.0))
    schema = Schema((person, Categorical("town", values=("Ox", "Rye"))))
    same, people = with_persons(schema, "who", Neighbours(max_rows_per_person=3))
    assert same == schema
    assert people.max_rows_per_person == 3
    fewer, people = with_persons(schema, "who", Neighbours(max_rows_per_person=2))
    assert people.max_rows_per_person == 2
    assert fewer.open_facts == {"who": ("repeats",)}


@pytest.mark.parametrize("named", ["in the schema", "beside it", "both"])
def test_a_run_is_priced_for_as_many_rows_as_a_person_may_have(named: str) -> None:
    """Plants: the schema's maximum caps the rows and is not priced; one row more is kept than is priced."""
    fields: list[dict[str, Any]] = [
        {"name": "who", "type": "string", "dp": {"pattern": "p-####"}},
        {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 1}},
    ]
    if named != "beside it":
        fields[0]["dp"] |= {"person": True, "max_rows": 3}
    schema = Schema.from_dict({"fields": fields})
    given = {} if named == "in the schema" else {"person": "who", "neighbours": Neighbours(max_rows_per_person=3)}
    facts, people = with_persons(schema, given.get("person"), given.get("neighbours", Neighbours()))
    assert people == Neighbours(max_rows_per_person=3)
    assert [c.max_rows for c in facts.columns if isinstance(c, Identifier) and c.person] == [3]
    book = Ledger(None, "t")
    table = pa.table({"who": [f"p-{i // 5:03}" for i in range(50)], "a": [i % 2 for i in range(50)]})
    la.synthesize(table, schema=schema, method="independent", ledger=book, **given)
    assert book.runs()[0].neighbours == "adding or removing one person with up to 3 rows"
