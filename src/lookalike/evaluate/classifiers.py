"""Classifiers trained on synthetic rows, or privately on real ones, and tested on real rows. NOT PRIVATE.

Needs the `evaluate` extra; `sklearn_module` is the one place that looks for scikit-learn.
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
from lookalike.schema.domain import Domain


def sklearn_module(name: str) -> ModuleType:
    """The module `sklearn.<name>`, or an error that says how to install it."""
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError:
        raise MissingExtraError("scikit-learn", "evaluate", "Judging by classifiers") from None


def one_hot(codes: np.ndarray, domain: Domain, *, without: str | None = None) -> sparse.csr_matrix:
    """One 0/1 feature per value of every column except `without`; exactly one 1 per row and column."""
    kept = [i for i, name in enumerate(domain.names) if name != without]
    sizes = [domain.sizes[i] for i in kept]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    indices = (codes[:, kept] + offsets[:-1]).astype(np.int32).ravel()
    starts = np.arange(0, indices.size + 1, max(1, len(kept)), dtype=np.int32)
    values = np.ones(indices.size, dtype=np.float64)
    return sparse.csr_matrix((values, indices, starts), shape=(len(codes), int(offsets[-1])))


def without_column(codes: np.ndarray, domain: Domain, target: str) -> np.ndarray:
    """The codes of all columns but `target`: features of trees, which split codes by order."""
    return np.delete(codes, domain.position(target), axis=1)


def thinned(codes: np.ndarray, max_rows: int | None, seed: int) -> np.ndarray:
    """At most `max_rows` random rows."""
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
    """Share of wrong answers by target, of a linear SVM trained on `train` and asked about `test`.

    Every column is the target once, all others are one-hot features; one against the rest, squared hinge loss, C = 1.
    PrivMRF names neither kernel nor loss, so compare methods by this function, not with the paper's figures.

    Args:
        train: codes to train on, for instance synthetic ones.
        test: real codes that were not synthesised.
        domain: names and sizes of the columns.
        targets: columns to predict; all by default.
        max_rows: train on at most this many random rows.
        seed: of that choice.
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
            model.fit(one_hot(train, domain, without=target), labels)
        errors[target] = float(np.mean(model.predict(one_hot(test, domain, without=target)) != truth))
    return errors


@dataclass(frozen=True, slots=True)
class ClassifierResult:
    """One classifier, trained on real and on synthetic rows, asked about the same unseen real rows (BSG, Table 3).

    Attributes:
        name: tree, forest or boosting.
        accuracy_real: share of right answers when trained on real rows.
        accuracy_synth: share of right answers when trained on synthetic rows.
        agreement: share of rows where the two give the same answer, right or wrong.
        majority: share of right answers of always naming the real training rows' commonest value.
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
    """Accuracy and agreement of a tree, a random forest and boosted stumps that predict `target` (BSG, Table 3).

    Args:
        real_train: the rows that were synthesised.
        synth: the synthetic rows.
        test: real rows that were not synthesised; with the training rows themselves, accuracies on real are too high.
        domain: names and sizes of the columns.
        target: the column to predict.
        max_rows: train on at most this many rows of either table.
        seed: of the classifiers and of that choice.
    """
    position = domain.position(target)
    if len(domain) < 2:
        raise InputError("Classifiers need a column besides the target; this table has one column.")
    truth, features = test[:, position], without_column(test, domain, target)
    commonest = np.bincount(real_train[:, position]).argmax()
    results = []
    for name, make in _classifiers(seed).items():
        answers = []
        for table in (thinned(real_train, max_rows, seed), thinned(synth, max_rows, seed)):
            answers.append(_answers(make, without_column(table, domain, target), table[:, position], features))
        real_answers, synth_answers = answers
        results.append(
            ClassifierResult(
                name=name,
                accuracy_real=float(np.mean(real_answers == truth)),
                accuracy_synth=float(np.mean(synth_answers == truth)),
                agreement=float(np.mean(real_answers == synth_answers)),
                majority=float(np.mean(truth == commonest)),
            )
        )
    return results


def distinguishing_game(
    real: np.ndarray, synth: np.ndarray, *, max_rows: int = 50_000, seed: int = 0
) -> dict[str, float]:
    """How often a tree and a forest tell real rows from synthetic ones (BSG, Table 5): 0.5 is a pure guess, 1 always.

    Both tables give the same number of rows, half of them for training and half for the test.
    """
    rows = min(len(real), len(synth), max_rows)
    if rows < 4:
        raise InputError(f"The game needs at least 4 rows of each table; there are {rows}.")
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
        # Leaves of some rows: on wide tables a tree grown to the end learns its rows by heart.
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
