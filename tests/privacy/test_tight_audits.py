"""Audits of the door show most of what a mechanism claims and no more, and notice noise that is a little too small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lookalike.audit import mechanisms, methods
from lookalike.audit.mechanisms import (
    audit_cells,
    audit_choice,
    audit_gaussian,
    audit_laplace,
    audit_lone_values,
    audit_parts,
    gaussian_acts,
)
from lookalike.audit.methods import MethodAudit, own_cells, resemblance
from lookalike.audit.watched import Pair
from lookalike.measurements import NoisyMarginal
from lookalike.privacy import scores as scores_module
from lookalike.privacy.kernel import door
from lookalike.privacy.kernel import mechanisms as kernel_mechanisms
from lookalike.privacy.kernel.accounting import Budget
from lookalike.privacy.row_level import critic_sums, laplace_counts, rows, teacher_votes
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS

ACTS = {act.name: act for act in gaussian_acts()}
EPSILON, DELTA = 20.0, 1e-5
RUNS = 1000


@pytest.fixture(autouse=True)
def rarely_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are wrong once in ten million times: a test must not fail by chance."""
    monkeypatch.setattr(mechanisms, "FAILURE", 1e-7)
    monkeypatch.setattr(methods, "FAILURE", 1e-7)


def silent(message: str, done: float) -> None:
    pass


@pytest.mark.parametrize("name", ACTS)
def test_no_mechanism_shows_more_than_it_claims_and_each_shows_much_of_it(name: str) -> None:
    """At a large epsilon few runs suffice."""
    found = audit_gaussian(ACTS[name], EPSILON, DELTA, RUNS)
    assert not found["broken"], found
    assert found["share"] > 0.6, found
    assert all(point["misses"] >= point["claimed"] for point in found["trade_off"])


def scaled(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    exact = door.rounded_gaussian
    for module in (door, kernel_mechanisms, critic_sums, teacher_votes, rows):
        monkeypatch.setattr(module, "rounded_gaussian", lambda stddev, *a, **k: exact(stddev * factor, *a, **k))


@pytest.mark.parametrize("name", sorted(set(ACTS) - {"measure, groups"})[::3])
def test_seven_tenths_of_the_noise_are_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    scaled(monkeypatch, 0.7)
    assert audit_gaussian(ACTS[name], EPSILON, DELTA, 2 * RUNS)["broken"]


def test_all_scores_of_the_package_are_audited() -> None:
    scores = {name for name, value in vars(scores_module).items() if hasattr(value, "sensitivity")}
    assert {name.removeprefix("noisy_scores: ") for name in ACTS if name.startswith("noisy_scores")} == scores


def test_a_choice_shows_much_of_its_epsilon_and_no_more() -> None:
    found = audit_choice(3.0, DELTA, 500)
    assert not found["broken"]
    assert found["shown"] > 0.2, found


def test_laplace_counts_show_much_of_their_epsilon_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit_laplace(3.0, DELTA, 2 * RUNS)
    assert not found["broken"]
    assert found["share"] > 0.5, found
    exact = laplace_counts.two_sided_geometric
    monkeypatch.setattr(laplace_counts, "two_sided_geometric", lambda scale, *a, **k: exact(scale / 2, *a, **k))
    assert audit_laplace(3.0, DELTA, 2 * RUNS)["broken"]


def test_lone_values_pass_as_rarely_as_was_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit_lone_values(doors=40)
    assert not found["broken"], found
    monkeypatch.setattr(door, "threshold", lambda stddev, *_: 1 + 1.3 * stddev)
    assert audit_lone_values(doors=40)["broken"]


def test_parts_show_no_more_than_they_claim() -> None:
    assert not audit_parts(4.0, DELTA, 60)["broken"]


def test_occurring_cells_show_much_of_what_they_claim_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit_cells(EPSILON, DELTA, RUNS)
    assert not found["broken"], found
    assert found["share"] > 0.6, found
    scaled(monkeypatch, 0.7)
    assert audit_cells(EPSILON, DELTA, 2 * RUNS)["broken"]


# Whole runs.


@pytest.mark.parametrize("name", ["independent", pytest.param("aim", marks=pytest.mark.slow)])
def test_runs_of_a_method_use_up_what_they_claim(name: str) -> None:
    """Log-likelihood ratios have the mean that the claim allows, of which a method that spends everything is near."""
    audit = MethodAudit(name, 20.0, DELTA)
    by_answers, by_table = audit.likelihoods(30, silent)
    assert not by_answers.broken
    assert not by_table.broken
    assert by_answers.hits[0] > by_answers.hits[1] + 8


def test_a_method_with_too_little_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled(monkeypatch, 0.01)
    audit = MethodAudit("independent", 1.0, DELTA)
    assert audit.likelihoods(40, silent)[0].broken
    assert MethodAudit("independent", 1.0, 1e-12).canaries(120, silent)["shown"] > 1.0


def test_likelihoods_follow_the_gaussian_curve_of_the_budget() -> None:
    """mu^2 / 2 is the mean of the log-likelihood ratio with the person, if all of the budget is used by it."""
    audit = MethodAudit("independent", 4.0, DELTA)
    mu = audit.promised.strength
    assert mu == pytest.approx(np.sqrt(2 * float(Budget(4.0, DELTA, "gdp").rho)))
    both = methods._BASE, np.vstack([methods._BASE, methods._PERSON])
    pair = Pair(Schema.from_sizes(methods._SIZES).domain, *both)
    ratios = np.array([audit.run(both[1], methods._SIZES, pair).log_ratio for _ in range(60)])
    assert abs(ratios.mean() - mu**2 / 2) < 5.5 * mu / np.sqrt(60)
    assert 0.6 * mu < ratios.std() < 1.5 * mu


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_audited(name: str) -> None:
    for figures in MethodAudit(name, 1.0, DELTA).all(6, silent):
        assert not figures["broken"], figures


def test_statistics_of_rows() -> None:
    table, person = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]]), np.ones(3)
    assert resemblance(table, person) == 7 + 1
    released = [NoisyMarginal(("a",), np.array([30.0, 1.0, 0.0]), 1.0), NoisyMarginal((), np.array(31.0), 1.0)]
    found = own_cells(released, np.zeros((30, 1), dtype=int), np.array([[1], [2]]), ("a",))
    assert found.tolist() == [0.5, -0.5]


def test_the_time_is_predicted() -> None:
    assert 0 < mechanisms.seconds_needed(20.0, DELTA, 100) < 600


def test_bounds_are_stored_for_machines() -> None:
    found: dict[str, Any] = audit_gaussian(ACTS["measure"], EPSILON, DELTA, 100)
    assert found["epsilon"]["claimed"] == pytest.approx(EPSILON, rel=1e-6)
    assert found["most"] > found["if_used_up"] > 0
