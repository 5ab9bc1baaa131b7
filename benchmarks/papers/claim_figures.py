"""Figures of stored runs for the table of the papers' claims (claims.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.common import Line, markdown, results_of, stored
from benchmarks.papers import bsg_large_document, ppsyn, privmrf, svm_folds
from benchmarks.runs import spread
from lookalike.evaluate.compare import summary


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        says: what the paper says, in a few words.
        where: its section, figure or table.
        ours: what stored runs say.
        agrees: "agrees", "in part" or "differs".
        why: why it differs, or what to know when it agrees.
    """

    says: str
    where: str
    ours: Callable[[], str]
    agrees: str
    why: str


@cache
def lines(name: str) -> list[Line]:
    """The stored runs of a page that did not fail."""
    if name == "privmrf":
        return privmrf.compared_runs()
    return [line for line in stored(results_of(name)) if "error" not in line]


def of(name: str, measure: str, table: str, epsilon: float, *methods: str, digits: int = 4) -> str:
    """The means of methods on a table at one budget, with standard errors and numbers of runs."""
    cells = summary(lines(name), measure)
    known = [method for method in methods if (table, method, epsilon) in cells]
    text = [f"{method} {spread(cells[table, method, epsilon], digits=digits)}" for method in known]
    return f"{table}, epsilon {epsilon:g}: " + ", ".join(text)


def wins(
    name: str,
    measure: str,
    method: str,
    rivals: tuple[str, ...],
    epsilons: tuple[float, ...],
    tables: tuple[str, ...] | None = None,
) -> str:
    """In how many cells of tables and budgets a method is below every rival that ran there; nothing without runs."""
    cells, won, counted = summary(lines(name), measure), 0, 0
    for table, own, epsilon in [key for key in cells if tables is None or key[0] in tables]:
        others = [cells[table, rival, epsilon][0] for rival in rivals if (table, rival, epsilon) in cells]
        if own == method and epsilon in epsilons and others:
            counted += 1
            won += cells[table, own, epsilon][0] < min(others)
    if not counted:
        return ""
    where = f" on {', '.join(tables)}" if tables else ""
    return f"{method} below {', '.join(rivals)} in {won} of {counted} cells{where} ({measure})"


def experiment(name: str) -> list[dict[str, Any]]:
    """The results of an experiment on BSG, one for every repeat."""
    return [line["result"] for line in lines("bsg") if line["experiment"] == name]


def per_cent(experiment_name: str, *path: str) -> str:
    """A share of every repeat, as the mean in per cent."""
    values = []
    for value in experiment(experiment_name):
        for key in path:
            value = value[key]  # type: ignore[assignment]
        values.append(value[0] if isinstance(value, list) else value)
    return f"{100 * float(np.mean(values)):.1f} %"


def gain(key: str) -> str:
    """The mean over columns of how many errors fewer than marginals a model makes, at the paper's size."""
    means = bsg_large_document.gains(experiment("large_models"), key).mean(axis=1)
    return f"{means.mean():.1f} ± {bsg_large_document.standard_error(means):.1f} % ({len(means)})"


def distance(name: str, ways: int) -> str:
    """The mean distance of columns or pairs of a table, at the paper's size."""
    return f"{np.mean([run[f'{name}/{ways}'] for run in experiment('large_distances')]):.4f}"


def gum(table: str, method: str, sweeps: int) -> str:
    """Error and CPU seconds of GUM or MCF."""
    found = [x for x in lines("privsyn") if x["run"] == "mcf" and x["table"] == table]
    one = next(x for x in found if (x["method"], x["sweeps"]) == (method, sweeps))
    return f"{table}: {method} {one['mean_l1']} in {one['cpu_seconds']} s"


def accuracy(table: str) -> str:
    """3-way distance of PrivSyn's paper variant and of the default."""
    own = [x for x in lines("privsyn") if x["run"] == "accuracy" and x["table"] == table and x["epsilon"] == 1.0]
    means = {v: [x["tvd3"] for x in own if x["variant"] == v] for v in ("paper", "default")}
    return f"{table}: " + ", ".join(f"{v} {np.mean(found):.4f} ({len(found)})" for v, found in means.items())


