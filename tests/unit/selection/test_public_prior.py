"""The trust in a public table follows from noisy counts: it is right without bias, and gone with it."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import Contrasts, NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.schema.domain import Domain, counted
from lookalike.selection.public_prior import MIN_WEIGHT, Comparison, PublicCounts, effective_rows, with_public

DOMAIN = Domain(("a", "b", "c", "d"), (3, 3, 4, 2))
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"))
N = 20_000


def drawn(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of a chain: each column mostly follows the one before."""
    a = rng.choice(3, rows, p=(0.6, 0.3, 0.1))
    b = np.where(rng.random(rows) < 0.7, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.6, b + 1, rng.integers(0, 4, rows))
    d = np.where(rng.random(rows) < 0.8, c > 1, rng.integers(0, 2, rows))
    return np.column_stack([a, b, c, d]).astype(np.int32)


def noisy(attrs: tuple[str, ...], codes: np.ndarray, stddev: float, rng: np.random.Generator) -> NoisyMarginal:
    counts = counted(DOMAIN, codes, attrs)
    return NoisyMarginal(attrs, counts + rng.normal(0, stddev, counts.shape), stddev)


def measured(codes: np.ndarray, stddev: float, rng: np.random.Generator) -> list[NoisyMarginal]:
    return [noisy(attrs, codes, stddev, rng) for attrs in (*((name,) for name in DOMAIN.names), *PAIRS)]


def distance(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.abs(one / one.sum() - two / two.sum()).sum() / 2)


@pytest.mark.parametrize("rows", [200, 2000])
def test_effective_rows_are_the_rows_of_an_unbiased_table(rows: int) -> None:
    rng = np.random.default_rng(0)
    compared: list[Comparison] = []
    for _ in range(40):
        private, public = drawn(N, rng), drawn(rows, rng)
        tables = [N / rows * counted(DOMAIN, public, attrs) for attrs in PAIRS]
        compared += [Comparison.of(noisy(a, private, 30.0, rng), table) for a, table in zip(PAIRS, tables, strict=True)]
    # The private rows are a sample as well: 1 / rows + 1 / N.
    assert effective_rows(compared, N) == pytest.approx(1 / (1 / rows + 1 / N), rel=0.25)


def test_noise_alone_does_not_make_rows_out_of_nothing() -> None:
    noise = np.random.default_rng(1).normal(0, 50.0, (3, 3))
    same = Comparison.of(NoisyMarginal(("a", "b"), 1000.0 + noise, 50.0), np.full((3, 3), 1000.0))
    assert effective_rows([same], 77.0) <= 77.0


def test_contrasts_are_compared_in_what_they_measure() -> None:
    counts = np.array([[40.0, 10.0], [10.0, 40.0]])
    contrasts = NoisyMarginal(("a", "d"), Contrasts((2, 2)).of(counts), 1.0, contrasts=(2, 2))
    wider = counts + np.array([[50.0, 50.0], [0.0, 0.0]])  # another share of `a`, the same dependence
    assert Comparison.of(contrasts, wider).difference == pytest.approx(np.zeros((2, 2)))


def test_the_mean_is_better_than_either_side() -> None:
    rng = np.random.default_rng(2)
    errors = np.zeros(3)
    for _ in range(60):
        private, public = drawn(N, rng), drawn(400, rng)
        counts = N / 400 * counted(DOMAIN, public, ("a", "b"))
        one = Comparison.of(noisy(("a", "b"), private, 250.0, rng), counts)
        truth = counted(DOMAIN, private, ("a", "b"))
        mean = one.averaged(one.spread / 400)
        assert mean.stddev < 250.0
        errors += [np.square(values - truth).sum() for values in (one.measured.values, counts, mean.values)]
    assert errors[2] < 0.8 * min(errors[:2])


def test_an_unbiased_table_helps_also_where_nothing_was_measured() -> None:
    rng = np.random.default_rng(3)
    private, public = drawn(N, rng), drawn(4000, rng)
    known = measured(private, 400.0, rng)
    own = fit(DOMAIN, known)
    found = with_public(own, known, public, {})
    assert found.weight > 0.5
    assert "was used" in found.note
    for attrs in (("a", "c"), ("a", "b", "c"), ("b",)):
        truth = counted(DOMAIN, private, attrs)
        assert distance(found.model.marginal(attrs), truth) < distance(own.marginal(attrs), truth)
    assert found.model.sample(50, rng).shape == (50, 4)


@pytest.mark.parametrize("kind", ["shuffled", "reversed"])
def test_a_badly_biased_table_leaves_the_model_alone(kind: str) -> None:
    rng = np.random.default_rng(4)
    private, public = drawn(N, rng), drawn(4000, rng)
    for i, size in enumerate(DOMAIN.sizes):
        public[:, i] = rng.permutation(public[:, i]) if kind == "shuffled" else (size - 1 - public[:, i]) * (i % 2)
    known = measured(private, 60.0, rng)
    own = fit(DOMAIN, known)
    found = with_public(own, known, public, {})
    assert found.model is own
    assert found.weight < MIN_WEIGHT
    assert "was not used" in found.note


def test_one_biased_column_is_corrected_and_harms_no_other() -> None:
    rng = np.random.default_rng(5)
    private, public = drawn(N, rng), drawn(4000, rng)
    public = public[(public[:, 3] == 0) | (rng.random(4000) < 0.3)]  # too few rows with d = 1
    known = measured(private, 100.0, rng)
    counts = PublicCounts(public, fit(DOMAIN, known), known[:4], {}, 0.1)
    truth = counted(DOMAIN, private, ("d",))
    assert distance(counts.marginal(("d",)), truth) < 0.2 * distance(counted(DOMAIN, public, ("d",)), truth)
    assert counts.columns[0].stddev < 100.0  # a column that follows the others still gains


def test_without_measured_sets_nothing_is_compared() -> None:
    rng = np.random.default_rng(6)
    known = measured(drawn(N, rng), 60.0, rng)[:4]
    own = fit(DOMAIN, known)
    assert with_public(own, known, drawn(100, rng), {}).model is own
