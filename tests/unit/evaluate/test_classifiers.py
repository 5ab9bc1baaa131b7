"""Classifiers learn what can be learnt and nothing from noise, and say how to install what they need."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from lookalike.errors import InputError, MissingExtraError
from lookalike.evaluate.classifiers import (
    classifier_results,
    distinguishing_game,
    features_of,
    logistic_regression,
    objective_perturbation,
    output_perturbation,
    private_reference,
    svm_errors,
    thinned,
)
from lookalike.schema.domain import Domain

DOMAIN = Domain(("x", "y", "noise"), (4, 2, 3))


def learnable(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, rows)
    y = (x >= 2) ^ (rng.random(rows) < 0.1)
    return np.column_stack([x, y, rng.integers(0, 3, rows)]).astype(np.int32)


def shuffled(codes: np.ndarray, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.permutation(column) for column in codes.T])


def test_features_have_one_feature_per_value():
    codes = np.array([[3, 1, 0], [0, 0, 2]])
    np.testing.assert_array_equal(
        features_of(codes, DOMAIN, without="y").toarray(), [[0, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0, 1]]
    )
    assert features_of(codes, DOMAIN).sum() == 6


def test_thinned_keeps_rows_of_the_table():
    codes = np.arange(20).reshape(10, 2)
    few = thinned(codes, 4, seed=0)
    assert len(few) == 4
    assert {tuple(row) for row in few.tolist()} <= {tuple(row) for row in codes.tolist()}
    assert thinned(codes, None, 0) is codes


def test_svm_learns_the_rule_and_not_the_noise():
    pytest.importorskip("sklearn")
    errors = svm_errors(learnable(2000, 0), learnable(1000, 1), DOMAIN)
    assert errors["y"] == pytest.approx(0.1, abs=0.04)
    assert errors["noise"] == pytest.approx(2 / 3, abs=0.1)
    one_value = learnable(50, 0)
    one_value[:, 1] = 1
    test = learnable(100, 1)
    assert svm_errors(one_value, test, DOMAIN, ["y"]) == {"y": pytest.approx(np.mean(test[:, 1] != 1))}


def test_accuracy_and_agreement():
    pytest.importorskip("sklearn")
    real, test = learnable(1000, 0), learnable(1000, 1)
    for result in classifier_results(real, learnable(1000, 2), test, DOMAIN, "y"):
        assert result.accuracy_real == pytest.approx(0.9, abs=0.04)
        assert result.accuracy_synth == pytest.approx(0.9, abs=0.04)
        assert result.agreement > 0.9
    for result in classifier_results(real, shuffled(real), test, DOMAIN, "y"):
        assert result.accuracy_synth < 0.75
        assert result.majority == pytest.approx(0.5, abs=0.1)
    with pytest.raises(InputError, match="one column"):
        classifier_results(real[:, :1], real[:, :1], test[:, :1], Domain(("x",), (4,)), "x")


def test_distinguishing_game_tells_shuffled_rows_and_not_fresh_ones():
    pytest.importorskip("sklearn")
    real = learnable(1500, 0)
    assert all(abs(accuracy - 0.5) < 0.08 for accuracy in distinguishing_game(real, learnable(1500, 3)).values())
    assert all(accuracy > 0.6 for accuracy in distinguishing_game(real, shuffled(real)).values())
    with pytest.raises(InputError, match="at least 4"):
        distinguishing_game(real[:3], real)


def test_missing_extra_says_how_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lookalike\[evaluate\]'"):
        svm_errors(learnable(10, 0), learnable(10, 1), DOMAIN)


def test_logistic_regression_minimises_the_objective():
    rng = np.random.default_rng(0)
    features, signs = sparse.csr_matrix(rng.random((40, 3))), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    tilt = rng.normal(size=3)

    def objective(w: np.ndarray) -> float:
        return float(np.mean(np.log1p(np.exp(-signs * (features @ w)))) + 0.05 * w @ w + tilt @ w / 40)

    expected = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
    np.testing.assert_allclose(logistic_regression(features, signs, 0.1, tilt), expected.x, atol=1e-4)


def test_perturbations_shrink_with_epsilon_and_have_the_stated_length():
    rng = np.random.default_rng(1)
    features, signs = sparse.csr_matrix(rng.random((500, 4)) / 2), np.where(rng.random(500) < 0.5, 1.0, -1.0)
    plain = logistic_regression(features, signs, 0.01)
    lengths = [np.linalg.norm(output_perturbation(features, signs, 0.01, 2.0, rng) - plain) for _ in range(300)]
    # The length is Gamma distributed with shape 4 and scale 2 / (n r epsilon) = 0.2.
    assert np.mean(lengths) == pytest.approx(0.8, rel=0.2)
    np.testing.assert_allclose(objective_perturbation(features, signs, 0.01, 1e6, rng), plain, atol=0.01)
    assert np.linalg.norm(objective_perturbation(features, signs, 1e-6, 0.1, rng)) < 1e4


def test_private_reference_orders_as_expected():
    real, test = learnable(3000, 0), learnable(2000, 1)
    found = private_reference(real, learnable(3000, 2), test, DOMAIN, "y", epsilon=5.0)
    assert found.non_private == pytest.approx(0.9, abs=0.03)
    assert found.synthetic == pytest.approx(0.9, abs=0.03)
    assert found.objective_perturbation > 0.7
    with pytest.raises(InputError, match="not positive"):
        private_reference(real, real, test, DOMAIN, "y", epsilon=0)
