"""Reads real rows to judge a release: with the door the only importer of sources. All of it is NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.evaluate.evaluation import Evaluation, Settings, evaluate_codes
from lookalike.evaluate.rules import broken_rules
from lookalike.schema import codec
from lookalike.schema.schema import Schema
from lookalike.sources.frames import read_table


def arrow_rows(table: Any) -> pa.Table:
    """The exact rows of a path, or of a pandas, polars or Arrow table."""
    rows = read_table(table)[0]
    if not rows.num_rows:
        raise InputError("A table without rows cannot be judged or compared; it needs at least 1.")
    return rows


def split_rows(rows: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Rows to synthesise and rows to test classifiers on, by a fixed seed; (all, all) for a share of 1."""
    if share >= 1:
        return rows, rows
    order = np.random.default_rng([seed, 80]).permutation(rows.num_rows)
    cut = max(1, round(share * rows.num_rows))
    return rows.take(order[:cut]), rows.take(order[cut:])


def encoded(table: Any, schema: Schema) -> np.ndarray:
    """Exact codes of a table: a path, or a pandas, polars or Arrow table. Not noisy, not charged, not for release."""
    return codec.encode(schema, arrow_rows(table))


def evaluate(
    real: Any,
    synth: Any,
    schema: Schema,
    settings: Settings | None = None,
    *,
    holdout: Any = None,
    progress: Callable[[str, float], None] | None = None,
    **changes: Any,
) -> Evaluation:
    """All measures of a synthetic table against the real one. NOT PRIVATE: for the data holder's eyes.

    Args:
        real: the table that was synthesised: a path, or a pandas, polars or Arrow table.
        synth: the synthetic table.
        schema: the columns of both.
        settings: what to measure; see `Settings`.
        holdout: real rows that were not synthesised, to test classifiers on.
        progress: called with what is being done and the share of measures behind.
        **changes: single settings, for instance `group_by="sex"`.
    """
    settings = replace(settings or Settings(), **changes)
    test = encoded(holdout, schema) if holdout is not None else None
    real, synth = arrow_rows(real), arrow_rows(synth)
    codes, made = codec.encode(schema, real), codec.encode(schema, synth)
    found = evaluate_codes(codes, made, schema, settings, test=test, progress=progress)
    return Evaluation({**found.numbers, "rules": broken_rules(schema, real, synth)}) if schema.constraints else found
