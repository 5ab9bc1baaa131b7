"""Answers of a model to questions in words: numbers with error bars, and rows under a condition, without any data.

    question   = statistic [ "by" column { "," column } ] [ "where" condition ] | condition
    statistic  = "count" | "mean" "of" column | "median" "of" column | "quantile" share "of" column
               | "correlation" "of" column "and" column

Conditions are those of `schema/conditions.py`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.models.intervals import Answer, ErrorBars, check_level
from lookalike.models.model import Model
from lookalike.models.statistics import Places, Selection, correlation_answer, mean_answer, quantile_answer
from lookalike.notebook import card, table
from lookalike.schema import codec
from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.conditions import Parser, Question, cut_points, parse_question, parsed
from lookalike.schema.decode import decode
from lookalike.schema.enforce import cut_at
from lookalike.schema.schema import Schema

_EXAMPLE = (
    "Ask for instance: mean of age by sex where income = '>50K'; median of age; quantile 0.9 of age; "
    "correlation of age and hours; count by sex."
)
_MIN_SHARE = 1e-4
"""Smallest share of rows that satisfy a condition; below it, drawing rows until enough satisfy it takes too long."""
_MAX_ROUNDS = 1000
"""Rounds of drawing rows of cut bins before giving up."""
_STATISTICS = ("mean", "average", "median", "quantile", "correlation")


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is asked about the rows: how many there are, or a statistic of one or two columns of numbers or times.

    Attributes:
        kind: `count`, `mean`, `quantile` or `correlation`.
        columns: the columns it is about, as asked; none for a count.
        share: for a quantile, the share of the rows at or below it; 0.5 for the median.
    """

    kind: Literal["count", "mean", "quantile", "correlation"] = "count"
    columns: tuple[str, ...] = ()
    share: float = 0.5


def parse_asked(text: str, schema: Schema) -> tuple[Statistic, Question]:
    """What `text` asks for, and of which rows; an InputError that names what cannot be read."""
    parser = QuestionParser(text, schema)
    question = parsed(text, parser, schema.domain)
    names = [*parser.columns, *question.by]
    twice = [name for name in parser.columns if names.count(name) > 1]
    if twice:
        raise InputError(f"The question names column {twice[0]!r} twice before 'where'; name it once. {_EXAMPLE}")
    return parser.statistic, question


class QuestionParser(Parser):
    """A parser of questions about numbers.

    Attributes:
        statistic: what is asked for; known once the question is read.
    """

    statistic = Statistic()

    def _opening(self) -> bool:
        """Read what is asked for; False where the question starts with a condition (a column may be called `mean`)."""
        if super()._opening():
            return True
        words = [token.lower() for token in self._tokens[:3]]
        lone = self._tokens[:1] and self._tokens[0] not in self._domain
        if lone and words[0] in _STATISTICS and words[1:2] != ["of"] and words[2:] != ["of"]:
            raise InputError(f"The question names no column for {words[0]!r}; write '{words[0]} of COLUMN'. {_EXAMPLE}")
        if words[:2] in (["mean", "of"], ["average", "of"]):
            self.statistic = Statistic("mean", (self._skip(2)._number_column(),))
        elif words[:2] == ["median", "of"]:
            self.statistic = Statistic("quantile", (self._skip(2)._number_column(),))
        elif words[:1] == ["quantile"] and words[2:] == ["of"]:
            share = self._skip(1)._share()
            self.statistic = Statistic("quantile", (self._skip(1)._number_column(),), share)
        elif words[:2] == ["correlation", "of"]:
            one = self._skip(2)._number_column()
            if not (self._word("and") or self._word("with") or self._sign(",")):
                raise InputError(f"A correlation needs two columns joined by 'and'. {_EXAMPLE}")
            self.statistic = Statistic("correlation", (one, self._number_column()))
        elif lone and {"of", *_STATISTICS} & set(words[1:]):
            raise InputError(f"The question starts with {self._tokens[0]!r}, which is not a statistic. {_EXAMPLE}")
        else:
            return False
        self.columns = self.statistic.columns
        return True

    def _skip(self, tokens: int) -> QuestionParser:
        self._at += tokens
        return self

    def _number_column(self) -> str:
        name = self._column()
        if not isinstance(self._schema[name], Binned):
            kind = self._schema[name].field_type
            raise InputError(
                f"Column {name!r} holds a {kind}: means, quantiles and correlations need numbers or times. "
                f"Ask 'count by {name}' for its values."
            )
        return name

    def _share(self) -> float:
        text = self._value()
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if not 0 < share < 1:
            raise InputError(f"The quantile is {text!r}; it must lie between 0 and 1, as in 'quantile 0.9 of age'.")
        return share


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

    def headings(self, level: float) -> tuple[str, ...]:
        """Return the headings of `texts`."""
        return (*self.by, self.statistic, f"{level:.0%} interval", "sampling ±", "basis")

    def texts(self) -> list[tuple[str, ...]]:
        """Return the rows as people read them: labels, value, interval, sampling error, basis."""
        rows, wanted = [], [_places(a.high - a.low, a.sampling_stddev) for _, a in self.rows]
        places = 0 if self.statistic == "count" else max(wanted, default=0)

        def text(number: float) -> str:
            return str(self.shown(number)) if self.times else f"{number:,.{places}f}"

        for labels, a in self.rows:
            sampling = f"{a.sampling_stddev:,.{places}f}" if self.times is None else ""
            rows.append((*labels, text(a.value), f"{text(a.low)} to {text(a.high)}", sampling, a.basis))
        return rows

    def _repr_html_(self) -> str:
        level = self.rows[0][1].level if self.rows else 0.9
        return card(self.text, self.notes(), table(self.headings(level), self.texts()))

    def notes(self) -> list[str]:
        """Return notes about the numbers for the user."""
        bases = {answer.basis for _, answer in self.rows}
        notes = [_NOTES["interval"], *(_NOTES[basis] for basis in ("binned", "bounded") if basis in bases)]
        notes += [] if self.exact else [_NOTES["cut"]]
        left_out = f"{self.left_out} combinations without rows in the model are left out."
        return [*notes, left_out] if self.left_out else notes


