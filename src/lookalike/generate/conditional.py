"""Rows of a model under a condition."""

from __future__ import annotations

import numpy as np

from lookalike.errors import InputError
from lookalike.generate.model import Model
from lookalike.schema.conditions import Question

RAREST = 1e-4
"""Share of the model below which drawing rows until enough satisfy the condition takes too long."""


def rows_where(model: Model, question: Question, rows: int | None, rng: np.random.Generator) -> np.ndarray:
    """Codes of `rows` rows that satisfy the condition, drawn from the model given the condition.

    By default as many rows as the model expects among the real ones. Rows are drawn and those that satisfy it kept,
    which serves every kind of model; a condition rarer than 1 row in 10,000 is refused.
    """
    if not question.exact:
        raise InputError(
            f"The condition {question.text!r} cuts a bin of the schema, within which rows cannot be told apart. Use a "
            "bound at which a bin starts."
        )
    allowed = question.weights > 0
    share = float(model.marginal(question.attrs)[allowed].sum()) / model.total
    if share < RAREST:
        raise InputError(
            f"The model gives {question.text!r} a share of {share:.2g} of the rows; the least is {RAREST:g}. Relax the "
            "condition."
        )
    wanted = max(1, round(share * model.total)) if rows is None else rows
    columns = [model.domain.position(name) for name in question.attrs]
    kept: list[np.ndarray] = []
    found = 0
    while found < wanted:
        codes = model.sample(round(1.1 * (wanted - found) / share) + 100, rng)
        kept.append(codes[allowed[tuple(codes[:, column] for column in columns)]])
        found += len(kept[-1])
    return np.asfortranarray(np.concatenate(kept)[:wanted])
