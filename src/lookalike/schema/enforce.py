"""Enforces the rules of a schema: in the model where possible, else by changing generated values.

`structural_zeros` gives the impossible cells of marginals; a model that uses them never generates such rows. `repaired`
is applied last, before values are written: rows that break a rule, because the method used no structural zeros or
because values within bins are drawn one column at a time, get other values. No row is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.schema.binned import Binned
from lookalike.schema.cells import cell_numbers
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.conditions import cut_points, parse_question
from lookalike.schema.constraints import AtLeast, Determines, Never, Relation, Sum, holds, moved, relation_of, rule_text
from lookalike.schema.domain import ColumnSet
from lookalike.schema.draw import draw_numbers
from lookalike.schema.schema import Schema

T = TypeVar("T")
_REDRAWS = 8
"""How often numbers that break a comparison are drawn again before they are moved."""
_ROUNDS = 4
"""Rounds over all rules: a repair for one may break another."""
_RANDOM_ROWS = 2000
"""Rows drawn at random to find one that satisfies all rules, where no generated row does."""
MAX_ZERO_CELLS = 1_000_000
"""Larger tables of impossible cells would slow a model down; such rules are enforced on the rows instead."""

Numbers = dict[str, np.ndarray]
"""Ticks (or floats) of every binned column, by name."""


def aligned(schema: Schema) -> Schema:
    """The schema with bins cut where conditions of its rules cut them, so that no cell is cut.

    A schema with open facts is returned as it is; private discovery calls this when it has filled them.
    """
    if schema.open_facts or not schema.constraints:
        return schema
    cuts: dict[str, set[float]] = {}
    for rule in schema.constraints:
        if isinstance(rule, Never):
            for name, points in (_asked(schema, rule, cut_points) or {}).items():
                cuts.setdefault(name, set()).update(points)
    return cut_at(schema, cuts)


def cut_at(schema: Schema, cuts: Mapping[str, Iterable[float]]) -> Schema:
    """The schema with bins of numbers and times cut at these points, given as internal numbers."""
    return schema.with_columns([_cut(schema[name], set(points)) for name, points in cuts.items()])


def _cut(column: Column, points: set[float]) -> Column:
    if not isinstance(column, Binned):
        return column
    low, high = column.internal(column.minimum), column.internal(column.maximum)
    edges = sorted({*column.edges.tolist(), *(point for point in points if low < point <= high)})
    if len(edges) == column.regular:
        return column
    pieces = dict(column.shape)
    if pieces:
        # A piece that is cut gives each part its share of the weight by width.
        known = sorted(column.internal(edge) for edge in pieces)
        for edge in edges:
            if edge not in known:
                below = max(k for k in known if k < edge)
                above = min([k for k in known if k > edge], default=high)
                weight = pieces[column.external(below)]
                share = (edge - below) / max(above - below, 1e-300)
                pieces[column.external(below)], pieces[column.external(edge)] = weight * share, weight * (1 - share)
                known = sorted([*known, edge])
    shape = tuple(sorted(pieces.items(), key=lambda item: column.internal(item[0])))
    return replace(column, bins=tuple(column.external(edge) for edge in edges), shape=shape)


def structural_zeros(schema: Schema) -> dict[ColumnSet, np.ndarray]:
    """For each column set of a rule, in domain order, a boolean table that is True in impossible cells."""
    zeros: dict[ColumnSet, np.ndarray] = {}
    for rule in schema.constraints:
        found = _zeros_of(schema, rule)
        if found is not None and found[1].any():
            attrs, mask = found
            if mask.all():
                raise SchemaError(f"The rule '{rule_text(rule)}' forbids every row. Correct it or remove it.")
            zeros[attrs] = zeros[attrs] | mask if attrs in zeros else mask
    return zeros


def check_rules(schema: Schema) -> None:
    """Refuse rules that cannot be read or forbid every row, before anything is spent; not while facts are open."""
    if not schema.open_facts:
        structural_zeros(schema)


def _zeros_of(schema: Schema, rule: object) -> tuple[ColumnSet, np.ndarray] | None:
    if isinstance(rule, Never):
        question = _asked(schema, rule, parse_question)
        return None if question is None or not question.attrs else (question.attrs, np.asarray(question.weights) == 1.0)
    if isinstance(rule, AtLeast):
        relation = relation_of(schema.columns, rule)
        if schema.domain.cells(rule.columns) > MAX_ZERO_CELLS:
            return None
        (_, largest), (smallest, _) = relation.bin_ranges(rule.larger), relation.bin_ranges(rule.smaller)
        impossible = largest[:, None] < smallest[None, :] + (1 if rule.strict and relation.exact else 0)
        return _padded(schema, (rule.larger, rule.smaller), impossible)
    if isinstance(rule, Determines):
        source, target = schema[rule.source], schema[rule.target]
        mask = np.zeros((source.size, target.size), dtype=bool)
        for code, (wanted, _) in _determined(schema, rule).items():
            mask[code] = np.arange(target.size) != wanted
        return _padded(schema, (rule.source, rule.target), mask)
    return None


def _padded(schema: Schema, names: tuple[str, str], mask: np.ndarray) -> tuple[ColumnSet, np.ndarray]:
    """The mask over all codes of two columns, axes in domain order; codes beyond the bins are never impossible."""
    full = np.zeros((schema[names[0]].size, schema[names[1]].size), dtype=bool)
    full[: mask.shape[0], : mask.shape[1]] = mask
    attrs = schema.domain.canonical(names)
    return attrs, full if attrs == names else full.T


def _asked(schema: Schema, rule: Never, ask: Callable[[str, Schema], T]) -> T | None:
    """What `ask` returns for the rule's condition; None where it names values that discovery did not find."""
    try:
        return ask(rule.condition, schema)
    except InputError as error:
        if any(column.fact("values") == "measured" for column in schema.columns if isinstance(column, Categorical)):
            return None
        raise SchemaError(f"The rule 'never: {rule.condition}' cannot be read. {error}") from None


