"""Spoiled CSV files. What is broken in the header is one error of ours; with a sound header every file goes through.

No traceback, no warning, no gigabyte.
"""

from __future__ import annotations

import codecs
import random
from pathlib import Path

import pytest

from lookalike.errors import LookalikeError
from lookalike.pipeline import as_schema, synthesize
from lookalike.privacy.ledger import Ledger
from lookalike.schema.schema import Schema
from lookalike.sources.open import read

from .mutations import many, spoil_bytes, survive

ROWS = "".join(f"{i % 90},{'FM'[i % 2]},2020-{i % 12 + 1:02}-{i % 28 + 1:02},{i / 7:.2f},p-{i:03}\n" for i in range(40))
TABLES = [
    ("age,sex,seen,weight,id\n" + ROWS).encode(),
    codecs.BOM_UTF8 + ("age;sex;seen;weight;id\n" + ROWS.replace(",", ";")).replace("\n", "\r\n").encode(),
    'a,"b ""x""",c\n"1,5",é,\n"two\nlines",?,NA\n,,\n'.encode() * 3,
    b"a\n" + b"1\n" * 30,
]
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "dp": {"outside": "clamp"}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}, "dp": {"outside": "other"}},
    {
        "name": "seen",
        "type": "date",
        "constraints": {"minimum": "2020-01-01", "maximum": "2021-12-31"},
        "dp": {"outside": "clamp"},
    },
    {"name": "weight", "type": "number", "constraints": {"minimum": 0, "maximum": 10}, "dp": {"outside": "clamp"}},
    {"name": "id", "type": "string", "dp": {"pattern": "p-####"}},
]
SCHEMA = Schema.from_dict({"fields": FIELDS})


def attempt(path: Path, runs: float, rng: random.Random) -> bool:
    """Read and encode; some of the files go through a whole run."""
    path.write_bytes(spoil_bytes(rng.choice(TABLES), rng))
    schema = SCHEMA if rng.random() < 0.5 else None
    try:
        table = read(path)
        table.encoded(table.bound(schema))
        if rng.random() < runs:
            release = synthesize(path, schema=schema, method="independent", ledger=Ledger(None, "a test"), rows=20)
            release.write(path.with_name("out.csv"))
        as_schema(None, path)
    except LookalikeError:
        return False
    return True


def attempt_rows(path: Path, rng: random.Random) -> bool:
    """Whatever follows a sound header is read and encoded: no error of any kind."""
    header, rows = rng.choice(TABLES[:2]).split(b"\n", 1)
    path.write_bytes(header + b"\n" + spoil_bytes(rows, rng))
    table = read(path)
    assert table.engine.structure.names == [field["name"] for field in FIELDS]
    return table.encoded(table.bound(SCHEMA if rng.random() < 0.5 else None)).schema is not None


def test_spoiled_rows(tmp_path: Path) -> None:
    assert survive(300, 3, lambda rng: attempt_rows(tmp_path / "t.csv", rng)) == 300


@pytest.mark.slow
def test_thousands_of_tables_of_spoiled_rows(tmp_path: Path) -> None:
    assert survive(many(), 4, lambda rng: attempt_rows(tmp_path / "t.csv", rng)) == many()


def test_spoiled_tables(tmp_path: Path) -> None:
    assert survive(300, 1, lambda rng: attempt(tmp_path / "t.csv", 0.05, rng)) > 50


@pytest.mark.slow
def test_thousands_of_tables(tmp_path: Path) -> None:
    survive(many(), 2, lambda rng: attempt(tmp_path / "t.csv", 0.05, rng))
