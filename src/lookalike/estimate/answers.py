"""Answers of a model to questions in words, each with its error bars. Needs no data and costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.estimate.intervals import Answer, ErrorBars
from lookalike.generate.model import Model
from lookalike.schema.conditions import parse_question
from lookalike.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The counts that a question asks for.

    Attributes:
        text: the question.
        by: columns by whose values the counts are broken down.
        rows: for each combination of those columns' values, the values' labels and the count with its interval.
        exact: False where a bound of the question cuts a bin; values in it then count as evenly spread, and the
            interval speaks of the count under that assumption.
    """

    text: str
    by: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], Answer], ...]
    exact: bool


def answer_question(text: str, schema: Schema, model: Model, bars: ErrorBars, level: float = 0.9) -> AnsweredQuestion:
    """What the model says to a question such as `count by sex where age >= 30`, with intervals from the recorded noise.

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
