"""Relaxed projection: hand-written slopes are derivatives, and steps lead to the counts."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import NoisyMarginal
from lookalike.models.relaxed_rows import RelaxedProjection, RelaxedRows
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 4, 5))
EVEN = [np.full(size, 1 / size) for size in DOMAIN.sizes]


def measured() -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, (3, 4))
    return [
        NoisyMarginal(("a",), rng.normal(300, 20, 3), 9.0),
        NoisyMarginal(("b", "d"), rng.normal(100, 20, (2, 5)), 7.0),
        NoisyMarginal(("a", "b", "c"), rng.normal(40, 20, (3, 2, 4)), 5.0),
        NoisyMarginal(("a", "b", "c", "d"), rng.normal(8, 5, (3, 2, 4, 5)), 5.0),
        NoisyMarginal(("a", "c"), rng.normal(300, 50, 3), 6.0, groups),
        NoisyMarginal((), np.array(900.0), 5.0),
    ]


def objective(model: RelaxedProjection, pull: float) -> float:
    """The formula of the docstring, from the model's marginals."""
    distributions = model.distributions()
    counts = RelaxedRows(DOMAIN, 1.0, distributions.astype(float))
    total, least = 1000.0, 5.0
    value = 0.0
    for one in measured():
        if one.attrs:
            found = counts.marginal(one.attrs)
            if one.groups is not None:
                found = np.bincount(one.groups.ravel(), weights=found.ravel(), minlength=len(one.values))
            value += 0.5 * (least / one.stddev) ** 2 * ((found - one.values / total) ** 2).sum()
    base = np.repeat(np.concatenate(EVEN)[:, None], distributions.shape[1], axis=1)
    return value + pull * least / total * float(
        (distributions * np.log(distributions / base)).sum() / distributions.shape[1]
    )


@pytest.mark.parametrize("pull", [0.0, 3.0])
def test_the_first_step_goes_down_every_coordinate_whose_derivative_is_not_small(pull: float) -> None:
    """Adam's first step is the rate times the sign of the slope: compared with differences of the objective."""
    model = RelaxedProjection(DOMAIN, EVEN, 6, 1.0, np.random.default_rng(1))
    before = model.logits.astype(np.float64).copy()
    model.logits = before
    slopes = np.zeros_like(before)
    for place in np.ndindex(*before.shape):
        for side in (1, -1):
            model.logits = before.copy()
            model.logits[place] += side * 1e-4
            slopes[place] += side * objective(model, pull) / 2e-4
    model.logits = before.copy()
    model.approach(measured(), 1000.0, steps=1, rate=0.01, pull=pull)
    clear = np.abs(slopes) > 0.02 * np.abs(slopes).max()
    assert clear.mean() > 0.5
    np.testing.assert_allclose((model.logits - before)[clear], -0.01 * np.sign(slopes[clear]), rtol=1e-3)


def test_counts_that_rows_can_have_are_reached() -> None:
    rng = np.random.default_rng(2)
    truth = RelaxedRows(DOMAIN, 1000.0, np.concatenate([rng.dirichlet(np.ones(s), 3).T for s in DOMAIN.sizes]))
    sets = [("a", "b", "c"), ("c", "d"), ("a", "d")]
    counts = [NoisyMarginal(clique, truth.marginal(clique), 1.0) for clique in sets]
    model = RelaxedProjection(DOMAIN, EVEN, 200, 0.2, rng)
    start = [np.abs(share - truth.marginal(c) / 1000).sum() for share, c in zip(model.shares(sets), sets, strict=True)]
    error = model.approach(counts, 1000.0, steps=300, rate=0.1, pull=0.0)
    assert error < 1e-5
    end = [np.abs(share - truth.marginal(c) / 1000).sum() for share, c in zip(model.shares(sets), sets, strict=True)]
    assert max(end) < 0.01 < min(start)


def test_the_pull_keeps_what_was_not_counted_independent() -> None:
    """a and b are equal; c and d are not measured, so their dependence stays at its random start."""
    counts = [NoisyMarginal(("a", "b"), np.array([[500.0, 0], [0, 500.0], [0, 0]]), 5.0)]
    ties = []
    for pull in (0.0, 0.25):
        model = RelaxedProjection(DOMAIN, EVEN, 200, 1.0, np.random.default_rng(3))
        model.approach(counts, 1000.0, steps=300, rate=0.1, pull=pull)
        pair, tied = model.shares([("a", "b"), ("c", "d")])
        assert np.abs(pair - counts[0].values / 1000).sum() < 0.1
        ties.append(float(np.abs(tied - np.outer(tied.sum(axis=1), tied.sum(axis=0))).sum()))
    assert ties[1] < 0.1 * ties[0]
