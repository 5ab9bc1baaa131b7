"""AIM, MWEM+PGM and MWEM: how rounds spend, what they choose from, what they learn, what they refuse."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from lookalike.errors import BudgetError, ModelTooLargeError, SchemaError
from lookalike.models.graphical import GraphicalModel
from lookalike.pipeline import plan_run, synthesize
from lookalike.privacy.kernel.accounting import Budget
from lookalike.release import Release
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.synthesizers import aim, create
from lookalike.synthesizers.aim import AIM, Candidates
from lookalike.synthesizers.mwem import MWEM
from tests.unit.synthesizers.two_pairs import SIZES, run


def rounds_of(release: Release) -> tuple[list[Fraction], list[Fraction]]:
    """Costs of the choices and of the measurements that follow them, in order."""
    by_step = {step: [c.rho for c in release.spent.charges if c.step == step] for step in release.spent.by_step()}
    return by_step["choices"], by_step["chosen marginals"]


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_rounds_of_aim_stay_or_grow_fourfold_and_the_last_spends_the_rest(epsilon: float) -> None:
    release = run("aim", epsilon=epsilon, rounds=20)
    choices, measured = rounds_of(release)
    assert len(choices) == len(measured) > 2
    total = float(Budget(epsilon, 1e-5, "zcdp").rho)
    share = AIM().choice_share
    costs = [float(a + b) for a, b in zip(choices, measured, strict=True)]
    assert costs[0] == pytest.approx(total / 20, rel=1e-6)
    for choice, cost in zip(choices, costs, strict=True):
        assert float(choice) == pytest.approx(share * cost, rel=1e-6)
    growth = [later / earlier for earlier, later in pairwise(costs[:-1])]
    assert all(min(abs(g - 1), abs(g - 4)) < 1e-6 for g in growth)
    assert costs[-1] < 2 * costs[-2] * 4 * (1 + 1e-6)


def test_zero_rounds_are_the_papers_sixteen_per_column() -> None:
    release = run("aim", rounds=None, oneway_share=0.9 / 16, choice_share=0.1)
    total = float(Budget(2.0, 1e-5, "zcdp").rho)
    (oneways,) = [c.rho for c in release.spent.charges if c.step == "one-way marginals"]
    _, measured = rounds_of(release)
    assert float(measured[0]) == pytest.approx(0.9 * total / 64, rel=1e-6)
    assert float(oneways) / len(SIZES) == pytest.approx(float(measured[0]), rel=1e-6)


@pytest.mark.parametrize("method", ["aim", "mwem-pgm", "mwem"])
def test_strong_dependencies_are_found(method: str) -> None:
    model = run(method, epsilon=8.0).model
    for pair, truth in ((("a", "b"), np.eye(3) / 3), (("c", "d"), np.eye(2) / 2)):
        distance = np.abs(model.marginal(pair) / model.total - truth).sum() / 2
        assert distance < (0.25 if method == "mwem" else 0.08), pair


@pytest.mark.parametrize("method", ["aim", "mwem-pgm"])
def test_only_parts_of_the_workload_are_measured(method: str) -> None:
    model = run(method, workload="target-2way:d")
    pairs = [clique for clique in model.model.cliques if len(clique) > 1]  # type: ignore[attr-defined]
    assert ("c", "d") in pairs
    assert all("d" in pair for pair in pairs)


def test_a_model_without_room_keeps_to_single_columns() -> None:
    model = run("aim", model_ms=1e-6).model
    assert all(len(clique) == 1 for clique in model.cliques)  # type: ignore[attr-defined]


def test_wide_tables_offer_larger_sets_only_around_measured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.of({f"c{i}": 2 for i in range(8)})
    model = GraphicalModel(domain, {pair: np.zeros((2, 2)) for pair in [("c0", "c1"), ("c1", "c2"), ("c5", "c6")]}, 1e4)
    everything, _, noise = Candidates(domain, "all-3way").usable(model, 10.0, 0.1, 1e3)
    assert len(everything) == 8 + 28 + 56
    assert noise == pytest.approx([np.sqrt(2 / np.pi) * 10 * 2 ** len(clique) for clique in everything])
    monkeypatch.setattr(aim, "MAX_SETS", 50)
    fewer, weights, _ = Candidates(domain, "all-3way").usable(model, 10.0, 0.1, 1e3)
    assert [clique for clique in fewer if len(clique) == 3] == [("c0", "c1", "c2")]
    assert len(fewer) == len(weights) == 8 + 28 + 1


def test_large_sets_wait_until_their_noise_is_small() -> None:
    domain = Domain.of({"a": 10, "b": 10, "c": 10})
    model = GraphicalModel(domain, {(name,): np.zeros(10) for name in domain.names}, 1000.0)
    sizes = [
        max(map(len, Candidates(domain, "all-3way").usable(model, stddev, 0.1, 1e3)[0])) for stddev in (100.0, 2.0, 0.1)
    ]
    assert sizes == [1, 2, 3]


def test_a_domain_beyond_the_limit_is_refused_with_number_limit_and_remedy() -> None:
    wide = Schema.from_sizes({f"c{i}": 50 for i in range(200)})
    with pytest.raises(ModelTooLargeError, match=r"1e\+300 cells; the limit is 2e\+06 cells.*mwem-pgm") as caught:
        plan_run(wide, epsilon=1.0, delta=1e-5, method="mwem")
    assert caught.value.limit == MWEM().max_cells
    small = Domain.of({"a": 10, "b": 10})
    with pytest.raises(ModelTooLargeError, match="100 cells; the limit is 99 cells"):
        MWEM(max_cells=99).split(small, 0.1)


def test_a_wrong_workload_is_refused_before_the_table_is_read() -> None:
    for method in ("aim", "mwem-pgm", "mwem"):
        with pytest.raises(SchemaError, match="No column 'z'"):
            synthesize("there-is-no-such-file.csv", schema=SIZES, method=method, workload=[["a", "z"]])


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("aim", {"oneway_share": 1.0}, "share"),
        ("aim", {"choice_share": 0.0}, "share"),
        ("aim", {"rounds": -1}, "rounds is -1"),
        ("aim", {"model_ms": 0.0}, "model_ms is 0"),
        ("aim", {"noise_limit": -1.0}, "noise_limit is -1"),
        ("mwem-pgm", {"rows_share": 0.0}, "share"),
        ("mwem-pgm", {"iterations": 0}, "iterations is 0"),
        ("mwem", {"choice_share": 1.5}, "share"),
        ("mwem", {"replays": 0}, "replays is 0"),
    ],
)
def test_settings_out_of_range_are_named(method: str, settings: dict, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        create(method, settings)
