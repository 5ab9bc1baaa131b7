"""Effective cells, and the price that spends the budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lookalike.selection.allocation import effective_cells
from lookalike.selection.pricing import EffectiveCells, price_at_budget


def test_effective_cells_count_only_cells_that_can_be_seen() -> None:
    oneways = {"a": np.array([990.0, 10.0]), "b": np.array([500.0, 500.0])}
    cells = EffectiveCells(oneways, 1000.0, 20.0)
    assert cells(("a",)) == pytest.approx(1 + 0.5)
    assert cells(("a", "b")) == pytest.approx(2 + 0.5)
    assert cells.weights([("a", "b")]) == pytest.approx([2.5 ** (2 / 3)])


def test_expected_empty_cells_are_nearly_free() -> None:
    cells = EffectiveCells({"a": np.array([50.0, 50.0]), "b": np.array([99.0, 1.0, 0.0])}, 100.0, 10.0)
    assert [cells(("a",)), cells(("b",)), cells(("a", "b"))] == pytest.approx([2.0, 1.1, 2.1])


def test_a_table_smaller_than_the_noise_has_one_effective_cell() -> None:
    assert EffectiveCells({"b": np.array([1.0, 0.0])}, 1.0, 1e6)(("b",)) == 1.0
    assert effective_cells(np.array([3.0, 4.0]), 10.0) == 1.0
    assert effective_cells(np.array([3.0, 4.0]), 10.0, at_least=2.0) == 2.0
    assert effective_cells(np.array([6.0, 7.0]), 10.0) == pytest.approx(1.3)


def test_bisection_finds_the_price_that_spends_the_budget() -> None:
    seen = []

    def precision(chosen: list[int], eta: float) -> float:
        seen.append(eta)
        return len(chosen) / eta

    assert price_at_budget(lambda eta: [1, 2, 3], precision, 1.5) == [1, 2, 3]
    assert math.isclose(seen[-1], 1.0, rel_tol=1e-3)
