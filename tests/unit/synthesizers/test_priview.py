"""PriView on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import LookalikeError
from lookalike.models.rows import GumRows
from lookalike.pipeline import synthesize
from lookalike.release import Release

SIZES = {f"c{i}": 2 for i in range(9)} | {"wide": 30}


def table(rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    hidden = rng.random(rows)
    columns = [(rng.random(rows) < 0.1 + 0.8 * hidden).astype(np.int32) for _ in range(9)]
    return np.column_stack([*columns, (hidden * 30).astype(np.int32)])


def run(rows: int, *, epsilon: float = 1.0, **settings) -> Release:
    codes = table(rows)
    frame = pa.table({name: codes[:, i] for i, name in enumerate(SIZES)})
    noise = np.random.default_rng(5)
    return synthesize(
        frame, schema=SIZES, epsilon=epsilon, delta=1e-6, method="priview", seed=1, insecure_rng=noise, **settings
    )


@pytest.mark.parametrize("settings", [{}, {"view_cells": 64}, {"strength": 3}])
def test_every_pair_of_rows_and_of_answers_is_close(settings: dict) -> None:
    made, codes = run(20_000, epsilon=4.0, **settings), table(20_000)
    model = made.fitted.model
    assert isinstance(model, GumRows)
    assert model.reconstructed
    rows = np.column_stack([made.table[name].to_numpy() for name in SIZES])
    for a, b in combinations(range(10), 2):
        shape = (list(SIZES.values())[a], list(SIZES.values())[b])
        real, drawn = (
            np.bincount(c[:, a] * shape[1] + c[:, b], minlength=shape[0] * shape[1]) / len(c) for c in (codes, rows)
        )
        answer = model.marginal((list(SIZES)[a], list(SIZES)[b])).ravel() / model.total
        assert np.abs(real - drawn).sum() / 2 < 0.03
        assert np.abs(real - answer).sum() / 2 < 0.03


def test_views_grow_with_the_budget() -> None:
    widest = []
    for epsilon in (0.1, 10.0):
        model = run(20_000, epsilon=epsilon).fitted.model
        assert isinstance(model, GumRows)
        widest.append(max(len(view) for view in model.targets.cliques))
    assert widest[0] < widest[1]


def test_given_views_need_no_number_of_rows() -> None:
    assert set(run(100, view_cells=64).spent.by_step()) == {"views"}
    assert set(run(100).spent.by_step()) == {"number of rows", "views"}


@pytest.mark.parametrize("settings", [{"strength": 4}, {"view_cells": -1}, {"theta": 0.0}, {"count_share": 0.0}])
def test_refuses_settings_that_make_no_sense(settings: dict) -> None:
    with pytest.raises(LookalikeError):
        run(10, **settings)
