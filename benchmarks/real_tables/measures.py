"""How a synthetic table differs from the real one, as somebody who opens both in a spreadsheet would see it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from benchmarks.common import Line
from benchmarks.real_tables.kinds import ENOUGH, Column, Table, column_of

QUANTILES = 16
SPIKE = 0.03
MINORITY_SHARE, MINORITY_ROWS = 0.05, 100
TAILS = (0.001, 0.999)
FACTOR = 3.0
COMPLETE_ROWS = 30
TEXT = "text"


def distance(real: np.ndarray, made: np.ndarray) -> float:
    """Total variation distance of two columns of cells."""
    cells = pd.factorize(np.concatenate([real, made]))[0]
    size = int(cells.max()) + 1 if len(cells) else 1
    first, second = np.bincount(cells[: len(real)], minlength=size), np.bincount(cells[len(real) :], minlength=size)
    return float(np.abs(first / max(1, len(real)) - second / max(1, len(made))).sum() / 2)


def cells_of(real: Column, made: Column) -> tuple[np.ndarray, np.ndarray]:
    """Both columns in the cells over which they are compared.

    Categories: each text, and one cell for all markers of missing values. Numbers and times: each value of at least 3 %
    of the real rows, 16 quantiles of the other real values, missing, and what is not a number or time at all.
    """
    if real.kind not in ("number", "time"):
        return real.texts, made.texts
    present = real.values[np.isfinite(real.values)]
    found, counts = np.unique(present, return_counts=True)
    spikes = found[counts >= SPIKE * len(real.values)]
    rest = present[~np.isin(present, spikes)]
    steps = np.linspace(0, 1, QUANTILES + 1)[1:-1]
    edges = np.unique(np.quantile(rest, steps, method="lower")) if len(rest) else np.zeros(0)
    first, second = (_cells(column, spikes, edges) for column in (real, made))
    return first, second


def _cells(column: Column, spikes: np.ndarray, edges: np.ndarray) -> np.ndarray:
    cells = np.searchsorted(edges, column.values, side="left")
    place = np.searchsorted(spikes, column.values) if len(spikes) else np.zeros(len(cells), dtype=int)
    if len(spikes):
        place = np.minimum(place, len(spikes) - 1)
        cells = np.where(spikes[place] == column.values, -10 - place, cells)
    cells = np.where(np.isfinite(column.values), cells, -2)
    return np.where(column.missing, -1, cells)


def varies(column: Column) -> bool:
    """Whether at least 5 % and 100 rows hold another value than the most frequent one; missing is a value."""
    minority = len(column.texts) - int(np.bincount(pd.factorize(column.texts)[0]).max())
    return minority >= MINORITY_ROWS and minority >= MINORITY_SHARE * len(column.texts)


def constant(column: Column) -> bool:
    return len(set(column.texts)) <= 1


def became_text(real: Column, made: Column) -> bool:
    """Whether a column of numbers or times has clearly fewer of them in the synthetic table."""
    return made.read < min(ENOUGH, real.read - 0.05)


def width_ratio(real: Column, made: Column) -> float:
    """Width of the synthetic range between the 0.1 % and 99.9 % quantiles, divided by that of the real one.

    Two ranges of width zero at the same value have ratio 1; a range of width zero in one table alone, another constant,
    ranges without overlap and a column without any number have ratio 0 or infinity.
    """
    if not np.isfinite(made.values).any():
        return 0.0
    (low, high), (least, most) = (np.nanquantile(column.values, TAILS) for column in (real, made))
    if high == low:
        return 1.0 if least == most == low else np.inf
    return 0.0 if least > high or most < low else float((most - least) / (high - low))


def correlations(columns: dict[str, Column]) -> pd.DataFrame:
    """Pearson's correlation of all pairs of numbers over the rows that have both; NaN below 30 rows or if constant."""
    return pd.DataFrame({name: column.values for name, column in columns.items()}).corr(min_periods=COMPLETE_ROWS)


