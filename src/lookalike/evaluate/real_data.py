"""Real rows, read to judge a release: besides the door, only this module reads them. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.evaluate.evaluation import Evaluation, Settings, evaluate_codes
from lookalike.evaluate.exact_schema import exact_schema
from lookalike.schema import codec
from lookalike.schema.binned import Binned
from lookalike.schema.broken import broken_rows
from lookalike.schema.constraints import rule_text
from lookalike.schema.schema import Schema
from lookalike.sources.frames import read_table

_EXAMPLES = 3


def broken_rules(schema: Schema, real: pa.Table, synth: pa.Table) -> list[dict[str, Any]]:
    """Return for each rule its text, the numbers of real and synthetic rows that break it, and examples."""
    sides = [(codec.encode(schema, rows), _ticks(schema, rows)) for rows in (real, synth)]
    found = []
    for rule in schema.constraints:
        alone = replace(schema, constraints=(rule,))
        broken = [broken_rows(alone, codes, numbers) for codes, numbers in sides]
        names = rule.columns or schema.names
        examples = synth.select(list(names)).take(np.flatnonzero(broken[1])[:_EXAMPLES]).to_pylist()
        texts = [{name: str(value) for name, value in row.items()} for row in examples]
        counts = {"real": int(broken[0].sum()), "synth": int(broken[1].sum())}
        found.append({"text": rule_text(rule), **counts, "examples": texts})
    return found


def _ticks(schema: Schema, rows: pa.Table) -> dict[str, np.ndarray]:
    """Return every number and time in ticks of its column (unchanged for columns without ticks)."""
    binned = [column for column in schema.columns if isinstance(column, Binned)]
    return {column.name: codec.ticks_of(column, rows.column(column.name)) for column in binned}


def drafted(real: Any, synth: Any = None) -> Schema:
    """Return a schema by which real and synthetic rows can be compared, from the real rows. NOT PRIVATE.

    No ledger is charged, and nothing of it may be released. With `synth`, it has only the columns of both tables.
    """
    rows = arrow_rows(real)
    if synth is not None:
        found = set(arrow_rows(synth).column_names)
        rows = rows.select([name for name in rows.column_names if name in found])
        if not rows.column_names:
            raise InputError("The two tables have no column in common. Give the synthetic table of this real one.")
    return exact_schema(rows)


def arrow_rows(table: Any) -> pa.Table:
    """Return the exact rows of a path, or of a pandas, polars or Arrow table."""
    rows = read_table(table)[0]
    if not rows.num_rows:
        raise InputError("The table has no rows; a comparison needs at least 1.")
    return rows


def split_rows(rows: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return random rows to synthesise and the rest, to test classifiers on; all rows twice for a share of 1."""
    if share >= 1:
        return rows, rows
    order = np.random.default_rng([seed, 80]).permutation(rows.num_rows)
    cut = max(1, round(share * rows.num_rows))
    return rows.take(order[:cut]), rows.take(order[cut:])


def encoded(table: Any, schema: Schema) -> np.ndarray:
    """Return the exact codes of a table (a path, or a pandas, polars or Arrow table). Not for release."""
    return codec.encode(schema, arrow_rows(table))


def evaluate(
    real: Any,
    synth: Any,
    schema: Schema | None = None,
    settings: Settings | None = None,
    *,
    holdout: Any = None,
    progress: Callable[[str, float], None] | None = None,
    **changes: Any,
) -> Evaluation:
    """Return all measures of a synthetic table against the real one. NOT PRIVATE: for the data holder only.

    Args:
        real: the table that was synthesised: a path, or a pandas, polars or Arrow table.
        synth: the synthetic table.
        schema: the columns of both; without one it is drafted from the real rows, for this comparison only.
        settings: what to measure; see `Settings`.
        holdout: real rows that were not synthesised, to test classifiers on.
        progress: called with the current measure and the fraction done.
        **changes: single settings, for instance `group_by="sex"`.
    """
    settings = replace(settings or Settings(), **changes)
    real, synth = arrow_rows(real), arrow_rows(synth)
    if schema is None:
        schema = drafted(real, synth)
        real, synth = real.select(list(schema.names)), synth.select(list(schema.names))
    schema = schema.with_all_codes()
    test = codec.encode(schema, arrow_rows(holdout).select(list(schema.names))) if holdout is not None else None
    codes, made = codec.encode(schema, real), codec.encode(schema, synth)
    found = evaluate_codes(codes, made, schema, settings, test=test, progress=progress)
    return Evaluation({**found.numbers, "rules": broken_rules(schema, real, synth)}) if schema.constraints else found
