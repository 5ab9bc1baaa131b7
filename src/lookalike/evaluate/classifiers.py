"""Classifiers trained on synthetic rows, tested on real ones (needs the `evaluate` extra). NOT PRIVATE.

SVM per attribute as in PrivMRF (section 5.1), trees, forests and boosting with agreement rates as in BSG (Table 3),
and the distinguishing game (Table 5).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from lookalike.errors import InputError
from lookalike.evaluate.features import one_hot, sklearn_module, thinned, without_column
from lookalike.schema.domain import Domain


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
