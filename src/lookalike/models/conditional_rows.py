"""Rows of a model that satisfy a condition, also where a bound of the condition lies inside a bin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.models.answers import MIN_SHARE, rows_where
from lookalike.models.model import Model
from lookalike.schema import codec
from lookalike.schema.conditions import cut_points, parse_question
from lookalike.schema.enforce import cut_at
from lookalike.schema.schema import Schema

_MAX_ROUNDS = 1000
"""Rounds of drawing rows of cut bins before giving up."""


def table_where(model: Model, schema: Schema, where: str, rows: int | None, rng: np.random.Generator) -> pa.Table:
    """Return a table of rows that satisfy the condition, by default as many as the model expects in the private table.

    Where a bound cuts a bin, the model knows no more than the bin: values within it are drawn as always, and rows
    outside the bound are left out.
    """
    text = f"count where {where}"
    question = parse_question(text, schema)
    if question.exact:
        return codec.decode(schema, rows_where(model, question, rows, rng), rng=rng)
    share = float((model.marginal(question.attrs) * question.weights).sum()) / model.total
    if share < MIN_SHARE:
        raise InputError(
            f"The model gives {where!r} a share of {share:.2g} of the rows; the minimum is {MIN_SHARE:g}. Relax the "
            "condition."
        )
    wanted = max(1, round(share * model.total)) if rows is None else rows
    # Bins that are cut where the condition cuts them tell which of the drawn values satisfy it.
    fine = cut_at(schema, cut_points(text, schema))
    exact = parse_question(text, fine)
    coarse = replace(question, weights=(question.weights > 0).astype(float))
    kept: list[pa.Table] = []
    for _ in range(_MAX_ROUNDS):
        drawn = codec.decode(schema, rows_where(model, coarse, wanted + 100, rng), rng=rng)
        codes = codec.encode(replace(fine, constraints=()), drawn)
        cells = tuple(codes[:, fine.domain.position(name)] for name in exact.attrs)
        kept.append(drawn.filter(pa.array(exact.weights[cells] > 0)))
        if sum(part.num_rows for part in kept) >= wanted:
            return pa.concat_tables(kept).slice(0, wanted)
    raise InputError(f"Too few rows satisfy {where!r} to draw {wanted:,} of them. Relax the condition.")
