"""Noisy counts of columns that an earlier run paid for, as they stand in a schema file under `dp.counts`.

    counts:
      age: {of: 5c1d0e7f9a3b2c48, stddev: 21.4, counts: [103.2, 250.9, 77.0]}

`of` is a fingerprint of the column. A column that was changed afterwards has another one, and its counts are left out.
The counts are noisy and released, so they may be published with the schema. False ones spoil results, not privacy.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lookalike.errors import SchemaError
from lookalike.schema.columns import MAX_CODES, Column
from lookalike.schema.documents import as_text
from lookalike.schema.fields import field_of

MAX_COUNT = 1e15
"""Largest noisy count, or standard deviation, that a file may state."""
MAX_COUNTS_IN_ALL = 200_000
_KEYS = ("of", "stddev", "counts")
_REMEDY = "Remove the entry, or make the file again with 'lookalike inspect'."


@dataclass(frozen=True, slots=True)
class KnownCounts:
    """Noisy counts of the codes of one column.

    Attributes:
        column: its name.
        of: fingerprint of the column whose codes were counted.
        stddev: standard deviation of the noise on each count.
        counts: one noisy count for each code.
    """

    column: str
    of: str
    stddev: float
    counts: tuple[float, ...]

    def describes(self, column: Column) -> bool:
        """Whether these are counts of the column as it is now."""
        return self.of == fingerprint_of(column) and not column.open_facts and len(self.counts) == column.size

    def to_dict(self) -> dict[str, Any]:
        return {"of": self.of, "stddev": self.stddev, "counts": list(self.counts)}


def known_counts(column: Column, stddev: float, counts: Sequence[float]) -> KnownCounts:
    """Return the counts of a column, rounded as far as noise allows."""
    digits = max(0, 3 - math.floor(math.log10(stddev)))
    values = tuple(round(float(value), digits) for value in counts)
    return KnownCounts(column.name, fingerprint_of(column), stddev, values)


def fingerprint_of(column: Column) -> str:
    """Return a fingerprint of what a column says, apart from its type in the table, which reading may fill in."""
    said = json.dumps(field_of(replace(column, storage="")), sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def counts_of(entries: Any, names: Sequence[str]) -> tuple[KnownCounts, ...]:
    """Return what a schema file states under `dp.counts`; a SchemaError for what cannot be counts of its columns."""
    if not entries:
        return ()
    if not isinstance(entries, Mapping):
        raise SchemaError(f"dp.counts is a {type(entries).__name__}; it must have one entry per column. {_REMEDY}")
    found, total, known = list[KnownCounts](), 0, set(names)
    for name, entry in entries.items():
        if name in known:  # the counts of a column that was left out are of no use
            found.append(_entry(str(name), entry))
            total += len(found[-1].counts)
        if total > MAX_COUNTS_IN_ALL:
            raise SchemaError(f"dp.counts has more than {MAX_COUNTS_IN_ALL:,} counts, which is the limit. {_REMEDY}")
    return tuple(found)


def _entry(name: str, entry: Any) -> KnownCounts:
    def fail(what: str) -> NoReturn:
        raise SchemaError(f"dp.counts of column {name!r} {what}. {_REMEDY}")

    def number(value: Any, smallest: float) -> float:
        try:
            found = float(as_text(value))
        except ValueError:
            found = math.nan
        if not smallest <= found <= MAX_COUNT:
            fail(f"holds {as_text(value)[:40]!r}; numbers must lie between {smallest:g} and {MAX_COUNT:g}")
        return found

    if not isinstance(entry, Mapping) or set(entry) != set(_KEYS):
        fail(f"needs exactly the keys {', '.join(_KEYS)}")
    counts = entry["counts"]
    if not isinstance(counts, list) or not 0 < len(counts) <= MAX_CODES:
        fail(f"needs a list of 1 to {MAX_CODES:,} counts")
    if any(isinstance(value, list | dict) for value in (*counts, entry["stddev"], entry["of"])):
        fail("holds a list or mapping in the place of a number")
    values = tuple(number(value, -MAX_COUNT) for value in counts)
    return KnownCounts(name, as_text(entry["of"]), number(entry["stddev"], 1e-9), values)
