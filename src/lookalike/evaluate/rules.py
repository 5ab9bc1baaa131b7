"""How many rows break each rule of the schema; of synthetic rows there should be none. NOT PRIVATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.schema import codec
from lookalike.schema.arrays import to_numbers
from lookalike.schema.binned import Binned
from lookalike.schema.constraints import rule_text
from lookalike.schema.enforce import broken_rows
from lookalike.schema.schema import Schema

_EXAMPLES = 3


def broken_rules(schema: Schema, real: pa.Table, synth: pa.Table) -> list[dict[str, Any]]:
    """For each rule its text, how many real and synthetic rows break it, and some synthetic rows that do."""
    sides = [(codec.encode(schema, rows), _ticks(schema, rows)) for rows in (real, synth)]
    found = []
    for rule in schema.constraints:
        alone = replace(schema, constraints=(rule,))
        broken = [broken_rows(alone, codes, numbers) for codes, numbers in sides]
        names = rule.columns or schema.names
        examples = synth.select(list(names)).take(np.flatnonzero(broken[1])[:_EXAMPLES]).to_pylist()
        found.append(
            {
                "text": rule_text(rule),
                "real": int(broken[0].sum()),
                "synth": int(broken[1].sum()),
                "examples": [{name: str(value) for name, value in row.items()} for row in examples],
            }
        )
    return found


def _ticks(schema: Schema, rows: pa.Table) -> dict[str, np.ndarray]:
    """Every number and time in units of its column's ticks (itself where any float may occur), as generation has
    them.
    """
    found = {}
    for column in schema.columns:
        if isinstance(column, Binned):
            array = rows.column(column.name).combine_chunks()
            array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            numbers, readable = to_numbers(column, array)
            numbers = np.where(readable, numbers, column.internal(column.minimum))
            if column.tick is not None:
                numbers = np.rint(numbers / float(column.tick)).astype(np.int64)
            found[column.name] = numbers
    return found
