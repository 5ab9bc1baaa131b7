"""The public report: what was released, the guarantee in words, every charge, and plots with error bars.

It is made from released values only: the fitted model, the account of the run and its noisy marginals. This folder
imports nothing that can open a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookalike.models.intervals import ErrorBars
from lookalike.models.model import Model, diagnose
from lookalike.report.columns import column_numbers
from lookalike.report.page import render
from lookalike.report.pairs import MAX_PAIR_CELLS, pair_numbers
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.constraints import AtLeast, Never, rule_text
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS, create

LEVEL = 0.9
_OPEN_COLUMNS = 40
"""Columns whose charts are open when the page is; others open by a click."""

Numbers = dict[str, Any]


Account = Any
"""What a run may spend and every charge it made: `lookalike.release.Spent`, which stands above this module."""


@dataclass(frozen=True, slots=True)
class About:
    """What the publisher says about a release: free texts, all public."""

    title: str = ""
    issuer: str = ""
    contact: str = ""
    date: str = ""


def public_numbers(
    schema: Schema,
    model: Model,
    spent: Account,
    bars: ErrorBars,
    *,
    rows: int | None = None,
    published: np.ndarray | None = None,
    about: About | None = None,
) -> Numbers:
    """Return everything that the public report shows, as plain values.

    Args:
        schema: the public facts about the columns.
        model: the fitted model.
        spent: the account of the run.
        bars: error bars from the recorded noise of the run; none are shown if it recorded no noise.
        rows: number of synthetic rows; by default the estimate of the private number of rows.
        published: codes of the synthetic rows that are published, to say how far they agree with the estimates.
        about: title, issuer, contact and date.
    """
    oneways = model.marginals([(column.name,) for column in schema.columns])
    columns = [
        column_numbers(column, counts, bars, model.total, LEVEL, _scaled(published, i, column.size, model.total))
        for i, (column, counts) in enumerate(zip(schema.columns, oneways, strict=True))
    ]
    for column in (column for column in columns if column["chart"] == "computed"):
        column["rule"] = _rule_of(schema, column["name"])
    association, pairs = pair_numbers(schema, model, bars)
    total = bars.answer((), np.array(1.0), model.total, model.total, LEVEL) if bars.measurements else None
    numbers: Numbers = {
        "about": asdict(about or About()),
        "private": spent.private,
        "rows": round(model.total) if rows is None else rows,
        "estimated_rows": round(model.total if total is None else total.value),
        "rows_interval": None if total is None else [total.low, total.high],
        "level": LEVEL,
        "guarantee": _guarantee(spent),
        "method": _method(spent, schema),
        "budget": _budget(spent),
        "schema": [_facts(column) for column in schema.columns],
        "rules": [rule_text(rule) for rule in schema.constraints],
        "columns": columns,
        "open_columns": _OPEN_COLUMNS,
        "has_intervals": bool(bars.measurements),
        "agreement": _agreement(columns),
        "association": association,
        "pairs": pairs,
    }
    notes = [*diagnose(model, bars.measurements).notes, *_beside(spent.public)]
    numbers["limits"] = [*notes, *_limits(schema, numbers, bars)]
    return numbers


def _rule_of(schema: Schema, name: str) -> str:
    """Return the rule that computes a column, without the pairs of values that it lists."""
    rules = (rule for rule in schema.constraints if name in rule.columns and not isinstance(rule, AtLeast | Never))
    return next((rule_text(rule).partition(" (")[0] for rule in rules), "a rule of the schema")


def _scaled(published: np.ndarray | None, position: int, size: int, total: float) -> np.ndarray | None:
    """Return the counts of one column in the published rows, scaled to the estimated number of rows."""
    if published is None or not len(published):
        return None
    return np.bincount(published[:, position], minlength=size) * (total / len(published))


def _agreement(columns: Sequence[Numbers]) -> float | None:
    """Return the share of all values of all columns whose count in the published rows lies in its interval."""
    judged = [column for column in columns if "agreeing" in column and column["values"] > 1]
    values = sum(column["values"] for column in judged)
    return sum(column["agreeing"] for column in judged) / values if values else None


def public_report(numbers: Numbers) -> str:
    """Return `public_numbers` as an HTML page."""
    return render("public.html", **numbers)


def guarantee_in_words(epsilon: float, delta: float) -> Numbers:
    """Return what an epsilon means for one person: how sure an attacker can become."""
    factor = math.exp(min(epsilon, 700.0))  # exp of more is not a finite float
    # Bayes' rule: the odds grow by the factor at most, except with probability delta.
    surest = [min(1.0, (factor * p + delta * (1 - p)) / (factor * p + 1 - p)) for p in (0.5, 0.1, 0.01)]
    return {
        "factor": factor,
        "before": [0.5, 0.1, 0.01],
        "after": surest,
        "in_words": _strength(epsilon),
    }


_ACCOUNTINGS = {
    "gdp": "all noise is Gaussian, so the exact privacy curve of the Gaussian mechanism holds",
    "zcdp": "charges were added up in zero-concentrated differential privacy and converted at the end",
}


def _guarantee(spent: Account) -> Numbers:
    accounting = _ACCOUNTINGS.get(spent.accounting, spent.accounting)
    return {**guarantee_in_words(spent.epsilon, spent.delta), "accounting": accounting}


def _strength(epsilon: float) -> str:
    for limit, words in ((0.3, "very strong"), (1.0, "strong"), (3.0, "moderate"), (10.0, "weak")):
        if epsilon <= limit * (1 + 1e-9):
            return words
    return "very weak"


def _method(spent: Account, schema: Schema) -> Numbers:
    """Return the method that ran; where it was chosen automatically, also why."""
    chosen, reason = spent.method, None
    if spent.method in METHODS:
        asked = create(spent.method, {})
        chosen, reason = asked.chosen(schema.domain).name, asked.reason(schema.domain)
    info = METHODS[chosen].info if chosen in METHODS else None
    return {
        "name": chosen,
        "asked": spent.method,
        "reason": reason,
        "title": info.title if info else chosen,
        "paper": info.paper if info else "",
        "good_for": info.good_for if info else "",
        "corrected": info.corrected if info else "",
        "settings": {name: str(value) for name, value in spent.settings.items() if value is not None},
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
    shared = {"name": column.name, "kind": type(column).__name__.lower(), "codes": column.size}
    if column.derived:
        computed = {"fact": "computed", "text": "from other columns by a rule", "provenance": column.fact("missing")}
        return {**shared, "facts": [computed]}
    texts = {"missing": ", ".join(marker or "empty" for marker in column.missing) or "never missing"}
    if isinstance(column, Binned):
        texts["bounds"] = f"{column.minimum} to {column.maximum}"
        texts["bins"] = f"{column.regular:,}"
        decimals = getattr(column, "decimals", 0)
        texts["decimals"] = "as many as needed" if decimals is None else str(decimals)
    elif isinstance(column, Categorical):
        listed = ", ".join((column.values or ())[:8])
        texts["values"] = listed + (f" and {column.regular - 8:,} more" if column.regular > 8 else "")
    elif isinstance(column, Identifier) and column.repeats:
        texts["repeats"] = f"how many persons have 1 to {len(column.repeats)} rows"
    return {
        **shared,
        "facts": [
            {"fact": fact, "text": texts.get(fact, ""), "provenance": column.fact(fact)} for fact in column.facts
        ],
    }


def _beside(public: str) -> list[str]:
    """Return the sentences about a public table that the run was given."""
    if not public:
        return []
    return [
        f"A public table was given beside the private one: {public}. As far as the noisy counts supported it, the "
        "model follows it too, and rows of it may occur here. It is not protected by the guarantee, and the error bars "
        "on this page do not use it."
    ]


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
            f"{association['pairs_left_out']:,} pairs of columns have more than {MAX_PAIR_CELLS:,} cells, too many "
            "for this page. They are shown as if they were independent."
        )
    if bars.measurements:
        doubtful = sum(column.get("doubtful", 0) for column in numbers["columns"])
        if doubtful:
            limits.append(
                f"{doubtful:,} values are so rare that the noise hides whether they occur at all: their intervals "
                "reach down to zero."
            )
    limits += _about_rows(schema, numbers)
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
            "as 'other', as missing, or as the first value of the list."
        )
    limits.append(
        "The epsilons of all releases from the same table add up. The ledger of the data holder has the sum; this "
        "report covers this release only."
    )
    return limits


def _about_rows(schema: Schema, numbers: Numbers) -> list[str]:
    """Return the sentences about the published rows, and about rows that were not used."""
    limits: list[str] = []
    off = [c["name"] for c in numbers["columns"] if c["values"] > 1 and _outside_by_more_than_chance(c)]
    if off:
        why = "; rules that every row keeps may have moved values" if schema.constraints else ""
        limits.append(
            f"Of {_listed(off)}, more than one in ten values have a count in the published rows outside the interval "
            f"shown here: the rows explain the noisy counts less well than the estimates on this page do{why}. Prefer "
            "the estimates."
        )
    persons = [c for c in schema.columns if isinstance(c, Identifier) and c.person]
    if persons:
        limits.append(
            f"At most {persons[0].max_rows:,} rows of each person were used, chosen at random; rows beyond that were "
            "dropped before anything was counted, and how many is private. All numbers here are about the table "
            "without them."
        )
    return limits


def _outside_by_more_than_chance(column: Numbers) -> bool:
    """Whether more counts lie outside their intervals than one in ten and chance, two standard deviations, explain."""
    values, expected = column["values"], (1 - LEVEL) * column["values"]
    outside = values - column.get("agreeing", values)
    return outside > expected + 2 * math.sqrt(LEVEL * expected)


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
