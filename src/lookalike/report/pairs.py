"""How strongly columns are associated in a model, and tables of the strongest pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from lookalike.models.intervals import ErrorBars
from lookalike.models.model import Model
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Column, Ordinal
from lookalike.schema.schema import Schema

_MAX_MAP_COLUMNS = 32
_MAX_PAIR_ROWS, _MAX_PAIR_COLUMNS = 16, 8
_PAIRS = 6
MAX_PAIR_CELLS = 1_000_000

Numbers = dict[str, Any]
Pair = tuple[str, str]


def pair_numbers(schema: Schema, model: Model, bars: ErrorBars) -> tuple[Numbers, list[Numbers]]:
    """Return the association of all pairs of the first columns in the model, and the tables of the strongest pairs."""
    modelled = [column.name for column in schema.columns if not column.derived]
    names = modelled[:_MAX_MAP_COLUMNS]
    pairs = list(combinations(names, 2))
    computed = [pair for pair in pairs if schema.domain.cells(pair) <= MAX_PAIR_CELLS]
    tables = dict(zip(computed, model.marginals(computed), strict=True)) if computed else {}
    strength = {pair: corrected_v(table, model.total) for pair, table in tables.items()}
    measured = {pair: any(set(pair) <= set(m.attrs) for m in bars.measurements) for pair in pairs}
    # Rounded, since a stored model may sum in another order: ties stay in the order of the schema.
    strongest = sorted((p for p in computed if strength[p] > 0.005), key=lambda p: -round(strength[p], 6))[:_PAIRS]
    association = {
        "names": names,
        "cut": len(names) < len(modelled),
        "values": _square(names, {pair: round(value, 4) for pair, value in strength.items()}, 1.0),
        "measured": _square(names, measured, False),
        "pairs": len(pairs),
        "pairs_measured": sum(measured.values()),
        "pairs_left_out": len(pairs) - len(computed),
    }
    return association, [_pair(schema, pair, tables[pair], strength[pair], measured[pair]) for pair in strongest]


def corrected_v(counts: np.ndarray, rows: float) -> float:
    """Return Cramer's V of a two-way table of counts, corrected for the association that chance makes (Bergsma 2013).

    In a table of n rows, independent columns of r and c values have chi^2 / n of about (r - 1)(c - 1) / (n - 1), which
    is large where there are many values. It is subtracted, and r and c are reduced likewise. Empty rows and columns do
    not count. The result is close to 1 if one column determines the other, and 0 for independent columns or one value.

    >>> corrected_v(np.array([[500, 0], [0, 500]]), 1000) > 0.99, corrected_v(np.array([[4, 4], [2, 2]]), 12)
    (True, 0.0)
    """
    chi, one, two = _chi_square(counts)
    if min(one, two) < 2 or rows <= 1:
        return 0.0
    chi = max(0.0, chi - (one - 1) * (two - 1) / (rows - 1))
    free = min(one - (one - 1) ** 2 / (rows - 1), two - (two - 1) ** 2 / (rows - 1)) - 1
    return float(np.sqrt(min(1.0, chi / free))) if free > 0 else 0.0


def cramers_v(counts: np.ndarray) -> float:
    """Return Cramer's V of a two-way table of counts: sqrt(chi^2 / (n * (min(r, c) - 1))).

    Empty rows and columns do not count. It is 1 if one column determines the other, and 0 for independent columns or if
    a column has one value.

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[4, 4], [2, 2]]))
    (1.0, 0.0)
    """
    chi, one, two = _chi_square(counts)
    return float(np.sqrt(min(1.0, chi / (min(one, two) - 1)))) if min(one, two) > 1 else 0.0


def _chi_square(counts: np.ndarray) -> tuple[float, int, int]:
    """Chi-square per row of a two-way table, and its numbers of rows and columns that are not empty."""
    counts = counts[counts.sum(axis=1) > 1e-9][:, counts.sum(axis=0) > 1e-9]
    if not counts.size:
        return 0.0, 0, 0
    shares = counts / counts.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(((shares - expected) ** 2 / expected).sum()), *counts.shape


def _square(names: list[str], values: dict[Pair, Any], diagonal: Any) -> list[list[Any]]:
    empty = type(diagonal)()
    return [
        [diagonal if one == two else values.get((one, two), values.get((two, one), empty)) for two in names]
        for one in names
    ]


def _pair(schema: Schema, pair: Pair, table: np.ndarray, association: float, measured: bool) -> Numbers:
    """Return the table of one pair as shares of each row; the column with fewer values is the heading."""
    rows, columns = pair
    if table.shape[1] > table.shape[0]:
        rows, columns, table = columns, rows, table.T
    down, row_labels = _merged(schema[rows], table.sum(axis=1), _MAX_PAIR_ROWS)
    across, column_labels = _merged(schema[columns], table.sum(axis=0), _MAX_PAIR_COLUMNS)
    merged = np.zeros((len(row_labels), len(column_labels)))
    np.add.at(merged, (down[:, None], across[None, :]), table)
    kept = merged.sum(axis=1) >= 0.5
    shares = merged / np.maximum(merged.sum(axis=1, keepdims=True), 1e-12)
    return {
        "rows": rows,
        "columns": columns,
        "row_labels": [label for label, keep in zip(row_labels, kept, strict=True) if keep],
        "column_labels": column_labels,
        "shares": shares[kept].round(4).tolist(),
        "association": association,
        "measured": measured,
        "merged": len(row_labels) < table.shape[0] or len(column_labels) < table.shape[1],
    }


def _merged(column: Column, counts: np.ndarray, limit: int) -> tuple[np.ndarray, list[str]]:
    """Return a group for every code, at most `limit` of them, and the groups' labels.

    Neighbouring bins are merged into groups of about the same size; of unordered values the rarest become `others`.
    """
    labels = column.labels()
    if len(labels) <= limit:
        return np.arange(len(labels)), labels
    if not isinstance(column, Binned | Ordinal):
        kept = np.sort(np.argsort(-counts, kind="stable")[: limit - 1])
        groups = np.full(len(labels), limit - 1)
        groups[kept] = np.arange(limit - 1)
        return groups, [*(labels[i] for i in kept), f"{len(labels) - len(kept):,} others"]
    regular, extra = column.regular, len(labels) - column.regular
    wanted = max(1, limit - extra)
    sums = np.cumsum(counts[:regular]) - counts[:regular] / 2
    groups = np.minimum((sums / max(sums[-1], 1e-12) * wanted).astype(int), wanted - 1)
    groups = np.unique(groups, return_inverse=True)[1].ravel()
    starts = [int(np.flatnonzero(groups == g)[0]) for g in range(int(groups[-1]) + 1)]
    ends = [*(start - 1 for start in starts[1:]), regular - 1]
    texts = [labels[a] if a == b else _range(labels[a], labels[b]) for a, b in zip(starts, ends, strict=True)]
    return np.append(groups, len(texts) + np.arange(extra)), [*texts, *labels[regular:]]


def _range(first: str, last: str) -> str:
    """Return the label of merged bins from those of the first and the last.

    >>> _range("0 to 4", "15 to 19"), _range("low", "high")
    ('0 to 19', 'low to high')
    """
    return f"{first.split(' to ')[0]} to {last.split(' to ')[-1]}"
