"""Effective cells, the price that spends the budget, and the marginals and groups that it chooses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.selection.grouping import effective_cells
from lookalike.selection.pricing import (
    ChosenSet,
    EffectiveCells,
    PricedCandidates,
    ScoringRound,
    grouped_residuals,
    lost_part,
    partition_for,
    price_at_budget,
    spread_out,
)

PAIRS = (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"))


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


def candidates(errors: list[float], cells: list[float], **settings) -> PricedCandidates:
    return PricedCandidates(PAIRS[: len(errors)], np.array(errors), cells, **{"eta": 1.0, "caution": 1.0, **settings})


@given(st.floats(2.1, 1e5), st.integers(2, 4))
def test_finer_groups_lose_less_and_single_cells_nothing(cells: float, order: int) -> None:
    lost = lost_part(np.array([1.0, 0.5 + cells / 2, cells]), cells, order)
    assert lost[0] == pytest.approx(1)
    assert lost[0] > lost[1] > lost[2]
    assert lost[2] == 0


@given(st.floats(1e-6, 1.0), st.lists(st.floats(1.0, 1e5), min_size=4, max_size=4))
def test_chosen_sets_never_ask_for_more_than_the_budget(rho: float, errors: list[float]) -> None:
    chosen = candidates(errors, [4.0, 50.0, 300.0, 2000.0]).at_budget(rho)
    assert sum(choice.precision for choice in chosen) <= 2 * rho * (1 + 1e-6)
    assert all(choice.worth > 1 for choice in chosen)


def test_a_dearer_price_means_fewer_groups_and_more_noise() -> None:
    cheap, dear = (candidates([5000.0], [4000.0]).at_price(price)[0] for price in (1.0, 1e4))
    assert dear.groups < cheap.groups < 4000
    assert dear.precision < cheap.precision


def test_the_best_of_all_numbers_of_groups_is_found_near_enough() -> None:
    error, cells, price = 5000.0, 400.0, 100.0
    choice = candidates([error], [cells]).at_price(price)[0]

    def left(k: float) -> float:
        half = math.sqrt(0.5 / math.pi) * k
        return 3 * half ** (2 / 3) * price ** (1 / 3) + error * float(lost_part(np.array([k]), cells, 2)[0])

    assert error / choice.worth <= 1.01 * min(left(k) for k in np.linspace(1, cells, 4000))


def test_eta_leaves_out_what_noise_would_mostly_spoil() -> None:
    errors, cells = [5000.0, 800.0, 200.0, 400.0], [100.0] * 4
    lax, strict = (candidates(errors, cells, eta=eta, apart=False).at_price(30.0) for eta in (1.0, 0.3))
    assert {choice.number for choice in strict} < {choice.number for choice in lax}


def test_marginals_that_may_explain_each_other_are_not_taken_together() -> None:
    chosen = [ChosenSet(i, 9.0 - i, 4.0, True, 1.0) for i in range(4)]
    assert [choice.number for choice in spread_out(chosen, PAIRS)] == [0, 1, 3]
    larger = (("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"))
    assert [choice.number for choice in spread_out(chosen[:3], larger)] == [0, 2]


def test_contributions_fall_by_what_the_model_moved() -> None:
    before = np.full((4, 4), 10.0)
    score = grouped_residuals([("a", "b")], [before], 4)
    scored = ScoringRound(score, np.array([50.0]))
    assert scored.contributions([before]).tolist() == [50.0]
    after = before.copy()
    after[:2, :2] += 5.0
    after[2:, 2:] -= 5.0
    assert scored.contributions([after]).tolist() == [10.0]
    assert scored.contributions([before * 9]).tolist() == [0.0]


def test_a_chosen_set_of_single_cells_has_no_groups() -> None:
    table = np.ones((3, 3))
    assert partition_for(ChosenSet(0, 2.0, 9.0, True, 1.0), table) is None
    groups = partition_for(ChosenSet(0, 2.0, 3.2, False, 1.0), table)
    assert groups is not None
    assert groups.max() == 3
