"""Whole runs on made-up tables: intervals of report and query hold the truth as often as they say, rows lie in them.

Fifty such runs are stored by `python -m benchmarks.accuracy error_bars`; docs/error_bars.md has the table.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import binom

import lookalike
from benchmarks.accuracy import error_bars
from benchmarks.accuracy.error_bars_tables import CASES
from benchmarks.common import stored
from lookalike.measurements import NoisyMarginal
from lookalike.models.intervals import ErrorBars
from lookalike.models.statistics import Places, Selection, quantile_answer
from lookalike.report.public import public_numbers
from lookalike.schema.domain import Domain

RUNS = 4
ENOUGH = 45
"""Intervals by which a share can be judged."""


@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_in_a_few_runs(name):
    kinds: dict[str, list[list[float]]] = defaultdict(list)
    for seed in range(RUNS):
        for kind, numbers in error_bars.one_run(CASES[name], seed, reproducible=True).items():
            kinds[kind].append(numbers)
    shares = {kind: np.average(np.array(r)[:, 0], weights=np.array(r)[:, 2]) for kind, r in kinds.items()}
    # About 150 to 250 intervals, of which those of one run go together: 0.9 within four standard errors.
    assert 0.78 <= shares["report: columns, measured"] <= 0.98
    assert shares["rows"] >= 0.9
    assert shares["ends"] == 0
    asked = np.array([run for kind, found in kinds.items() if kind.startswith("query") for run in found])
    assert np.average(asked[:, 0], weights=asked[:, 2]) >= 0.85


def test_stored_runs_hold_as_often_as_they_say():
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for line in stored(error_bars.RESULTS):
        for kind, numbers in line["kinds"].items():
            groups[line["table"], kind].append(numbers)
    assert {name for name, _ in groups} == set(CASES)
    judged = set()
    for (name, kind), runs in groups.items():
        held, widths, sizes = np.array(runs).T
        share, width = np.average(held, weights=sizes), np.average(widths, weights=sizes)
        if kind == "ends":
            assert share < 0.001
            continue
        # A few intervals, of a kind that hardly any run has, may all be unlucky: less than once in a thousand times.
        few, number = sizes.sum() < ENOUGH, int(sizes.sum())
        assert share >= (binom.ppf(1e-3, number, error_bars.LEVEL) / number if few else 0.85), (name, kind, share)
        # The upper bound needs enough intervals to judge by. A median's interval ends at whole values: one of a value
        # or two has no narrower one that holds often enough.
        median = "median" in kind
        if kind.endswith("measured") and not few and (not median or width >= 2):
            assert share <= (0.98 if median else 0.95), (name, kind, share)
            assert len(runs) >= 10
            judged.add(name)
        if kind.startswith("report"):
            assert len(runs) >= 50
    assert judged == set(CASES)


@pytest.mark.parametrize("name", ["visits of persons", "survey, contrasts", "shop, discovered"])
@pytest.mark.filterwarnings("ignore")
def test_report_and_query_give_the_same_numbers(name):
    """The same count has one estimate and one interval, wherever it is asked for."""
    case = CASES[name]
    given = {"epsilon": case.epsilon, "method": case.method, "seed": 1, **case.options}
    noise = np.random.default_rng([1, 7])
    release = lookalike.synthesize(case.frame(), schema=case.schema, insecure_rng=noise, **given)
    fitted = release.fitted
    numbers = public_numbers(fitted.schema, fitted.model, fitted.spent, fitted.error_bars())
    assert numbers["columns"]
    for column in numbers["columns"]:
        if fitted.schema[column["name"]].derived:
            continue
        answers = [answer for _, answer in fitted.query(f"count by `{column['name']}`").rows]
        found = [(answer.value, answer.low, answer.high) for answer in answers]
        shown = zip(column["all"]["counts"], column["all"]["low"], column["all"]["high"], strict=True)
        np.testing.assert_allclose(found, list(shown), atol=1e-6)


def test_medians_of_single_values_hold_as_often_as_they_say():
    """Simulated counts of 30 values, of which the noise leaves several possible: neither too narrow nor too wide."""
    rng, domain = np.random.default_rng(5), Domain(("age",), (30,))
    places = Places(*[np.arange(30.0)] * 3)
    held = []
    for _ in range(150):
        counts = 40 * np.exp(-(((np.arange(30) - rng.uniform(10, 20)) / 8) ** 2)).round()
        noisy = counts + rng.normal(0, 9, 30)
        bars = ErrorBars(domain, [NoisyMarginal(("age",), noisy, 9.0)])
        chosen = Selection(("age",), np.maximum(noisy, 0.0), np.ones(30), bars, 0.9)
        answer = quantile_answer(chosen, "age", places, 0.5)
        truth = np.searchsorted(np.cumsum(counts), counts.sum() / 2)
        held.append(answer.low <= truth <= answer.high)
    assert 0.83 <= np.mean(held) <= 0.98
