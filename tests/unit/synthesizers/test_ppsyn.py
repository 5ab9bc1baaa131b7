"""PPSyn: what it spends, what it learns, that groups are measured, in our variant and the paper's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BudgetError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget
from lookalike.release import Release
from lookalike.schema.domain import Domain
from lookalike.synthesizers import settings_of
from lookalike.synthesizers.papers.ppsyn import PPSynPaper
from lookalike.synthesizers.ppsyn import ERRORS, GROUPS, PPSyn
from lookalike.synthesizers.split import ONEWAYS

SIZES = {"x": 40, "y": 40, "c": 2, "d": 2, "e": 2}


def table(rows: int = 4000) -> pa.Table:
    """y lies near x on a long scale; c, d and e are independent in pairs, but e is the parity of c and d."""
    rng = np.random.default_rng(0)
    x, c, d = rng.integers(0, 40, rows), rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    y = np.clip(x + rng.integers(-3, 4, rows), 0, 39)
    return pa.table({"x": x, "y": y, "c": c, "d": d, "e": c ^ d})


def run(epsilon: float = 1.0, method: str = "ppsyn", **settings) -> Release:
    rng = np.random.default_rng(4)
    return synthesize(table(), schema=SIZES, epsilon=epsilon, method=method, seed=0, insecure_rng=rng, **settings)


@pytest.mark.parametrize("method", [PPSyn(), PPSynPaper(rounds=6, workload="all-2way")])
def test_all_of_the_budget_is_spent_in_the_planned_steps(method: PPSyn | PPSynPaper) -> None:
    release = run(method=method.name, **settings_of(method))
    spent = {step: float(rho) for step, rho in release.spent.by_step().items()}
    budget = Budget(1.0, 1e-5, "gdp")
    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    planned = {step.step: step.rho for step in method.split(domain, float(budget.rho)).steps}
    assert set(spent) == {ONEWAYS, ERRORS, GROUPS}
    assert sum(spent.values()) == pytest.approx(float(budget.rho), rel=1e-6)
    for step in (ONEWAYS, ERRORS):
        assert spent[step] <= planned[step] * (1 + 1e-9)


def test_a_band_along_two_long_columns_is_learnt_from_groups() -> None:
    release = run(0.5)
    grouped = [m for m in release.fitted.error_bars().measurements if m.groups is not None]
    assert any(m.attrs == ("x", "y") and m.cells < 1600 for m in grouped)
    joint = release.model.marginal(("x", "y")) / release.model.total
    near = np.abs(np.subtract.outer(np.arange(40), np.arange(40))) <= 10
    assert joint[near].sum() > 0.75  # 0.45 under independence


def test_a_parity_of_three_columns_is_found_by_the_second_scoring_round() -> None:
    joint = run(4.0).model.marginal(("c", "d", "e"))
    odd = [joint[c, d, c ^ d] for c in range(2) for d in range(2)]
    assert sum(odd) > 0.9 * joint.sum()


def test_only_columns_in_a_workload_of_single_columns() -> None:
    assert set(run(workload="all-1way").spent.by_step()) == {ONEWAYS}


def test_two_columns_need_no_larger_sets() -> None:
    rows = table(500).select(["c", "d"])
    release = synthesize(rows, schema={"c": 2, "d": 2}, epsilon=1.0, method="ppsyn", seed=0)
    assert release.spent.epsilon_spent == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{"eta": 0.0}, {"eta": 1.1}, {"oneway_share": 0.8, "error_share": 0.3}, {"caution": 0.0}, {"rounds": -1},
     {"oneway_share": -0.1}],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings: dict) -> None:
    with pytest.raises(BudgetError):
        PPSyn(**settings)
