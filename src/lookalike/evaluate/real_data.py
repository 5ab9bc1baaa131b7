"""Reads real rows to judge a release: with the door the only importer of sources. All of it is NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.evaluate.evaluation import Evaluation, Settings, evaluate_codes
from lookalike.schema import codec
from lookalike.schema.schema import Schema
from lookalike.sources.frames import read_table


def encoded(table: Any, schema: Schema) -> np.ndarray:
    """Exact codes of a table: a path, or a pandas, polars or Arrow table. Not noisy, not charged, not for release."""
    return codec.encode(schema, read_table(table)[0])


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
    return evaluate_codes(encoded(real, schema), encoded(synth, schema), schema, settings, test=test, progress=progress)
