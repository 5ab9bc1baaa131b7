"""Questions about numbers: `mean of income by sex where age >= 30`, on the grammar of `conditions.py`.

question   = statistic [ "by" column { "," column } ] [ "where" condition ] | condition
statistic  = "count" | "mean" "of" column | "median" "of" column | "quantile" share "of" column
           | "correlation" "of" column "and" column
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from lookalike.errors import InputError
from lookalike.schema.binned import Binned
from lookalike.schema.conditions import Parser, Question, parsed
from lookalike.schema.schema import Schema

_EXAMPLE = (
    "Ask for instance: mean of age by sex where income = '>50K'; median of age; quantile 0.9 of age; "
    "correlation of age and hours; count by sex."
)


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
