"""Spoiled JSON lines: whatever follows a sound first line is read as some rows, and encoded. No error of any kind."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lookalike.sources.open import read

from .mutations import NUMBERS, TEXTS, many, spoil_bytes, spoil_tree, survive
from .test_csvs import FIELDS, SCHEMA

FIRST = {"age": 30, "sex": "F", "seen": "2020-01-31", "weight": 1.5, "id": "p-0001"}
HOSTILE = (
    '{"age": 1e999, "sex": NaN, "seen": -Infinity}', '{"age": ' + "9" * 5000 + "}", "[" * 100_000, '{"sex": "\\ud800"}',
    '{"sex": {"a": [1, null, {"b": "\\udfff"}]}}', "null", '"text"', "{", '{"age": 1, "age": 2}', '{"": 0}', "\ufeff{}",
    '{"sex": "' + "x" * 70_000 + '"}', '{"age": true, "sex": false}', '{"age": -0.0, "weight": 1E-400}',
)  # fmt: skip


def attempt(path: Path, rng: random.Random) -> bool:
    lines = [json.dumps(FIRST)]
    for _ in range(12):
        row = {**FIRST, rng.choice(list(FIRST)): rng.choice((*TEXTS, *NUMBERS, None, True, [], {}))}
        action = rng.randrange(4)
        if action == 0:
            lines.append(rng.choice(HOSTILE))
        elif action == 1:
            lines.append(json.dumps(spoil_tree(row, rng)))
        else:
            lines.append(json.dumps(row, ensure_ascii=action == 2))
    first, rest = lines[0], "\n".join(lines[1:]).encode("utf-8", "surrogatepass")
    path.write_bytes(first.encode() + b"\n" + (spoil_bytes(rest, rng) if rng.random() < 0.7 else rest))
    table = read(path)
    assert table.engine.structure.names == [field["name"] for field in FIELDS]
    return table.encoded(table.bound(SCHEMA if rng.random() < 0.5 else None)).schema is not None


def test_spoiled_json_lines(tmp_path: Path) -> None:
    assert survive(150, 1, lambda rng: attempt(tmp_path / "t.jsonl", rng)) == 150


@pytest.mark.slow
def test_thousands_of_json_lines(tmp_path: Path) -> None:
    assert survive(many(), 2, lambda rng: attempt(tmp_path / "t.jsonl", rng)) == many()
