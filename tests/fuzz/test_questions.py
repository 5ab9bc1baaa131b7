"""Hostile questions and names of tables and columns: answered, or refused with one error of ours.

`make fuzz` draws many thousands (LOOKALIKE_FUZZ); examples that once failed are kept as `@example`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookalike.errors import LookalikeError
from lookalike.models.answers import parse_asked
from lookalike.schema.schema import Schema
from lookalike.sources.sql.sessions import literal, quoted

from .mutations import NUMBERS, TEXTS

EXAMPLES = int(os.environ.get("LOOKALIKE_FUZZ", "150"))
SCHEMA = Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"required": True, "minimum": 0, "maximum": 99}},
            {"name": "sex", "type": "string", "constraints": {"required": True, "enum": ["F", "M"]}},
            {"name": "mean", "type": "string", "constraints": {"required": True, "enum": ["of", "by", "a b"]}},
        ]
    }
)
WORDS = (
    "mean", "of", "by", "where", "and", "or", "not", "in", "is", "count", "median", "quantile", "correlation", "share",
    "sum", "age", "sex", "total", "between", "(", ")", ",", "=", "!=", "<", "<=", ">", "*", "'F'", '"M"', "'", '"',
    "0.5", "--", ";",
)  # fmt: skip
TOKENS = st.one_of(
    st.sampled_from(WORDS), st.sampled_from(TEXTS), st.sampled_from([str(n) for n in NUMBERS]), st.text(max_size=8)
)
QUESTIONS = st.lists(TOKENS, max_size=14).map(" ".join)
# SQLite reads statements up to the first NUL, and Python gives it no lone surrogates; other sources refuse both.
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=30)


@settings(max_examples=EXAMPLES)
@given(QUESTIONS)
@example("mean of age by sex where sex = 'F'")
@example("quantile 1e400 of age")
def test_questions_are_read_or_refused(text: str) -> None:
    with suppress(LookalikeError):
        parse_asked(text, SCHEMA)


@settings(max_examples=EXAMPLES)
@given(NAMES, NAMES, st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30))
@example('a"; DROP TABLE "x', "'", "'' OR 1=1 --")
@example('""', '"', "'")
def test_names_and_texts_stay_names_and_texts(table: str, column: str, value: str) -> None:
    """Whatever a name or a text holds, it ends where it should: no statement is ever longer than it was meant."""
    with closing(sqlite3.connect(":memory:")) as connection:
        if table.lower().startswith("sqlite_"):
            return
        connection.execute(f"CREATE TABLE {quoted(table)} ({quoted(column)} TEXT)")
        connection.execute(f"INSERT INTO {quoted(table)} VALUES ({literal(value)})")
        (made,) = connection.execute("SELECT name FROM sqlite_master").fetchall()
        rows: Any = connection.execute(f"SELECT {quoted(column)} FROM {quoted(table)}")
        assert (made[0], rows.description[0][0]) == (table, column)
        assert rows.fetchall() == [(value,)]
