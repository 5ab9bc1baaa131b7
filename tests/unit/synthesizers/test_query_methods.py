"""RAP, FEM and DualQuery: what rounds spend, what they learn, what the papers' own steps do, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.selection import cell_queries
from lookalike.selection.cell_queries import PerturbedLeader, QueryPlayer, query_sets, weigh_drawn_queries
from lookalike.synthesizers import create
from tests.unit.synthesizers.two_pairs import SIZES, run, table


def distances(release: Release) -> list[float]:
    model = release.fitted.model
    truths = {("a", "b"): np.eye(3) / 3, ("c", "d"): np.eye(2) / 2, ("a", "c"): np.full((3, 2), 1 / 6)}
    return [float(np.abs(model.marginal(pair) / model.total - truth).sum() / 2) for pair, truth in truths.items()]


def test_rap_finds_strong_dependencies_and_invents_none() -> None:
    assert max(distances(run("rap", epsilon=8.0))) < 0.03


def test_the_papers_steps_of_rap_find_them_too() -> None:
    assert max(distances(run("rap-paper", epsilon=20.0))) < 0.15


def test_rounds_of_rap_cost_the_same() -> None:
    charges = run("rap", rounds=3, per_round=2, choice_share=0.2).spent.charges
    choices = [float(charge.rho) for charge in charges if charge.step == "choices"]
    counts = [float(charge.rho) for charge in charges if charge.step == "chosen marginals"]
    assert len(choices) == 6
    assert len(counts) == 3
    np.testing.assert_allclose(choices, choices[0], rtol=1e-6)
    np.testing.assert_allclose(counts, 2 * 4 * choices[0], rtol=1e-6)


def test_only_parts_of_the_workload_are_measured() -> None:
    measured = run("rap", workload="target-2way:d", steps=2).fitted.measurements
    assert {m.attrs for m in measured if len(m.attrs) > 1} <= {("a", "d"), ("b", "d"), ("c", "d")}
    assert any(len(m.attrs) > 1 for m in measured)


def test_the_papers_steps_measure_single_cells_and_spend_half_on_choices() -> None:
    release = run("rap-paper", rounds=2, per_round=3, steps=2)
    cells = [m for m in release.fitted.measurements if m.attrs]
    assert len(cells) == 6
    for measured in cells:
        assert measured.groups is not None
        assert sorted(np.bincount(measured.groups.ravel()))[0] == 1
    drawn = {(m.attrs, int(np.argmin(m.groups.ravel()))) for m in cells if m.groups is not None}
    assert len(drawn) == 6  # no cell twice
    spent = release.spent.by_step()
    assert float(spent["choices"]) == pytest.approx(float(spent["chosen cells"]), rel=1e-6)


@pytest.mark.parametrize(("method", "largest"), [("fem", 0.06), ("dualquery", 0.2)])
def test_drawn_queries_lead_rows_to_strong_dependencies(method: str, largest: float) -> None:
    """Independent columns are off by 0.67 and 0.5."""
    assert max(distances(run(method, epsilon=8.0))) < largest


@pytest.mark.parametrize("method", ["fem-paper", "dualquery-paper"])
def test_the_papers_steps_measure_nothing_but_the_number_of_rows(method: str) -> None:
    release = run(method, epsilon=20.0)
    assert [m.attrs for m in release.fitted.measurements] == [()]
    assert set(release.spent.by_step()) == {"number of rows", "queries"}
    first, second, independent = distances(release)
    assert first < 0.5
    assert second < 0.4
    assert independent < 0.5


def test_draws_of_fem_cost_the_same_and_those_of_dualquery_grow_with_the_square_of_the_round() -> None:
    fem = [float(c.rho) for c in run("fem", rounds=5, per_round=2).spent.charges if c.step == "queries"]
    assert len(fem) == 10
    np.testing.assert_allclose(fem, fem[0], rtol=1e-6)
    dual = [float(c.rho) for c in run("dualquery", rounds=5, per_round=2).spent.charges if c.step == "queries"]
    np.testing.assert_allclose(np.array(dual) / dual[0], [1, 1, 4, 4, 9, 9, 16, 16], rtol=1e-6)


@pytest.mark.parametrize("method", ["fem", "dualquery"])
def test_a_workload_bounds_what_is_learnt(method: str) -> None:
    first, second, _ = distances(run(method, epsilon=20.0, workload=[["a", "b"]]))
    assert first < 0.25
    assert second > 0.45


def _door() -> GuardedTable:
    budget = Budget(50.0, 1e-5, "zcdp")
    ledger = Ledger(None, "made up").begin(method="fem", schema="s", budget=budget, neighbours=Neighbours())
    return open_table(table(), Schema.from_sizes(SIZES), budget, ledger, neighbours=Neighbours())


def test_a_query_player_draws_the_cell_that_is_most_wrong() -> None:
    """The rows have a right and say b = 0 throughout, where the data have one third each."""
    door = _door()
    rows = np.array(
        [[0, 0, 0, 0], [1, 0, 1, 1], [2, 0, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [2, 0, 1, 1]], dtype=np.int32
    )
    player = QueryPlayer(door.domain, [("a",), ("b",), ("c", "d")], 3, np.random.default_rng(0), both_signs=True)
    player.compare_with(rows, 2000.0)
    drawn = [player.draw(door, 1.0, step="queries") for _ in range(5)]
    assert {(query.clique, query.cell, query.sign) for query in drawn} == {(("b",), (0,), -1)}


def test_queries_of_a_round_are_of_different_cells_however_large_the_budget() -> None:
    """Drawn independently, all would be of the cell that is most wrong (the test above)."""
    door = _door()
    player = QueryPlayer(door.domain, [("a",), ("b",)], 2, np.random.default_rng(0), both_signs=True)
    player.compare_with(np.zeros((6, 4), dtype=np.int32), 2000.0)
    leader = PerturbedLeader.uniform(door.domain)
    weigh_drawn_queries(door, player, leader, 6, 1.0, weight=1.0, step="queries", distinct=True)
    assert {clique: np.abs(weights).tolist() for clique, weights in leader.weights.items()} == {
        ("a",): [1, 1, 1],
        ("b",): [1, 1, 1],
    }


@pytest.mark.parametrize(
    ("method", "step", "few", "many"), [("rap", "chosen marginals", 8, 24), ("dualquery", "queries", 588, 1764)]
)
def test_large_budgets_ask_more(method: str, step: str, few: int, many: int) -> None:
    domain = Domain.of(SIZES)
    assert [create(method, {}).split(domain, rho).releases(step) for rho in (0.02, 900.0)] == [few, many]


def test_no_more_cells_compete_in_a_draw_than_can_be_drawn_from_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs have 4 to 9 cells; with 9 at most one or two of them compete in a draw, which still spends its budget."""
    monkeypatch.setattr(cell_queries, "MAX_CELLS", 9)
    details = [c.detail for c in run("fem", rounds=6).spent.charges if c.step == "queries"]
    counts = [int(detail.split(", ")[-1].split()[0]) for detail in details]
    assert max(counts) <= 9
    assert min(counts) >= 4


def test_marginals_of_too_many_cells_give_way_to_their_parts() -> None:
    domain = Domain.of({"a": 2, "b": 9, "c": 3, "d": 500})
    assert query_sets("all-3way", domain, 60) == [("a", "b", "c"), ("a", "b"), ("a", "c"), ("b", "c")]
    assert query_sets([["d"]], domain, 60) == [("d",)]


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("rap", {"oneway_share": 1.0}, "share"),
        ("rap", {"per_round": -1}, "per_round is -1"),
        ("rap", {"steps": 0}, "steps is 0"),
        ("rap", {"pull": -0.5}, "pull is -0.5"),
        ("fem", {"noise": 0.0}, "noise is 0"),
        ("fem", {"per_round": -2}, "per_round is -2"),
        ("dualquery", {"rounds": 1}, "rounds is 1"),
        ("dualquery", {"weight": -1.0}, "weight is -1"),
    ],
)
def test_settings_without_sense_are_refused(method: str, settings: dict, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        create(method, settings)
