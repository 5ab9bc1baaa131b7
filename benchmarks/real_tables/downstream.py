"""AUC of gradient boosting that is trained on synthetic rows and tested on real rows that no run saw.

Targets: `income` of adult is `>50K`; `cens` of ACTG175 is 1; a flight of nycflights13 is late, which is `arr_delay`
above 0, predicted without `dep_delay`, `dep_time` and `arr_time`, since these times and the schedule give the delay
away. A fifth of the rows, drawn with a fixed seed, is for testing; rows without a target are left out of both parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.real_tables.kinds import Table, column_of, number_of

SPLIT_SEED = 20_261_116
MAX_VALUES = 200


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted.

    Attributes:
        column: the column that holds it.
        positive: whether a text of it is the event.
        without: columns that are not used to predict.
    """

    column: str
    positive: Callable[[str], bool]
    without: tuple[str, ...] = ()


TARGETS = {
    "adult": Target("income", lambda text: text.strip() == ">50K"),
    "actg": Target("cens", lambda text: number_of(text) == 1),
    "flights": Target("arr_delay", lambda text: number_of(text) > 0, ("dep_delay", "dep_time", "arr_time")),
}


def split(real: Table) -> tuple[Table, Table]:
    """Four fifths of the rows for training, the others for testing."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(next(iter(real.values()))))
    cut = len(order) // 5
    return _rows(real, np.sort(order[cut:])), _rows(real, np.sort(order[:cut]))


def _rows(table: Table, chosen: np.ndarray) -> Table:
    return {name: texts[chosen] for name, texts in table.items()}


class Features:
    """Numbers of a table for the classifier, by the kinds and frequent values of the real training rows."""

    def __init__(self, train: Table, target: Target) -> None:
        self.target = target
        self.known: dict[str, list[str]] = {}
        self.kinds: dict[str, str] = {}
        for name in (name for name in train if name not in (target.column, *target.without)):
            kind = column_of(train[name]).kind
            if kind in ("number", "time"):
                self.kinds[name] = kind
            elif kind != "text":
                self.known[name] = list(pd.Series(train[name]).value_counts().index[:MAX_VALUES])

    def of(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Features, and the target, of the rows that have one."""
        table = _rows(table, ~column_of(table[self.target.column]).missing)
        parts = [column_of(table[name], kind).values for name, kind in self.kinds.items()]
        for name, values in self.known.items():
            codes = pd.Index(values).get_indexer(pd.Index(table[name]))
            parts.append(np.where(codes < 0, np.nan, codes))
        return np.column_stack(parts), np.array(
            [self.target.positive(text) for text in table[self.target.column]], dtype=bool
        )

    @property
    def categorical(self) -> Any:
        """Which features are codes of categories."""
        return [False] * len(self.kinds) + [True] * len(self.known)


def auc(train: Table, made: Table, test: Table, target: Target) -> float | None:
    """AUC on `test` of a classifier trained on `made`; None where the synthetic target is constant."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = Features(train, target)
    inputs, wanted = features.of(made)
    if wanted.all() or not wanted.any():
        return None
    model = HistGradientBoostingClassifier(categorical_features=features.categorical, random_state=0)
    seen, truth = features.of(test)
    return round(float(roc_auc_score(truth, model.fit(inputs, wanted).predict_proba(seen)[:, 1])), 4)