def _determined(schema: Schema, rule: Determines) -> dict[int, tuple[int, str]]:
    """Code and text of the target for every listed code of the source."""
    codes: dict[int, tuple[int, str]] = {}
    for value, wanted in rule.table:
        source, target = _code(schema[rule.source], value), _code(schema[rule.target], wanted)
        if source is not None and target is not None:
            codes[source] = target, wanted
    return codes


def _code(column: Column, value: str) -> int | None:
    if value in column.missing:
        return column.missing_code(value)
    if isinstance(column, Binned):
        number = column.internal(value)
        inside = column.internal(column.minimum) <= number <= column.internal(column.maximum)
        return int(np.searchsorted(column.edges, number, side="right")) - 1 if inside else None
    values = column.values or () if isinstance(column, Categorical) else ()
    return values.index(value) if value in values else None


def repaired(
    schema: Schema, codes: np.ndarray, numbers: Numbers, rng: np.random.Generator
) -> tuple[np.ndarray, Numbers]:
    """Codes and numbers with which every rule holds in every row.

    Rows that cannot be repaired are replaced by copies of valid rows; where no row is valid, of random valid rows.

    Raises:
        SchemaError: no row satisfies all rules; they contradict each other.
    """
    rows = donors = _Rows(schema, codes.copy(), {name: values.copy() for name, values in numbers.items()})
    broken = rows.repair(rng)
    if not broken.any():
        return rows.codes, rows.numbers
    valid = np.flatnonzero(~broken)
    if not valid.size:
        donors = _random_rows(schema, rng)
        valid = np.flatnonzero(~donors.repair(rng))
    if not valid.size:
        raise SchemaError("No row satisfies all rules of the schema: they contradict each other. Remove one of them.")
    taken = rng.choice(valid, int(broken.sum()))
    rows.codes[broken] = donors.codes[taken]
    for name, values in rows.numbers.items():
        values[broken] = donors.numbers[name][taken]
    return rows.codes, rows.numbers


def broken_rows(schema: Schema, codes: np.ndarray, numbers: Numbers) -> np.ndarray:
    """Which rows break a rule of the schema, as booleans."""
    return _Rows(schema, codes, numbers).broken()


