"""Questions as texts: `count where age >= 30 and sex = F`. A small parser reads them; they are never run as code.

    question   = "count" [ "by" column { "," column } ] [ "where" condition ] | condition
    condition  = part { "or" part } ;  part = factor { "and" factor }
    factor     = "not" factor | "(" condition ")" | column comparison
    comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
               | "between" value "and" value | "is" [ "not" ] "missing"

Names and values with spaces or signs go in quotes of any kind. The answer of a condition is a weight for every cell
of the marginal on its columns: 1 inside, 0 outside, and the share of a bin that a bound cuts (values within a bin
count as evenly spread, though rows are made by a column's shape and rounding where it has them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.errors import InputError, ModelTooLargeError, SchemaError
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Categorical, Column, Ordinal
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema

MAX_CELLS = 20_000_000
_MAX_DEPTH = 50
_QUOTED = r"""\"[^"]*\"|'[^']*'|`[^`]*`"""
_SIGN = r"<=|>=|!=|<>|==|[=<>(),]"
_WORD = r"""[^\s=<>!(),"'`]+"""
_TOKEN = re.compile(rf"\s*(?:{_QUOTED}|{_SIGN}|{_WORD})")
_COMPARISONS = {"=", "==", "!=", "<>", "<", "<=", ">", ">="}


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """How many rows, by the values of some columns, among the rows that satisfy a condition.

    Attributes:
        text: the question as asked.
        by: columns whose values the counts are broken down by, in domain order; empty for one number.
        attrs: all columns of the question, in domain order.
        weights: share of each cell of the marginal on `attrs` that satisfies the condition.
    """

    text: str
    by: ColumnSet
    attrs: ColumnSet
    weights: np.ndarray

    @property
    def exact(self) -> bool:
        """False where a bound cuts a bin, so that the answer assumes that values in the bin are evenly spread."""
        return bool(np.all((self.weights == 0) | (self.weights == 1)))


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """A condition's weights over the cells of its columns."""

    attrs: ColumnSet
    values: np.ndarray


def parse_question(text: str, schema: Schema) -> Question:
    """The question that `text` asks of a table with this schema; an InputError that names what cannot be read."""
    return parsed(text, Parser(text, schema), schema.domain)


def parsed(text: str, parser: Parser, domain: Domain) -> Question:
    """The question that a parser reads, with all columns that it names."""
    by, found = parser.question()
    attrs = domain.canonical((*parser.columns, *by, *found.attrs))
    _check_cells(domain, attrs)
    weights = np.broadcast_to(_aligned(found, attrs, domain), domain.shape(attrs))
    return Question(text, domain.canonical(by), attrs, weights)


def cut_points(text: str, schema: Schema) -> dict[str, list[float]]:
    """Where the bounds in a condition cut the number lines of its columns, as lower edges of the parts above them.

    Bins that have these edges are never cut, so that the condition's weights are 0 or 1.
    """
    parser = Parser(text, schema)
    parser.question()
    cuts: dict[str, list[float]] = {}
    for part in parser.ranges:
        if isinstance(part.column, Binned):
            gap = 0.0 if part.column.tick is None else float(part.column.tick)
            ends = [] if part.low is None else [part.low + gap * part.low_open]
            ends += [] if part.high is None else [part.high + gap * (not part.high_open)]
            cuts.setdefault(part.column.name, []).extend(float(end) for end in ends)
    return cuts


