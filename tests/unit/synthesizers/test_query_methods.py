"""RAP: what rounds spend and measure, what they learn, what the paper's own steps do, what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BudgetError
from lookalike.pipeline import synthesize
from lookalike.release import Release
from lookalike.schema.domain import Domain
from lookalike.select.cell_queries import query_sets
from lookalike.synthesizers import create

SIZES = {"a": 3, "b": 3, "c": 2, "d": 2}


def table(rows: int = 2000) -> pa.Table:
    """b repeats a, d repeats c; the two pairs are independent."""
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    return pa.table({"a": a, "b": a, "c": c, "d": c})


def run(method: str, *, epsilon: float = 2.0, **settings) -> Release:
    rng = np.random.default_rng(4)
    return synthesize(table(), schema=SIZES, epsilon=epsilon, method=method, seed=0, insecure_rng=rng, **settings)


def distances(release: Release) -> list[float]:
    model = release.fitted.model
    truths = {("a", "b"): np.eye(3) / 3, ("c", "d"): np.eye(2) / 2, ("a", "c"): np.full((3, 2), 1 / 6)}
    return [float(np.abs(model.marginal(pair) / model.total - truth).sum() / 2) for pair, truth in truths.items()]


def test_rap_finds_strong_dependencies_and_invents_none() -> None:
    assert max(distances(run("rap", epsilon=8.0))) < 0.03


def test_the_papers_steps_of_rap_find_them_too() -> None:
    assert max(distances(run("rap", epsilon=20.0, faithful=True))) < 0.15


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
    release = run("rap", faithful=True, rounds=2, per_round=3, steps=2)
    cells = [m for m in release.fitted.measurements if m.attrs]
    assert len(cells) == 6
    for measured in cells:
        assert measured.groups is not None
        assert sorted(np.bincount(measured.groups.ravel()))[0] == 1
    spent = release.spent.by_step()
    assert float(spent["choices"]) == pytest.approx(float(spent["chosen cells"]), rel=1e-6)


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
    ],
)
def test_settings_without_sense_are_refused(method: str, settings: dict, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        create(method, settings)
