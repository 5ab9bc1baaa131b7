"""PrivSyn's charges against the corrected formulas, its settings, and that it keeps what depends on what."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lookalike.errors import BudgetError, SchemaError
from lookalike.measurements import NoisyMarginal
from lookalike.models.refine import RefinedModel
from lookalike.models.rows import RowsModel
from lookalike.privacy.kernel import accounting as prices
from lookalike.schema.domain import Domain
from lookalike.sources.open import MemorySource
from lookalike.synthesizers.privsyn import SELECTED, PrivSyn
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES

RHO = 0.5


@dataclass(slots=True)
class RecordingDoor:
    """A door without guarantee that remembers every request."""

    source: Any
    rng: np.random.Generator
    requests: list[tuple[str, list[Any], list[float]]] = field(default_factory=list)
    score_sensitivity: Fraction = Fraction(1)
    known: tuple[NoisyMarginal, ...] = ()

    @property
    def domain(self) -> Domain:
        return self.source.domain

    @property
    def remaining(self) -> float:
        return float(Fraction(RHO) - sum(self.rho_of(step) for step in (ONEWAYS, PAIR_SCORES, SELECTED)))

    def rho_of(self, step: str) -> Fraction:
        found = Fraction(0)
        for name, _, stddevs in self.requests:
            if name == step:
                sensitivity = self.score_sensitivity if step == PAIR_SCORES else 1
                found += sum(prices.gaussian_rho(sensitivity, s) for s in stddevs)
        return found

    def stddev_for(self, rho: float, releases: int = 1) -> float:
        return prices.stddev_for(rho, 1, releases)

    def score_stddev_for(self, score: Any, rho: float) -> float:
        return prices.stddev_for(rho, score.sensitivity, len(score.cliques))

    def measure(self, cliques: list[Any], stddevs: list[float], *, step: str) -> list[NoisyMarginal]:
        self.requests.append((step, list(cliques), list(stddevs)))
        return [
            NoisyMarginal(c, np.rint(count + self.rng.normal(0, s, count.shape)), s)
            for c, count, s in zip(cliques, self.source.counts(cliques), stddevs, strict=True)
        ]

    def noisy_scores(self, score: Any, stddev: float, *, step: str) -> np.ndarray:
        self.score_sensitivity = score.sensitivity
        self.requests.append((step, list(score.cliques), [stddev] * len(score.cliques)))
        exact = score.evaluate(self.source.counts(list(score.cliques))) / score.resolution
        return exact + self.rng.normal(0, stddev, exact.shape)

    def coarsened(self, maps: dict[str, np.ndarray]) -> RecordingDoor:
        self.source = self.source.recoded(maps)
        return self


def door_of(codes: np.ndarray, domain: Domain) -> RecordingDoor:
    return RecordingDoor(MemorySource(domain, codes.astype(np.int32)), np.random.default_rng(0))


def dependent(rows: int = 3000) -> tuple[np.ndarray, Domain]:
    rng = np.random.default_rng(1)
    domain = Domain.of({"a": 4, "b": 4, "c": 3, "d": 2, "e": 5})
    a = rng.integers(0, 4, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.8, b % 3, rng.integers(0, 3, rows))
    d = np.where(rng.random(rows) < 0.8, (a + c) % 2, rng.integers(0, 2, rows))
    return np.column_stack([a, b, c, d, rng.integers(0, 5, rows)]), domain


def fit(door: RecordingDoor, **settings: Any) -> Any:
    method = PrivSyn(**settings)
    split = method.split(door.domain, door.remaining)
    return method.fit(door, split, rng=np.random.default_rng(2), progress=lambda *_: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("score", "variance"), [("residual", 10 / (2 * 0.025)), ("indif", 8 * 10 / 0.025)])
def test_scores_have_the_corrected_variance(score: str, variance: float) -> None:
    """m/(2 rho') against a fixed reference, 8m/rho' for InDif; not m^2 rho'^2 as printed in section 4.2."""
    door = door_of(*dependent())
    fit(door, score=score)
    (stddevs,) = [stddevs for step, _, stddevs in door.requests if step == PAIR_SCORES]
    assert len(stddevs) == 10
    assert stddevs[0] ** 2 == pytest.approx(variance, rel=1e-3)


def test_marginals_have_variance_one_over_two_rho_i_with_shares_of_cells_to_two_thirds() -> None:
    door = door_of(*dependent())
    fit(door, combine="pairs", merge_below=0.0)
    ((_, cliques, stddevs),) = [request for request in door.requests if request[0] == SELECTED]
    rho = RHO * (1 - 0.08 - 0.05)
    weights = np.array([door.domain.cells(clique) for clique in cliques]) ** (2 / 3)
    np.testing.assert_allclose(np.array(stddevs) ** 2, 1 / (2 * rho * weights / weights.sum()), rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"score": "indif", "combine": "cliques", "start": "independent"}])
def test_the_whole_budget_is_spent_in_the_planned_shares(settings: dict[str, Any]) -> None:
    door = door_of(*dependent())
    fit(door, **settings)
    assert float(door.rho_of(ONEWAYS)) == pytest.approx(0.08 * RHO, rel=1e-6)
    assert float(door.rho_of(PAIR_SCORES)) == pytest.approx(0.05 * RHO, rel=1e-6)
    assert float(door.rho_of(SELECTED)) == pytest.approx(0.87 * RHO, rel=1e-6)


@pytest.mark.parametrize("start", ["raked", "tree", "independent"])
@pytest.mark.parametrize("combine", ["cover", "cliques", "pairs"])
def test_dependencies_are_kept(start: str, combine: str) -> None:
    codes, domain = dependent()
    model = fit(door_of(codes, domain), start=start, combine=combine)
    for pair in (("a", "b"), ("b", "c"), ("a", "e")):
        exact = MemorySource(domain, codes.astype(np.int32)).counts([pair])[0]
        assert np.abs(model.marginal(pair) - exact).sum() / len(codes) < 0.15


def test_rare_values_are_merged_and_come_back() -> None:
    codes, domain = dependent()
    codes[:, 4] = np.where(np.arange(len(codes)) < 20, codes[:, 4], 0)
    door = door_of(codes, domain)
    model = fit(door)
    assert isinstance(model, RefinedModel)
    assert door.domain.size("e") < 5
    assert model.domain == domain
    assert model.sample(500, np.random.default_rng(0))[:, 4].max() < 5
    assert isinstance(fit(door_of(codes, domain), merge_below=0.0), RowsModel)


def test_the_number_of_rows_is_the_noisy_one() -> None:
    model = fit(door_of(*dependent()), merge_below=0.0)
    assert len(model.codes) == round(model.total)
    assert model.total != 3000
    assert math.isclose(model.total, 3000, rel_tol=0.02)


@pytest.mark.parametrize("settings", [{"score": "mi"}, {"combine": "all"}, {"start": "zero"}])
def test_unknown_ways_are_refused_with_the_known_ones(settings: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="must be one of"):
        PrivSyn(**settings)  # type: ignore[arg-type]


def test_shares_must_leave_something() -> None:
    with pytest.raises(BudgetError, match="shares"):
        PrivSyn(oneway_share=0.6, score_share=0.5)
