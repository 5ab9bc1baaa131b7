"""Small tables and their neighbours: the same rows, and one person more who would give herself away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.privacy.kernel.neighbours import Neighbours

ROWS = 30
SECRET = "Zzyzx"


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and the rows of the one person whom its neighbour has more.

    Attributes:
        name: what is special about that person.
        table: the rows of all others.
        extra: her rows.
        arguments: of the run: schema, person column, neighbours.
    """

    name: str
    table: pa.Table
    extra: pa.Table
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def neighbour(self) -> pa.Table:
        return pa.concat_tables([self.table, self.extra])


def cases() -> list[Case]:
    """The audit's neighbouring tables: one person with something that no other has, in each way that could show."""
    texts = _texts()
    people = texts.append_column("who", pa.array([f"p{i // 2}" for i in range(ROWS)]))
    twice = {"person": "who", "neighbours": Neighbours(max_rows_per_person=2)}
    lone = {"who": "lone", "town": SECRET}
    codes = pa.table({name: np.zeros(ROWS, dtype=np.int32) for name in ("a", "b", "c")})
    return [
        Case("new category", texts, _row(texts, town=SECRET)),
        Case("extreme number", texts, _row(texts, pay="987654321012.75")),
        Case("new maximum", texts, _row(texts, age="119")),
        Case("lone null", texts, _row(texts, age=None)),
        Case("lone person", people, pa.concat_tables([_row(people, **lone), _row(people, **lone)]), twice),
        Case("the first row", texts.slice(0, 0), _row(texts, town=SECRET)),
        Case("declared columns", codes, pa.table({n: np.ones(1, dtype=np.int32) for n in "abc"}), {"schema": _SIZES}),
    ]


_SIZES = {"a": 2, "b": 2, "c": 2}


def _texts() -> pa.Table:
    """Columns as a CSV file has them: categories, whole numbers, decimals, days."""
    number = np.arange(ROWS)
    return pa.table(
        {
            "town": pa.array(np.array(["Ox", "Rye"])[number % 2]),
            "age": pa.array([str(20 + 3 * (i % 15)) for i in number]),
            "pay": pa.array([f"{1000 + 37 * i}.50" for i in number]),
            "seen": pa.array([f"2024-{1 + i % 12:02d}-1{i % 9}" for i in number]),
        }
    )


def _row(table: pa.Table, **values: str | None) -> pa.Table:
    """A row like the first, or like any where there is none, but for these values."""
    usual = {"town": "Ox", "age": "35", "pay": "1500.50", "seen": "2024-05-11", "who": "p0"}
    chosen = {**usual, **values}
    return pa.table({name: pa.array([chosen[name]], pa.string()) for name in table.column_names})