class Parser:
    """Recursive descent over the tokens of one question.

    Attributes:
        ranges: the ranges of values that the question compares with.
        columns: columns that the question names before `by` and `where`.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, text: str, schema: Schema) -> None:
        self._schema = schema
        self._domain = schema.domain
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self.ranges: list[Range] = []

    def question(self) -> tuple[list[str], _Weights]:
        by: list[str] = []
        found = _Weights((), np.array(1.0))
        if self._tokens and not self._opening():
            found = self._condition()
        else:
            if self._word("by"):
                by = self._list(self._column)
            if self._word("where"):
                found = self._condition()
        if self._at < len(self._tokens):
            raise InputError(f"The question should end before {self._peek()!r}. {EXAMPLE}")
        return by, found

    def _opening(self) -> bool:
        """Read what is asked for; False where the question starts with a condition."""
        return self._word("count")

    def _condition(self) -> _Weights:
        parts = [self._part()]
        while self._word("or"):
            parts.append(self._part())
        return self._combined(parts, lambda one, two: 1.0 - (1.0 - one) * (1.0 - two))

    def _part(self) -> _Weights:
        factors = [self._factor()]
        while self._word("and"):
            factors.append(self._factor())
        kept = [factor for factor in factors if isinstance(factor, _Weights)]
        bounds: dict[str, Range] = {}
        for factor in factors:
            if isinstance(factor, Range):
                known = bounds.get(factor.column.name)
                bounds[factor.column.name] = known.meet(factor) if known else factor
        kept += [_Weights((name,), found.weights()) for name, found in bounds.items()]
        return self._combined(kept, lambda one, two: one * two)

    def _factor(self) -> _Weights | Range:
        if self._depth > _MAX_DEPTH:
            raise InputError(f"The question has more than {_MAX_DEPTH} nested parts; ask something simpler.")
        self._depth += 1
        try:
            if self._word("not"):
                inner = _as_weights(self._factor())
                return _Weights(inner.attrs, 1.0 - inner.values)
            if self._sign("("):
                inner = self._condition()
                self._expect(")")
                return inner
        finally:
            self._depth -= 1
        column = self._schema[self._column()]
        return self._comparison(column)

    def _comparison(self, column: Column) -> _Weights | Range:
        if self._word("is"):
            negated = self._word("not")
            if not (self._word("missing") or self._word("null")):
                raise InputError(f"After {column.name!r} is, 'missing' or 'not missing' is expected. {EXAMPLE}")
            return _column_weights(column, missing_codes(column), negated)
        if self._word("between"):
            low = self._value()
            if not self._word("and"):
                raise InputError(f"'between' needs two values joined by 'and'. {EXAMPLE}")
            return self._recorded(Range.of(column, ">=", low).meet(Range.of(column, "<=", self._value())))
        negated = self._word("not")
        if self._word("in"):
            self._expect("(")
            values = self._list(self._value)
            self._expect(")")
            return self._among(column, values, negated)
        sign = self._next()
        if negated or sign not in _COMPARISONS:
            raise InputError(f"After column {column.name!r} a comparison is expected, not {sign!r}. {EXAMPLE}")
        value = self._value()
        if sign in ("=", "==", "!=", "<>"):
            return self._among(column, [value], sign in ("!=", "<>"))
        return self._recorded(Range.of(column, sign, value))

    def _among(self, column: Column, values: list[str], negated: bool) -> _Weights:
        if isinstance(column, Binned):
            for value in values:
                if value not in column.missing:
                    self._recorded(Range(column, position_of(column, value), position_of(column, value)))
        return _column_weights(column, any_of(column, values), negated)

    def _recorded(self, found: Range) -> Range:
        self.ranges.append(found)
        return found

    def _combined(
        self, parts: Sequence[_Weights | Range], join: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> _Weights:
        whole = _as_weights(parts[0])
        for part in parts[1:]:
            other = _as_weights(part)
            attrs = self._domain.canonical((*whole.attrs, *other.attrs))
            _check_cells(self._domain, attrs)
            joined = join(_aligned(whole, attrs, self._domain), _aligned(other, attrs, self._domain))
            whole = _Weights(attrs, joined)
        return whole

    def _column(self) -> str:
        name = _unquoted(self._next())
        if name not in self._domain:
            raise InputError(f"No column {name!r}; the columns are {', '.join(self._domain.names)}.")
        if self._schema[name].derived:
            raise InputError(f"Column {name!r} is computed from others by a rule; ask about the columns of that rule.")
        return name

    def _value(self) -> str:
        token = self._next()
        if token in _COMPARISONS or token in ("(", ")", ","):
            raise InputError(f"A value is expected, not {token!r}. {EXAMPLE}")
        return _unquoted(token)

    def _list(self, item: Callable[[], str]) -> list[str]:
        items = [item()]
        while self._sign(","):
            items.append(item())
        return items

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise InputError(f"The question ends too early. {EXAMPLE}")
        self._at += 1
        return token

    def _word(self, word: str) -> bool:
        token = self._peek()
        found = token is not None and token.lower() == word
        self._at += found
        return found

    def _sign(self, sign: str) -> bool:
        found = self._peek() == sign
        self._at += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            raise InputError(f"{sign!r} is expected, not {self._peek() or 'the end'!r}. {EXAMPLE}")


EXAMPLE = "Ask for instance: count by sex where age >= 30 and not income in ('<=50K', other)."


def _column_weights(column: Column, shares: np.ndarray, negated: bool) -> _Weights:
    return _Weights((column.name,), 1.0 - shares if negated else shares)


def _as_weights(part: _Weights | Range) -> _Weights:
    return _Weights((part.column.name,), part.weights()) if isinstance(part, Range) else part


def _aligned(part: _Weights, attrs: ColumnSet, domain: Domain) -> np.ndarray:
    """The weights with one axis per column of `attrs`, of length 1 where they do not depend on it."""
    return part.values.reshape([domain.size(name) if name in part.attrs else 1 for name in attrs])


def _check_cells(domain: Domain, attrs: ColumnSet) -> None:
    cells = domain.cells(attrs)
    if cells > MAX_CELLS:
        raise ModelTooLargeError(
            f"A question about {len(attrs)} columns", cells, MAX_CELLS, "cells", "Ask about fewer columns at once."
        )


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise InputError(f"The question cannot be read from {text[at:].strip()[:20]!r} onwards. {EXAMPLE}")
        tokens.append(found.group().strip())
        at = found.end()
    return tokens


def _unquoted(token: str) -> str:
    return token[1:-1] if token[0] in "\"'`" and token[-1] == token[0] and len(token) > 1 else token


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Values of an ordered column between two ends, either of which may be left out (None) or not included."""

    column: Column
    low: float | int | None = None
    high: float | int | None = None
    low_open: bool = False
    high_open: bool = False

    @classmethod
    def of(cls, column: Column, sign: str, value: str) -> Range:
        position = position_of(column, value)
        if sign.startswith(">"):
            return cls(column, low=position, low_open=sign == ">")
        return cls(column, high=position, high_open=sign == "<")

    def meet(self, other: Range) -> Range:
        """The values in both ranges."""
        lows = [(r.low, r.low_open) for r in (self, other) if r.low is not None]
        highs = [(r.high, not r.high_open) for r in (self, other) if r.high is not None]
        low, low_open = max(lows) if lows else (None, False)
        high, high_closed = min(highs) if highs else (None, True)
        return Range(self.column, low, high, low_open, not high_closed)

    def weights(self) -> np.ndarray:
        """Share of every code's values that lie in the range; missing and other values never do."""
        column = self.column
        shares = np.zeros(column.size)
        if isinstance(column, Binned):
            (first, last), step = column.bin_ends(), 0.0 if column.tick is None else 1.0
        else:
            first = last = np.arange(column.regular)
            step = 1.0
        low = -np.inf if self.low is None else self._end(self.low, step if self.low_open else 0.0)
        high = np.inf if self.high is None else -self._end(-self.high, step if self.high_open else 0.0)
        overlap = np.minimum(last, high) - np.maximum(first, low) + step
        width = last - first + step
        # A bin of no width holds a single value; it is inside or it is not.
        inside = np.where(width > 0, overlap / np.where(width > 0, width, 1), (low <= first) & (first <= high))
        shares[: column.regular] = np.clip(inside, 0.0, 1.0)
        return shares

    def _end(self, value: float, gap: float) -> float:
        """The smallest value inside, in units of the column's ticks: `value` and `gap`, or the next tick above."""
        tick = self.column.tick if isinstance(self.column, Binned) else None
        if tick is None or tick == 1:
            return value + gap
        scaled = value / float(tick)
        nearest = round(scaled)
        return nearest + gap if abs(scaled - nearest) < 1e-6 else float(np.ceil(scaled))