def correlation_difference(real: dict[str, Column], made: dict[str, Column]) -> tuple[float, int]:
    """Mean absolute difference over all pairs that have a correlation in the real table, and their number.

    A pair without one in the synthetic table, for a constant or a text, counts as uncorrelated there.
    """
    numbers = [name for name, column in real.items() if column.kind == "number"]
    with np.errstate(all="ignore"):
        first, second = (correlations({n: table[n] for n in numbers}).to_numpy() for table in (real, made))
    upper = np.triu(np.ones(first.shape, dtype=bool), 1) & np.isfinite(first) if numbers else np.zeros((0, 0), bool)
    if not upper.any():
        return 0.0, 0
    return float(np.abs(first - np.nan_to_num(second))[upper].mean()), int(upper.sum())


def shape_of(text: str) -> str:
    """How a value is written: runs of digits and of letters as one character each; 0, 1, 2 or more decimals differ."""
    short = re.sub(r"\.(\d+)", lambda found: "." + "9" * min(3, len(found[1])), text.strip())
    short = re.sub(r"(?<![.\d])\d+", "9", short)
    return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", short))


def shapes_kept(real: Column, made: Column) -> float:
    """One minus the distance of the ways of writing, over values that are not missing."""
    shapes = []
    for column in (real, made):
        codes, uniques = pd.factorize(column.texts[~column.missing])
        shapes.append(np.array([shape_of(str(text)) for text in uniques], dtype=object)[codes])
    if not len(shapes[0]) or not len(shapes[1]):
        return 1.0 if len(shapes[0]) == len(shapes[1]) else 0.0
    return 1 - distance(shapes[0], shapes[1])


def column_measures(real: Column, made: Column) -> Line:
    """All measures of one column."""
    line: Line = {
        "kind": real.kind,
        "missing": round(float(made.missing.mean() - real.missing.mean()), 4),
        "varies": varies(real),
        "constant": constant(made),
    }
    if real.kind in ("number", "time"):
        line["text"] = became_text(real, made)
        line["width"] = None if line["text"] else float(f"{width_ratio(real, made):.4g}")
    if real.kind != TEXT:
        line["oneway"] = round(distance(*cells_of(real, made)), 4)
    if real.kind not in ("category", "boolean"):
        line["shapes"] = round(shapes_kept(real, made), 4)
    return line


def range_off(column: Line) -> bool:
    """Whether a number kept its form, but its range is off by more than a factor of three."""
    width = column.get("width")
    # Widths are stored with four digits: exactly a third is not off.
    return width is not None and not float(f"{1 / FACTOR:.4g}") <= width <= FACTOR


def table_measures(real: Table, made: Table) -> Line:
    """Measures of a whole table, and of each of its columns."""
    first = {name: column_of(texts) for name, texts in real.items()}
    second = {name: column_of(texts, first[name].kind) for name, texts in made.items()}
    columns = {name: column_measures(first[name], second[name]) for name in real}
    difference, pairs = correlation_difference(first, second)
    return {
        "rows": [len(next(iter(table.values()))) for table in (real, made)],
        **summary(columns),
        "correlations": round(difference, 4),
        "pairs": pairs,
        "by_column": columns,
    }


def mean(values: list[float]) -> float | None:
    return round(float(np.mean(values)), 4) if values else None


def summary(columns: dict[str, Line]) -> Line:
    """The counts and means over the columns of a table."""
    lines = list(columns.values())
    numbers = [line for line in lines if line["kind"] == "number"]
    oneway = [line["oneway"] for line in lines if "oneway" in line]
    shapes = [line["shapes"] for line in lines if "shapes" in line]
    return {
        "columns": len(lines),
        "varying": sum(line["varies"] for line in lines),
        "made_constant": sum(line["varies"] and line["constant"] for line in lines),
        "numbers": len(numbers),
        "made_text": sum(line["text"] for line in numbers),
        "range_off": sum(range_off(line) for line in numbers),
        "times": sum(line["kind"] == "time" for line in lines),
        "times_off": sum(line["text"] or range_off(line) for line in lines if line["kind"] == "time"),
        "oneway": mean(oneway),
        "compared": len(oneway),
        "missing": mean([abs(line["missing"]) for line in lines]),
        "shapes": mean(shapes),
    }
