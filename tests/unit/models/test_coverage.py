"""Whole runs on made-up tables: intervals of report and query hold the truth as often as they say, rows lie in them.

Fifty such runs are stored by `python -m benchmarks.accuracy error_bars`; docs/error_bars.md has the table.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from benchmarks.accuracy import error_bars
from benchmarks.accuracy.error_bars_tables import CASES
from benchmarks.common import stored

RUNS = 4


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
    for (name, kind), runs in groups.items():
        held, _, sizes = np.array(runs).T
        share = np.average(held, weights=sizes)
        if kind == "ends":
            assert share == 0
            continue
        assert share >= 0.85, (name, kind, share)
        # Medians of few values are whole values: they hold more often than an interval needs to.
        if kind.endswith("measured") and "median" not in kind:
            assert share <= 0.95, (name, kind, share)
            assert len(runs) >= 10
        if kind.startswith("report"):
            assert len(runs) >= 50
