"""The noisy tables of a run as CSV files, with the variance of every number: what the door released, nothing fitted."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.measurements.marginals import NoisyMarginal
from lookalike.schema.schema import Schema

INDEX = "tables.csv"
_NAME = re.compile(r"[^\w-]+")


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
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(lines)
