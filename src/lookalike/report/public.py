"""The public report: what was released, the guarantee in words, every charge, and plots with error bars.

It is made from released values only: the fitted model, the account of the run and its noisy marginals. This folder
imports nothing that can open a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lookalike.models.diagnosis import diagnose
from lookalike.models.intervals import ErrorBars
from lookalike.models.model import Model
from lookalike.report.page import render
from lookalike.schema.binned import Binned
from lookalike.schema.columns import Categorical, Column, Ordinal
from lookalike.schema.constraints import rule_text
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS

LEVEL = 0.9
_MAX_COLUMNS = 60
_MAX_MAP_COLUMNS = 32
_MAX_BARS = 14
_MAX_BINS = 128
_MAX_PAIR_ROWS = 20
_MAX_PAIR_COLUMNS = 8
_PAIRS = 6
_MAX_PAIR_CELLS = 1_000_000

Numbers = dict[str, Any]


Account = Any
"""What a run may spend and every charge it made: `lookalike.release.Spent`, which stands above this module."""


def public_numbers(
    schema: Schema, model: Model, spent: Account, bars: ErrorBars, *, rows: int | None = None
) -> Numbers:
    """Return everything that the public report shows, as plain values.

    Args:
        schema: the public facts about the columns.
        model: the fitted model.
        spent: the account of the run.
        bars: error bars from the recorded noise of the run; none are shown if it recorded no noise.
        rows: number of synthetic rows; by default the estimate of the private number of rows.
    """
    shown = schema.columns[:_MAX_COLUMNS]
    oneways = model.marginals([(column.name,) for column in shown])
    columns = [_column(column, counts, bars, model.total) for column, counts in zip(shown, oneways, strict=True)]
    association, pairs = _pairs(schema, model, bars)
    numbers: Numbers = {
        "private": spent.private,
        "rows": round(model.total) if rows is None else rows,
        "estimated_rows": round(model.total),
        "level": LEVEL,
        "guarantee": _guarantee(spent),
        "method": _method(spent),
        "budget": _budget(spent),
        "schema": [_facts(column) for column in schema.columns],
        "rules": [rule_text(rule) for rule in schema.constraints],
        "columns": columns,
        "left_out": len(schema.columns) - len(shown),
        "has_intervals": bool(bars.measurements),
        "association": association,
        "pairs": pairs,
    }
    numbers["limits"] = [*diagnose(model, bars.measurements).notes, *_limits(schema, numbers, bars)]
    return numbers


def public_report(numbers: Numbers) -> str:
    """Return `public_numbers` as an HTML page."""
    return render("public.html", **numbers)


def _guarantee(spent: Account) -> Numbers:
    """Return what the configured epsilon means for one person: how sure an attacker can become."""
    epsilon, delta = spent.epsilon, spent.delta
    factor = math.exp(min(epsilon, 700.0))  # exp of more is no finite float
    # Bayes' rule: the odds grow by the factor at most, except with probability delta.
    surest = [min(1.0, (factor * p + delta * (1 - p)) / (factor * p + 1 - p)) for p in (0.5, 0.1, 0.01)]
    return {
        "factor": factor,
        "before": [0.5, 0.1, 0.01],
        "after": surest,
        "in_words": _strength(epsilon),
        "accounting": {
            "gdp": "all noise is Gaussian, so the exact privacy curve of the Gaussian mechanism holds",
            "zcdp": "charges were added up in zero-concentrated differential privacy and converted at the end",
        }.get(spent.accounting, spent.accounting),
    }


def _strength(epsilon: float) -> str:
    for limit, words in ((0.3, "very strong"), (1.0, "strong"), (3.0, "moderate"), (10.0, "weak")):
        if epsilon <= limit * (1 + 1e-9):
            return words
    return "very weak"


def _method(spent: Account) -> Numbers:
    info = METHODS[spent.method].info if spent.method in METHODS else None
    return {
        "name": spent.method,
        "title": info.title if info else spent.method,
        "paper": info.paper if info else "",
        "good_for": info.good_for if info else "",
        "corrected": info.corrected if info else "",
        "settings": {name: str(value) for name, value in spent.settings.items()},
    }


def _budget(spent: Account) -> Numbers:
    total = float(sum(charge.rho for charge in spent.charges)) or 1.0
    steps: dict[str, Numbers] = {}
    for charge in spent.charges:
        step = steps.setdefault(
            charge.step, {"step": charge.step, "mechanism": charge.mechanism, "releases": 0, "rho": 0.0}
        )
        step["releases"] += charge.releases
        step["rho"] += float(charge.rho)
        if charge.mechanism not in step["mechanism"]:
            step["mechanism"] += f", {charge.mechanism}"
    for step in steps.values():
        step["share"] = step["rho"] / total
    return {
        "epsilon": spent.epsilon,
        "epsilon_spent": spent.epsilon_spent,
        "delta": spent.delta,
        "rho": total if spent.charges else 0.0,
        "neighbours": spent.neighbours,
        "steps": list(steps.values()),
        "charges": [
            {"step": c.step, "mechanism": c.mechanism, "releases": c.releases, "rho": float(c.rho), "detail": c.detail}
            for c in spent.charges
        ],
    }


def _facts(column: Column) -> Numbers:
    texts = {"missing": ", ".join(marker or "empty" for marker in column.missing) or "never missing"}
    if isinstance(column, Binned):
        texts["bounds"] = f"{column.minimum} to {column.maximum}"
        texts["bins"] = f"{column.regular:,} bins"
    elif isinstance(column, Categorical):
        listed = ", ".join((column.values or ())[:8])
        texts["values"] = listed + (f" and {column.regular - 8:,} more" if column.regular > 8 else "")
    return {
        "name": column.name,
        "kind": type(column).__name__.lower(),
        "codes": column.size,
        "facts": [
            {"fact": fact, "text": texts.get(fact, ""), "provenance": column.fact(fact)} for fact in column.facts
        ],
    }


def _column(column: Column, counts: np.ndarray, bars: ErrorBars, total: float) -> Numbers:
    """Return the counts of one column with intervals; of many unordered values, the rarer ones are added up."""
    labels, name = column.labels(), (column.name,)
    ordered = isinstance(column, Binned | Ordinal)
    found: Numbers = {"name": column.name, "values": len(labels)}
    found["as_histogram"] = ordered and _MAX_BARS < len(labels) <= _MAX_BINS
    low = high = None
    if bars.measurements:
        counts, low, high, found["basis"] = bars.marginal(name, counts, total, LEVEL)
        found["typical_error"] = float(np.median((high - low) / 2))
        found["doubtful"] = int(np.count_nonzero(low <= 0))
        found["all"] = {"counts": counts.tolist(), "low": low.tolist(), "high": high.tolist()}
    if len(labels) > _MAX_BARS and not found["as_histogram"]:
        labels, counts, low, high = _rest_added(labels, counts, low, high, bars, name, total)
    found |= {"labels": labels, "counts": counts.tolist()}
    found |= {"low": None if low is None else low.tolist(), "high": None if high is None else high.tolist()}
    return found


def _rest_added(
    labels: list[str],
    counts: np.ndarray,
    low: np.ndarray | None,
    high: np.ndarray | None,
    bars: ErrorBars,
    name: tuple[str],
    total: float,
) -> tuple[list[str], np.ndarray, np.ndarray | None, np.ndarray | None]:
    kept = np.sort(np.argsort(-counts, kind="stable")[: _MAX_BARS - 1])
    weights = np.ones(len(counts))
    weights[kept] = 0.0
    rest = float(counts @ weights)
    shown = [labels[i] for i in kept] + [f"{len(counts) - len(kept):,} others"]
    counts = np.append(counts[kept], rest)
    if low is None or high is None:
        return shown, counts, None, None
    answer = bars.answer(name, weights, rest, total, LEVEL)
    return shown, counts, np.append(low[kept], answer.low), np.append(high[kept], answer.high)


def _pairs(schema: Schema, model: Model, bars: ErrorBars) -> tuple[Numbers, list[Numbers]]:
    """Return the association of all pairs in the model, and the tables of the strongest pairs."""
    columns = schema.columns[:_MAX_MAP_COLUMNS]
    names = [column.name for column in columns]
    cliques = list(combinations(names, 2))
    computed = [pair for pair in cliques if schema.domain.cells(pair) <= _MAX_PAIR_CELLS]
    tables = dict(zip(computed, model.marginals(computed), strict=True)) if computed else {}
    values, measured = np.eye(len(names)), np.zeros((len(names), len(names)), dtype=bool)
    for (one, two), table in tables.items():
        i, j = names.index(one), names.index(two)
        values[i, j] = values[j, i] = cramers_v(table)
    for one, two in cliques:
        i, j = names.index(one), names.index(two)
        measured[i, j] = measured[j, i] = any({one, two} <= set(m.attrs) for m in bars.measurements)
    small = [c for c in cliques if _fits(schema.domain.shape(c))]
    # Rounded, since a stored model may sum in another order: ties stay in the order of the schema.
    strongest = sorted(small, key=lambda c: -round(values[names.index(c[0]), names.index(c[1])], 6))[:_PAIRS]
    pairs = [
        _pair(schema, pair, tables[pair], float(values[names.index(pair[0]), names.index(pair[1])]), bars)
        for pair in strongest
    ]
    association = {
        "names": names,
        "values": values.round(4).tolist(),
        "measured": measured.tolist(),
        "pairs": len(cliques),
        "pairs_measured": int(measured.sum()) // 2,
        "pairs_left_out": len(cliques) - len(computed),
    }
    return association, pairs


def _fits(shape: tuple[int, ...]) -> bool:
    return max(shape) <= _MAX_PAIR_ROWS and 1 < min(shape) <= _MAX_PAIR_COLUMNS


def _pair(schema: Schema, pair: tuple[str, str], table: np.ndarray, association: float, bars: ErrorBars) -> Numbers:
    """Return the table of one pair as shares of each row; the column with fewer values is the heading."""
    rows, columns = pair
    if table.shape[1] > table.shape[0]:
        rows, columns, table = columns, rows, table.T
    return {
        "rows": rows,
        "columns": columns,
        "row_labels": schema[rows].labels(),
        "column_labels": schema[columns].labels(),
        "shares": (table / np.maximum(table.sum(axis=1, keepdims=True), 1e-12)).round(4).tolist(),
        "association": association,
        "measured": any(set(pair) <= set(m.attrs) for m in bars.measurements),
    }


def cramers_v(counts: np.ndarray) -> float:
    """Return Cramer's V of a two-way table of counts: sqrt(chi^2 / (n * (min(r, c) - 1))).

    Empty rows and columns do not count. It is 1 if one column determines the other, and 0 for independent columns or if
    a column has one value.

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[4, 4], [2, 2]]))
    (1.0, 0.0)
    """
    counts = counts[counts.sum(axis=1) > 1e-9][:, counts.sum(axis=0) > 1e-9]
    free = min(counts.shape) - 1
    if free < 1:
        return 0.0
    total = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    return float(np.sqrt(min(1.0, chi_squared / (total * free))))


def _limits(schema: Schema, numbers: Numbers, bars: ErrorBars) -> list[str]:
    association = numbers["association"]
    limits = [
        "No row belongs to a person. Statements about single rows, or about groups of a few rows, have no meaning.",
        "Association between columns is kept only as far as it was measured: "
        f"{association['pairs_measured']:,} of {association['pairs']:,} pairs of columns were measured directly. The "
        "association of all other pairs follows from those; what the real table has beyond that is lost.",
    ]
    if association["pairs_left_out"]:
        limits.append(
            f"{association['pairs_left_out']:,} pairs of columns have more than {_MAX_PAIR_CELLS:,} cells, too many "
            "for this page. They are shown as if they were independent."
        )
    if bars.measurements:
        doubtful = sum(column.get("doubtful", 0) for column in numbers["columns"])
        if doubtful:
            limits.append(
                f"{doubtful:,} values are so rare that the noise hides whether they occur at all: their intervals "
                "reach down to zero."
            )
    if any(isinstance(column, Binned) for column in schema.columns):
        limits.append(_within_bins(schema))
    assumed = [c.name for c in schema.columns if any(c.fact(fact) == "assumed" for fact in c.facts)]
    if assumed:
        limits.append(
            f"Facts about {_listed(assumed)} were assumed to be public when the schema was drafted, and not "
            "confirmed. If they came from the private table, the guarantee does not cover them."
        )
    if any(column.outside != "error" for column in schema.columns):
        limits.append(
            "Values outside the schema do not stop a run: numbers and times count as the nearest bound, other values "
            "as `other`, as missing, or as the first value of the list."
        )
    limits.append(
        "The epsilons of all releases from the same table add up. The ledger of the data holder has the sum; this "
        "report covers this release only."
    )
    return limits


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (" and others" if len(names) > 6 else "")


def _within_bins(schema: Schema) -> str:
    """Return a sentence on how numbers and times within bins were drawn, by `schema/draw.py`."""
    binned = [column for column in schema.columns if isinstance(column, Binned)]
    shaped = [column.name for column in binned if column.shape]
    rounded = [column.name for column in binned if column.rounding]
    text = (
        "Numbers and times are associated with other columns by their bins only. Within a bin they are drawn at random"
    )
    if shaped:
        text += f": those of {_listed(shaped)} by the weights of smaller intervals in the schema, all others evenly"
    else:
        text += ", evenly over the bin"
    if rounded:
        text += f"; those of {_listed(rounded)} are then rounded as often, and to the multiples, that the schema lists"
    return f"{text}. Rules of the schema may change them afterwards."
