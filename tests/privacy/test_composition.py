"""All runs of a ledger together: composition is never more than the sum, and what it says holds by exact curves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from lookalike.errors import BudgetError
from lookalike.privacy.composition import Cap, RunCost, composed, epsilon_at
from lookalike.privacy.kernel.accounting import Accounting, Budget, Charge, Neighbours, gaussian_delta
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger


def cost(epsilon: float = 1.0, accounting: Accounting = "gdp", kept: float = 0.0, *more: str) -> RunCost:
    delta = 1e-5
    return RunCost(epsilon, delta, accounting, kept, frozenset(("gaussian", *more)), (epsilon, delta))


@pytest.mark.parametrize("runs", [2, 5, 40])
def test_gaussian_runs_compose_as_one_gaussian_mechanism(runs: int) -> None:
    epsilon, how = composed([cost()] * runs)
    mu = math.sqrt(2 * runs * float(Budget(1.0, 1e-5, "gdp").rho))
    curve = norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2)
    assert how == "gdp"
    assert curve == pytest.approx(runs * 1e-5, rel=1e-6)
    assert curve <= runs * 1e-5 * (1 + 1e-9)
    assert epsilon < runs


def test_the_two_noisy_counts_of_two_runs_are_one_with_less_noise() -> None:
    """By enumeration of the plane: two Gaussian losses, in the worst set, are the loss of their sum."""
    mu = math.sqrt(2 * float(Budget(1.0, 1e-2, "gdp").rho))
    epsilon = epsilon_at([RunCost(1.0, 1e-2, "gdp", 0.0, frozenset(["gaussian"]), (1.0, 1e-2))] * 2, 2e-2, "gdp")
    grid = np.linspace(-9, 9 + mu, 2400)
    x, y = np.meshgrid(grid, grid)
    without, with_person = norm.pdf(x) * norm.pdf(y), norm.pdf(x - mu) * norm.pdf(y - mu)
    beyond = np.maximum(with_person - math.exp(epsilon) * without, 0).sum() * (grid[1] - grid[0]) ** 2
    assert beyond == pytest.approx(2e-2, rel=1e-3)


def test_thresholds_are_paid_at_the_epsilon_of_all_runs() -> None:
    runs = [cost(1.0, "gdp", 1e-6, "threshold")] * 4
    epsilon = epsilon_at(runs, 4e-5, "gdp")
    mu = math.sqrt(2 * sum(float(run.rho) for run in runs))
    lone = sum(run.threshold_delta / (1 + math.exp(run.epsilon)) for run in runs)
    spent = gaussian_delta(mu, epsilon) + (1 + math.exp(epsilon)) * lone
    assert 0.98 * 4e-5 < spent <= 4e-5
    assert epsilon > epsilon_at([cost()] * 4, 4e-5, "gdp")


def test_thresholds_that_no_delta_pays_for_leave_the_sum() -> None:
    runs = [cost(30.0, "gdp", 9e-6, "threshold")] * 3
    assert epsilon_at(runs, 3e-5, "gdp") == math.inf
    assert composed(runs) == (90.0, "sum")


@pytest.mark.parametrize("mechanism", ["disjoint parts", "seeded rows", "none"])
def test_runs_without_a_rho_are_added_by_their_epsilons(mechanism: str) -> None:
    parts = cost(1.0, "gdp", 0.0, mechanism)
    epsilon, how = composed([cost(), cost(), parts])
    assert how == "gdp"
    assert epsilon == pytest.approx(1.0 + epsilon_at([cost(), cost()], 2e-5, "gdp"))
    assert composed([parts, parts]) == (2.0, "sum")


def test_mixed_runs_compose_by_zcdp_and_never_by_more_than_the_sum() -> None:
    mixed = [cost(), cost(), cost(1.0, "zcdp", 0.0, "exponential")]
    epsilon, how = composed(mixed)
    assert how in ("zcdp", "gdp")
    assert epsilon < 3.0
    for runs in ([cost()], [cost(0.01)] * 2, [cost(5.0)] * 3, mixed):
        assert composed(runs)[0] <= sum(run.epsilon for run in runs)
    assert composed([]) == (0.0, "sum")
    leaky = RunCost(1.0, 1e-5, "gdp", 0.0, frozenset(["gaussian"]), (math.inf, 1e-5))
    assert composed([leaky])[0] == math.inf


def test_a_leaky_run_is_infinite_in_every_composition() -> None:
    ledger = Ledger(None, "t")
    for noise in ("system entropy", REPRODUCIBLE):
        charged(ledger, Budget(1.0, 1e-5, "gdp"), noise=noise)
    assert ledger.composed()[0] == math.inf


def charged(ledger: Ledger, budget: Budget, mechanism: str = "gaussian", **more: object) -> None:
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), **more)  # type: ignore[arg-type]
    run.charge(Charge("step", mechanism, 1, budget.rho))


def test_a_composed_cap_is_a_fixed_sum_of_rho(tmp_path: Path) -> None:
    ledger, budget = Ledger(tmp_path / "ledger", "t"), Budget(1.0, 1e-5, "gdp")
    ledger.set_cap(2.0, "gdp", 8e-5)
    allowed = int(Budget(2.0, 4e-5, "gdp").rho / budget.rho)
    assert allowed == 4
    for _ in range(allowed):
        charged(ledger, budget)
    with pytest.raises(BudgetError, match="would pass the cap"):
        charged(ledger, budget)
    reopened = Ledger(tmp_path / "ledger", "t")
    assert reopened.limit == Cap(2.0, "gdp", 8e-5)
    assert "of the cap of 2 at delta 8e-05 by Gaussian DP is left" in reopened.left()
    assert reopened.spent()[0] == allowed
    assert reopened.composed()[0] < 2.0


@pytest.mark.parametrize("how", ["gdp", "zcdp"])
def test_a_composed_cap_leaves_half_of_its_delta_to_thresholds(how: Accounting) -> None:
    def run(delta: float, kept: float = 0.0) -> RunCost:
        return RunCost(2.0, delta, how, kept, frozenset(["gaussian"]), (2.0, delta))

    cap = Cap(2.0, how, 8e-5)
    assert cap.left([run(4e-5)]) == 0.0
    assert cap.left([run(4.1e-5)]) < 0.0
    assert cap.left([run(5e-5, 3.9e-5)]) > 0.0
    assert cap.left([run(8e-5, 4.1e-5)]) < 0.0


def test_a_composed_cap_refuses_what_does_not_compose() -> None:
    ledger = Ledger(None, "t")
    ledger.set_cap(5.0, "gdp", 1e-4)
    with pytest.raises(BudgetError, match="a method that the cap composes"):
        charged(ledger, Budget(1.0, 1e-5, "zcdp"))
    with pytest.raises(BudgetError, match="does not compose by Gaussian DP"):
        charged(ledger, Budget(1.0, 1e-5, "gdp"), "disjoint parts")
    assert ledger.spent()[0] == 0.0
    ledger.set_cap(5.0, "zcdp", 1e-4)
    charged(ledger, Budget(1.0, 1e-5, "zcdp"), "exponential")


def test_thresholds_use_up_a_composed_cap() -> None:
    kept = cost(1.0, "gdp", 9e-6, "threshold")
    cap = Cap(8.0, "gdp", 1e-4)
    assert cap.left([cost()]) > 0 > cap.left([kept])


def test_senseless_caps_are_refused() -> None:
    ledger = Ledger(None, "t")
    with pytest.raises(BudgetError, match="composition"):
        ledger.set_cap(1.0, "best", 1e-5)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="delta"):
        ledger.set_cap(1.0, "gdp", 0.0)
    assert ledger.cap is None


def test_the_ledger_knows_what_a_run_keeps_for_thresholds(tmp_path: Path) -> None:
    """Plant: it is not recorded, so that the thresholds of several runs cost nothing together."""
    charged(Ledger(tmp_path / "ledger", "t"), Budget(1.0, 1e-5, "gdp", 3e-6))
    run = Ledger(tmp_path / "ledger", "t").runs()[0]
    assert run.threshold_delta == 3e-6
    assert run.cost.lone == pytest.approx(3e-6 / (1 + math.e))
    assert run.cost.rho == Budget(1.0, 1e-5, "gdp", 3e-6).rho < Budget(1.0, 1e-5, "gdp").rho
