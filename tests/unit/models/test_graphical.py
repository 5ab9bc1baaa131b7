"""Fits: exact where the measurements are, sensible where they are not, the same with either executor."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lookalike.errors import SchemaError
from lookalike.fitting.maximum_entropy import Problem, mirror_parameters
from lookalike.measurements import CellTable, NoisyMarginal, completed, merged_columns
from lookalike.models.archive import stored_model
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart

DOMAIN = Domain(("a", "b", "c", "d", "e"), (3, 4, 2, 3, 5))
CLIQUES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(72, 0.5)).reshape(3, 4, 2, 3)
    return 5000 * weights


def marginal(counts: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return counts.sum(axis=tuple(i for i, name in enumerate("abcd") if name not in clique))


def measured(counts: np.ndarray, stddev: float, seed: int = 0, cliques=CLIQUES) -> list[NoisyMarginal]:
    rng = np.random.default_rng(seed)
    tables = [marginal(counts, clique) for clique in cliques]
    return [
        NoisyMarginal(clique, table + rng.normal(0, stddev, table.shape), stddev)
        for clique, table in zip(cliques, tables, strict=True)
    ]


@pytest.mark.parametrize("executor", ["numpy", "numba"])
def test_precise_measurements_are_reproduced(counts, executor):
    model = fit(DOMAIN, measured(counts, 0.01), executor=executor, iterations=500)
    assert model.total == pytest.approx(5000, abs=1)
    for clique in CLIQUES:
        np.testing.assert_allclose(model.marginal(clique), marginal(counts, clique), atol=2.0)


def test_mirror_descent_stops_at_the_noise_floor_and_dual_goes_on(counts):
    noisy = measured(counts, 20.0)
    problem = Problem(DOMAIN, noisy, total=None, zeros=None)
    losses: list[float] = []
    mirror_parameters(
        problem, np.zeros(problem.queries.size), iterations=2000, callback=lambda _, loss: losses.append(loss)
    )
    floor = 0.5 * problem.queries.size
    assert losses[-1] <= 0.96 * floor < losses[-2]
    assert losses == sorted(losses, reverse=True)


def test_the_dual_solution_is_stationary(counts):
    """At the optimum the model's counts are the noisy ones less the penalty: N mu - y + lam sigma^2 theta = 0."""
    noisy = measured(counts, 5.0)
    model = fit(DOMAIN, noisy, iterations=2000, penalty=0.5)
    for measurement in noisy:
        pull = 0.5 * measurement.stddev * model.potentials[measurement.attrs]
        residual = model.marginal(measurement.attrs) - measurement.values + pull
        assert np.abs(residual).max() < 0.05


def test_repeats_are_averaged_by_inverse_variance(counts):
    truth = marginal(counts, ("a",))
    near = NoisyMarginal(("a",), truth + 1.0, 1.0)
    far = NoisyMarginal(("a",), truth - 30.0, 3.0)
    problem = Problem(DOMAIN, [near, far], total=5000, zeros=None)
    assert len(problem.measurements) == 1
    np.testing.assert_allclose(problem.observed, truth + (1.0 * 1.0 - 30.0 / 9) / (1 + 1 / 9))
    assert problem.sigma[0] == pytest.approx((1 + 1 / 9) ** -0.5)


@pytest.mark.parametrize("executor", ["numpy", "numba"])
@pytest.mark.parametrize("method", ["dual", "mirror"])
def test_sums_over_groups_are_matched_and_spread_evenly(counts, method, executor):
    groups = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
    table = marginal(counts, ("a", "b"))
    sums = np.bincount(groups.ravel(), table.ravel())
    model = fit(
        DOMAIN,
        [NoisyMarginal(("a", "b"), sums, 1.0, groups=groups)],
        method=method,
        executor=executor,
        total=float(sums.sum()),
    )
    found = model.marginal(("a", "b"))
    np.testing.assert_allclose(np.bincount(groups.ravel(), found.ravel()), sums, rtol=0.01)
    np.testing.assert_allclose(found[2], sums[2] / 4, rtol=0.01)


def test_impossible_cells_stay_empty_everywhere(counts):
    zeros = {("a", "c"): np.array([[True, False], [False, False], [False, False]])}
    noisy = [*measured(counts, 5.0), *measured(counts, 5.0, cliques=[("a", "c")])]
    model = fit(DOMAIN, noisy, zeros=zeros)
    assert model.marginal(("a", "c"))[0, 0] == 0
    rows = model.sample(3000, np.random.default_rng(0))
    assert not np.any((rows[:, 0] == 0) & (rows[:, 2] == 0))
    assert np.isfinite(model.marginal(("a", "b"))).all()
    with pytest.raises(SchemaError, match="expected"):
        fit(DOMAIN, noisy, zeros={("c", "a"): np.zeros((2, 3), dtype=bool)})


def test_zeros_of_a_warm_model_stay(counts):
    zeros = {("a", "c"): np.array([[True, False], [False, False], [False, False]])}
    first = fit(DOMAIN, measured(counts, 5.0, cliques=[("a",), ("c",)]), zeros=zeros)
    assert list(first.zeros) == [("a", "c")]
    again = fit(DOMAIN, measured(counts, 5.0), warm=first)
    assert again.marginal(("a", "c"))[0, 0] == 0


