"""Classifiers trained on synthetic rows, or privately on real ones, and tested on real rows. NOT PRIVATE.

Needs scikit-learn, from the extra `evaluate`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from lookalike.errors import InputError, MissingExtraError
from lookalike.schema.domain import Domain, one_hot


def sklearn_module(name: str) -> ModuleType:
    """Return the module `sklearn.<name>`, or raise an error that says how to install it."""
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError:
        raise MissingExtraError("scikit-learn", "evaluate", "Evaluation by classifiers") from None


def features_of(codes: np.ndarray, domain: Domain, *, without: str | None = None) -> sparse.csr_matrix:
    """Return one 0/1 feature for each value of every column except `without`."""
    kept = [i for i, name in enumerate(domain.names) if name != without]
    return one_hot(codes[:, kept], [domain.sizes[i] for i in kept]).astype(np.float64)


def without_column(codes: np.ndarray, domain: Domain, target: str) -> np.ndarray:
    """Return the codes of all columns but `target`: the features of trees, which split codes by their order."""
    return np.delete(codes, domain.position(target), axis=1)


def thinned(codes: np.ndarray, max_rows: int | None, seed: int) -> np.ndarray:
    """Return at most `max_rows` random rows."""
    if max_rows is None or len(codes) <= max_rows:
        return codes
    return codes[np.random.default_rng([seed, 13]).choice(len(codes), max_rows, replace=False)]


def svm_errors(
    train: np.ndarray,
    test: np.ndarray,
    domain: Domain,
    targets: Iterable[str] | None = None,
    *,
    max_rows: int | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Return for each target the error rate on `test` of a linear SVM trained on `train`.

    All other columns are one-hot features; one against the rest, squared hinge loss, C = 1. The paper of PrivMRF names
    neither kernel nor loss, so its figures cannot be compared with these.

    Args:
        train: codes to train on, for instance synthetic ones.
        test: real codes that were not synthesised.
        domain: names and sizes of the columns.
        targets: columns to predict; all by default.
        max_rows: maximum number of rows to train on, drawn at random.
        seed: seed of that choice.
    """
    svm = sklearn_module("svm")
    train = thinned(train, max_rows, seed)
    errors = {}
    for target in domain.names if targets is None else targets:
        position = domain.position(target)
        labels, truth = train[:, position], test[:, position]
        if len(np.unique(labels)) < 2:
            errors[target] = float(np.mean(truth != labels[0]))
            continue
        model = svm.LinearSVC(dual=False, tol=1e-3, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(features_of(train, domain, without=target), labels)
        errors[target] = float(np.mean(model.predict(features_of(test, domain, without=target)) != truth))
    return errors


@dataclass(frozen=True, slots=True)
class ClassifierResult:
    """One classifier, trained on real and on synthetic rows, tested on the same real rows (BSG, Table 3).

    Attributes:
        name: tree, forest or boosting.
        accuracy_real: accuracy when trained on real rows.
        accuracy_synth: accuracy when trained on synthetic rows.
        agreement: share of rows for which the two predict the same, right or wrong.
        majority: accuracy of always predicting the commonest value of the real training rows.
    """

    name: str
    accuracy_real: float
    accuracy_synth: float
    agreement: float
    majority: float


def classifier_results(
    real_train: np.ndarray,
    synth: np.ndarray,
    test: np.ndarray,
    domain: Domain,
    target: str,
    *,
    max_rows: int | None = 50_000,
    seed: int = 0,
) -> list[ClassifierResult]:
    """Return accuracy and agreement of a tree, a random forest and boosted stumps for `target` (BSG, Table 3).

    Args:
        real_train: the rows that were synthesised.
        synth: the synthetic rows.
        test: real rows that were not synthesised; on rows of `real_train` the accuracy would be too high.
        domain: names and sizes of the columns.
        target: the column to predict.
        max_rows: maximum number of rows of each table to train on.
        seed: seed of the classifiers and of the choice of rows.
    """
    position = domain.position(target)
    if len(domain) < 2:
        raise InputError("The table has one column; classifiers need at least one besides the target.")
    truth, features = test[:, position], without_column(test, domain, target)
    commonest = np.bincount(real_train[:, position]).argmax()
    results = []
    for name, make in _classifiers(seed).items():
        answers = []
        for table in (thinned(real_train, max_rows, seed), thinned(synth, max_rows, seed)):
            answers.append(_answers(make, without_column(table, domain, target), table[:, position], features))
        pairs = ((answers[0], truth), (answers[1], truth), answers, (truth, commonest))
        results.append(ClassifierResult(name, *(float(np.mean(one == other)) for one, other in pairs)))
    return results


def distinguishing_game(
    real: np.ndarray, synth: np.ndarray, *, max_rows: int = 50_000, seed: int = 0
) -> dict[str, float]:
    """Return how often a tree and a forest distinguish real from synthetic rows (BSG, Table 5): 0.5 is guessing.

    The same number of rows is taken from both tables, half of them for training and half for the test.
    """
    rows = min(len(real), len(synth), max_rows)
    if rows < 4:
        raise InputError(f"The distinguishing game needs at least 4 rows of each table; there are {rows}.")
    rng = np.random.default_rng([seed, 17])
    half = rows // 2
    parts = [table[rng.choice(len(table), 2 * half, replace=False)] for table in (real, synth)]
    train, test = (np.concatenate([part[cut] for part in parts]) for cut in (slice(half), slice(half, None)))
    labels = np.repeat([0, 1], half)
    makers = {name: make for name, make in _classifiers(seed).items() if name != "boosting"}
    return {name: float(np.mean(_answers(make, train, labels, test) == labels)) for name, make in makers.items()}


def _classifiers(seed: int) -> dict[str, Callable[[], object]]:
    tree, ensemble = sklearn_module("tree"), sklearn_module("ensemble")
    return {
        # Leaves need some rows each: on wide tables a tree without limits memorises its training rows.
        "tree": lambda: tree.DecisionTreeClassifier(min_samples_leaf=10, random_state=seed),
        "forest": lambda: ensemble.RandomForestClassifier(n_estimators=50, min_samples_leaf=2, random_state=seed),
        "boosting": lambda: ensemble.AdaBoostClassifier(n_estimators=50, random_state=seed),
    }


def _answers(make: Callable[[], object], features: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    if len(np.unique(labels)) < 2:
        return np.full(len(asked), labels[0])
    model = make()
    model.fit(features, labels)  # pyright: ignore[reportAttributeAccessIssue]
    return model.predict(asked)  # pyright: ignore[reportAttributeAccessIssue]


_REGULARISATIONS = (1e-3, 1e-4, 1e-5, 1e-6)
_CURVATURE = 0.25
"""The largest second derivative of the logistic loss: the constant c of Chaudhuri, Monteleoni and Sarwate (2011)."""


@dataclass(frozen=True, slots=True)
class PrivateReference:
    """Accuracies of logistic regressions on real test rows.

    Attributes:
        epsilon: budget of each of the two private ones.
        regularisation: the value with the best accuracy of the non-private one.
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
    """Return the w that minimise mean log(1 + exp(-y w.x)) + regularisation/2 |w|^2 + linear.w / n; y is -1 or 1."""
    n, width = features.get_shape()
    tilt = np.zeros(width) if linear is None else linear / n

    def loss_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (features @ weights)
        loss = np.logaddexp(0.0, -margins).mean() + regularisation / 2 * weights @ weights + tilt @ weights
        slopes = -signs * expit(-margins) / n
        return float(loss), features.T @ slopes + regularisation * weights + tilt

    found = minimize(loss_and_gradient, np.zeros(width), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return found.x


def output_perturbation(
    features: sparse.csr_matrix, signs: np.ndarray, regularisation: float, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the minimiser plus noise of density exp(-n regularisation epsilon |b| / 2), for rows of norm <= 1.

    Algorithm 1 of Chaudhuri, Monteleoni and Sarwate (2011). When one row changes, the minimiser moves by at most
    2 / (n regularisation) (Corollary 8).
    """
    n, width = features.get_shape()
    noise = _spherical_noise(width, 2.0 / (n * regularisation * epsilon), rng)
    return logistic_regression(features, signs, regularisation) + noise


def objective_perturbation(
    features: sparse.csr_matrix, signs: np.ndarray, regularisation: float, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the minimiser of the objective plus b.w / n, b of density exp(-epsilon' |b| / 2), for rows of norm <= 1.

    Algorithm 2 of the same paper: epsilon' = epsilon - ln(1 + 2c/(n r) + c^2/(n r)^2). If that is not positive, the
    regularisation r is raised until half of epsilon is left (Theorem 9).
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
    """Return accuracies of logistic regression: non-private, private, and trained on synthetic rows (BSG, Table 4).

    It predicts whether `target` has code `positive`, from one-hot features; every row is scaled to norm 1. As in BSG,
    section 6.3, regularisation is the best of 1e-3..1e-6 for the non-private classifier, which is optimistic.
    """
    if not epsilon > 0:
        raise InputError(f"Epsilon {epsilon} is not positive; give for instance 1.")
    position = domain.position(target)

    def prepared(codes: np.ndarray) -> tuple[sparse.csr_matrix, np.ndarray]:
        features = features_of(codes, domain, without=target) / np.sqrt(max(1, len(domain) - 1))
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
    """Return a vector of density proportional to exp(-|b| / scale): uniform direction, Gamma(width, scale) length."""
    direction = rng.normal(size=width)
    return direction / np.linalg.norm(direction) * rng.gamma(width, scale)
