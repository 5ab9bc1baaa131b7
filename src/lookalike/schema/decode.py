"""Codes to values: a table with the same column names, Arrow types, formats and missing markers as the original.

It reads no data; `codec.py` is the way from values to codes. Before values are written, `repaired` changes rows until
every rule of the schema holds, and computes the columns that rules compute: rows that break a rule, because the method
used no structural zeros (`enforce.py`) or because values within bins are drawn one column at a time, get other values.
No row is dropped.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime
from lookalike.schema.bins import Binned
from lookalike.schema.codec import decode_categorical, marker_values, work_kind
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.constraints import AtLeast, ClockSum, Determines, Parts, Relation, Sum, holds, moved
from lookalike.schema.domain import ColumnSet, cell_numbers
from lookalike.schema.draw import Part, draw_identifiers, draw_numbers, places_within_bins
from lookalike.schema.enforce import Numbers, Rows, ticks_of_one
from lookalike.schema.parts import SETTABLE, from_zone, in_zone, part_of, with_parts
from lookalike.schema.schema import Schema
from lookalike.schema.storage import storage_type, to_array, whole_range
from lookalike.schema.times import TICKS


def decode(schema: Schema, codes: np.ndarray, *, rng: np.random.Generator, part: Part | None = None) -> pa.Table:
    """A table whose values have these codes and satisfy the schema's rules. `rng` chooses the values within bins.

    Where codes or values within bins break a rule, values are changed until it holds: see `repaired`. `part` says which
    rows of a larger table these are.
    """
    numbers = drawn_numbers(schema, codes, rng)
    if schema.constraints:
        codes, numbers = repaired(schema, codes, numbers, rng)
    arrays = [
        _decode_binned(column, codes[:, i], numbers[column.name], storage_type(column))
        if isinstance(column, Binned)
        else decode_column(column, codes[:, i], rng=rng, part=part)
        for i, column in enumerate(schema.columns)
    ]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def check_decodable(schema: Schema) -> None:
    """Decode rows with the lowest, middle and highest codes, so that a schema that cannot be decoded fails now."""
    sizes = np.array(schema.domain.sizes)
    codes = np.stack([0 * sizes, sizes // 2, sizes - 1]).astype(np.int32)
    with np.errstate(all="raise"):
        decode(schema, np.asfortranarray(codes), rng=np.random.default_rng(0))


def decode_column(column: Column, codes: np.ndarray, *, rng: np.random.Generator, part: Part | None = None) -> pa.Array:
    """Values of one column, in its storage type."""
    kind = storage_type(column)
    if isinstance(column, Binned):
        bins = np.where(codes < column.regular, codes, 0)
        return _decode_binned(column, codes, draw_numbers(column, bins, rng), kind)
    if isinstance(column, Categorical):
        return decode_categorical(column, codes, kind)
    if isinstance(column, Identifier):
        return _with_markers(column, draw_identifiers(column, len(codes), work_kind(kind), rng, part), codes, kind)
    raise SchemaError(f"Column {column.name!r} has the unknown kind {type(column).__name__}.")


def _decode_binned(column: Binned, codes: np.ndarray, numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(codes))
    regular = codes < column.regular
    try:
        array = to_array(column, numbers, ~regular, work_kind(kind))
    except pa.ArrowInvalid:
        raise SchemaError(
            f"Column {column.name!r} is stored as {kind}, which cannot hold all values between {column.minimum} and "
            f"{column.maximum}. Narrow the bounds or change the storage type."
        ) from None
    return _with_markers(column, array, codes, kind)


def _with_markers(column: Column, array: pa.Array, codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    """The array with missing markers where the codes say so, in the storage type."""
    regular = codes < column.regular
    if column.missing and not regular.all():
        markers = marker_values(column, array.type).take(pa.array(np.where(regular, 0, codes - column.regular)))
        array = pc.if_else(pa.array(regular), array, markers)
    return array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array.cast(kind)


_REDRAWS = 8
"""How often numbers that break a comparison are drawn again before they are moved."""
_ROUNDS = 4
"""Rounds over all rules: a repair for one may break another."""
_RANDOM_ROWS = 2000
"""Rows drawn at random to find one that satisfies all rules, where no generated row does."""


def repaired(
    schema: Schema, codes: np.ndarray, numbers: Numbers, rng: np.random.Generator
) -> tuple[np.ndarray, Numbers]:
    """Codes and numbers with which every rule holds in every row.

    Rows that cannot be repaired are replaced by copies of valid rows; where no row is valid, of random valid rows.

    Raises:
        SchemaError: no row satisfies all rules; they contradict each other.
    """
    rows = donors = _Repair(schema, codes.copy(), {name: values.copy() for name, values in numbers.items()})
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


def drawn_numbers(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> Numbers:
    """Numbers within the bins of all binned columns; for other codes a number of the first bin, which is not used."""
    places = places_within_bins(schema, codes, rng)
    return {
        column.name: draw_numbers(
            column, np.where(codes[:, i] < column.regular, codes[:, i], 0), rng, places.get(column.name)
        )
        for i, column in enumerate(schema.columns)
        if isinstance(column, Binned)
    }


def _random_rows(schema: Schema, rng: np.random.Generator) -> _Repair:
    """Rows of uniformly random codes, with numbers within their bins."""
    codes = np.column_stack([rng.integers(0, column.size, _RANDOM_ROWS) for column in schema.columns])
    return _Repair(schema, codes.astype(np.int32), drawn_numbers(schema, codes, rng))


class _Repair(Rows):
    """Generated rows; `repair` changes them in place."""

    def repair(self, rng: np.random.Generator) -> np.ndarray:
        """Change codes and numbers until every rule holds, for some rounds; return which rows are still broken."""
        for _ in range(_ROUNDS):
            for attrs, mask in self.zeros.items():
                self._replace_impossible(attrs, mask, rng)
            for relation in self.relations:
                self._keep_relation(relation, rng)
            for rule in self.tables:
                self._set_determined(rule)
            for rule in self.parts:
                self._set_parts(rule)
            for rule in self.clocks:
                self._set_clock(rule)
            if not self.broken().any():
                break
        return self.broken()

    def _replace_impossible(self, attrs: ColumnSet, mask: np.ndarray, rng: np.random.Generator) -> None:
        """Give rows in impossible cells the last column of a possible row with the same others, or all columns."""
        bad = self.in_cells(attrs, mask)
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

    def _set_determined(self, rule: Determines) -> None:
        wanted, value = self.wanted(rule)
        rows = wanted >= 0
        self.codes[rows, self.place(rule.target)] = wanted[rows]
        if rule.target in self.numbers:
            self.numbers[rule.target][rows] = value[rows]

    def _set_parts(self, rule: Parts) -> None:
        """Give times the parts that are modelled, and all columns of parts those of the times.

        A time that the rule computes is missing where one of these parts is; a computed part, where the time is.
        """
        kept = {part: name for part, name in rule.parts if not self.schema[name].derived and part in SETTABLE}
        known = {name: self.present(name) for name in (rule.time, *kept.values())}
        time = cast(Datetime, self.schema[rule.time])
        if time.derived:
            known[rule.time] = np.all([known[name] for name in kept.values()], axis=0)
        both = {part: known[name] & known[rule.time] for part, name in kept.items()}
        own = in_zone(self.numbers[rule.time] * TICKS[time.resolution], rule.zone)
        given = {p: np.where(both[p], self.whole(name), part_of(own, p)) for p, name in kept.items()}
        micros = from_zone(with_parts(own, given), rule.zone)
        low, high = time.tick_ranges()[0][0], time.tick_ranges()[1][-1]
        ticks = micros // TICKS[time.resolution]
        self._write(time, ticks if time.derived else ticks.clip(low, high), known[rule.time])
        wall = in_zone(self.numbers[rule.time] * TICKS[time.resolution], rule.zone)
        for part, name in rule.parts:
            column = cast(Binned, self.schema[name])
            there = known[rule.time] if column.derived else known[rule.time] & self.present(name)
            ticks = part_of(wall, part) * ticks_of_one(column)
            old = self.numbers[name]
            self._write(column, np.where(there, ticks, old), there if column.derived else self.present(name))

    def _set_clock(self, rule: ClockSum) -> None:
        """Give rows the time of day that follows from the others; midnight is 2400 where the column has no 0."""
        total = cast(Binned, self.schema[rule.total])
        wanted, known = self.clock_of(rule)
        clock = 100 * (wanted // 60) + wanted % 60
        clock[(clock == 0) & (total.internal(total.minimum) > 0)] = 2400
        held = known if total.derived else self.present(rule.total)
        numbers = np.where(known & held, clock * ticks_of_one(total), self.numbers[rule.total])
        self._write(total, numbers, held)

    def _write(self, column: Binned, numbers: np.ndarray, known: np.ndarray) -> None:
        """Set numbers and codes of a column; rows that are not known are missing where the column can be."""
        if isinstance(column, Continuous | Datetime):
            self.numbers[column.name] = numbers
        else:
            low, high = whole_range(column)
            self.numbers[column.name] = numbers.clip(max(low, -(2**62)), min(high, 2**62))
        bins = np.searchsorted(column.edges, column.numbers_at(self.numbers[column.name]), side="right") - 1
        code = column.missing_code()
        codes = self.codes[:, self.place(column.name)]
        unknown = codes if code is None else np.where(codes < column.regular, code, codes)
        self.codes[:, self.place(column.name)] = np.where(known, bins.clip(0, column.regular - 1), unknown)

    def _keep_relation(self, relation: Relation, rng: np.random.Generator) -> None:
        """Compute a derived total. Draw other numbers again where the relation is broken and bins allow it; move
        numbers where that does not help."""
        total = relation.columns[0]
        if total.derived and isinstance(relation.rule, Sum):
            shared = np.sum([relation.to_shared(name, self.numbers[name]) for name in relation.rule.terms], axis=0)
            known = np.all([self.present(name) for name in relation.rule.terms], axis=0)
            self._write(total, relation.to_ticks(total.name, shared, bounded=False), known)
            return
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