def svm(*methods: str, table: str = "nltcs", epsilon: float = 0.8) -> str:
    """SVM errors of methods."""
    return of("privmrf_svm", "svm_error", table, epsilon, *methods)


def folds(*methods: str, epsilon: float = 0.8) -> str:
    """SVM errors of methods on five folds of every table."""
    cells, text = summary(lines("svm_folds"), "svm_error"), []
    for table in svm_folds.TABLES:
        keys = {m: (table, m, svm_folds.STORED_AS if m == svm_folds.REAL else epsilon) for m in methods}
        text.append(f"{table}: " + ", ".join(f"{m} {cells[key][0]:.4f}" for m, key in keys.items() if key in cells))
    return "; ".join(text)


def ahead(method: str, *rivals: str) -> str:
    """In how many cells of folds below epsilon 3.2 a method has a smaller SVM error than every rival."""
    return wins("svm_folds", "svm_error", method, rivals, tuple(e for e in svm_folds.EPSILONS if e < 3.2))


def best_eta(method: str, epsilon: float) -> str:
    """The eta of the smallest workload error by table, and how far eta 0.7 is from it; nothing without runs."""
    cells, text = summary(lines("ppsyn"), "tvd.3"), []
    for table in ppsyn.ETA_TABLES:
        found = {eta: cells.get((table, name, epsilon)) for eta, name in ppsyn.eta_names(method).items()}
        known = {eta: cell for eta, cell in found.items() if cell}
        if 0.7 not in known:
            continue
        best = min(known, key=lambda eta: known[eta][0])
        first, usual = (spread(known[eta]) for eta in (best, 0.7))
        text.append(f"{table}: best {best:g} with {first}" + (f", 0.7 has {usual}" if best != 0.7 else ""))
    return f"{method}, epsilon {epsilon:g}: " + "; ".join(text) if text else ""


def seconds_by_epsilon(method: str, table: str) -> str:
    """CPU seconds at the smallest and the largest budget."""
    cells = summary(lines("privmrf"), "cpu_seconds")
    shown = [f"{e:g}: {cells[table, method, e][0]:.1f} s" for e in privmrf.EPSILONS if (table, method, e) in cells]
    return f"{method}, {table}: " + ", ".join(shown)


def table(claims: list[Claim]) -> list[str]:
    """The rows of one paper."""
    heads = ["the paper says", "where", "here", "", "why, and what to know"]
    return markdown(heads, [[c.says, c.where, c.ours(), c.agrees, c.why] for c in claims])


def budget_minimum() -> str:
    """The number of groups that needs the least budget, and what it and single cells need."""
    points = dict(ppsyn.required_budgets())
    best, cells = min(points, key=lambda groups: points[groups]), max(points)
    shown = f"rho {1e9 * points[best]:.1f}e-9 at {best} groups, {1e9 * points[cells]:.0f}e-9 at {cells} single cells"
    return f"{shown}, {1e9 * points[min(points)]:.1f}e-9 at {min(points)} groups"


def output_at() -> str:
    """Output perturbation at the paper's size, by lambda."""
    runs = experiment("large_private")
    size = max(int(key.split("/")[0]) for key in runs[0])
    means = {
        value: np.mean([run[f"{size}/{value}"]["output"] for run in runs]) for value in ("0.0001", "1e-05", "1e-06")
    }
    shown = [f"{value}: {100 * mean:.1f} %" for value, mean in means.items()]
    return "by lambda " + ", ".join(shown)


def pass_share() -> str:
    """The share of candidates that pass at k = 100."""
    return f"{100 * float(np.mean([one['100']['5-11'] for one in experiment('passing')])):.1f} %"


def rows_per_second() -> str:
    """Rows released per CPU second at the paper's size."""
    return f"{1e6 / np.mean([run['1000000'] for run in experiment('large_speed')]):,.0f} rows a second and core"


def price_of_rows(count: int) -> str:
    """The k that so many rows need at epsilon 1, by our account and by the paper's theorem."""
    found, seeds = experiment("price")[0][f"27000/{count}"], 27_000
    own, theirs = (
        f"{found[key]:,}" if (found[key] or seeds + 1) <= seeds else f"more than the {seeds:,} seeds"
        for key in ("ours", "paper")
    )
    return f"k for {count:,} row{'s' * (count > 1)}: {own} by our account, {theirs} by the theorem"
