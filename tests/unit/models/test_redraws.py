"""Several tables of draws of one model: the combining rule, the draws, and the files that the commands write."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lookalike
from benchmarks.accuracy import inference
from benchmarks.accuracy.inference_tables import CASES
from lookalike.errors import InputError
from lookalike.models.redraws import combine


def test_intervals_hold_as_often_as_they_say() -> None:
    """An estimate of private rows plus the noise of a release, and draws with further noise of the same size."""
    rng, tables, runs = np.random.default_rng(3), 5, 4000
    sampling, noise = 0.7, 1.3
    released = rng.normal(0.0, np.hypot(sampling, noise), runs)
    drawn = released + rng.normal(0.0, noise, (tables, runs))
    found = combine(drawn, np.full((tables, runs), sampling**2))
    held = np.mean((found.low <= 0) & (found.high >= 0))
    assert 0.92 <= held <= 0.97
    # Without the variance by noise, as of tables of one and the same model, they hold far too seldom.
    alone = np.mean(np.abs(drawn[0]) <= 1.96 * sampling)
    assert alone < 0.7


def test_agreeing_tables_leave_the_variance_of_sampling() -> None:
    found = combine([[2.0], [2.0]], [[0.25], [0.25]], rows_ratio=2.0)
    assert found.stderr == pytest.approx([0.5**0.5])
    assert found.high - found.estimate == pytest.approx([1.96 * 0.5**0.5], rel=1e-3)


@pytest.mark.parametrize(
    ("estimates", "variances", "options", "message"),
    [
        ([1.0], [1.0], {}, "two or more tables"),
        ([1.0, 2.0], [[1.0], [1.0]], {}, "shape"),
        ([1.0, np.nan], [1.0, 1.0], {}, "not a number"),
        ([1.0, 2.0], [1.0, -1.0], {}, "below 0"),
        ([1.0, 2.0], [1.0, 1.0], {"level": 95}, "level is 95"),
    ],
)
def test_what_cannot_be_combined_is_refused(estimates, variances, options, message) -> None:
    with pytest.raises(InputError, match=message):
        combine(estimates, variances, **options)


@pytest.mark.parametrize("method", ["mst", "mosaic", "independent", "aim"])
def test_draws_differ_as_the_noise_of_the_release_does(method) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 4000)
    table = pa.table({"a": codes, "b": (codes + rng.integers(0, 2, 4000)) % 3})
    release = lookalike.synthesize(table, schema={"a": 3, "b": 3}, epsilon=1.0, method=method, seed=1,
                                   insecure_rng=np.random.default_rng(2))  # fmt: skip
    counts = np.array([draw.model.marginal(("a",)) for draw in release.fitted.draws(40, seed=5)])
    noise = min(m.stddev for m in release.fitted.measurements if m.attrs == ("a",))
    assert 0.3 * noise < counts.std(axis=0).mean() < 1.5 * noise
    again = next(release.fitted.draws(1, seed=5)).model.marginal(("a",))
    np.testing.assert_array_equal(again, counts[0])


def test_models_that_are_not_fitted_to_counts_are_refused() -> None:
    table = pa.table({"a": [0, 1] * 200, "b": [0, 0, 1, 1] * 100})
    release = lookalike.synthesize(table, schema={"a": 2, "b": 2}, epsilon=1.0, method="privbayes", seed=1,
                                   insecure_rng=np.random.default_rng(2))  # fmt: skip
    with pytest.raises(InputError, match="choose mosaic, mst"):
        next(release.fitted.draws(2, seed=1))


def test_a_run_of_the_benchmark_covers_more_by_draws_than_by_one_table() -> None:
    case = CASES["patients, mst, epsilon 1"]
    truth, _ = inference.analysed(case, case.rows(200_000, np.random.default_rng(4)))
    runs = [inference.one_run(case, seed, truth, reproducible=True)["holds"] for seed in range(4)]
    held = {way: np.mean([run[way] for run in runs]) for way in inference.WAYS}
    assert held["private"] >= 0.8
    assert held["draws"] > held["one table"]