def position_of(column: Column, value: str) -> float | int:
    """A value as a number that can be compared with the column's bins or positions."""
    if isinstance(column, Ordinal) and column.values is not None:
        if value in column.values:
            return column.values.index(value)
        raise _no_value(column, value)
    if isinstance(column, Binned):
        try:
            return column.internal(value)
        except SchemaError:
            kind = "whole number" if column.field_type == "integer" else column.field_type
            raise InputError(
                f"{value!r} is not a value of column {column.name!r}. Give a {kind} such as {column.minimum}."
            ) from None
    raise InputError(f"The values of column {column.name!r} have no order; compare with =, != or in.")


def any_of(column: Column, values: Sequence[str]) -> np.ndarray:
    """Share of every code whose value is one of `values`."""
    shares = np.zeros(column.size)
    for value in values:
        if value in column.missing:
            shares[column.missing_code(value)] = 1.0
        elif isinstance(column, Categorical):
            if column.values is not None and value in column.values:
                shares[column.values.index(value)] = 1.0
            elif column.has_other and value == column.other_label:
                shares[column.other_code] = 1.0
            else:
                raise _no_value(column, value)
        else:
            position = position_of(column, value)
            shares = np.minimum(1.0, shares + Range(column, position, position).weights())
    return shares


def _no_value(column: Categorical, value: str) -> InputError:
    values = column.values or ()
    listed = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
    return InputError(f"{value!r} is not among the {len(values)} values of column {column.name!r}: {listed}.")


def missing_codes(column: Column) -> np.ndarray:
    return (np.arange(column.size) >= column.size - len(column.missing)).astype(float)