def drawn_numbers(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> Numbers:
    """Numbers within the bins of all binned columns; for other codes a number of the first bin, which is not used."""
    return {
        column.name: draw_numbers(column, np.where(codes[:, i] < column.regular, codes[:, i], 0), rng)
        for i, column in enumerate(schema.columns)
        if isinstance(column, Binned)
    }


def _random_rows(schema: Schema, rng: np.random.Generator) -> _Rows:
    """Rows of uniformly random codes, with numbers within their bins."""
    codes = np.column_stack([rng.integers(0, column.size, _RANDOM_ROWS) for column in schema.columns])
    return _Rows(schema, codes.astype(np.int32), drawn_numbers(schema, codes, rng))


class _Rows:
    """Generated rows with the rules of their schema; `repair` changes the rows in place."""

    def __init__(self, schema: Schema, codes: np.ndarray, numbers: Numbers) -> None:
        self.schema, self.codes, self.numbers = schema, codes, numbers
        self.place = schema.domain.position
        self.zeros = structural_zeros(schema)
        rules = schema.constraints
        self.relations = [relation_of(schema.columns, rule) for rule in rules if isinstance(rule, AtLeast | Sum)]
        self.determines = [rule for rule in rules if isinstance(rule, Determines)]

    def repair(self, rng: np.random.Generator) -> np.ndarray:
        """Change codes and numbers until every rule holds, for some rounds; return which rows are still broken."""
        for _ in range(_ROUNDS):
            for attrs, mask in self.zeros.items():
                self._replace_impossible(attrs, mask, rng)
            for rule in self.determines:
                self._set_determined(rule)
            for relation in self.relations:
                self._keep_relation(relation, rng)
            if not self.broken().any():
                break
        return self.broken()

    def broken(self) -> np.ndarray:
        """Which rows break a rule."""
        broken = np.zeros(len(self.codes), dtype=bool)
        for attrs, mask in self.zeros.items():
            broken |= self._in_cells(attrs, mask)
        for rule in self.determines:
            wanted, number = self._wanted(rule)
            broken |= (wanted >= 0) & (wanted != self.codes[:, self.place(rule.target)])
            if rule.target in self.numbers:
                has_number = (wanted >= 0) & (wanted < self.schema[rule.target].regular)
                broken |= has_number & (number != self.numbers[rule.target])
        for relation in self.relations:
            broken |= ~holds(relation, self.codes, self.numbers)
        return broken

    def _in_cells(self, attrs: ColumnSet, mask: np.ndarray) -> np.ndarray:
        """Which rows lie in cells that the mask marks."""
        return mask[tuple(self.codes[:, self.place(name)] for name in attrs)]

    def _replace_impossible(self, attrs: ColumnSet, mask: np.ndarray, rng: np.random.Generator) -> None:
        """Give rows in impossible cells the last column of a possible row with the same others, or all columns."""
        bad = self._in_cells(attrs, mask)
        if not bad.any() or bad.all():
            return
        keys = cell_numbers(self.codes, [self.place(name) for name in attrs[:-1]], self.schema.domain.sizes)
        good, rows = np.flatnonzero(~bad), np.flatnonzero(bad)
        order = good[np.argsort(keys[good], kind="stable")]
        first = np.searchsorted(keys[order], keys[rows], side="left")
        after = np.searchsorted(keys[order], keys[rows], side="right")
        matched = after > first
        picks = first + (rng.random(len(rows)) * (after - first)).astype(np.int64)
        donors = np.where(matched, order[np.minimum(picks, len(order) - 1)], rng.choice(good, len(rows)))
        for name in attrs:
            given = np.ones(len(rows), dtype=bool) if name == attrs[-1] else ~matched
            for values in (self.codes[:, self.place(name)], self.numbers.get(name)):
                if values is not None:
                    values[rows[given]] = values[donors[given]]

    def _wanted(self, rule: Determines) -> tuple[np.ndarray, np.ndarray]:
        """Code and number of the target that each row's source determines; code -1 where it determines none."""
        source, target = self.schema[rule.source], self.schema[rule.target]
        table = np.full(source.size, -1, dtype=np.int64)
        value = np.zeros(source.size, dtype=np.int64 if getattr(target, "tick", 1) is not None else np.float64)
        for code, (wanted, text) in _determined(self.schema, rule).items():
            table[code] = wanted
            if isinstance(target, Binned) and wanted < target.regular:
                number = target.internal(text)
                value[code] = number if target.tick is None else target.nearest_tick(number)
        codes = self.codes[:, self.place(rule.source)]
        return table[codes], value[codes]

    def _set_determined(self, rule: Determines) -> None:
        wanted, value = self._wanted(rule)
        rows = wanted >= 0
        self.codes[rows, self.place(rule.target)] = wanted[rows]
        if rule.target in self.numbers:
            self.numbers[rule.target][rows] = value[rows]

    def _keep_relation(self, relation: Relation, rng: np.random.Generator) -> None:
        """Draw numbers again where the relation is broken and bins allow it; move numbers where that does not help."""
        for _ in range(_REDRAWS if isinstance(relation.rule, AtLeast) else 0):
            rows = np.flatnonzero(~holds(relation, self.codes, self.numbers))
            if not rows.size:
                return
            for column in relation.columns:
                bins = np.minimum(self.codes[rows, self.place(column.name)], column.regular - 1)
                self.numbers[column.name][rows] = draw_numbers(column, bins, rng)
        rows = np.flatnonzero(~holds(relation, self.codes, self.numbers))
        if not rows.size:
            return
        new = moved(relation, {name: self.numbers[name][rows] for name in relation.names})
        for column in relation.columns:
            values = new[column.name]
            self.numbers[column.name][rows] = values
            bins = np.searchsorted(column.edges, column.numbers_at(values), side="right") - 1
            self.codes[rows, self.place(column.name)] = bins