def test_zeros_that_would_make_the_model_far_slower_are_left_out():
    names = tuple("abcdef")
    domain = Domain(names, (110,) * 6)
    singles = [NoisyMarginal((name,), np.full(110, 10.0), 1.0) for name in names]
    small, large = np.eye(110, dtype=bool), np.zeros((110, 110, 110), dtype=bool)
    large[0, 0, 0] = True
    model = fit(domain, singles, zeros={("a", "b"): small, ("c", "d", "e"): large, ("d", "e", "f"): large})
    assert ("a", "b") in model.zeros
    assert len(model.zeros) < 3


def test_zeros_that_leave_no_row_are_an_error():
    one = np.array([[True] * 4, [True] * 4, [False] * 4])
    other = np.array([[False] * 2, [False] * 2, [True] * 2])
    with pytest.raises(SchemaError, match="contradict"):
        fit(DOMAIN, [], total=10.0, zeros={("a", "b"): one, ("a", "c"): other})


def test_columns_without_measurement_are_uniform(counts):
    model = fit(DOMAIN, measured(counts, 5.0))
    np.testing.assert_allclose(model.marginal(("e",)), model.total / 5)
    np.testing.assert_allclose(model.marginal(("a", "e")), np.outer(model.marginal(("a",)), np.full(5, 0.2)))
    assert fit(DOMAIN, [], total=10.0).marginal(("a",)).sum() == pytest.approx(10.0)


def test_a_warm_start_after_one_more_column_set_needs_fewer_steps(counts):
    cliques = [*CLIQUES, ("a", "c")]
    noisy = measured(counts, 5.0, cliques=cliques)
    warm = fit(DOMAIN, noisy[:-1])
    steps = {"cold": 0, "warm": 0}
    cold = fit(DOMAIN, noisy, callback=lambda i, _: steps.__setitem__("cold", i))
    again = fit(DOMAIN, noisy, warm=warm, callback=lambda i, _: steps.__setitem__("warm", i))
    assert steps["warm"] < steps["cold"]
    for clique in cliques:
        np.testing.assert_allclose(again.marginal(clique), cold.marginal(clique), atol=0.5)


def test_the_same_arguments_give_the_same_model_and_rows(counts):
    models = [fit(DOMAIN, measured(counts, 5.0), seed=3) for _ in range(2)]
    rows = [model.sample(500, np.random.default_rng(1)) for model in models]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert models[0].plan == models[1].plan


def test_a_stored_model_draws_the_same_rows(counts):
    model = fit(DOMAIN, measured(counts, 5.0))
    meta, arrays = taken_apart(model)
    again = stored_model(Stored(json.loads(json.dumps(meta)), dict(arrays)))
    assert isinstance(again, GraphicalModel)
    assert again.plan == model.plan
    np.testing.assert_allclose(again.marginal(("b", "d")), model.marginal(("b", "d")), rtol=1e-9)
    one, two = (m.sample(400, np.random.default_rng(5)) for m in (again, stored_model(Stored(meta, arrays))))
    np.testing.assert_array_equal(one, two)


def test_mistakes_are_named(counts):
    with pytest.raises(SchemaError, match="domain order"):
        fit(DOMAIN, [NoisyMarginal(("b", "a"), np.ones((4, 3)), 1.0)])
    with pytest.raises(SchemaError, match="expected"):
        fit(DOMAIN, [NoisyMarginal(("a", "b"), np.ones((4, 3)), 1.0)])
    with pytest.raises(ValueError, match="'dual' or 'mirror'"):
        fit(DOMAIN, measured(counts, 1.0), method="other", iterations=3)  # type: ignore[arg-type]


CONTRASTS = [
    *(CellTable((name,), DOMAIN.shape((name,))) for name in "abcd"),
    CellTable(("a", "b"), (3, 4)),
    merged_columns(("b", "d"), [np.array([0, 1, 1, 1]), np.arange(3)]),
    CellTable(("c", "d"), (3,), np.array([[0, 1, 2], [0, 0, 1]])),
]


@pytest.mark.parametrize("method", ["dual", "mirror"])
def test_what_contrasts_do_not_say_has_no_say(counts, method):
    """Sets completed from quite different models make the same fit, with the contrasts that were measured."""
    rng = np.random.default_rng(2)
    fits = []
    for reference in (counts, 5000 * rng.dirichlet(np.full(72, 0.5)).reshape(3, 4, 2, 3)):
        measurements = []
        for part in CONTRASTS:
            values = part.contrasts.of(part.sums(marginal(counts, part.attrs)))
            noisy = NoisyMarginal(part.attrs, values, 5.0, part.groups, contrasts=part.shape)
            known = (
                np.full(values.size, 5000 / values.size) if len(part.attrs) == 1 else marginal(reference, part.attrs)
            )
            measurements.append(completed(noisy, known))
        fits.append(fit(DOMAIN, measurements, total=5000, method=method, iterations=4000, penalty=0.01))
    for part in CONTRASTS:
        one, other = (model.marginal(part.attrs) for model in fits)
        np.testing.assert_allclose(one, other, atol=15 if method == "mirror" else 0.5)
        found, wanted = (part.contrasts.of(part.sums(t)) for t in (one, marginal(counts, part.attrs)))
        np.testing.assert_allclose(found, wanted, atol=25 if method == "mirror" else 1.0)


def test_a_lighter_penalty_on_single_columns_raises_rare_values_less(counts):
    rare = [NoisyMarginal(("a",), np.array([4900.0, 95.0, 5.0]), 40.0)]
    full, light = (fit(DOMAIN, rare, single=single).marginal(("a",))[2] for single in (1.0, 0.1))
    assert full > 2 * light > 10
