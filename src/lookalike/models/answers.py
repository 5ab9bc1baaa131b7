"""Answers of a model to questions in words: counts with error bars, and rows under a condition, without any data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.errors import InputError
from lookalike.models.intervals import Answer, ErrorBars
from lookalike.models.model import Model
from lookalike.schema.conditions import Question, parse_question
from lookalike.schema.schema import Schema

MIN_SHARE = 1e-4
"""Smallest share of rows that satisfy a condition; below it, drawing rows until enough satisfy it takes too long."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The counts that a question asks for.

    Attributes:
        text: the question.
        by: columns by whose values the counts are broken down.
        rows: for each combination of those columns' values, the values' labels and the count with its interval.
        exact: False where a bound of the question cuts a bin. Values in the bin are then assumed to be evenly spread,
            and the interval is for the count under that assumption.
    """

    text: str
    by: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], Answer], ...]
    exact: bool


def answer_question(text: str, schema: Schema, model: Model, bars: ErrorBars, level: float = 0.9) -> AnsweredQuestion:
    """Return the model's answer to a question such as `count by sex where age >= 30`, with intervals from the noise.

    Raises:
        InputError: the question cannot be understood, or the level is not between 0 and 1.
    """
    question = parse_question(text, schema)
    counts = np.asarray(model.marginal(question.attrs))
    axes = [question.attrs.index(name) for name in question.by]
    labels = [schema[name].labels() for name in question.by]
    rows = []
    for cell in np.ndindex(*(len(texts) for texts in labels)):
        inside: list[int | slice] = [slice(None)] * len(question.attrs)
        for axis, code in zip(axes, cell, strict=True):
            inside[axis] = code
        weights = np.zeros(question.weights.shape)
        weights[tuple(inside)] = question.weights[tuple(inside)]
        answer = bars.answer(question.attrs, weights, float((weights * counts).sum()), model.total, level)
        rows.append((tuple(texts[code] for texts, code in zip(labels, cell, strict=True)), answer))
    return AnsweredQuestion(text, question.by, tuple(rows), question.exact)


def rows_where(model: Model, question: Question, rows: int | None, rng: np.random.Generator) -> np.ndarray:
    """Return the codes of `rows` rows that satisfy the condition, drawn from the model given the condition.

    By default as many rows as the model expects in the private table. Rows are drawn and those that satisfy the
    condition are kept, which works for every kind of model; a condition rarer than 1 row in 10,000 is refused.
    """
    if not question.exact:
        raise InputError(
            f"The condition {question.text!r} has a bound inside a bin of the schema, but the model does not "
            "distinguish values within a bin. Use a bound at which a bin starts."
        )
    allowed = question.weights > 0
    share = float(model.marginal(question.attrs)[allowed].sum()) / model.total
    if share < MIN_SHARE:
        raise InputError(
            f"The model gives {question.text!r} a share of {share:.2g} of the rows; the minimum is {MIN_SHARE:g}. "
            "Relax the condition."
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