_NOTES = {
    "interval": "The interval is for the true number of the private table; it comes from the recorded noise. Sampling "
    "is how much the same number varies between tables drawn from the model.",
    "binned": "'binned': values are known by their bins only. The interval holds wherever the values lie in their "
    "bins; narrower bins in the schema make it narrower.",
    "bounded": "'bounded': these columns were not measured together. The interval holds for every association that "
    "the measured counts allow.",
    "cut": "A bound of the question lies inside a bin; for the value, not for the interval, the values in the bin are "
    "taken as evenly spread.",
}


def _places(width: float, sampling: float) -> int:
    """Return how many decimals show two digits of an interval's width, and one of the sampling error.

    >>> _places(3.6, 0.5), _places(0.02, 0.0), _places(8000, 50.0), _places(2.0, 0.013)
    (1, 3, 0, 2)
    """
    smallest = min(size for size in (width, 10 * sampling, math.inf) if size > 0)
    return max(0, min(6, 1 - math.floor(math.log10(smallest)))) if smallest < math.inf else 2


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


def table_where(model: Model, schema: Schema, where: str, rows: int | None, rng: np.random.Generator) -> pa.Table:
    """Return a table of rows that satisfy the condition, by default as many as the model expects in the private table.

    Where a bound cuts a bin, the model knows no more than the bin: values within it are drawn as always, and rows
    outside the bound are left out.
    """
    text = f"count where {where}"
    question = parse_question(text, schema)
    share = float((model.marginal(question.attrs) * question.weights).sum()) / model.total
    if share < _MIN_SHARE:
        raise InputError(
            f"The model gives {where!r} a share of {share:.2g} of the rows; the minimum is {_MIN_SHARE:g}. Relax the "
            "condition."
        )
    wanted = max(1, round(share * model.total)) if rows is None else rows
    if question.exact:
        return decode(schema, _codes_where(model, question, wanted, rng), rng=rng)
    # Bins that are cut where the condition cuts them tell which of the drawn values satisfy it.
    fine = cut_at(schema, cut_points(text, schema))
    exact = parse_question(text, fine)
    coarse = replace(question, weights=(question.weights > 0).astype(float))
    kept: list[pa.Table] = []
    for _ in range(_MAX_ROUNDS):
        drawn = decode(schema, _codes_where(model, coarse, wanted + 100, rng), rng=rng)
        codes = codec.encode(replace(fine, constraints=()), drawn)
        cells = tuple(codes[:, fine.domain.position(name)] for name in exact.attrs)
        kept.append(drawn.filter(pa.array(exact.weights[cells] > 0)))
        if sum(part.num_rows for part in kept) >= wanted:
            return pa.concat_tables(kept).slice(0, wanted)
    raise InputError(f"Too few rows satisfy {where!r} to draw {wanted:,} of them. Relax the condition.")


def _codes_where(model: Model, question: Question, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of rows in cells of positive weight: rows are drawn and others left out, which works for every model."""
    allowed = question.weights > 0
    share = float(model.marginal(question.attrs)[allowed].sum()) / model.total
    columns = [model.domain.position(name) for name in question.attrs]
    kept: list[np.ndarray] = []
    found = 0
    while found < wanted:
        codes = model.sample(round(1.1 * (wanted - found) / share) + 100, rng)
        kept.append(codes[allowed[tuple(codes[:, column] for column in columns)]])
        found += len(kept[-1])
    return np.asfortranarray(np.concatenate(kept)[:wanted])
