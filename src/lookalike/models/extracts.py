"""What is taken from a stored model: rows in parts, rows under a condition, and its noisy tables as CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.measurements import NoisyMarginal
from lookalike.models.model import Model
from lookalike.schema import codec
from lookalike.schema.conditions import Question, cut_points, parse_question
from lookalike.schema.decode import decode
from lookalike.schema.documents import write_whole
from lookalike.schema.draw import Part
from lookalike.schema.enforce import cut_at
from lookalike.schema.schema import Schema

_MIN_SHARE = 1e-4
"""Smallest share of rows that satisfy a condition; below it, drawing rows until enough satisfy it takes too long."""
_MAX_ROUNDS = 1000
"""Rounds of drawing rows of cut bins before giving up."""
INDEX = "tables.csv"
_NAME = re.compile(r"[^\w-]+")


@dataclass(frozen=True, eq=False)
class RowParts:
    """A synthetic table in parts, each of which can be made alone, in any order and anywhere, with the same rows.

    Attributes:
        rows: number of rows of all parts.
        chunk: rows of a part; the last one may have fewer. A table of one part is that of `FittedModel.sample`.
        seed: of all random choices; without an entropy of its own it draws one, which is kept.
    """

    model: Model
    schema: Schema
    rows: int
    chunk: int
    seed: np.random.SeedSequence = field(default_factory=np.random.SeedSequence)

    def __len__(self) -> int:
        return -(-self.rows // self.chunk)

    def __getitem__(self, number: int) -> pa.Table:
        if not 0 <= number < len(self):
            raise IndexError(number)
        if len(self) == 1:
            rng = np.random.default_rng(self.seed)
            return decode(self.schema, self.model.sample(self.rows, rng), rng=rng)
        first = number * self.chunk
        rows = min(self.chunk, self.rows - first)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed.entropy, spawn_key=(number,)))
        codes = self._drawn(number, rows, rng) if self.apart else self._codes[first : first + rows]
        return decode(self.schema, codes, rng=rng, part=Part(first, self.rows, self._order))

    def __iter__(self) -> Iterator[pa.Table]:
        return map(self.__getitem__, range(len(self)))

    @property
    def apart(self) -> bool:
        """Whether each part is drawn for itself; where rows are the model, parts would repeat them."""
        return not hasattr(self.model, "codes")

    @property
    def structure(self) -> pa.Schema:
        """Names and types of the columns."""
        none = np.zeros((1, len(self.schema.columns)), np.int32, order="F")
        return decode(self.schema, none, rng=np.random.default_rng(0)).schema

    def _drawn(self, number: int, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of one part; models that choose rows with care do so in the first part, as they would in one table."""
        further = getattr(self.model, "further_rows", self.model.sample) if number else self.model.sample
        return further(rows, rng)

    @property
    def _order(self) -> tuple[int, ...]:
        return tuple(int(word) for word in self.seed.generate_state(4))

    @cached_property
    def _codes(self) -> np.ndarray:
        return self.model.sample(self.rows, np.random.default_rng(self._order))


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


def write_noisy_tables(folder: Path, schema: Schema, measurements: Sequence[NoisyMarginal]) -> list[Path]:
    """Write one CSV file per measurement and an index of all, and return their paths.

    Every file has a line per cell: the labels of its columns, the noisy number and its variance. Where cells were
    counted in groups, cells of one group share its number. Contrasts are without totals, so they may be negative.
    """
    if not measurements:
        raise InputError("The model holds no noisy tables: its method released none, or an older version stored it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        listed, paths = [], []
        for number, measured in enumerate(measurements, start=1):
            path = folder / f"{number:04d}-{_NAME.sub('_', '-'.join(measured.attrs))[:80] or 'total'}.csv"
            _write(path, (*measured.attrs, *_headings(measured)), _lines(schema, measured))
            kind = _headings(measured)[-2]
            listed.append((path.name, ", ".join(measured.attrs), kind, measured.cells, measured.stddev**2))
            paths.append(path)
        _write(folder / INDEX, ("file", "columns", "kind", "numbers", "variance"), listed)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}. Choose another place, or make room.") from None
    return [folder / INDEX, *paths]


def _headings(measured: NoisyMarginal) -> tuple[str, ...]:
    number = "contrast" if measured.contrasts is not None else "count"
    return ("group", f"{number} of group", "variance") if measured.groups is not None else (number, "variance")


def _lines(schema: Schema, measured: NoisyMarginal) -> Iterator[tuple[Any, ...]]:
    labels = [schema[name].labels() for name in measured.attrs]
    variance = measured.stddev**2
    for cell in np.ndindex(*(len(texts) for texts in labels)):
        place: Any = cell if measured.groups is None else int(measured.groups[cell])
        shown = () if measured.groups is None else (place,)
        texts = (texts[code] for texts, code in zip(labels, cell, strict=True))
        yield (*texts, *shown, float(measured.values[place]), variance)


def _write(path: Path, headings: Sequence[str], lines: Any) -> None:
    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(lines)
        text.detach()

    write_whole(path, write)
