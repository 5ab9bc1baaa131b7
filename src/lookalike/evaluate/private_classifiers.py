"""Private logistic regression trained on the real rows: what a method made for one task reaches (BSG, Table 4).

Both algorithms of Chaudhuri, Monteleoni and Sarwate (JMLR 2011): noise on the answer, and noise on the objective. They
satisfy pure epsilon-differential privacy for tables that differ in the values of one row (the number of rows is public)
*with exact arithmetic and a regularisation chosen without the data*. Here they are yardsticks: the noise is ordinary
floating point from a seeded generator, and `private_reference` picks the regularisation by looking at the data, as the
paper does. Results are NOT PRIVATE.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from lookalike.errors import InputError
from lookalike.evaluate.features import one_hot
from lookalike.schema.domain import Domain

_REGULARISATIONS = (1e-3, 1e-4, 1e-5, 1e-6)
_CURVATURE = 0.25
"""Largest second derivative of the logistic loss: the constant c of the paper."""


@dataclass(frozen=True, slots=True)
class PrivateReference:
    """Accuracies of logistic regressions on real test rows.

    Attributes:
        epsilon: what the two private ones may spend.
        regularisation: the value that serves the non-private one best.
        non_private: trained on real rows without noise.
        output_perturbation: noise added to the coefficients.
        objective_perturbation: noise added to the objective.
        synthetic: trained without further noise on synthetic rows.
    """

    epsilon: float
    regularisation: float
    non_private: float
    output_perturbation: float
    objective_perturbation: float
    synthetic: float


def logistic_regression(
    features: sparse.csr_matrix, signs: np.ndarray, regularisation: float, linear: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients w that minimise mean log(1 + exp(-y w.x)) + regularisation/2 |w|^2 + linear.w / n; y is -1 or 1."""
    n, width = features.get_shape()
    tilt = np.zeros(width) if linear is None else linear / n

    def loss_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (features @ weights)
        loss = np.logaddexp(0.0, -margins).mean() + regularisation / 2 * weights @ weights + tilt @ weights
        pull = -signs * expit(-margins) / n
        return float(loss), features.T @ pull + regularisation * weights + tilt

    found = minimize(loss_and_gradient, np.zeros(width), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return found.x


def output_perturbation(
    features: sparse.csr_matrix, signs: np.ndarray, regularisation: float, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Algorithm 1: the minimiser plus noise of density exp(-n regularisation epsilon |b| / 2), rows of norm <= 1.

    The minimiser moves by at most 2 / (n regularisation) when one row changes (Corollary 8).
    """
    n, width = features.get_shape()
    noise = _spherical_noise(width, 2.0 / (n * regularisation * epsilon), rng)
    return logistic_regression(features, signs, regularisation) + noise


def objective_perturbation(
    features: sparse.csr_matrix, signs: np.ndarray, regularisation: float, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Algorithm 2: the minimiser of the objective plus b.w / n, density of b exp(-epsilon' |b| / 2), rows of norm <= 1.

    epsilon' = epsilon - ln(1 + 2c/(n r) + c^2/(n r)^2); where that is not positive the regularisation r is raised so
    that half of epsilon is left (Theorem 9).
    """
    n, width = features.get_shape()
    ratio = _CURVATURE / (n * regularisation)
    left = epsilon - 2.0 * np.log1p(ratio)
    if left <= 0:
        regularisation = max(regularisation, _CURVATURE / (n * np.expm1(epsilon / 4.0)))
        left = epsilon / 2.0
    return logistic_regression(features, signs, regularisation, _spherical_noise(width, 2.0 / left, rng))


def private_reference(
    real_train: np.ndarray,
    synth: np.ndarray,
    test: np.ndarray,
    domain: Domain,
    target: str,
    *,
    epsilon: float = 1.0,
    positive: int = 1,
    seed: int = 0,
) -> PrivateReference:
    """Accuracies of non-private, private and synthetic-trained logistic regression (BSG, Table 4).

    The target is whether `target` has code `positive`. One-hot features, every row scaled to norm 1. Regularisation
    is the best of 1e-3..1e-6 for the non-private classifier, 'optimistically', as in BSG section 6.3.
    """
    if not epsilon > 0:
        raise InputError(f"Epsilon {epsilon} is not positive; give for instance 1.")
    position = domain.position(target)

    def prepared(codes: np.ndarray) -> tuple[sparse.csr_matrix, np.ndarray]:
        features = one_hot(codes, domain, without=target) / np.sqrt(max(1, len(domain) - 1))
        return sparse.csr_matrix(features), np.where(codes[:, position] == positive, 1.0, -1.0)

    (features, signs), (asked, truth) = prepared(real_train), prepared(test)

    def accuracy(weights: np.ndarray) -> float:
        return float(np.mean(np.where(asked @ weights > 0, 1.0, -1.0) == truth))

    tried = {r: accuracy(logistic_regression(features, signs, r)) for r in _REGULARISATIONS}
    best = max(tried, key=lambda r: tried[r])
    rng = np.random.default_rng([seed, 19])
    return PrivateReference(
        epsilon=epsilon,
        regularisation=best,
        non_private=tried[best],
        output_perturbation=accuracy(output_perturbation(features, signs, best, epsilon, rng)),
        objective_perturbation=accuracy(objective_perturbation(features, signs, best, epsilon, rng)),
        synthetic=accuracy(logistic_regression(*prepared(synth), best)),
    )


def _spherical_noise(width: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """A vector of density proportional to exp(-|b| / scale): a uniform direction, a Gamma(width, scale) length."""
    direction = rng.normal(size=width)
    return direction / np.linalg.norm(direction) * rng.gamma(width, scale)
