"""Answers of a model to questions in words: numbers with error bars, and rows under a condition, without any data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.models.intervals import Answer, ErrorBars, check_level
from lookalike.models.model import Model
from lookalike.models.statistics import Places, Selection, correlation_answer, mean_answer, quantile_answer
from lookalike.schema.binned import Binned, Datetime
from lookalike.schema.conditions import Question
from lookalike.schema.questions import Statistic, parse_asked
from lookalike.schema.schema import Schema

MIN_SHARE = 1e-4
"""Smallest share of rows that satisfy a condition; below it, drawing rows until enough satisfy it takes too long."""
_FEWEST = 0.5
"""Number of rows, in the model, below which a group has no mean, quantile or correlation."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The numbers that a question asks for.

    Attributes:
        text: the question.
        by: columns by whose values the answer is broken down.
        rows: for each combination of those columns' values, the values' labels and the number with its interval.
        exact: False where a bound of the question cuts a bin. The value then assumes that values in the bin are evenly
            spread; the interval does not.
        statistic: name of the number, such as `count` or `mean of age`.
        times: the column of times in whose ticks the numbers are, None for plain numbers.
        left_out: number of combinations that have no rows in the model, so that nothing can be said about them.
    """

    text: str
    by: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], Answer], ...]
    exact: bool
    statistic: str = "count"
    times: Datetime | None = None
    left_out: int = 0

    def shown(self, number: float) -> Any:
        """Return a value or an end of an interval as it is written in the table: times as text."""
        return number if self.times is None else self.times.external(round(number))

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield one flat mapping for each row: labels, value, ends of the interval, level, basis, model's answer."""
        for labels, answer in self.rows:
            yield {
                **dict(zip(self.by, labels, strict=True)),
                self.statistic: self.shown(answer.value),
                "low": self.shown(answer.low),
                "high": self.shown(answer.high),
                "level": answer.level,
                "basis": answer.basis,
                "model": self.shown(answer.model),
                "noise_stddev": answer.noise_stddev,
                "sampling_stddev": answer.sampling_stddev,
            }

    def to_csv(self) -> str:
        """Return the rows as CSV text with a header."""
        records = list(self.records())
        stream = io.StringIO()
        names = list(records[0]) if records else [*self.by, self.statistic, "low", "high", "level", "basis"]
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return stream.getvalue()


def answer_question(text: str, schema: Schema, model: Model, bars: ErrorBars, level: float = 0.9) -> AnsweredQuestion:
    """Return the answer to a question such as `mean of age by sex where ...`, with intervals from the noise.

    Raises:
        InputError: the question cannot be understood, or the level is not between 0 and 1.
    """
    check_level(level)
    asked, question = parse_asked(text, schema)
    counts = np.asarray(model.marginal(question.attrs))
    labels = [schema[name].labels() for name in question.by]
    rows, left_out = [], 0
    for cell in np.ndindex(*(len(texts) for texts in labels)):
        chosen = Selection(question.attrs, counts, _weights_in(question, cell), bars, level)
        answer = _answer(asked, chosen, schema, model.total)
        left_out += answer is None
        if answer is not None:
            rows.append((tuple(texts[code] for texts, code in zip(labels, cell, strict=True)), answer))
    named = [schema[name] for name in asked.columns]
    times = named[0] if named and asked.kind != "correlation" else None
    return AnsweredQuestion(
        text,
        question.by,
        tuple(rows),
        question.exact,
        _name(asked),
        times if isinstance(times, Datetime) else None,
        left_out,
    )


def _name(asked: Statistic) -> str:
    """Return what is asked, as a heading: `count`, `mean of age`, `quantile 0.9 of age`, `correlation of a and b`."""
    if asked.kind == "count":
        return "count"
    if asked.kind == "quantile":
        return (
            f"median of {asked.columns[0]}" if asked.share == 0.5 else f"quantile {asked.share:g} of {asked.columns[0]}"
        )
    return f"{asked.kind} of {' and '.join(asked.columns)}"


def _weights_in(question: Question, cell: tuple[int, ...]) -> np.ndarray:
    """The weights of the condition, restricted to one combination of values of the columns of `by`."""
    inside: list[int | slice] = [slice(None)] * len(question.attrs)
    for name, code in zip(question.by, cell, strict=True):
        inside[question.attrs.index(name)] = code
    weights = np.zeros(question.weights.shape)
    weights[tuple(inside)] = question.weights[tuple(inside)]
    return weights


def _answer(asked: Statistic, chosen: Selection, schema: Schema, total: float) -> Answer | None:
    """The number for one combination of values; None where the model has no rows there."""
    if asked.kind == "count":
        return _count(chosen, total)
    columns = [column for name in asked.columns if isinstance(column := schema[name], Binned)]
    regular = np.ones(chosen.counts.shape)
    for column in columns:
        regular = regular * chosen.along(column.name, np.ones(column.regular))
    chosen = replace(chosen, weights=chosen.weights * regular)
    if chosen.rows < _FEWEST:
        return None
    places = [Places.of(column) for column in columns]
    if asked.kind == "mean":
        return mean_answer(chosen, asked.columns[0], places[0])
    if asked.kind == "quantile":
        return quantile_answer(chosen, asked.columns[0], places[0], asked.share)
    return correlation_answer(chosen, (asked.columns[0], asked.columns[1]), (places[0], places[1]))


def _count(chosen: Selection, total: float) -> Answer:
    """The count of the chosen rows; where bounds cut bins, its interval allows every part of the bins."""

    def of(weights: np.ndarray) -> Answer:
        value = float((weights * chosen.counts).sum())
        return chosen.bars.answer(chosen.attrs, weights, value, total, chosen.level)

    answer = of(chosen.weights)
    if not chosen.cut.any():
        return answer
    ones = np.ones(chosen.weights.shape)
    low, high = of(chosen.least(ones)), of(chosen.most(ones))
    basis = "bounded" if "bounded" in (low.basis, high.basis) else "binned"
    value = min(max(answer.value, low.low), high.high)
    return replace(answer, value=value, low=low.low, high=high.high, basis=basis)


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
