"""PrivBayes and PB-PGM on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import LookalikeError
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.models.bayes_net import BayesNet
from lookalike.models.graphical import GraphicalModel
from lookalike.pipeline import synthesize
from lookalike.release import Release
from lookalike.schema.domain import Domain

SIZES = {"a": 2, "b": 2, "c": 2, "d": 3, "e": 2, "f": 4}
BOTH = pytest.mark.parametrize("method", ["privbayes", "pb-pgm"])
ALL = pytest.mark.parametrize("method", ["privbayes", "pb-pgm", "privbayes-paper", "pb-pgm-paper"])


def table(rows: int, seed: int = 0) -> np.ndarray:
    """c is a xor b (no pair shows it), d and f follow c, e is free."""
    rng = np.random.default_rng(seed)
    a, b, e = rng.integers(0, 2, (3, rows))
    c = np.where(rng.random(rows) < 0.95, a ^ b, 1 - (a ^ b))
    d = np.where(rng.random(rows) < 0.8, c, 2)
    return np.column_stack([a, b, c, d, e, (2 * c + rng.integers(0, 2, rows))]).astype(np.int32)


def run(codes: np.ndarray, sizes: dict[str, int], method: str, *, epsilon: float = 1.0, **settings) -> Release:
    frame = pa.table({name: codes[:, i] for i, name in enumerate(sizes)})
    noise = np.random.default_rng(5)
    return synthesize(
        frame, schema=sizes, epsilon=epsilon, delta=1e-6, method=method, seed=1, insecure_rng=noise, **settings
    )


@ALL
def test_marginals_of_three_columns_are_close(method: str) -> None:
    codes = table(20_000)
    made = run(codes, SIZES, method, epsilon=2.0).table
    rows = np.column_stack([made[name].to_numpy() for name in SIZES]).astype(np.int32)
    close = distances_of(TablePair(codes, rows, Domain.of(SIZES)), random_cliques(Domain.of(SIZES), 3)).mean
    shuffled = np.column_stack([np.random.default_rng(i).permutation(codes[:, i]) for i in range(codes.shape[1])])
    apart = distances_of(TablePair(codes, shuffled, Domain.of(SIZES)), random_cliques(Domain.of(SIZES), 3)).mean
    assert close < 0.25 * apart


@ALL
@pytest.mark.parametrize("settings", [{"candidates": 2}, {"degree": 1}, {"theta": 1e6}, {"network_share": 0.5}])
def test_every_setting_spends_the_whole_budget_by_the_plan(method: str, settings: dict) -> None:
    made = run(table(500), SIZES, method, **settings)
    steps = made.plan
    spent = made.spent.by_step()
    assert sum(float(rho) for rho in spent.values()) == pytest.approx(sum(step.rho for step in steps), rel=1e-6)
    assert all(float(spent[step.step]) <= step.rho * (1 + 1e-9) for step in steps)


@pytest.mark.parametrize("method", ["privbayes", "privbayes-paper"])
def test_the_network_follows_the_settings(method: str) -> None:
    largest = []
    for settings in ({}, {"degree": 1}, {"theta": 1e6}):
        model = run(table(20_000), SIZES, method, epsilon=4.0, **settings).fitted.model
        assert isinstance(model, BayesNet)
        largest.append(max(map(len, model.parents)))
    assert largest[0] > 1
    assert largest[1:] == [1, 0]


def test_dependence_of_three_columns_is_found_because_families_are_scored_whole() -> None:
    counts = run(table(20_000), SIZES, "pb-pgm", epsilon=4.0).fitted.model.marginal(("a", "b", "c"))
    odd = counts[0, 0, 0] + counts[1, 1, 0] + counts[0, 1, 1] + counts[1, 0, 1]
    assert odd / counts.sum() > 0.9


def test_binary_tables_measure_only_what_no_other_family_holds() -> None:
    sizes = dict.fromkeys("abcdef", 2)
    codes = np.random.default_rng(0).integers(0, 2, (5000, 6)).astype(np.int32)
    made = run(codes, sizes, "privbayes-paper", epsilon=1.0)
    model = made.fitted.model
    assert isinstance(model, BayesNet)
    degree = max(map(len, model.parents))
    assert [len(parents) for parents in model.parents] == [min(place, degree) for place in range(6)]
    measured = sum(charge.releases for charge in made.spent.charges if charge.step == "families of the network")
    assert measured == 6 - degree


def test_a_model_that_would_be_too_large_loses_parents() -> None:
    families = []
    for limit in (60.0, 0.0205):
        made = run(table(20_000), SIZES, "pb-pgm", epsilon=4.0, model_ms=limit)
        model = made.fitted.model
        assert isinstance(model, GraphicalModel)
        families.append(max(len(clique) for clique in model.potentials))
        assert made.spent.epsilon_spent == pytest.approx(4.0)
    assert families[0] > families[1]


@BOTH
@pytest.mark.parametrize(
    "settings",
    [{"theta": 0.0}, {"candidates": 0}, {"degree": -1}, {"prior": -1.0}, {"network_share": 1.0}, {"oneway_share": 0.0}],
)
def test_refuses_settings_that_make_no_sense(method: str, settings: dict) -> None:
    with pytest.raises(LookalikeError):
        run(table(10), SIZES, method, **settings)
